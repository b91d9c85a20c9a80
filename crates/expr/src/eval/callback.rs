//! Calling arrow functions: passing arguments, binding parameters.

use indexmap::IndexMap;

use super::{Evaluator, describe};
use crate::ast::{Arguments, Arrow, CallbackKind, Pattern, PatternKey, Target};
use crate::problem::{Fallible, error};
use crate::text::Text;
use crate::value::{ITEM_SIZE, List, Record, Value};

/// What a method or function is called with.
pub(crate) struct Passed<'a> {
    pub(crate) values: Vec<Value<'a>>,
    callback: Option<&'a CallbackKind>,
}

impl<'a> Passed<'a> {
    /// An argument; `undefined` when there is none.
    pub(crate) fn get(&self, index: usize) -> &Value<'a> {
        const UNDEFINED: &Value<'static> = &Value::Undefined;
        self.values.get(index).unwrap_or(UNDEFINED)
    }

    /// The function that a method requires.
    pub(crate) fn callback(&self) -> Fallible<&'a CallbackKind> {
        self.callback
            .ok_or_else(|| error(format!("{} is not a function", describe(self.get(0)))))
    }

    /// The optional function of a method; any other value in its place is an error.
    pub(crate) fn optional_callback(&self, position: usize) -> Fallible<Option<&'a CallbackKind>> {
        if self.callback.is_none() && !self.get(position).is_undefined() {
            return Err(error(format!(
                "{} is not a function",
                describe(self.get(position))
            )));
        }
        Ok(self.callback)
    }

    /// The function, if one was given.
    pub(crate) fn any_callback(&self) -> Option<&'a CallbackKind> {
        self.callback
    }
}

impl<'a> Evaluator<'_, 'a> {
    /// Evaluates arguments.
    pub(super) fn pass(&mut self, arguments: &'a Arguments) -> Fallible<Passed<'a>> {
        let values = self.elements(&arguments.values)?;
        Ok(Passed {
            values,
            callback: arguments.callback.as_ref().map(|callback| &callback.kind),
        })
    }

    /// Calls a function that a method was given.
    pub(crate) fn call(
        &mut self,
        callback: &'a CallbackKind,
        values: &[Value<'a>],
    ) -> Fallible<Value<'a>> {
        self.budget.steps(1)?;
        match callback {
            CallbackKind::Arrow(arrow) => self.call_arrow(arrow, values),
            CallbackKind::Function(function) => (function.call)(
                self,
                &Passed {
                    values: values.to_vec(),
                    callback: None,
                },
            ),
        }
    }

    fn call_arrow(&mut self, arrow: &'a Arrow, values: &[Value<'a>]) -> Fallible<Value<'a>> {
        for (index, parameter) in arrow.parameters.iter().enumerate() {
            let value = values.get(index).cloned().unwrap_or(Value::Undefined);
            self.bind_target(parameter, value)?;
        }
        if let Some(rest) = &arrow.rest {
            let values = values.get(arrow.parameters.len()..).unwrap_or_default();
            self.budget.build_many(values.len(), ITEM_SIZE)?;
            let rest_values = self.list(values.to_vec())?;
            self.bind(rest, rest_values)?;
        }
        self.value(&arrow.body)
    }

    fn bind_target(&mut self, target: &'a Target, value: Value<'a>) -> Fallible<()> {
        let value = match &target.default {
            Some(default) if value.is_undefined() => self.value(default)?,
            _ => value,
        };
        self.bind(&target.pattern, value)
    }

    fn bind(&mut self, pattern: &'a Pattern, value: Value<'a>) -> Fallible<()> {
        match pattern {
            Pattern::Name { slot, .. } => {
                if let Some(local) = self.locals.get_mut(*slot) {
                    *local = value;
                }
                Ok(())
            }
            Pattern::Object { properties, rest } => {
                self.bind_object(properties, rest.as_deref(), &value)
            }
            Pattern::Array { elements, rest } => self.bind_array(elements, rest.as_deref(), &value),
        }
    }

    fn bind_object(
        &mut self,
        properties: &'a [(PatternKey, Target)],
        rest: Option<&'a Pattern>,
        value: &Value<'a>,
    ) -> Fallible<()> {
        if value.is_nullish() {
            return Err(error(format!(
                "Cannot destructure {} as it is empty",
                describe(value)
            )));
        }
        let mut taken = Vec::new();
        for (key, target) in properties {
            self.budget.steps(1)?;
            let key = match key {
                PatternKey::Named(name) => Text::literal(name),
                PatternKey::Computed(node) => {
                    let key = self.value(node)?;
                    key.to_text(self.budget)?
                }
            };
            let property = self.property(value, &Value::String(key.clone()))?;
            taken.push(key);
            self.bind_target(target, property)?;
        }
        let Some(rest) = rest else { return Ok(()) };
        let mut entries = IndexMap::new();
        self.each_property(value, &mut |run, key, value| {
            run.budget.steps(taken.len() as u64)?;
            for other in &taken {
                if key.equals(other, run.budget)? {
                    return Ok(());
                }
            }
            run.insert(&mut entries, key, value)
        })?;
        let record = Record::built(entries, self.budget)?;
        self.bind(rest, Value::Object(record))
    }

    fn bind_array(
        &mut self,
        elements: &'a [Option<Target>],
        rest: Option<&'a Pattern>,
        value: &Value<'a>,
    ) -> Fallible<()> {
        let list = self.iterate(value)?;
        for (index, element) in elements.iter().enumerate() {
            self.budget.steps(1)?;
            if let Some(target) = element {
                self.bind_target(target, list.get(index).unwrap_or(Value::Undefined))?;
            }
        }
        let Some(rest) = rest else { return Ok(()) };
        let tail = list.len().saturating_sub(elements.len());
        self.budget.build_many(tail, ITEM_SIZE)?;
        let start = elements.len().min(list.len());
        let tail = list.range(start, list.len()).collect();
        let tail = List::built(tail, self.budget)?;
        self.bind(rest, Value::Array(tail))
    }
}
