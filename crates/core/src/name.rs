//! Names that come from outside: those that become keys (index entries, labels of metrics,
//! parts of file names) and those that people read. Each is parsed once, where it comes in.
//! What is stored is not parsed again, so that names which an earlier version accepted still
//! load. Must not know where a name is used.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// What a [`KeyName`] matches.
pub const KEY_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}$";

/// What a [`ShortText`] matches: no control characters.
pub const TEXT_PATTERN: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";

/// The longest [`KeyName`], in bytes.
pub const KEY_BYTES: usize = 128;

/// The longest [`ShortText`], in bytes.
pub const TEXT_BYTES: usize = 256;

/// The error code of an action that returned a code which is no [`KeyName`].
pub const INVALID_ERROR_CODE: &str = "ERROR_CODE_INVALID";

/// Whether a text can be a [`KeyName`].
#[must_use]
pub fn is_key_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._/:-".contains(&byte);
    text.len() <= KEY_BYTES
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(fits)
}

/// Whether a text can be a [`ShortText`].
#[must_use]
pub fn is_short_text(text: &str) -> bool {
    text.len() <= TEXT_BYTES && !text.contains(char::is_control)
}

/// The first bytes of a text, at most so many, cut between two characters.
#[must_use]
pub fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// A name that becomes a key: an action type, a label's key, a signal, an error code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct KeyName(Box<str>);

/// A text for people or for matching: a display name, a label's value, a request id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ShortText(Box<str>);

/// Why a text is refused as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameProblem {
    /// It is no [`KeyName`].
    NoKey,
    /// It is no [`ShortText`].
    NoShortText,
}

impl fmt::Display for NameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => write!(f, "it must match {KEY_PATTERN}"),
            Self::NoShortText => write!(
                f,
                "it must have at most {TEXT_BYTES} bytes and no control characters"
            ),
        }
    }
}

impl std::error::Error for NameProblem {}

macro_rules! name {
    ($name:ident, $is:ident, $problem:ident, $schema:expr) => {
        impl $name {
            /// Takes a text that can be one.
            ///
            /// # Errors
            /// It cannot.
            pub fn parse(text: &str) -> Result<Self, NameProblem> {
                match $is(text) {
                    true => Ok(Self(text.into())),
                    false => Err(NameProblem::$problem),
                }
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<$name> for Box<str> {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'_, str>::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

name!(
    KeyName,
    is_key_name,
    NoKey,
    json_schema!({ "type": "string", "pattern": KEY_PATTERN, "maxLength": KEY_BYTES })
);
name!(
    ShortText,
    is_short_text,
    NoShortText,
    json_schema!({ "type": "string", "pattern": TEXT_PATTERN, "maxLength": TEXT_BYTES })
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_match_their_pattern_and_nothing_else_does() {
        let longest = "k".repeat(KEY_BYTES);
        for good in ["a", "0", "http.request", "a/b:c_d-e", &longest] {
            assert_eq!(KeyName::parse(good).as_ref().map(KeyName::as_str), Ok(good));
        }
        let longer = "k".repeat(KEY_BYTES + 1);
        for bad in [
            "",
            ".a",
            "-a",
            "a b",
            "a\n",
            "ä",
            "a_b\u{0}",
            "a\u{1b}[0m",
            &longer,
        ] {
            assert_eq!(KeyName::parse(bad), Err(NameProblem::NoKey), "{bad:?}");
        }
    }

    #[test]
    fn texts_are_short_and_have_no_control_characters() {
        let longest = "ä".repeat(TEXT_BYTES / 2);
        for good in ["", "a b", "Müller & Söhne", &longest] {
            assert!(ShortText::parse(good).is_ok(), "{good:?}");
        }
        let longer = format!("{longest}x");
        for bad in ["a\n", "\u{1b}[2J", "\u{7f}", "\u{9b}", &longer] {
            assert_eq!(
                ShortText::parse(bad),
                Err(NameProblem::NoShortText),
                "{bad:?}"
            );
        }
        assert_eq!(cut(&longest, 3), "ä");
    }
}
