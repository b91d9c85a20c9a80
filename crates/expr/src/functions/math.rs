//! `Math.*` but `random`. Powers and logarithms come from one portable library, so that a
//! result does not depend on the machine. ECMA-262 leaves the last digit of those to the
//! implementation (21.3.2), so it may differ from a given engine's.

use super::{Function, function};
use crate::convert::power;
use crate::eval::{Evaluator, Passed};
use crate::number::{to_int32, to_uint32};
use crate::problem::Fallible;
use crate::value::Value;

pub(super) const CONSTANTS: &[(&str, f64)] = &[
    ("Math.PI", std::f64::consts::PI),
    ("Math.E", std::f64::consts::E),
    ("Math.LN2", std::f64::consts::LN_2),
    ("Math.LN10", std::f64::consts::LN_10),
    ("Math.LOG2E", std::f64::consts::LOG2_E),
    ("Math.LOG10E", std::f64::consts::LOG10_E),
    ("Math.SQRT2", std::f64::consts::SQRT_2),
    ("Math.SQRT1_2", std::f64::consts::FRAC_1_SQRT_2),
    ("Number.MAX_SAFE_INTEGER", 9_007_199_254_740_991.0),
    ("Number.MIN_SAFE_INTEGER", -9_007_199_254_740_991.0),
    ("Number.MAX_VALUE", f64::MAX),
    ("Number.MIN_VALUE", 5e-324),
    ("Number.EPSILON", f64::EPSILON),
    ("Number.POSITIVE_INFINITY", f64::INFINITY),
    ("Number.NEGATIVE_INFINITY", f64::NEG_INFINITY),
    ("Number.NaN", f64::NAN),
];

/// A function of one number.
macro_rules! one {
    ($name:literal, $function:expr) => {
        function($name, |run, passed| {
            let function: fn(f64) -> f64 = $function;
            Ok(Value::Number(function(
                passed.get(0).to_number(run.budget)?,
            )))
        })
    };
}

/// A function of two numbers.
macro_rules! two {
    ($name:literal, $function:expr) => {
        function($name, |run, passed| {
            let function: fn(f64, f64) -> f64 = $function;
            let (one, two) = (
                passed.get(0).to_number(run.budget)?,
                passed.get(1).to_number(run.budget)?,
            );
            Ok(Value::Number(function(one, two)))
        })
    };
}

pub(super) const FUNCTIONS: &[Function] = &[
    one!("Math.abs", f64::abs),
    one!("Math.acos", libm::acos),
    one!("Math.acosh", libm::acosh),
    one!("Math.asin", libm::asin),
    one!("Math.asinh", libm::asinh),
    one!("Math.atan", libm::atan),
    one!("Math.atanh", libm::atanh),
    one!("Math.cbrt", libm::cbrt),
    one!("Math.ceil", f64::ceil),
    one!("Math.clz32", |number| f64::from(
        to_uint32(number).leading_zeros()
    )),
    one!("Math.cos", libm::cos),
    one!("Math.cosh", libm::cosh),
    one!("Math.exp", exponential),
    one!("Math.expm1", libm::expm1),
    one!("Math.floor", f64::floor),
    one!("Math.fround", |number| f64::from(number as f32)),
    one!("Math.log", libm::log),
    one!("Math.log10", libm::log10),
    one!("Math.log1p", libm::log1p),
    one!("Math.log2", libm::log2),
    one!("Math.round", round),
    one!("Math.sign", |number| if number == 0.0 || number.is_nan() {
        number
    } else {
        number.signum()
    }),
    one!("Math.sin", libm::sin),
    one!("Math.sinh", libm::sinh),
    one!("Math.sqrt", f64::sqrt),
    one!("Math.tan", libm::tan),
    one!("Math.tanh", libm::tanh),
    one!("Math.trunc", f64::trunc),
    two!("Math.atan2", libm::atan2),
    two!("Math.imul", |one, two| f64::from(
        to_int32(one).wrapping_mul(to_int32(two))
    )),
    two!("Math.pow", power),
    function("Math.max", |run, passed| {
        fold(run, passed, f64::NEG_INFINITY, larger)
    }),
    function("Math.min", |run, passed| {
        fold(run, passed, f64::INFINITY, |one, two| -larger(-one, -two))
    }),
    function("Math.hypot", hypot),
];

/// The library's value of e is wrong in its last digit, which users would notice.
fn exponential(number: f64) -> f64 {
    if number == 1.0 {
        std::f64::consts::E
    } else {
        libm::exp(number)
    }
}

/// Halves go up, towards positive infinity, and the sign of zero is kept.
fn round(number: f64) -> f64 {
    let floor = number.floor();
    let rounded = if number - floor >= 0.5 {
        floor + 1.0
    } else {
        floor
    };
    if rounded == 0.0 {
        rounded.copysign(number)
    } else {
        rounded
    }
}

/// The larger one; `NaN` wins, and 0 is larger than -0.
fn larger(one: f64, two: f64) -> f64 {
    if one.is_nan() || two.is_nan() {
        return f64::NAN;
    }
    if one == two {
        return if one.is_sign_negative() { two } else { one };
    }
    if one > two { one } else { two }
}

fn fold<'a>(
    run: &mut Evaluator<'_, 'a>,
    passed: &Passed<'a>,
    start: f64,
    step: fn(f64, f64) -> f64,
) -> Fallible<Value<'a>> {
    run.budget.steps(passed.values.len() as u64)?;
    let mut result = start;
    for value in &passed.values {
        result = step(result, value.to_number(run.budget)?);
    }
    Ok(Value::Number(result))
}

fn hypot<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    run.budget.steps(passed.values.len() as u64)?;
    let mut numbers = Vec::with_capacity(passed.values.len());
    for value in &passed.values {
        numbers.push(value.to_number(run.budget)?.abs());
    }
    if numbers.contains(&f64::INFINITY) {
        return Ok(Value::Number(f64::INFINITY));
    }
    let largest = numbers.iter().copied().fold(0.0, larger);
    if largest == 0.0 || largest.is_nan() {
        return Ok(Value::Number(largest));
    }
    // Scaled by the largest and summed with compensation (Kahan), as V8 does.
    let (mut sum, mut compensation) = (0.0, 0.0);
    for number in numbers {
        let scaled = number / largest;
        let summand = scaled * scaled - compensation;
        let next = sum + summand;
        compensation = (next - sum) - summand;
        sum = next;
    }
    Ok(Value::Number(f64::sqrt(sum) * largest))
}
