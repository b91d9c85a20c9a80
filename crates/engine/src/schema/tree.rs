//! What a value takes in memory as a tree of `serde_json` values, counted from its text before
//! it is built: a validator takes such a tree, which may be a hundred times its text.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// What an allocation takes beside what it holds.
const ALLOCATION: u64 = 16;

/// What a property takes: its key, its value and its hash.
const PROPERTY: u64 = (size_of::<String>() + size_of::<Value>() + size_of::<u64>()) as u64;

/// The size of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    /// How many values it has.
    pub(crate) values: u64,
    /// About how many bytes of memory it takes.
    pub(crate) bytes: u64,
}

impl Tree {
    /// Counts the tree of a text that is JSON.
    pub(crate) fn of(text: &str) -> Self {
        let mut tree = Self {
            values: 0,
            bytes: size_of::<Value>() as u64,
        };
        let mut reader = serde_json::Deserializer::from_str(text);
        // What is wrong with the text was said before.
        let _ = Counter(&mut tree).deserialize(&mut reader);
        tree
    }

    fn add_text(&mut self, length: usize) {
        if length > 0 {
            self.bytes += length as u64 + ALLOCATION;
        }
    }

    /// An array that grew to so many elements: it doubles, and begins with four.
    fn add_array(&mut self, count: u64) {
        if count > 0 {
            self.bytes += room(count) * size_of::<Value>() as u64 + ALLOCATION;
        }
    }

    /// An object that grew to so many properties, and the table that finds them.
    fn add_object(&mut self, count: u64) {
        if count > 0 {
            let table = (room(count) * 8 / 7).next_power_of_two();
            self.bytes += room(count) * PROPERTY + table * 9 + 3 * ALLOCATION;
        }
    }
}

fn room(count: u64) -> u64 {
    count.next_power_of_two().max(4)
}

struct Counter<'t>(&'t mut Tree);

impl Counter<'_> {
    fn again(&mut self) -> Counter<'_> {
        Counter(self.0)
    }
}

impl<'de> DeserializeSeed<'de> for Counter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.0.values += 1;
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.add_text(text.len());
        self.visit_unit()
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let mut count = 0;
        while items.next_element_seed(self.again())?.is_some() {
            count += 1;
        }
        self.0.add_array(count);
        self.visit_unit()
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let mut count = 0;
        while entries.next_key_seed(self.again())?.is_some() {
            entries.next_value_seed(self.again())?;
            count += 1;
        }
        // A key is no value of its own.
        self.0.values -= count;
        self.0.add_object(count);
        self.visit_unit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values, and bytes that the parts of a tree really hold.
    fn held(value: &Value) -> (u64, u64) {
        let (mut values, mut bytes) = (1, 0);
        let mut add = |inner: &Value| {
            let (more, held) = self::held(inner);
            values += more;
            bytes += held;
        };
        let own = match value {
            Value::String(text) => text.capacity(),
            Value::Array(items) => {
                items.iter().for_each(&mut add);
                items.capacity() * size_of::<Value>()
            }
            Value::Object(map) => {
                map.values().for_each(&mut add);
                let keys: usize = map.keys().map(String::capacity).sum();
                // One that is not empty has room for three at least.
                let room = if map.is_empty() { 0 } else { map.len().max(3) };
                keys + room * PROPERTY as usize
            }
            _ => 0,
        };
        (values, bytes + own as u64)
    }

    #[test]
    fn a_tree_is_counted_as_it_is_built() {
        for text in [
            "null",
            "[]",
            "{}",
            "[0]",
            "[[0],[0],[0]]",
            r#"{"a":1,"b":"text","c":[1,2.5,true,null,{"d":{}}]}"#,
            &format!("[{}0]", "[0],".repeat(1000)),
            &format!("[{}0]", "0,".repeat(1025)),
            &format!("[{}0]", r#"{"a":"b"},"#.repeat(1000)),
        ] {
            let value: Value = serde_json::from_str(text).expect("JSON");
            let tree = Tree::of(text);
            let (values, bytes) = held(&value);
            let shown = &text[..text.len().min(60)];
            assert_eq!(tree.values, values, "{shown}");
            let within = bytes..=3 * bytes + 256;
            assert!(within.contains(&tree.bytes), "{shown}: {tree:?}, {bytes}");
        }
    }
}
