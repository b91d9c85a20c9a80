//! Plain tables: columns as wide as their content, the last one cut to the terminal.

use anstyle::Style;
use windlass_core::printable;

use crate::output::Output;
use crate::paint::{DIM, paint};

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
    heading: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns. A name that begins with `>` is set to the right.
    pub(crate) fn new(heading: &[&'static str]) -> Self {
        Self {
            heading: heading.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as lines, the heading first.
    pub(crate) fn render(&self, output: &Output) -> String {
        let limit = width(output);
        let widths = self.widths();
        let names: Vec<Cell> = self
            .heading
            .iter()
            .map(|name| Cell::styled(name.trim_start_matches('>'), DIM))
            .collect();
        let mut text = String::new();
        for row in std::iter::once(&names).chain(&self.rows) {
            text.push_str(&self.line(row, &widths, limit, output.color));
            text.push('\n');
        }
        text
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
                // A column of one character is a mark that belongs to the next.
                let gap = if widths[column - 1] <= 1 { 1 } else { 2 };
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
        line.trim_end().to_owned()
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
    fn long_text_is_cut() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
    }
}
