//! The end of a run on a terminal: how it ended in colour, its root causes in full, and the
//! command that comes next.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;
use windlass_core::event::{Cause, Compensation};
use windlass_core::printable::one_line;
use windlass_core::run::Run;
use windlass_core::{NodeStatus, RunStatus};

use crate::moment::duration;
use crate::paint::{BOLD, DIM, RED, YELLOW, paint, run_glyph, run_style};

/// What a terminal can show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sheet {
    /// Columns.
    pub(crate) width: usize,
    /// Whether it shows colour.
    pub(crate) color: bool,
}

/// How a run ended, for people who look at a terminal; `short` names the run in commands.
pub(crate) fn text(run: &Run, causes: &[Cause], short: &str, sheet: Sheet) -> String {
    let Sheet { color, .. } = sheet;
    let status = run.status();
    let mut text = paint(
        color,
        run_style(status),
        &format!("{} {} {status}", run_glyph(status), run.plan().workflow()),
    );
    if let (Some(from), Some(to)) = (run.started_at(), run.ended_at()) {
        let time = duration(u64::try_from(to.0 - from.0).unwrap_or(0));
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, " in {time}");
    }
    let _ = writeln!(text, "  {}", paint(color, DIM, &run.id().to_string()));
    let _ = writeln!(text, "  {}", counts(run));
    match run.finished().and_then(|finished| finished.compensation) {
        Some(Compensation::Complete) => text.push_str("  what had succeeded was undone\n"),
        Some(Compensation::Incomplete) => {
            let words = paint(color, YELLOW, "not everything could be undone");
            let _ = writeln!(text, "  {words}");
        }
        None => {}
    }
    for cause in causes {
        let width = sheet.width.saturating_sub(4);
        let mut mark = format!("\n  {}", paint(color, RED, "✗"));
        for line in wrapped(&one_line(&cause.place()), width) {
            let _ = writeln!(text, "{mark} {}", paint(color, BOLD, &line));
            mark = "   ".to_owned();
        }
        if cause.execution_id != run.id() {
            let _ = writeln!(text, "    in run {}", cause.execution_id);
        }
        let message = format!("{}: {}", cause.code, one_line(&cause.message));
        for line in wrapped(&message, width) {
            let _ = writeln!(text, "    {line}");
        }
    }
    for (place, command) in next(run, causes, short).into_iter().enumerate() {
        let (gap, name) = match place {
            0 => ("\n", "next:"),
            _ => ("", "  or:"),
        };
        let _ = writeln!(text, "{gap}  {} {command}", paint(color, DIM, name));
    }
    text
}

fn counts(run: &Run) -> String {
    let counts = [
        NodeStatus::Succeeded,
        NodeStatus::Failed,
        NodeStatus::Skipped,
        NodeStatus::Blocked,
        NodeStatus::Cancelled,
    ]
    .into_iter()
    .filter(|&status| run.count(status) > 0)
    .map(|status| format!("{} {}", run.count(status), status.as_str().to_lowercase()));
    counts.collect::<Vec<_>>().join(", ")
}

/// The commands that most people want next.
fn next(run: &Run, causes: &[Cause], short: &str) -> Vec<String> {
    let incomplete =
        run.finished().and_then(|finished| finished.compensation) == Some(Compensation::Incomplete);
    match run.status() {
        RunStatus::Failed if incomplete => vec![format!("windlass why {short}")],
        RunStatus::Failed => match causes.first() {
            Some(cause) if cause.execution_id != run.id() => vec![
                format!("windlass show {}", cause.execution_id),
                format!("windlass reattempt {short}"),
            ],
            _ => vec![
                format!("windlass reattempt {short}"),
                format!("windlass show {short}"),
            ],
        },
        RunStatus::Cancelled => vec![format!("windlass show {short}")],
        RunStatus::Paused => vec![format!("windlass resume {short}")],
        _ => Vec::new(),
    }
}

/// A text in lines of at most so many columns, broken between words where there are any.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let size: usize = word.chars().map(|it| it.width().unwrap_or(0)).sum();
        let space = usize::from(used > 0);
        if used > 0 && used + space + size > width {
            lines.push(String::new());
            used = 0;
        } else if used > 0 {
            push(&mut lines, ' ');
            used += 1;
        }
        for letter in word.chars() {
            let cells = letter.width().unwrap_or(0);
            if used + cells > width {
                lines.push(String::new());
                used = 0;
            }
            push(&mut lines, letter);
            used += cells;
        }
    }
    lines
}

fn push(lines: &mut [String], letter: char) {
    if let Some(line) = lines.last_mut() {
        line.push(letter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wrap_between_words_and_inside_long_ones() {
        assert_eq!(wrapped("a bc def", 5), ["a bc", "def"]);
        assert_eq!(wrapped("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("漢字 x", 4), ["漢字", "x"]);
        assert_eq!(wrapped("", 4), [""]);
        let long = "HTTP_503: no capacity in any of the regions that were asked, try again";
        let lines = wrapped(long, 20);
        assert!(lines.iter().all(|line| line.chars().count() <= 20));
        assert_eq!(lines.join(" "), long);
    }
}
