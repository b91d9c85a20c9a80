//! `Object.*`, `Array.*` and the methods of objects.

use indexmap::IndexMap;

use super::{Function, RecordMethod, function};
use crate::convert::{same_value_zero, strictly_equal};
use crate::eval::{Evaluator, Passed, describe};
use crate::problem::{Fallible, error};
use crate::text::Text;
use crate::value::{ITEM_SIZE, Record, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function("Object.keys", keys),
    function("Object.values", values),
    function("Object.entries", entries),
    function("Object.fromEntries", from_entries),
    function("Object.assign", assign),
    function("Object.hasOwn", |run, passed| {
        let key = passed.get(1).to_text(run.budget)?;
        has_own(run, passed.get(0), &key)
    }),
    function("Object.is", is),
    function("Array.isArray", |_, passed| {
        Ok(Value::Bool(matches!(passed.get(0), Value::Array(_))))
    }),
    function("Array.of", |run, passed| {
        run.budget.build_many(passed.values.len(), ITEM_SIZE)?;
        run.list(passed.values.clone())
    }),
    Function {
        name: "Array.from",
        call: from,
        callback: Some(1),
    },
];

pub(super) const METHODS: &[(&str, RecordMethod)] = &[
    ("hasOwnProperty", |run, record, passed| {
        let key = passed.get(0).to_text(run.budget)?;
        has_own(run, &Value::Object(record.clone()), &key)
    }),
    ("toString", |_, _, _| {
        Ok(Value::String(Text::Borrowed("[object Object]")))
    }),
    ("valueOf", |_, record, _| Ok(Value::Object(record.clone()))),
];

/// A list of what `take` makes of each property of what JavaScript can make an object of.
fn listed<'a>(
    run: &mut Evaluator<'_, 'a>,
    passed: &Passed<'a>,
    take: fn(&mut Evaluator<'_, 'a>, Text<'a>, Value<'a>) -> Fallible<Value<'a>>,
) -> Fallible<Value<'a>> {
    let value = passed.get(0);
    if value.is_nullish() {
        return Err(error("Cannot convert undefined or null to object"));
    }
    let mut items = Vec::new();
    run.each_property(value, &mut |run, key, value| {
        run.budget.build(ITEM_SIZE)?;
        items.push(take(run, key, value)?);
        Ok(())
    })?;
    run.list(items)
}

fn keys<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    listed(run, passed, |_, key, _| Ok(Value::String(key)))
}

fn values<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    listed(run, passed, |_, _, value| Ok(value))
}

fn entries<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    listed(run, passed, |run, key, value| {
        run.budget.build(2 * ITEM_SIZE)?;
        run.list(vec![Value::String(key), value])
    })
}

fn from_entries<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    let list = run.iterate(passed.get(0))?;
    let mut entries = IndexMap::new();
    for entry in list.iter() {
        run.budget.steps(1)?;
        let (key, value) = match &entry {
            Value::Array(pair) => (pair.get(0), pair.get(1)),
            Value::Object(record) => (
                record.get(&Text::Borrowed("0"), run.budget)?,
                record.get(&Text::Borrowed("1"), run.budget)?,
            ),
            other => {
                return Err(error(format!(
                    "Iterator value {} is not an entry object",
                    describe(other)
                )));
            }
        };
        let key = key.unwrap_or(Value::Undefined).to_text(run.budget)?;
        run.insert(&mut entries, key, value.unwrap_or(Value::Undefined))?;
    }
    Ok(Value::Object(Record::built(entries, run.budget)?))
}

/// Values never change, so the target is copied: the result is what JavaScript's target becomes.
fn assign<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    if !matches!(passed.get(0), Value::Object(_)) {
        return Err(error("Object.assign takes an object first"));
    }
    let mut entries = IndexMap::new();
    for value in &passed.values {
        run.copy_properties(value, &mut entries)?;
    }
    Ok(Value::Object(Record::built(entries, run.budget)?))
}

fn has_own<'a>(
    run: &mut Evaluator<'_, 'a>,
    value: &Value<'a>,
    key: &Text<'a>,
) -> Fallible<Value<'a>> {
    Ok(Value::Bool(
        crate::eval::own_property(value, key, run.budget)?.is_some(),
    ))
}

fn is<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    let (one, two) = (passed.get(0), passed.get(1));
    Ok(Value::Bool(match (one.as_number(), two.as_number()) {
        (Some(left), Some(right)) if left == 0.0 && right == 0.0 => {
            left.is_sign_negative() == right.is_sign_negative()
        }
        (Some(_), Some(_)) => same_value_zero(one, two, run.budget)?,
        _ => strictly_equal(one, two, run.budget)?,
    }))
}

/// `Array.from`: iterables, and objects with a `length`.
fn from<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    let callback = passed.optional_callback(1)?;
    let source = passed.get(0);
    let length = match source {
        Value::Object(record) => {
            let length = record
                .get(&Text::Borrowed("length"), run.budget)?
                .unwrap_or(Value::Undefined);
            Some(
                length
                    .to_integer(run.budget)?
                    .clamp(0.0, 9_007_199_254_740_991.0) as usize,
            )
        }
        _ => None,
    };
    let list = match (length, source) {
        (Some(_), _) => None,
        (None, Value::Array(_) | Value::String(_)) => Some(run.iterate(source)?),
        (None, Value::Undefined | Value::Null) => {
            return Err(error(format!("{} is not iterable", describe(source))));
        }
        // Numbers and booleans are objects without a length.
        _ => return run.list(Vec::new()),
    };
    let length = list
        .as_ref()
        .map_or(length.unwrap_or(0), crate::value::List::len);
    run.budget.build_many(length, ITEM_SIZE)?;
    let indexed = match source {
        Value::Object(record) if record.has_indices(run.budget)? => Some(record),
        _ => None,
    };
    let mut items = Vec::new();
    for index in 0..length {
        run.budget.steps(1)?;
        let item = match (&list, indexed) {
            (Some(list), _) => list.get(index),
            (None, Some(record)) => {
                let key = run.index_text(index)?;
                record.get(&key, run.budget)?
            }
            _ => None,
        };
        let item = item.unwrap_or(Value::Undefined);
        items.push(match callback {
            Some(callback) => run.call(callback, &[item, Value::Number(index as f64)])?,
            None => item,
        });
    }
    run.list(items)
}
