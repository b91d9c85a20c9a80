//! An object's members as they are written: in their order, and with every digit. A value
//! that only passes through is not read as a number, which would round it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// The members of an object. A repeated key is kept, so that the code that checks for it still
/// sees it.
#[derive(Clone, Debug, Default)]
pub struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    /// The members of what is written as an object.
    ///
    /// # Errors
    /// The text is not an object.
    pub fn of(value: &impl Serialize) -> serde_json::Result<Self> {
        serde_json::from_str(&serde_json::to_string(value)?)
    }

    /// Whether there is such a member.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// A member's value.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| &**value)
    }

    /// Takes a member out.
    pub fn remove(&mut self, key: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(known, _)| known == key)?;
        Some(self.0.remove(at).1)
    }

    /// Puts a value in the place of the member, or at the end.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set(&mut self, key: &str, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
        let value = to_raw_value(value)?;
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, place)) => *place = value,
            None => self.0.push((key.to_owned(), value)),
        }
        Ok(())
    }

    /// Leaves out what is null.
    pub fn without_nulls(mut self) -> Self {
        self.0.retain(|(_, value)| value.get() != "null");
        self
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(key, value)| (key.as_str(), &**value))
    }
}

impl IntoIterator for Members {
    type Item = (String, Box<RawValue>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Extend<(String, Box<RawValue>)> for Members {
    fn extend<T: IntoIterator<Item = (String, Box<RawValue>)>>(&mut self, members: T) {
        self.0.extend(members);
    }
}

/// As JSON.
impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stay_as_they_are_written() {
        let text = r#"{"b":{"n":123456789012345678901234567890},"a":1.50,"b":-0,"c":null}"#;
        let mut members: Members = serde_json::from_str(text).expect("an object");
        assert_eq!(members.to_string(), text);
        assert!(members.has("c") && !members.has("d"));
        members.remove("b").expect("it is there");
        members.set("a", "x").expect("JSON");
        members.set("e", &[1]).expect("JSON");
        let written = serde_json::to_string(&members.without_nulls());
        assert_eq!(written.expect("JSON"), r#"{"a":"x","b":-0,"e":[1]}"#);
        assert!(serde_json::from_str::<Members>("[1]").is_err());
    }
}
