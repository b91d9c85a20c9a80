//! The values expressions compute with.
//!
//! Inputs are borrowed and never copied; only what an expression builds is owned. Values never
//! change, so sharing them is invisible. There are no function values: functions exist only as
//! arguments of methods.

use std::rc::Rc;

use indexmap::IndexMap;
use serde_json::Value as Json;

use crate::Error;
use crate::document::{DocumentPart, Shape};
use crate::json::{self, Account};
use crate::limits::{Budget, Price, check_depth};
use crate::problem::Fallible;
use crate::text::{Lookup, Text};
use crate::work;

/// The result of an expression, borrowed from its inputs where possible.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// JavaScript's `undefined`.
    Undefined,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(f64),
    /// An integer of an input that no JavaScript number holds exactly. It keeps its digits as
    /// long as it is only passed on and is rounded as soon as it is computed with.
    Exact(&'a str),
    /// A string.
    String(Text<'a>),
    /// An array.
    Array(List<'a>),
    /// An object.
    Object(Record<'a>),
}

/// An array's elements.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// Part of an input.
    Borrowed(DocumentPart<'a>),
    /// Built by the expression.
    Built(Rc<BuiltList<'a>>),
}

/// Elements the expression built.
#[derive(Debug)]
pub struct BuiltList<'a> {
    items: Vec<Value<'a>>,
    depth: usize,
}

/// An object's properties.
#[derive(Clone, Debug)]
pub enum Record<'a> {
    /// Part of an input.
    Borrowed(DocumentPart<'a>),
    /// Built by the expression.
    Built(Rc<BuiltRecord<'a>>),
}

/// Properties the expression built, in JavaScript's order.
#[derive(Debug)]
pub struct BuiltRecord<'a> {
    entries: IndexMap<Text<'a>, Value<'a>>,
    depth: usize,
}

impl Value<'_> {
    /// JavaScript's truthiness.
    pub fn is_truthy(&self) -> bool {
        match self {
            Self::Undefined | Self::Null => false,
            Self::Bool(value) => *value,
            Self::Number(number) => *number != 0.0 && !number.is_nan(),
            Self::String(text) => !text.is_empty(),
            Self::Exact(_) | Self::Array(_) | Self::Object(_) => true,
        }
    }

    /// Whether this is `undefined`.
    pub fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined)
    }

    /// JavaScript's `String(value)`, with U+FFFD for lone surrogates.
    pub fn to_display_string(&self) -> Result<String, Error> {
        let mut budget = Budget::for_output(self.depth() > 0);
        let text = self.to_text(&mut budget).map_err(|error| *error.at(0))?;
        Ok(text.lossy_unpaid().into_owned())
    }

    /// Appends the value as JSON: what `JSON.stringify` gives, with U+FFFD for lone surrogates.
    /// What comes unchanged from an input keeps the digits of its integers and the order of
    /// its keys. `undefined` has no JSON and is an error.
    pub fn write_json(&self, out: &mut String) -> Result<(), Error> {
        let mut budget = Budget::for_output(self.depth() > 0);
        json::write_output(self, out, Account::Written, &mut budget).map_err(|error| *error.at(0))
    }

    /// The value as plain JSON, as [`write_json`](Self::write_json) would write it.
    pub fn to_json(&self) -> Result<Json, Error> {
        let mut budget = Budget::for_output(self.depth() > 0);
        json::to_json(self, &mut budget).map_err(|error| *error.at(0))
    }
}

impl<'a> Value<'a> {
    /// Wraps a part of an input; nothing is copied.
    #[inline]
    pub(crate) fn of(part: DocumentPart<'a>) -> Self {
        match part.shape() {
            Shape::Null => Self::Null,
            Shape::Bool(value) => Self::Bool(value),
            Shape::Number(number) => Self::Number(number),
            Shape::Exact(digits) => Self::Exact(digits),
            Shape::Text(text) => Self::String(Text::Borrowed(text)),
            Shape::Array => Self::Array(List::Borrowed(part)),
            Shape::Object => Self::Object(Record::Borrowed(part)),
        }
    }

    /// A string that is paid for.
    pub(crate) fn text(text: &str) -> Self {
        Self::String(Text::built(text))
    }

    /// The number this is, if it is one.
    #[inline]
    pub(crate) fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Exact(digits) => Some(digits.parse().unwrap_or(f64::NAN)),
            _ => None,
        }
    }

    pub(crate) fn is_nullish(&self) -> bool {
        matches!(self, Self::Undefined | Self::Null)
    }

    /// How deep built arrays and objects sit in one another; borrowed ones count as nothing.
    fn depth(&self) -> usize {
        match self {
            Self::Array(List::Built(list)) => list.depth,
            Self::Object(Record::Built(record)) => record.depth,
            _ => 0,
        }
    }
}

/// The bytes one element of a built array costs.
pub(crate) const ITEM_SIZE: usize = size_of::<Value<'static>>();

/// The bytes one property of a built object costs beside its key.
pub(crate) const ENTRY_SIZE: usize = 2 * ITEM_SIZE + 16;

/// The bytes that a key which spells an index costs while it is put in order.
const SORTED_SIZE: usize = 32;

/// The bytes a built array costs beside its elements.
const LIST_SIZE: usize = 64;

/// The bytes a built object costs beside its properties.
const RECORD_SIZE: usize = 192;

impl<'a> List<'a> {
    /// A new array. The caller has paid for its elements.
    pub(crate) fn built(items: Vec<Value<'a>>, budget: &mut Budget) -> Fallible<Self> {
        budget.hold(LIST_SIZE)?;
        work::built(items.len() * ITEM_SIZE + LIST_SIZE);
        let depth = 1 + items.iter().map(Value::depth).max().unwrap_or(0);
        check_depth(depth)?;
        Ok(Self::Built(Rc::new(BuiltList { items, depth })))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Borrowed(part) => part.len(),
            Self::Built(list) => list.items.len(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::Borrowed(part) => part.item(index).map(Value::of),
            Self::Built(list) => list.items.get(index).cloned(),
        }
    }

    /// An element by a position that may be no index at all.
    #[inline]
    pub(crate) fn get_number(&self, position: f64) -> Value<'a> {
        let index = position as usize;
        if index as f64 != position {
            return Value::Undefined;
        }
        self.get(index).unwrap_or(Value::Undefined)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Value<'a>> + ExactSizeIterator {
        self.range(0, self.len())
    }

    /// The elements from `start` up to `end`; those before it cost nothing.
    pub(crate) fn range(
        &self,
        start: usize,
        end: usize,
    ) -> impl DoubleEndedIterator<Item = Value<'a>> + ExactSizeIterator {
        (start..end).map(|index| self.get(index).unwrap_or(Value::Undefined))
    }

    pub(crate) fn is_same(&self, other: &List<'_>) -> bool {
        match (self, other) {
            (Self::Borrowed(one), List::Borrowed(two)) => one.is_same(*two),
            (Self::Built(one), List::Built(two)) => {
                Rc::as_ptr(one).addr() == Rc::as_ptr(two).addr()
            }
            _ => false,
        }
    }
}

/// An object's properties one by one, in JavaScript's order.
type Properties<'r, 'a> = Box<dyn Iterator<Item = (Text<'a>, Value<'a>)> + 'r>;

impl<'a> Record<'a> {
    /// A new object. The caller has paid for its entries.
    pub(crate) fn built(
        mut entries: IndexMap<Text<'a>, Value<'a>>,
        budget: &mut Budget,
    ) -> Fallible<Self> {
        budget.hold(RECORD_SIZE)?;
        work::built(entries.len() * ENTRY_SIZE + RECORD_SIZE);
        let depth = 1 + entries.values().map(Value::depth).max().unwrap_or(0);
        check_depth(depth)?;
        if entries.len() > 1 && entries.keys().any(|key| key.array_index().is_some()) {
            budget.steps(sorting_steps(entries.len()))?;
            // Stable, so other keys stay in the order they came in.
            entries.sort_by(|one, _, two, _| index_order(one.array_index(), two.array_index()));
        }
        Ok(Self::Built(Rc::new(BuiltRecord { entries, depth })))
    }

    pub(crate) fn get(&self, key: &Text<'_>, budget: &mut Budget) -> Fallible<Option<Value<'a>>> {
        budget.read_at(key.size(), Price::KEY)?;
        Ok(match self {
            Self::Borrowed(part) => {
                work::read(key.size());
                key.unpaid().and_then(|key| part.find(key)).map(Value::of)
            }
            Self::Built(record) => record.entries.get(&Lookup(key)).cloned(),
        })
    }

    /// Whether a key is an array index; going over the keys is paid for.
    pub(crate) fn has_indices(&self, budget: &mut Budget) -> Fallible<bool> {
        match self {
            Self::Borrowed(part) => {
                budget.steps(part.len() as u64 / 4)?;
                Ok(part
                    .entries()
                    .any(|(key, _)| Text::Borrowed(key).array_index().is_some()))
            }
            // They come first.
            Self::Built(record) => Ok(record
                .entries
                .first()
                .is_some_and(|(key, _)| key.array_index().is_some())),
        }
    }

    /// The properties in JavaScript's order: array indices first, ascending. Going over them
    /// is paid for by a step each.
    pub(crate) fn entries(&self, budget: &mut Budget) -> Fallible<Properties<'_, 'a>> {
        budget.steps(self.len() as u64)?;
        let Self::Borrowed(part) = *self else {
            return Ok(self.stored());
        };
        if !self.has_indices(budget)? {
            return Ok(self.stored());
        }
        let index_of = |key: &str| Text::Borrowed(key).array_index();
        let indexed = || {
            part.entries()
                .filter(move |(key, _)| index_of(key).is_some())
        };
        let count = indexed().count();
        budget.steps(sorting_steps(count))?;
        budget.build_many(count, SORTED_SIZE)?;
        let mut sorted = Vec::with_capacity(count);
        sorted.extend(indexed().map(|(key, value)| (index_of(key), key, value)));
        sorted.sort_by_key(|(index, ..)| *index);
        let indexed = sorted.into_iter().map(|(_, key, value)| (key, value));
        let others = part
            .entries()
            .filter(move |(key, _)| index_of(key).is_none());
        Ok(Box::new(indexed.chain(others).map(|(key, value)| {
            (Text::Borrowed(key), Value::of(value))
        })))
    }

    /// The properties in the order they are stored in.
    pub(crate) fn stored(&self) -> Properties<'_, 'a> {
        match self {
            Self::Borrowed(part) => Box::new(
                part.entries()
                    .map(|(key, value)| (Text::Borrowed(key), Value::of(value))),
            ),
            Self::Built(record) => Box::new(
                record
                    .entries
                    .iter()
                    .map(|(key, value)| (key.clone(), value.clone())),
            ),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Borrowed(part) => part.len(),
            Self::Built(record) => record.entries.len(),
        }
    }

    pub(crate) fn is_same(&self, other: &Record<'_>) -> bool {
        match (self, other) {
            (Self::Borrowed(one), Record::Borrowed(two)) => one.is_same(*two),
            (Self::Built(one), Record::Built(two)) => {
                Rc::as_ptr(one).addr() == Rc::as_ptr(two).addr()
            }
            _ => false,
        }
    }
}

/// What it costs to sort so many keys that spell numbers.
fn sorting_steps(count: usize) -> u64 {
    count as u64 * u64::from(count.max(1).ilog2()) / 4
}

fn index_order(one: Option<u32>, two: Option<u32>) -> std::cmp::Ordering {
    match (one, two) {
        (Some(one), Some(two)) => one.cmp(&two),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => std::cmp::Ordering::Equal,
    }
}
