//! Methods of numbers.

use super::NumberMethod;
use crate::eval::{Evaluator, Passed};
use crate::number;
use crate::problem::{Fallible, error};
use crate::value::Value;

/// What formatting costs, beside a step for each digit: numbers of extreme size are computed
/// digit by digit.
const FORMAT_STEPS: u64 = 60;

/// What writing a number in another base costs: it may have a thousand digits.
const RADIX_STEPS: u64 = 100;

pub(super) const METHODS: &[(&str, NumberMethod)] = &[
    ("hasOwnProperty", |_, _, _| Ok(Value::Bool(false))),
    ("toExponential", to_exponential),
    ("toFixed", to_fixed),
    ("toPrecision", to_precision),
    ("toString", to_string),
    ("valueOf", |_, number, _| Ok(Value::Number(number))),
];

/// An argument in a range, or a `RangeError`.
fn digits<'a>(
    run: &mut Evaluator<'_, 'a>,
    passed: &Passed<'a>,
    least: f64,
    what: &str,
) -> Fallible<usize> {
    let digits = passed.get(0).to_integer(run.budget)?;
    if !(least..=100.0).contains(&digits) {
        return Err(error(format!(
            "{what}() argument must be between {least} and 100"
        )));
    }
    run.budget.steps(FORMAT_STEPS + digits as u64)?;
    run.budget.build(128)?;
    Ok(digits as usize)
}

fn to_fixed<'a>(
    run: &mut Evaluator<'_, 'a>,
    number: f64,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let digits = digits(run, passed, 0.0, "toFixed")?;
    if !number.is_finite() || number.abs() >= 1e21 {
        return Ok(Value::text(&number::to_text(number)));
    }
    Ok(Value::text(&number::to_fixed(number, digits)))
}

fn to_exponential<'a>(
    run: &mut Evaluator<'_, 'a>,
    number: f64,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    if !number.is_finite() {
        passed.get(0).to_integer(run.budget)?;
        return Ok(Value::text(&number::to_text(number)));
    }
    let count = digits(run, passed, 0.0, "toExponential")?;
    let count = (!passed.get(0).is_undefined()).then_some(count);
    Ok(Value::text(&number::to_exponential(number, count)))
}

fn to_precision<'a>(
    run: &mut Evaluator<'_, 'a>,
    number: f64,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    if passed.get(0).is_undefined() || !number.is_finite() {
        passed.get(0).to_integer(run.budget)?;
        return Ok(Value::text(&number::to_text(number)));
    }
    let count = digits(run, passed, 1.0, "toPrecision")?;
    Ok(Value::text(&number::to_precision(number, count)))
}

fn to_string<'a>(
    run: &mut Evaluator<'_, 'a>,
    number: f64,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let radix = if passed.get(0).is_undefined() {
        10.0
    } else {
        passed.get(0).to_integer(run.budget)?
    };
    if !(2.0..=36.0).contains(&radix) {
        return Err(error("toString() radix must be between 2 and 36"));
    }
    if radix == 10.0 || !number.is_finite() {
        run.budget.build(24)?;
        return Ok(Value::text(&number::to_text(number)));
    }
    run.budget.steps(RADIX_STEPS)?;
    run.budget.build(1200)?;
    Ok(Value::text(&number::to_radix(number, radix as u32)))
}
