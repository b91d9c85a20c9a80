//! Literal parameters of a definition against the schemas of actions, before anything runs.
//!
//! A value with a template in it has no type yet, so only what surrounds it is checked.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;
use windlass_core::definition::{ParameterCheck, ParameterProblem};

use super::{BUDGET, NAMED, REPORT_BUDGET, Schema, shortened};
use crate::action::Registry;
use crate::limits::limits;

/// The schemas of the parameters that actions take.
#[derive(Debug, Default)]
pub struct ActionSchemas {
    actions: BTreeMap<Box<str>, ActionSchema>,
}

#[derive(Debug)]
struct ActionSchema {
    text: Arc<str>,
    /// Compiled on first use; nothing where it cannot be.
    compiled: OnceLock<Option<CompiledSchema>>,
}

struct CompiledSchema {
    schema: Arc<Schema>,
    document: Value,
}

impl std::fmt::Debug for CompiledSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompiledSchema").finish_non_exhaustive()
    }
}

impl ActionSchemas {
    /// The schemas of all actions of a registry.
    pub fn of(registry: &Registry) -> Self {
        let mut schemas = Self::default();
        for action in registry.describe() {
            let text = action.parameters.as_value().to_string();
            schemas.insert(&action.name, text.into());
        }
        schemas
    }

    /// Adds the schema of an action, in the place of one that is there.
    pub fn insert(&mut self, action: &str, text: Arc<str>) {
        let compiled = OnceLock::new();
        self.actions
            .insert(action.into(), ActionSchema { text, compiled });
    }
}

impl ParameterCheck for ActionSchemas {
    fn problems(&self, action: &str, parameters: &str) -> Vec<ParameterProblem> {
        let Some(known) = self.actions.get(action) else {
            return Vec::new();
        };
        let compiled = known.compiled.get_or_init(|| {
            Some(CompiledSchema {
                schema: Schema::kept(&known.text, limits().schema).ok()?,
                document: serde_json::from_str(&known.text).ok()?,
            })
        });
        match (compiled, serde_json::from_str(parameters)) {
            (Some(compiled), Ok(value)) => compiled.problems(action, &value),
            _ => Vec::new(),
        }
    }
}

impl CompiledSchema {
    fn problems(&self, action: &str, value: &Value) -> Vec<ParameterProblem> {
        let Some(work) = self.schema.ordered.work(value, BUDGET) else {
            return Vec::new();
        };
        let validator = &self.schema.validator;
        if work.reporting > REPORT_BUDGET || validator.is_valid(value) {
            return Vec::new();
        }
        let mut problems = Vec::new();
        for error in validator.iter_errors(value).take(NAMED) {
            self.report(action, value, &error, &mut problems);
        }
        problems
    }

    fn report(
        &self,
        action: &str,
        value: &Value,
        error: &ValidationError<'_>,
        problems: &mut Vec<ParameterProblem>,
    ) {
        let pointer = error.instance_path().to_string();
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let known = self.known_keys(error);
                for key in unexpected {
                    let escaped = key.replace('~', "~0").replace('/', "~1");
                    problems.push(ParameterProblem {
                        message: format!("{action} has no parameter '{}'", shortened(key)),
                        pointer: format!("{pointer}/{escaped}"),
                        unknown_key: Some(known.clone()),
                    });
                }
            }
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                problems.push(ParameterProblem {
                    message: format!("{action} needs the parameter '{name}'"),
                    pointer,
                    unknown_key: None,
                });
            }
            _ if value.pointer(&pointer).is_some_and(has_template) => {}
            ValidationErrorKind::AnyOf { context }
            | ValidationErrorKind::OneOfNotValid { context } => match deepest(context, &pointer) {
                Some(deeper) => self.report(action, value, deeper, problems),
                None => problems.push(unfit(pointer, "it has none of the forms it may have")),
            },
            ValidationErrorKind::Type { kind } => {
                let message = wrong_type(&pointer, kind, error.instance());
                problems.push(unfit(pointer, &message));
            }
            _ => problems.push(unfit(pointer, &shortened(error))),
        }
    }

    /// The keys of the object that refused one.
    fn known_keys(&self, error: &ValidationError<'_>) -> Vec<String> {
        let path = error.schema_path().to_string();
        let mut place = &self.document;
        for step in path.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            if let Some(properties) = place.get("properties")
                && (step == "additionalProperties" || step == "unevaluatedProperties")
            {
                let keys = properties.as_object().into_iter().flatten();
                return keys.map(|(key, _)| key.clone()).collect();
            }
            let next = match place {
                Value::Array(list) => step.parse().ok().and_then(|at: usize| list.get(at)),
                _ => place.get(&step),
            };
            let Some(next) = next else { break };
            place = match next.as_str() {
                // A reference stands for what it leads to.
                Some(target) if step == "$ref" => {
                    let target = target.strip_prefix('#').unwrap_or_default();
                    self.document.pointer(target).unwrap_or(next)
                }
                _ => next,
            };
        }
        Vec::new()
    }
}

/// What a value should be, without the null that stands for "not given".
fn wrong_type(pointer: &str, kind: &TypeKind, found: &Value) -> String {
    let types: Vec<&str> = match kind {
        TypeKind::Single(only) => vec![only.as_str()],
        TypeKind::Multiple(types) => types.iter().map(|it| it.as_str()).collect(),
    };
    let words = types.into_iter().filter_map(|name| match name {
        "null" => None,
        "boolean" => Some("true or false"),
        "integer" => Some("an integer"),
        "number" => Some("a number"),
        "string" => Some("a text"),
        "array" => Some("a list"),
        _ => Some("an object"),
    });
    let words = words.collect::<Vec<_>>().join(" or ");
    let name = match pointer.rsplit('/').next() {
        Some(name) if !name.is_empty() => format!("'{name}'"),
        _ => "the value".to_owned(),
    };
    format!("{name} must be {words}, not {}", shortened(found))
}

fn unfit(pointer: String, message: &str) -> ParameterProblem {
    ParameterProblem {
        message: message.to_owned(),
        pointer,
        unknown_key: None,
    }
}

/// The problem of the form that fits best: one inside the value, and not of the value itself.
fn deepest<'e>(
    context: &'e [Vec<ValidationError<'static>>],
    pointer: &str,
) -> Option<&'e ValidationError<'static>> {
    let inside = |error: &&ValidationError<'_>| {
        let is_type = matches!(error.kind(), ValidationErrorKind::Type { .. });
        error.instance_path().as_str().len() > pointer.len() || !is_type
    };
    context.iter().flatten().find(inside)
}

/// Whether a value is, or holds, a template.
fn has_template(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{"),
        Value::Array(list) => list.iter().any(has_template),
        Value::Object(map) => map.values().any(has_template),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r##"{"type":"object","additionalProperties":false,"required":["url"],
        "properties":{"url":{"type":"string"},"timeoutMs":{"type":["integer","null"]},
          "retry":{"anyOf":[{"$ref":"#/$defs/Retry"},{"type":"null"}]}},
        "$defs":{"Retry":{"type":"object","additionalProperties":false,
          "properties":{"times":{"type":"integer"}}}}}"##;

    fn check(parameters: &str, expected: &[(&str, &str)]) {
        let mut schemas = ActionSchemas::default();
        schemas.insert("call", SCHEMA.into());
        let found = schemas.problems("call", parameters);
        let found: Vec<_> = found
            .iter()
            .map(|problem| (&*problem.pointer, &*problem.message))
            .collect();
        assert_eq!(found, expected, "{parameters}");
    }

    #[test]
    fn literals_are_checked_and_templates_are_not() {
        check(r#"{"url":"http://a","timeoutMs":5}"#, &[]);
        check(r#"{"url":"http://a","timeoutMs":"{{ trigger.t }}"}"#, &[]);
        check(r#""{{ trigger }}""#, &[]);
        check("{}", &[("", "call needs the parameter 'url'")]);
        check(
            r#"{"url":"a","timeoutMs":"soon"}"#,
            &[(
                "/timeoutMs",
                r#"'timeoutMs' must be an integer, not "soon""#,
            )],
        );
        check(
            r#"{"urll":"{{ trigger.u }}","url":"a"}"#,
            &[("/urll", "call has no parameter 'urll'")],
        );
        check(
            r#"{"url":"a","retry":{"time":1}}"#,
            &[("/retry/time", "call has no parameter 'time'")],
        );
        check(r#"{"url":"a","retry":{"times":"{{ vars.n }}"}}"#, &[]);
    }

    #[test]
    fn an_unknown_key_names_those_that_there_are() {
        let mut schemas = ActionSchemas::default();
        schemas.insert("call", SCHEMA.into());
        let keys = |parameters| {
            let found = schemas.problems("call", parameters);
            found[0].unknown_key.clone().unwrap_or_default()
        };
        assert_eq!(keys(r#"{"url":"a","b":1}"#), ["url", "timeoutMs", "retry"]);
        assert_eq!(keys(r#"{"url":"a","retry":{"time":1}}"#), ["times"]);
        assert!(schemas.problems("other", r#"{"b":1}"#).is_empty());
    }
}
