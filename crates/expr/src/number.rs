//! JavaScript numbers: text to number, number to text, number to integer.
//!
//! Knows nothing of values; everything here takes and gives plain numbers and text.

use crate::text::is_space;

/// The cost of reading a number besides going over its text: a number too long for the fast
/// path is computed digit by digit.
pub(crate) fn parsing_steps(size: usize) -> u64 {
    if size <= 19 {
        1
    } else {
        1 + size.min(800) as u64 / 4
    }
}

/// `Number.prototype.toString`: the shortest text that reads back as the same number.
pub(crate) fn to_text(number: f64) -> String {
    ryu_js::Buffer::new().format(number).to_owned()
}

/// `Number(text)`.
pub(crate) fn from_text(text: &str) -> f64 {
    let text = text.trim_matches(is_space);
    if text.is_empty() {
        return 0.0;
    }
    let radix = match text.get(..2) {
        Some("0x" | "0X") => 16,
        Some("0o" | "0O") => 8,
        Some("0b" | "0B") => 2,
        _ => return from_decimal(text),
    };
    let digits = &text[2..];
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return f64::NAN;
    }
    from_digits(digits, radix)
}

fn from_decimal(text: &str) -> f64 {
    match text {
        "Infinity" | "+Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        _ if decimal_length(text) == text.len() => text.parse().unwrap_or(f64::NAN),
        _ => f64::NAN,
    }
}

/// `parseFloat(text)`: the longest start of the text that is a number.
pub(crate) fn parse_float(text: &str) -> f64 {
    let text = text.trim_start_matches(is_space);
    for (name, value) in [
        ("Infinity", f64::INFINITY),
        ("+Infinity", f64::INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
    ] {
        if text.starts_with(name) {
            return value;
        }
    }
    text[..decimal_length(text)].parse().unwrap_or(f64::NAN)
}

/// Bytes at the start of `text` that are a decimal number; 0 when none is there.
fn decimal_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let mut end = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(end);
    end += whole;
    let mut fraction = 0;
    if bytes.get(end) == Some(&b'.') {
        fraction = digits(end + 1);
        if whole + fraction > 0 {
            end += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return 0;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = if end + 1 + sign <= bytes.len() {
            digits(end + 1 + sign)
        } else {
            0
        };
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

/// `parseInt(text, radix)`.
pub(crate) fn parse_int(text: &str, radix: f64) -> f64 {
    let text = text.trim_start_matches(is_space);
    let (negative, text) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let prefixed = text.starts_with("0x") || text.starts_with("0X");
    let (radix, text) = match to_int32(radix) {
        0 if prefixed => (16, &text[2..]),
        0 => (10, text),
        16 if prefixed => (16, &text[2..]),
        radix @ 2..=36 => (radix.unsigned_abs(), text),
        _ => return f64::NAN,
    };
    let length = text
        .find(|digit: char| !digit.is_digit(radix))
        .unwrap_or(text.len());
    if length == 0 {
        return f64::NAN;
    }
    let value = from_digits(&text[..length], radix);
    if negative { -value } else { value }
}

/// The number that `digits` spell in `radix`, correctly rounded where JavaScript asks for it:
/// for ten and for powers of two.
pub(crate) fn from_digits(digits: &str, radix: u32) -> f64 {
    if radix == 10 {
        return digits.parse().unwrap_or(f64::NAN);
    }
    let values = digits.chars().filter_map(|digit| digit.to_digit(radix));
    if !radix.is_power_of_two() {
        return values.fold(0.0, |total, digit| {
            total * f64::from(radix) + f64::from(digit)
        });
    }
    // The first hundred bits or so decide; of the others only whether any is set.
    let bits = radix.trailing_zeros();
    let (mut head, mut dropped, mut sticky) = (0_u128, 0_i32, false);
    for digit in values {
        if head >> 100 == 0 {
            head = (head << bits) | u128::from(digit);
        } else {
            dropped = dropped.saturating_add(bits.cast_signed());
            sticky |= digit != 0;
        }
    }
    let head = (head | u128::from(sticky)) as f64;
    if dropped > 1100 && head > 0.0 {
        f64::INFINITY
    } else {
        libm::scalbn(head, dropped)
    }
}

/// `ToIntegerOrInfinity`.
pub(crate) fn to_integer(number: f64) -> f64 {
    if number.is_nan() {
        0.0
    } else {
        number.trunc() + 0.0
    }
}

/// `ToInt32`.
pub(crate) fn to_int32(number: f64) -> i32 {
    to_uint32(number).cast_signed()
}

/// `ToUint32`.
pub(crate) fn to_uint32(number: f64) -> u32 {
    if !number.is_finite() {
        return 0;
    }
    // Larger numbers are multiples of 2^32; the general remainder of such takes long.
    if number.abs() >= 2.0_f64.powi(127) {
        return 0;
    }
    let low = number.abs() as u128 as u32;
    if number < 0.0 {
        low.wrapping_neg()
    } else {
        low
    }
}

/// Resolves a relative position as `slice` and `at` count: from the end when negative.
pub(crate) fn relative(position: f64, length: usize) -> usize {
    let position = to_integer(position);
    if position < 0.0 {
        (length as f64 + position).max(0.0) as usize
    } else {
        position.min(length as f64) as usize
    }
}

/// `toFixed`, for numbers below 1e21.
pub(crate) fn to_fixed(number: f64, digits: usize) -> String {
    // A result of all zeros keeps the sign of the number, as in JavaScript; a zero has none.
    let (_, exponent) = leading_digits(number.abs(), 1);
    let kept = exponent + 1 + digits as i32;
    let mut text = match usize::try_from(kept) {
        Err(_) => "0".repeat(digits + 1),
        Ok(kept) => round_digits(&leading_digits(number.abs(), kept).0, kept),
    };
    if text.len() < digits + 1 {
        text.insert_str(0, &"0".repeat(digits + 1 - text.len()));
    }
    if digits > 0 {
        text.insert(text.len() - digits, '.');
    }
    let negative = number < 0.0;
    if negative { format!("-{text}") } else { text }
}

/// `toExponential`; `None` takes as many digits as needed.
pub(crate) fn to_exponential(number: f64, digits: Option<usize>) -> String {
    let sign = if number < 0.0 { "-" } else { "" };
    let (mantissa, exponent) = match digits {
        Some(digits) => rounded(number.abs(), digits + 1),
        None => shortest_digits(number.abs()),
    };
    format!("{sign}{}", scientific(&mantissa, exponent))
}

/// `toPrecision`.
pub(crate) fn to_precision(number: f64, precision: usize) -> String {
    let sign = if number < 0.0 { "-" } else { "" };
    let (digits, exponent) = rounded(number.abs(), precision);
    if exponent < -6 || exponent >= precision as i32 {
        return format!("{sign}{}", scientific(&digits, exponent));
    }
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat((-1 - exponent) as usize));
    }
    let whole = exponent as usize + 1;
    if whole == digits.len() {
        return format!("{sign}{digits}");
    }
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
}

fn scientific(digits: &str, exponent: i32) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{rest}e{sign}{}", exponent.abs())
}

/// `count` significant digits and the exponent of the first; ties go up, as JavaScript has it.
fn rounded(number: f64, count: usize) -> (String, i32) {
    let (mantissa, exponent) = leading_digits(number, count);
    let digits = round_digits(&mantissa, count);
    if digits.len() > count {
        return (digits[..count].to_owned(), exponent + 1);
    }
    (digits, exponent)
}

/// At least `count` digits of a number, the next digit as far as it decides the rounding, and
/// the exponent of the first.
fn leading_digits(number: f64, count: usize) -> (String, i32) {
    // Enough extra digits that rounding them cannot change those before, except at a tie.
    const GUARD: usize = 20;
    let (digits, exponent) = split_scientific(&format!("{number:.*e}", count + GUARD));
    let mut rest = digits.bytes().skip(count);
    if rest.next() == Some(b'5') && rest.all(|digit| digit == b'0') {
        return exact_digits(number);
    }
    (digits, exponent)
}

/// Every decimal digit of a number, and the exponent of the first.
fn exact_digits(number: f64) -> (String, i32) {
    // No number has more than 767 significant digits.
    split_scientific(&format!("{number:.770e}"))
}

fn shortest_digits(number: f64) -> (String, i32) {
    split_scientific(&format!("{number:e}"))
}

fn split_scientific(text: &str) -> (String, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

/// The first `count` digits, rounded half up; one digit longer when that carries over.
fn round_digits(digits: &str, count: usize) -> String {
    let mut kept: Vec<u8> = digits.bytes().take(count).collect();
    kept.resize(count, b'0');
    if digits
        .as_bytes()
        .get(count)
        .is_some_and(|next| *next >= b'5')
    {
        let mut carry = true;
        for digit in kept.iter_mut().rev() {
            carry = *digit == b'9';
            *digit = if carry { b'0' } else { *digit + 1 };
            if !carry {
                break;
            }
        }
        if carry {
            kept.insert(0, b'1');
        }
    }
    kept.into_iter().map(char::from).collect()
}

/// `toString(radix)` of a finite number, by the algorithm of V8 (`DoubleToRadixCString`).
pub(crate) fn to_radix(number: f64, radix: u32) -> String {
    let base = f64::from(radix);
    let digit = |value: f64| char::from_digit(value as u32, radix).unwrap_or('0');
    let value = number.abs();
    let mut integer = value.floor();
    let mut fraction = value - integer;
    let mut delta = (0.5 * (value.next_up() - value)).max(f64::from_bits(1));
    let mut tail: Vec<u32> = Vec::new();
    while fraction >= delta {
        fraction *= base;
        delta *= base;
        let whole = fraction as u32;
        tail.push(whole);
        fraction -= f64::from(whole);
        if (fraction > 0.5 || (fraction == 0.5 && whole & 1 == 1)) && fraction + delta > 1.0 {
            integer += carry(&mut tail, radix);
            break;
        }
    }
    let mut head = String::new();
    // Digits that the number does not hold are zeros.
    while integer / base >= 9_007_199_254_740_992.0 {
        integer /= base;
        head.push('0');
    }
    loop {
        let remainder = integer % base;
        head.push(digit(remainder));
        integer = (integer - remainder) / base;
        if integer <= 0.0 {
            break;
        }
    }
    let sign = if number < 0.0 { "-" } else { "" };
    let whole: String = head.chars().rev().collect();
    let tail: String = tail
        .into_iter()
        .filter_map(|digit| char::from_digit(digit, radix))
        .collect();
    let point = if tail.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{tail}")
}

/// Rounds the last digit up; gives 1 when that reaches the integer part.
fn carry(tail: &mut Vec<u32>, radix: u32) -> f64 {
    while let Some(last) = tail.pop() {
        if last + 1 < radix {
            tail.push(last + 1);
            return 0.0;
        }
    }
    1.0
}
