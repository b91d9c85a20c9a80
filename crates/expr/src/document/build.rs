//! Reads a JSON text into tables of a size that is known.
//!
//! One buffer holds both: values that wait for their array or object to end stand at its
//! beginning, as a stack; the parts of what has ended stand at its end. A value is in one of the
//! two, so they never meet. The counting pass has bounded the depth.

use super::measure::Size;
use super::word::{SHORT_TEXT, Word};
use super::{InterruptCheck, Stopped, Texts, keys};
use crate::json::number_length;

/// Integers of so many digits are exact as numbers.
const EXACT_DIGITS: usize = 15;

/// Integers up to here are exact as JavaScript numbers.
const SAFE_INTEGER: u64 = 9_007_199_254_740_991;

type Tables = (Vec<u64>, String, Vec<(u32, u32)>);

pub(super) struct Builder<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    words: Vec<u64>,
    /// One past the values that wait for their array or object to end.
    top: usize,
    /// Where the parts of ended arrays and objects begin.
    floor: usize,
    decoded: String,
    spans: Vec<(u32, u32)>,
    interrupt_check: InterruptCheck<'t>,
}

impl<'t> Builder<'t> {
    pub(super) fn new(text: &'t str, size: Size, interrupt_check: InterruptCheck<'t>) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            words: vec![0; size.words],
            top: 0,
            floor: size.words,
            decoded: String::with_capacity(size.decoded),
            spans: Vec::new(),
            interrupt_check,
        }
    }

    /// Reads all of the text.
    pub(super) fn document(mut self) -> Result<Tables, Stopped> {
        let root = self.value()?;
        if self.peek().is_some() {
            return Err(Stopped::Malformed);
        }
        self.push(root)?;
        Ok((self.words, self.decoded, self.spans))
    }

    /// The next byte that is no space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    fn value(&mut self) -> Result<Word, Stopped> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'[') => self.array(),
            Some(b'{') => self.object(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'n') => self.constant("null", Word::NULL),
            Some(b't') => self.constant("true", Word::TRUE),
            Some(b'f') => self.constant("false", Word::FALSE),
            _ => Err(Stopped::Malformed),
        }
    }

    fn constant(&mut self, name: &str, tag: u64) -> Result<Word, Stopped> {
        if !self.bytes[self.at..].starts_with(name.as_bytes()) {
            return Err(Stopped::Malformed);
        }
        self.at += name.len();
        Ok(Word::constant(tag))
    }

    #[inline]
    fn push(&mut self, word: Word) -> Result<(), Stopped> {
        if self.top >= self.floor {
            return Err(Stopped::Malformed);
        }
        self.words[self.top] = word.0;
        self.top += 1;
        Ok(())
    }

    fn array(&mut self) -> Result<Word, Stopped> {
        self.at += 1;
        let base = self.top;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Word::of_block(Word::ARRAY, 0, 0));
        }
        loop {
            let item = self.value()?;
            self.push(item)?;
            if !self.goes_on(b']')? {
                break;
            }
        }
        let count = self.top - base;
        self.floor -= count;
        self.words.copy_within(base..self.top, self.floor);
        self.top = base;
        Ok(Word::of_block(Word::ARRAY, self.floor, count))
    }

    /// Whether another element follows, or the end.
    fn goes_on(&mut self, closing: u8) -> Result<bool, Stopped> {
        let byte = self.peek();
        self.at += 1;
        self.interrupt_check.at(self.at)?;
        match byte {
            Some(b',') => Ok(true),
            Some(byte) if byte == closing => Ok(false),
            _ => Err(Stopped::Malformed),
        }
    }

    fn object(&mut self) -> Result<Word, Stopped> {
        self.at += 1;
        let base = self.top;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Word::of_block(Word::OBJECT, 0, 0));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(Stopped::Malformed);
            }
            let key = self.string()?;
            self.push(key)?;
            if self.peek() != Some(b':') {
                return Err(Stopped::Malformed);
            }
            self.at += 1;
            let value = self.value()?;
            self.push(value)?;
            if !self.goes_on(b'}')? {
                break;
            }
        }
        self.close_object(base)
    }

    fn close_object(&mut self, base: usize) -> Result<Word, Stopped> {
        let count = (self.top - base) / 2;
        let texts = Texts {
            text: self.text,
            decoded: &self.decoded,
            spans: &self.spans,
        };
        if count <= keys::FEW_KEYS {
            let left = keys::merge_few(texts, &mut self.words[base..self.top]);
            self.floor -= 2 * left;
            self.words.copy_within(base..base + 2 * left, self.floor);
            self.top = base;
            return Ok(Word::of_block(Word::OBJECT, self.floor, left));
        }
        let end = self.floor;
        // The room for the index was counted, so it is free.
        let Some(first) = end.checked_sub(3 * count) else {
            return Err(Stopped::Malformed);
        };
        self.words.copy_within(base..self.top, first);
        self.top = base;
        self.floor = first;
        let left = keys::merge_many(texts, &mut self.words[first..end], &self.interrupt_check)?;
        Ok(Word::of_block(Word::OBJECT, first, left))
    }

    fn number(&mut self) -> Result<Word, Stopped> {
        let rest = &self.bytes[self.at..];
        if let Some((number, length)) = quick_number(rest) {
            self.at += length;
            return Ok(Word::of_number(number));
        }
        let length = number_length(rest).ok_or(Stopped::Malformed)?;
        let start = self.at;
        self.at += length;
        let spelled = &self.text[start..self.at];
        if spelled.bytes().all(|byte| byte.is_ascii_digit()) {
            if let Ok(integer) = spelled.parse::<u64>() {
                return Ok(integer_word(start, length, integer, false));
            }
        } else if let Ok(integer) = spelled.parse::<i64>()
            && integer < 0
        {
            return Ok(integer_word(start, length, integer.unsigned_abs(), true));
        }
        // Rounds, and refuses what is too large, as the reader of all other JSON does.
        let number: f64 = serde_json::from_str(spelled).map_err(|_| Stopped::Malformed)?;
        Ok(Word::of_number(number))
    }

    fn string(&mut self) -> Result<Word, Stopped> {
        self.at += 1;
        let start = self.at;
        self.skip_plain();
        match self.bytes.get(self.at) {
            Some(b'"') => {
                let length = self.at - start;
                self.at += 1;
                Ok(self.text_word((Word::TEXT, Word::LONG_TEXT), start, length))
            }
            Some(b'\\') => self.escaped(start),
            _ => Err(Stopped::Malformed),
        }
    }

    #[inline]
    fn skip_plain(&mut self) {
        let rest = &self.bytes[self.at..];
        let length = rest
            .iter()
            .position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\');
        self.at += length.unwrap_or(rest.len());
    }

    fn text_word(&mut self, tags: (u64, u64), start: usize, length: usize) -> Word {
        if length <= SHORT_TEXT {
            return Word::of_range(tags.0, start, length);
        }
        self.spans.push((start as u32, length as u32));
        Word::of_index(tags.1, self.spans.len() - 1)
    }

    /// A string with escapes, of which the reader stands at the first.
    fn escaped(&mut self, start: usize) -> Result<Word, Stopped> {
        let decoded = self.decoded.len();
        let mut plain = start;
        loop {
            self.decoded.push_str(&self.text[plain..self.at]);
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                _ => return Err(Stopped::Malformed),
            }
            plain = self.at;
            self.skip_plain();
        }
        self.at += 1;
        let length = self.decoded.len() - decoded;
        Ok(self.text_word((Word::DECODED, Word::LONG_DECODED), decoded, length))
    }

    fn escape(&mut self) -> Result<(), Stopped> {
        let letter = match self.bytes.get(self.at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(Stopped::Malformed),
        };
        self.decoded.push(letter);
        self.at += 2;
        Ok(())
    }

    fn unicode_escape(&mut self) -> Result<(), Stopped> {
        let first = self.unit()?;
        let letter = match char::from_u32(first) {
            Some(letter) => letter,
            None => {
                let second = self.unit()?;
                let pair = [first as u16, second as u16];
                let mut letters = char::decode_utf16(pair);
                match letters.next() {
                    Some(Ok(letter)) if letter > '\u{ffff}' => letter,
                    _ => return Err(Stopped::Malformed),
                }
            }
        };
        self.decoded.push(letter);
        Ok(())
    }

    /// The four digits of an escape.
    fn unit(&mut self) -> Result<u32, Stopped> {
        let digits = match self.bytes.get(self.at..self.at + 6) {
            Some([b'\\', b'u', digits @ ..]) => digits,
            _ => return Err(Stopped::Malformed),
        };
        self.at += 6;
        digits.iter().try_fold(0, |unit, digit| {
            let digit = char::from(*digit).to_digit(16).ok_or(Stopped::Malformed)?;
            Ok(unit << 4 | digit)
        })
    }
}

/// An integer as a number, or by its digits where no number holds it.
fn integer_word(start: usize, length: usize, size: u64, is_negative: bool) -> Word {
    if size > SAFE_INTEGER {
        return Word::of_range(Word::EXACT, start, length);
    }
    let number = size as f64;
    Word::of_number(if is_negative { -number } else { number })
}

/// A number of few digits and a small exponent, and its length: both operands of the one
/// operation are exact, so its result is the nearest number.
#[inline]
fn quick_number(rest: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(rest.first() == Some(&b'-'));
    let (whole, mut at) = digits(rest, sign, 0);
    let has_zero = at > sign + 1 && rest[sign] == b'0';
    if at == sign || has_zero || at > sign + EXACT_DIGITS {
        return None;
    }
    let (mut mantissa, mut exponent) = (whole, 0);
    if rest.get(at) == Some(&b'.') {
        let point = at;
        (mantissa, at) = digits(rest, point + 1, whole);
        exponent = point as i32 + 1 - at as i32;
        if exponent == 0 || at > sign + EXACT_DIGITS + 1 {
            return None;
        }
    }
    if let Some(b'e' | b'E') = rest.get(at) {
        let start = match rest.get(at + 1) {
            Some(b'+' | b'-') => at + 2,
            _ => at + 1,
        };
        let (size, end) = digits(rest, start, 0);
        if end == start || end > start + 3 {
            return None;
        }
        let size = size as i32;
        exponent += if rest[start - 1] == b'-' { -size } else { size };
        at = end;
    }
    let power = POWERS.get(exponent.unsigned_abs() as usize)?;
    let number = mantissa as f64;
    let number = match exponent >= 0 {
        true => number * power,
        false => number / power,
    };
    Some((if sign == 1 { -number } else { number }, at))
}

/// Reads digits behind those that are read; wraps around if there are too many.
#[inline]
fn digits(rest: &[u8], mut at: usize, mut number: u64) -> (u64, usize) {
    while let Some(digit @ b'0'..=b'9') = rest.get(at) {
        number = number
            .wrapping_mul(10)
            .wrapping_add(u64::from(digit - b'0'));
        at += 1;
    }
    (number, at)
}

/// Powers of ten that are exact.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];
