//! A shard whose runs belong to partitions: what may be appended under a lease, which run an
//! effect is about, and runs that are dropped because another process executes them.

use windlass_core::RunId;
use windlass_store::Append;

use super::{Effect, Shard};

impl Shard {
    /// Like [`Shard::poll_append`], but only for runs that may be appended to; the others keep
    /// their records until they may, or are released.
    pub fn poll_append_of(&mut self, may_append: impl Fn(RunId) -> bool) -> Vec<Append> {
        let (mine, others) = std::mem::take(&mut self.dirty)
            .into_iter()
            .partition(|&run| may_append(run));
        self.dirty = mine;
        let batch = self.poll_append();
        self.dirty
            .extend::<std::collections::BTreeSet<RunId>>(others);
        batch
    }

    /// Drops a run, whatever it has in flight; `false` if it is not here. An attempt that was
    /// handed out and is not recorded is handed out again by the next process, or by this one
    /// after it has recovered the run.
    pub fn release(&mut self, run: RunId) -> bool {
        self.dirty.remove(&run);
        let held = self.slots.remove(&run).is_some();
        if held {
            self.broken.insert(run);
        }
        held
    }
}

impl Effect {
    /// The run that it is about; none for an answer, which only names a command.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Dispatch(dispatch) => Some(dispatch.run),
            Self::Evaluate(evaluation) => Some(evaluation.run()),
            Self::Began { about, .. } => Some(about.run),
            Self::Answer { .. } => None,
            Self::Child { run, .. }
            | Self::Checkpoint { run, .. }
            | Self::Asleep { run, .. }
            | Self::WakeParent { run }
            | Self::Stop { run, .. }
            | Self::Load { run, .. }
            | Self::Interrupt { run }
            | Self::Accepted { run }
            | Self::Held { run, .. }
            | Self::Progress { run, .. }
            | Self::ActiveChanged { run, .. }
            | Self::Finished { run, .. }
            | Self::ReadHead { run }
            | Self::Quarantined { run, .. }
            | Self::Fenced { run, .. }
            | Self::Broken { run, .. } => Some(*run),
        }
    }
}
