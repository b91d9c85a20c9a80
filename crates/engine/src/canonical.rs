//! A JSON text in its one canonical form: what two equal values have in common. Neither
//! spaces, nor the order of keys, nor the spelling of a number or a string change it.
//!
//! Numbers are compared as the decimals they are written as, so that integers no float can
//! hold stay apart. The reader takes text that was parsed before; it must not be given other.

use serde::{Deserialize, Serialize};

/// The longest number that is written without an exponent.
const PLAIN_DIGITS: i64 = 21;

/// A key that an object has twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatedKey {
    /// The RFC 6901 pointer of the object.
    pub pointer: String,
    /// The key.
    pub key: String,
}

/// The canonical form of a text that is JSON, nested no deeper than values may be.
///
/// # Errors
/// An object has a key twice, so its meaning is ambiguous.
pub fn canonical(json: &str) -> Result<String, RepeatedKey> {
    let mut reader = Reader {
        json,
        rest: json,
        out: String::with_capacity(json.len()),
        keys: String::new(),
    };
    reader.value()?;
    Ok(reader.out)
}

/// Writes each value behind what is written: a value takes no memory of its own, however many
/// there are.
struct Reader<'a> {
    json: &'a str,
    rest: &'a str,
    out: String,
    /// Keys of open objects that are spelled with escapes.
    keys: String,
}

/// A key of an object that is being read, and where it and its value are written. There may be
/// as many as a fifth of the bytes of the text.
struct Member {
    key: KeySpan,
    start: u32,
    end: u32,
}

/// Where a key stands: in the text, or among the keys with escapes.
#[derive(Clone, Copy)]
struct KeySpan {
    start: u32,
    /// The highest bit says that it has escapes.
    end: u32,
}

const ESCAPED: u32 = 1 << 31;

impl<'a> Reader<'a> {
    fn value(&mut self) -> Result<(), RepeatedKey> {
        match self.peek() {
            Some('{') => return self.object(),
            Some('[') => return self.array(),
            Some('"') => {
                let kept = self.keys.len();
                self.string();
                self.keys.truncate(kept);
            }
            Some('-' | '0'..='9') => {
                let spelled = self.take(|c| matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
                self.out.push_str(&number(spelled));
            }
            _ => {
                let word = self.take(char::is_alphabetic);
                self.out.push_str(word);
            }
        }
        Ok(())
    }

    fn object(&mut self) -> Result<(), RepeatedKey> {
        self.eat('{');
        self.out.push('{');
        let (first, kept) = (self.out.len(), self.keys.len());
        let mut members: Vec<Member> = Vec::new();
        while self.peek() == Some('"') {
            let start = self.out.len() as u32;
            let key = self.string();
            self.eat(':');
            self.out.push(':');
            self.value().map_err(|inner| inner.below(self.text(key)))?;
            self.eat(',');
            let end = self.out.len() as u32;
            members.push(Member { key, start, end });
        }
        self.eat('}');
        let text = |member: &Member| self.text(member.key);
        if !members.is_sorted_by(|one, two| text(one) < text(two)) {
            members.sort_by(|one, two| text(one).cmp(text(two)));
            self.refuse_repeated(&members)?;
        }
        self.keys.truncate(kept);
        self.join(first, &members);
        self.out.push('}');
        Ok(())
    }

    fn text(&self, key: KeySpan) -> &str {
        let source = match key.end & ESCAPED {
            0 => self.json,
            _ => &self.keys,
        };
        &source[key.start as usize..(key.end & !ESCAPED) as usize]
    }

    /// Refuses members, sorted, of which two have the same key: the one that comes again first.
    fn refuse_repeated(&self, members: &[Member]) -> Result<(), RepeatedKey> {
        let pairs = members.windows(2);
        let repeated = pairs.filter(|pair| self.text(pair[0].key) == self.text(pair[1].key));
        match repeated.min_by_key(|pair| pair[1].start) {
            Some(pair) => Err(RepeatedKey {
                pointer: String::new(),
                key: self.text(pair[1].key).to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Puts commas between members that are written one behind the other from `first` on, and
    /// the members in their order.
    fn join(&mut self, first: usize, members: &[Member]) {
        if members.len() < 2 {
            return;
        }
        let mut joined = String::with_capacity(self.out.len() - first + members.len());
        for member in members {
            if !joined.is_empty() {
                joined.push(',');
            }
            joined.push_str(&self.out[member.start as usize..member.end as usize]);
        }
        self.out.truncate(first);
        self.out.push_str(&joined);
    }

    fn array(&mut self) -> Result<(), RepeatedKey> {
        self.eat('[');
        self.out.push('[');
        let mut index = 0;
        while !matches!(self.peek(), Some(']') | None) {
            if index > 0 {
                self.out.push(',');
            }
            self.value()
                .map_err(|inner| inner.below(&index.to_string()))?;
            self.eat(',');
            index += 1;
        }
        self.eat(']');
        self.out.push(']');
        Ok(())
    }

    /// Reads a string with its quotes and writes it; says where its text is.
    fn string(&mut self) -> KeySpan {
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
        if !text.contains('\\') {
            // There is one way to write it.
            self.out.push_str(text);
            let end = (self.json.len() - rest.len()) as u32 - 1;
            return KeySpan {
                start: end + 2 - text.len() as u32,
                end,
            };
        }
        let text: String = serde_json::from_str(text).unwrap_or_default();
        self.out.push_str(&quoted(&text));
        let start = self.keys.len() as u32;
        self.keys.push_str(&text);
        KeySpan {
            start,
            end: self.keys.len() as u32 | ESCAPED,
        }
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
