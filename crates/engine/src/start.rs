//! Asking for a run: what is given, what is checked, what is answered.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use windlass_core::definition::Json;
use windlass_core::event::{Origin, Parent, Queued, RULES, ReusedNode};
use windlass_core::plan::Plan;
use windlass_core::trace::TraceParent;
use windlass_core::value::{Payload, Stored};
use windlass_core::{Digest, RunId};
use windlass_store::Claim;

use crate::canonical::{RepeatedKey, canonical};
use crate::payload::{PAYLOAD_LIMIT_BYTES, PayloadError, check_payload};

pub use windlass_orchestrator::Begin;

/// The label that says when a graph was frozen that belongs to a run alone.
pub const FROZEN_AT: &str = "frozenAt";

/// The namespace of request ids among claims.
pub(crate) const REQUEST_CLAIM: &str = "request";

/// What a run is asked for with.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// The new run's id, if the caller wants to know it before the run is durable; else
    /// one is drawn.
    pub run: Option<RunId>,
    /// The graph.
    pub plan: Arc<Plan>,
    /// The definition's version in the catalogue.
    pub version: u32,
    /// The definition's digest.
    pub definition: Digest,
    /// JSON text; `{}` if there is nothing to say.
    pub trigger: String,
    /// Unique per tenant and workflow; a second request returns the first run.
    pub request_id: Option<Box<str>>,
    /// What ties the run to the outside.
    pub correlation_id: Option<Box<str>>,
    /// Whose it is.
    pub tenant: Option<Box<str>>,
    /// From 0 to 9.
    pub priority: u8,
    /// Beside the definition's own.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Instead of the definition's own, by name.
    pub vars: BTreeMap<Box<str>, Json>,
    /// Whether it begins at once.
    pub begin: Begin,
    /// The run and node that start it, if it is a child.
    pub parent: Option<Parent>,
    /// How many runs are above it.
    pub depth: u32,
    /// The run that it is forked from.
    pub origin: Option<Origin>,
    /// Results of that run.
    pub reused: Vec<ReusedNode>,
    /// The text of a graph that belongs to this run alone; `definition` is its digest.
    pub frozen: Option<Arc<str>>,
    /// The trace context of whoever asks, as W3C's `traceparent` writes it; one that is not
    /// well formed is left out.
    pub traceparent: Option<Box<str>>,
}

impl StartRequest {
    /// A request with nothing but a trigger.
    pub fn new(plan: Arc<Plan>, version: u32, definition: Digest) -> Self {
        Self {
            run: None,
            plan,
            version,
            definition,
            trigger: "{}".to_owned(),
            request_id: None,
            correlation_id: None,
            tenant: None,
            priority: 5,
            labels: BTreeMap::new(),
            vars: BTreeMap::new(),
            begin: Begin::Now,
            parent: None,
            depth: 0,
            origin: None,
            reused: Vec::new(),
            frozen: None,
            traceparent: None,
        }
    }

    /// The first event, the values it refers to, and the claim on the request id.
    pub(crate) fn prepare(&self, run: RunId) -> (Queued, Vec<Payload>, Vec<Claim>) {
        let mut blobs = Vec::new();
        let mut store = |payload: Payload| -> Stored {
            let stored = payload.stored();
            if matches!(stored, Stored::Blob { .. }) {
                blobs.push(payload);
            }
            stored
        };
        let trigger = Payload::new(self.trigger.as_str());
        let mut vars: BTreeMap<Box<str>, &Json> = self
            .plan
            .vars()
            .iter()
            .map(|(name, value)| (name.clone(), value))
            .collect();
        vars.extend(self.vars.iter().map(|(name, value)| (name.clone(), value)));
        let mut labels = self.plan.labels().clone();
        labels.extend(self.labels.clone());
        let request_id = self
            .request_id
            .clone()
            .unwrap_or_else(|| run.to_string().into_boxed_str());
        let queued = Queued {
            rules: RULES,
            workflow: self.plan.workflow().into(),
            version: self.version,
            definition: self.definition,
            request_id,
            tenant: self.tenant.clone(),
            correlation_id: self
                .correlation_id
                .clone()
                .unwrap_or_else(|| run.to_string().into_boxed_str()),
            priority: self.priority,
            labels,
            trigger: store(trigger),
            vars: vars
                .into_iter()
                .map(|(name, value)| (name, store(Payload::new(value.get()))))
                .collect(),
            parent: self.parent.clone(),
            depth: self.depth,
            origin: self.origin.clone(),
            frozen: self.frozen.is_some(),
            traceparent: well_formed(self.traceparent.as_deref()),
        };
        blobs.extend(self.frozen.clone().map(Payload::new));
        let claims = self.request_id.as_ref().map(|request_id| Claim {
            namespace: REQUEST_CLAIM,
            key: request_key(self.tenant.as_deref(), self.plan.workflow(), request_id),
            value: format!("{run} {}", meaning(&self.trigger)).into_bytes(),
        });
        (queued, blobs, claims.into_iter().collect())
    }
}

/// A trace context that is one, without what later versions of the format may add.
pub(crate) fn well_formed(traceparent: Option<&str>) -> Option<Box<str>> {
    let parent = traceparent.and_then(TraceParent::parse)?;
    Some(parent.to_string().into())
}

/// A digest of what a trigger says: the same for triggers that are equal as values.
pub(crate) fn meaning(trigger: &str) -> Digest {
    match canonical(trigger) {
        Ok(text) => Digest::of(text.as_bytes()),
        // Such a trigger is refused before anybody asks what it means.
        Err(_) => Digest::of(trigger.as_bytes()),
    }
}

/// The key of a request among claims: unique per tenant and workflow.
pub(crate) fn request_key(tenant: Option<&str>, workflow: &str, request_id: &str) -> Box<str> {
    // Workflow ids hold no newline, so the parts cannot run into each other.
    format!("{}\n{workflow}\n{request_id}", tenant.unwrap_or_default()).into()
}

/// A run that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The run.
    pub run: RunId,
    /// Whether an earlier request with the same id had started it.
    pub existing: bool,
}

/// Why a run was not started.
#[derive(Clone, Debug)]
pub enum StartError {
    /// The same request id was used with another trigger.
    RequestIdReused {
        /// The run that holds it.
        run: RunId,
    },
    /// The trigger does not fit the definition's schema; each problem with its place.
    TriggerInvalid(Vec<(String, String)>),
    /// An object in the trigger has a key twice.
    TriggerRepeatsKey(RepeatedKey),
    /// The trigger is not JSON.
    TriggerNotJson(String),
    /// The trigger is larger than allowed; carries its size.
    TriggerTooLarge(usize),
    /// The definition's `triggerSchema` is not a usable JSON Schema.
    SchemaInvalid(String),
    /// The store failed.
    Store(windlass_store::Error),
    /// The engine has stopped.
    Stopped,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequestIdReused { run } => write!(
                f,
                "the request id was used with another trigger, by run {run}; use another id"
            ),
            Self::TriggerInvalid(problems) => {
                f.write_str("the trigger does not fit the triggerSchema")?;
                problems.iter().try_for_each(|(pointer, message)| {
                    let place = if pointer.is_empty() { "/" } else { pointer };
                    write!(f, "\n  at {place}: {message}")
                })
            }
            Self::TriggerRepeatsKey(RepeatedKey { pointer, key }) => {
                let place = if pointer.is_empty() { "/" } else { pointer };
                write!(f, "the trigger has the key '{key}' twice, at {place}")
            }
            Self::TriggerNotJson(reason) => write!(f, "the trigger is not JSON: {reason}"),
            Self::TriggerTooLarge(size) => write!(
                f,
                "the trigger has {size} bytes; it may have {PAYLOAD_LIMIT_BYTES}"
            ),
            Self::SchemaInvalid(reason) => {
                write!(f, "the triggerSchema is not a usable JSON Schema: {reason}")
            }
            Self::Store(error) => error.fmt(f),
            Self::Stopped => f.write_str("the engine has stopped"),
        }
    }
}

impl std::error::Error for StartError {}

/// Checks a trigger against its limits and the definition's schema.
///
/// # Errors
/// What does not fit, all of it.
pub fn check_trigger(plan: &Plan, trigger: &str) -> Result<(), StartError> {
    check_payload(trigger, plan.trigger_schema()).map_err(|error| match error {
        PayloadError::TooLarge(size) => StartError::TriggerTooLarge(size),
        PayloadError::NotJson(reason) => StartError::TriggerNotJson(reason),
        PayloadError::RepeatsKey(repeated) => StartError::TriggerRepeatsKey(repeated),
        PayloadError::Invalid(problems) => StartError::TriggerInvalid(problems),
        PayloadError::SchemaInvalid(reason) => StartError::SchemaInvalid(reason),
    })
}
