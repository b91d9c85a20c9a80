//! Mends a text whose shape is wrong in places, so that the rest can be checked.

use std::collections::HashSet;
use std::ops::Range;

/// Stands in for a text that is missing or is not a text. No definition contains it, and
/// checks skip it.
pub(crate) const STAND_IN: &str = "\u{0}";

/// A change of the text.
#[derive(Debug)]
pub(crate) struct Edit {
    /// What is left out.
    pub(crate) range: Range<usize>,
    /// What stands there instead.
    text: String,
}

impl Edit {
    /// Leaves a member out.
    pub(crate) fn cut(range: Range<usize>) -> Self {
        Self::replace(range, String::new())
    }

    /// Writes something else in the place of a value.
    pub(crate) fn replace(range: Range<usize>, text: String) -> Self {
        Self { range, text }
    }

    /// Adds a member.
    pub(crate) fn insert(at: usize, text: String) -> Self {
        Self::replace(at..at, text)
    }
}

/// The text with these changes, which are in its order. Every value keeps its pointer; inside of
/// what is left out, there are no changes.
pub(crate) fn mended(text: &str, edits: &[Edit]) -> String {
    let mut out = String::with_capacity(text.len() + 16 * edits.len());
    let mut copied = 0;
    for edit in edits {
        if edit.range.start < copied {
            continue;
        }
        out.push_str(&text[copied..edit.range.start]);
        out.push_str(&edit.text);
        copied = edit.range.end;
    }
    out.push_str(&text[copied..]);
    let mut bytes = out.into_bytes();
    drop_commas(&mut bytes);
    // Members begin and end at quotes and brackets, so no character was halved.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Where something of the document is missing after it was mended, so that what may only follow
/// from that is not reported.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    /// Pointers of the objects that lack a member.
    objects: HashSet<String>,
    /// Pointers of the lists of nodes some of whose edges are missing.
    edges: HashSet<String>,
}

impl LeftOut {
    /// The value with this pointer is missing, or is a stand-in. `meant` is the known key that
    /// its own may have been meant to be.
    pub(crate) fn note(&mut self, pointer: &str, meant: Option<&str>) {
        let (object, _) = pointer.rsplit_once('/').unwrap_or_default();
        self.objects.insert(object.to_owned());
        let Some((list, inside)) = pointer.rsplit_once("/nodes/") else {
            return;
        };
        let inside = inside.split_once('/').map_or("", |(_, inside)| inside);
        let first = meant.or_else(|| inside.split('/').next());
        if first.is_none_or(|first| EDGES.contains(&first)) {
            self.edges.insert(format!("{list}/nodes"));
        }
    }

    /// Whether anything was left out.
    pub(crate) fn any(&self) -> bool {
        !self.objects.is_empty()
    }

    /// Whether the object with this pointer lacks a member.
    pub(crate) fn has(&self, object: &str) -> bool {
        !self.objects.is_empty() && self.objects.contains(object)
    }

    /// Whether an edge may be missing in the list of nodes with this pointer.
    pub(crate) fn has_edges(&self, list: &str) -> bool {
        !self.edges.is_empty() && self.edges.contains(list)
    }
}

/// Keys of a node without which some of its edges are missing; the empty one is the node itself.
pub(crate) const EDGES: [&str; 6] = ["", "id", "edges", "dependsOn", "onFailure", "switch"];

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

    fn check(text: &str, edits: &[(&str, &str)], expected: &str) {
        let edits: Vec<_> = edits
            .iter()
            .map(|(part, instead)| {
                let start = text.find(part).expect("the part is in the text");
                Edit::replace(start..start + part.len(), (*instead).to_owned())
            })
            .collect();
        let squeezed: String = mended(text, &edits).split_whitespace().collect();
        assert_eq!(squeezed, expected);
    }

    #[test]
    fn members_are_left_out_with_their_commas() {
        check(
            r#"{"a":1,"b":2,"c":3}"#,
            &[(r#""a":1"#, "")],
            r#"{"b":2,"c":3}"#,
        );
        check(
            r#"{"a":1,"b":2,"c":3}"#,
            &[(r#""b":2"#, "")],
            r#"{"a":1,"c":3}"#,
        );
        check(
            r#"{"a":1,"b":2,"c":3}"#,
            &[(r#""c":3"#, "")],
            r#"{"a":1,"b":2}"#,
        );
        check(
            r#"{"a":1,"b":2}"#,
            &[(r#""a":1"#, ""), (r#""b":2"#, "")],
            "{}",
        );
        check(
            r#"{"a":",{\",","b":[2,3]}"#,
            &[(r#""b":[2,3]"#, "")],
            r#"{"a":",{\","}"#,
        );
    }

    #[test]
    fn values_get_stand_ins_and_objects_what_they_lack() {
        check(
            r#"{"a":1,"b":[2,3]}"#,
            &[("1", "\"x\""), ("2", "{}")],
            r#"{"a":"x","b":[{},3]}"#,
        );
        let text = r#"{"b":{},"c":{"d":1}}"#;
        let edits = [
            Edit::insert(6, r#""x":1,"#.to_owned()),
            Edit::insert(13, r#""y":2,"#.to_owned()),
        ];
        assert_eq!(
            mended(text, &edits).replace(' ', ""),
            r#"{"b":{"x":1},"c":{"y":2,"d":1}}"#
        );
    }

    #[test]
    fn what_may_hold_edges_is_told_from_what_cannot() {
        for (pointer, edges) in [
            ("/bogus", false),
            ("/nodes/3/edges", true),
            ("/nodes/3/edges/0/targetNode", true),
            ("/nodes/3/dependsOn/1", true),
            ("/nodes/3/policies/retry/maxAttempts", false),
            ("/nodes/3/policies", false),
            ("/nodes/3/delay/bogus", false),
            ("/nodes/3/id", true),
            ("/nodes/3", true),
        ] {
            let mut left_out = LeftOut::default();
            left_out.note(pointer, None);
            assert_eq!(left_out.has_edges("/nodes"), edges, "{pointer}");
        }
        let mut left_out = LeftOut::default();
        left_out.note("/nodes/0/forEach/body/nodes/1/edges/0", None);
        assert!(left_out.has_edges("/nodes/0/forEach/body/nodes") && !left_out.has_edges("/nodes"));
        assert!(left_out.has("/nodes/0/forEach/body/nodes/1/edges"));
        for (meant, edges) in [(Some("edges"), true), (Some("name"), false), (None, false)] {
            let mut left_out = LeftOut::default();
            left_out.note("/nodes/3/edgs", meant);
            assert_eq!(left_out.has_edges("/nodes"), edges, "{meant:?}");
        }
    }
}
