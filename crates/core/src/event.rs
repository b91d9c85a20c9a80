//! What happened: the events that records hold. This is the stored form, dense and
//! stable; what people read is derived from it in `history`.
//!
//! Routing that needs no evaluation is not stored: `apply` computes it. The first
//! event names the version of the rules by which it does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::defaults::Defaults;
use crate::id::{Digest, Millis, RunId};
use crate::run::with_name;
use crate::status::RunStatus;
use crate::value::{Stored, StoredFile};

/// The version of the rules that this code applies. Under version 1, a node that had succeeded
/// and was taken back for another attempt was not undone any more. Under version 2, a node
/// that a new graph did not have let the next level of the old graph begin.
pub const RULES: u32 = 3;

/// A transition of a run: what was decided together, and when.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Transition {
    /// The time of the decision.
    pub at: Millis,
    /// What happened, in order.
    pub events: Vec<Event>,
}

/// Something that happened to a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event {
    /// The run was requested.
    Queued(Box<Queued>),
    /// The run began; its entries are ready.
    Started {},
    /// An attempt is still with a worker after a while.
    AttemptStarted(Box<AttemptStarted>),
    /// An attempt ended.
    AttemptEnded(Box<AttemptEnded>),
    /// Conditions of a node's outgoing edges were evaluated.
    Routed {
        /// The path of the node whose edges these are.
        node: Box<str>,
        /// Which of its outgoing edges that needed evaluation were taken, by their
        /// place among all its outgoing edges.
        taken: Vec<u32>,
    },
    /// A loop over items began: how many there are, and what they are.
    Expanded {
        /// The loop.
        node: Box<str>,
        /// Its attempt.
        attempt: u32,
        /// How many items.
        count: u32,
        /// The list.
        items: Stored,
    },
    /// A loop goes round: this iteration begins, now or at a time.
    Looped {
        /// The loop.
        node: Box<str>,
        /// The iteration, from 0.
        iteration: u32,
        /// When it begins, where that is not now; then another such event begins it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Millis>,
    },
    /// An iteration ended with a result that had to be evaluated.
    IterationEnded {
        /// The loop.
        node: Box<str>,
        /// The iteration, from 0.
        iteration: u32,
        /// Its output or error.
        result: IterationResult,
    },
    /// A delay or a wait for a signal began.
    Waiting {
        /// The path of the node that waits.
        node: Box<str>,
        /// The number of the attempt that waits.
        attempt: u32,
        /// When it is over; a wait for a signal may have no end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Millis>,
    },
    /// A signal came: a node waits for it, or the run keeps it.
    SignalReceived(Box<SignalReceived>),
    /// A child run is to be started.
    ChildStarted(Box<ChildStarted>),
    /// The run starts nothing new, and asks running work to stop.
    Stopping(Box<Stopping>),
    /// The grace is over: what still ran is given up.
    GraceEnded {
        /// The scopes whose grace ended by this time; without it, all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Millis>,
    },
    /// Nothing starts until the run is resumed.
    Paused(Actor),
    /// The run goes on.
    Resumed(Actor),
    /// A request with an idempotency key was accepted, and there was nothing to do: a resume of
    /// a run that is not paused. It is recorded so that the key is known.
    Accepted(Actor),
    /// Nodes are tried again by hand.
    Reattempted {
        /// Their paths.
        nodes: Vec<Box<str>>,
        /// Who asked for it, and why.
        #[serde(flatten)]
        actor: Actor,
    },
    /// A node's result was given by hand.
    SetByHand(Box<SetByHand>),
    /// Results of the run that this one was forked from.
    Reused(Vec<ReusedNode>),
    /// The run's successes are undone, in reverse order; the run ends after that.
    Compensating {
        /// How the run ends then, but for the compensation's own outcome.
        ending: Box<Finished>,
        /// Who asked, and why; empty if no request led to it.
        #[serde(flatten)]
        actor: Actor,
    },
    /// An attempt to undo a node ended.
    CompensationEnded(Box<AttemptEnded>),
    /// Nodes whose undoing failed are undone again by hand.
    CompensationRetried {
        /// Their paths.
        nodes: Vec<Box<str>>,
        /// Who asked for it, and why.
        #[serde(flatten)]
        actor: Actor,
    },
    /// Nodes are not undone, by hand.
    CompensationSkipped {
        /// Their paths.
        nodes: Vec<Box<str>>,
        /// Who asked for it, and why.
        #[serde(flatten)]
        actor: Actor,
    },
    /// The run follows a newer version of its workflow.
    Healed {
        /// The number of the version that the run follows now.
        version: u32,
        /// Digest of its definition.
        definition: Digest,
    },
    /// The run's graph was replaced by hand; it follows no version any more.
    Imported {
        /// Digest of the new definition.
        definition: Digest,
        /// Who asked for it, and why.
        #[serde(flatten)]
        actor: Actor,
    },
    /// Another process recovered the run: every open attempt may be started again.
    Recovered {
        /// What became of the one before.
        #[serde(default, skip_serializing_if = "After::is_death")]
        after: After,
        /// Attempts that the run asked to stop and whose workers, outside the process, may live.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace: Option<Box<Grace>>,
    },
    /// A checkpoint was taken: it stands for the log up to this record.
    Checkpointed {},
    /// Something that people should know.
    Warning {
        /// The node it is about, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<Box<str>>,
        /// Its code.
        code: Box<str>,
        /// What the warning is about, as a sentence.
        message: Box<str>,
    },
    /// The run ended.
    Finished(Box<Finished>),
}

impl Event {
    /// Who did it by hand, where it is something that is done by hand.
    pub fn actor(&self) -> Option<&Actor> {
        Some(match self {
            Self::Paused(actor) | Self::Resumed(actor) | Self::Accepted(actor) => actor,
            Self::Reattempted { actor, .. }
            | Self::Compensating { actor, .. }
            | Self::CompensationRetried { actor, .. }
            | Self::CompensationSkipped { actor, .. }
            | Self::Imported { actor, .. } => actor,
            Self::SignalReceived(signal) => &signal.actor,
            Self::SetByHand(set) => &set.actor,
            Self::Stopping(stopping) => &stopping.actor,
            _ => return None,
        })
    }

    /// Whether it gives variables of the run new values.
    pub fn sets_vars(&self) -> bool {
        match self {
            Self::AttemptEnded(ended) => !ended.vars.is_empty(),
            Self::SetByHand(set) => !set.vars.is_empty(),
            _ => false,
        }
    }

    /// Every value that stands in the event, or is named by it, and that the state may
    /// refer to: outputs, errors, parameters, lists of items, signals, parts of files.
    pub fn values(&self) -> Vec<&Stored> {
        match self {
            Self::AttemptEnded(ended) | Self::CompensationEnded(ended) => {
                let result = match &ended.result {
                    AttemptResult::Succeeded(value) | AttemptResult::Failed(value) => Some(value),
                    AttemptResult::Retrying { error, .. } => Some(error),
                    AttemptResult::Skipped {} | AttemptResult::Stopped {} => None,
                };
                let parts = ended.files.iter().flat_map(|file| &file.parts);
                let result = result.into_iter().chain(&ended.parameters);
                result.chain(parts).collect()
            }
            Self::Expanded { items, .. } => vec![items],
            Self::IterationEnded { result, .. } => match result {
                IterationResult::Succeeded(value) | IterationResult::Failed(value) => vec![value],
            },
            Self::SignalReceived(signal) => vec![&signal.payload],
            Self::ChildStarted(started) => vec![&started.input],
            Self::SetByHand(set) => vec![&set.output],
            Self::Reused(nodes) => nodes
                .iter()
                .flat_map(|node| {
                    let parts = node.files.iter().flat_map(|file| &file.parts);
                    node.output.iter().chain(parts)
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The files that the event names.
    pub fn files(&self) -> Vec<&StoredFile> {
        match self {
            Self::AttemptEnded(ended) | Self::CompensationEnded(ended) => {
                ended.files.iter().collect()
            }
            Self::Reused(nodes) => nodes.iter().flat_map(|node| &node.files).collect(),
            _ => Vec::new(),
        }
    }
}

/// What became of the process that executed a run before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum After {
    /// It died, perhaps because of an attempt that it had open.
    #[default]
    Death,
    /// It stopped in good order, or its fate is not known and does not matter.
    Stop,
    /// An operator requeued the run from the dead letters: the deaths counted so far are
    /// forgotten.
    Requeue,
}

impl After {
    fn is_death(&self) -> bool {
        *self == Self::Death
    }
}

/// Nodes that the run asked to stop; they get a new grace after their process died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grace {
    /// The node instances.
    pub nodes: Vec<Box<str>>,
    /// When it ends.
    pub deadline: Millis,
}

/// Who did something by hand, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// Who asked: the name of the caller, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Box<str>>,
    /// The reason that the caller gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    /// The request that asked for it, where the caller gave it a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<RequestKey>>,
}

/// The idempotency key of a request for a command. The run keeps the key with its answer, and a
/// request that comes again with the same key gets that answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestKey {
    /// The key, as the caller gave it.
    pub key: Box<str>,
    /// Digest of the command, which tells a repeated request from another one that uses the
    /// same key.
    pub command: Digest,
}

/// The request for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queued {
    /// The version of the routing rules.
    pub rules: u32,
    /// The workflow.
    pub workflow: Box<str>,
    /// Its version.
    pub version: u32,
    /// Digest of the definition's text.
    pub definition: Digest,
    /// Unique per tenant and workflow.
    pub request_id: Box<str>,
    /// The tenant that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Box<str>>,
    /// The id that ties it to other systems.
    pub correlation_id: Box<str>,
    /// From 0 to 9.
    pub priority: u8,
    /// Labels by which users find it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// The trigger that it was started with.
    pub trigger: Stored,
    /// Its variables at the start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vars: BTreeMap<Box<str>, Stored>,
    /// The run and node that started it, if it is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// How many runs are above it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// The run it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ForkOrigin>,
    /// Whether its graph belongs to it alone: the definition is a value, not a version.
    #[serde(default, skip_serializing_if = "is_false")]
    pub frozen: bool,
    /// The trace that the request came in, as the W3C header writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Box<str>>,
    /// The limit on how many such runs go at once, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<ConcurrencyKey>,
    /// The partition that it began in: its parent's, or by its id. The row has the one that it is
    /// in, which is another one once the run was moved to another store.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub partition: u32,
    /// What the configuration gave at the start where the definition says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Box<Defaults>>,
}

/// A concurrency key: only `limit` of the runs that share it go at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConcurrencyKey {
    /// The key; empty where all runs of the workflow share it.
    pub key: Box<str>,
    /// How many may go at once.
    pub limit: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_false(truth: &bool) -> bool {
    !truth
}

/// The run that another was forked from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkOrigin {
    /// The run.
    pub execution_id: RunId,
    /// The nodes that run again, with everything after them.
    pub nodes: Vec<Box<str>>,
    /// Who forked it, and why.
    #[serde(flatten)]
    pub actor: Actor,
}

/// How an iteration ended, where that had to be evaluated.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IterationResult {
    /// With an output.
    Succeeded(Stored),
    /// With an error.
    Failed(Stored),
}

/// A signal came.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SignalReceived {
    /// Its name.
    pub name: Box<str>,
    /// What it carries.
    pub payload: Stored,
    /// Who sent it, and why.
    #[serde(flatten)]
    pub actor: Actor,
}

/// A child run is to be started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChildStarted {
    /// The node instance.
    pub node: Box<str>,
    /// Its attempt.
    pub attempt: u32,
    /// The child.
    pub child: RunId,
    /// The child's workflow.
    pub workflow: Box<str>,
    /// Its version, if the definition names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The child's trigger.
    pub input: Stored,
}

/// A node's result was given by hand.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetByHand {
    /// The node instance.
    pub node: Box<str>,
    /// The attempt that it ends.
    pub attempt: u32,
    /// The output; null where the node is skipped.
    pub output: Stored,
    /// Whether it is shown as skipped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skipped: bool,
    /// The node's ancestry.
    pub ancestry: Digest,
    /// Variables that the node set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vars: BTreeMap<Box<str>, Stored>,
    /// Who asked for it, and why.
    #[serde(flatten)]
    pub actor: Actor,
}

/// A result of the run that this one was forked from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReusedNode {
    /// The node instance.
    pub node: Box<str>,
    /// The attempt that gave it.
    pub attempt: u32,
    /// The output; none means that the node was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Stored>,
    /// Bytes that the attempt stored beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<StoredFile>,
    /// The node's ancestry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ancestry: Option<Digest>,
    /// Which of its outgoing edges that needed evaluation were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Vec<u32>>,
}

/// The run and node instance that started a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parent {
    /// The parent run.
    pub execution_id: RunId,
    /// The node instance.
    pub node: Box<str>,
}

/// An attempt is still with a worker after a while.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttemptStarted {
    /// The node instance.
    pub node: Box<str>,
    /// The attempt's number.
    pub attempt: u32,
    /// When it started.
    pub started: Millis,
    /// The worker that has it.
    pub worker: Box<str>,
    /// Whether it is an attempt to undo the node.
    #[serde(default, skip_serializing_if = "is_false")]
    pub undo: bool,
}

/// An attempt ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttemptEnded {
    /// The node instance, by its path.
    pub node: Box<str>,
    /// The attempt's number.
    pub attempt: u32,
    /// When a worker started it.
    pub started: Millis,
    /// When it ended.
    pub ended: Millis,
    /// Where it ran.
    pub worker: Box<str>,
    /// How it ended.
    pub result: AttemptResult,
    /// SHA-256 of the output's or error's bytes.
    pub digest: Digest,
    /// The node's ancestry, if this attempt ended the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ancestry: Option<Digest>,
    /// The parameters as rendered, secrets redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Stored>,
    /// What the action reports about how it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
    /// Links to what the action made elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceLink>,
    /// Variables that the node set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vars: BTreeMap<Box<str>, Stored>,
    /// Bytes that the attempt stored beside its output; only one that succeeded has some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<StoredFile>,
    /// The lease under which a worker of another process reported it, so that the same report
    /// is recognised when it comes again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Box<str>>,
    /// Whether that worker reported success, of which this failure was made: the output is past a
    /// limit, or a variable could not be set.
    #[serde(default, skip_serializing_if = "is_false")]
    pub completed: bool,
}

/// How an attempt ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AttemptResult {
    /// With an output.
    Succeeded(Stored),
    /// With an error, for good.
    Failed(Stored),
    /// With an error, to be tried again at this time.
    Retrying {
        /// The error.
        error: Stored,
        /// When the next attempt is due.
        due: Millis,
    },
    /// The action said that there is nothing to do.
    Skipped {},
    /// The engine asked the action to stop, and it did.
    Stopped {},
}

/// A link to something an action made in another system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLink {
    /// The other system.
    pub system: Box<str>,
    /// What kind of thing.
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// Its id there.
    pub id: Box<str>,
    /// Where to look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Box<str>>,
}

/// The run starts nothing new, and asks running work to stop.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stopping {
    /// Why it stops.
    pub cause: StopCause,
    /// The node instances that were with a worker: they get the grace.
    pub running: Vec<Box<str>>,
    /// When the grace ends.
    pub deadline: Millis,
    /// The iteration that stops, by its path; without it, the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Box<str>>,
    /// Whether what succeeded is undone, whatever the definition says.
    #[serde(default, skip_serializing_if = "is_false")]
    pub compensate: bool,
    /// Why the run became a dead letter, if it stops because an operator purged the dead
    /// letter: the run ends as Failed, and nothing of it is undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandoned: Option<Box<str>>,
    /// Who asked, and why; empty if no request led to it.
    #[serde(flatten)]
    pub actor: Actor,
}

/// Why a run stops before everything in it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopCause {
    /// A failure under the fail-fast policy.
    FailFast,
    /// The run's time has passed.
    Timeout,
    /// A request to cancel.
    Cancel,
}

/// The run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// The status that it ended with.
    pub status: RunStatus,
    /// Why, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunFailure>,
    /// The run's result, if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Stored>,
    /// How undoing ended, if the run was undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<Compensation>,
}

/// How undoing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Compensation {
    /// Everything was undone, or left as it is by hand.
    Complete,
    /// Something could not be undone.
    Incomplete,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailure {
    /// Its code.
    pub code: Box<str>,
    /// Why the run failed, as a sentence.
    pub message: Box<str>,
    /// The nodes whose failure was not handled.
    pub nodes: Vec<Box<str>>,
    /// The root causes, first failed first; a run that ended before they were recorded
    /// has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
}

/// A root cause of a run's failure: a failed node with no failed node behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The run that the node belongs to: the failed run, or a child at any depth.
    pub execution_id: RunId,
    /// The node instance, by its path in that run.
    pub node: Box<str>,
    /// For a cause in a child run, how the failed run leads to it: the node that started the
    /// child, the nodes that started children below it, then the failed node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Box<str>>,
    /// The node's name for people, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// The code of its error.
    pub code: Box<str>,
    /// The message of its error, cut if it is long.
    pub message: Box<str>,
}

impl Cause {
    /// The way to the failed node through loops and child runs, with its name, for people.
    pub fn place(&self) -> String {
        let path = match &*self.path {
            [] => self.node.to_string(),
            path => path.join(" › "),
        };
        with_name(&path, self.name.as_deref())
    }
}
