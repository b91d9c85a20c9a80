//! An object's members as slices of the text that they stand in, so that each can be copied with
//! its place.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use windlass_core::definition::Rewritten;

/// The members of an object, in their order.
#[derive(Default)]
pub(super) struct Slices<'t>(Vec<Slice<'t>>);

/// One member: its key, which is a slice of the text unless it has escapes, and its value.
pub(super) struct Slice<'t> {
    pub(super) key: Cow<'t, str>,
    pub(super) value: &'t RawValue,
}

impl<'t> Slices<'t> {
    pub(super) fn get(&self, key: &str) -> Option<&'t RawValue> {
        self.member(key).map(|member| member.value)
    }

    pub(super) fn member(&self, key: &str) -> Option<&Slice<'t>> {
        self.0.iter().find(|member| member.key == key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slice<'t>> {
        self.0.iter()
    }
}

impl Slice<'_> {
    /// Copies the member of a file.
    pub(super) fn copy(&self, file: &[u8], out: &mut Rewritten) {
        self.copy_key(file, out);
        out.copy(file, self.value.get());
    }

    /// Copies the key, with the colon after it.
    pub(super) fn copy_key(&self, file: &[u8], out: &mut Rewritten) {
        self.copy_id(file, out);
        out.push(":");
    }

    /// Copies the key as a value.
    pub(super) fn copy_id(&self, file: &[u8], out: &mut Rewritten) {
        let borrowed = match &self.key {
            Cow::Borrowed(key) => quoted(file, key),
            Cow::Owned(_) => None,
        };
        match borrowed {
            Some(key) => out.copy(file, key),
            None => out.push(&serde_json::json!(self.key).to_string()),
        }
    }
}

/// A key with its quotes, as a slice of the file.
fn quoted<'a>(file: &'a [u8], key: &str) -> Option<&'a str> {
    let start = (key.as_ptr() as usize).checked_sub(file.as_ptr() as usize + 1)?;
    let slice = file.get(start..start + key.len() + 2)?;
    std::str::from_utf8(slice).ok()
}

impl<'de: 't, 't> Deserialize<'de> for Slices<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Slices<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(key) = map.next_key::<Key<'de>>()? {
                    let value = map.next_value()?;
                    members.push(Slice { key: key.0, value });
                }
                Ok(Slices(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// A key that borrows where it can.
struct Key<'t>(Cow<'t, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowing;

        impl<'de> Visitor<'de> for Borrowing {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Borrowing)
    }
}
