//! `JSON.stringify` and `JSON.parse`, with what may be given to them besides the value: a function
//! that replaces each value, or a list of the keys to keep.

use indexmap::{IndexMap, IndexSet};

use super::Function;
use crate::ast::CallbackKind;
use crate::eval::{Evaluator, Passed};
use crate::json;
use crate::limits::{Price, check_depth};
use crate::number;
use crate::problem::Fallible;
use crate::text::Text;
use crate::value::{ENTRY_SIZE, ITEM_SIZE, Record, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "JSON.stringify",
        call: stringify,
        callback: Some(1),
    },
    Function {
        name: "JSON.parse",
        call: parse,
        callback: Some(1),
    },
];

fn stringify<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    let mut value = passed.get(0).clone();
    if let Some(replacer) = passed.any_callback() {
        value = replaced(run, replacer, Text::Borrowed(""), value, 0)?;
    }
    if value.is_undefined() {
        return Ok(Value::Undefined);
    }
    let keys = kept_keys(run, passed.get(1))?;
    let indent = indent(run, passed.get(2))?;
    let text = json::stringify(&value, keys.as_ref(), &indent, run.budget)?;
    Ok(Value::text(&text))
}

/// The keys that a list of texts and numbers names, each once, in its order.
fn kept_keys<'a>(
    run: &mut Evaluator<'_, 'a>,
    list: &Value<'a>,
) -> Fallible<Option<IndexSet<Text<'a>>>> {
    let Value::Array(list) = list else {
        return Ok(None);
    };
    let mut keys = IndexSet::new();
    for item in list.iter() {
        run.budget.steps(1)?;
        if !matches!(item, Value::String(_)) && item.as_number().is_none() {
            continue;
        }
        let key = item.to_text(run.budget)?;
        run.budget.read_at(key.size(), Price::KEY)?;
        run.budget.build(ENTRY_SIZE)?;
        keys.insert(key);
    }
    Ok(Some(keys))
}

fn indent<'a>(run: &mut Evaluator<'_, 'a>, wanted: &Value<'a>) -> Fallible<String> {
    Ok(match wanted {
        Value::String(text) => {
            let end = text.length(run.budget)?.min(10);
            text.slice(0, end, run.budget)?.lossy_unpaid().into_owned()
        }
        other => {
            let count = other
                .as_number()
                .map_or(0.0, |number| number::to_integer(number).clamp(0.0, 10.0));
            " ".repeat(count as usize)
        }
    })
}

/// What a replacer makes of a value, and then of everything in it.
fn replaced<'a>(
    run: &mut Evaluator<'_, 'a>,
    replacer: &'a CallbackKind,
    key: Text<'a>,
    value: Value<'a>,
    depth: usize,
) -> Fallible<Value<'a>> {
    check_depth(depth)?;
    match run.call(replacer, &[Value::String(key), value])? {
        Value::Array(list) => {
            run.budget.build_many(list.len(), ITEM_SIZE)?;
            let mut items = Vec::with_capacity(list.len());
            for (index, item) in list.iter().enumerate() {
                let key = run.index_text(index)?;
                items.push(replaced(run, replacer, key, item, depth + 1)?);
            }
            run.list(items)
        }
        Value::Object(record) => {
            let mut entries = IndexMap::new();
            for (key, value) in record.entries(run.budget)? {
                let value = replaced(run, replacer, key.clone(), value, depth + 1)?;
                run.insert(&mut entries, key, value)?;
            }
            Ok(Value::Object(Record::built(entries, run.budget)?))
        }
        other => Ok(other),
    }
}

fn parse<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    let text = passed.get(0).to_text(run.budget)?;
    let value = json::parse(&text.lossy(Price::READ, run.budget)?, run.budget)?;
    match passed.any_callback() {
        Some(reviver) => revived(run, reviver, Text::Borrowed(""), value),
        None => Ok(value),
    }
}

/// What a reviver makes of a value, after everything in it; `undefined` leaves a key out.
fn revived<'a>(
    run: &mut Evaluator<'_, 'a>,
    reviver: &'a CallbackKind,
    key: Text<'a>,
    value: Value<'a>,
) -> Fallible<Value<'a>> {
    let value = match value {
        Value::Array(list) => {
            run.budget.build_many(list.len(), ITEM_SIZE)?;
            let mut items = Vec::with_capacity(list.len());
            for (index, item) in list.iter().enumerate() {
                let key = run.index_text(index)?;
                items.push(revived(run, reviver, key, item)?);
            }
            run.list(items)?
        }
        Value::Object(record) => {
            let mut entries = IndexMap::new();
            for (key, value) in record.entries(run.budget)? {
                let value = revived(run, reviver, key.clone(), value)?;
                if !value.is_undefined() {
                    run.insert(&mut entries, key, value)?;
                }
            }
            Value::Object(Record::built(entries, run.budget)?)
        }
        other => other,
    };
    run.call(reviver, &[Value::String(key), value])
}
