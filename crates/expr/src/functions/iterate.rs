//! Methods of arrays that call a function for each element.

use super::{ListMethod, array};
use crate::ast::CallbackKind;
use crate::eval::{Evaluator, Passed};
use crate::problem::{Fallible, error};
use crate::value::{ITEM_SIZE, List, Value};

pub(super) const METHODS: &[(&str, ListMethod)] = &[
    ("every", every),
    ("filter", filter),
    ("find", |run, list, passed| {
        Ok(search(run, list, passed, false)?.map_or(Value::Undefined, |found| found.1))
    }),
    ("findIndex", |run, list, passed| {
        Ok(index(search(run, list, passed, false)?))
    }),
    ("findLast", |run, list, passed| {
        Ok(search(run, list, passed, true)?.map_or(Value::Undefined, |found| found.1))
    }),
    ("findLastIndex", |run, list, passed| {
        Ok(index(search(run, list, passed, true)?))
    }),
    ("flatMap", flat_map),
    ("map", map),
    ("reduce", |run, list, passed| {
        reduce(run, list, passed, false)
    }),
    ("reduceRight", |run, list, passed| {
        reduce(run, list, passed, true)
    }),
    ("some", some),
];

/// Calls the function with an element, its index and the array.
fn call<'a>(
    run: &mut Evaluator<'_, 'a>,
    callback: &'a CallbackKind,
    item: Value<'a>,
    index: usize,
    list: &List<'a>,
) -> Fallible<Value<'a>> {
    run.call(
        callback,
        &[
            item,
            Value::Number(index as f64),
            Value::Array(list.clone()),
        ],
    )
}

fn map<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let callback = passed.callback()?;
    run.budget.build_many(list.len(), ITEM_SIZE)?;
    let mut items = Vec::with_capacity(list.len());
    for (index, item) in list.iter().enumerate() {
        items.push(call(run, callback, item, index, list)?);
    }
    run.list(items)
}

fn filter<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let callback = passed.callback()?;
    let mut items = Vec::new();
    for (index, item) in list.iter().enumerate() {
        if call(run, callback, item.clone(), index, list)?.is_truthy() {
            run.budget.build(ITEM_SIZE)?;
            items.push(item);
        }
    }
    run.list(items)
}

fn flat_map<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let callback = passed.callback()?;
    let mut items = Vec::new();
    for (index, item) in list.iter().enumerate() {
        match call(run, callback, item, index, list)? {
            Value::Array(inner) => array::flatten(run, &inner, 0.0, 0, &mut items)?,
            other => {
                run.budget.build(ITEM_SIZE)?;
                items.push(other);
            }
        }
    }
    run.list(items)
}

fn every<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    let callback = passed.callback()?;
    for (index, item) in list.iter().enumerate() {
        if !call(run, callback, item, index, list)?.is_truthy() {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn some<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    Ok(Value::Bool(search(run, list, passed, false)?.is_some()))
}

/// The first element the function accepts, or the last.
fn search<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
    backwards: bool,
) -> Fallible<Option<(usize, Value<'a>)>> {
    let callback = passed.callback()?;
    for step in 0..list.len() {
        let index = if backwards {
            list.len() - 1 - step
        } else {
            step
        };
        let item = list.get(index).unwrap_or(Value::Undefined);
        if call(run, callback, item.clone(), index, list)?.is_truthy() {
            return Ok(Some((index, item)));
        }
    }
    Ok(None)
}

fn index<'a>(found: Option<(usize, Value<'a>)>) -> Value<'a> {
    Value::Number(found.map_or(-1.0, |(index, _)| index as f64))
}

fn reduce<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &List<'a>,
    passed: &Passed<'a>,
    backwards: bool,
) -> Fallible<Value<'a>> {
    let callback = passed.callback()?;
    let mut total = passed.values.get(1).cloned();
    for step in 0..list.len() {
        let index = if backwards {
            list.len() - 1 - step
        } else {
            step
        };
        let item = list.get(index).unwrap_or(Value::Undefined);
        total = Some(match total {
            None => item,
            Some(total) => run.call(
                callback,
                &[
                    total,
                    item,
                    Value::Number(index as f64),
                    Value::Array(list.clone()),
                ],
            )?,
        });
    }
    total.ok_or_else(|| error("Reduce of empty array with no initial value"))
}
