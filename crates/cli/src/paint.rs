//! Statuses as people see them: one character and one colour each.

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};
use windlass_core::printable;
use windlass_core::{NodeStatus, RunStatus};
pub(crate) use windlass_graph::node_glyph;

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

/// Stands for the escape character of the program's own styles until they are written, so that
/// one in a text from outside is known as such. It is no character of any text.
const MARK: char = '\u{FDD0}';

/// The text in a style, where colour is wanted. What a terminal would obey is taken out of it.
pub(crate) fn paint(color: bool, style: Style, text: &str) -> String {
    let text = printable::one_line(text);
    if color && !text.is_empty() {
        let (begin, end) = (style.render(), style.render_reset());
        let marked = |code: String| code.replace('\x1b', &MARK.to_string());
        let (begin, end) = (marked(begin.to_string()), marked(end.to_string()));
        format!("{begin}{text}{end}")
    } else {
        text.into_owned()
    }
}

/// The text as it is written to a terminal: the program's own styles, and nothing else that a
/// terminal would obey.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let Some((first, marked)) = text.split_once(MARK) else {
        return printable::lines(text);
    };
    let mut shown = printable::lines(first).into_owned();
    for part in marked.split(MARK) {
        match STYLES.iter().find(|code| part.starts_with(**code)) {
            Some(code) => {
                shown.push('\x1b');
                shown.push_str(code);
                shown.push_str(&printable::lines(&part[code.len()..]));
            }
            None => shown.push_str(&printable::lines(part)),
        }
    }
    Cow::Owned(shown)
}

/// What the styles above, and those of drawn graphs, are written as.
const STYLES: [&str; 9] = [
    "[0m", "[1m", "[2m", "[31m", "[32m", "[33m", "[34m", "[35m", "[36m",
];

/// A drawing with its styles as the program's own. Its texts have no escape characters: the
/// drawing has taken them out.
pub(crate) fn drawn(text: &str) -> String {
    let text = text.replace(MARK, "\u{FFFD}");
    text.replace('\x1b', &MARK.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_styles_are_written_and_foreign_ones_are_not() {
        for style in [DIM, BOLD, GREEN, RED, YELLOW, CYAN] {
            let painted = paint(true, style, "a\x1b[8mb\nc\u{FDD0}[31m");
            let plain = format!("{style}a\\u001b[8mb\\nc\\ufdd0[31m{style:#}");
            assert_eq!(shown(&painted), plain);
        }
        assert_eq!(shown("x\x1b[31my\r\nz\u{9b}"), "x\\u001b[31my\\r\nz\\u009b");
        assert_eq!(paint(false, RED, "a\nb"), "a\\nb");
        let drawing = drawn("\x1b[35m┌\u{FDD0}[31m┐\x1b[0m \x1b[5m\n");
        assert_eq!(shown(&drawing), "\x1b[35m┌\u{FFFD}[31m┐\x1b[0m [5m\n");
    }
}
