//! What a run means: definitions, plans, routing, and the pure state machine of a run.
//!
//! Nothing here is asynchronous, reads a clock, draws a random number, stores
//! anything or speaks HTTP: time, identifiers and randomness are arguments.
//!
//! # A tour
//!
//! A definition becomes a plan, a plan becomes a run, and everything that happens to
//! the run is decided, recorded and applied, in this order:
//!
//! ```
//! use std::collections::{BTreeMap, BTreeSet};
//! use std::sync::Arc;
//! use windlass_core::event::{Event, Queued, RULES, Transition};
//! use windlass_core::plan::Plan;
//! use windlass_core::run::{Evaluations, Facts, Input, Outcome, Report, Run, ValueLimits, Values, decide};
//! use windlass_core::value::Payload;
//! use windlass_core::{Digest, Millis, NodeStatus, RunId, RunStatus};
//!
//! // Define.
//! let text = r#"{ "id": "greet", "nodes": [
//!     { "id": "ask", "actionType": "prompt", "edges": [{ "targetNode": "answer" }] },
//!     { "id": "answer", "actionType": "print" } ] }"#;
//! let plan = Arc::new(Plan::build(serde_json::from_str(text)?)?);
//!
//! // Start: the first record says what was asked for.
//! let now = Millis(0);
//! let id = RunId::new(now, [1; 10]);
//! let queued = Queued {
//!     rules: RULES,
//!     workflow: "greet".into(),
//!     version: 1,
//!     definition: Digest::of(text.as_bytes()),
//!     request_id: "request-1".into(),
//!     tenant: None,
//!     correlation_id: "request-1".into(),
//!     priority: 5,
//!     labels: BTreeMap::new(),
//!     trigger: Payload::null().stored(),
//!     vars: BTreeMap::new(),
//!     parent: None,
//!     depth: 0,
//!     origin: None,
//!     frozen: false,
//!     gate: None,
//!     traceparent: None,
//!     partition: 0,
//!     defaults: None,
//! };
//! let mut run = Run::new(id, Arc::clone(&plan), queued.clone(), now)?;
//! let events = vec![Event::Queued(Box::new(queued.clone())), Event::Started {}];
//! let mut log = vec![Transition { at: now, events }];
//! run.apply_record(&log[0], &mut Vec::new())?;
//!
//! // Complete: a worker reports, `decide` says what follows, the log records it, and
//! // `apply` makes it so. What the run asks for next is decided in the same way.
//! let (values, running) = (Values::default(), BTreeSet::new());
//! let limits = &ValueLimits::DEFAULT;
//! let evaluations = &Evaluations::default();
//! let facts = Facts { now, seed: 0, values: &values, running: &running, limits, evaluations };
//! let node = plan.index("ask").ok_or("no such node")?;
//! let report = Box::new(Report {
//!     started: now,
//!     ended: now,
//!     worker: "worker-1".into(),
//!     outcome: Outcome::Succeeded(Payload::new("\"hello\"")),
//!     parameters: None,
//!     meta: None,
//!     resources: Vec::new(),
//!     files: Vec::new(),
//!     lease: None,
//!     completed: false,
//! });
//! let input = Input::Ended { node, attempt: 1, report };
//! let decision = decide(&run, &input, &facts).map_err(|refusal| refusal.to_string())?;
//! log.push(Transition { at: now, events: decision.events });
//! run.apply_record(&log[1], &mut Vec::new())?;
//! assert_eq!(run.node_status(node), NodeStatus::Succeeded);
//! assert_eq!(run.node_status(1), NodeStatus::Queued);
//! assert_eq!(run.pending_decision(), None);
//!
//! // The same report again is refused: an attempt has one recorded outcome.
//! assert!(decide(&run, &input, &facts).is_err());
//!
//! // Replay: folding the log gives the same state. Recovery is nothing else.
//! let mut recovered = Run::new(id, plan, queued, now)?;
//! for record in &log {
//!     recovered.apply_record(record, &mut Vec::new())?;
//! }
//! assert_eq!(recovered.status(), RunStatus::Running);
//! assert_eq!(recovered.ancestry(node), run.ancestry(node));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod command;
pub mod concurrency;
pub mod defaults;
pub mod definition;
pub mod event;
pub mod id;
pub mod name;
pub mod partial_decode;
pub mod plan;
pub mod printable;
pub mod routing;
pub mod run;
pub mod status;
mod time;
pub mod trace;
pub mod value;

pub use id::{Digest, DigestOfParts, Millis, RunId};
pub use status::{NodeStatus, RunStatus};
