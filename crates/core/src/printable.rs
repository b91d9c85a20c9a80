//! Text from outside as a terminal may show it.
//!
//! A terminal obeys control characters, and shows text that turns its direction in another
//! order than it has: names and messages could hide what they say, or pretend to be a line of
//! the program. Such characters are shown by their numbers, written as JSON writes them, so
//! that JSON stays the same JSON. It does not know where text comes from.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text on one line: also ends of lines and tabs are shown as escapes.
///
/// ```
/// use windlass_core::printable::one_line;
/// assert_eq!(one_line("a\nb\u{1b}[2J"), r"a\nb\u001b[2J");
/// ```
pub fn one_line(text: &str) -> Cow<'_, str> {
    escape(text, is_unprintable)
}

/// The text on the lines that it has: ends of lines and tabs stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |letter| {
        !matches!(letter, '\n' | '\t') && is_unprintable(letter)
    })
}

/// The text in at most so many bytes, with an ellipsis where something was cut off.
///
/// ```
/// use windlass_core::printable::cut;
/// assert_eq!(cut("naïveté", 9), "naïveté");
/// assert_eq!(cut("naïveté", 6), "na…");
/// ```
pub fn cut(text: &str, bytes: usize) -> Cow<'_, str> {
    const ELLIPSIS: &str = "…";
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(ELLIPSIS.len()));
    Cow::Owned(format!("{}{ELLIPSIS}", &text[..end]))
}

/// Whether a terminal would do something else than show a character.
pub fn is_unprintable(letter: char) -> bool {
    match letter {
        // C0, DEL and C1: ESC, CSI, carriage returns.
        _ if letter.is_control() => true,
        // Marks, overrides and isolates of direction.
        '\u{061C}' | '\u{200E}' | '\u{200F}' => true,
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => true,
        // Ends of lines and paragraphs.
        '\u{2028}' | '\u{2029}' => true,
        // Invisible characters: joined to a name, they make another that looks the same.
        '\u{200B}' | '\u{2060}'..='\u{2064}' | '\u{206A}'..='\u{206F}' | '\u{FEFF}' => true,
        '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}' => true,
        // What the program marks its own styles with.
        '\u{FDD0}'..='\u{FDEF}' => true,
        _ => false,
    }
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            letter if !is_escaped(letter) => shown.push(letter),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            letter => {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    // Writing to a string cannot fail.
                    let _ = write!(shown, "\\u{unit:04x}");
                }
            }
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_that_a_terminal_obeys() {
        for number in 0..=0x0010_FFFF {
            let Some(letter) = char::from_u32(number) else {
                continue;
            };
            let text = format!("a{letter}b");
            let shown = one_line(&text);
            assert!(!shown.chars().any(is_unprintable), "{number:x}");
            assert!(
                !lines(&text)
                    .chars()
                    .any(|c| c.is_control() && !"\n\t".contains(c))
            );
            // As a part of JSON it says the same.
            if is_unprintable(letter) {
                let value: String = serde_json::from_str(&format!("\"{shown}\"")).unwrap();
                assert_eq!(value, text);
            } else {
                assert_eq!(shown, text);
            }
        }
    }

    #[test]
    fn ends_of_lines_stay_only_where_lines_are_meant() {
        assert_eq!(one_line("a\r\nb\tc"), r"a\r\nb\tc");
        assert_eq!(lines("a\r\nb\tc"), "a\\r\nb\tc");
        assert_eq!(one_line("\u{202e}x\u{9b}31m"), r"\u202ex\u009b31m");
        assert!(matches!(one_line("plain ✓ ä 漢"), Cow::Borrowed(_)));
    }
}
