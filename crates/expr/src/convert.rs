//! JavaScript's conversions and comparisons: `ToString`, `ToNumber`, `==`, `===`, `<`, `+`.
//!
//! Section numbers are of ECMA-262, 15th edition.

use std::cmp::Ordering;

use crate::limits::{Budget, Price, check_depth};
use crate::number;
use crate::problem::{Fallible, error};
use crate::text::{Text, TextBuilder};
use crate::value::{List, Value};

impl<'a> Value<'a> {
    /// `typeof`.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Undefined => "undefined",
            Self::Bool(_) => "boolean",
            Self::Number(_) | Self::Exact(_) => "number",
            Self::String(_) => "string",
            Self::Null | Self::Array(_) | Self::Object(_) => "object",
        }
    }

    /// `ToString` (7.1.17).
    pub(crate) fn to_text(&self, budget: &mut Budget) -> Fallible<Text<'a>> {
        budget.steps(1)?;
        Ok(match self {
            Self::Undefined => Text::Borrowed("undefined"),
            Self::Null => Text::Borrowed("null"),
            Self::Bool(true) => Text::Borrowed("true"),
            Self::Bool(false) => Text::Borrowed("false"),
            Self::Number(_) | Self::Exact(_) => {
                budget.build(24)?;
                let number = self.as_number().unwrap_or(f64::NAN);
                Text::built(ryu_js::Buffer::new().format(number))
            }
            Self::String(text) => text.clone(),
            Self::Array(list) => join(list, &Text::Borrowed(","), budget)?,
            Self::Object(record) => {
                // An own property hides the method that would have made the text.
                if record.get(&Text::Borrowed("toString"), budget)?.is_some() {
                    return Err(error("Cannot convert object to primitive value"));
                }
                Text::Borrowed("[object Object]")
            }
        })
    }

    /// `ToPrimitive` (7.1.1): objects and arrays become text.
    pub(crate) fn to_primitive(&self, budget: &mut Budget) -> Fallible<Value<'a>> {
        match self {
            Self::Array(_) | Self::Object(_) => Ok(Value::String(self.to_text(budget)?)),
            other => Ok(other.clone()),
        }
    }

    /// `ToNumber` (7.1.4).
    pub(crate) fn to_number(&self, budget: &mut Budget) -> Fallible<f64> {
        Ok(match self {
            Self::Number(number) => *number,
            Self::Exact(_) => self.as_number().unwrap_or(f64::NAN),
            Self::Undefined => f64::NAN,
            Self::Null => 0.0,
            Self::Bool(value) => f64::from(u8::from(*value)),
            Self::String(text) => text_to_number(text, budget)?,
            Self::Array(_) | Self::Object(_) => text_to_number(&self.to_text(budget)?, budget)?,
        })
    }

    /// `ToIntegerOrInfinity` (7.1.5).
    pub(crate) fn to_integer(&self, budget: &mut Budget) -> Fallible<f64> {
        Ok(number::to_integer(self.to_number(budget)?))
    }
}

fn text_to_number(text: &Text<'_>, budget: &mut Budget) -> Fallible<f64> {
    let plain = text.view(Price::CONVERT, budget)?.plain();
    budget.steps(number::parsing_steps(text.size()))?;
    Ok(plain.map_or(f64::NAN, number::from_text))
}

/// `Array.prototype.join` (23.1.3.18).
pub(crate) fn join<'a>(
    list: &List<'a>,
    separator: &Text<'_>,
    budget: &mut Budget,
) -> Fallible<Text<'a>> {
    let mut joined = TextBuilder::new();
    join_into(list, separator, 0, &mut joined, budget)?;
    Ok(joined.finish())
}

/// Appends the texts of a list's elements; lists in it are joined by commas.
fn join_into(
    list: &List<'_>,
    separator: &Text<'_>,
    depth: usize,
    joined: &mut TextBuilder,
    budget: &mut Budget,
) -> Fallible<()> {
    check_depth(depth)?;
    for (index, item) in list.iter().enumerate() {
        budget.steps(1)?;
        if index > 0 && !separator.is_empty() {
            joined.push(separator, budget)?;
        }
        match item {
            Value::Undefined | Value::Null => {}
            Value::Array(inner) => {
                budget.steps(1)?;
                join_into(&inner, &Text::Borrowed(","), depth + 1, joined, budget)?;
            }
            other => joined.push(&other.to_text(budget)?, budget)?,
        }
    }
    Ok(())
}

/// `IsStrictlyEqual` (7.2.15).
pub(crate) fn strictly_equal(
    one: &Value<'_>,
    two: &Value<'_>,
    budget: &mut Budget,
) -> Fallible<bool> {
    Ok(match (one, two) {
        (Value::String(one), Value::String(two)) => one.equals(two, budget)?,
        (Value::Undefined, Value::Undefined) | (Value::Null, Value::Null) => true,
        (Value::Bool(one), Value::Bool(two)) => one == two,
        (Value::Array(one), Value::Array(two)) => one.is_same(two),
        (Value::Object(one), Value::Object(two)) => one.is_same(two),
        _ => match (one.as_number(), two.as_number()) {
            (Some(one), Some(two)) => one == two,
            _ => false,
        },
    })
}

/// `SameValueZero` (7.2.12): as `===`, but `NaN` equals itself.
pub(crate) fn same_value_zero(
    one: &Value<'_>,
    two: &Value<'_>,
    budget: &mut Budget,
) -> Fallible<bool> {
    match (one.as_number(), two.as_number()) {
        (Some(one), Some(two)) => Ok(one == two || (one.is_nan() && two.is_nan())),
        _ => strictly_equal(one, two, budget),
    }
}

/// `IsLooselyEqual` (7.2.14).
pub(crate) fn loosely_equal(
    one: &Value<'_>,
    two: &Value<'_>,
    budget: &mut Budget,
) -> Fallible<bool> {
    if one.is_nullish() || two.is_nullish() {
        return Ok(one.is_nullish() && two.is_nullish());
    }
    let is_object = |value: &Value<'_>| matches!(value, Value::Array(_) | Value::Object(_));
    if one.type_name() == two.type_name() {
        return strictly_equal(one, two, budget);
    }
    // Of two different types, at most one is an object at this point, and it becomes text.
    let (one, two) = match (is_object(one), is_object(two)) {
        (true, false) if !matches!(two, Value::Bool(_)) => (one.to_primitive(budget)?, two.clone()),
        (false, true) if !matches!(one, Value::Bool(_)) => (one.clone(), two.to_primitive(budget)?),
        _ => (one.clone(), two.clone()),
    };
    if let (Value::String(one), Value::String(two)) = (&one, &two) {
        return one.equals(two, budget);
    }
    Ok(one.to_number(budget)? == two.to_number(budget)?)
}

/// `IsLessThan` (7.2.13) and its likes; `None` when a `NaN` is involved.
pub(crate) fn compare(
    one: &Value<'_>,
    two: &Value<'_>,
    budget: &mut Budget,
) -> Fallible<Option<Ordering>> {
    if let (Some(one), Some(two)) = (one.as_number(), two.as_number()) {
        return Ok(one.partial_cmp(&two));
    }
    let (one, two) = (one.to_primitive(budget)?, two.to_primitive(budget)?);
    if let (Value::String(one), Value::String(two)) = (&one, &two) {
        return Ok(Some(one.compare(two, budget)?));
    }
    Ok(one.to_number(budget)?.partial_cmp(&two.to_number(budget)?))
}

/// `+` (13.15.3).
pub(crate) fn add<'a>(
    one: &Value<'a>,
    two: &Value<'a>,
    budget: &mut Budget,
) -> Fallible<Value<'a>> {
    if let (Some(one), Some(two)) = (one.as_number(), two.as_number()) {
        return Ok(Value::Number(one + two));
    }
    let (one, two) = (one.to_primitive(budget)?, two.to_primitive(budget)?);
    if matches!(one, Value::String(_)) || matches!(two, Value::String(_)) {
        let parts = [one.to_text(budget)?, two.to_text(budget)?];
        return Ok(Value::String(Text::concat(&parts, budget)?));
    }
    Ok(Value::Number(
        one.to_number(budget)? + two.to_number(budget)?,
    ))
}

/// `**` (6.1.6.1.3), which differs from the usual power function where `NaN` or ±1 meet.
pub(crate) fn power(base: f64, exponent: f64) -> f64 {
    if exponent.is_nan() || (base.abs() == 1.0 && exponent.is_infinite()) {
        return f64::NAN;
    }
    libm::pow(base, exponent)
}
