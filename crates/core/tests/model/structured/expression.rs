//! The few expressions that generated definitions use, each with its plain meaning:
//! JSON literals, `'text'`, names, `context.data['id']`, `a < b`, `a === b`, and
//! `trigger.missing`, which errs because the trigger is null.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What expressions see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    /// `item`, `index`, `iteration`, `last`, `output` and the like.
    pub(crate) names: BTreeMap<String, Value>,
    /// Every node in sight; `None` for one that has no value.
    pub(crate) data: BTreeMap<String, Option<Value>>,
}

impl Sight {
    pub(crate) fn with(&self, name: &str, value: Value) -> Self {
        let mut sight = self.clone();
        sight.names.insert(name.to_owned(), value);
        sight
    }
}

/// An expression erred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Erred;

/// The value of an expression; `None` is undefined.
pub(crate) fn evaluate(source: &str, sight: &Sight) -> Result<Option<Value>, Erred> {
    let source = source.trim();
    if let Some((left, right)) = source.split_once(" === ") {
        let same = evaluate(left, sight)? == evaluate(right, sight)?;
        return Ok(Some(json!(same)));
    }
    if let Some((left, right)) = source.split_once(" < ") {
        let number = |side| Ok(evaluate(side, sight)?.and_then(|value| value.as_f64()));
        let below = match (number(left)?, number(right)?) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        };
        return Ok(Some(json!(below)));
    }
    if source == "trigger.missing" {
        return Err(Erred);
    }
    if let Ok(literal) = serde_json::from_str(source) {
        return Ok(Some(literal));
    }
    let quoted = |text: &str| Some(text.strip_prefix('\'')?.strip_suffix('\'')?.to_owned());
    if let Some(text) = quoted(source) {
        return Ok(Some(json!(text)));
    }
    let key = source.strip_prefix("context.data[");
    if let Some(id) = key.and_then(|rest| quoted(rest.strip_suffix(']')?)) {
        let node = sight.data.get(&id);
        return Ok(node.expect("a node in sight").clone());
    }
    Ok(sight.names.get(source).cloned())
}

/// A condition: JavaScript's truthiness, and what errs counts as false.
pub(crate) fn holds(source: &str, sight: &Sight) -> bool {
    match evaluate(source, sight) {
        Ok(Some(Value::Bool(value))) => value,
        Ok(Some(Value::Number(number))) => number.as_f64() != Some(0.0),
        Ok(Some(Value::String(text))) => !text.is_empty(),
        Ok(Some(Value::Null) | None) | Err(Erred) => false,
        Ok(Some(Value::Array(_) | Value::Object(_))) => true,
    }
}

/// A template in which every text is either `{{ expression }}` alone or plain.
pub(crate) fn render(template: &Value, sight: &Sight) -> Result<Value, Erred> {
    match template {
        Value::String(text) => {
            let source = text
                .strip_prefix("{{")
                .and_then(|text| text.strip_suffix("}}"));
            match source {
                Some(source) => evaluate(source, sight)?.ok_or(Erred),
                None => Ok(template.clone()),
            }
        }
        Value::Array(list) => list.iter().map(|part| render(part, sight)).collect(),
        Value::Object(object) => {
            let parts = object
                .iter()
                .map(|(key, part)| Ok((key.clone(), render(part, sight)?)));
            Ok(Value::Object(parts.collect::<Result<_, Erred>>()?))
        }
        plain => Ok(plain.clone()),
    }
}
