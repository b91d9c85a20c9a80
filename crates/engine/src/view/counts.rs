//! How many nodes of a run stand where.

use serde::Serialize;
use windlass_core::NodeStatus;
use windlass_core::run::Run;

/// Nodes by what they are. What is open (Queued, Running or Waiting for its next
/// attempt) counts as running; what waits for other nodes is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Ended well.
    pub succeeded: u32,
    /// Ended badly.
    pub failed: u32,
    /// Not chosen.
    pub skipped: u32,
    /// Behind a failure.
    pub blocked: u32,
    /// Let go.
    pub cancelled: u32,
    /// Queued, Running or Waiting.
    pub running: u32,
    /// Not yet reached.
    pub pending: u32,
}

impl Counts {
    /// The counts of a run.
    pub fn of(run: &Run) -> Self {
        Self {
            succeeded: run.count(NodeStatus::Succeeded),
            failed: run.count(NodeStatus::Failed),
            skipped: run.count(NodeStatus::Skipped),
            blocked: run.count(NodeStatus::Blocked),
            cancelled: run.count(NodeStatus::Cancelled),
            running: run.open(),
            pending: run.count(NodeStatus::Pending),
        }
    }

    /// Names and numbers, in the order in which they are shown.
    pub fn list(&self) -> [(&'static str, u32); 7] {
        [
            ("succeeded", self.succeeded),
            ("failed", self.failed),
            ("skipped", self.skipped),
            ("blocked", self.blocked),
            ("cancelled", self.cancelled),
            ("running", self.running),
            ("pending", self.pending),
        ]
    }
}
