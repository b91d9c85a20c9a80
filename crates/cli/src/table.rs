//! Plain tables: columns as wide as their content. On a terminal the last one, which says the most,
//! wraps: beside the others, or below its row where it has little room there.

use std::borrow::Cow;

use anstyle::Style;
use windlass_core::printable;

use crate::output::Output;
use crate::paint::{DIM, paint};
use crate::verdict::wrapped;

/// With fewer columns than these beside the others, the last one stands below its row.
const BESIDE: usize = 30;

/// How far it is set in there.
const BELOW: usize = 4;

/// A cell: text and, where colour is wanted, a style.
pub(crate) struct Cell {
    text: String,
    style: Option<Style>,
}

impl Cell {
    /// Styled text.
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style: Some(style),
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            style: None,
        }
    }
}

/// Rows under a heading.
pub(crate) struct Table {
    heading: Vec<Cow<'static, str>>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns. A name that begins with `>` is set to the right.
    pub(crate) fn new(heading: &[&'static str]) -> Self {
        Self {
            heading: heading.iter().map(|&name| name.into()).collect(),
            rows: Vec::new(),
        }
    }

    /// A table whose columns are known only when it is made.
    pub(crate) fn named(heading: impl IntoIterator<Item = String>) -> Self {
        Self {
            heading: heading.into_iter().map(Cow::Owned).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as lines, the heading first.
    pub(crate) fn render(&self, output: &Output) -> String {
        self.render_in(width(output), output.color)
    }

    fn render_in(&self, limit: Option<usize>, color: bool) -> String {
        let widths = self.widths();
        let names: Vec<Cell> = self
            .heading
            .iter()
            .map(|name| Cell::styled(name.trim_start_matches('>'), DIM))
            .collect();
        let last = limit.and_then(|limit| self.last_column(&widths, limit));
        let beside = self.heading.len() - usize::from(last.is_some_and(|last| last.is_below));
        let mut lines = vec![self.line(&names[..beside], &widths, limit, color)];
        for row in &self.rows {
            match (last, row.split_last()) {
                (Some(last), Some((cell, head))) if row.len() == self.heading.len() => {
                    let head = self.line(head, &widths, limit, color);
                    lines.extend(last.lines(head, cell, color));
                }
                _ => lines.push(self.line(row, &widths, limit, color)),
            }
        }
        lines
            .iter()
            .map(|line| format!("{}\n", line.trim_end()))
            .collect()
    }

    /// Where the last column stands on a terminal; none of a column that is set to the right.
    fn last_column(&self, widths: &[usize], limit: usize) -> Option<LastColumn> {
        let (&widest, before) = widths.split_last()?;
        if self.heading.last()?.starts_with('>') {
            return None;
        }
        let start: usize = before.iter().map(|&width| width + gap(width)).sum();
        let room = limit.saturating_sub(start);
        Some(match room < BESIDE && widest > room {
            true => LastColumn {
                indent: BELOW,
                gap: 0,
                room: limit.saturating_sub(BELOW),
                is_below: true,
            },
            false => LastColumn {
                indent: start,
                gap: before.last().copied().map_or(0, gap),
                room,
                is_below: false,
            },
        })
    }

    fn widths(&self) -> Vec<usize> {
        (0..self.heading.len())
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                let widest = cells
                    .map(|cell| printable::one_line(&cell.text).chars().count())
                    .max();
                let name = self.heading[column].trim_start_matches('>').len();
                widest.unwrap_or(0).max(name)
            })
            .collect()
    }

    fn line(&self, row: &[Cell], widths: &[usize], limit: Option<usize>, color: bool) -> String {
        let mut line = String::new();
        let mut used = 0;
        for (column, cell) in row.iter().enumerate() {
            if column > 0 {
                let gap = gap(widths[column - 1]);
                line.push_str(&" ".repeat(gap));
                used += gap;
            }
            let left = limit.map_or(usize::MAX, |limit| limit.saturating_sub(used));
            let text = cut(&cell.text, left);
            let length = text.chars().count();
            let padding = " ".repeat(widths[column].saturating_sub(length).min(left - length));
            let text = paint(color, cell.style.unwrap_or_default(), &text);
            if self.heading[column].starts_with('>') {
                line.push_str(&padding);
                line.push_str(&text);
            } else {
                line.push_str(&text);
                line.push_str(&padding);
            }
            used += widths[column];
        }
        line
    }
}

/// How far a column stands from the next. One of one character is a mark that belongs to it.
fn gap(width: usize) -> usize {
    if width <= 1 { 1 } else { 2 }
}

/// Where the last column of a table stands on a terminal.
#[derive(Clone, Copy)]
struct LastColumn {
    /// Where its lines begin, the first of them after the other cells unless it stands below.
    indent: usize,
    /// Between the other cells and the first line.
    gap: usize,
    room: usize,
    is_below: bool,
}

impl LastColumn {
    /// The lines of a row, of which `head` has the other cells.
    fn lines(self, head: String, cell: &Cell, color: bool) -> Vec<String> {
        let style = cell.style.unwrap_or_default();
        let parts = wrapped(&printable::one_line(&cell.text), self.room);
        let mut parts = parts.iter().map(|part| paint(color, style, part));
        let mut lines = vec![head];
        if !self.is_below
            && let Some(part) = parts.next()
        {
            lines[0].push_str(&" ".repeat(self.gap));
            lines[0].push_str(&part);
        }
        let indent = " ".repeat(self.indent);
        let rest = parts.filter(|part| !part.is_empty());
        lines.extend(rest.map(|part| format!("{indent}{part}")));
        lines
    }
}

/// The terminal's width; none where the output is not cut.
pub(crate) fn width(output: &Output) -> Option<usize> {
    if !output.terminal {
        return None;
    }
    // A pseudo-terminal without a window may report zero columns.
    let width = comfy_table::Table::new().width();
    let width = width.filter(|width| *width > 0).unwrap_or(80);
    Some(usize::from(width).max(40))
}

/// A text in lines that fit beside so many columns; in one line where the output is no terminal.
pub(crate) fn folded(output: &Output, text: &str, beside: usize) -> Vec<String> {
    let line = printable::one_line(text);
    match width(output) {
        Some(width) => wrapped(&line, width.saturating_sub(beside)),
        None => vec![line.into_owned()],
    }
}

/// The text on one line, with an ellipsis where it was cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let line = printable::one_line(text);
    if line.chars().count() <= width {
        return line.into_owned();
    }
    let mut short: String = line.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_content() {
        let mut table = Table::new(&["", "NODE", ">TRIES", "DETAIL"]);
        table.row(["✓".into(), "fetch".into(), "1".into(), "".into()]);
        table.row(["✗".into(), "a".into(), "12".into(), "long\nstory".into()]);
        let output = Output {
            json: false,
            color: false,
            terminal: false,
            live: false,
            live_color: false,
        };
        assert_eq!(
            table.render(&output),
            "  NODE   TRIES  DETAIL\n✓ fetch      1\n✗ a         12  long\\nstory\n"
        );
    }

    #[test]
    fn the_last_column_wraps_beside_the_others_or_below_them() {
        let mut table = Table::new(&["", "NODE", "DETAIL"]);
        table.row([
            "✗".into(),
            "a".into(),
            "no capacity in any of the regions".into(),
        ]);
        table.row(["✓".into(), "b".into(), "".into()]);
        assert_eq!(
            table.render_in(Some(50), false),
            "  NODE  DETAIL\n✗ a     no capacity in any of the regions\n✓ b\n"
        );
        let long = "no capacity in any of the regions that were asked";
        table.row(["✗".into(), "c".into(), long.into()]);
        assert_eq!(
            table.render_in(Some(40), false),
            "  NODE  DETAIL\n\
             ✗ a     no capacity in any of the\n        regions\n\
             ✓ b\n\
             ✗ c     no capacity in any of the\n        regions that were asked\n"
        );
        let mut table = Table::new(&["", "WORKFLOW", "DETAIL"]);
        let wide = "a-workflow-with-a-long-name";
        table.row(["✗".into(), wide.into(), long.into()]);
        table.row(["✓".into(), "b".into(), "".into()]);
        assert_eq!(
            table.render_in(Some(40), false),
            "  WORKFLOW\n\
             ✗ a-workflow-with-a-long-name\n\
             \u{20}   no capacity in any of the regions\n\
             \u{20}   that were asked\n\
             ✓ b\n"
        );
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
    }
}
