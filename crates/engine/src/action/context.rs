//! What an action may know of the attempt it serves.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use windlass_core::RunId;
use windlass_core::event::ResourceLink;
use windlass_core::trace::{SpanId, TraceParent};
use windlass_core::value::StoredFile;

use super::reported::Reported;
use super::run_reader::RunReader;
use super::state::SharedState;
use super::{ActionError, FileReader, FileWriter, State, file_digest, find_file};
use crate::Backend;
use crate::options::SecretSource;
use crate::scrub::{SecretFinder, scrub_text};
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
    /// What the action reports beside its output.
    pub(crate) reported: Reported,
    /// What the application shares with its actions.
    pub(crate) state: SharedState,
    /// Reads the run.
    pub(crate) reader: RunReader,
}

/// What an action and its worker share.
#[derive(Clone, Default)]
pub(crate) struct SharedWithAction {
    pub(crate) concealed: Concealed,
    pub(crate) reported: Reported,
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

    /// Begins a file of at most so many bytes: what is too large for an output. A file that
    /// would hold a secret of the attempt is refused.
    pub fn new_file(&self, limit: Option<u64>) -> FileWriter {
        let secrets = [self.secrecy.secrets(), &self.concealed.texts()].concat();
        FileWriter::new(Arc::clone(&self.store), SecretFinder::new(&secrets), limit)
    }

    /// A file that an earlier node of this run stored, by the name that its output has.
    ///
    /// # Errors
    /// The run's log names no such file, or the store cannot be read.
    pub async fn file(&self, name: &str) -> Result<FileReader, ActionError> {
        let missing = || {
            let message = format!(
                "no node of this run stored a blob '{name}'; a blob belongs to the run whose node \
                 stored it, and to the forks of that run"
            );
            ActionError::failed("BLOB_NOT_FOUND", message)
        };
        let digest = file_digest(name).ok_or_else(missing)?;
        let found = find_file(&*self.store, self.run, &digest).await;
        let found = found.map_err(|error| {
            let message = format!("the blob cannot be read: {error}");
            ActionError::retriable("STORE_UNAVAILABLE", message)
        })?;
        Ok(self.read_file(found.ok_or_else(missing)?))
    }

    /// Reads a file from its beginning.
    pub fn read_file(&self, file: StoredFile) -> FileReader {
        FileReader::new(Arc::clone(&self.store), file)
    }

    /// A text without the secrets of the attempt. What is recorded is redacted anyway; this is
    /// for texts that are cut first, where half a secret would remain.
    pub fn redact(&self, text: &str) -> String {
        let secrets = [self.secrecy.secrets(), &self.concealed.texts()].concat();
        scrub_text(text, &secrets)
    }

    /// The run's trigger, read into a type.
    ///
    /// # Errors
    /// The trigger does not fit the type, or the run cannot be read.
    pub async fn trigger<T: DeserializeOwned>(&self) -> Result<T, ActionError> {
        let text = self.reader.trigger(&self.store, self.run).await?;
        fitting(&text, "the trigger")
    }

    /// The output of a node that has succeeded, read into a type. The node is named as in an
    /// expression: one of the same scope, or of a scope around it, by id or by its unique name.
    ///
    /// # Errors
    /// There is no such node, it has not succeeded, its output does not fit the type, or the run
    /// cannot be read.
    pub async fn output<T: DeserializeOwned>(
        &self,
        node: impl AsRef<str>,
    ) -> Result<T, ActionError> {
        let node = node.as_ref();
        let text = self.reader.output(&self.store, self.run, &self.node, node);
        fitting(&text.await?, &format!("the output of '{node}'"))
    }

    /// What the application gave the engine with `state`, by its type.
    ///
    /// # Errors
    /// The engine was given no such state.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<State<T>, ActionError> {
        self.state.get()
    }

    /// Reports a link to something that the action made elsewhere.
    pub fn link(&self, link: ResourceLink) {
        self.reported.link(link);
    }

    /// Reports what is worth knowing about how the attempt ran; the last report counts.
    pub fn meta(&self, meta: &impl Serialize) {
        self.reported.meta(meta);
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

fn fitting<T: DeserializeOwned>(text: &str, what: &str) -> Result<T, ActionError> {
    serde_json::from_str(text).map_err(|error| {
        let message = format!(
            "{what} does not fit {}: {error}",
            std::any::type_name::<T>()
        );
        ActionError::failed("VALUE_MISFIT", message)
    })
}
