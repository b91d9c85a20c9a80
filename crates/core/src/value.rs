//! Values as a run carries them: raw JSON bytes with a digest, and references to
//! where the bytes are kept. The state of a run never holds the bytes themselves.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::Digest;

/// Values up to this size stand in the log; larger ones are blobs.
pub const INLINE_BYTES: usize = 4096;

/// How deeply values may be nested.
pub const MAX_NESTING: usize = 64;

/// How deeply a JSON text is nested, by one look at its bytes.
pub fn nesting(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// JSON without what typing it adds: the spaces between its parts, and escapes of letters that
/// can stand for themselves. Otherwise letter for letter: numbers keep their digits.
pub(crate) fn compact(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('"') {
        text.extend(rest[..at].chars().filter(|letter| !is_space(*letter)));
        let end = at + 1 + end_of_string(&rest[at + 1..]);
        push_string(&rest[at..end], &mut text);
        rest = &rest[end..];
    }
    text.extend(rest.chars().filter(|letter| !is_space(*letter)));
    text
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r')
}

/// How many bytes there are up to the end of a string, its last quote included.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().position(|byte| match byte {
        _ if escaped => {
            escaped = false;
            false
        }
        b'\\' => {
            escaped = true;
            false
        }
        byte => byte == b'"',
    });
    end.map_or(text.len(), |end| end + 1)
}

/// A string with its quotes, as a program would write it. What no text can hold, such as half
/// of a pair, stays as it was written.
fn push_string(string: &str, text: &mut String) {
    let decoded = string
        .contains('\\')
        .then(|| serde_json::from_str::<String>(string).ok())
        .flatten();
    match decoded.and_then(|decoded| serde_json::to_string(&decoded).ok()) {
        Some(written) => text.push_str(&written),
        None => text.push_str(string),
    }
}

/// The text of an object, built from the texts of its members.
pub fn object_text<'t>(members: impl IntoIterator<Item = (&'t str, &'t str)>) -> String {
    let mut text = String::from("{");
    for (name, value) in members {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&serde_json::Value::from(name).to_string());
        text.push(':');
        text.push_str(value);
    }
    text.push('}');
    text
}

/// A text or number, `true`, `false` or `null`; nothing for a list or an object, which may be
/// large.
pub(crate) fn scalar(text: &str) -> Option<serde_json::Value> {
    if text.trim_start().starts_with(['[', '{']) {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// JSON text with its digest.
#[derive(Clone, Debug)]
pub struct Payload {
    /// Valid JSON text.
    text: Arc<str>,
    /// Computed on first use: parameters that stand in the record need none.
    digest: OnceLock<Digest>,
    /// Computed on first use, or by [`prepare`](Self::prepare) on a thread that has time for
    /// it.
    stored: OnceLock<Stored>,
}

impl Payload {
    /// Wraps text that is known to be JSON.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            digest: OnceLock::new(),
            stored: OnceLock::new(),
        }
    }

    /// Wraps JSON text as a user typed it, without the spaces and escapes that typing adds, so
    /// that the layout does not change the digest.
    pub fn typed(text: &str) -> Self {
        Self::new(compact(text))
    }

    /// The value `null`.
    pub fn null() -> Self {
        Self::new("null")
    }

    /// The JSON text.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// SHA-256 of the text.
    pub fn digest(&self) -> Digest {
        *self.digest.get_or_init(|| Digest::of(self.text.as_bytes()))
    }

    /// Makes the form in which a record carries the value now, on the worker, so that the
    /// shard that decides need not: many workers report to one shard.
    pub fn prepare(&self) {
        self.stored.get_or_init(|| self.to_stored());
    }

    /// The form in which a record carries the value.
    pub fn stored(&self) -> Stored {
        self.stored
            .get()
            .cloned()
            .unwrap_or_else(|| self.to_stored())
    }

    fn to_stored(&self) -> Stored {
        if self.text.len() <= INLINE_BYTES
            && let Ok(raw) = RawValue::from_string(self.text.to_string())
        {
            return Stored::Inline(raw);
        }
        Stored::Blob {
            digest: self.digest(),
            size: self.text.len() as u64,
        }
    }
}

/// A value in a record: the text itself, or where it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stored {
    /// The JSON text.
    Inline(Box<RawValue>),
    /// A blob's address and size.
    Blob {
        /// SHA-256 of the text.
        digest: Digest,
        /// Its length in bytes.
        size: u64,
    },
}

/// Two are the same where their texts are, byte for byte.
impl PartialEq for Stored {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Inline(one), Self::Inline(other)) => one.get() == other.get(),
            (Self::Blob { digest, size }, Self::Blob { digest: d, size: s }) => {
                (digest, size) == (d, s)
            }
            _ => false,
        }
    }
}

impl Eq for Stored {}

impl Stored {
    /// SHA-256 of the value's bytes.
    pub fn digest(&self) -> Digest {
        match self {
            Self::Inline(raw) => Digest::of(raw.get().as_bytes()),
            Self::Blob { digest, .. } => *digest,
        }
    }

    /// The value's length in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Inline(raw) => raw.get().len() as u64,
            Self::Blob { size, .. } => *size,
        }
    }
}

/// Bytes that an attempt stored beside its output, in parts that are values of the store each, so
/// that none of its readers needs the whole in memory. Outputs name it by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredFile {
    /// SHA-256 of all bytes.
    pub digest: Digest,
    /// How many there are.
    pub size: u64,
    /// What they are, as their sender said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Box<str>>,
    /// The parts, in their order.
    pub parts: Vec<Stored>,
}

/// Where a value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueRef {
    /// SHA-256 of the value's bytes.
    pub digest: Digest,
    /// The value's length in bytes.
    pub size: u32,
    /// The record it stands in, counted from 1; 0 when it is a blob.
    pub record: u32,
}

impl ValueRef {
    /// The reference to a value that stands in, or is named by, this record.
    pub fn new(stored: &Stored, digest: Digest, record: u64) -> Self {
        let record = match stored {
            Stored::Inline(_) => u32::try_from(record).unwrap_or(u32::MAX),
            Stored::Blob { .. } => 0,
        };
        Self {
            digest,
            size: u32::try_from(stored.size()).unwrap_or(u32::MAX),
            record,
        }
    }

    /// Whether the value is a blob.
    pub fn is_blob(&self) -> bool {
        self.record == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_counts_brackets_outside_of_texts() {
        assert_eq!(nesting("1"), 0);
        assert_eq!(nesting(r#"{"a":[1,"[[ \" [["],"b":{}}"#), 2);
        assert_eq!(nesting(&"[".repeat(65)), 65);
    }

    #[test]
    fn compact_removes_spaces_between_parts_and_needless_escapes() {
        let text = "{ \"a b\" :\t[ 1.0 ,\n \"c \\\" d\" ] }";
        assert_eq!(compact(text), r#"{"a b":[1.0,"c \" d"]}"#);
        for (typed, kept) in [
            (r#""\u00e9 \/ \ud83d\ude00""#, "\"\u{e9} / \u{1f600}\""),
            (r#""\u000A\u0001 \\ \"""#, r#""\n\u0001 \\ \"""#),
            (r#""\ud83d""#, r#""\ud83d""#),
            (
                r#"{"\u0061":12345678901234567890.10}"#,
                r#"{"a":12345678901234567890.10}"#,
            ),
            ("\"a\\\\\" ", r#""a\\""#),
            (" null ", "null"),
        ] {
            assert_eq!(compact(typed), kept, "{typed}");
        }
    }
}
