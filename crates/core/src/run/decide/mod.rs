//! What follows from an input: events, or a refusal that leaves the state untouched.
//!
//! `wants` says which stored values a decision needs, from static references; the
//! caller loads them and hands them in as facts. A missing value is a bug.

mod advance;
mod attempt;
mod child;
mod control;
mod evaluations;
mod heal;
mod open;
mod route;
mod set_result;
mod settle;
mod signal;
mod undo;

pub use route::SWITCH_UNMATCHED;
pub use settle::DEAD_LETTERED;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use std::sync::Arc;

use super::environment::Values;
use super::{ChildEnd, FrameKey, Instance, Run};
use crate::command::{Command, RunCommand};
use crate::event::{Actor, After, Event, RequestKey, ResourceLink};
use crate::id::{Digest, Millis};
use crate::plan::Plan;
use crate::status::RunStatus;
use crate::value::{MAX_NESTING, Payload, StoredFile, ValueRef};
use windlass_expr::ExpressionLimits;

pub use evaluations::Evaluations;
pub(crate) use heal::heals;

/// How long work that is asked to stop may take to do so.
pub const GRACE_MS: u64 = 10_000;

/// How large what a run makes may be. Past each limit comes an error with its own code.
#[derive(Clone, Copy, Debug)]
pub struct ValueLimits {
    /// Bytes of an output, of a node or of a run.
    pub output_bytes: usize,
    /// Bytes of all outputs of a run together.
    pub outputs_bytes: u64,
    /// Bytes of all variables of a run together, their names included.
    pub vars_bytes: u64,
    /// The longest wait, in milliseconds, that an action may ask for before its next attempt.
    pub retry_after_ms: u64,
    /// How deep values may sit inside one another; at most [`MAX_NESTING`].
    pub nesting: usize,
    /// The limits of each evaluation and rendering.
    pub expressions: ExpressionLimits,
}

impl ValueLimits {
    /// The limits that apply unless the configuration sets others.
    pub const DEFAULT: Self = Self {
        output_bytes: 10 * 1024 * 1024,
        outputs_bytes: 1024 * 1024 * 1024,
        vars_bytes: 16 * 1024 * 1024,
        retry_after_ms: 60 * 60 * 1000,
        nesting: MAX_NESTING,
        expressions: ExpressionLimits::DEFAULT,
    };
}

impl Default for ValueLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What reaches a run.
#[derive(Clone, Debug)]
pub enum Input {
    /// Begin: the run was only requested so far.
    Begin,
    /// A worker reports the end of an attempt.
    Ended {
        /// The node instance that the attempt belongs to.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
        /// How it ended.
        report: Box<Report>,
    },
    /// An attempt is still with a worker after a while.
    StillRunning {
        /// The node instance that the attempt belongs to.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
        /// When it started.
        started: Millis,
        /// The worker that has it.
        worker: Box<str>,
    },
    /// Something that the run itself must decide next.
    Pending(PendingDecision),
    /// The grace of a stop is over.
    GraceEnded,
    /// The run's own time is over.
    TimedOut,
    /// The time of the run that started it is over, and with it that of this one.
    TimedOutAbove(Actor),
    /// An operator has purged the run's dead letter.
    Abandon {
        /// Why it was a dead letter.
        reason: Box<str>,
        /// Who purged it, and why.
        actor: Actor,
    },
    /// A delay, a wait or a backoff of this attempt is over.
    Due {
        /// The node instance that waited.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
    },
    /// A child run ended.
    ChildEnded {
        /// The node that started it, or that undoes it.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
        /// How it ended.
        end: Box<ChildEnd>,
    },
    /// A child run could not be started, or is gone.
    ChildFailed {
        /// The node that started it.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
        /// Why the child did not start, or what became of it.
        failure: Box<Failure>,
    },
    /// A caller asks something of the run.
    Command(Box<Command>),
    /// A newer version of the workflow was published.
    Heal {
        /// The number of the published version.
        version: u32,
        /// Digest of its definition.
        definition: Digest,
        /// Its graph.
        plan: Arc<Plan>,
    },
    /// Another process has taken the run over.
    Recover(Recovery),
}

/// What is known when a process takes a run over.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// What became of the process before.
    pub after: After,
    /// The nodes whose workers live outside the process that had the run.
    pub remote: Vec<Instance>,
}

impl From<After> for Recovery {
    fn from(after: After) -> Self {
        Self {
            after,
            remote: Vec::new(),
        }
    }
}

impl Input {
    /// A command with nothing beside it.
    pub fn command(command: RunCommand<Instance>, actor: Actor) -> Self {
        Self::Command(Box::new(command.by(actor)))
    }

    /// The idempotency key that it comes with.
    pub fn request(&self) -> Option<&RequestKey> {
        match self {
            Self::Command(command) => command.actor.request.as_deref(),
            _ => None,
        }
    }

    /// The graph that it brings, by the digest of its definition.
    pub fn graph(&self) -> Option<(Digest, &Arc<Plan>)> {
        match self {
            Self::Heal {
                definition, plan, ..
            } => Some((*definition, plan)),
            Self::Command(command) => command.graph().map(|graph| (graph.definition, &graph.plan)),
            _ => None,
        }
    }
}

impl From<Command> for Input {
    fn from(command: Command) -> Self {
        Self::Command(Box::new(command))
    }
}

/// What a run must decide before it takes another input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingDecision {
    /// Ask the conditions of an ended node's edges.
    Route(Instance),
    /// Stop a scope, because a failure in it under the fail-fast policy was not routed.
    Stop(FrameKey),
    /// Evaluate the output of an iteration.
    SettleBody(FrameKey),
    /// Ask a loop whether it goes round again.
    Advance(Instance),
    /// Begin a loop, a wait or a child run.
    Open(Instance),
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
    /// Bytes that it stored beside its output.
    pub files: Vec<StoredFile>,
    /// The lease of a worker of another process.
    pub lease: Option<Box<str>>,
    /// Whether that worker reported success, although the outcome is a failure: its process made
    /// one of an output that cannot be kept.
    pub completed: bool,
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
    /// It stopped because it was asked to: the node is Cancelled without waiting for the grace.
    Stopped,
}

/// An error, as it is stored and shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Its code.
    pub code: Box<str>,
    /// What went wrong, as a sentence.
    pub message: Box<str>,
    /// Whether another attempt might succeed.
    pub retriable: bool,
    /// What else is known, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<RawValue>>,
    /// The earliest sensible time of another attempt.
    #[serde(skip)]
    pub retry_after_ms: Option<u64>,
    /// The wait before the next attempt, as a strategy of the caller's own has computed it where
    /// the attempt ran: it replaces that of the policy.
    #[serde(skip)]
    pub retry_delay_ms: Option<u64>,
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
            retry_delay_ms: None,
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
    /// The values that `wants` names.
    pub values: &'a Values,
    /// The nodes that are with a worker.
    pub running: &'a BTreeSet<Instance>,
    /// How large what is decided may be. What was decided stands, whatever holds later.
    pub limits: &'a ValueLimits,
    /// What was evaluated so far, and how much more may be.
    pub evaluations: &'a Evaluations,
}

impl Facts<'_> {
    /// A number between 0 and 1 for jitter: the upper 53 bits of the seed.
    fn fraction(&self) -> f64 {
        (self.seed >> 11) as f64 / (1u64 << 53) as f64
    }
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

/// Why an input changed nothing. Its JSON travels between processes that share a store, and is
/// not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// The attempt has ended, or was given up: its late result is refused.
    NotOpen,
    /// The run has ended.
    RunEnded,
    /// The run is not in the state that the command needs; the sentence says which.
    NotNow(Cow<'static, str>),
    /// Reattempt: these nodes cannot be tried again, because their last attempt is
    /// neither Failed nor Cancelled.
    NotFailed(Vec<Instance>),
    /// Reattempt: these nodes after it are running or have succeeded, or were cancelled before it.
    InTheWay(Vec<Instance>),
    /// Reattempt: there is nothing to try again.
    NothingToReattempt,
    /// Reattempt: compensation has begun.
    Compensated,
    /// Signal: no node of the graph waits for one of this name.
    UnknownSignal(Box<str>),
    /// The graph cannot be exchanged for the one that was brought.
    Incompatible(Box<str>),
    /// The idempotency key was used for another command on this run.
    KeyReused(Box<str>),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownSignal(name) => {
                return write!(f, "no node of the run waits for a signal '{name}'");
            }
            Self::Incompatible(why) => why,
            Self::KeyReused(key) => {
                return write!(
                    f,
                    "the idempotency key '{key}' was used for another command on this run; \
                     use a new key for each command"
                );
            }
            Self::Compensated => {
                "compensation has begun, and what was undone cannot be tried again"
            }
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
pub fn required_values(run: &Run, input: &Input) -> Vec<ValueRef> {
    let mut required = Vec::new();
    match input {
        Input::Pending(pending_decision) if !run.asks_for(*pending_decision) => {}
        Input::Ended { node, .. } => run.require_for_attempt(*node, &mut required),
        Input::Command(command) => match &command.command {
            RunCommand::SetResult { node } | RunCommand::Skip { node } => {
                run.require_for_attempt(*node, &mut required);
            }
            RunCommand::Signal { name } => run.require_for_signal(name, &mut required),
            _ => {}
        },
        Input::Due { node, .. } | Input::Pending(PendingDecision::Open(node)) => {
            run.require_for_opening(*node, &mut required);
        }
        Input::ChildEnded { node, .. } => run.require_for_child(*node, &mut required),
        Input::Pending(PendingDecision::Route(node)) => {
            run.require_for_routing(*node, &mut required)
        }
        Input::Pending(PendingDecision::Advance(node)) => {
            run.require_for_advance(*node, &mut required)
        }
        Input::Pending(PendingDecision::SettleBody(frame)) => {
            run.require_for_output(*frame, &mut required)
        }
        Input::Pending(PendingDecision::Settle) => run.require_for_end(&mut required),
        _ => {}
    }
    required
}

/// Decides on an input. A request whose key is known is answered already: no event follows.
///
/// # Errors
/// A refusal; nothing has changed.
pub fn decide(run: &Run, input: &Input, facts: &Facts<'_>) -> Result<Decision, Refusal> {
    if let Some(request) = input.request()
        && run.answer_to(request)?.is_some()
    {
        return Ok(Decision::default());
    }
    let reopens = match input {
        Input::Command(command) => {
            let imports = matches!(command.command, RunCommand::Import);
            let takes_a_graph = imports && run.status() == RunStatus::Failed;
            takes_a_graph || command.command.reopens() || command.command.undoes()
        }
        _ => false,
    };
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
        Input::Pending(pending_decision) if !run.asks_for(*pending_decision) => {
            Err(Refusal::NotNow("the run does not ask for it".into()))
        }
        Input::Pending(pending_decision) => Ok(decide_pending(run, *pending_decision, facts)),
        Input::GraceEnded => run.decide_grace_ended(facts),
        Input::TimedOut => run.decide_timed_out(facts),
        Input::TimedOutAbove(actor) => run.decide_timed_out_above(actor, facts),
        Input::Abandon { reason, actor } => Ok(run.decide_abandon(reason, actor, facts)),
        Input::Due { node, attempt } => run.decide_due(*node, *attempt, facts),
        Input::Command(command) => decide_command(run, command, facts),
        Input::ChildEnded { node, attempt, end } => {
            run.decide_child_ended(*node, *attempt, end, facts)
        }
        Input::ChildFailed {
            node,
            attempt,
            failure,
        } => run.decide_child_failed(*node, *attempt, failure, facts),
        Input::Heal {
            version,
            definition,
            plan,
        } => run.decide_heal(*version, *definition, plan),
        Input::Recover(recovery) => Ok(run.decide_recover(recovery, facts)),
    }
}

fn decide_command(run: &Run, command: &Command, facts: &Facts<'_>) -> Result<Decision, Refusal> {
    let actor = &command.actor;
    match &command.command {
        RunCommand::Cancel { compensate } => run.decide_cancel(actor, *compensate, facts),
        RunCommand::Pause => run.decide_pause(actor),
        RunCommand::Resume => run.decide_resume(actor),
        RunCommand::Reattempt { nodes } => run.decide_reattempt(nodes, actor),
        RunCommand::Signal { name } => run.decide_signal(name, &command.value(), actor, facts),
        RunCommand::SetResult { node } => {
            run.decide_set_result(*node, Some(&command.value()), actor, facts)
        }
        RunCommand::Skip { node } => run.decide_set_result(*node, None, actor, facts),
        RunCommand::Compensate => run.decide_compensate(actor),
        RunCommand::RetryCompensation { nodes } => run.decide_retry_undo(nodes, actor),
        RunCommand::SkipCompensation { nodes } => run.decide_skip_undo(nodes, actor),
        RunCommand::Import => match command.graph() {
            Some(graph) => run.decide_import(graph.definition, &graph.plan, actor),
            None => Err(Refusal::Incompatible("there is no graph to import".into())),
        },
    }
}

fn decide_pending(run: &Run, pending_decision: PendingDecision, facts: &Facts<'_>) -> Decision {
    match pending_decision {
        PendingDecision::Route(node) => run.decide_route(node, facts),
        PendingDecision::Stop(frame) => run.decide_stop(frame, facts),
        PendingDecision::SettleBody(frame) => run.decide_settle_body(frame, facts),
        PendingDecision::Advance(node) => run.decide_advance(node, facts),
        PendingDecision::Open(node) => run.decide_open(node, facts),
        PendingDecision::Settle => run.decide_settle(facts),
    }
}
