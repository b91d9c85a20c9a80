//! Rendering an attempt's parameters on the worker, where alone secrets exist. What
//! is recorded is rendered a second time with the secrets replaced.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use windlass_core::run::{Dispatch, Failure, Source};
use windlass_core::value::{Payload, ValueRef};
use windlass_expr::Limits;

use crate::options::SecretSource;
use crate::values::ValueReader;

/// What stands where a secret was.
pub(crate) const REDACTED: &str = "[redacted]";

/// An attempt's parameters.
pub(crate) struct Rendered {
    /// For the action.
    pub(crate) text: Arc<str>,
    /// For the record.
    pub(crate) recorded: Option<Payload>,
    /// Secrets that were used, so that what the action says can be cleaned of them.
    pub(crate) secrets: Vec<String>,
}

/// Renders the parameters of an attempt.
pub(crate) fn render(
    dispatch: &Dispatch,
    values: &ValueReader,
    secrets: &dyn SecretSource,
) -> Result<Rendered, Failure> {
    if let Some(reason) = &dispatch.broken {
        return Err(Failure::permanent("PARAMETERS_INVALID", reason.as_str()));
    }
    let Some(template) = &dispatch.parameters else {
        return Ok(Rendered {
            text: "{}".into(),
            recorded: None,
            secrets: Vec::new(),
        });
    };
    let mut used = Vec::new();
    let mut inputs = Vec::with_capacity(dispatch.sources.len());
    for source in &dispatch.sources {
        inputs.push(resolve(dispatch, source, values, secrets, &mut used)?);
    }
    let rendered = |inputs: &[Option<Value>]| {
        let slots: Vec<Option<&Value>> = inputs.iter().map(Option::as_ref).collect();
        template
            .render(&slots, &Limits::default())
            .map_err(|error| {
                let place = error.pointer.filter(|pointer| !pointer.is_empty());
                let place = place
                    .map(|pointer| format!(" at {pointer}"))
                    .unwrap_or_default();
                Failure::permanent(error.code, format!("parameters{place}: {}", error.message))
            })
    };
    let text = rendered(&inputs).map_err(|failure| Failure {
        message: scrub_text(&failure.message, &used).into(),
        ..failure
    })?;
    let text: Arc<str> = text.into();
    let recorded = if used.is_empty() {
        Arc::clone(&text)
    } else {
        for (source, input) in dispatch.sources.iter().zip(&mut inputs) {
            if matches!(source, Source::Secret(_)) {
                *input = Some(Value::String(REDACTED.to_owned()));
            }
        }
        // An expression may compute with a secret, so its letters are removed as well; one
        // that cannot be computed without it is not recorded at all.
        match rendered(&inputs) {
            Ok(text) => scrub(&text, &used).into(),
            Err(_) => format!("\"{REDACTED}\"").into(),
        }
    };
    Ok(Rendered {
        text,
        recorded: Some(Payload::new(recorded)),
        secrets: used,
    })
}

/// Removes every secret from the values of a JSON text. Keys stay, and it stays JSON:
/// a number or truth value that says a secret becomes the text that stands for it.
pub(crate) fn scrub(text: &str, secrets: &[String]) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            scrub_value(&mut value, &Needles::new(secrets));
            value.to_string()
        }
        // Not JSON: nothing of it can be trusted to be clean.
        Err(_) => format!("\"{REDACTED}\""),
    }
}

/// Removes every secret from plain text.
pub(crate) fn scrub_text(text: &str, secrets: &[String]) -> String {
    Needles::new(secrets).remove(text)
}

/// What to look for: each secret as it is, as programs print it inside JSON, once and
/// twice escaped, with letters beyond ASCII as they are or as `\u` escapes, and as it
/// stands in addresses and forms.
struct Needles(Vec<String>);

impl Needles {
    fn new(secrets: &[String]) -> Self {
        let mut needles = Vec::new();
        for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
            let once = escaped(secret);
            let forms = [
                secret.clone(),
                ascii(&once),
                ascii(&escaped(&once)),
                escaped(&once),
                once,
            ];
            needles.extend(forms);
            for kept in [IN_COMPONENTS, IN_ADDRESSES, IN_FORMS] {
                let form = percent_encoded(secret, kept);
                needles.push(form.replace("%20", "+"));
                needles.push(form);
            }
        }
        // The longest first: a part of one form must not hide the rest of another.
        needles.sort_by_key(|needle| std::cmp::Reverse(needle.len()));
        needles.dedup();
        Self(needles)
    }

    fn remove(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for needle in &self.0 {
            if clean.contains(needle.as_str()) {
                clean = clean.replace(needle.as_str(), REDACTED);
            }
        }
        clean
    }
}

fn scrub_value(value: &mut Value, needles: &Needles) {
    match value {
        Value::String(text) => *text = needles.remove(text),
        Value::Array(items) => items.iter_mut().for_each(|item| scrub_value(item, needles)),
        Value::Object(entries) => {
            entries
                .iter_mut()
                .for_each(|(_, entry)| scrub_value(entry, needles));
            if entries.keys().any(|key| needles.remove(key) != *key) {
                let named = std::mem::take(entries).into_iter();
                *entries = named
                    .map(|(key, entry)| (needles.remove(&key), entry))
                    .collect();
            }
        }
        Value::Number(_) | Value::Bool(_) => {
            if needles.0.contains(&value.to_string()) {
                *value = Value::String(REDACTED.to_owned());
            }
        }
        Value::Null => {}
    }
}

/// What stands for itself in a part of an address, in a whole one, and in a form, besides
/// letters and digits: `encodeURIComponent`, `encodeURI`, and what browsers send.
const IN_COMPONENTS: &str = "-_.!~*'()";
const IN_ADDRESSES: &str = "-_.!~*'();/?:@&=+$,#";
const IN_FORMS: &str = "-_.*";

fn percent_encoded(text: &str, kept: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        let letter = char::from(byte);
        if byte.is_ascii_alphanumeric() || (byte.is_ascii() && kept.contains(letter)) {
            encoded.push(letter);
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// The inside of a text's JSON form.
fn escaped(text: &str) -> String {
    let quoted = Value::String(text.to_owned()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Letters beyond ASCII as `\u` escapes, as some programs write them.
fn ascii(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii() {
            written.push(letter);
        } else {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                written.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    written
}

fn resolve(
    dispatch: &Dispatch,
    source: &Source,
    values: &ValueReader,
    secrets: &dyn SecretSource,
    used: &mut Vec<String>,
) -> Result<Option<Value>, Failure> {
    let read = |value: &ValueRef| {
        values
            .read(dispatch.run, value)
            .map_err(unreadable)
            .and_then(|text| parse(&text))
    };
    Ok(match source {
        Source::Undefined => None,
        Source::Text(text) => Some(parse(text)?),
        Source::Stored(value) => Some(read(value)?),
        Source::Item(list, index) => {
            let item = values.read_item(dispatch.run, list, *index);
            Some(parse(&item.map_err(unreadable)?)?)
        }
        Source::Error { value, node } => Some(json!({ "error": read(value)?, "errorNode": node })),
        Source::Vars(vars) => {
            let mut object = Map::new();
            for (name, held) in vars {
                let value = match (held.text(), held.blob()) {
                    (Some(text), _) => parse(text)?,
                    (None, Some(blob)) => read(&blob)?,
                    (None, None) => continue,
                };
                object.insert(name.to_string(), value);
            }
            Some(Value::Object(object))
        }
        Source::Secret(name) => {
            let found = secrets.secret_of(dispatch.tenant.as_deref(), name);
            let found = found.map_err(|error| Failure {
                retriable: error.retriable,
                ..Failure::permanent("SECRET_UNREADABLE", &*error.message)
            })?;
            let secret = found.ok_or_else(|| {
                let message = format!("there is no secret '{name}'");
                Failure::permanent("SECRET_NOT_FOUND", message)
            })?;
            used.push(secret.clone());
            Some(Value::String(secret))
        }
    })
}

fn parse(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::permanent("VALUE_UNREADABLE", error.to_string()))
}

fn unreadable(error: windlass_store::Error) -> Failure {
    Failure {
        retriable: true,
        ..Failure::permanent("VALUE_UNREADABLE", error.to_string())
    }
}
