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
