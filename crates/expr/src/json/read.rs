//! A JSON reader: tokens for the compiler of templates, and `JSON.parse`.

use indexmap::IndexMap;

use crate::limits::{Budget, Price, check_depth};
use crate::number::parsing_steps;
use crate::problem::{Fallible, error};
use crate::text::Text;
use crate::value::{ENTRY_SIZE, ITEM_SIZE, List, Record, Value};
use crate::work;

/// `JSON.parse(text)`.
pub(crate) fn parse<'a>(text: &str, budget: &mut Budget) -> Fallible<Value<'a>> {
    budget.read(text.len())?;
    work::read(text.len());
    let mut reader = Reader::new(text);
    let value = reader.value(0, budget)?;
    reader.skip_space();
    if reader.position < text.len() {
        return Err(reader.unexpected());
    }
    Ok(value)
}

/// Reads JSON text token by token.
pub(crate) struct Reader<'j> {
    text: &'j str,
    position: usize,
}

impl<'j> Reader<'j> {
    pub(crate) fn new(text: &'j str) -> Self {
        Self { text, position: 0 }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn skip_space(&mut self) {
        let rest = &self.text.as_bytes()[self.position..];
        self.position += rest
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
            .count();
    }

    /// The next byte that is not white space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.text.as_bytes().get(self.position).copied()
    }

    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Fallible<()> {
        if self.eat(byte) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    pub(crate) fn unexpected(&self) -> Box<crate::Error> {
        match self.text[self.position..].chars().next() {
            Some(letter) => error(format!(
                "Unexpected token '{letter}' in JSON at position {}",
                self.position
            )),
            None => error("Unexpected end of JSON input"),
        }
    }

    fn value<'a>(&mut self, depth: usize, budget: &mut Budget) -> Fallible<Value<'a>> {
        check_depth(depth)?;
        budget.steps(1)?;
        match self.peek() {
            Some(b'{') => self.object(depth, budget),
            Some(b'[') => self.array(depth, budget),
            Some(b'"') => {
                self.pay_string(0, budget)?;
                self.string().map(Value::String)
            }
            _ => {
                let start = self.position;
                let value = self.scalar()?;
                budget.steps(parsing_steps(self.position - start))?;
                Ok(value)
            }
        }
    }

    /// Pays for the next string before it is built: its content takes at most twice its length
    /// in the text.
    fn pay_string(&mut self, more: usize, budget: &mut Budget) -> Fallible<()> {
        let rest = self
            .text
            .as_bytes()
            .get(self.position + 1..)
            .unwrap_or_default();
        let mut escaped = false;
        let length = rest.iter().take_while(|byte| {
            let ends = **byte == b'"' && !escaped;
            escaped = **byte == b'\\' && !escaped;
            !ends
        });
        let length = length.count();
        budget.build(more + length)?;
        budget.read_at(length, Price::KEY)
    }

    /// A number, `true`, `false` or `null`.
    pub(crate) fn scalar<'a>(&mut self) -> Fallible<Value<'a>> {
        let rest = &self.text[self.position..];
        for (word, value) in [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
        ] {
            if rest.starts_with(word) {
                self.position += word.len();
                return Ok(value);
            }
        }
        let length = number_length(rest.as_bytes()).ok_or_else(|| self.unexpected())?;
        self.position += length;
        rest[..length]
            .parse()
            .map(Value::Number)
            .map_err(|_| self.unexpected())
    }

    fn array<'a>(&mut self, depth: usize, budget: &mut Budget) -> Fallible<Value<'a>> {
        self.expect(b'[')?;
        let mut items = Vec::new();
        if !self.eat(b']') {
            loop {
                budget.build(ITEM_SIZE)?;
                items.push(self.value(depth + 1, budget)?);
                if self.eat(b']') {
                    break;
                }
                self.expect(b',')?;
            }
        }
        Ok(Value::Array(List::built(items, budget)?))
    }

    fn object<'a>(&mut self, depth: usize, budget: &mut Budget) -> Fallible<Value<'a>> {
        self.expect(b'{')?;
        let mut entries = IndexMap::new();
        if !self.eat(b'}') {
            loop {
                self.skip_space();
                self.pay_string(ENTRY_SIZE, budget)?;
                let key = self.string()?;
                self.expect(b':')?;
                let value = self.value(depth + 1, budget)?;
                entries.insert(key, value);
                if self.eat(b'}') {
                    break;
                }
                self.expect(b',')?;
            }
        }
        Ok(Value::Object(Record::built(entries, budget)?))
    }

    /// A string, decoded.
    pub(crate) fn string<'a>(&mut self) -> Fallible<Text<'a>> {
        if self.text.as_bytes().get(self.position) != Some(&b'"') {
            return Err(self.unexpected());
        }
        self.position += 1;
        let mut text = String::new();
        // Code units, once an escape gave a surrogate.
        let mut wide: Vec<u16> = Vec::new();
        loop {
            let rest = &self.text[self.position..];
            let plain = rest
                .bytes()
                .position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\');
            let plain = plain.unwrap_or(rest.len());
            push(&rest[..plain], &mut text, &mut wide);
            self.position += plain;
            match rest.as_bytes().get(plain) {
                Some(b'"') => {
                    self.position += 1;
                    return Ok(if wide.is_empty() {
                        Text::built(&text)
                    } else {
                        Text::of_units(&wide)
                    });
                }
                Some(b'\\') => {
                    let unit = self.escape()?;
                    match char::from_u32(u32::from(unit)) {
                        Some(letter) => push(letter.encode_utf8(&mut [0; 4]), &mut text, &mut wide),
                        None => {
                            wide.extend(std::mem::take(&mut text).encode_utf16());
                            wide.push(unit);
                        }
                    }
                }
                _ => return Err(self.unexpected()),
            }
        }
    }

    /// Reads an escape, backslash included.
    fn escape(&mut self) -> Fallible<u16> {
        let rest = &self.text.as_bytes()[self.position..];
        let unit = match rest.get(1) {
            Some(b'"') => b'"',
            Some(b'\\') => b'\\',
            Some(b'/') => b'/',
            Some(b'b') => 0x8,
            Some(b'f') => 0xc,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.unexpected()),
        };
        self.position += 2;
        Ok(u16::from(unit))
    }

    fn unicode_escape(&mut self) -> Fallible<u16> {
        let digits = self
            .text
            .as_bytes()
            .get(self.position + 2..self.position + 6);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let unit = digits
            .and_then(|digits| u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        let unit = unit.ok_or_else(|| self.unexpected())?;
        self.position += 6;
        Ok(unit)
    }
}

fn push(part: &str, text: &mut String, wide: &mut Vec<u16>) {
    if wide.is_empty() {
        text.push_str(part);
    } else {
        wide.extend(part.encode_utf16());
    }
}

/// How many bytes at the start are a JSON number.
pub(crate) fn number_length(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        bytes
            .iter()
            .skip(from)
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let mut end = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(end);
    if whole == 0 || (whole > 1 && bytes.get(end) == Some(&b'0')) {
        return None;
    }
    end += whole;
    if bytes.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        if fraction == 0 {
            return None;
        }
        end += 1 + fraction;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent == 0 {
            return None;
        }
        end += 1 + sign + exponent;
    }
    Some(end)
}
