//! Rendering an attempt's parameters on the worker, where alone secrets exist. What
//! is recorded is rendered a second time with the secrets replaced.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use windlass_core::run::{Dispatch, Failure, Held, Interrupt, Source};
use windlass_core::value::{Payload, ValueRef};
use windlass_expr::Meter;

use crate::limits::limits;
use crate::options::SecretSource;
use crate::parsed;
use crate::scrub::{REDACTED, scrub, scrub_text};
use crate::values::ValueReader;

/// An attempt's parameters.
pub(crate) struct Rendered {
    /// For the action.
    pub(crate) text: Arc<str>,
    /// For the record.
    pub(crate) recorded: Option<Payload>,
    /// Secrets that were used, so that what the action says can be cleaned of them.
    pub(crate) secrets: Vec<String>,
}

/// How much rendering may cost where it happens.
#[derive(Clone, Copy)]
pub(crate) enum Effort<'a> {
    /// Little: other work waits for the thread.
    AtOnce,
    /// Up to the limits, unless it is interrupted.
    Full(&'a Interrupt),
}

/// Sources of more bytes than this together are not read where other work waits.
const AT_ONCE_BYTES: usize = 4 * 1024;

/// Renders the parameters of an attempt; nothing if that takes more effort.
pub(crate) fn render(
    dispatch: &Dispatch,
    values: &ValueReader,
    secrets: &dyn SecretSource,
    effort: Effort<'_>,
) -> Option<Result<Rendered, Failure>> {
    let too_large = || dispatch.source_bytes() > AT_ONCE_BYTES;
    if matches!(effort, Effort::AtOnce) && too_large() {
        return None;
    }
    let mut unfinished = false;
    let rendered = try_render(dispatch, values, secrets, effort, &mut unfinished);
    (!unfinished).then_some(rendered)
}

fn try_render(
    dispatch: &Dispatch,
    values: &ValueReader,
    secrets: &dyn SecretSource,
    effort: Effort<'_>,
    unfinished: &mut bool,
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
        if matches!(effort, Effort::Full(interrupt) if interrupt.is_interrupted()) {
            let message = "the attempt was told to stop while its parameters were rendered";
            return Err(Failure::permanent("EXPRESSION_INTERRUPTED", message));
        }
        inputs.push(resolve(dispatch, source, values, secrets, &mut used)?);
    }
    let full = limits().values.expressions;
    let (limits, mut meter) = match effort {
        Effort::AtOnce => (full.inline(), Meter::default()),
        Effort::Full(interrupt) => (full, Meter::interrupted_by(interrupt)),
    };
    let mut rendered = |inputs: &[Option<Arc<Value>>]| {
        let slots: Vec<Option<&Value>> = inputs.iter().map(Option::as_deref).collect();
        template
            .render_metered(&slots, &limits, &mut meter)
            .map_err(|error| {
                *unfinished |= error.code == "EXPRESSION_LIMIT" && limits.steps < full.steps;
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
                *input = Some(Arc::new(Value::String(REDACTED.to_owned())));
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

fn resolve(
    dispatch: &Dispatch,
    source: &Source,
    values: &ValueReader,
    secrets: &dyn SecretSource,
    used: &mut Vec<String>,
) -> Result<Option<Arc<Value>>, Failure> {
    let read = |value: &ValueRef| {
        parsed::of(value.digest, || {
            let text = values.read(dispatch.run, value).map_err(unreadable)?;
            parse(&text)
        })
    };
    Ok(match source {
        Source::Undefined => None,
        Source::Text(text) => Some(Arc::new(parse(text)?)),
        Source::Stored(value) => Some(read(value)?),
        Source::Item(list, index) => {
            let item = values.read_item(dispatch.run, list, *index);
            Some(Arc::new(parse(&item.map_err(unreadable)?)?))
        }
        Source::Error { value, node } => {
            let error = json!({ "error": &*read(value)?, "errorNode": node });
            Some(Arc::new(error))
        }
        Source::Vars(vars) => Some(Arc::new(variables(vars, read)?)),
        Source::Secret(name) => {
            let secret = secret(dispatch, name, secrets)?;
            used.push(secret.clone());
            Some(Arc::new(Value::String(secret)))
        }
    })
}

fn variables(
    vars: &[(Box<str>, Held)],
    read: impl Fn(&ValueRef) -> Result<Arc<Value>, Failure>,
) -> Result<Value, Failure> {
    let mut object = Map::new();
    for (name, held) in vars {
        let value = match (held.text(), held.blob()) {
            (Some(text), _) => parse(text)?,
            (None, Some(blob)) => Value::clone(&*read(&blob)?),
            (None, None) => continue,
        };
        object.insert(name.to_string(), value);
    }
    Ok(Value::Object(object))
}

fn secret(dispatch: &Dispatch, name: &str, secrets: &dyn SecretSource) -> Result<String, Failure> {
    let found = secrets.secret_of(dispatch.tenant.as_deref(), name);
    let found = found.map_err(|error| Failure {
        retriable: error.retriable,
        ..Failure::permanent("SECRET_UNREADABLE", &*error.message)
    })?;
    found.ok_or_else(|| {
        let message = format!("there is no secret '{name}'");
        Failure::permanent("SECRET_NOT_FOUND", message)
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
