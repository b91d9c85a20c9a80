//! What an action may know of the attempt it serves.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use windlass_core::RunId;
use windlass_core::trace::{SpanId, TraceParent};

use super::ActionError;
use crate::Backend;
use crate::options::SecretSource;
use crate::secrecy::Secrecy;

/// What an action may know of the attempt it serves.
#[derive(Clone)]
pub struct Context {
    /// The run that called the action.
    pub run: RunId,
    /// The run's workflow.
    pub workflow: Arc<str>,
    /// The node instance.
    pub node: Box<str>,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The same for automatic retries and after crashes: hand it to the other system.
    pub idempotency_key: String,
    /// What ties the run to the outside.
    pub correlation_id: Arc<str>,
    /// Whose run it is.
    pub tenant: Option<Box<str>>,
    /// The trace context that the run was asked for with.
    pub(crate) asked: Option<Box<str>>,
    /// The attempt's span, if spans are made.
    pub(crate) span: Option<SpanId>,
    pub(crate) stop: CancellationToken,
    pub(crate) store: Arc<dyn Backend>,
    /// Which parameters were rendered with secrets.
    pub(crate) secrecy: Secrecy,
    /// Where the action's own credentials come from.
    pub(crate) secrets: Arc<dyn SecretSource>,
    /// What the action asked for: it is redacted from whatever the attempt records.
    pub(crate) concealed: Concealed,
}

/// Texts that an attempt must not record; shared between an action and its worker.
#[derive(Clone, Default)]
pub(crate) struct Concealed(Arc<Mutex<Vec<String>>>);

impl Concealed {
    fn add(&self, text: String) {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        let texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        texts.clone()
    }
}

impl Context {
    /// Ends when the engine asks the action to stop. The action then has ten seconds.
    pub async fn stop_asked(&self) {
        self.stop.cancelled().await;
    }

    /// Whether the engine has asked the action to stop.
    pub fn is_stop_asked(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Whether the parameter at a JSON pointer was rendered with a secret, also where an
    /// expression computed it from one: then it must not be sent to another address, as by a
    /// redirect.
    pub fn is_secret(&self, pointer: &str) -> bool {
        self.secrecy.is_secret(pointer)
    }

    /// The members of an object among the parameters that were rendered with a secret.
    pub fn secret_members(&self, pointer: &str) -> Vec<String> {
        self.secrecy.members(pointer)
    }

    /// Whether a text holds a secret of the parameters, in any form that is redacted.
    pub fn reveals(&self, text: &str) -> bool {
        self.secrecy.reveals(text)
    }

    /// A secret of the run's tenant, for an action's own credentials. It is redacted from
    /// everything that the attempt records.
    ///
    /// # Errors
    /// There is one, and it cannot be read.
    pub async fn secret(&self, name: &str) -> Result<Option<String>, ActionError> {
        let found = self.secrets.secret_of(self.tenant.as_deref(), name).await;
        let found = found.map_err(|error| ActionError {
            retriable: error.retriable,
            ..ActionError::failed("SECRET_UNREADABLE", error.message)
        })?;
        if let Some(secret) = &found {
            self.concealed.add(secret.clone());
        }
        Ok(found)
    }

    /// Keeps a text out of everything that the attempt records: what an action derived from
    /// a secret, or was given by another system as one.
    pub fn conceal(&self, text: impl Into<String>) {
        self.concealed.add(text.into());
    }

    /// The trace context to hand on to other systems, as W3C's `traceparent` writes it: the
    /// attempt's own span where spans are made, else what the run was asked for with.
    pub fn traceparent(&self) -> Option<String> {
        match self.span {
            Some(span) => {
                let run = TraceParent::of_run(self.run, self.asked.as_deref());
                Some(run.at(span).to_string())
            }
            None => self.asked.as_deref().map(str::to_owned),
        }
    }

    /// Looks a resource link up before creating: the value is the holder's link as JSON.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn resource(
        &self,
        system: &str,
        kind: &str,
        id: &str,
    ) -> Result<Option<windlass_store::ResourceRow>, windlass_store::Error> {
        self.store
            .resource(self.tenant.as_deref(), system, kind, id)
            .await
    }
}
