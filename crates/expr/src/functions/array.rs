//! Methods of arrays that take no function. Values never change: what changes an array in
//! JavaScript gives a new one here, or is left out.

use super::{ListMethod, sort};
use crate::convert::{join, same_value_zero, strictly_equal};
use crate::eval::{Evaluator, Passed};
use crate::limits::check_depth;
use crate::number::relative;
use crate::problem::{Fallible, error};
use crate::text::Text;
use crate::value::{ITEM_SIZE, List, Value};

pub(super) const METHODS: &[(&str, ListMethod)] = &[
    ("at", at),
    ("concat", concat),
    ("flat", flat),
    ("hasOwnProperty", has_own_property),
    ("includes", includes),
    ("indexOf", index_of),
    ("join", join_items),
    ("lastIndexOf", last_index_of),
    ("reverse", reverse),
    ("slice", slice),
    ("sort", sort::sort),
    ("toReversed", reverse),
    ("toSorted", sort::sort),
    ("toSpliced", to_spliced),
    ("toString", |run, list, _| {
        Ok(Value::String(join(list, &Text::Borrowed(","), run.budget)?))
    }),
    ("valueOf", |_, list, _| Ok(Value::Array(list.clone()))),
    ("with", with),
];

fn at<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let index = passed.get(0).to_integer(run.budget)?;
    Ok(list.get_number(if index < 0.0 {
        list.len() as f64 + index
    } else {
        index
    }))
}

fn concat<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    run.budget.build_many(list.len(), ITEM_SIZE)?;
    let mut items: Vec<_> = list.iter().collect();
    for value in &passed.values {
        if let Value::Array(more) = value {
            run.budget.build_many(more.len(), ITEM_SIZE)?;
            items.extend(more.iter());
        } else {
            run.budget.build(ITEM_SIZE)?;
            items.push(value.clone());
        }
    }
    run.list(items)
}

fn flat<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let levels = match passed.get(0) {
        Value::Undefined => 1.0,
        other => other.to_integer(run.budget)?,
    };
    let mut items = Vec::new();
    flatten(run, list, levels, 0, &mut items)?;
    run.list(items)
}

/// Appends the elements of a list, and those of lists in it down to `levels`.
pub(super) fn flatten<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    levels: f64,
    depth: usize,
    items: &mut Vec<Value<'a>>,
) -> Fallible<()> {
    check_depth(depth)?;
    for item in list.iter() {
        run.budget.steps(1)?;
        match item {
            Value::Array(inner) if levels >= 1.0 => {
                flatten(run, &inner, levels - 1.0, depth + 1, items)?
            }
            other => {
                run.budget.build(ITEM_SIZE)?;
                items.push(other);
            }
        }
    }
    Ok(())
}

fn has_own_property<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let key = passed.get(0).to_text(run.budget)?;
    let found = crate::eval::own_property(&Value::Array(list.clone()), &key, run.budget)?;
    Ok(Value::Bool(found.is_some()))
}

fn includes<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let start = start(run, list, passed.get(1))?;
    for item in list.range(start, list.len()) {
        run.budget.steps(1)?;
        if same_value_zero(&item, passed.get(0), run.budget)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn start<'a>(run: &mut Evaluator<'_, 'a>, list: &List<'a>, value: &Value<'a>) -> Fallible<usize> {
    Ok(relative(value.to_integer(run.budget)?, list.len()))
}

fn index_of<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let start = start(run, list, passed.get(1))?;
    for index in start..list.len() {
        let item = list.get(index).unwrap_or(Value::Undefined);
        run.budget.steps(1)?;
        if strictly_equal(&item, passed.get(0), run.budget)? {
            return Ok(Value::Number(index as f64));
        }
    }
    Ok(Value::Number(-1.0))
}

fn last_index_of<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let length = list.len() as f64;
    let from = match passed.values.get(1) {
        None => length - 1.0,
        Some(value) => value.to_integer(run.budget)?,
    };
    let from = if from < 0.0 {
        length + from
    } else {
        from.min(length - 1.0)
    };
    if from < 0.0 {
        return Ok(Value::Number(-1.0));
    }
    for index in (0..=from as usize).rev() {
        run.budget.steps(1)?;
        let item = list.get(index).unwrap_or(Value::Undefined);
        if strictly_equal(&item, passed.get(0), run.budget)? {
            return Ok(Value::Number(index as f64));
        }
    }
    Ok(Value::Number(-1.0))
}

fn join_items<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let separator = match passed.get(0) {
        Value::Undefined => Text::Borrowed(","),
        other => other.to_text(run.budget)?,
    };
    Ok(Value::String(join(list, &separator, run.budget)?))
}

fn reverse<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    _: &Passed<'a>,
) -> Fallible<Value<'a>> {
    run.budget.build_many(list.len(), ITEM_SIZE)?;
    run.list(list.iter().rev().collect())
}

fn slice<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let start = start(run, list, passed.get(0))?;
    let end = match passed.get(1) {
        Value::Undefined => list.len(),
        other => relative(other.to_integer(run.budget)?, list.len()),
    };
    let count = end.saturating_sub(start);
    run.budget.build_many(count, ITEM_SIZE)?;
    run.list(list.range(start, start + count).collect())
}

fn to_spliced<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let start = start(run, list, passed.get(0))?;
    let rest = list.len() - start;
    let removed = match passed.values.len() {
        0 => 0,
        1 => rest,
        _ => passed
            .get(1)
            .to_integer(run.budget)?
            .clamp(0.0, rest as f64) as usize,
    };
    let added = passed.values.get(2..).unwrap_or_default();
    run.budget.build_many(list.len() + added.len(), ITEM_SIZE)?;
    let head = list.range(0, start);
    run.list(
        head.chain(added.iter().cloned())
            .chain(list.range(start + removed, list.len()))
            .collect(),
    )
}

fn with<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let index = passed.get(0).to_integer(run.budget)?;
    let index = if index < 0.0 {
        list.len() as f64 + index
    } else {
        index
    };
    if !(0.0..list.len() as f64).contains(&index) {
        return Err(error("Invalid index"));
    }
    run.budget.build_many(list.len(), ITEM_SIZE)?;
    let mut items: Vec<_> = list.iter().collect();
    items[index as usize] = passed.get(1).clone();
    run.list(items)
}
