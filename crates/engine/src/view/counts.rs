//! How many nodes of a run stand where.

use serde::Serialize;
use windlass_core::NodeStatus;
use windlass_core::run::{Loop, Run};

/// Nodes by status. An open node (Queued, Running or Waiting for its next attempt) counts as
/// running; a node that waits for other nodes is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeCounts {
    /// Ended well.
    pub succeeded: u32,
    /// Ended badly.
    pub failed: u32,
    /// Not chosen.
    pub skipped: u32,
    /// Behind a failure.
    pub blocked: u32,
    /// Cancelled.
    pub cancelled: u32,
    /// Queued, Running or Waiting.
    pub running: u32,
    /// Not yet reached.
    pub pending: u32,
}

impl NodeCounts {
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

    /// The counts of everything inside a loop, however deep: what was forgotten counts.
    pub fn of_loop(cycle: &Loop) -> Self {
        let open = [NodeStatus::Queued, NodeStatus::Running, NodeStatus::Waiting];
        Self {
            succeeded: cycle.count(NodeStatus::Succeeded),
            failed: cycle.count(NodeStatus::Failed),
            skipped: cycle.count(NodeStatus::Skipped),
            blocked: cycle.count(NodeStatus::Blocked),
            cancelled: cycle.count(NodeStatus::Cancelled),
            running: open.iter().map(|&status| cycle.count(status)).sum(),
            pending: cycle.count(NodeStatus::Pending),
        }
    }

    /// All of them together.
    pub fn total(&self) -> u64 {
        self.list().iter().map(|(_, count)| u64::from(*count)).sum()
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
