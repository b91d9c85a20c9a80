//! The state of one run: the fold of its events, and nothing else.
//!
//! `decide` asks what follows from an input, `apply` makes it so. State holds no
//! values, only references to them; variables and the trigger are the exception as
//! far as they are small enough to stand in the log.

mod ancestry;
mod apply;
pub mod decide;
mod dispatch;
mod environment;
mod join;
mod levels;
mod reattempt;
mod retry;
mod stop;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::event::{Finished, Hand, Queued, StopCause};
use crate::id::{Digest, Millis, RunId};
use crate::plan::{NodeIndex, Plan};
use crate::routing::{EdgeState, NodeSet};
use crate::status::{NodeStatus, RunStatus};
use crate::value::ValueRef;

pub use apply::{Change, Corrupt};
pub use decide::{Decision, Facts, Failure, Input, Outcome, Refusal, Report, Todo, decide, wants};
pub use dispatch::{Dispatch, Source};
pub use environment::{Held, Loaded, Values};
use levels::Levels;

/// A run's state.
#[derive(Clone, Debug)]
pub struct Run {
    id: RunId,
    plan: Arc<Plan>,
    queued: Arc<Queued>,
    /// Shared with every dispatch.
    workflow: Arc<str>,
    correlation_id: Arc<str>,
    status: RunStatus,
    created_at: Millis,
    started_at: Option<Millis>,
    ended_at: Option<Millis>,
    /// From when the run's own time counts: its start, or the reattempt that re-opened it.
    clock_from: Option<Millis>,
    /// How many records have been folded in.
    records: u64,
    nodes: Vec<NodeState>,
    edges: Vec<EdgeState>,
    /// Nodes by status: what `counts` shows, and how the end is noticed.
    counts: [u32; 9],
    trigger: Held,
    vars: BTreeMap<Box<str>, Held>,
    /// Blocked nodes: the failures in the way.
    blocked_by: BTreeMap<NodeIndex, Arc<[NodeIndex]>>,
    /// Failures that a node has recovered by running.
    recovered: BTreeMap<NodeIndex, Arc<[NodeIndex]>>,
    /// Nodes between attempts: when the next is due.
    due: BTreeMap<NodeIndex, Millis>,
    failed: BTreeSet<NodeIndex>,
    /// Nodes that have ended and whose conditional edges must be asked.
    to_route: VecDeque<NodeIndex>,
    /// A failure wants the fail-fast stop.
    stop_wanted: bool,
    stop: Option<Stop>,
    levels: Option<Levels>,
    /// Bytes of all outputs together, which have a limit.
    output_bytes: u64,
    finished: Option<Arc<Finished>>,
}

/// A node's state.
#[derive(Clone, Debug)]
pub(crate) struct NodeState {
    pub(crate) status: NodeStatus,
    /// It is told to stop, and what comes within the grace is recorded.
    pub(crate) stopping: bool,
    /// It goes on although the run stops: something led here whatever happened before.
    pub(crate) exempt: bool,
    /// The last attempt begun or due; 0 before the first.
    pub(crate) attempt: u32,
    /// The attempt with which the present retry budget began.
    pub(crate) first_attempt: u32,
    /// How often another process took the run over while the attempt was open. The one
    /// before may have handed it out, and its number with its idempotency key, unrecorded.
    pub(crate) deliveries: u32,
    /// Incoming edges that have not resolved.
    pub(crate) unresolved: u32,
    /// Its output, or its error if it failed.
    pub(crate) value: Option<ValueRef>,
    pub(crate) ancestry: Option<Digest>,
}

/// Why and until when a run stops.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) cause: StopCause,
    pub(crate) deadline: Millis,
    pub(crate) hand: Hand,
}

impl Run {
    /// The run's id.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// The graph it runs on.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// What it was asked for with.
    pub fn queued(&self) -> &Queued {
        &self.queued
    }

    /// Where it stands.
    pub fn status(&self) -> RunStatus {
        self.status
    }

    /// When it was asked for.
    pub fn created_at(&self) -> Millis {
        self.created_at
    }

    /// When it began.
    pub fn started_at(&self) -> Option<Millis> {
        self.started_at
    }

    /// When it ended.
    pub fn ended_at(&self) -> Option<Millis> {
        self.ended_at
    }

    /// How many records have been folded in.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How it ended.
    pub fn finished(&self) -> Option<&Finished> {
        self.finished.as_deref()
    }

    /// A node's status.
    pub fn node_status(&self, node: NodeIndex) -> NodeStatus {
        self.nodes[node as usize].status
    }

    /// The number of a node's last attempt; 0 before the first.
    pub fn attempt(&self, node: NodeIndex) -> u32 {
        self.nodes[node as usize].attempt
    }

    /// How many attempts of a node have begun: one that waits for its time has not.
    pub fn attempts(&self, node: NodeIndex) -> u32 {
        let state = &self.nodes[node as usize];
        let waits = matches!(state.status, NodeStatus::Waiting | NodeStatus::Queued);
        state.attempt - u32::from(waits)
    }

    /// Where a node's output or error is kept.
    pub fn value(&self, node: NodeIndex) -> Option<ValueRef> {
        self.nodes[node as usize].value
    }

    /// A node's ancestry.
    pub fn ancestry(&self, node: NodeIndex) -> Option<Digest> {
        self.nodes[node as usize].ancestry
    }

    /// The failures that block a node.
    pub fn blocked_by(&self, node: NodeIndex) -> &[NodeIndex] {
        self.blocked_by
            .get(&node)
            .map(|set| &**set)
            .unwrap_or_default()
    }

    /// When a waiting node's next attempt is due.
    pub fn due(&self, node: NodeIndex) -> Option<Millis> {
        self.due.get(&node).copied()
    }

    /// All nodes between attempts, with their times.
    pub fn due_nodes(&self) -> impl Iterator<Item = (NodeIndex, Millis)> + '_ {
        self.due.iter().map(|(&node, &due)| (node, due))
    }

    /// How an edge stands.
    pub fn edge_state(&self, edge: u32) -> EdgeState {
        self.edges[edge as usize]
    }

    /// How many nodes are in a status.
    pub fn count(&self, status: NodeStatus) -> u32 {
        self.counts[status as usize]
    }

    /// Failed nodes, in definition order.
    pub fn failed(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.failed.iter().copied()
    }

    /// The run's variables.
    pub fn vars(&self) -> &BTreeMap<Box<str>, Held> {
        &self.vars
    }

    /// What the run was started with.
    pub fn trigger(&self) -> &Held {
        &self.trigger
    }

    /// Why the run stops before its end, if it does.
    pub fn stop_cause(&self) -> Option<StopCause> {
        self.stop.as_ref().map(|stop| stop.cause)
    }

    /// When the grace of a stop ends.
    pub fn grace_deadline(&self) -> Option<Millis> {
        self.stop.as_ref().map(|stop| stop.deadline)
    }

    /// Who asked for the stop, and why.
    pub fn stop_hand(&self) -> Option<&Hand> {
        self.stop.as_ref().map(|stop| &stop.hand)
    }

    /// When the run's own time is over. A run that had ended and is reattempted has it
    /// anew: otherwise one that had timed out could never be tried again.
    pub fn timeout_at(&self) -> Option<Millis> {
        Some(self.clock_from?.plus(self.plan.run_timeout_ms()?))
    }

    /// Whether the attempt is the node's open one.
    pub fn is_open(&self, node: NodeIndex, attempt: u32) -> bool {
        let state = &self.nodes[node as usize];
        state.attempt == attempt
            && matches!(
                state.status,
                NodeStatus::Queued | NodeStatus::Running | NodeStatus::Waiting
            )
    }

    /// Nodes that are ready, running or waiting.
    pub fn open(&self) -> u32 {
        self.count(NodeStatus::Queued)
            + self.count(NodeStatus::Running)
            + self.count(NodeStatus::Waiting)
    }

    /// A failed node's failure is handled when one of its failure edges was taken and
    /// that edge's target did not end Blocked or Cancelled (semantics §4).
    pub fn is_handled(&self, node: NodeIndex) -> bool {
        self.plan.outgoing(node).any(|edge| {
            let target = self.node_status(self.plan.edge(edge).target);
            self.plan.edge(edge).when == crate::definition::When::Failure
                && self.edge_state(edge) == EdgeState::Taken
                && !matches!(target, NodeStatus::Blocked | NodeStatus::Cancelled)
        })
    }

    /// What must still be decided before anything else is.
    pub fn todo(&self) -> Option<Todo> {
        if let Some(&node) = self.to_route.front() {
            return Some(Todo::Route(node));
        }
        if self.stop_wanted {
            return Some(Todo::Stop);
        }
        let begun = matches!(self.status, RunStatus::Running | RunStatus::Paused);
        (begun && self.open() == 0).then_some(Todo::Settle)
    }

    pub(crate) fn state(&self, node: NodeIndex) -> &NodeState {
        &self.nodes[node as usize]
    }

    pub(crate) fn blocked_set(&self, node: NodeIndex) -> NodeSet {
        self.blocked_by.get(&node).cloned()
    }

    pub(crate) fn recovered_set(&self, node: NodeIndex) -> NodeSet {
        self.recovered.get(&node).cloned()
    }

    pub(crate) fn set_status(&mut self, node: NodeIndex, status: NodeStatus) {
        let state = &mut self.nodes[node as usize];
        self.counts[state.status as usize] -= 1;
        self.counts[status as usize] += 1;
        state.status = status;
    }
}
