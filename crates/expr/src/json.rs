//! JSON text: writing values as JSON and reading JSON as values.
//!
//! Two kinds of writing: for a script, exactly what `JSON.stringify` gives; for output, the
//! same but faithful to what came in (digits of integers, order of keys) and well-formed
//! (U+FFFD for lone surrogates), because other programs read it.

mod read;

pub(crate) use read::{Reader, number_length, parse};

use indexmap::IndexSet;
use serde_json::Value as Json;

use crate::limits::{Budget, check_depth};
use crate::number;
use crate::problem::{Fallible, error};
use crate::text::{Text, View};
use crate::value::{List, Record, Value};
use crate::work;

/// The account that pays for written bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// Text that the expression builds.
    Built,
    /// Text that leaves the language.
    Written,
}

impl Account {
    fn pay(self, bytes: usize, budget: &mut Budget) -> Fallible<()> {
        match self {
            Self::Built => {
                budget.hold(bytes)?;
                budget.trickle(bytes)?;
            }
            Self::Written => budget.write(bytes)?,
        }
        // What is refused is not built.
        work::built(bytes);
        Ok(())
    }
}

/// Appends a value that leaves the language.
pub(crate) fn write_output(
    value: &Value<'_>,
    out: &mut String,
    account: Account,
    budget: &mut Budget,
) -> Fallible<()> {
    if value.is_undefined() {
        return Err(error("undefined has no JSON"));
    }
    Writer {
        out,
        budget,
        account,
        script: false,
        keys: None,
        indent: "",
        depth: 0,
    }
    .value(value)
}

/// `JSON.stringify(value, keys, indent)` of anything but `undefined`.
pub(crate) fn stringify(
    value: &Value<'_>,
    keys: Option<&IndexSet<Text<'_>>>,
    indent: &str,
    budget: &mut Budget,
) -> Fallible<String> {
    let mut out = String::new();
    Writer {
        out: &mut out,
        budget,
        account: Account::Built,
        script: true,
        keys,
        indent,
        depth: 0,
    }
    .value(value)?;
    Ok(out)
}

/// Bytes that stand for one byte in a JSON string.
fn escaped_size(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x8 | 0xc => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

/// Appends text as a JSON string and pays for its length, escapes included.
pub(crate) fn write_string(
    text: &str,
    out: &mut String,
    account: Account,
    budget: &mut Budget,
) -> Fallible<()> {
    budget.trickle(text.len())?;
    work::read(text.len());
    let size: usize = text.bytes().map(escaped_size).sum();
    account.pay(size + 2, budget)?;
    out.push('"');
    escape(text, out);
    out.push('"');
    Ok(())
}

/// Appends what stands between the quotes.
fn escape(text: &str, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[plain..at]);
        plain = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x8 => out.push_str("\\b"),
            0xc => out.push_str("\\f"),
            other => {
                out.push_str("\\u00");
                out.push(char::from(DIGITS[usize::from(other >> 4)]));
                out.push(char::from(DIGITS[usize::from(other & 15)]));
            }
        }
    }
    out.push_str(&text[plain..]);
}

/// What any value costs to write, as bytes.
const VALUE_COST: usize = 16;

/// The extra cost of a number, which is converted to digits.
const NUMBER_COST: usize = 40;

/// Every value that is written costs bytes, so writing ends however often a value is shared.
struct Writer<'w> {
    out: &'w mut String,
    budget: &'w mut Budget,
    account: Account,
    /// For `JSON.stringify` rather than for output.
    script: bool,
    /// The keys of objects to write, in this order; `None` writes all.
    keys: Option<&'w IndexSet<Text<'w>>>,
    indent: &'w str,
    depth: usize,
}

impl Writer<'_> {
    /// Anything but a top-level `undefined`, which counts as null further down.
    fn value(&mut self, value: &Value<'_>) -> Fallible<()> {
        self.budget.trickle(VALUE_COST)?;
        match value {
            Value::Undefined | Value::Null => self.push("null"),
            Value::Bool(true) => self.push("true"),
            Value::Bool(false) => self.push("false"),
            Value::Number(number) => self.number(*number),
            Value::Exact(digits) if !self.script => self.push(digits),
            Value::Exact(_) => self.number(value.as_number().unwrap_or(f64::NAN)),
            Value::String(text) => self.text(text),
            Value::Array(list) => self.array(list),
            Value::Object(record) => self.object(record),
        }
    }

    fn push(&mut self, text: &str) -> Fallible<()> {
        self.account.pay(text.len(), self.budget)?;
        self.out.push_str(text);
        Ok(())
    }

    fn number(&mut self, number: f64) -> Fallible<()> {
        if !number.is_finite() {
            return self.push("null");
        }
        self.budget.trickle(NUMBER_COST)?;
        self.push(ryu_js::Buffer::new().format(number))
    }

    fn text(&mut self, text: &Text<'_>) -> Fallible<()> {
        match text.unpaid_view() {
            View::Plain(plain) => write_string(plain, self.out, self.account, self.budget),
            View::Wide(units) => {
                // Each unit is an escape at most.
                self.budget.read(2 * units.len())?;
                work::read(2 * units.len());
                self.account.pay(6 * units.len() + 2, self.budget)?;
                self.out.push('"');
                write_wide(units, self.script, self.out);
                self.out.push('"');
                Ok(())
            }
        }
    }

    fn array(&mut self, list: &List<'_>) -> Fallible<()> {
        check_depth(self.depth)?;
        self.depth += 1;
        self.push("[")?;
        for (index, item) in list.iter().enumerate() {
            self.separate(index == 0)?;
            self.value(&item)?;
        }
        self.depth -= 1;
        self.close("]", list.len() == 0)
    }

    fn object(&mut self, record: &Record<'_>) -> Fallible<()> {
        check_depth(self.depth)?;
        self.depth += 1;
        self.push("{")?;
        let mut first = true;
        if let Some(keys) = self.keys {
            for key in keys {
                let value = record.get(key, self.budget)?.unwrap_or(Value::Undefined);
                self.property(key, &value, &mut first)?;
            }
        } else if self.script {
            for (key, value) in record.entries(self.budget)? {
                self.property(&key, &value, &mut first)?;
            }
        } else {
            for (key, value) in record.stored() {
                self.property(&key, &value, &mut first)?;
            }
        }
        self.depth -= 1;
        self.close("}", first)
    }

    fn property(&mut self, key: &Text<'_>, value: &Value<'_>, first: &mut bool) -> Fallible<()> {
        if value.is_undefined() {
            return self.budget.steps(1);
        }
        self.separate(*first)?;
        *first = false;
        self.text(key)?;
        self.push(if self.indent.is_empty() { ":" } else { ": " })?;
        self.value(value)
    }

    fn separate(&mut self, first: bool) -> Fallible<()> {
        if !first {
            self.push(",")?;
        }
        self.line()
    }

    fn close(&mut self, bracket: &str, empty: bool) -> Fallible<()> {
        if !empty {
            self.line()?;
        }
        self.push(bracket)
    }

    fn line(&mut self) -> Fallible<()> {
        if self.indent.is_empty() {
            return Ok(());
        }
        self.push("\n")?;
        for _ in 0..self.depth {
            self.push(self.indent)?;
        }
        Ok(())
    }
}

/// Lone surrogates as escapes, as `JSON.stringify` has it, or as U+FFFD.
fn write_wide(units: &[u16], script: bool, out: &mut String) {
    for letter in char::decode_utf16(units.iter().copied()) {
        match letter {
            Ok(letter) => escape(letter.encode_utf8(&mut [0; 4]), out),
            Err(lone) if script => out.push_str(&format!("\\u{:04x}", lone.unpaired_surrogate())),
            Err(_) => out.push(char::REPLACEMENT_CHARACTER),
        }
    }
}

/// A value as plain JSON.
pub(crate) fn to_json(value: &Value<'_>, budget: &mut Budget) -> Fallible<Json> {
    if value.is_undefined() {
        return Err(error("undefined has no JSON"));
    }
    plain(value, 0, budget)
}

fn plain(value: &Value<'_>, depth: usize, budget: &mut Budget) -> Fallible<Json> {
    check_depth(depth)?;
    budget.write(size_of::<Json>())?;
    Ok(match value {
        Value::Undefined | Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Number(number) => number_to_json(*number),
        Value::Exact(digits) => exact_to_json(digits),
        Value::String(text) => {
            budget.write(text.size())?;
            Json::String(text.lossy_unpaid().into_owned())
        }
        Value::Array(list) => {
            let items = list.iter().map(|item| plain(&item, depth + 1, budget));
            Json::Array(items.collect::<Fallible<_>>()?)
        }
        Value::Object(record) => {
            let mut map = serde_json::Map::new();
            for (key, value) in record.stored() {
                if !value.is_undefined() {
                    budget.write(key.size())?;
                    map.insert(
                        key.lossy_unpaid().into_owned(),
                        plain(&value, depth + 1, budget)?,
                    );
                }
            }
            Json::Object(map)
        }
    })
}

/// An integer that is larger than any exact number and fits 64 bits.
fn exact_to_json(digits: &str) -> Json {
    let unsigned = || digits.parse::<u64>().map(Json::from);
    let integer = digits
        .parse::<i64>()
        .map(Json::from)
        .or_else(|_| unsigned());
    integer.unwrap_or_default()
}

fn number_to_json(number: f64) -> Json {
    // A number that JavaScript writes without a fraction is an integer to other JSON readers.
    if number.trunc() == number && number.abs() <= 9_007_199_254_740_991.0 {
        return Json::from(number as i64);
    }
    serde_json::Number::from_f64(number).map_or(Json::Null, Json::Number)
}

/// Writes a number as JavaScript's `String` does, unless it is an integer that keeps its
/// digits.
pub(crate) fn number_text(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Exact(digits) => Some((*digits).to_owned()),
        _ => value.as_number().map(number::to_text),
    }
}
