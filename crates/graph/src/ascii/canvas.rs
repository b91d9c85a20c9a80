//! A sheet of cells that grows as it is written on.

use std::fmt::Write;

use super::super::text::char_columns;

/// The colour of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Paint {
    #[default]
    Plain,
    Dim,
    Green,
    Red,
    Blue,
    Yellow,
    Magenta,
}

impl Paint {
    /// The number that chooses it in an escape sequence.
    fn code(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Dim => 2,
            Self::Green => 32,
            Self::Red => 31,
            Self::Blue => 34,
            Self::Yellow => 33,
            Self::Magenta => 35,
        }
    }
}

/// One column. A wide character leaves the cell after it empty.
#[derive(Clone, Default)]
struct Cell {
    text: String,
    paint: Paint,
    covered: bool,
}

#[derive(Default)]
pub(super) struct Canvas {
    rows: Vec<Vec<Cell>>,
}

impl Canvas {
    /// Sets one column.
    pub(super) fn put(&mut self, row: usize, column: usize, text: &str, paint: Paint) {
        let cell = self.cell(row, column);
        cell.text.clear();
        cell.text.push_str(text);
        cell.paint = paint;
        cell.covered = false;
    }

    /// Writes a line from the column on.
    pub(super) fn write(&mut self, row: usize, column: usize, text: &str, paint: Paint) {
        let mut next = column;
        let mut buffer = [0; 4];
        for character in text.chars() {
            let width = char_columns(character);
            if width == 0 {
                if next > column {
                    let last = self.cell(row, next - 1);
                    last.text.push(character);
                }
                continue;
            }
            self.put(row, next, character.encode_utf8(&mut buffer), paint);
            for covered in next + 1..next + width {
                self.put(row, covered, "", paint);
                self.cell(row, covered).covered = true;
            }
            next += width;
        }
    }

    /// What was drawn, without spaces at the ends of lines.
    pub(super) fn text(&self, color: bool) -> String {
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            let mut current = Paint::Plain;
            let used = row.iter().rposition(|cell| !cell.text.is_empty());
            for cell in &row[..used.map_or(0, |last| last + 1)] {
                if color && cell.paint != current && !cell.covered {
                    let reset = if current == Paint::Plain {
                        ""
                    } else {
                        "\x1b[0m"
                    };
                    line += reset;
                    if cell.paint != Paint::Plain {
                        let _ = write!(line, "\x1b[{}m", cell.paint.code());
                    }
                    current = cell.paint;
                }
                if cell.text.is_empty() && !cell.covered {
                    line.push(' ');
                }
                line += &cell.text;
            }
            if current != Paint::Plain {
                line += "\x1b[0m";
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }

    fn cell(&mut self, row: usize, column: usize) -> &mut Cell {
        if self.rows.len() <= row {
            self.rows.resize_with(row + 1, Vec::new);
        }
        let cells = &mut self.rows[row];
        if cells.len() <= column {
            cells.resize_with(column + 1, Cell::default);
        }
        &mut cells[column]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_and_combining_characters_keep_the_columns() {
        let mut canvas = Canvas::default();
        canvas.write(0, 1, "界e\u{301}", Paint::Plain);
        canvas.put(0, 4, "│", Paint::Plain);
        assert_eq!(canvas.text(false), " 界e\u{301}│\n");
    }

    #[test]
    fn colour_is_written_only_when_asked_and_always_ended() {
        let mut canvas = Canvas::default();
        canvas.write(0, 0, "ab", Paint::Red);
        canvas.put(0, 3, "c", Paint::Green);
        assert_eq!(canvas.text(false), "ab c\n");
        assert_eq!(canvas.text(true), "\x1b[31mab\x1b[0m \x1b[32mc\x1b[0m\n");
    }
}
