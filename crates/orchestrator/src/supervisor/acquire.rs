//! How a run is acquired, and which commands it gets at once, given why it is wanted and what its
//! row, its log and its parent say. Must not know where these were read.

use windlass_core::RunStatus;
use windlass_core::event::After;
use windlass_core::run::Run;

use crate::shard::AcquireMode;

/// What was read of a run that a process acquires.
#[derive(Clone, Copy, Debug)]
pub struct LoadedRunFacts<'a> {
    /// Why it is wanted.
    pub wanted: AcquireMode,
    /// Its state.
    pub run: &'a Run,
    /// What its row says.
    pub asleep: bool,
    /// Whether its last record is this process's own.
    pub wrote_last: bool,
    /// Whether its workflow's newest version has another graph.
    pub outdated: bool,
    /// The run that started it, if there is one and it can be read.
    pub parent: Option<&'a Run>,
}

/// How a run is acquired, and which commands it gets then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquisition {
    /// How it is given to the shard.
    pub mode: AcquireMode,
    /// Whether it gets the command to follow the newest version.
    pub heals: bool,
    /// Whether it is cancelled: its parent gave it up, and died before it could send the command.
    pub orphaned: bool,
}

/// Decides how a run is acquired.
pub fn acquire(found: LoadedRunFacts<'_>) -> Acquisition {
    let acquired = found.wanted != AcquireMode::ForCommand;
    let heals = acquired && found.outdated && found.run.can_heal();
    Acquisition {
        mode: mode(found, heals),
        heals,
        orphaned: acquired && is_orphaned(found.run, found.parent),
    }
}

fn mode(found: LoadedRunFacts<'_>, heals: bool) -> AcquireMode {
    let LoadedRunFacts { run, wanted, .. } = found;
    let begun = run.status() != RunStatus::Pending;
    if heals && begun && !found.asleep {
        // The command to heal recovers it, before anything of the old graph is handed out.
        return AcquireMode::ForCommand;
    }
    match wanted {
        AcquireMode::Recover(After::Requeue) => wanted,
        _ if found.asleep => AcquireMode::of_sleeper(run, found.wrote_last),
        AcquireMode::Wake if run.is_asleep() => AcquireMode::of_sleeper(run, found.wrote_last),
        AcquireMode::Wake => AcquireMode::RECOVER,
        wanted => wanted,
    }
}

/// Whether a run was started by one that does not wait for it any more. A run that is being
/// undone does not count: its parent need not have it as an open child.
fn is_orphaned(run: &Run, parent: Option<&Run>) -> bool {
    !run.status().is_final()
        && run.undo().is_none()
        && parent.is_some_and(|parent| parent.node_of_child(run.id()).is_none())
}
