//! Values that come from outside, a trigger, a signal, a result given by hand: their
//! limits, and the schemas they must fit.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use windlass_core::definition::SchemaProblem;
use windlass_core::value::nesting;

use crate::canonical::{RepeatedKey, canonical};
use crate::limits::limits;
use crate::schema::{Refused, Schema, check_text};

/// A value larger than this is never checked in passing.
const PASSING_BYTES: usize = 64 * 1024;

/// Checks that are not quick go on at once in this number, so that they leave processors to
/// everything else.
static CHECKS: Semaphore = Semaphore::const_new(4);

/// How long a caller waits for its turn and the check together. What a check takes is bounded;
/// this is for a machine that is too busy.
const CHECK_TIME: Duration = Duration::from_secs(60);

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
    /// The schema expands to too much, or checking the value takes too much work.
    SchemaLimit(String),
    /// It could not be checked in time, because others are: it may be sent again.
    Busy,
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
            Self::SchemaLimit(reason) => write!(f, "its schema: {reason}"),
            Self::Busy => f.write_str("too many values are being checked; send it again later"),
        }
    }
}

impl std::error::Error for PayloadError {}

/// Checks a value against the limits, and against every one of the schemas. What that takes is
/// bounded; where no thread may be held up by it, [`check_payload_aside`] does the same.
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
        find(&*compiled(schema)?, &value, &mut problems)?;
    }
    verdict(problems)
}

/// As [`check_payload`], off the threads of the runtime where it is not quick.
///
/// # Errors
/// What does not fit, or the check did not end in its time.
pub async fn check_payload_aside(text: Arc<str>, schemas: Vec<String>) -> Result<(), PayloadError> {
    if schemas.is_empty() && text.len() <= PASSING_BYTES {
        return check_payload(&text, []);
    }
    let check = move || check_payload(&text, schemas.iter().map(String::as_str));
    aside(check).await
}

/// Does a check on a thread for such work, and waits for it no longer than it may take.
pub(crate) async fn aside<T: Send + 'static>(
    check: impl FnOnce() -> Result<T, PayloadError> + Send + 'static,
) -> Result<T, PayloadError> {
    let checking = async {
        let turn = CHECKS.acquire().await.ok()?;
        let check = move || {
            let _turn = turn;
            check()
        };
        tokio::task::spawn_blocking(check).await.ok()
    };
    match tokio::time::timeout(CHECK_TIME, checking).await {
        Ok(Some(checked)) => checked,
        Ok(None) => Err(PayloadError::SchemaLimit("the check broke off".to_owned())),
        Err(_) => Err(PayloadError::Busy),
    }
}

/// The schema of a text, ready for use.
pub(crate) fn compiled(schema: &str) -> Result<Arc<Schema>, PayloadError> {
    Schema::kept(schema, limits().schema).map_err(|problem| match problem {
        SchemaProblem::Invalid(reason) => PayloadError::SchemaInvalid(reason),
        SchemaProblem::Limit(reason) => PayloadError::SchemaLimit(reason),
    })
}

/// As [`check_payload`], with a schema that is compiled; gives nothing back if it is not quick.
pub(crate) fn check_in_passing(
    text: &str,
    schema: Option<&Schema>,
) -> Option<Result<(), PayloadError>> {
    if text.len() > PASSING_BYTES {
        return None;
    }
    let value = match read(text) {
        Ok(value) => value,
        Err(error) => return Some(Err(error)),
    };
    let Some(schema) = schema else {
        return Some(Ok(()));
    };
    let mut problems = Vec::new();
    let check = || {
        find(schema, &value, &mut problems)?;
        verdict(problems)
    };
    schema.is_quick(&value).then(check)
}

/// As [`check_payload`], with a schema that is compiled.
pub(crate) fn check_compiled(text: &str, schema: Option<&Schema>) -> Result<(), PayloadError> {
    let value = read(text)?;
    let mut problems = Vec::new();
    if let Some(schema) = schema {
        find(schema, &value, &mut problems)?;
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
    schema: &Schema,
    value: &serde_json::Value,
    problems: &mut Vec<(String, String)>,
) -> Result<(), PayloadError> {
    match schema.check(value) {
        Ok(()) => Ok(()),
        Err(Refused::Invalid(found)) => {
            problems.extend(found);
            Ok(())
        }
        Err(Refused::Limit(reason)) => Err(PayloadError::SchemaLimit(reason)),
    }
}

fn verdict(mut problems: Vec<(String, String)>) -> Result<(), PayloadError> {
    problems.dedup();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(PayloadError::Invalid(problems))
    }
}

/// Checks that a text is a JSON Schema that can be used; says what compiling it costs, of
/// [`SCHEMA_COST`](windlass_core::definition::SCHEMA_COST).
///
/// # Errors
/// Why it cannot.
pub fn check_schema(schema: &str) -> Result<u64, SchemaProblem> {
    check_text(schema, limits().schema)
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
