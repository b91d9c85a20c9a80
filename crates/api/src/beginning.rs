//! What the first part of a report says of which the whole is too large: the members that come
//! whole before the part ends. A worker proves by its lease that it may end the attempt.

use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};

/// The members that matter, of those that came.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Beginning {
    pub(crate) lease: Option<String>,
    /// The code of a failure.
    pub(crate) code: Option<String>,
    /// Whether another attempt might succeed.
    pub(crate) retriable: Option<bool>,
}

impl Beginning {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut found = Self::default();
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        // It breaks off in the middle: what was found before counts.
        let _ = reader.deserialize_map(Members(&mut found));
        found
    }
}

struct Members<'a>(&'a mut Beginning);

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            match &*name {
                "lease" => self.0.lease = Some(members.next_value()?),
                "code" => self.0.code = Some(members.next_value()?),
                "retriable" => self.0.retriable = Some(members.next_value()?),
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_whole_counts_and_nothing_else() {
        let read = |text: &str| Beginning::read(text.as_bytes());
        let found =
            read(r#"{"code": "C", "details": {"lease": "no"}, "lease": "l", "message": "x"#);
        assert_eq!(found.lease.as_deref(), Some("l"));
        assert_eq!((found.code.as_deref(), found.retriable), (Some("C"), None));
        for bad in [
            "",
            "[",
            r#"["lease"]"#,
            r#"{"lease": "l"#,
            r#"{"lease": 5, "code": "C""#,
        ] {
            assert_eq!(read(bad).lease, None, "{bad}");
        }
        let after = read(r#"{"output": "xxxx"#);
        assert_eq!(after, Beginning::default());
    }
}
