//! Walks a checked tree and computes its value.
//!
//! Every node costs a step. Nothing here recurses deeper than the tree, whose depth the
//! checker has bounded.

mod callback;
mod property;

pub(crate) use callback::Passed;
pub(crate) use property::own_property;

use indexmap::IndexMap;

use crate::Document;
use crate::ast::{Binary, Call, Chunk, Element, Kind, Logical, Node, Property, Unary};
use crate::convert::{add, compare, loosely_equal, power, strictly_equal};
use crate::limits::{Budget, Price};
use crate::number::{to_int32, to_uint32};
use crate::problem::{Fallible, error};
use crate::text::{Text, TextBuilder};
use crate::value::{ENTRY_SIZE, ITEM_SIZE, List, Record, Value};

/// One evaluation: the inputs, the arrow parameters in force, and what is left of the limits.
pub(crate) struct Evaluator<'i, 'a> {
    inputs: &'i [Option<&'a Document>],
    /// One slot for each arrow parameter of the whole expression. An arrow is never entered
    /// again while it runs, so one slot is enough.
    locals: Vec<Value<'a>>,
    pub(crate) budget: &'i mut Budget,
}

impl<'i, 'a> Evaluator<'i, 'a> {
    pub(crate) fn new(
        inputs: &'i [Option<&'a Document>],
        locals: usize,
        budget: &'i mut Budget,
    ) -> Self {
        Self {
            inputs,
            locals: vec![Value::Undefined; locals],
            budget,
        }
    }

    /// Computes a node.
    pub(crate) fn value(&mut self, node: &'a Node) -> Fallible<Value<'a>> {
        self.budget.steps(1).map_err(|error| error.at(node.start))?;
        match &node.kind {
            Kind::Undefined => Ok(Value::Undefined),
            Kind::Null => Ok(Value::Null),
            Kind::Bool(value) => Ok(Value::Bool(*value)),
            Kind::Number(number) => Ok(Value::Number(*number)),
            Kind::String(literal) => Ok(Value::String(Text::literal(literal))),
            Kind::Input(slot) => Ok(self.input(*slot)),
            Kind::Local(slot) => Ok(self.locals.get(*slot).cloned().unwrap_or(Value::Undefined)),
            Kind::Access(access) => self.access(access),
            Kind::Binary(first, rest) => self.binary(first, rest),
            Kind::Logical(operator, operands) => self.logical(*operator, operands),
            Kind::Unary(operator, operand) => self.unary(*operator, operand),
            Kind::Conditional(parts) => {
                let [condition, then, otherwise] = &**parts;
                let taken = if self.value(condition)?.is_truthy() {
                    then
                } else {
                    otherwise
                };
                self.value(taken)
            }
            Kind::Power(operands) => self.power(operands),
            Kind::Template(chunks) => self.template(chunks).map_err(|error| error.at(node.start)),
            Kind::Array(elements) => self.array(elements).map_err(|error| error.at(node.start)),
            Kind::Object(properties) => self
                .object(properties)
                .map_err(|error| error.at(node.start)),
            Kind::Call(call) => self
                .call_function(call)
                .map_err(|error| error.at(node.start)),
            Kind::Name(name) => Err(error(format!("{name} is not defined")).at(node.start)),
        }
    }

    fn input(&self, slot: usize) -> Value<'a> {
        match self.inputs.get(slot) {
            Some(Some(document)) => Value::of(document.root()),
            _ => Value::Undefined,
        }
    }

    fn binary(&mut self, first: &'a Node, rest: &'a [(Binary, Node)]) -> Fallible<Value<'a>> {
        let mut left = self.value(first)?;
        for (operator, node) in rest {
            let right = self.value(node)?;
            left = apply(*operator, &left, &right, self.budget)
                .map_err(|error| error.at(node.start))?;
        }
        Ok(left)
    }

    fn power(&mut self, operands: &'a [Node]) -> Fallible<Value<'a>> {
        let mut numbers = Vec::with_capacity(operands.len());
        // Operands are stored last first, and evaluated in the order of the source.
        for node in operands.iter().rev() {
            let value = self.value(node)?;
            numbers.push(
                value
                    .to_number(self.budget)
                    .map_err(|error| error.at(node.start))?,
            );
        }
        let result = numbers
            .into_iter()
            .rev()
            .reduce(|exponent, base| power(base, exponent));
        Ok(Value::Number(result.unwrap_or(f64::NAN)))
    }

    fn logical(&mut self, operator: Logical, operands: &'a [Node]) -> Fallible<Value<'a>> {
        let mut value = Value::Undefined;
        for (index, operand) in operands.iter().enumerate() {
            let goes_on = match operator {
                Logical::And => value.is_truthy(),
                Logical::Or => !value.is_truthy(),
                Logical::Coalesce => value.is_nullish(),
            };
            if index > 0 && !goes_on {
                break;
            }
            value = self.value(operand)?;
        }
        Ok(value)
    }

    fn unary(&mut self, operator: Unary, operand: &'a Node) -> Fallible<Value<'a>> {
        let value = self.value(operand)?;
        let mut number = || {
            value
                .to_number(self.budget)
                .map_err(|error| error.at(operand.start))
        };
        Ok(match operator {
            Unary::Not => Value::Bool(!value.is_truthy()),
            Unary::TypeOf => Value::String(Text::Borrowed(value.type_name())),
            Unary::Plus => Value::Number(number()?),
            Unary::Minus => Value::Number(-number()?),
            Unary::BitNot => Value::Number(f64::from(!to_int32(number()?))),
        })
    }

    fn template(&mut self, chunks: &'a [Chunk]) -> Fallible<Value<'a>> {
        let mut text = TextBuilder::new();
        for chunk in chunks {
            let part = match chunk {
                Chunk::Text(literal) => Text::literal(literal),
                Chunk::Value(node) => self.value(node)?.to_text(self.budget)?,
            };
            text.push(&part, self.budget)?;
        }
        Ok(Value::String(text.finish()))
    }

    fn array(&mut self, elements: &'a [Element]) -> Fallible<Value<'a>> {
        self.budget.build_many(elements.len(), ITEM_SIZE)?;
        let items = self.elements(elements)?;
        self.list(items)
    }

    /// Elements or arguments. Spread ones are paid for here, because there may be any number.
    fn elements(&mut self, elements: &'a [Element]) -> Fallible<Vec<Value<'a>>> {
        let mut items = Vec::with_capacity(elements.len());
        for element in elements {
            let value = self.value(&element.node)?;
            if element.spread {
                let spread = self
                    .iterate(&value)
                    .map_err(|error| error.at(element.node.start))?;
                self.budget.build_many(spread.len(), ITEM_SIZE)?;
                items.extend(spread.iter());
            } else {
                items.push(value);
            }
        }
        Ok(items)
    }

    /// An array of elements that are already paid for.
    pub(crate) fn list(&mut self, items: Vec<Value<'a>>) -> Fallible<Value<'a>> {
        Ok(Value::Array(List::built(items, self.budget)?))
    }

    /// What iterating a value gives: elements of an array, characters of a string.
    pub(crate) fn iterate(&mut self, value: &Value<'a>) -> Fallible<List<'a>> {
        match value {
            Value::Array(list) => Ok(list.clone()),
            Value::String(text) => {
                self.budget.build_many(text.size(), ITEM_SIZE)?;
                let letters = text.characters().into_iter().map(Value::String);
                List::built(letters.collect(), self.budget)
            }
            other => Err(error(format!("{} is not iterable", describe(other)))),
        }
    }

    fn object(&mut self, properties: &'a [Property]) -> Fallible<Value<'a>> {
        let mut entries = IndexMap::with_capacity(properties.len());
        for property in properties {
            let (key, node) = match property {
                Property::Named(key, node) => (Text::literal(key), node),
                Property::Computed(key, node) => {
                    let key = self.value(key)?;
                    (key.to_text(self.budget)?, node)
                }
                Property::Spread(node) => {
                    let value = self.value(node)?;
                    self.copy_properties(&value, &mut entries)?;
                    continue;
                }
            };
            let value = self.value(node)?;
            self.insert(&mut entries, key, value)?;
        }
        Ok(Value::Object(Record::built(entries, self.budget)?))
    }

    /// Adds one property and pays for it.
    pub(crate) fn insert(
        &mut self,
        entries: &mut IndexMap<Text<'a>, Value<'a>>,
        key: Text<'a>,
        value: Value<'a>,
    ) -> Fallible<()> {
        self.budget.build(ENTRY_SIZE + key.size())?;
        self.budget.read_at(key.size(), Price::KEY)?;
        entries.insert(key, value);
        Ok(())
    }

    /// Copies a value's own properties, as spreading it into an object does.
    pub(crate) fn copy_properties(
        &mut self,
        value: &Value<'a>,
        entries: &mut IndexMap<Text<'a>, Value<'a>>,
    ) -> Fallible<()> {
        self.each_property(value, &mut |run, key, value| {
            run.insert(entries, key, value)
        })
    }

    /// Calls `take` with each of a value's own enumerable properties: of arrays and strings,
    /// their elements.
    pub(crate) fn each_property(
        &mut self,
        value: &Value<'a>,
        take: &mut dyn FnMut(&mut Self, Text<'a>, Value<'a>) -> Fallible<()>,
    ) -> Fallible<()> {
        let elements = match value {
            Value::Object(record) => {
                for (key, value) in record.entries(self.budget)? {
                    take(self, key, value)?;
                }
                return Ok(());
            }
            Value::Array(list) => list.clone(),
            Value::String(text) => self.code_units(text)?,
            _ => return Ok(()),
        };
        for (index, item) in elements.iter().enumerate() {
            let key = self.index_text(index)?;
            take(self, key, item)?;
        }
        Ok(())
    }

    /// An index as a key.
    pub(crate) fn index_text(&mut self, index: usize) -> Fallible<Text<'a>> {
        self.budget.steps(1)?;
        self.budget.hold(32)?;
        Ok(Text::built(ryu_js::Buffer::new().format(index as f64)))
    }

    /// A string's code units, each as a string.
    pub(crate) fn code_units(&mut self, text: &Text<'a>) -> Fallible<List<'a>> {
        self.budget.build_many(text.size(), ITEM_SIZE + 16)?;
        let units = text.single_units().into_iter().map(Value::String);
        List::built(units.collect(), self.budget)
    }

    fn call_function(&mut self, call: &'a Call) -> Fallible<Value<'a>> {
        let Some(function) = call.function else {
            return Err(error(format!("{} is not a function", call.name)));
        };
        let passed = self.pass(&call.arguments)?;
        (function.call)(self, &passed)
    }
}

/// An operator that takes both operands' values.
fn apply<'a>(
    operator: Binary,
    left: &Value<'a>,
    right: &Value<'a>,
    budget: &mut Budget,
) -> Fallible<Value<'a>> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let ordered = match operator {
        Binary::StrictEqual => return Ok(Value::Bool(strictly_equal(left, right, budget)?)),
        Binary::StrictNotEqual => return Ok(Value::Bool(!strictly_equal(left, right, budget)?)),
        Binary::Equal => return Ok(Value::Bool(loosely_equal(left, right, budget)?)),
        Binary::NotEqual => return Ok(Value::Bool(!loosely_equal(left, right, budget)?)),
        Binary::Add => return add(left, right, budget),
        Binary::In => return property::contains(left, right, budget),
        Binary::Less => matches!(compare(left, right, budget)?, Some(Less)),
        Binary::LessOrEqual => matches!(compare(left, right, budget)?, Some(Less | Equal)),
        Binary::Greater => matches!(compare(left, right, budget)?, Some(Greater)),
        Binary::GreaterOrEqual => matches!(compare(left, right, budget)?, Some(Greater | Equal)),
        _ => {
            let (left, right) = (left.to_number(budget)?, right.to_number(budget)?);
            if operator == Binary::Remainder {
                budget.steps(remainder_steps(left, right))?;
            }
            return Ok(Value::Number(arithmetic(operator, left, right)));
        }
    };
    Ok(Value::Bool(ordered))
}

/// A remainder is computed bit by bit over the difference of the operands' exponents.
fn remainder_steps(left: f64, right: f64) -> u64 {
    let exponent = |number: f64| (number.to_bits() >> 52) & 0x7FF;
    exponent(left).saturating_sub(exponent(right)) / 16
}

fn arithmetic(operator: Binary, left: f64, right: f64) -> f64 {
    let shift = to_uint32(right) & 31;
    match operator {
        Binary::Subtract => left - right,
        Binary::Multiply => left * right,
        Binary::Divide => left / right,
        Binary::Remainder => left % right,
        Binary::ShiftLeft => f64::from(to_int32(left) << shift),
        Binary::ShiftRight => f64::from(to_int32(left) >> shift),
        Binary::ShiftRightUnsigned => f64::from(to_uint32(left) >> shift),
        Binary::BitAnd => f64::from(to_int32(left) & to_int32(right)),
        Binary::BitXor => f64::from(to_int32(left) ^ to_int32(right)),
        Binary::BitOr => f64::from(to_int32(left) | to_int32(right)),
        // The other operators are no arithmetic and never reach this function.
        _ => f64::NAN,
    }
}

/// The description of a value in an error message.
pub(crate) fn describe(value: &Value<'_>) -> &'static str {
    match value {
        Value::Undefined => "undefined",
        Value::Null => "null",
        Value::Array(_) => "array",
        other => other.type_name(),
    }
}
