//! What happened in a world, counted: by this one sees that faults do happen.

use windlass_core::event::Event as RunEvent;

/// What happened in a world, counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorldCounts {
    /// Events of the world's queue and deadlines.
    pub steps: u64,
    /// Runs with a log.
    pub runs: u64,
    /// Durable records.
    pub records: u64,
    /// Processes that died.
    pub crashes: u64,
    /// Attempts handed to workers.
    pub dispatches: u64,
    /// Appends that the fence refused.
    pub conflicts: u64,
    /// How often a process had to ask what became of an append.
    pub doubts: u64,
    /// Runs that were read again because another process wrote to them.
    pub reloads: u64,
    /// Child runs that were started.
    pub children: u64,
    /// How often a run was released to sleep.
    pub sleeps: u64,
    /// How often the world had to help a run that waited for a person.
    pub nudges: u64,
    /// Decisions that were evaluated elsewhere.
    pub evaluations: u64,
    /// How often a process died or lost a run.
    pub losses: u64,
    /// Graphs that were imported.
    pub imports: u64,
    /// Runs that reuse results of another.
    pub forks: u64,
    /// How often a user retried or skipped a compensation.
    pub undo_hands: u64,
    /// Children that went on after their parent had ended, because it could not say so.
    pub forgotten: u64,
    /// Partitions that a process handed over.
    pub hand_overs: u64,
    /// How often a process was stopped for a while.
    pub pauses: u64,
    /// How often a process lost its session, with all that it held.
    pub forfeits: u64,
    /// Wake-ups that were lost.
    pub lost_rings: u64,
    /// Commands that were offered to another process.
    pub offers: u64,
    /// Those whose caller got success, a refusal, and no answer.
    pub offers_taken: u64,
    /// See `offers_taken`.
    pub offers_refused: u64,
    /// See `offers_taken`.
    pub offers_unanswered: u64,
    /// Offers that another owner had begun to decide on, and was lost before it had.
    pub offers_passed_on: u64,
    /// Runs that were parked because their gate was full.
    pub parked: u64,
    /// Attempts that asked for slots and had to wait.
    pub slots_waited: u64,
    /// Places that an owner freed, and runs that it began because they had one.
    pub places_mended: u64,
}

impl WorldCounts {
    pub(crate) fn note(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Imported { .. } => self.imports += 1,
            RunEvent::Reused(_) => self.forks += 1,
            RunEvent::CompensationRetried { .. } | RunEvent::CompensationSkipped { .. } => {
                self.undo_hands += 1;
            }
            _ => {}
        }
    }
}
