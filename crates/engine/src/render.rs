//! Rendering an attempt's parameters on the worker, where alone secrets exist. What is recorded is
//! rendered a second time, with a stand-in for each expression that reads a secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use windlass_core::run::{Dispatch, Failure, Held, Interrupt, ValueSource};
use windlass_core::value::{Payload, ValueRef, object_text};
use windlass_expr::{Document, DocumentError, DocumentReader, Hidden, Meter, check_syntax};
use windlass_store::Wait as _;

use crate::limits::limits;
use crate::options::SecretSource;
use crate::parsed;
use crate::scrub::{REDACTED, scrub, scrub_text};
use crate::secrecy::derived;
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
    /// Little: other work waits for the thread, so that values which are not at hand are not
    /// waited for.
    AtOnce,
    /// Up to the limits, unless it is interrupted.
    Full(&'a Interrupt),
}

/// The secrets that an attempt's parameters name, each as it was found.
pub(crate) type Secrets = BTreeMap<Box<str>, Result<String, Failure>>;

/// Reads the secrets that an attempt names, and puts its values at hand if they are small.
pub(crate) async fn prepare(
    dispatch: &Dispatch,
    values: &ValueReader,
    source: &dyn SecretSource,
) -> Secrets {
    let mut secrets = Secrets::new();
    let small = dispatch.source_bytes() <= AT_ONCE_BYTES;
    for needed in &dispatch.sources {
        match needed {
            ValueSource::Secret(name) => {
                let found = secret(dispatch, name, source).await;
                secrets.insert(name.clone(), found);
            }
            ValueSource::Stored(value) | ValueSource::Error { value, .. } if small => {
                put_at_hand(values, dispatch, value).await;
            }
            ValueSource::Vars(vars) if small => {
                for blob in vars.iter().filter_map(|(_, held)| held.blob()) {
                    put_at_hand(values, dispatch, &blob).await;
                }
            }
            _ => {}
        }
    }
    secrets
}

/// Rendering meets what cannot be read.
async fn put_at_hand(values: &ValueReader, dispatch: &Dispatch, value: &ValueRef) {
    if parsed::known(&value.digest).is_none() {
        let _ = values.read(dispatch.run, value).await;
    }
}

/// Sources of more bytes than this together are not read where other work waits.
const AT_ONCE_BYTES: usize = 4 * 1024;

/// Renders the parameters of an attempt; nothing if that takes more effort.
pub(crate) fn render(
    dispatch: &Dispatch,
    values: &ValueReader,
    secrets: &Secrets,
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
    secrets: &Secrets,
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
    let interrupt = match effort {
        Effort::AtOnce => None,
        Effort::Full(interrupt) => Some(interrupt),
    };
    let mut resolver = Resolver {
        dispatch,
        values,
        secrets,
        reader: DocumentReader::new(interrupt),
        used: Vec::new(),
        at_once: matches!(effort, Effort::AtOnce),
        unfinished: &mut *unfinished,
    };
    let mut inputs: Vec<Option<Document>> = Vec::with_capacity(dispatch.sources.len());
    for source in &dispatch.sources {
        if interrupt.is_some_and(Interrupt::is_interrupted) {
            return Err(unread(DocumentError::Interrupted));
        }
        inputs.push(resolver.resolve(source)?);
    }
    let used = resolver.used;
    let full = limits().values.expressions;
    let (limits, mut meter) = match effort {
        Effort::AtOnce => (full.inline(), Meter::default()),
        Effort::Full(interrupt) => (full, Meter::interrupted_by(interrupt)),
    };
    let slots: Vec<Option<&Document>> = inputs.iter().map(Option::as_ref).collect();
    let text = template.render_metered(&slots, &limits, &mut meter);
    let text: Arc<str> = text
        .map_err(|error| {
            *unfinished |= error.code == "EXPRESSION_LIMIT" && limits.steps < full.steps;
            failed(error, &used)
        })?
        .into();
    if used.is_empty() {
        return Ok(Rendered {
            recorded: Some(Payload::new(Arc::clone(&text))),
            text,
            secrets: used,
        });
    }
    let is_secret = |source: &ValueSource| matches!(source, ValueSource::Secret(_));
    let secret: Vec<bool> = dispatch.sources.iter().map(is_secret).collect();
    let hidden = Hidden {
        slots: &secret,
        stand_in: REDACTED,
    };
    let recorded = template.render_hiding(&slots, hidden, &limits, &mut meter);
    let recorded = recorded.map_err(|error| failed(error, &used))?;
    // Of a text that has a secret in it as it is, only the secret is redacted.
    let mut made = derived(&text, &recorded, &template.source());
    made.retain(|made| scrub_text(made, &used) == *made);
    let mut secrets = used;
    secrets.extend(made);
    Ok(Rendered {
        // A value that is no secret may contain the letters of one.
        recorded: Some(Payload::new(scrub(&recorded, &secrets))),
        text,
        secrets,
    })
}

fn failed(error: windlass_expr::Error, secrets: &[String]) -> Failure {
    let place = error.pointer.filter(|pointer| !pointer.is_empty());
    let place = place
        .map(|pointer| format!(" at {pointer}"))
        .unwrap_or_default();
    let message = format!("parameters{place}: {}", error.message);
    Failure::permanent(error.code, scrub_text(&message, secrets))
}

/// Finds what the sources of an attempt's parameters stand for.
struct Resolver<'r> {
    dispatch: &'r Dispatch,
    values: &'r ValueReader,
    secrets: &'r Secrets,
    reader: DocumentReader<'r>,
    /// The secrets that were found.
    used: Vec<String>,
    /// Whether what is not at hand makes it unfinished.
    at_once: bool,
    unfinished: &'r mut bool,
}

impl Resolver<'_> {
    fn resolve(&mut self, source: &ValueSource) -> Result<Option<Document>, Failure> {
        let document = match source {
            ValueSource::Undefined => return Ok(None),
            ValueSource::Text(text) => self.read(Arc::from(&**text))?,
            ValueSource::Stored(value) => self.stored(value)?,
            ValueSource::Item(list, index) => {
                let item = self.item(list, *index)?;
                self.read(item)?
            }
            ValueSource::Error { value, node } => {
                let (error, node) = (self.text(value)?, Value::from(&**node).to_string());
                self.object(&[("error", error), ("errorNode", node.into())])?
            }
            ValueSource::Vars(vars) => self.variables(vars)?,
            ValueSource::Secret(name) => {
                let found = self.secrets.get(name).cloned();
                let secret = found.unwrap_or_else(|| Err(no_secret(name)))?;
                self.used.push(secret.clone());
                Document::from(Value::String(secret))
            }
        };
        Ok(Some(document))
    }

    fn text(&mut self, value: &ValueRef) -> Result<Arc<str>, Failure> {
        match self.at_once {
            true => self.at_hand(self.values.cached(&value.digest)),
            false => {
                let text = self.values.read(self.dispatch.run, value).wait();
                text.map_err(unreadable)
            }
        }
    }

    fn item(&mut self, list: &ValueRef, index: u32) -> Result<Arc<str>, Failure> {
        match self.at_once {
            true => self.at_hand(self.values.cached_item(list, index)),
            false => {
                let item = self.values.read_item(self.dispatch.run, list, index).wait();
                item.map_err(unreadable)
            }
        }
    }

    fn at_hand(&mut self, text: Option<Arc<str>>) -> Result<Arc<str>, Failure> {
        text.ok_or_else(|| {
            *self.unfinished = true;
            Failure::permanent("VALUE_UNREADABLE", "the value has to be read first")
        })
    }

    fn read(&mut self, text: Arc<str>) -> Result<Document, Failure> {
        self.reader.read(text).map_err(unread)
    }

    fn stored(&mut self, value: &ValueRef) -> Result<Document, Failure> {
        if let Some(known) = parsed::known(&value.digest) {
            self.reader.count(&known).map_err(unread)?;
            return Ok(known);
        }
        let text = self.text(value)?;
        let document = self.read(text)?;
        parsed::keep(value.digest, &document);
        Ok(document)
    }

    fn variables(&mut self, vars: &[(Box<str>, Held)]) -> Result<Document, Failure> {
        let mut members = Vec::with_capacity(vars.len());
        for (name, held) in vars {
            let text = match (held.text(), held.blob()) {
                (Some(text), _) => Arc::clone(text),
                (None, Some(blob)) => self.text(&blob)?,
                (None, None) => continue,
            };
            members.push((&**name, text));
        }
        self.object(&members)
    }

    /// An object of these members.
    fn object(&mut self, members: &[(&str, Arc<str>)]) -> Result<Document, Failure> {
        let texts = members.iter().map(|(name, text)| (*name, &**text));
        let read = self.reader.read(object_text(texts).into());
        read.map_err(|error| {
            // Said of the member that it is true of.
            let mut wrong = members
                .iter()
                .filter_map(|(_, text)| check_syntax(text).err());
            unread(wrong.next().map_or(error, DocumentError::Syntax))
        })
    }
}

async fn secret(
    dispatch: &Dispatch,
    name: &str,
    source: &dyn SecretSource,
) -> Result<String, Failure> {
    let found = source.secret_of(dispatch.tenant.as_deref(), name).await;
    let found = found.map_err(|error| Failure {
        retriable: error.retriable,
        ..Failure::permanent("SECRET_UNREADABLE", &*error.message)
    })?;
    found.ok_or_else(|| no_secret(name))
}

fn no_secret(name: &str) -> Failure {
    let message = format!("there is no secret '{name}'");
    Failure::permanent("SECRET_NOT_FOUND", message)
}

/// Said of a value that cannot be a document.
fn unread(error: DocumentError) -> Failure {
    match error {
        DocumentError::Syntax(reason) => Failure::permanent("VALUE_UNREADABLE", reason),
        DocumentError::TooLarge { .. } => {
            Failure::permanent("EXPRESSION_LIMIT", format!("parameters: {error}"))
        }
        DocumentError::Interrupted => {
            let message = "the attempt was told to stop while its parameters were rendered";
            Failure::permanent("EXPRESSION_INTERRUPTED", message)
        }
    }
}

fn unreadable(error: windlass_store::Error) -> Failure {
    Failure {
        retriable: true,
        ..Failure::permanent("VALUE_UNREADABLE", error.to_string())
    }
}
