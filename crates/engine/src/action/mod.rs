//! What an action is: an asynchronous function with typed parameters and output.

mod context;
mod registry;

use std::future::Future;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use windlass_core::event::ResourceLink;

pub(crate) use context::Concealed;
pub use context::Context;
pub(crate) use registry::Called;
pub use registry::{Description, Registry};

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
}

impl<T> Reply<T> {
    /// An output.
    pub fn new(output: T) -> Self {
        Self {
            output: Some(output),
            meta: None,
            resources: Vec::new(),
        }
    }

    /// There was nothing to do: the node is Skipped.
    pub fn skipped() -> Self {
        Self {
            output: None,
            meta: None,
            resources: Vec::new(),
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
    /// What else is known, as JSON.
    pub details: Option<Box<RawValue>>,
    pub(crate) stopped: bool,
}

impl ActionError {
    /// Another attempt would fail as well.
    pub fn failed(code: &str, message: impl Into<Box<str>>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            retriable: false,
            retry_after_ms: None,
            details: None,
            stopped: false,
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
