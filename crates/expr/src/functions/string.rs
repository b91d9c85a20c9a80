//! Methods of strings. Positions count UTF-16 code units, as JavaScript's do.

mod collate;
mod replace;

use super::TextMethod;
use crate::eval::{Evaluator, Passed};
use crate::limits::Price;
use crate::number::{relative, to_uint32};
use crate::problem::{Fallible, error};
use crate::subject::{self, Subject};
use crate::text::{Text, TextBuilder, View, is_space};
use crate::value::{ITEM_SIZE, Value};

pub(super) const METHODS: &[(&str, TextMethod)] = &[
    ("at", at),
    ("charAt", char_at),
    ("charCodeAt", char_code_at),
    ("codePointAt", code_point_at),
    ("concat", concat),
    ("endsWith", ends_with),
    ("hasOwnProperty", has_own_property),
    ("includes", includes),
    ("indexOf", index_of),
    ("lastIndexOf", last_index_of),
    ("localeCompare", collate::locale_compare),
    ("padEnd", |run, text, passed| pad(run, text, passed, false)),
    ("padStart", |run, text, passed| pad(run, text, passed, true)),
    ("repeat", repeat),
    ("replace", |run, text, passed| {
        replace::replace(run, text, passed, false)
    }),
    ("replaceAll", |run, text, passed| {
        replace::replace(run, text, passed, true)
    }),
    ("slice", slice),
    ("split", split),
    ("startsWith", starts_with),
    ("substr", substr),
    ("substring", substring),
    ("toLowerCase", |run, text, _| {
        change_case(run, text, str::to_lowercase)
    }),
    ("toString", |_, text, _| Ok(Value::String(text.clone()))),
    ("toUpperCase", |run, text, _| {
        change_case(run, text, str::to_uppercase)
    }),
    ("trim", |run, text, _| trim(run, text, true, true)),
    ("trimEnd", |run, text, _| trim(run, text, false, true)),
    ("trimStart", |run, text, _| trim(run, text, true, false)),
    ("valueOf", |_, text, _| Ok(Value::String(text.clone()))),
];

type Run<'r, 'i, 'a> = &'r mut Evaluator<'i, 'a>;

/// An argument as a position in a string of `length`, `default` when it is not given.
fn position<'a>(
    run: Run<'_, '_, 'a>,
    value: &Value<'a>,
    length: usize,
    default: usize,
) -> Fallible<usize> {
    if value.is_undefined() {
        return Ok(default);
    }
    Ok(value.to_integer(run.budget)?.clamp(0.0, length as f64) as usize)
}

/// The code unit at a position that is in range.
fn unit<'a>(run: Run<'_, '_, 'a>, text: &Text<'a>, index: usize) -> Fallible<Value<'a>> {
    Ok(Value::String(text.slice(index, index + 1, run.budget)?))
}

/// An argument as an index into the string, if it is one.
fn index<'a>(run: Run<'_, '_, 'a>, text: &Text<'a>, value: &Value<'a>) -> Fallible<Option<usize>> {
    let length = text.length(run.budget)?;
    let index = value.to_integer(run.budget)?;
    Ok((0.0..length as f64)
        .contains(&index)
        .then_some(index as usize))
}

fn at<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let length = text.length(run.budget)? as f64;
    let index = passed.get(0).to_integer(run.budget)?;
    let index = if index < 0.0 { length + index } else { index };
    if !(0.0..length).contains(&index) {
        return Ok(Value::Undefined);
    }
    unit(run, text, index as usize)
}

fn char_at<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    match index(run, text, passed.get(0))? {
        Some(index) => unit(run, text, index),
        None => Ok(Value::String(Text::Borrowed(""))),
    }
}

fn char_code_at<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let Some(index) = index(run, text, passed.get(0))? else {
        return Ok(Value::Number(f64::NAN));
    };
    let unit = text.slice(index, index + 1, run.budget)?;
    let unit = unit.units(run.budget)?.first().copied();
    Ok(Value::Number(unit.map_or(f64::NAN, f64::from)))
}

fn code_point_at<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let Some(index) = index(run, text, passed.get(0))? else {
        return Ok(Value::Undefined);
    };
    let end = text.length(run.budget)?.min(index + 2);
    let part = text.slice(index, end, run.budget)?;
    let units = part.units(run.budget)?;
    let code = char::decode_utf16(units.iter().copied())
        .next()
        .map(|letter| match letter {
            Ok(letter) => u32::from(letter),
            Err(lone) => u32::from(lone.unpaired_surrogate()),
        });
    Ok(code.map_or(Value::Undefined, |code| Value::Number(f64::from(code))))
}

fn concat<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let mut joined = TextBuilder::new();
    joined.push(text, run.budget)?;
    for value in &passed.values {
        joined.push(&value.to_text(run.budget)?, run.budget)?;
    }
    Ok(Value::String(joined.finish()))
}

fn has_own_property<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let key = passed.get(0).to_text(run.budget)?;
    let found = crate::eval::own_property(&Value::String(text.clone()), &key, run.budget)?;
    Ok(Value::Bool(found.is_some()))
}

fn includes<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    Ok(Value::Bool(search(run, text, passed)?.is_some()))
}

fn index_of<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    Ok(Value::Number(
        search(run, text, passed)?.map_or(-1.0, |index| index as f64),
    ))
}

fn search<'a>(
    run: Run<'_, '_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Option<usize>> {
    let needle = passed.get(0).to_text(run.budget)?;
    let from = passed.get(1).to_integer(run.budget)?;
    let from = from.clamp(0.0, usize::MAX as f64) as usize;
    subject::index_of(text, &needle, from, run.budget)
}

fn last_index_of<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let needle = passed.get(0).to_text(run.budget)?;
    let from = passed.get(1).to_number(run.budget)?;
    let from = if from.is_nan() { f64::INFINITY } else { from };
    let found = subject::last_index_of(text, &needle, from.max(0.0) as usize, run.budget)?;
    Ok(Value::Number(found.map_or(-1.0, |index| index as f64)))
}

fn starts_with<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let needle = passed.get(0).to_text(run.budget)?;
    let (length, part) = (text.length(run.budget)?, needle.length(run.budget)?);
    let start = position(run, passed.get(1), length, 0)?;
    is_at(run, text, &needle, start, start + part, length)
}

fn ends_with<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let needle = passed.get(0).to_text(run.budget)?;
    let (length, part) = (text.length(run.budget)?, needle.length(run.budget)?);
    let end = position(run, passed.get(1), length, length)?;
    match end.checked_sub(part) {
        Some(start) => is_at(run, text, &needle, start, end, length),
        None => Ok(Value::Bool(false)),
    }
}

fn is_at<'a>(
    run: Run<'_, '_, 'a>,
    text: &Text<'a>,
    needle: &Text<'a>,
    start: usize,
    end: usize,
    length: usize,
) -> Fallible<Value<'a>> {
    Ok(Value::Bool(
        end <= length
            && text
                .slice(start, end, run.budget)?
                .equals(needle, run.budget)?,
    ))
}

fn pad<'a>(
    run: Run<'_, '_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
    start: bool,
) -> Fallible<Value<'a>> {
    let target = passed.get(0).to_integer(run.budget)?.max(0.0);
    let length = text.length(run.budget)?;
    let filler = match passed.get(1) {
        Value::Undefined => Text::Borrowed(" "),
        other => other.to_text(run.budget)?,
    };
    if target <= length as f64 || filler.is_empty() {
        return Ok(Value::String(text.clone()));
    }
    let missing = (target - length as f64).min(usize::MAX as f64) as usize;
    let size = filler.length(run.budget)?;
    let whole = repeated(run, &filler, missing / size)?;
    let rest = filler.slice(0, missing % size, run.budget)?;
    let parts = if start {
        [whole, rest, text.clone()]
    } else {
        [text.clone(), whole, rest]
    };
    Ok(Value::String(Text::concat(&parts, run.budget)?))
}

fn repeat<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let count = passed.get(0).to_integer(run.budget)?;
    if count < 0.0 || count.is_infinite() {
        return Err(error(format!("Invalid count value: {count}")));
    }
    Ok(Value::String(repeated(
        run,
        text,
        count.min(usize::MAX as f64) as usize,
    )?))
}

fn repeated<'a>(run: Run<'_, '_, 'a>, text: &Text<'a>, count: usize) -> Fallible<Text<'a>> {
    if text.is_empty() {
        return Ok(Text::Borrowed(""));
    }
    run.budget.build_many(count, text.size())?;
    Ok(match text.view(Price::READ, run.budget)? {
        View::Plain(plain) => Text::built(&plain.repeat(count)),
        View::Wide(units) => Text::of_units(&units.repeat(count)),
    })
}

fn slice<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let length = text.length(run.budget)?;
    let start = relative(passed.get(0).to_number(run.budget)?, length);
    let end = if passed.get(1).is_undefined() {
        length
    } else {
        relative(passed.get(1).to_number(run.budget)?, length)
    };
    Ok(Value::String(text.slice(
        start,
        end.max(start),
        run.budget,
    )?))
}

fn substring<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let length = text.length(run.budget)?;
    let start = position(run, passed.get(0), length, 0)?;
    let end = position(run, passed.get(1), length, length)?;
    Ok(Value::String(text.slice(
        start.min(end),
        start.max(end),
        run.budget,
    )?))
}

fn substr<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let length = text.length(run.budget)?;
    let start = relative(passed.get(0).to_number(run.budget)?, length);
    let count = position(run, passed.get(1), length, length)?;
    Ok(Value::String(text.slice(
        start,
        start.saturating_add(count).min(length),
        run.budget,
    )?))
}

fn split<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let limit = match passed.get(1) {
        Value::Undefined => u32::MAX,
        other => to_uint32(other.to_number(run.budget)?),
    } as usize;
    let separator = passed.get(0).to_text(run.budget)?;
    if limit == 0 {
        return run.list(Vec::new());
    }
    if passed.get(0).is_undefined() {
        return run.list(vec![Value::String(text.clone())]);
    }
    if separator.is_empty() {
        let units = run.code_units(text)?;
        let count = limit.min(units.len());
        run.budget.build_many(count, ITEM_SIZE)?;
        return run.list(units.range(0, count).collect());
    }
    let mut parts = Vec::new();
    let subject = Subject::new(text, &separator, run.budget)?;
    let size = subject.needle_len();
    let mut start = 0;
    while parts.len() < limit {
        run.budget.steps(1)?;
        run.budget.build(ITEM_SIZE)?;
        let found = subject.find(start, run.budget)?;
        let end = found.unwrap_or(subject.len());
        parts.push(Value::String(subject.slice(start, end, run.budget)?));
        let Some(found) = found else { break };
        start = found + size;
    }
    run.list(parts)
}

fn change_case<'a>(
    run: Run<'_, '_, 'a>,
    text: &Text<'a>,
    change: fn(&str) -> String,
) -> Fallible<Value<'a>> {
    // One character becomes three at most.
    run.budget.build(text.size().saturating_mul(2))?;
    run.budget.read_at(text.size(), Price::CONVERT)?;
    let units = match text.view(Price::CONVERT, run.budget)? {
        View::Plain(plain) => return Ok(Value::text(&change(plain))),
        View::Wide(units) => units,
    };
    let mut changed = Vec::with_capacity(units.len());
    for letter in char::decode_utf16(units.iter().copied()) {
        match letter {
            Ok(letter) => changed.extend(change(letter.encode_utf8(&mut [0; 4])).encode_utf16()),
            Err(lone) => changed.push(lone.unpaired_surrogate()),
        }
    }
    Ok(Value::String(Text::from_units(&changed, run.budget)?))
}

fn trim<'a>(run: Run<'_, '_, 'a>, text: &Text<'a>, start: bool, end: bool) -> Fallible<Value<'a>> {
    let plain = match text.view(Price::READ, run.budget)? {
        View::Plain(plain) => plain,
        View::Wide(units) => {
            let blank = |unit: &u16| char::from_u32(u32::from(*unit)).is_some_and(is_space);
            let first = units.iter().position(|unit| !blank(unit));
            let last = units.iter().rposition(|unit| !blank(unit));
            let from = first.filter(|_| start).unwrap_or(0);
            let to = last.filter(|_| end).map_or(units.len(), |last| last + 1);
            return Ok(Value::String(text.slice(from, to, run.budget)?));
        }
    };
    let from = if start {
        plain.len() - plain.trim_start_matches(is_space).len()
    } else {
        0
    };
    let to = if end {
        from + plain[from..].trim_end_matches(is_space).len()
    } else {
        plain.len()
    };
    Ok(Value::String(text.bytes(from, to, run.budget)?))
}
