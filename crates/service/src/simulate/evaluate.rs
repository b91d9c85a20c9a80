//! What the known actions do in a simulation: those without an effect outside are evaluated;
//! of the others, the output is the example that their schema has, or one made after it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};
use windlass_core::run::Failure;
use windlass_sim::script::Evaluated;

/// How deep an output is made up.
const NESTING: usize = 8;

/// What an action does; nothing if it is not known.
pub(super) fn evaluate(action: &str, attempt: u32, parameters: &str) -> Option<Evaluated> {
    if let Some(evaluated) = windlass_actions::evaluate(action, attempt, parameters) {
        let failed = |error: windlass_engine::ActionError| Failure {
            retriable: error.retriable,
            ..Failure::permanent(&error.code, error.message)
        };
        return Some(Evaluated {
            takes_ms: evaluated.takes_ms,
            result: evaluated.result.map(Into::into).map_err(failed),
        });
    }
    let output = outputs().get(action)?;
    Some(Evaluated {
        takes_ms: 0,
        result: Ok(Arc::clone(output)),
    })
}

/// What each action with an effect outside returns.
fn outputs() -> &'static BTreeMap<String, Arc<str>> {
    static OUTPUTS: OnceLock<BTreeMap<String, Arc<str>>> = OnceLock::new();
    OUTPUTS.get_or_init(|| {
        let actions = windlass_actions::registry().describe().into_iter();
        let output = actions.map(|action| {
            let schema = action.output.as_value();
            let output = sample(schema, schema, NESTING).to_string();
            (action.name, output.into())
        });
        output.collect()
    })
}

/// A value that fits a schema as the actions have them.
fn sample(schema: &Value, root: &Value, left: usize) -> Value {
    if let Some(example) = schema["examples"].get(0) {
        return example.clone();
    }
    if left == 0 {
        return Value::Null;
    }
    if let Some(target) = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#')) {
        let target = root.pointer(target).unwrap_or(&Value::Null);
        return sample(target, root, left - 1);
    }
    for key in ["const", "default"] {
        if let Some(value) = schema.get(key) {
            return value.clone();
        }
    }
    if let Some(value) = schema["enum"].get(0) {
        return value.clone();
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema[key].get(0) {
            return sample(first, root, left - 1);
        }
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    match kind {
        Some("object") => {
            let members = schema["properties"].as_object().into_iter().flatten();
            let members = members.map(|(key, it)| (key.clone(), sample(it, root, left - 1)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Some("array") => Value::Array(Vec::new()),
        Some("string") => Value::from(""),
        Some("integer" | "number") => Value::from(schema["minimum"].as_i64().unwrap_or(0)),
        Some("boolean") => Value::from(true),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_action_has_an_output_that_fits_its_schema() {
        for action in windlass_actions::registry().describe() {
            let output = outputs().get(&action.name).expect("an output");
            let schema = action.output.as_value().to_string();
            let checked = windlass_engine::check_payload(output, [&*schema]);
            assert_eq!(checked, Ok(()), "{}: {output}", action.name);
        }
    }
}
