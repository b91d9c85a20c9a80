//! The state of one run: the fold of its events, and nothing else.
//!
//! `decide` asks what follows from an input, `apply` makes it so. State holds no
//! values, only references to them; variables and the trigger are the exception as
//! far as they are small enough to stand in the log.

mod ancestry;
mod answered;
mod apply;
mod causes;
mod child;
mod cycle;
mod deaths;
pub mod decide;
mod dispatch;
mod environment;
mod frame;
mod frames;
mod heal;
mod inspect;
mod join;
mod levels;
mod partial_join;
mod reattempt;
mod record_count;
mod retry;
mod reuse;
mod set_result;
mod signal;
mod snapshot;
mod state_eq;
mod stop;
mod structure;
mod summary;
mod superseded;
mod undo;
mod undo_steps;
mod variables;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::defaults::Defaults;
use crate::definition::Join;
use crate::event::{Actor, Finished, Queued, StopCause};
use crate::id::{Digest, Millis, RunId};
use crate::plan::{NodeIndex, Plan};
use crate::routing::{EdgeState, NodeSet};
use crate::status::{NodeStatus, RunStatus};
use crate::value::ValueRef;

pub use answered::{Answered, KEPT_ANSWERS};
pub use apply::{Change, Corrupt};
use child::Child;
pub use child::{ChildEnd, ChildStart};
pub use cycle::{Iteration, Loop};
pub use decide::{
    DEAD_LETTERED, Decision, Evaluations, Facts, Failure, Input, Outcome, PendingDecision,
    Recovery, Refusal, Report, SWITCH_UNMATCHED, ValueLimits, decide, required_values,
};
pub use dispatch::{Dispatch, ValueSource};
pub(crate) use environment::read_object;
pub use environment::{Held, Loaded, Values};
pub use frame::{FrameKey, Instance};
pub use inspect::{WaitState, WaitingNode};
use record_count::RecordCount;
pub use snapshot::{GraphName, SNAPSHOT_VERSION, Snapshot};
pub use summary::RunSummary;
pub use undo::{Undo, Undone};
pub use variables::var_bytes;
pub use windlass_expr::Interrupt;

/// How many steps a decision may take on a thread that other runs wait for.
pub const INLINE_STEPS: u64 = windlass_expr::ExpressionLimits::INLINE_STEPS;

use frame::{Frame, TOP};
use frames::Frames;
use reuse::Reuse;
use snapshot::NamedGraph;
use superseded::Superseded;

/// Outputs of up to this many items are worth keeping at hand until their loop ends.
const FEW_ITEMS: u32 = 1000;

/// A run's state.
#[derive(Clone, Debug)]
pub struct Run {
    id: RunId,
    plan: Arc<Plan>,
    queued: Arc<Queued>,
    /// The workflow's version whose graph it runs on now.
    version: u32,
    /// Digest of the definition whose graph it runs on now.
    definition: Digest,
    /// Whether its graph belongs to it alone and follows no version.
    frozen: bool,
    /// Whether it follows newer versions, as its starting definition says.
    heals: bool,
    /// A graph that the next event may name.
    staged: Option<(Digest, Arc<Plan>)>,
    /// A graph was imported after the run had failed: nothing follows from it before the run is
    /// opened again.
    graph_waits: bool,
    /// Shared with every dispatch.
    workflow: Arc<str>,
    correlation_id: Arc<str>,
    status: RunStatus,
    created_at: Millis,
    started_at: Option<Millis>,
    ended_at: Option<Millis>,
    /// When it was last opened again after it had ended.
    reopened_at: Option<Millis>,
    /// From when the run's own time counts: its start, or the reattempt that re-opened it.
    clock_from: Option<Millis>,
    /// How many records have been folded in.
    records: RecordCount,
    /// How many events were folded into this very state.
    event_count: u64,
    top: Frame,
    /// The iterations that are open, or kept for what may still be asked of them.
    frames: Frames,
    loops: BTreeMap<Instance, Loop>,
    /// The shapes of nodes that had begun when the graph changed.
    shapes: BTreeMap<Instance, (Arc<Plan>, NodeIndex)>,
    /// Paths of nodes that a new graph does not have, and of what was open inside them.
    removed: BTreeMap<Instance, Box<str>>,
    /// The last attempts of nodes that a new graph does not have, their own and the
    /// highest inside them: they may come back.
    past: BTreeMap<Box<str>, (u32, u32)>,
    /// Nodes that succeeded, were taken back, and are still to be undone.
    kept: BTreeMap<Instance, Superseded>,
    /// Iterations that were taken back and hold something that is still to be undone.
    kept_frames: BTreeMap<FrameKey, Frame>,
    /// The graphs that parts of the state belong to, the present one last.
    graphs: Vec<NamedGraph>,
    next_instance: Instance,
    /// Instances with a worker, or that would be if one were free.
    active: u32,
    trigger: Held,
    vars: BTreeMap<Box<str>, Held>,
    /// The failures that block each blocked node.
    blocked_by: BTreeMap<Instance, Arc<[Instance]>>,
    /// Failures that a node has recovered by running.
    recovered: BTreeMap<Instance, Arc<[Instance]>>,
    /// Edges taken so far into joins that do not wait for all.
    taken: BTreeMap<Instance, u32>,
    /// Nodes between attempts, delays, waits and backoffs: when they are due.
    due: BTreeMap<Instance, Millis>,
    /// Child runs that have not ended, by the node that started them.
    children: BTreeMap<Instance, Child>,
    /// Child runs that ended well and are undone with this run.
    transactional: BTreeMap<Instance, RunId>,
    /// Signals that came before a node waited for them.
    signals: BTreeMap<Box<str>, VecDeque<ValueRef>>,
    /// The nodes that wait for each signal, first come first.
    waiters: BTreeMap<Box<str>, VecDeque<Instance>>,
    /// When open loops, waits and child runs began.
    since: BTreeMap<Instance, Millis>,
    /// Nodes that have ended and whose conditional edges must be evaluated.
    to_route: VecDeque<Instance>,
    /// Joins that do not wait for all edges and have one that resolved; empty as soon as no
    /// condition is left to evaluate.
    to_join: BTreeSet<Instance>,
    /// Scopes in which a failure wants the fail-fast stop.
    to_stop: BTreeSet<FrameKey>,
    /// Loops, waits and child runs that are ready to begin.
    to_open: BTreeSet<Instance>,
    /// Iterations that have ended and whose output must be evaluated.
    to_settle: BTreeSet<FrameKey>,
    /// Loops that must decide whether they go round again.
    to_advance: BTreeSet<Instance>,
    /// Frames in which nothing is open any more; empty between events.
    quiet: BTreeSet<FrameKey>,
    /// Frames that nothing needs after the present event.
    garbage: Vec<FrameKey>,
    /// Ended nodes that say how they are undone, in the order of their ends.
    completed: Vec<Undone>,
    undo: Option<Undo>,
    reuse: Reuse,
    /// How many times a node has failed for good: failures are ordered by this number.
    failures: u64,
    /// Bytes of all outputs together, which have a limit.
    output_bytes: u64,
    /// Bytes of all variables together, which have a limit.
    vars_bytes: u64,
    finished: Option<Arc<Finished>>,
    deaths: deaths::Deaths,
    /// The last requests that carried a key, oldest first, with their answers.
    answered: VecDeque<Answered>,
}

/// Why and until when a scope stops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stop {
    pub(crate) cause: StopCause,
    pub(crate) deadline: Millis,
    #[serde(rename = "hand")]
    pub(crate) actor: Actor,
    /// Whether what succeeded is undone, whatever the definition says.
    pub(crate) compensate: bool,
    /// Why the run became a dead letter, if it stops because an operator purged the dead
    /// letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) abandoned: Option<Box<str>>,
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

    /// The request for it.
    pub fn queued(&self) -> &Queued {
        &self.queued
    }

    /// Puts it into the partition of its row: a run that was moved to another store is in another
    /// one than its first record says.
    pub fn place_in(&mut self, partition: u32) {
        if self.queued.partition != partition {
            Arc::make_mut(&mut self.queued).partition = partition;
        }
    }

    /// Where it stands.
    pub fn status(&self) -> RunStatus {
        self.status
    }

    /// When it was requested.
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
        self.records.get()
    }

    /// How many events were folded into this very state, and not into one that it was restored
    /// from. Nothing else changes the state, so a caller that has seen it need not look again
    /// while the number is the same.
    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    /// How it ended.
    pub fn finished(&self) -> Option<&Finished> {
        self.finished.as_deref()
    }

    /// The workflow's version whose graph it runs on now.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Digest of the definition whose graph it runs on now.
    pub fn definition(&self) -> Digest {
        self.definition
    }

    /// Whether its graph belongs to it alone and follows no version.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// A node's status.
    ///
    /// # Panics
    /// The run has no such instance now; use `find_status` where that can be.
    pub fn node_status(&self, node: Instance) -> NodeStatus {
        self.state(node).status
    }

    /// A node's status, or none if the run has no such instance now.
    pub fn find_status(&self, node: Instance) -> Option<NodeStatus> {
        Some(self.find_state(node)?.status)
    }

    /// The number of a node's last attempt; 0 before the first, and for an instance that
    /// the run does not have now.
    pub fn attempt(&self, node: Instance) -> u32 {
        self.find_state(node).map_or(0, |state| state.attempt)
    }

    /// The number of a node's last attempt within its retry budget, which begins anew when the
    /// node is tried again by hand; 0 before the first.
    pub fn budget_attempt(&self, node: Instance) -> u32 {
        let state = self.find_state(node).filter(|state| state.attempt > 0);
        state.map_or(0, |state| {
            state.attempt + 1 - state.first_attempt.clamp(1, state.attempt)
        })
    }

    /// How many attempts of a node have begun: one that waits for its time has not.
    pub fn attempts(&self, node: Instance) -> u32 {
        let Some(state) = self.find_state(node) else {
            return 0;
        };
        let waits = match state.status {
            NodeStatus::Queued => true,
            NodeStatus::Waiting => self.is_between_attempts(node),
            _ => false,
        };
        state.attempt - u32::from(waits)
    }

    /// Whether a node waits for its next attempt, and not for something else.
    pub fn is_between_attempts(&self, node: Instance) -> bool {
        self.find_status(node) == Some(NodeStatus::Waiting)
            && (self.structure(node).is_none() || self.is_retried_child(node))
    }

    /// Whether the next attempt of a call waits for its time. The process that executes the run
    /// hands it out then, without a record.
    pub fn awaits_attempt(&self) -> bool {
        let mut due = self.due.keys();
        due.any(|&node| !self.is_structural(node) && self.is_between_attempts(node))
    }

    /// Where a node's output or error is kept.
    pub fn value(&self, node: Instance) -> Option<ValueRef> {
        match self.find_state(node) {
            Some(state) => state.value,
            None => self.kept.get(&node)?.value,
        }
    }

    /// A node's ancestry.
    pub fn ancestry(&self, node: Instance) -> Option<Digest> {
        self.find_state(node)?.ancestry
    }

    /// Whether a node's result is that of the run that this one was forked from.
    pub fn is_reused(&self, node: Instance) -> bool {
        self.find_state(node).is_some_and(|state| state.reused)
    }

    /// Whether a node's result was given by hand.
    pub fn is_by_hand(&self, node: Instance) -> bool {
        self.find_state(node).is_some_and(|state| state.by_hand)
    }

    /// The failures that block a node.
    pub fn blocked_by(&self, node: Instance) -> &[Instance] {
        self.blocked_by
            .get(&node)
            .map(|set| &**set)
            .unwrap_or_default()
    }

    /// When a waiting node is due: its next attempt, its delay's end, its wait's end.
    pub fn due(&self, node: Instance) -> Option<Millis> {
        self.due.get(&node).copied()
    }

    /// All nodes that are due at some time, with their times.
    pub fn due_nodes(&self) -> impl Iterator<Item = (Instance, Millis)> + '_ {
        self.due.iter().map(|(&node, &due)| (node, due))
    }

    /// How an edge of the top level stands.
    pub fn edge_state(&self, edge: u32) -> EdgeState {
        self.top.edge(edge)
    }

    /// How many nodes of the top level are in a status.
    pub fn count(&self, status: NodeStatus) -> u32 {
        self.top.counts[status as usize]
    }

    /// Failed nodes of the top level, in definition order.
    pub fn failed(&self) -> impl Iterator<Item = Instance> + '_ {
        self.top.failed.keys().copied()
    }

    /// The run's variables.
    pub fn vars(&self) -> &BTreeMap<Box<str>, Held> {
        &self.vars
    }

    /// The trigger that the run was started with.
    pub fn trigger(&self) -> &Held {
        &self.trigger
    }

    /// Why the run stops before its end, if it does.
    pub fn stop_cause(&self) -> Option<StopCause> {
        self.top.stop.as_ref().map(|stop| stop.cause)
    }

    /// When the next grace of a stop ends, the run's or an iteration's. None if everything
    /// that was asked to stop has ended.
    pub fn grace_deadline(&self) -> Option<Millis> {
        let frames = std::iter::once(&self.top).chain(self.frames.values());
        let waits = frames.filter(|frame| frame.nodes.iter().any(|node| node.stopping));
        let deadlines = waits.filter_map(|frame| frame.stop.as_ref());
        deadlines.map(|stop| stop.deadline).min()
    }

    /// Who asked for the stop, and why.
    pub fn stop_actor(&self) -> Option<&Actor> {
        self.top.stop.as_ref().map(|stop| &stop.actor)
    }

    /// Why the run became a dead letter, if an operator purged the dead letter and the run
    /// ends, or has ended, because of it.
    pub fn abandoned(&self) -> Option<&str> {
        self.top.stop.as_ref()?.abandoned.as_deref()
    }

    /// When the run's own time is over. A reattempt of an ended run starts the time anew:
    /// otherwise a run that timed out could never be tried again. Undoing has no time limit.
    pub fn timeout_at(&self) -> Option<Millis> {
        if self.undo.is_some() {
            return None;
        }
        Some(self.clock_from?.plus(self.run_timeout_ms()?))
    }

    /// The whole run's time: the definition's, or that of the defaults it started with.
    pub(crate) fn run_timeout_ms(&self) -> Option<u64> {
        let default = || self.defaults()?.run_timeout_ms;
        self.plan.run_timeout_ms().or_else(default)
    }

    /// What the configuration gave at the start where the definition says nothing.
    pub(crate) fn defaults(&self) -> Option<&Defaults> {
        self.queued.defaults.as_deref()
    }

    /// Whether the attempt is the node's open one.
    pub fn is_open(&self, node: Instance, attempt: u32) -> bool {
        self.find_state(node)
            .is_some_and(|state| state.attempt == attempt && state.is_open())
    }

    /// Whether the open attempt of a node may be with a worker that an earlier process handed it
    /// to.
    pub fn was_handed_out(&self, node: Instance) -> bool {
        self.find_state(node)
            .is_some_and(|state| state.deliveries > 0 || state.status == NodeStatus::Running)
    }

    /// Nodes of the top level that are ready, running or waiting.
    pub fn open(&self) -> u32 {
        self.top.open()
    }

    /// Whether nothing is with a worker or ready for one: the run waits for a time, a
    /// signal or a child, and may be put to sleep.
    pub fn is_asleep(&self) -> bool {
        self.active == 0 && !self.status.is_final() && self.pending_decision().is_none()
    }

    /// When a sleeping run wants to be woken.
    pub fn wake_at(&self) -> Option<Millis> {
        let due = self.due.values().min().copied();
        let due = due.filter(|_| self.status == RunStatus::Running);
        let grace = self.grace_deadline();
        [due, self.timeout_at(), grace].into_iter().flatten().min()
    }

    /// A failed node's failure is handled when one of its failure edges was taken and
    /// that edge's target did not end Blocked or Cancelled (semantics §4).
    pub fn is_handled(&self, node: Instance) -> bool {
        let Some(frame) = self.find_frame(node) else {
            return false;
        };
        let plan = &frame.plan;
        plan.outgoing(frame.node(node)).any(|edge| {
            let target = frame.state(frame.instance(plan.edge(edge).target)).status;
            plan.edge(edge).when == crate::definition::When::Failure
                && frame.edge(edge) == EdgeState::Taken
                && !matches!(target, NodeStatus::Blocked | NodeStatus::Cancelled)
        })
    }

    /// What the run must decide before it takes another input.
    pub fn pending_decision(&self) -> Option<PendingDecision> {
        let begun = matches!(self.status, RunStatus::Running | RunStatus::Paused);
        if let Some(&node) = self.to_route.front() {
            return Some(PendingDecision::Route(node));
        }
        if let Some(&frame) = self.to_stop.first() {
            return Some(PendingDecision::Stop(frame));
        }
        if let Some(&frame) = self.to_settle.first() {
            return Some(PendingDecision::SettleBody(frame));
        }
        if let Some(&node) = self.to_advance.first() {
            return Some(PendingDecision::Advance(node));
        }
        // Pausing lets nothing begin; a wait that has begun goes on.
        if let Some(&node) = self.to_open.first()
            && self.status == RunStatus::Running
        {
            return Some(PendingDecision::Open(node));
        }
        let undoing = self.undo.as_ref().is_some_and(Undo::is_open);
        (begun && self.open() == 0 && !undoing).then_some(PendingDecision::Settle)
    }

    /// Whether the run wants this decided now. What is ready to be opened may be opened in
    /// any order: where only one node may go at a time, the caller says whose turn it is.
    pub fn asks_for(&self, pending_decision: PendingDecision) -> bool {
        match (self.pending_decision(), pending_decision) {
            (Some(PendingDecision::Open(_)), PendingDecision::Open(node)) => {
                self.to_open.contains(&node)
            }
            (asked, pending_decision) => asked == Some(pending_decision),
        }
    }

    /// Whether a loop, a wait or a child run is ready and has not begun.
    pub fn is_unopened(&self, node: Instance) -> bool {
        self.to_open.contains(&node)
    }

    /// The run's loops: what people see of their iterations.
    pub fn cycle(&self, node: Instance) -> Option<&Loop> {
        self.loops.get(&node)
    }

    /// Whether a node is no call of an action, and no undoing of one.
    pub fn is_structural(&self, node: Instance) -> bool {
        self.find_state(node).is_some() && self.structure(node).is_some()
    }

    /// The action that a node calls, if it is a call.
    pub fn action_of(&self, node: Instance) -> Option<&str> {
        self.find_state(node)?;
        let (plan, index) = self.plan_node(node);
        plan.action(index)
    }

    /// A node's name for people.
    pub fn name_of(&self, node: Instance) -> Option<&str> {
        self.find_state(node)?;
        let (plan, index) = self.plan_node(node);
        plan.name(index)
    }

    /// An instance's path, with the node's name for people beside it.
    ///
    /// # Panics
    /// The run has no such instance now.
    pub fn path_and_name(&self, node: Instance) -> String {
        with_name(&self.path(node), self.name_of(node))
    }

    /// Whether the run has failed and was given a graph since: nothing follows from it before the
    /// run is opened again.
    pub fn graph_waits(&self) -> bool {
        self.graph_waits
    }

    /// What a node is.
    ///
    /// # Panics
    /// The run has no such instance now.
    pub fn kind_of(&self, node: Instance) -> crate::plan::NodeKind {
        let (plan, index) = self.plan_node(node);
        plan.kind(index)
    }

    /// Whether a decision may need this node's output later.
    pub fn is_decided_on(&self, node: Instance) -> bool {
        if self.find_state(node).is_none() {
            return false;
        }
        let (plan, index) = self.plan_node(node);
        plan.is_decided_on(index) || (plan.is_gathered(index) && self.is_of_few(node))
    }

    /// Whether an instance is inside a loop over so few items that all their outputs may
    /// be at hand when it ends; the first of many would be gone by then.
    fn is_of_few(&self, node: Instance) -> bool {
        let owner = self.frame_of(node).owner;
        let cycle = owner.and_then(|owner| self.loops.get(&owner.node));
        cycle.is_some_and(|cycle| cycle.count <= FEW_ITEMS)
    }

    /// Whether a node says how its effect is undone.
    pub fn is_compensated(&self, node: Instance) -> bool {
        if self.find_state(node).is_none() {
            return false;
        }
        let (plan, index) = self.plan_node(node);
        plan.is_compensated(index)
    }

    /// Whether a node's success sets variables.
    pub fn sets_vars(&self, node: Instance) -> bool {
        if self.find_state(node).is_none() {
            return false;
        }
        let (plan, index) = self.plan_node(node);
        plan.rare(index)
            .is_some_and(|rare| !rare.set_vars.is_empty())
    }

    /// Every instance that is ready, running or waiting, those that undo others included.
    pub fn open_instances(&self) -> Vec<Instance> {
        let undoing = self.undo.iter().flat_map(Undo::instances);
        let all = self.instances().chain(undoing);
        all.filter(|&node| self.state(node).is_open()).collect()
    }

    pub(crate) fn structure(&self, node: Instance) -> Option<&crate::plan::Structure> {
        if self.undone(node).is_some() || self.find_frame(node).is_none() {
            return None;
        }
        let (plan, index) = self.plan_node(node);
        plan.structure(index)
    }

    /// The time of a node's attempt, where the definition says one.
    pub(crate) fn own_timeout(&self, node: Instance) -> Option<u64> {
        let (plan, index) = self.plan_node(node);
        plan.rare(index)?.timeout_ms
    }

    /// How many edges a node waits for.
    pub fn join_of(&self, node: Instance) -> Join {
        let (plan, index) = self.plan_node(node);
        plan.join(index)
    }

    pub(crate) fn blocked_set(&self, node: Instance) -> NodeSet {
        self.blocked_by.get(&node).cloned()
    }

    pub(crate) fn recovered_set(&self, node: Instance) -> NodeSet {
        self.recovered.get(&node).cloned()
    }

    /// The node of the plan's top level that an instance is, or is inside.
    ///
    /// # Panics
    /// The run has no such instance now.
    pub fn top_node(&self, node: Instance) -> NodeIndex {
        let node = self.undone(node).unwrap_or(node);
        match self.frame(self.key_of(node)).owner {
            Some(owner) => self.top_node(owner.node),
            None => self.node_index(node),
        }
    }
}

/// A path with the node's name for people beside it, where that says more.
pub fn with_name(path: &str, name: Option<&str>) -> String {
    match name {
        Some(name) if name != path => format!("{path} ({name})"),
        _ => path.to_owned(),
    }
}
