//! Statuses as people see them: one character and one colour each.

use anstyle::{AnsiColor, Style};
use windlass_core::{NodeStatus, RunStatus};
pub(crate) use windlass_service::glyph::node_glyph;

/// Grey: what matters less.
pub(crate) const DIM: Style = Style::new().dimmed();
/// What matters most.
pub(crate) const BOLD: Style = Style::new().bold();
/// Went well.
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
/// Went wrong.
pub(crate) const RED: Style = AnsiColor::Red.on_default();
/// Worth a look.
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
/// Under way.
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default();

/// The text in a style, where colour is wanted.
pub(crate) fn paint(color: bool, style: Style, text: &str) -> String {
    if color && !text.is_empty() {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}

/// A node's colour.
pub(crate) fn node_style(status: NodeStatus) -> Style {
    match status {
        NodeStatus::Succeeded => GREEN,
        NodeStatus::Failed => RED,
        NodeStatus::Blocked | NodeStatus::Cancelled => YELLOW,
        NodeStatus::Queued | NodeStatus::Running | NodeStatus::Waiting => CYAN,
        NodeStatus::Pending | NodeStatus::Skipped => DIM,
    }
}

/// A run's status as one character.
pub(crate) fn run_glyph(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Pending => "○",
        RunStatus::Running => "◐",
        RunStatus::Paused => "‖",
        RunStatus::Succeeded => "✓",
        RunStatus::Failed => "✗",
        RunStatus::Cancelled => "■",
    }
}

/// A run's colour.
pub(crate) fn run_style(status: RunStatus) -> Style {
    match status {
        RunStatus::Pending => DIM,
        RunStatus::Running => CYAN,
        RunStatus::Paused | RunStatus::Cancelled => YELLOW,
        RunStatus::Succeeded => GREEN,
        RunStatus::Failed => RED,
    }
}
