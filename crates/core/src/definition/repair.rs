//! Leaves refused members out of a text, so that the rest can be checked.

use std::ops::Range;

/// The text with these members replaced by spaces: every other byte stays
/// where it was, and so do the places of later findings.
pub(crate) fn without(text: &str, cuts: &[Range<usize>]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for cut in cuts {
        bytes[cut.clone()].fill(b' ');
    }
    drop_commas(&mut bytes);
    // Members begin and end at quotes and brackets, so no character was halved.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Removes the commas that no longer stand between two members.
fn drop_commas(bytes: &mut [u8]) {
    let mut previous = (b'[', 0);
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            b',' if matches!(previous.0, b'[' | b'{' | b',') => {
                bytes[at] = b' ';
                at += 1;
                continue;
            }
            b']' | b'}' if previous.0 == b',' => bytes[previous.1] = b' ',
            _ => {}
        }
        previous = (byte, at);
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, cut: &[&str], expected: &str) {
        let cuts: Vec<_> = cut
            .iter()
            .map(|part| {
                let start = text.find(part).expect("the part is in the text");
                start..start + part.len()
            })
            .collect();
        let left = without(text, &cuts);
        assert_eq!(left.len(), text.len());
        let squeezed: String = left.split_whitespace().collect();
        assert_eq!(squeezed, expected);
    }

    #[test]
    fn members_are_left_out_with_their_commas() {
        check(r#"{"a":1,"b":2,"c":3}"#, &[r#""a":1"#], r#"{"b":2,"c":3}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &[r#""b":2"#], r#"{"a":1,"c":3}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, &[r#""c":3"#], r#"{"a":1,"b":2}"#);
        check(r#"{"a":1,"b":2}"#, &[r#""a":1"#, r#""b":2"#], "{}");
        check(
            r#"{"a":",{\",","b":[2,3]}"#,
            &[r#""b":[2,3]"#],
            r#"{"a":",{\","}"#,
        );
    }
}
