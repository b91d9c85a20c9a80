//! What follows from an input: events, or a refusal that leaves the state untouched.
//!
//! `wants` says which stored values a decision needs, from static references; the
//! caller loads them and hands them in as facts. A missing value is a bug.

mod attempt;
mod control;
mod route;
mod settle;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Run;
use super::environment::Values;
use crate::event::{Event, Hand, ResourceLink};
use crate::id::Millis;
use crate::plan::NodeIndex;
use crate::value::{Payload, ValueRef};

/// How long work that is told to stop may take to do so.
pub const GRACE_MS: u64 = 10_000;

/// The largest output of a node, or of a run.
pub const OUTPUT_LIMIT_BYTES: usize = 10 * 1024 * 1024;

/// All outputs of a run together.
pub const RUN_OUTPUTS_LIMIT_BYTES: u64 = 1024 * 1024 * 1024;

/// What reaches a run.
#[derive(Clone, Debug)]
pub enum Input {
    /// Begin: the run was only asked for so far.
    Begin,
    /// A worker reports the end of an attempt.
    Ended {
        /// The node.
        node: NodeIndex,
        /// The attempt's number.
        attempt: u32,
        /// How it ended.
        report: Box<Report>,
    },
    /// An attempt is still with a worker after a while.
    StillRunning {
        /// The node.
        node: NodeIndex,
        /// The attempt's number.
        attempt: u32,
        /// When it started.
        started: Millis,
        /// Where.
        worker: Box<str>,
    },
    /// Something the run itself asked for next.
    Todo(Todo),
    /// The grace of a stop is over.
    GraceEnded,
    /// The run's own time is over.
    TimedOut,
    /// Somebody wants the run to end.
    Cancel(Hand),
    /// Somebody wants nothing to start.
    Pause(Hand),
    /// Somebody wants the run to go on.
    Resume(Hand),
    /// Somebody wants nodes tried again; empty means every one that can be.
    Reattempt(Vec<NodeIndex>, Hand),
    /// Another process has taken the run over.
    Recover,
}

/// What a run must decide before it takes another input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Todo {
    /// Ask the conditions of an ended node's edges.
    Route(NodeIndex),
    /// Stop, because a failure under the fail-fast policy was not routed.
    Stop,
    /// End: nothing is ready, running or waiting.
    Settle,
}

/// What a worker says of an attempt.
#[derive(Clone, Debug)]
pub struct Report {
    /// When it started.
    pub started: Millis,
    /// When it ended.
    pub ended: Millis,
    /// Where it ran.
    pub worker: Box<str>,
    /// How it ended.
    pub outcome: Outcome,
    /// The parameters as rendered, secrets redacted.
    pub parameters: Option<Payload>,
    /// What the action reports about how it ran.
    pub meta: Option<Box<RawValue>>,
    /// Links to what the action made elsewhere.
    pub resources: Vec<ResourceLink>,
}

/// How an action ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// With an output.
    Succeeded(Payload),
    /// With an error.
    Failed(Failure),
    /// There was nothing to do.
    Skipped,
    /// It was told to stop, and did: the node is Cancelled without waiting for the grace.
    Stopped,
}

/// An error, as it is stored and shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Its code.
    pub code: Box<str>,
    /// A sentence.
    pub message: Box<str>,
    /// Whether another attempt might succeed.
    pub retriable: bool,
    /// What else is known, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<RawValue>>,
    /// The earliest sensible time of another attempt.
    #[serde(skip)]
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// An error that another attempt will not mend.
    pub fn permanent(code: &str, message: impl Into<Box<str>>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            retriable: false,
            details: None,
            retry_after_ms: None,
        }
    }

    /// The error as JSON.
    pub fn payload(&self) -> Payload {
        // A struct of strings and raw JSON always serialises.
        Payload::new(serde_json::to_string(self).unwrap_or_else(|_| "null".to_owned()))
    }
}

/// What a decision may rest on besides the state.
pub struct Facts<'a> {
    /// The time of the decision.
    pub now: Millis,
    /// Randomness for jitter.
    pub seed: u64,
    /// What `wants` asked for.
    pub values: &'a Values,
    /// The nodes that are with a worker.
    pub running: &'a BTreeSet<NodeIndex>,
}

/// Events to append, and values that they refer to and that are not stored yet.
#[derive(Debug, Default)]
pub struct Decision {
    /// What happened.
    pub events: Vec<Event>,
    /// Values too large to stand in the record.
    pub blobs: Vec<Payload>,
}

impl Decision {
    fn of(event: Event) -> Self {
        Self {
            events: vec![event],
            blobs: Vec::new(),
        }
    }

    /// The stored form of a value; a large one is kept for the append.
    fn store(&mut self, payload: &Payload) -> crate::value::Stored {
        let stored = payload.stored();
        if matches!(stored, crate::value::Stored::Blob { .. }) {
            self.blobs.push(payload.clone());
        }
        stored
    }

    fn warn(&mut self, node: Option<&str>, code: &str, message: String) {
        self.events.push(Event::Warning {
            node: node.map(Into::into),
            code: code.into(),
            message: message.into(),
        });
    }
}

/// Why an input changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The attempt has ended, or was given up: its late result is refused.
    NotOpen,
    /// The run has ended.
    RunEnded,
    /// The run is not in the state that the command needs; the sentence says which.
    NotNow(&'static str),
    /// Reattempt: these nodes cannot be tried again, because their last attempt is
    /// neither Failed nor Cancelled.
    NotFailed(Vec<NodeIndex>),
    /// Reattempt: these nodes after it are running or have succeeded, or were let go
    /// before it.
    InTheWay(Vec<NodeIndex>),
    /// Reattempt: there is nothing to try again.
    NothingToReattempt,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOpen => "the attempt is not open",
            Self::RunEnded => "the run has ended",
            Self::NotNow(why) => why,
            Self::NotFailed(_) => "only a failed or cancelled node can be tried again",
            Self::InTheWay(_) => "nodes are in the way",
            Self::NothingToReattempt => {
                "no node is cancelled, or failed without its failure being handled"
            }
        })
    }
}

/// The stored values that deciding on this input needs.
pub fn wants(run: &Run, input: &Input) -> Vec<ValueRef> {
    let mut wants = Vec::new();
    match input {
        Input::Ended { node, .. } => run.want_for_attempt(*node, &mut wants),
        Input::Todo(Todo::Route(node)) => run.want_for_routing(*node, &mut wants),
        Input::Todo(Todo::Settle) => run.want_for_end(&mut wants),
        _ => {}
    }
    wants
}

/// Decides on an input.
///
/// # Errors
/// A refusal; nothing has changed.
pub fn decide(run: &Run, input: &Input, facts: &Facts<'_>) -> Result<Decision, Refusal> {
    let reopens = matches!(input, Input::Reattempt(..));
    if run.status().is_final() && !reopens {
        return Err(match input {
            Input::Ended { .. } | Input::StillRunning { .. } => Refusal::NotOpen,
            _ => Refusal::RunEnded,
        });
    }
    match input {
        Input::Begin => run.decide_begin(),
        Input::Ended {
            node,
            attempt,
            report,
        } => run.decide_ended(*node, *attempt, report, facts),
        Input::StillRunning {
            node,
            attempt,
            started,
            worker,
        } => run.decide_still_running(*node, *attempt, *started, worker),
        Input::Todo(Todo::Route(node)) => Ok(run.decide_route(*node, facts)),
        Input::Todo(Todo::Stop) => Ok(run.decide_stop(facts)),
        Input::Todo(Todo::Settle) => Ok(run.decide_settle(facts)),
        Input::GraceEnded => run.decide_grace_ended(facts),
        Input::TimedOut => run.decide_timed_out(facts),
        Input::Cancel(hand) => run.decide_cancel(hand, facts),
        Input::Pause(hand) => run.decide_pause(hand),
        Input::Resume(hand) => run.decide_resume(hand),
        Input::Reattempt(nodes, hand) => run.decide_reattempt(nodes, hand),
        Input::Recover => Ok(Decision::of(Event::Recovered {})),
    }
}
