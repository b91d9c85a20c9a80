//! Whether PostgreSQL's `jsonb` can hold a text, decided before it is sent: a column for readers
//! must never be in the way of a commit. The bytes themselves stand in a column of their own.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Longer texts are named, not shown.
pub(crate) const MOST_SHOWN: usize = 256 << 10;

/// `jsonb` would take more, and a reader has no use for more.
const DEEPEST: usize = 100;
const MOST_DIGITS: usize = 300;
const GREATEST_EXPONENT: u32 = 300;

/// What a `jsonb` column shows for these bytes: the text itself, or a reference that names where
/// they are.
pub(crate) fn shown(bytes: &[u8], digest: &str) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if fits(text) => text.to_owned(),
        _ => reference(digest, bytes.len() as u64),
    }
}

/// What a column shows for a value that is somewhere else.
pub(crate) fn reference(digest: &str, bytes: u64) -> String {
    format!(r#"{{"$reference":"sha256:{digest}","bytes":{bytes}}}"#)
}

/// What a definition says that its workflow is for.
pub(crate) fn description(definition: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Described {
        description: Option<String>,
    }
    let described: Described = serde_json::from_slice(definition).ok()?;
    described.description
}

/// Whether `jsonb` takes the text as it is.
pub(crate) fn fits(text: &str) -> bool {
    text.len() <= MOST_SHOWN
        && plain_enough(text.as_bytes())
        && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Looks for what JSON allows and `jsonb` refuses: `\u0000`, halves of surrogate pairs, numbers
/// beyond its range, and what nests too deeply.
fn plain_enough(text: &[u8]) -> bool {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => match string_end(text, at + 1) {
                Some(end) => at = end,
                None => return false,
            },
            b'[' | b'{' => {
                depth += 1;
                if depth > DEEPEST {
                    return false;
                }
                at += 1;
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            b'-' | b'0'..=b'9' => match number_end(text, at) {
                Some(end) => at = end,
                None => return false,
            },
            _ => at += 1,
        }
    }
    true
}

/// The place after a string's closing quote; `None` if `jsonb` refuses it.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' if text.get(at + 1) == Some(&b'u') => {
                let unit = unit(text, at)?;
                at += 6;
                match unit {
                    0 | 0xdc00..=0xdfff => return None,
                    0xd800..=0xdbff => {
                        let low = unit_after(text, at)?;
                        if !(0xdc00..=0xdfff).contains(&low) {
                            return None;
                        }
                        at += 6;
                    }
                    _ => {}
                }
            }
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn unit_after(text: &[u8], at: usize) -> Option<u32> {
    (text.get(at..at + 2) == Some(b"\\u")).then(|| unit(text, at))?
}

/// The number of `\uXXXX` at a place.
fn unit(text: &[u8], at: usize) -> Option<u32> {
    let digits = std::str::from_utf8(text.get(at + 2..at + 6)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

/// The place after a number; `None` if it is beyond `jsonb`'s range.
fn number_end(text: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin;
    while matches!(text.get(at), Some(b'-' | b'+' | b'.' | b'0'..=b'9')) {
        at += 1;
    }
    if at - begin > MOST_DIGITS {
        return None;
    }
    if !matches!(text.get(at), Some(b'e' | b'E')) {
        return Some(at);
    }
    at += 1;
    if matches!(text.get(at), Some(b'-' | b'+')) {
        at += 1;
    }
    let mut exponent = 0u32;
    while let Some(digit) = text.get(at).filter(|byte| byte.is_ascii_digit()) {
        exponent = exponent
            .saturating_mul(10)
            .saturating_add(u32::from(digit - b'0'));
        at += 1;
    }
    (exponent <= GREATEST_EXPONENT).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_jsonb_refuses_is_named_instead() {
        let refused = [
            r#""\u0000""#,
            r#"{"a\u0000":1}"#,
            r#""\ud800""#,
            r#""\udc00\ud800""#,
            r#""\ud800\u0041""#,
            "1e999999",
            "[1E+301]",
            "{",
            "",
        ];
        for text in refused {
            assert!(!fits(text), "{text}");
            let shown = shown(text.as_bytes(), "ab");
            assert!(shown.contains("$reference") && fits(&shown));
        }
        assert!(!fits(&"9".repeat(301)));
        assert!(!fits(&format!("{}{}", "[".repeat(101), "]".repeat(101))));
        assert!(!fits(&format!("\"{}\"", "x".repeat(MOST_SHOWN))));
        assert!(shown(&[0xff], "ab").contains("$reference"));
    }

    #[test]
    fn what_jsonb_takes_is_shown() {
        let taken = [
            r#"{"a":[1,-2.5e10,true,null,"\u0001\ud83d\ude00 \\u0000 é"]}"#,
            "1e300",
            "0.1",
            r#""\"""#,
        ];
        for text in taken {
            assert!(fits(text), "{text}");
            assert_eq!(shown(text.as_bytes(), "ab"), text);
        }
    }
}
