//! How a run is acquired, given how it is wanted and what its row says.

use windlass_core::RunStatus;
use windlass_core::event::After;
use windlass_core::run::Run;

use crate::shard::Adoption;

/// How a run is acquired. `asleep` is what its row says, `wrote_last` whether its last record
/// is this process's own, `heals` whether it has to follow a newer version: then the command
/// to heal recovers it, before anything of the old graph is handed out.
pub fn acquire_mode(
    wanted: Adoption,
    run: &Run,
    asleep: bool,
    wrote_last: bool,
    heals: bool,
) -> Adoption {
    let begun = run.status() != RunStatus::Pending;
    if heals && begun && !asleep {
        return Adoption::Hold;
    }
    match wanted {
        Adoption::Recover(After::Requeue) => wanted,
        _ if asleep => Adoption::of_sleeper(run, wrote_last),
        Adoption::Wake if run.is_asleep() => Adoption::of_sleeper(run, wrote_last),
        Adoption::Wake => Adoption::RECOVER,
        wanted => wanted,
    }
}
