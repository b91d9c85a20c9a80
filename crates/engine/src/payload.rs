//! Values that come from outside, a trigger, a signal, a result given by hand: their
//! limits, and the schemas they must fit.

use std::fmt;

use windlass_core::value::nesting;

use crate::canonical::{RepeatedKey, canonical};
use crate::limits::limits;

/// How many problems with a value are named.
const NAMED: usize = 100;

/// Why a value is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadError {
    /// It is larger than allowed; carries its size.
    TooLarge(usize),
    /// It is nested deeper than this.
    TooDeep(usize),
    /// It is not JSON.
    NotJson(String),
    /// An object in it has a key twice.
    RepeatsKey(RepeatedKey),
    /// It does not fit; each problem with its place.
    Invalid(Vec<(String, String)>),
    /// The schema that it should fit is not usable.
    SchemaInvalid(String),
}

impl PayloadError {
    /// What is wrong with each part, as far as there are parts.
    pub fn places(&self) -> Vec<(String, String)> {
        match self {
            Self::Invalid(problems) => problems.clone(),
            Self::RepeatsKey(repeated) => vec![(repeated.pointer.clone(), self.to_string())],
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |pointer: &str| match pointer {
            "" => "/".to_owned(),
            pointer => pointer.to_owned(),
        };
        match self {
            Self::TooLarge(size) => {
                let most = limits().payload_bytes;
                write!(f, "it has {size} bytes; it may have {most}")
            }
            Self::TooDeep(deepest) => write!(f, "it is nested deeper than {deepest}"),
            Self::NotJson(reason) => write!(f, "it is not JSON: {reason}"),
            Self::RepeatsKey(RepeatedKey { pointer, key }) => {
                write!(f, "it has the key '{key}' twice, at {}", place(pointer))
            }
            Self::Invalid(problems) => {
                f.write_str("it does not fit")?;
                problems.iter().try_for_each(|(pointer, message)| {
                    write!(f, "\n  at {}: {message}", place(pointer))
                })
            }
            Self::SchemaInvalid(reason) => {
                write!(f, "its schema is not a usable JSON Schema: {reason}")
            }
        }
    }
}

impl std::error::Error for PayloadError {}

/// Checks a value against the limits, and against every one of the schemas.
///
/// # Errors
/// What does not fit, all of it.
pub fn check_payload<'a>(
    text: &str,
    schemas: impl IntoIterator<Item = &'a str>,
) -> Result<(), PayloadError> {
    let value = read(text)?;
    let mut problems = Vec::new();
    for schema in schemas {
        let validator = validator(schema).map_err(PayloadError::SchemaInvalid)?;
        find(&validator, &value, &mut problems);
    }
    verdict(problems)
}

/// A schema that is compiled once and used often.
pub(crate) struct Schema(jsonschema::Validator);

impl Schema {
    /// Compiles a schema, or says why it cannot be used.
    pub(crate) fn compile(schema: &str) -> Result<Self, String> {
        validator(schema).map(Self)
    }
}

/// As [`check_payload`], with a schema that is compiled.
pub(crate) fn check_compiled(text: &str, schema: Option<&Schema>) -> Result<(), PayloadError> {
    let value = read(text)?;
    let mut problems = Vec::new();
    if let Some(Schema(validator)) = schema {
        find(validator, &value, &mut problems);
    }
    verdict(problems)
}

/// Reads a value, within the limits.
fn read(text: &str) -> Result<serde_json::Value, PayloadError> {
    if text.len() > limits().payload_bytes {
        return Err(PayloadError::TooLarge(text.len()));
    }
    let deepest = limits().values.nesting;
    if nesting(text) > deepest {
        return Err(PayloadError::TooDeep(deepest));
    }
    // Parsed in full: what an expression could not read must not be accepted.
    let value =
        serde_json::from_str(text).map_err(|error| PayloadError::NotJson(error.to_string()))?;
    canonical(text).map_err(PayloadError::RepeatsKey)?;
    Ok(value)
}

fn find(
    validator: &jsonschema::Validator,
    value: &serde_json::Value,
    problems: &mut Vec<(String, String)>,
) {
    let errors = validator.iter_errors(value).take(NAMED);
    problems.extend(errors.map(|error| (error.instance_path().to_string(), error.to_string())));
}

fn verdict(mut problems: Vec<(String, String)>) -> Result<(), PayloadError> {
    problems.dedup();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(PayloadError::Invalid(problems))
    }
}

/// Checks that a text is a JSON Schema that can be used.
///
/// # Errors
/// Why it cannot.
pub fn check_schema(schema: &str) -> Result<(), String> {
    validator(schema).map(drop)
}

fn validator(schema: &str) -> Result<jsonschema::Validator, String> {
    let schema: serde_json::Value =
        serde_json::from_str(schema).map_err(|error| error.to_string())?;
    jsonschema::validator_for(&schema).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_must_fit_every_schema() {
        let number = r#"{"properties":{"n":{"type":"number"}}}"#;
        let required = r#"{"required":["n","m"]}"#;
        assert_eq!(
            check_payload(r#"{"n":1,"m":2}"#, [number, required]),
            Ok(())
        );
        let error = check_payload(r#"{"n":"x"}"#, [number, required]).expect_err("refused");
        let places = error.places();
        assert_eq!(places.len(), 2, "{places:?}");
        assert_eq!(places[0].0, "/n");
    }

    #[test]
    fn what_nobody_could_read_is_refused() {
        let repeats = check_payload(r#"{"a":{"b":1,"b":2}}"#, []).expect_err("refused");
        assert_eq!(repeats.places()[0].0, "/a");
        assert!(matches!(
            check_payload("{", []),
            Err(PayloadError::NotJson(_))
        ));
        let deep = format!("{}{}", "[".repeat(70), "]".repeat(70));
        assert!(matches!(
            check_payload(&deep, []),
            Err(PayloadError::TooDeep(64))
        ));
        let large = format!("\"{}\"", "x".repeat(limits().payload_bytes));
        assert!(matches!(
            check_payload(&large, []),
            Err(PayloadError::TooLarge(_))
        ));
    }
}
