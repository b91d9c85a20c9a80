//! The statuses of runs and nodes, as people and programs see them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RunStatus {
    /// Asked for and durable, but no process has started it.
    Pending,
    /// Started and not ended.
    Running,
    /// Nothing starts until it is resumed.
    Paused,
    /// Every failed node's failure was handled.
    Succeeded,
    /// A failure was not handled, or the run's time or output failed it.
    Failed,
    /// Ended on request.
    Cancelled,
}

impl RunStatus {
    /// All statuses, in the order of a run's life.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Running,
        Self::Paused,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Whether the run has ended.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// The status as it is written everywhere outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Paused => "Paused",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Cancelled => "Cancelled",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text is not the name of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownStatus;

impl FromStr for RunStatus {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str().eq_ignore_ascii_case(text))
            .ok_or(UnknownStatus)
    }
}

/// Where a node instance stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum NodeStatus {
    /// Some incoming edge has not resolved, or its level has not begun.
    Pending,
    /// Ready, and waiting for a worker.
    Queued,
    /// An attempt is with a worker.
    Running,
    /// Between attempts, or waiting for a time or a signal; it holds no worker.
    Waiting,
    /// Ended well.
    Succeeded,
    /// Ended badly, for good.
    Failed,
    /// Not chosen, or its action said so.
    Skipped,
    /// A failure before it was not recovered.
    Blocked,
    /// Stopped before it ended: its run or scope was cancelled, or nothing needs it any more.
    Cancelled,
}

impl NodeStatus {
    /// Whether the node has ended.
    pub fn is_final(self) -> bool {
        self >= Self::Succeeded
    }

    /// The status as it is written everywhere outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Queued => "Queued",
            Self::Running => "Running",
            Self::Waiting => "Waiting",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Skipped => "Skipped",
            Self::Blocked => "Blocked",
            Self::Cancelled => "Cancelled",
        }
    }
}

impl fmt::Display for NodeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
