//! Makes untrusted text fit for a picture: no control characters, one line, and a known number
//! of columns.

use unicode_width::UnicodeWidthChar;

/// One line without control characters, joiners or direction marks, which would move
/// everything after them.
pub(super) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}'
            | '\u{FFFE}'
            | '\u{FFFF}' => {}
            character if character.is_control() => cleaned.push(' '),
            character => cleaned.push(character),
        }
    }
    cleaned.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Columns of a terminal that the text takes.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

/// Columns of one character; marks that combine with the one before take none.
pub(super) fn char_columns(character: char) -> usize {
    character.width().unwrap_or(0)
}

/// The text in at most so many columns, with an ellipsis where it was cut.
pub(super) fn truncate(text: &str, limit: usize) -> String {
    if columns(text) <= limit {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut used = 0;
    for character in text.chars() {
        used += char_columns(character);
        if used + 1 > limit {
            break;
        }
        cut.push(character);
    }
    let mut cut = cut.trim_end().to_owned();
    if limit > 0 {
        cut.push('…');
    }
    cut
}

/// A guess at the width of text in a usual sans-serif face, rather too much than too
/// little: the reader's own font decides.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let units: f64 = text
        .chars()
        .map(|character| match character {
            'i' | 'j' | 'l' | 't' | 'f' | 'r' | 'I' | ' ' | '.' | ',' | ':' | ';' | '\'' | '|'
            | '(' | ')' | '[' | ']' | '/' | '!' | '·' => 0.36,
            'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 0.95,
            'A'..='Z' | '&' | '<' | '>' | '=' | '+' | '×' => 0.72,
            character if character.is_ascii() => 0.6,
            character => 0.66 * char_columns(character) as f64,
        })
        .sum();
    units * size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_one_space() {
        assert_eq!(clean("a\n\tb\u{1b}[31m\u{202e}c\0"), "a b [31mc");
        assert_eq!(clean("  "), "");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(columns("a界🚀"), 5);
        assert_eq!(columns("e\u{301}"), 1);
    }

    #[test]
    fn cut_text_fits_and_says_so() {
        assert_eq!(truncate("abcdef", 6), "abcdef");
        assert_eq!(truncate("abcdef", 4), "abc…");
        assert_eq!(truncate("界界界", 4), "界…");
        assert_eq!(truncate("abc", 0), "");
    }
}
