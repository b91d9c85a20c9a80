//! Values that come from outside, a trigger, a signal, a result given by hand: their
//! limits, and the schemas they must fit.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_core::definition::SchemaProblem;
use windlass_core::value::nesting;
use windlass_expr::check_syntax;

use crate::blocking::blocking;
use crate::canonical::{RepeatedKey, canonical};
use crate::checks::{self, CHECK_BYTES};
use crate::limits::limits;
use crate::schema::{Refused, Schema, Tree, check_text};
use crate::turns::Tenant;

/// A value larger than this is never checked in passing.
const PASSING_BYTES: usize = 64 * 1024;

/// Bytes of memory that reading a text takes at most, for each of its bytes.
const READING_FACTOR: usize = 6;

/// How long a caller waits for its turn and the check together. What a check takes is bounded;
/// this is for a machine that is too busy.
const CHECK_TIME: Duration = Duration::from_secs(60);

/// Why a value is refused. Its JSON travels between processes that share a store, and is not
/// kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
/// bounded; where no thread may be held up by it, [`check_payload_off_thread`] does the same.
///
/// # Errors
/// What does not fit, all of it.
pub fn check_payload<'a>(
    text: &str,
    schemas: impl IntoIterator<Item = &'a str>,
) -> Result<(), PayloadError> {
    read(text)?;
    let schemas: Vec<&str> = schemas.into_iter().collect();
    if schemas.is_empty() {
        return Ok(());
    }
    tree(text)?;
    check_all(&schemas, &build(text)?)
}

/// As [`check_payload`], off the threads of the runtime where it is not quick, in a turn of the
/// tenant.
///
/// # Errors
/// What does not fit, or the check did not end in its time.
pub async fn check_payload_off_thread(
    tenant: Option<&str>,
    text: Arc<str>,
    schemas: Vec<String>,
) -> Result<(), PayloadError> {
    if schemas.is_empty() && text.len() <= PASSING_BYTES {
        return read(&text);
    }
    let has_schema = !schemas.is_empty();
    let check = has_schema.then_some(move |value: &Value| check_all(&schemas, value));
    let checked = off_thread(tenant.map(Into::into), text, |text| text, check).await;
    checked.map(drop)
}

/// Checks a text on a thread for such work, and gives its owner back. Waits no longer than a
/// check may take.
pub(crate) async fn off_thread<T: Send + 'static>(
    tenant: Tenant,
    subject: T,
    text: fn(&T) -> &str,
    check: Option<impl FnOnce(&Value) -> Result<(), PayloadError> + Send + 'static>,
) -> Result<T, PayloadError> {
    let checking = async {
        let reading = text(&subject).len().saturating_mul(READING_FACTOR);
        let has_schema = check.is_some();
        let read = move || {
            read(text(&subject))?;
            let tree = has_schema.then(|| tree(text(&subject))).transpose()?;
            Ok((subject, tree))
        };
        let (subject, tree) = turn(tenant.clone(), reading, read).await?;
        let (Some(tree), Some(check)) = (tree, check) else {
            return Ok(subject);
        };
        let check = move || {
            check(&build(text(&subject))?)?;
            Ok(subject)
        };
        turn(tenant, tree, check).await
    };
    let checked = tokio::time::timeout(CHECK_TIME, checking).await;
    checked.unwrap_or(Err(PayloadError::Busy))
}

/// Does a part of a check once there is room for the memory that it takes.
async fn turn<T: Send + 'static>(
    tenant: Tenant,
    bytes: usize,
    work: impl FnOnce() -> Result<T, PayloadError> + Send + 'static,
) -> Result<T, PayloadError> {
    let broken = || PayloadError::SchemaLimit("the check broke off".to_owned());
    let permit = checks::enter(tenant, bytes.min(CHECK_BYTES)).await;
    let permit = permit.ok_or_else(broken)?;
    let work = move || {
        let _permit = permit;
        work()
    };
    let done = blocking(work).await;
    done.unwrap_or_else(|_| Err(broken()))
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
    let value = match (read(text), schema) {
        (Err(error), _) => return Some(Err(error)),
        (Ok(()), None) => return Some(Ok(())),
        (Ok(()), Some(schema)) => build(text).map(|value| (value, schema)),
    };
    match value {
        Ok((value, schema)) => schema.is_quick(&value).then(|| check_one(schema, &value)),
        Err(error) => Some(Err(error)),
    }
}

/// Checks a value against one schema.
pub(crate) fn check_one(schema: &Schema, value: &Value) -> Result<(), PayloadError> {
    let mut problems = Vec::new();
    find(schema, value, &mut problems)?;
    verdict(problems)
}

fn check_all(schemas: &[impl AsRef<str>], value: &Value) -> Result<(), PayloadError> {
    let mut problems = Vec::new();
    for schema in schemas {
        find(&*compiled(schema.as_ref())?, value, &mut problems)?;
    }
    verdict(problems)
}

/// Checks that a text is a value, within the limits. Nothing is built of it.
fn read(text: &str) -> Result<(), PayloadError> {
    if text.len() > limits().payload_bytes {
        return Err(PayloadError::TooLarge(text.len()));
    }
    let deepest = limits().values.nesting;
    if nesting(text) > deepest {
        return Err(PayloadError::TooDeep(deepest));
    }
    // Read in full: what an expression could not read must not be accepted.
    check_syntax(text).map_err(PayloadError::NotJson)?;
    canonical(text).map_err(PayloadError::RepeatsKey)?;
    Ok(())
}

/// The bytes of memory that a text takes as the tree that a schema is checked on.
fn tree(text: &str) -> Result<usize, PayloadError> {
    tree_within(text, CHECK_BYTES)
}

fn tree_within(text: &str, most: usize) -> Result<usize, PayloadError> {
    let Tree { values, bytes } = Tree::of(text);
    match usize::try_from(bytes) {
        Ok(bytes) if bytes <= most => Ok(bytes),
        _ => Err(PayloadError::SchemaLimit(format!(
            "checking the value takes {bytes} bytes of memory for its {values} parts; it may take \
             {most}; send a smaller value, or one with fewer parts"
        ))),
    }
}

/// The tree of a text that was read and is not too large.
fn build(text: &str) -> Result<Value, PayloadError> {
    serde_json::from_str(text).map_err(|error| PayloadError::NotJson(error.to_string()))
}

fn find(
    schema: &Schema,
    value: &Value,
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

    /// What is repeated to make a text whose tree is much larger than itself.
    fn hostile(bytes: usize) -> String {
        format!("[{}0]", "[0],".repeat(bytes / 4 - 1))
    }

    #[test]
    fn a_value_whose_tree_is_too_large_is_refused_where_there_is_a_schema() {
        let text = hostile(10 * 1024 * 1024);
        assert_eq!(check_payload(&text, []), Ok(()));
        let error = check_payload(&text, ["{}"]).expect_err("refused");
        let PayloadError::SchemaLimit(reason) = &error else {
            panic!("{error}");
        };
        for said in ["5242880 parts", "268435456", "smaller value"] {
            assert!(reason.contains(said), "{reason}");
        }
        // At the limit and one byte below.
        let text = hostile(4000);
        let bytes = tree_within(&text, CHECK_BYTES).expect("it is small");
        assert_eq!(tree_within(&text, bytes), Ok(bytes));
        assert!(tree_within(&text, bytes - 1).is_err());
    }

    #[tokio::test]
    async fn values_are_checked_off_thread_as_they_are_at_once() {
        let schema = || vec![r#"{"type":"array"}"#.to_owned()];
        let text: Arc<str> = hostile(200_000).into();
        let checked = check_payload_off_thread(Some("a"), Arc::clone(&text), schema()).await;
        assert_eq!(checked, Ok(()));
        assert_eq!(
            check_payload_off_thread(None, text, Vec::new()).await,
            Ok(())
        );
        let wrong = format!("{{\"a\":\"{}\"}}", "x".repeat(PASSING_BYTES));
        let error = check_payload_off_thread(None, wrong.as_str().into(), schema()).await;
        assert_eq!(error, check_payload(&wrong, [r#"{"type":"array"}"#]));
        assert!(matches!(error, Err(PayloadError::Invalid(_))));
        let cut = wrong[..wrong.len() - 1].into();
        let error = check_payload_off_thread(None, cut, Vec::new()).await;
        assert!(matches!(error, Err(PayloadError::NotJson(_))));
        let large =
            check_payload_off_thread(None, hostile(10 * 1024 * 1024).into(), schema()).await;
        assert!(matches!(large, Err(PayloadError::SchemaLimit(_))));
    }
}
