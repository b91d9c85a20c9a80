//! Statuses as one character each, the same wherever people look.

use windlass_core::NodeStatus;

/// A node's status as one character.
pub fn node_glyph(status: NodeStatus) -> &'static str {
    match status {
        NodeStatus::Pending => "○",
        NodeStatus::Queued => "◌",
        NodeStatus::Running => "◐",
        NodeStatus::Waiting => "◷",
        NodeStatus::Succeeded => "✓",
        NodeStatus::Failed => "✗",
        NodeStatus::Skipped => "↷",
        NodeStatus::Blocked => "⊘",
        NodeStatus::Cancelled => "■",
    }
}
