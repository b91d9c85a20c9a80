//! How a problem looks in a terminal: the line, a caret under the place, and
//! what to do about it.

use std::fmt::Write as _;

use super::problem::{Problem, Severity};
use crate::printable::{is_unprintable, one_line};

/// The widest line that is printed whole.
const WIDTH: usize = 80;

impl Problem {
    /// The problem as a compiler would print it, with the line of the file it is about.
    pub fn render(&self, text: &[u8]) -> String {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let message = one_line(&self.message);
        let suggestion = self.suggestion.as_deref().map(one_line);
        let mut out = format!("{severity}[{}]: {message}\n", self.code);
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            out,
            "{margin}--> {}:{}:{}",
            one_line(&self.file),
            self.line,
            self.column
        );
        let column = (self.column as usize).saturating_sub(1);
        let Some(excerpt) = excerpt(text, self.line, column) else {
            if let Some(suggestion) = &suggestion {
                let _ = writeln!(out, "{margin} = {suggestion}");
            }
            return out;
        };
        let available = WIDTH - margin.len() - 3;
        let view = View::of(&excerpt, column, self.length as usize, available);
        let _ = writeln!(out, "{margin} |");
        let _ = writeln!(out, "{number} | {}", view.text);
        let caret = format!("{}{}", " ".repeat(view.before), "^".repeat(view.width));
        match &suggestion {
            Some(suggestion) if caret.len() + 1 + suggestion.len() <= available => {
                let _ = writeln!(out, "{margin} | {caret} {suggestion}");
            }
            Some(suggestion) => {
                let _ = writeln!(out, "{margin} | {caret}");
                let _ = writeln!(out, "{margin} = {suggestion}");
            }
            None => {
                let _ = writeln!(out, "{margin} | {caret}");
            }
        }
        out
    }
}

/// How many characters on each side of the caret are looked at: more than fit.
const AROUND: usize = 2 * WIDTH;

/// The part of a line around a column. A line may be megabytes long, and
/// nothing here may cost more than walking over it once.
struct Excerpt {
    text: String,
    /// How many of the line's characters stand before it.
    skipped: usize,
    /// Whether the line goes on after it.
    goes_on: bool,
}

/// The line with this number, from 1, around a column, from 0.
fn excerpt(text: &[u8], number: u32, column: usize) -> Option<Excerpt> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let line = text
        .split(|byte| *byte == b'\n')
        .nth((number as usize).checked_sub(1)?)?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let skipped = column.saturating_sub(AROUND);
    let mut begins = (0..line.len()).filter(|at| line[*at] & 0xC0 != 0x80);
    let start = begins.nth(skipped).unwrap_or(line.len());
    // The search above has passed the first character of the excerpt.
    let end = begins.nth(2 * AROUND - 1).unwrap_or(line.len());
    Some(Excerpt {
        text: String::from_utf8_lossy(&line[start..end]).into_owned(),
        skipped,
        goes_on: end < line.len(),
    })
}

/// The part of a line that fits, and where the caret stands under it.
struct View {
    text: String,
    before: usize,
    width: usize,
}

impl View {
    fn of(excerpt: &Excerpt, column: usize, length: usize, available: usize) -> Self {
        let cells: Vec<(String, usize)> = excerpt.text.chars().map(cell).collect();
        let widths = |from: usize, to: usize| -> usize {
            let to = to.min(cells.len());
            cells[from.min(to)..to].iter().map(|(_, width)| width).sum()
        };
        let column = (column - excerpt.skipped).min(cells.len());
        let whole = excerpt.skipped == 0 && !excerpt.goes_on && widths(0, cells.len()) <= available;
        // One column stays for the ellipsis at each end.
        let room = if whole { available } else { available - 2 };
        let mut from = if whole { 0 } else { column };
        let caret = widths(column, column.saturating_add(length)).min(room / 2);
        while from > 0 && widths(from - 1, column) <= (room - caret) / 2 {
            from -= 1;
        }
        let cut_before = from > 0 || excerpt.skipped > 0;
        let mut text = String::from(if cut_before { "…" } else { "" });
        let before = usize::from(cut_before) + widths(from, column);
        let mut to = from;
        while to < cells.len() && widths(from, to + 1) <= room {
            text.push_str(&cells[to].0);
            to += 1;
        }
        if to < cells.len() || excerpt.goes_on {
            text.push('…');
        }
        let width = widths(column, column.saturating_add(length).min(to)).max(1);
        Self {
            text: text.trim_end().to_owned(),
            before,
            width,
        }
    }
}

/// How a character is printed, and how many columns that takes.
fn cell(character: char) -> (String, usize) {
    match character {
        '\t' => ("    ".to_owned(), 4),
        // Control characters and marks that turn the direction of writing
        // would change what the reader sees.
        c if is_unprintable(c) => ("·".to_owned(), 1),
        '\u{200C}' | '\u{200D}' => ("·".to_owned(), 1),
        '\u{0300}'..='\u{036F}' | '\u{FE00}'..='\u{FE0F}' => (character.to_string(), 0),
        '\u{1100}'..='\u{115F}'
        | '\u{2E80}'..='\u{A4CF}'
        | '\u{AC00}'..='\u{D7A3}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{FE30}'..='\u{FE6F}'
        | '\u{FF00}'..='\u{FF60}'
        | '\u{FFE0}'..='\u{FFE6}'
        | '\u{1F300}'..='\u{1F64F}'
        | '\u{1F680}'..='\u{1F6FF}'
        | '\u{1F900}'..='\u{1FAFF}'
        | '\u{20000}'..='\u{3FFFD}' => (character.to_string(), 2),
        other => (other.to_string(), 1),
    }
}
