//! A shard whose runs belong to partitions: what may be appended under a lease, which run an
//! effect is about, and runs that are dropped because another process executes them.

use windlass_core::RunId;
use windlass_core::run::Refusal;
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
        let Some(slot) = self.slots.remove(&run) else {
            return false;
        };
        self.broken.insert(run);
        self.leave_lines(run, &slot);
        true
    }
}

/// Whether a process may tell the caller of a command what its run answered. A success rests on a
/// durable record. A refusal holds only under the lease: the next owner may have carried out the
/// same request since, so the caller is referred to it.
pub fn may_answer(result: &Result<(), Refusal>, may_work: bool) -> bool {
    result.is_ok() || may_work
}

impl Effect {
    /// Whether it acts for its run outside the shard: it waits while the process may not work on
    /// the run, and behind such an effect of the same run that waits.
    pub fn acts(&self) -> bool {
        matches!(
            self,
            Self::Dispatch(_) | Self::Child { .. } | Self::Stop { .. }
        )
    }

    /// The run that it is about; none for slots, which several runs may ask for.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Dispatch(dispatch) => Some(dispatch.run),
            Self::Evaluate(evaluation) => Some(evaluation.run()),
            Self::Began { about, .. } => Some(about.run),
            Self::TakeSlots(_) | Self::GiveSlots(_) | Self::SlotsFreed(_) => None,
            Self::Answer { run, .. }
            | Self::Child { run, .. }
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
