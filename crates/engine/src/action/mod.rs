//! What an action is: an asynchronous function with typed parameters and output.

mod context;
mod file;
mod registry;
mod reported;
mod run_reader;
mod state;
mod strategy;

use std::future::Future;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use windlass_core::event::ResourceLink;
use windlass_core::value::StoredFile;

pub use context::Context;
pub(crate) use context::SharedWithAction;
pub use file::{FileReader, FileWriter, file_digest, file_name, find_file};
pub(crate) use registry::Called;
pub use registry::{Description, Registry};
pub(crate) use run_reader::RunReader;
pub use state::{SharedState, State};
pub use strategy::{RetryStrategies, RetryStrategy};

/// One kind of work that a node can call.
pub trait Action: Send + Sync + 'static {
    /// What it takes. Deny unknown fields, so that a misspelt parameter is found.
    type Parameters: DeserializeOwned + JsonSchema + Send;
    /// What it gives.
    type Output: Serialize + JsonSchema + Send;

    /// What definitions call it, e.g. `http.request`.
    fn name(&self) -> &str;

    /// What it does, in a sentence.
    fn description(&self) -> &str;

    /// Does it.
    fn run(
        &self,
        context: Context,
        parameters: Self::Parameters,
    ) -> impl Future<Output = Result<Reply<Self::Output>, ActionError>> + Send;
}

/// What a successful action answers.
#[derive(Debug)]
pub struct Reply<T> {
    pub(crate) output: Option<T>,
    pub(crate) meta: Option<Box<RawValue>>,
    pub(crate) resources: Vec<ResourceLink>,
    pub(crate) files: Vec<StoredFile>,
}

impl<T> Reply<T> {
    /// An output.
    pub fn new(output: T) -> Self {
        Self {
            output: Some(output),
            meta: None,
            resources: Vec::new(),
            files: Vec::new(),
        }
    }

    /// There was nothing to do: the node is Skipped.
    pub fn skipped() -> Self {
        Self {
            output: None,
            meta: None,
            resources: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Adds what is worth knowing about how it ran.
    #[must_use]
    pub fn with_meta(mut self, meta: &impl Serialize) -> Self {
        self.meta = serde_json::value::to_raw_value(meta).ok();
        self
    }

    /// Adds a link to something that was made elsewhere.
    #[must_use]
    pub fn with_resource(mut self, link: ResourceLink) -> Self {
        self.resources.push(link);
        self
    }

    /// Adds bytes that were stored beside the output; see [`Context::new_file`].
    #[must_use]
    pub fn with_file(mut self, file: StoredFile) -> Self {
        self.files.push(file);
        self
    }
}

impl<T> From<T> for Reply<T> {
    fn from(output: T) -> Self {
        Self::new(output)
    }
}

/// Why an action did not succeed.
#[derive(Clone, Debug)]
pub struct ActionError {
    /// SCREAMING_SNAKE_CASE.
    pub code: Box<str>,
    /// A sentence.
    pub message: Box<str>,
    /// Whether another attempt might succeed.
    pub retriable: bool,
    /// The earliest sensible time of another attempt.
    pub retry_after_ms: Option<u64>,
    /// The wait before the next attempt, by a strategy of the caller's own.
    pub(crate) retry_delay_ms: Option<u64>,
    /// What else is known, as JSON.
    pub details: Option<Box<RawValue>>,
    pub(crate) stopped: bool,
    pub(crate) skipped: bool,
}

impl ActionError {
    /// Another attempt would fail as well.
    pub fn failed(code: &str, message: impl Into<Box<str>>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            retriable: false,
            retry_after_ms: None,
            retry_delay_ms: None,
            details: None,
            stopped: false,
            skipped: false,
        }
    }

    /// Another attempt might succeed.
    pub fn retriable(code: &str, message: impl Into<Box<str>>) -> Self {
        Self {
            retriable: true,
            ..Self::failed(code, message)
        }
    }

    /// The engine asked the action to stop, and it did.
    pub fn stopped() -> Self {
        Self {
            stopped: true,
            ..Self::failed("STOPPED", "the action was told to stop")
        }
    }

    /// There was nothing to do: the node is Skipped. For functions that return no [`Reply`].
    pub fn skipped() -> Self {
        Self {
            skipped: true,
            ..Self::failed("SKIPPED", "there was nothing to do")
        }
    }

    /// The same with another code, SCREAMING_SNAKE_CASE.
    #[must_use]
    pub fn with_code(mut self, code: &str) -> Self {
        self.code = code.into();
        self
    }

    /// The same, and another attempt would fail as well.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.retriable = false;
        self
    }

    /// The same, and another attempt might succeed.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.retriable = true;
        self
    }

    /// Adds the earliest sensible time of another attempt.
    #[must_use]
    pub fn retry_after_ms(mut self, milliseconds: u64) -> Self {
        self.retry_after_ms = Some(milliseconds);
        self
    }

    /// Adds what else is known.
    #[must_use]
    pub fn with_details(mut self, details: &impl Serialize) -> Self {
        self.details = serde_json::value::to_raw_value(details).ok();
        self
    }
}

/// Any error, by `?`: `ACTION_FAILED` with its message and those of its sources. It may be
/// transient, so an attempt is repeated where the node retries; [`OrFail`] says otherwise.
impl<E: std::error::Error> From<E> for ActionError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            let text = inner.to_string();
            // Some errors repeat their source in their own message.
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            source = inner.source();
        }
        Self::retriable("ACTION_FAILED", message)
    }
}

/// Tells errors that another attempt may mend from those that it will not.
pub trait OrFail<T> {
    /// An error fails the node for good, with this code.
    ///
    /// # Errors
    /// What the result had, as an error that is not retriable.
    fn or_fail(self, code: &str) -> Result<T, ActionError>;

    /// An error is worth another attempt, with this code.
    ///
    /// # Errors
    /// What the result had, as a retriable error.
    fn or_retry(self, code: &str) -> Result<T, ActionError>;
}

impl<T, E: Into<ActionError>> OrFail<T> for Result<T, E> {
    fn or_fail(self, code: &str) -> Result<T, ActionError> {
        self.map_err(|error| error.into().with_code(code).permanent())
    }

    fn or_retry(self, code: &str) -> Result<T, ActionError> {
        self.map_err(|error| error.into().with_code(code).transient())
    }
}
