//! A JSON text in its one canonical form: what two equal values have in common. Neither
//! spaces, nor the order of keys, nor the spelling of a number or a string change it.
//!
//! Numbers are compared as the decimals they are written as, so that integers no float can
//! hold stay apart. The reader takes text that was parsed before; it must not be given other.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The longest number that is written without an exponent.
const PLAIN_DIGITS: i64 = 21;

/// A key that an object has twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedKey {
    /// The RFC 6901 pointer of the object.
    pub pointer: String,
    /// The key.
    pub key: String,
}

/// The canonical form of a text that is JSON, nested no deeper than values may be.
///
/// # Errors
/// An object has a key twice: which of the two is meant, nobody can say.
pub fn canonical(json: &str) -> Result<String, RepeatedKey> {
    let mut reader = Reader { rest: json };
    reader.value()
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Result<String, RepeatedKey> {
        match self.peek() {
            Some('{') => self.object(),
            Some('[') => self.array(),
            Some('"') => Ok(quoted(&self.string())),
            Some('-' | '0'..='9') => {
                Ok(number(self.take(|c| {
                    matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')
                })))
            }
            _ => Ok(self.take(char::is_alphabetic).to_owned()),
        }
    }

    fn object(&mut self) -> Result<String, RepeatedKey> {
        self.eat('{');
        let mut members = BTreeMap::new();
        while self.peek() == Some('"') {
            let key = self.string();
            self.eat(':');
            let value = self.value().map_err(|inner| inner.below(&key))?;
            self.eat(',');
            match members.entry(key) {
                Entry::Vacant(place) => place.insert(value),
                Entry::Occupied(known) => {
                    return Err(RepeatedKey {
                        pointer: String::new(),
                        key: known.key().clone(),
                    });
                }
            };
        }
        self.eat('}');
        let members = members.iter();
        let members: Vec<String> = members
            .map(|(key, value)| format!("{}:{value}", quoted(key)))
            .collect();
        Ok(format!("{{{}}}", members.join(",")))
    }

    fn array(&mut self) -> Result<String, RepeatedKey> {
        self.eat('[');
        let mut items = Vec::new();
        while !matches!(self.peek(), Some(']') | None) {
            let index = items.len().to_string();
            items.push(self.value().map_err(|inner| inner.below(&index))?);
            self.eat(',');
        }
        self.eat(']');
        Ok(format!("[{}]", items.join(",")))
    }

    /// Reads a string with its quotes; gives its text.
    fn string(&mut self) -> String {
        let mut escaped = false;
        let end = self.rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let (text, rest) = self
            .rest
            .split_at(end.map_or(self.rest.len(), |end| end + 2));
        self.rest = rest;
        serde_json::from_str(text).unwrap_or_default()
    }

    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is_part(c));
        let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        text
    }

    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.rest.chars().next()
    }

    fn eat(&mut self, character: char) {
        if self.peek() == Some(character) {
            self.rest = &self.rest[1..];
        }
    }
}

impl RepeatedKey {
    fn below(mut self, step: &str) -> Self {
        let step = step.replace('~', "~0").replace('/', "~1");
        self.pointer.insert_str(0, &format!("/{step}"));
        self
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The canonical spelling of a number: as an integer, else with a point, else with an
/// exponent, whichever is the first that is not too long.
fn number(text: &str) -> String {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        // Also the negative one: the two are equal.
        return "0".to_owned();
    }
    let Ok(exponent) = exponent.parse::<i32>() else {
        return text.to_owned();
    };
    let dropped = digits.len() - significant.len();
    // The value is the significant digits, times ten to this.
    let power = i64::from(exponent) + dropped as i64 - fraction.len() as i64;
    let point = significant.len() as i64 + power;
    if power >= 0 && point <= PLAIN_DIGITS {
        let zeros = "0".repeat(usize::try_from(power).unwrap_or(0));
        return format!("{sign}{significant}{zeros}");
    }
    match usize::try_from(point) {
        Ok(point) if power < 0 && point > 0 => {
            format!("{sign}{}.{}", &significant[..point], &significant[point..])
        }
        _ if power < 0 && point > -6 => {
            let zeros = "0".repeat(usize::try_from(-point).unwrap_or(0));
            format!("{sign}0.{zeros}{significant}")
        }
        _ => format!("{sign}{significant}e{power}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is(json: &str, expected: &str) {
        assert!(serde_json::from_str::<serde_json::Value>(json).is_ok());
        assert_eq!(canonical(json).as_deref(), Ok(expected), "{json}");
    }

    #[test]
    fn equal_values_have_one_form() {
        for same in [
            r#"{"a":1,"b":[true,null,"\u00e9\/\"x"]}"#,
            r#" { "b" : [ true , null , "é/\u0022x" ] , "a" : 1.0 } "#,
            r#"{"\u0061":10e-1,"b":[true,null,"é/\"x"]}"#,
        ] {
            is(same, r#"{"a":1,"b":[true,null,"é/\"x"]}"#);
        }
        is("[]", "[]");
        is("{ }", "{}");
        is(r#"{"a":{},"b":[[],[{}]]}"#, r#"{"a":{},"b":[[],[{}]]}"#);
        is(r#"["\\","\\\""]"#, r#"["\\","\\\""]"#);
    }

    #[test]
    fn numbers_are_the_decimals_they_are_written_as() {
        for (text, expected) in [
            ("0", "0"),
            ("-0.0e5", "0"),
            ("100", "100"),
            ("1e2", "100"),
            ("1.00E+2", "100"),
            ("-12.50", "-12.5"),
            ("0.05", "0.05"),
            ("5e-2", "0.05"),
            ("1e-7", "1e-7"),
            ("0.0000001", "1e-7"),
            ("9007199254740993", "9007199254740993"),
            ("9007199254740992", "9007199254740992"),
            ("1e300", "1e300"),
            ("10e299", "1e300"),
            (
                "123456789012345678901234567890",
                "12345678901234567890123456789e1",
            ),
        ] {
            is(text, expected);
        }
    }

    #[test]
    fn a_repeated_key_is_named_with_its_place() {
        let repeated = |json: &str| canonical(json).map_err(|found| (found.pointer, found.key));
        let expect = |pointer: &str, key: &str| Err((pointer.to_owned(), key.to_owned()));
        assert_eq!(repeated(r#"{"a":1,"a":1}"#), expect("", "a"));
        assert_eq!(
            repeated(r#"{"x":[0,{"a/b":{"k":1,"\u006b":2}}]}"#),
            expect("/x/1/a~1b", "k")
        );
        assert!(repeated(r#"{"a":{"a":1},"b":{"a":1}}"#).is_ok());
    }
}
