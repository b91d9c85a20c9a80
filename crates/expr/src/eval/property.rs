//! Reading properties and calling methods. There are no prototypes: a key that is computed
//! sees own data only, and a method exists only where it is called.

use super::{Evaluator, describe};
use crate::ast::{Access, Link, LinkKind, Literal, MethodCall};
use crate::functions::Methods;
use crate::limits::Budget;
use crate::problem::{Error, Fallible, error};
use crate::text::Text;
use crate::value::Value;

impl<'a> Evaluator<'_, 'a> {
    pub(super) fn access(&mut self, access: &'a Access) -> Fallible<Value<'a>> {
        let mut value = self.value(&access.base)?;
        for link in &access.links {
            if link.optional && value.is_nullish() {
                return Ok(Value::Undefined);
            }
            match self
                .follow(&value, link)
                .map_err(|error| error.at(link.start))?
            {
                Some(next) => value = next,
                None => return Ok(Value::Undefined),
            }
        }
        Ok(value)
    }

    /// One link; `None` ends the chain.
    fn follow(&mut self, value: &Value<'a>, link: &'a Link) -> Fallible<Option<Value<'a>>> {
        self.budget.steps(1)?;
        match &link.kind {
            LinkKind::Field(name) => self.field(value, name).map(Some),
            LinkKind::Index(node) => {
                let key = self.value(node)?;
                self.property(value, &key).map(Some)
            }
            LinkKind::Method(call) => self.call_method(value, call),
        }
    }

    /// A property whose name is written out.
    fn field(&mut self, value: &Value<'a>, name: &'a Literal) -> Fallible<Value<'a>> {
        // The common case first, without making a key.
        if let (Value::Object(record), Literal::Plain(_)) = (value, name) {
            let found = record.get(&Text::literal(name), self.budget)?;
            return Ok(found.unwrap_or(Value::Undefined));
        }
        let key = Text::literal(name);
        let found = own_property(value, &key, self.budget)?;
        if found.is_none()
            && let Some(name) = key.word()
            && Methods::named(name).is_some_and(|methods| methods.applies_to(value))
        {
            return Err(error(format!("{name} is a method; call it: `.{name}(…)`")));
        }
        Ok(found.unwrap_or(Value::Undefined))
    }

    /// A property whose key is computed.
    pub(super) fn property(&mut self, value: &Value<'a>, key: &Value<'a>) -> Fallible<Value<'a>> {
        if let (Value::Array(list), Some(position)) = (value, key.as_number()) {
            return Ok(list.get_number(position));
        }
        if value.is_nullish() {
            let key = key.to_text(self.budget)?;
            return Err(cannot_read(value, &key));
        }
        let key = key.to_text(self.budget)?;
        Ok(own_property(value, &key, self.budget)?.unwrap_or(Value::Undefined))
    }

    fn call_method(
        &mut self,
        value: &Value<'a>,
        call: &'a MethodCall,
    ) -> Fallible<Option<Value<'a>>> {
        let name = Text::Borrowed(&call.name);
        if value.is_nullish() {
            return Err(cannot_read(value, &name));
        }
        let shadowed = match value {
            Value::Object(record) => record.get(&name, self.budget)?,
            _ => None,
        };
        let nothing = shadowed.as_ref().is_none_or(Value::is_nullish);
        let methods = call
            .methods
            .filter(|methods| shadowed.is_none() && methods.applies_to(value));
        let Some(methods) = methods else {
            if call.optional_call && nothing {
                return Ok(None);
            }
            return Err(error(format!(
                "{}.{} is not a function",
                describe(value),
                call.name
            )));
        };
        let passed = self.pass(&call.arguments)?;
        let result = match value {
            Value::String(text) => methods.text.map(|method| method(self, text, &passed)),
            Value::Array(list) => methods.list.map(|method| method(self, list, &passed)),
            Value::Object(record) => methods.record.map(|method| method(self, record, &passed)),
            Value::Bool(_) => methods.scalar.map(|method| method(self, value, &passed)),
            other => match (methods.number, other.as_number()) {
                (Some(method), Some(number)) => Some(method(self, number, &passed)),
                _ => None,
            },
        };
        result.transpose()
    }
}

/// An own property; reading one of nothing is an error.
pub(crate) fn own_property<'a>(
    value: &Value<'a>,
    key: &Text<'a>,
    budget: &mut Budget,
) -> Fallible<Option<Value<'a>>> {
    match value {
        Value::Undefined | Value::Null => Err(cannot_read(value, key)),
        Value::Object(record) => record.get(key, budget),
        Value::Array(list) if key.is("length") => Ok(Some(Value::Number(list.len() as f64))),
        Value::Array(list) => Ok(key.array_index().and_then(|index| list.get(index as usize))),
        Value::String(text) if key.is("length") => {
            Ok(Some(Value::Number(text.length(budget)? as f64)))
        }
        Value::String(text) => {
            let Some(index) = key.array_index() else {
                return Ok(None);
            };
            let index = index as usize;
            if index >= text.length(budget)? {
                return Ok(None);
            }
            Ok(Some(Value::String(text.slice(index, index + 1, budget)?)))
        }
        Value::Bool(_) | Value::Number(_) | Value::Exact(_) => Ok(None),
    }
}

/// `key in value`.
pub(super) fn contains<'a>(
    key: &Value<'a>,
    value: &Value<'a>,
    budget: &mut Budget,
) -> Fallible<Value<'a>> {
    if !matches!(value, Value::Array(_) | Value::Object(_)) {
        let message = format!("Cannot use 'in' operator to search in {}", describe(value));
        return Err(error(message));
    }
    let key = key.to_text(budget)?;
    Ok(Value::Bool(own_property(value, &key, budget)?.is_some()))
}

fn cannot_read(value: &Value<'_>, key: &Text<'_>) -> Box<Error> {
    let shown = key.excerpt(60);
    error(format!(
        "Cannot read properties of {} (reading '{shown}')",
        describe(value)
    ))
}
