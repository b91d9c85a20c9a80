//! Plain functions: conversions, `parseInt`, `Number.*`, `String.*`.

use super::{Function, ScalarMethod, function};
use crate::eval::{Evaluator, Passed};
use crate::limits::Price;
use crate::number;
use crate::problem::{Fallible, error};
use crate::text::Text;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("Number", to_number),
    function("String", to_string),
    function("Boolean", |_, passed| {
        Ok(Value::Bool(passed.get(0).is_truthy()))
    }),
    function("isNaN", |run, passed| {
        Ok(Value::Bool(passed.get(0).to_number(run.budget)?.is_nan()))
    }),
    function("isFinite", |run, passed| {
        Ok(Value::Bool(
            passed.get(0).to_number(run.budget)?.is_finite(),
        ))
    }),
    function("parseInt", parse_int),
    function("parseFloat", parse_float),
    function("Number.parseInt", parse_int),
    function("Number.parseFloat", parse_float),
    function("Number.isNaN", |_, passed| {
        Ok(Value::Bool(
            passed.get(0).as_number().is_some_and(f64::is_nan),
        ))
    }),
    function("Number.isFinite", |_, passed| {
        Ok(Value::Bool(
            passed.get(0).as_number().is_some_and(f64::is_finite),
        ))
    }),
    function("Number.isInteger", |_, passed| {
        Ok(Value::Bool(is_integer(passed.get(0))))
    }),
    function("Number.isSafeInteger", |_, passed| {
        let value = passed.get(0);
        let small = value
            .as_number()
            .is_some_and(|number| number.abs() <= 9_007_199_254_740_991.0);
        Ok(Value::Bool(is_integer(value) && small))
    }),
    function("String.fromCharCode", from_char_code),
    function("String.fromCodePoint", from_code_point),
];

/// Methods of booleans.
pub(super) const METHODS: &[(&str, ScalarMethod)] = &[
    ("hasOwnProperty", |_, _, _| Ok(Value::Bool(false))),
    ("toString", |run, value, _| {
        Ok(Value::String(value.to_text(run.budget)?))
    }),
    ("valueOf", |_, value, _| Ok(value.clone())),
];

fn to_number<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    let value = passed
        .values
        .first()
        .map_or(Ok(0.0), |value| value.to_number(run.budget))?;
    Ok(Value::Number(value))
}

fn to_string<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    let text = passed
        .values
        .first()
        .map_or(Ok(Text::Borrowed("")), |value| value.to_text(run.budget))?;
    Ok(Value::String(text))
}

fn is_integer(value: &Value<'_>) -> bool {
    value
        .as_number()
        .is_some_and(|number| number.is_finite() && number.trunc() == number)
}

fn parse_int<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    let text = passed.get(0).to_text(run.budget)?;
    let radix = passed.get(1).to_number(run.budget)?;
    run.budget.steps(number::parsing_steps(text.size()))?;
    let text = text.lossy(Price::CONVERT, run.budget)?;
    Ok(Value::Number(number::parse_int(&text, radix)))
}

fn parse_float<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    let text = passed.get(0).to_text(run.budget)?;
    run.budget.steps(number::parsing_steps(text.size()))?;
    let text = text.lossy(Price::CONVERT, run.budget)?;
    Ok(Value::Number(number::parse_float(&text)))
}

fn from_char_code<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    let mut units = Vec::with_capacity(passed.values.len());
    for value in &passed.values {
        units.push((number::to_uint32(value.to_number(run.budget)?) & 0xFFFF) as u16);
    }
    run.budget.build_many(units.len(), 4)?;
    Ok(Value::String(Text::from_units(&units, run.budget)?))
}

fn from_code_point<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    let mut units = Vec::with_capacity(passed.values.len());
    for value in &passed.values {
        let code = value.to_number(run.budget)?;
        if !(0.0..=1_114_111.0).contains(&code) || code.trunc() != code {
            return Err(error("Invalid code point"));
        }
        let code = code as u32;
        match char::from_u32(code) {
            Some(letter) => units.extend_from_slice(letter.encode_utf16(&mut [0; 2])),
            None => units.push(code as u16),
        }
    }
    run.budget.build_many(units.len(), 4)?;
    Ok(Value::String(Text::from_units(&units, run.budget)?))
}
