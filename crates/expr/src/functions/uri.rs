//! `encodeURIComponent` and its family (ECMA-262, 19.2.6).

use super::{Function, function};
use crate::eval::{Evaluator, Passed};
use crate::limits::Price;
use crate::problem::{Error, Fallible, error};
use crate::text::{Text, View};
use crate::value::Value;

/// Characters that no encoding touches, beside letters and digits.
const UNRESERVED: &str = "-_.!~*'()";
/// Characters that `encodeURI` leaves alone too, because they structure an address.
const RESERVED: &str = ";/?:@&=+$,#";

pub(super) const FUNCTIONS: &[Function] = &[
    function("encodeURIComponent", |run, passed| encode(run, passed, "")),
    function("encodeURI", |run, passed| encode(run, passed, RESERVED)),
    function("decodeURIComponent", |run, passed| decode(run, passed, "")),
    function("decodeURI", |run, passed| decode(run, passed, RESERVED)),
];

fn malformed() -> Box<Error> {
    error("URI malformed")
}

fn encode<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>, kept: &str) -> Fallible<Value<'a>> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let text = passed.get(0).to_text(run.budget)?;
    // A lone surrogate has no encoding.
    let text = text.view(Price::CONVERT, run.budget)?.plain();
    let text = text.ok_or_else(malformed)?;
    let stays = |byte: u8| {
        let letter = char::from(byte);
        letter.is_ascii_alphanumeric()
            || (letter.is_ascii() && (UNRESERVED.contains(letter) || kept.contains(letter)))
    };
    let escaped = text.bytes().filter(|byte| !stays(*byte)).count();
    let size = text.len() + 2 * escaped;
    run.budget.build(size)?;
    let mut out = String::with_capacity(size);
    for byte in text.bytes() {
        if stays(byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    Ok(Value::text(&out))
}

fn decode<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>, kept: &str) -> Fallible<Value<'a>> {
    let text = passed.get(0).to_text(run.budget)?;
    run.budget.build(text.size())?;
    run.budget.read_at(text.size(), Price::CONVERT)?;
    let units = match text.view(Price::CONVERT, run.budget)? {
        View::Plain(plain) => return Ok(Value::text(&decode_plain(plain, kept)?)),
        View::Wide(units) => units,
    };
    // Lone surrogates stay as they are; what is between them is plain.
    let mut decoded: Vec<u16> = Vec::with_capacity(units.len());
    let mut plain = String::new();
    for letter in char::decode_utf16(units.iter().copied()) {
        match letter {
            Ok(letter) => plain.push(letter),
            Err(lone) => {
                decoded.extend(decode_plain(&std::mem::take(&mut plain), kept)?.encode_utf16());
                decoded.push(lone.unpaired_surrogate());
            }
        }
    }
    decoded.extend(decode_plain(&plain, kept)?.encode_utf16());
    Ok(Value::String(Text::from_units(&decoded, run.budget)?))
}

fn decode_plain(text: &str, kept: &str) -> Fallible<String> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first != b'%' {
            out.push(*first);
            rest = tail;
            continue;
        }
        let length = sequence(rest, kept, &mut out)?;
        rest = &rest[length..];
    }
    String::from_utf8(out).map_err(|_| malformed())
}

/// Decodes one character's escapes; gives how many bytes they took.
fn sequence(rest: &[u8], kept: &str, out: &mut Vec<u8>) -> Fallible<usize> {
    let first = escaped_byte(rest).ok_or_else(malformed)?;
    let count = match first {
        0x00..=0x7F => {
            if kept.contains(char::from(first)) {
                out.extend_from_slice(&rest[..3]);
            } else {
                out.push(first);
            }
            return Ok(3);
        }
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => return Err(malformed()),
    };
    let mut bytes = [0; 4];
    for (index, byte) in bytes.iter_mut().enumerate().take(count) {
        let rest = rest.get(index * 3..).ok_or_else(malformed)?;
        *byte = escaped_byte(rest).ok_or_else(malformed)?;
    }
    let letter = std::str::from_utf8(&bytes[..count]).map_err(|_| malformed())?;
    out.extend_from_slice(letter.as_bytes());
    Ok(count * 3)
}

fn escaped_byte(rest: &[u8]) -> Option<u8> {
    let digits = rest.get(1..3).filter(|_| rest.first() == Some(&b'%'))?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(digits[0])? * 16 + digit(digits[1])?) as u8)
}
