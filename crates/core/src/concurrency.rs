//! How many runs of a workflow may go at once (`concurrency`, semantics §1): the key is
//! evaluated once, when a run is requested, and kept with the request. This module does not
//! know which runs wait.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};
use windlass_expr::{
    Document, DocumentError, DocumentReader, Error, ExpressionLimits, Meter, Reference, Template,
};

use crate::definition::{self, JsonText, scope};
use crate::event::ConcurrencyKey;
use crate::id::RunId;
use crate::run::read_object;
use crate::value::scalar;

/// The longest key, in bytes: it stands in the run's row and in an index.
pub const MAX_KEY_BYTES: usize = 512;

/// A compiled `concurrency`.
#[derive(Clone, Debug)]
pub struct ConcurrencyRule {
    key: Option<Template>,
    limit: u32,
}

/// What is known of a run before it starts.
#[derive(Clone, Copy, Debug)]
pub struct StartFacts<'a> {
    /// The run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: &'a str,
    /// The workflow's version.
    pub version: u32,
    /// The trigger, as JSON text.
    pub trigger: &'a str,
    /// The variables at the start.
    pub vars: &'a BTreeMap<Box<str>, &'a JsonText>,
}

/// Why a key cannot be used, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyError {
    /// Whether evaluating it takes more than the limits allow.
    pub is_limit: bool,
    /// The sentence.
    pub message: String,
}

impl KeyError {
    fn new(message: impl Into<String>) -> Self {
        Self {
            is_limit: false,
            message: message.into(),
        }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for KeyError {}

impl ConcurrencyRule {
    /// Compiles what a validated definition says.
    ///
    /// # Errors
    /// The key does not compile: the sentence says why.
    pub fn compile(written: &definition::Concurrency) -> Result<Self, String> {
        let compile = |key: &JsonText| {
            let scope = scope::concurrency_key();
            Template::compile(key.get(), &scope, &ExpressionLimits::CHECKED)
                .map_err(|problems| crate::plan::first_message(&problems))
        };
        Ok(Self {
            key: written.key.as_ref().map(compile).transpose()?,
            limit: written.limit,
        })
    }

    /// Whether the key is the same for every run.
    pub fn is_constant(&self) -> bool {
        self.key
            .as_ref()
            .is_none_or(|key| key.references().is_empty())
    }

    /// The gate that a run must pass. Without a key all runs of the workflow share one.
    ///
    /// # Errors
    /// The key cannot be evaluated, or is neither text nor a number nor a truth value.
    pub fn gate(
        &self,
        asked: &StartFacts<'_>,
        limits: &ExpressionLimits,
        meter: &mut Meter,
    ) -> Result<ConcurrencyKey, KeyError> {
        let key = match &self.key {
            Some(template) => key(template, asked, limits, meter)?,
            None => Box::default(),
        };
        Ok(ConcurrencyKey {
            key,
            limit: self.limit,
        })
    }
}

fn key(
    template: &Template,
    asked: &StartFacts<'_>,
    limits: &ExpressionLimits,
    meter: &mut Meter,
) -> Result<Box<str>, KeyError> {
    let text = rendered(template, asked, limits, meter).map_err(|error| KeyError {
        is_limit: error.code == "EXPRESSION_LIMIT",
        message: error.message,
    })?;
    let key = match scalar(&text) {
        Some(Value::String(text)) => text,
        Some(Value::Number(_) | Value::Bool(_)) => text,
        Some(Value::Null) => return Err(KeyError::new("it is null")),
        _ => {
            let message = "it is neither text nor a number nor a truth value";
            return Err(KeyError::new(message));
        }
    };
    if key.len() > MAX_KEY_BYTES {
        let message = format!("it has {} bytes; it may have {MAX_KEY_BYTES}", key.len());
        return Err(KeyError::new(message));
    }
    Ok(key.into())
}

fn rendered(
    template: &Template,
    asked: &StartFacts<'_>,
    limits: &ExpressionLimits,
    meter: &mut Meter,
) -> Result<String, Error> {
    let interrupt = meter.interrupt.clone();
    let mut reader = DocumentReader::new(interrupt.as_ref());
    let references = template.references().iter();
    let inputs = references.map(|reference| input(reference, asked, &mut reader));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let slots: Vec<_> = inputs.iter().map(Option::as_ref).collect();
    template.render_metered(&slots, limits, meter)
}

fn input(
    reference: &Reference,
    asked: &StartFacts<'_>,
    reader: &mut DocumentReader<'_>,
) -> Result<Option<Document>, Error> {
    let Reference::Value(name) = reference else {
        return Ok(None);
    };
    match &**name {
        "trigger" | "$" => match reader.read(asked.trigger.into()) {
            Err(DocumentError::Syntax(_)) => Ok(None),
            read => Ok(Some(read?)),
        },
        "vars" => {
            let vars = asked.vars.iter();
            read_object(reader, vars.map(|(name, value)| (&**name, value.get()))).map(Some)
        }
        "run" => Ok(Some(Document::from(json!({
            "id": asked.run.to_string(),
            "workflowId": asked.workflow,
            "version": asked.version,
            "attempt": 1,
        })))),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(concurrency: &str, trigger: &str) -> Result<ConcurrencyKey, KeyError> {
        let written: definition::Concurrency =
            serde_json::from_str(concurrency).expect("a concurrency");
        let region: JsonText = serde_json::from_str("\"eu\"").expect("a value");
        let vars = BTreeMap::from([("region".into(), &region)]);
        let compiled = ConcurrencyRule::compile(&written).expect("compiles");
        let asked = StartFacts {
            run: RunId::from_bytes([7; 16]),
            workflow: "pay",
            version: 3,
            trigger,
            vars: &vars,
        };
        compiled.gate(&asked, &ExpressionLimits::default(), &mut Meter::default())
    }

    fn key_of(key: &str, trigger: &str) -> Result<Box<str>, KeyError> {
        let concurrency = format!(r#"{{"key":{key},"limit":2}}"#);
        gate(&concurrency, trigger).map(|gate| gate.key)
    }

    #[test]
    fn a_key_is_a_scalar_of_what_is_known_before() {
        let trigger = r#"{"customer":"c-1","number":17,"flag":true}"#;
        assert_eq!(
            key_of(r#""{{ trigger.customer }}""#, trigger),
            Ok("c-1".into())
        );
        assert_eq!(key_of(r#""{{ $.number }}""#, trigger), Ok("17".into()));
        assert_eq!(
            key_of(r#""{{ trigger.flag }}""#, trigger),
            Ok("true".into())
        );
        let mixed = r#""{{ vars.region }}/{{ trigger.customer }}/{{ run.workflowId }}""#;
        assert_eq!(key_of(mixed, trigger), Ok("eu/c-1/pay".into()));
        assert_eq!(key_of(r#""always""#, trigger), Ok("always".into()));
    }

    #[test]
    fn without_a_key_there_is_one_gate() {
        let gate = gate(r#"{"limit":4}"#, "{}").expect("a gate");
        assert_eq!((&*gate.key, gate.limit), ("", 4));
    }

    #[test]
    fn what_is_no_scalar_is_refused() {
        for (trigger, reason) in [
            ("{}", "undefined"),
            (r#"{"k":null}"#, "null"),
            (r#"{"k":["a"]}"#, "neither"),
            (r#"{"k":{}}"#, "neither"),
        ] {
            let error = key_of(r#""{{ trigger.k }}""#, trigger).expect_err("refused");
            assert!(error.message.contains(reason), "{error}");
        }
        let long = format!(r#"{{"k":"{}"}}"#, "x".repeat(MAX_KEY_BYTES + 1));
        let error = key_of(r#""{{ trigger.k }}""#, &long).expect_err("refused");
        assert!(error.message.contains("513 bytes"), "{error}");
    }
}
