//! Asking for a run: what is given, what is checked, what is answered.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use windlass_core::concurrency::KeyError;
use windlass_core::definition::JsonText;
use windlass_core::event::{ConcurrencyKey, ForkOrigin, Parent, Queued, RULES, ReusedNode};
use windlass_core::plan::Plan;
use windlass_core::run::var_bytes;
use windlass_core::trace::TraceParent;
use windlass_core::value::{Payload, Stored};
use windlass_core::{Digest, RunId};
use windlass_store::{Claim, Head, REQUEST_CLAIM, request_key};

use crate::canonical::{RepeatedKey, canonical};
use crate::engine::Engine;
use crate::limits::limits;
use crate::names::check_names;
use crate::payload::{PayloadError, check_payload};

pub use windlass_orchestrator::Begin;

/// The label that says when a graph was frozen that belongs to a run alone.
pub const FROZEN_AT: &str = "frozenAt";

/// What a caller says of the run that it wants, whichever way the run is started.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// The tenant of the run.
    pub tenant: Option<Box<str>>,
    /// JSON text; `{}` if there is nothing to say.
    pub trigger: String,
    /// Unique per tenant and workflow; a second request returns the first run.
    pub request_id: Option<Box<str>>,
    /// What the request asks for beside its trigger, where that is not a workflow alone: a
    /// request id stands for one trigger and one of these.
    pub asked: Option<Digest>,
    /// What ties the run to the outside.
    pub correlation_id: Option<Box<str>>,
    /// From 0 to 9; higher begins first.
    pub priority: u8,
    /// Beside the definition's own.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Instead of the definition's own, by name.
    pub vars: BTreeMap<Box<str>, JsonText>,
    /// The caller's trace context, as W3C's `traceparent` writes it; one that is not well
    /// formed is left out.
    pub traceparent: Option<Box<str>>,
}

impl Default for StartRequest {
    fn default() -> Self {
        Self {
            tenant: None,
            trigger: "{}".to_owned(),
            request_id: None,
            asked: None,
            correlation_id: None,
            priority: 5,
            labels: BTreeMap::new(),
            vars: BTreeMap::new(),
            traceparent: None,
        }
    }
}

/// A run to start, with the graph that it walks.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The new run's id, if the caller wants to know it before the run is durable; else
    /// one is drawn.
    pub run: Option<RunId>,
    /// The graph.
    pub plan: Arc<Plan>,
    /// The definition's version in the catalogue.
    pub version: u32,
    /// The definition's digest.
    pub definition: Digest,
    /// What the caller says of it.
    pub request: StartRequest,
    /// Whether it begins at once.
    pub begin: Begin,
    /// The run and node that start it, if it is a child.
    pub parent: Option<Parent>,
    /// How many runs are above it.
    pub depth: u32,
    /// The run that it is forked from.
    pub origin: Option<ForkOrigin>,
    /// Results of that run.
    pub reused: Vec<ReusedNode>,
    /// The text of a graph that belongs to this run alone; `definition` is its digest.
    pub frozen: Option<Arc<str>>,
}

impl NewRun {
    /// A run that begins at once, with a default request.
    pub fn new(plan: Arc<Plan>, version: u32, definition: Digest) -> Self {
        Self {
            run: None,
            plan,
            version,
            definition,
            request: StartRequest::default(),
            begin: Begin::Now,
            parent: None,
            depth: 0,
            origin: None,
            reused: Vec::new(),
            frozen: None,
        }
    }

    /// Checks the names that the caller gives.
    ///
    /// # Errors
    /// One of them cannot be a name.
    pub(crate) fn check_names(&self) -> Result<(), StartError> {
        let inherits = self.parent.is_some() || self.origin.is_some();
        check_names(&self.request, inherits)
    }

    /// The first event, the values it refers to, and the claim on the request id.
    ///
    /// # Errors
    /// The variables are too large.
    pub(crate) fn prepare(
        &self,
        run: RunId,
        gate: Option<ConcurrencyKey>,
    ) -> Result<PreparedStart, StartError> {
        let mut labels = self.plan.labels().clone();
        // It is a label of the graph alone, which says when it was frozen.
        labels.remove(FROZEN_AT);
        labels.extend(self.request.labels.clone());
        let first = FirstRecord {
            workflow: self.plan.workflow(),
            version: self.version,
            definition: self.definition,
            request: &self.request,
            labels,
            vars: self.own_vars(),
            gate,
        };
        let mut prepared = first.prepare(run)?;
        let queued = &mut prepared.queued;
        queued.parent.clone_from(&self.parent);
        queued.depth = self.depth;
        queued.origin.clone_from(&self.origin);
        queued.frozen = self.frozen.is_some();
        let frozen = self.frozen.clone().map(Payload::new);
        prepared.blobs.extend(frozen);
        Ok(prepared)
    }

    /// The variables at the start.
    pub(crate) fn own_vars(&self) -> BTreeMap<Box<str>, &JsonText> {
        let own = self.plan.vars().iter().chain(&self.request.vars);
        own.map(|(name, value)| (name.clone(), value)).collect()
    }
}

/// What the first record of a run holds.
pub(crate) struct PreparedStart {
    pub(crate) queued: Queued,
    /// Values that the event refers to.
    pub(crate) blobs: Vec<Payload>,
    /// The claim on the request id, if there is one.
    pub(crate) claims: Vec<Claim>,
}

/// What the first record says, whether or not the run's plan is at hand.
pub(crate) struct FirstRecord<'a> {
    pub(crate) workflow: &'a str,
    pub(crate) version: u32,
    pub(crate) definition: Digest,
    pub(crate) request: &'a StartRequest,
    /// The definition's and the request's.
    pub(crate) labels: BTreeMap<Box<str>, Box<str>>,
    /// The definition's and the request's.
    pub(crate) vars: BTreeMap<Box<str>, &'a JsonText>,
    pub(crate) gate: Option<ConcurrencyKey>,
}

impl FirstRecord<'_> {
    pub(crate) fn prepare(self, run: RunId) -> Result<PreparedStart, StartError> {
        let request = self.request;
        let vars = self.vars.iter();
        let bytes = vars.map(|(name, value)| var_bytes(name, value.get().len() as u64));
        let bytes = bytes.sum();
        if bytes > limits().values.vars_bytes {
            return Err(StartError::VarsLimit(bytes));
        }
        let mut blobs = Vec::new();
        let mut store = |payload: Payload| -> Stored {
            let stored = payload.stored();
            if matches!(stored, Stored::Blob { .. }) {
                blobs.push(payload);
            }
            stored
        };
        let named = |name: Option<&str>| name.map_or_else(|| run.to_string().into(), Into::into);
        let claims = request.request_id.as_deref().map(|request_id| Claim {
            namespace: REQUEST_CLAIM,
            key: request_key(request.tenant.as_deref(), self.workflow, request_id),
            value: claim_value(run, request),
        });
        let queued = Queued {
            rules: RULES,
            workflow: self.workflow.into(),
            version: self.version,
            definition: self.definition,
            request_id: named(request.request_id.as_deref()),
            tenant: request.tenant.clone(),
            correlation_id: named(request.correlation_id.as_deref()),
            priority: request.priority,
            labels: self.labels,
            trigger: store(Payload::new(request.trigger.as_str())),
            vars: self
                .vars
                .into_iter()
                .map(|(name, value)| (name, store(Payload::new(value.get()))))
                .collect(),
            parent: None,
            depth: 0,
            origin: None,
            frozen: false,
            traceparent: well_formed(request.traceparent.as_deref()),
            gate: self.gate,
            partition: 0,
            defaults: None,
        };
        Ok(PreparedStart {
            queued,
            blobs,
            claims: claims.into_iter().collect(),
        })
    }
}

/// A trace context that is one, without what later versions of the format may add.
pub(crate) fn well_formed(traceparent: Option<&str>) -> Option<Box<str>> {
    let parent = traceparent.and_then(TraceParent::parse)?;
    Some(parent.to_string().into())
}

/// A digest of what a request asks for: the same for triggers that are equal as values.
fn meaning(request: &StartRequest) -> Digest {
    let trigger = match canonical(&request.trigger) {
        Ok(text) => Digest::of(text.as_bytes()),
        // Such a trigger is refused before its digest is used.
        Err(_) => Digest::of(request.trigger.as_bytes()),
    };
    match request.asked {
        Some(asked) => Digest::of(format!("{asked} {trigger}").as_bytes()),
        None => trigger,
    }
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
    /// The same request id was used with another trigger, or for another fork or graph.
    RequestIdReused {
        /// The run that holds it.
        run: RunId,
    },
    /// SQL has asked for a run under the same request id, and was refused: a dead letter holds it.
    RequestRefused {
        /// The id of the letter.
        run: RunId,
        /// Why it was refused.
        reason: Box<str>,
    },
    /// The trigger does not fit the definition's schema; each problem with its place.
    TriggerInvalid(Vec<(String, String)>),
    /// An object in the trigger has a key twice.
    TriggerRepeatsKey(RepeatedKey),
    /// The trigger is not JSON.
    TriggerNotJson(String),
    /// The trigger is larger than allowed; carries its size.
    TriggerTooLarge(usize),
    /// The trigger is nested deeper than this.
    TriggerTooDeep(usize),
    /// The definition's `triggerSchema` is not a usable JSON Schema.
    SchemaInvalid(String),
    /// The key of the definition's `concurrency` cannot be evaluated, or is no scalar.
    ConcurrencyKey(KeyError),
    /// A name in the request cannot be one.
    NameInvalid {
        /// Which, as the request calls it.
        what: &'static str,
        /// What it must be.
        problem: String,
    },
    /// The variables at the start have more bytes together than they may; carries how many.
    VarsLimit(u64),
    /// The `triggerSchema` expands to more than a schema may, or checking this trigger against
    /// it would take too much work.
    SchemaLimit(String),
    /// The trigger could not be checked in time, because others are: it may be sent again.
    Busy,
    /// A variable was given that the definition does not declare.
    UnknownVariable(Box<str>),
    /// The catalogue has no such workflow, or not this version of it.
    UnknownWorkflow {
        /// The workflow.
        workflow: Box<str>,
        /// The version that was asked for.
        version: Option<u32>,
    },
    /// New runs of the workflow are refused.
    Disabled {
        /// The workflow.
        workflow: Box<str>,
    },
    /// The definition in the catalogue cannot be used by this program.
    Definition(String),
    /// The store failed.
    Store(windlass_store::Error),
    /// The engine has stopped.
    Stopped,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequestRefused { run, reason } => write!(
                f,
                "the request id belongs to a start by SQL that was refused and is dead letter {run} \
                 ({reason}); requeue the letter, or purge it, which frees the request id"
            ),
            Self::RequestIdReused { run } => write!(
                f,
                "the request id was used for something else, by run {run}: with another trigger, or \
                 for another fork or graph; use another id"
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
                "the trigger has {size} bytes; it may have {}",
                limits().payload_bytes
            ),
            Self::TriggerTooDeep(deepest) => {
                write!(f, "the trigger is nested deeper than {deepest}")
            }
            Self::SchemaInvalid(reason) => {
                write!(f, "the triggerSchema is not a usable JSON Schema: {reason}")
            }
            Self::NameInvalid { what, problem } => write!(f, "{what}: {problem}"),
            Self::VarsLimit(bytes) => write!(
                f,
                "the variables have {bytes} bytes together; they may have {}",
                limits().values.vars_bytes
            ),
            Self::SchemaLimit(reason) => write!(f, "the triggerSchema: {reason}"),
            Self::Busy => f.write_str("too many triggers are being checked; start it again later"),
            Self::ConcurrencyKey(error) => write!(f, "the key of the concurrency: {error}"),
            Self::UnknownVariable(name) => {
                write!(f, "the definition declares no variable '{name}'")
            }
            Self::UnknownWorkflow {
                workflow,
                version: Some(version),
            } => write!(f, "workflow '{workflow}' has no version {version}"),
            Self::UnknownWorkflow { workflow, .. } => {
                write!(f, "there is no workflow '{workflow}'")
            }
            Self::Disabled { workflow } => write!(f, "workflow '{workflow}' is disabled"),
            Self::Definition(reason) => write!(f, "the definition cannot be used: {reason}"),
            Self::Store(error) => error.fmt(f),
            Self::Stopped => f.write_str("the engine has stopped"),
        }
    }
}

impl std::error::Error for StartError {}

impl StartError {
    /// The code of what is wrong; a store's failure has its own codes.
    pub fn code(&self) -> Option<&'static str> {
        Some(match self {
            Self::RequestIdReused { .. } | Self::RequestRefused { .. } => "REQUEST_ID_REUSED",
            Self::TriggerInvalid(_) | Self::TriggerRepeatsKey(_) => "TRIGGER_INVALID",
            Self::TriggerNotJson(_) => "TRIGGER_NOT_JSON",
            Self::TriggerTooLarge(_) => "TRIGGER_TOO_LARGE",
            Self::TriggerTooDeep(_) => "NESTING_LIMIT",
            Self::SchemaInvalid(_) => "SCHEMA_INVALID",
            Self::NameInvalid { .. } => "NAME_INVALID",
            Self::VarsLimit(_) => "VARS_LIMIT",
            Self::SchemaLimit(_) => "SCHEMA_LIMIT",
            Self::Busy => "CHECKS_BUSY",
            Self::ConcurrencyKey(_) => "CONCURRENCY_KEY_INVALID",
            Self::UnknownVariable(_) => "VARIABLE_UNKNOWN",
            Self::UnknownWorkflow { .. } => "WORKFLOW_NOT_FOUND",
            Self::Disabled { .. } => "WORKFLOW_DISABLED",
            Self::Definition(_) => "DEFINITION_UNREADABLE",
            Self::Stopped => "ENGINE_STOPPED",
            Self::Store(_) => return None,
        })
    }
}

/// Checks a trigger against its limits and the definition's schema.
///
/// # Errors
/// What does not fit, all of it.
pub fn check_trigger(plan: &Plan, trigger: &str) -> Result<(), StartError> {
    Ok(check_payload(trigger, plan.trigger_schema())?)
}

/// The error of a payload as one of a trigger.
impl From<PayloadError> for StartError {
    fn from(error: PayloadError) -> Self {
        match error {
            PayloadError::TooLarge(size) => Self::TriggerTooLarge(size),
            PayloadError::TooDeep(deepest) => Self::TriggerTooDeep(deepest),
            PayloadError::NotJson(reason) => Self::TriggerNotJson(reason),
            PayloadError::RepeatsKey(repeated) => Self::TriggerRepeatsKey(repeated),
            PayloadError::Invalid(problems) => Self::TriggerInvalid(problems),
            PayloadError::SchemaInvalid(reason) => Self::SchemaInvalid(reason),
            PayloadError::SchemaLimit(reason) => Self::SchemaLimit(reason),
            PayloadError::Busy => Self::Busy,
        }
    }
}

/// What stands for the digest of the trigger in a claim that SQL has made.
const UNCHECKED_TRIGGER: &str = "*";

/// The value of the claim on a request id.
pub(crate) fn claim_value(run: RunId, request: &StartRequest) -> Vec<u8> {
    format!("{run} {}", meaning(request)).into_bytes()
}

impl Engine {
    /// The run that holds a request id, if it was asked for in the same way. A start by SQL that
    /// was refused holds its request id too, and is no run.
    pub(crate) async fn existing(
        &self,
        claim: &[u8],
        request: &StartRequest,
    ) -> Result<Started, StartError> {
        let held = existing(claim, request);
        let (Ok(Started { run, .. }) | Err(StartError::RequestIdReused { run })) = &held else {
            return held;
        };
        let is_of_sql = claim.ends_with(format!(" {UNCHECKED_TRIGGER}").as_bytes());
        if !is_of_sql || self.store().head(*run).await.map_err(StartError::Store)? != Head::NONE {
            return held;
        }
        match self.store().dead_letter(*run).await {
            Ok(None) => held,
            Ok(Some(letter)) => Err(StartError::RequestRefused {
                run: *run,
                reason: letter.reason,
            }),
            Err(error) => Err(StartError::Store(error)),
        }
    }
}

/// The run that holds a request id, if it was asked for in the same way.
fn existing(claim: &[u8], request: &StartRequest) -> Result<Started, StartError> {
    let digest = meaning(request).to_string();
    let unreadable = || {
        StartError::Store(windlass_store::Error::Unavailable(
            "the claim on the request id is unreadable".into(),
        ))
    };
    let text = std::str::from_utf8(claim).map_err(|_| unreadable())?;
    let (run, first) = text.split_once(' ').ok_or_else(unreadable)?;
    let run: RunId = run.parse().map_err(|_| unreadable())?;
    // The run was asked for by SQL, and its trigger is not checked yet.
    if first == digest || first == UNCHECKED_TRIGGER {
        Ok(Started {
            run,
            existing: true,
        })
    } else {
        Err(StartError::RequestIdReused { run })
    }
}
