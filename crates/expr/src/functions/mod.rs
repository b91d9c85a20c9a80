//! The functions and methods of the language, one table a receiver.
//!
//! A function takes the evaluator and what it was called with; it pays for its work before it
//! does it. Looking a name up happens once, when an expression is compiled.

mod array;
pub(crate) mod calendar;
mod date;
mod global;
mod iterate;
mod json;
mod math;
mod number;
mod object;
mod sort;
mod string;
mod uri;

use crate::eval::{Evaluator, Passed};
use crate::problem::Fallible;
use crate::text::Text;
use crate::value::{List, Record, Value};

pub(crate) type Native = for<'a> fn(&mut Evaluator<'_, 'a>, &Passed<'a>) -> Fallible<Value<'a>>;
pub(crate) type TextMethod =
    for<'a> fn(&mut Evaluator<'_, 'a>, &Text<'a>, &Passed<'a>) -> Fallible<Value<'a>>;
pub(crate) type ListMethod =
    for<'a> fn(&mut Evaluator<'_, 'a>, &List<'a>, &Passed<'a>) -> Fallible<Value<'a>>;
pub(crate) type NumberMethod =
    for<'a> fn(&mut Evaluator<'_, 'a>, f64, &Passed<'a>) -> Fallible<Value<'a>>;
pub(crate) type RecordMethod =
    for<'a> fn(&mut Evaluator<'_, 'a>, &Record<'a>, &Passed<'a>) -> Fallible<Value<'a>>;
pub(crate) type ScalarMethod =
    for<'a> fn(&mut Evaluator<'_, 'a>, &Value<'a>, &Passed<'a>) -> Fallible<Value<'a>>;

/// A function called by its name, such as `Number` or `Math.max`.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) call: Native,
    /// Which argument may be a function.
    pub(crate) callback: Option<usize>,
}

const fn function(name: &'static str, call: Native) -> Function {
    Function {
        name,
        call,
        callback: None,
    }
}

const FUNCTIONS: &[&[Function]] = &[
    global::FUNCTIONS,
    math::FUNCTIONS,
    object::FUNCTIONS,
    json::FUNCTIONS,
    uri::FUNCTIONS,
    date::FUNCTIONS,
];

impl Function {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        FUNCTIONS
            .iter()
            .copied()
            .flatten()
            .find(|function| function.name == name)
    }
}

/// What a method's name means for each kind of receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Methods {
    pub(crate) text: Option<TextMethod>,
    pub(crate) list: Option<ListMethod>,
    pub(crate) number: Option<NumberMethod>,
    pub(crate) record: Option<RecordMethod>,
    pub(crate) scalar: Option<ScalarMethod>,
}

impl Methods {
    /// The methods of this name, if any kind of value has one.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let methods = Self {
            text: lookup(string::METHODS, name),
            list: lookup(array::METHODS, name).or_else(|| lookup(iterate::METHODS, name)),
            number: lookup(number::METHODS, name),
            record: lookup(object::METHODS, name),
            scalar: lookup(global::METHODS, name),
        };
        let exists = methods.text.is_some()
            || methods.list.is_some()
            || methods.number.is_some()
            || methods.record.is_some()
            || methods.scalar.is_some();
        exists.then_some(methods)
    }

    pub(crate) fn applies_to(&self, value: &Value<'_>) -> bool {
        match value {
            Value::String(_) => self.text.is_some(),
            Value::Array(_) => self.list.is_some(),
            Value::Number(_) | Value::Exact(_) => self.number.is_some(),
            Value::Object(_) => self.record.is_some(),
            Value::Bool(_) => self.scalar.is_some(),
            Value::Undefined | Value::Null => false,
        }
    }
}

fn lookup<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, method)| *method)
}

/// Which argument of a method may be a function.
pub(crate) fn callback_position(name: &str) -> Option<usize> {
    match name {
        "replace" | "replaceAll" => Some(1),
        "sort" | "toSorted" => Some(0),
        _ => lookup(iterate::METHODS, name).map(|_| 0),
    }
}

/// Constants such as `Math.PI`.
pub(crate) fn constant(name: &str) -> Option<f64> {
    lookup(math::CONSTANTS, name)
}

/// Whether functions live under this name.
pub(crate) fn is_namespace(name: &str) -> bool {
    matches!(
        name,
        "Math" | "Object" | "Array" | "JSON" | "Number" | "String" | "date"
    )
}

/// Names that stand at the root of an expression, for suggestions.
pub(crate) fn global_names() -> impl Iterator<Item = &'static str> {
    let plain = function_names().filter(|name| !name.contains('.'));
    plain.chain(["Math", "Object", "Array", "JSON", "date"])
}

pub(crate) fn function_names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS
        .iter()
        .copied()
        .flatten()
        .map(|function| function.name)
}

pub(crate) fn method_names() -> impl Iterator<Item = &'static str> {
    let lists = array::METHODS
        .iter()
        .chain(iterate::METHODS)
        .map(|(name, _)| *name);
    let others = number::METHODS.iter().map(|(name, _)| *name);
    string::METHODS
        .iter()
        .map(|(name, _)| *name)
        .chain(lists)
        .chain(others)
}

/// The methods of each kind of receiver: the kind, a small receiver, and the names.
pub(crate) fn methods_by_receiver() -> [(&'static str, &'static str, Vec<&'static str>); 5] {
    fn names<T>(tables: &[&[(&'static str, T)]]) -> Vec<&'static str> {
        let methods = tables.iter().copied().flatten();
        methods.map(|(name, _)| *name).collect()
    }
    [
        ("String", "'xyz'", names(&[string::METHODS])),
        (
            "Array",
            "[1, 2]",
            names(&[array::METHODS, iterate::METHODS]),
        ),
        ("Number", "(1.5)", names(&[number::METHODS])),
        ("Object", "({ a: 1 })", names(&[object::METHODS])),
        ("Boolean", "true", names(&[global::METHODS])),
    ]
}

/// What to use instead of a part of JavaScript that is left out.
pub(crate) fn left_out(name: &str) -> Option<&'static str> {
    Some(match name {
        "push" | "unshift" => "values cannot be changed; use `concat` or `[...items, more]`",
        "pop" | "shift" => "values cannot be changed; use `at` and `slice`",
        "splice" | "fill" | "copyWithin" => {
            "values cannot be changed; use `toSpliced`, `map` or `slice`"
        }
        "forEach" => "it gives nothing; use `map`, `filter` or `reduce`",
        "match" | "matchAll" | "search" | "test" | "exec" => {
            "there are no regular expressions; use `includes`, `indexOf` or `split`"
        }
        "keys" | "values" | "entries" => {
            "iterators are left out; use `map` with an index, or `Object.entries`"
        }
        "call" | "apply" | "bind" | "then" | "catch" => "functions are no values",
        "Math.random" => "an expression gives the same each time; use `uuid`",
        "Date" | "Date.now" | "getTime" | "toISOString" => "use `now` and `date.*`",
        "Symbol" | "BigInt" | "Map" | "Set" | "RegExp" | "Promise" | "Proxy" | "Reflect" => {
            "only JSON values exist here"
        }
        "require" | "fetch" | "setTimeout" | "console" => "an expression only computes",
        _ => return None,
    })
}
