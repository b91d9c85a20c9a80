//! Parts of requests that are bounded by their types: a value past the bounds is refused, never
//! silently corrected, and the OpenAPI document states the bounds.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A whole number between two others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Between<const LEAST: u16, const MOST: u16>(u16);

impl<const LEAST: u16, const MOST: u16> Between<LEAST, MOST> {
    pub(crate) fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl<'de, const LEAST: u16, const MOST: u16> Deserialize<'de> for Between<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u16::deserialize(deserializer)?;
        if (LEAST..=MOST).contains(&number) {
            return Ok(Self(number));
        }
        let message = format!("it is {number}, and may be from {LEAST} to {MOST}");
        Err(D::Error::custom(message))
    }
}

impl<const LEAST: u16, const MOST: u16> JsonSchema for Between<LEAST, MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Between{LEAST}And{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": LEAST, "maximum": MOST })
    }
}

/// Text of at most so many characters.
#[derive(Clone, Debug)]
pub(crate) struct Words<const MOST: usize>(String);

/// Why a command was given; the run's history keeps it.
pub(crate) type Reason = Words<4096>;

/// A node instance, by its path: as many parts as bodies may be nested, and no more than a
/// run can have.
pub(crate) type NodePath = Words<2048>;

impl<const MOST: usize> From<Words<MOST>> for String {
    fn from(words: Words<MOST>) -> Self {
        words.0
    }
}

impl<'de, const MOST: usize> Deserialize<'de> for Words<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let length = text.chars().count();
        if length <= MOST {
            return Ok(Self(text));
        }
        let message = format!("it has {length} characters, and may have {MOST}");
        Err(D::Error::custom(message))
    }
}

impl<const MOST: usize> JsonSchema for Words<MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Words{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": MOST })
    }
}

/// A list of at most so many elements.
#[derive(Clone, Debug)]
pub(crate) struct AtMost<const MOST: usize, T>(Vec<T>);

impl<const MOST: usize, T> Default for AtMost<MOST, T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<const MOST: usize, T> IntoIterator for AtMost<MOST, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de, const MOST: usize, T: Deserialize<'de>> Deserialize<'de> for AtMost<MOST, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list = Vec::deserialize(deserializer)?;
        if list.len() <= MOST {
            return Ok(Self(list));
        }
        let message = format!("it has {} elements, and may have {MOST}", list.len());
        Err(D::Error::custom(message))
    }
}

impl<const MOST: usize, T: JsonSchema> JsonSchema for AtMost<MOST, T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("AtMost{MOST}{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<T>();
        json_schema!({ "type": "array", "items": items, "maxItems": MOST })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_past_the_bounds_is_refused() {
        for (text, fits) in [
            ("0", false),
            ("1", true),
            ("9", true),
            ("10", false),
            ("-1", false),
        ] {
            let read = serde_json::from_str::<Between<1, 9>>(text);
            assert_eq!(read.is_ok(), fits, "{text}");
        }
        for (text, fits) in [("\"\"", true), ("\"äöü\"", true), ("\"abcd\"", false)] {
            let read = serde_json::from_str::<Words<3>>(text);
            assert_eq!(read.is_ok(), fits, "{text}");
        }
        for (text, fits) in [("[]", true), ("[1, 2]", true), ("[1, 2, 3]", false)] {
            let read = serde_json::from_str::<AtMost<2, u8>>(text);
            assert_eq!(read.is_ok(), fits, "{text}");
        }
    }
}
