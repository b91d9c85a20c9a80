//! One line of coloured text, cut to a width before it is coloured, so that it never
//! wraps.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;
use windlass_core::printable;

/// How a part of a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Bold,
    Dim,
    Green,
    Red,
    Yellow,
    Blue,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Green => "32",
            Self::Red => "31",
            Self::Yellow => "33",
            Self::Blue => "36",
        }
    }
}

/// A line that is being put together.
#[derive(Debug, Default)]
pub(super) struct Line {
    parts: Vec<(Paint, String)>,
}

impl Line {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds text. What would move the cursor is replaced.
    #[must_use]
    pub(super) fn add(mut self, paint: Paint, text: impl AsRef<str>) -> Self {
        let text = printable::one_line(text.as_ref()).into_owned();
        self.parts.push((paint, text));
        self
    }

    /// The text in as many lines as it takes, each at most this wide; those after the first are
    /// indented.
    pub(super) fn wrapped(&self, width: usize, color: bool) -> Vec<String> {
        const INDENT: usize = 4;
        let mut lines = vec![Self::new()];
        let mut used = 0;
        for (paint, text) in &self.parts {
            for word in text.split_inclusive(' ') {
                let size = width_of(word.trim_end());
                if used > INDENT && used + size > width {
                    lines.push(Self::new().add(Paint::Plain, " ".repeat(INDENT)));
                    used = INDENT;
                }
                for letter in word.chars() {
                    let cells = letter.width().unwrap_or(0);
                    if used + cells > width {
                        if letter == ' ' {
                            continue;
                        }
                        lines.push(Self::new().add(Paint::Plain, " ".repeat(INDENT)));
                        used = INDENT;
                    }
                    used += cells;
                    if let Some(line) = lines.last_mut() {
                        line.push(*paint, letter);
                    }
                }
            }
        }
        lines
            .iter()
            .map(|line| {
                line.render(width.max(INDENT + 1), color)
                    .trim_end()
                    .to_owned()
            })
            .collect()
    }

    /// Adds a letter that is printable.
    fn push(&mut self, paint: Paint, letter: char) {
        match self.parts.last_mut() {
            Some((last, text)) if *last == paint => text.push(letter),
            _ => self.parts.push((paint, letter.into())),
        }
    }

    /// The text, at most this wide; with an ellipsis where something was cut off.
    pub(super) fn render(&self, width: usize, color: bool) -> String {
        let total: usize = self.parts.iter().map(|(_, text)| width_of(text)).sum();
        let mut left = if total > width {
            width.saturating_sub(1)
        } else {
            width
        };
        let mut out = String::new();
        let mut cut = false;
        for (paint, text) in &self.parts {
            let mut end = 0;
            for c in text.chars() {
                let cells = c.width().unwrap_or(0);
                if cells > left {
                    cut = true;
                    break;
                }
                left -= cells;
                end += c.len_utf8();
            }
            paint_into(&mut out, *paint, &text[..end], color);
            if cut {
                break;
            }
        }
        if total > width && width > 0 {
            out.push('…');
        }
        out
    }
}

pub(super) fn width_of(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

fn paint_into(out: &mut String, paint: Paint, text: &str, color: bool) {
    if text.is_empty() {
        return;
    }
    if color && paint != Paint::Plain {
        // Writing to a string cannot fail.
        let _ = write!(out, "\x1b[{}m{text}\x1b[0m", paint.code());
    } else {
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_wrap_between_words_and_keep_everything() {
        let line = Line::new()
            .add(Paint::Red, "✗ ")
            .add(Paint::Bold, "charge")
            .add(Paint::Plain, "  HTTP_503: no capacity left anywhere");
        assert_eq!(
            line.wrapped(24, false),
            [
                "✗ charge  HTTP_503: no",
                "    capacity left",
                "    anywhere"
            ]
        );
        assert_eq!(line.wrapped(80, false), [line.render(80, false)]);
        let long = Line::new().add(Paint::Plain, "x".repeat(30));
        assert_eq!(
            long.wrapped(20, false),
            ["x".repeat(20), format!("    {}", "x".repeat(10))]
        );
    }

    #[test]
    fn lines_are_cut_by_width_and_coloured_after() {
        let line = Line::new()
            .add(Paint::Red, "failed")
            .add(Paint::Plain, " 漢字\n!");
        assert_eq!(line.render(80, false), r"failed 漢字\n!");
        assert_eq!(line.render(10, false), "failed 漢…");
        assert_eq!(line.render(9, false), "failed …");
        assert_eq!(line.render(4, true), "\x1b[31mfai\x1b[0m…");
    }
}
