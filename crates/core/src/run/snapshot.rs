//! A run's state as bytes: what stands for a prefix of its log. Derived, and never the
//! only copy of anything: whoever cannot read one replays the log instead.
//!
//! The graph and the request are not in it: both are found by what the log's first
//! record says. A run whose graph changed under it is not snapshotted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::child::Child;
use super::deaths::Deaths;
use super::environment::Held;
use super::frame::{Frame, FrameKey, Instance, NodeState, Owner};
use super::levels::Levels;
use super::reuse::Reuse;
use super::{Loop, Run, Stop, Undo, Undone};
use crate::event::{Finished, Queued};
use crate::id::{Digest, Millis, RunId};
use crate::plan::{GraphIndex, Plan};
use crate::routing::EdgeState;
use crate::status::{NodeStatus, RunStatus};
use crate::value::{Stored, ValueRef};

/// The version of snapshots that this code writes, and the only one that it reads.
pub const SNAPSHOT_VERSION: u16 = 1;

#[derive(Serialize, Deserialize)]
struct Snapshot {
    definition: Digest,
    version: u32,
    frozen: bool,
    heals: bool,
    status: RunStatus,
    created_at: Millis,
    started_at: Option<Millis>,
    ended_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reopened_at: Option<Millis>,
    clock_from: Option<Millis>,
    records: u64,
    frames: Vec<FrameState>,
    loops: BTreeMap<Instance, Loop>,
    next_instance: Instance,
    active: u32,
    vars: BTreeMap<Box<str>, HeldState>,
    blocked_by: Vec<(Instance, Vec<Instance>)>,
    recovered: Vec<(Instance, Vec<Instance>)>,
    taken: BTreeMap<Instance, u32>,
    due: BTreeMap<Instance, Millis>,
    children: BTreeMap<Instance, Child>,
    transactional: BTreeMap<Instance, RunId>,
    signals: BTreeMap<Box<str>, VecDeque<ValueRef>>,
    waiters: BTreeMap<Box<str>, VecDeque<Instance>>,
    since: BTreeMap<Instance, Millis>,
    to_route: VecDeque<Instance>,
    to_join: BTreeSet<Instance>,
    to_stop: BTreeSet<FrameKey>,
    to_open: BTreeSet<Instance>,
    to_settle: BTreeSet<FrameKey>,
    to_advance: BTreeSet<Instance>,
    completed: Vec<Undone>,
    undo: Option<UndoState>,
    reuse: Reuse,
    output_bytes: u64,
    finished: Option<Finished>,
    #[serde(default)]
    deaths: Deaths,
}

#[derive(Serialize, Deserialize)]
struct FrameState {
    graph: GraphIndex,
    base: FrameKey,
    owner: Option<Owner>,
    nodes: Vec<NodeState>,
    /// One digit for each edge.
    edges: String,
    counts: [u32; 9],
    routing: u32,
    failed: BTreeSet<Instance>,
    stop: Option<Stop>,
    levels: Option<Levels>,
    done: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<ValueRef>,
}

/// A variable: its text, or where it is.
#[derive(Serialize, Deserialize)]
enum HeldState {
    Text(Box<serde_json::value::RawValue>),
    Blob(ValueRef),
}

#[derive(Serialize, Deserialize)]
struct UndoState {
    base: Instance,
    targets: Vec<Undone>,
    states: Vec<NodeState>,
    skipped: Vec<bool>,
    ending: Box<Finished>,
}

/// What an instance takes in a snapshot, about.
const INSTANCE_BYTES: usize = 200;

impl Run {
    /// About how many bytes a snapshot has.
    pub fn size_hint(&self) -> usize {
        let inside = self
            .frames
            .values()
            .next()
            .map_or(0, |frame| frame.nodes.len());
        (self.top.nodes.len() + self.frames.len() * inside) * INSTANCE_BYTES
    }

    /// The state as bytes, if it can be: its graph is the one it began with.
    pub fn snapshot(&mut self) -> Option<Vec<u8>> {
        self.collect_garbage();
        let frames = std::iter::once(&self.top).chain(self.frames.values());
        let is_plain = |frame: &Frame| frame.ids.is_none() && Arc::ptr_eq(&frame.plan, &self.plan);
        let changed = self.definition != self.queued.definition;
        if changed || !self.shapes.is_empty() || !frames.clone().all(is_plain) {
            return None;
        }
        let snapshot = Snapshot {
            definition: self.definition,
            version: self.version,
            frozen: self.frozen,
            heals: self.heals,
            status: self.status,
            created_at: self.created_at,
            started_at: self.started_at,
            ended_at: self.ended_at,
            reopened_at: self.reopened_at,
            clock_from: self.clock_from,
            records: self.records,
            frames: frames.map(frame_state).collect(),
            loops: self.loops.clone(),
            next_instance: self.next_instance,
            active: self.active,
            vars: self.vars_state()?,
            blocked_by: sets(&self.blocked_by),
            recovered: sets(&self.recovered),
            taken: self.taken.clone(),
            due: self.due.clone(),
            children: self.children.clone(),
            transactional: self.transactional.clone(),
            signals: self.signals.clone(),
            waiters: self.waiters.clone(),
            since: self.since.clone(),
            to_route: self.to_route.clone(),
            to_join: self.to_join.clone(),
            to_stop: self.to_stop.clone(),
            to_open: self.to_open.clone(),
            to_settle: self.to_settle.clone(),
            to_advance: self.to_advance.clone(),
            completed: self.completed.clone(),
            undo: self.undo.as_ref().map(undo_state),
            reuse: self.reuse.clone(),
            output_bytes: self.output_bytes,
            finished: self.finished.as_deref().cloned(),
            deaths: self.deaths.clone(),
        };
        serde_json::to_vec(&snapshot).ok()
    }

    /// The state that a snapshot stands for; none if it is not one of this run.
    pub fn restore(
        id: RunId,
        plan: Arc<Plan>,
        queued: Queued,
        created_at: Millis,
        bytes: &[u8],
    ) -> Option<Self> {
        let snapshot: Snapshot = serde_json::from_slice(bytes).ok()?;
        if snapshot.definition != queued.definition {
            return None;
        }
        let mut run = Self::new(id, plan, queued, created_at).ok()?;
        let mut frames = snapshot.frames.into_iter();
        let top = frames.next().and_then(|state| run.frame_from(state))?;
        for state in frames {
            let frame = run.frame_from(state)?;
            run.frames.insert(frame.base, frame);
        }
        if top.nodes.len() != run.plan.len() {
            return None;
        }
        run.top = top;
        run.version = snapshot.version;
        run.frozen = snapshot.frozen;
        run.heals = snapshot.heals;
        run.status = snapshot.status;
        run.created_at = snapshot.created_at;
        run.started_at = snapshot.started_at;
        run.ended_at = snapshot.ended_at;
        run.reopened_at = snapshot.reopened_at;
        run.clock_from = snapshot.clock_from;
        run.records = snapshot.records;
        run.loops = snapshot.loops;
        run.next_instance = snapshot.next_instance;
        run.active = snapshot.active;
        run.vars = held(snapshot.vars);
        run.blocked_by = arcs(snapshot.blocked_by);
        run.recovered = arcs(snapshot.recovered);
        run.taken = snapshot.taken;
        run.due = snapshot.due;
        run.children = snapshot.children;
        run.transactional = snapshot.transactional;
        run.signals = snapshot.signals;
        run.waiters = snapshot.waiters;
        run.since = snapshot.since;
        run.to_route = snapshot.to_route;
        run.to_join = snapshot.to_join;
        run.to_stop = snapshot.to_stop;
        run.to_open = snapshot.to_open;
        run.to_settle = snapshot.to_settle;
        run.to_advance = snapshot.to_advance;
        run.completed = snapshot.completed;
        run.undo = snapshot.undo.map(undo_from);
        run.reuse = snapshot.reuse;
        run.output_bytes = snapshot.output_bytes;
        run.finished = snapshot.finished.map(Arc::new);
        run.deaths = snapshot.deaths;
        Some(run)
    }

    fn vars_state(&self) -> Option<BTreeMap<Box<str>, HeldState>> {
        let state = |held: &Held| {
            let state = match (held.text(), held.blob()) {
                (Some(text), _) => {
                    let raw = serde_json::value::RawValue::from_string(text.to_string());
                    HeldState::Text(raw.ok()?)
                }
                (None, blob) => HeldState::Blob(blob?),
            };
            Some(state)
        };
        let vars = self.vars.iter();
        vars.map(|(name, held)| Some((name.clone(), state(held)?)))
            .collect()
    }

    fn frame_from(&self, state: FrameState) -> Option<Frame> {
        let graph = self.plan.graphs().get(state.graph as usize)?;
        let edges: Vec<EdgeState> = state.edges.bytes().map(edge_from).collect::<Option<_>>()?;
        if graph.len() != state.nodes.len() || graph.edges().len() != edges.len() {
            return None;
        }
        Some(Frame {
            plan: Arc::clone(&self.plan),
            graph: state.graph,
            base: state.base,
            ids: None,
            owner: state.owner,
            nodes: state.nodes,
            edges,
            counts: state.counts,
            routing: state.routing,
            failed: state.failed,
            stop: state.stop,
            levels: state.levels,
            done: state.done,
            previous: state.previous,
        })
    }
}

fn frame_state(frame: &Frame) -> FrameState {
    FrameState {
        graph: frame.graph,
        base: frame.base,
        owner: frame.owner,
        nodes: frame.nodes.clone(),
        edges: frame.edges.iter().map(|edge| edge_digit(*edge)).collect(),
        counts: frame.counts,
        routing: frame.routing,
        failed: frame.failed.clone(),
        stop: frame.stop.clone(),
        levels: frame.levels.clone(),
        done: frame.done,
        previous: frame.previous,
    }
}

fn edge_digit(edge: EdgeState) -> char {
    match edge {
        EdgeState::Unresolved => '0',
        EdgeState::Taken => '1',
        EdgeState::NotTaken => '2',
        EdgeState::Lost => '3',
    }
}

fn edge_from(digit: u8) -> Option<EdgeState> {
    Some(match digit {
        b'0' => EdgeState::Unresolved,
        b'1' => EdgeState::Taken,
        b'2' => EdgeState::NotTaken,
        b'3' => EdgeState::Lost,
        _ => return None,
    })
}

fn undo_state(undo: &Undo) -> UndoState {
    UndoState {
        base: undo.base,
        targets: undo.targets.clone(),
        states: undo.states.clone(),
        skipped: undo.skipped.clone(),
        ending: undo.ending.clone(),
    }
}

fn undo_from(state: UndoState) -> Undo {
    Undo {
        base: state.base,
        targets: state.targets,
        states: state.states,
        skipped: state.skipped,
        ending: state.ending,
    }
}

fn held(vars: BTreeMap<Box<str>, HeldState>) -> BTreeMap<Box<str>, Held> {
    let held = |state| match state {
        HeldState::Text(raw) => Held::new(&Stored::Inline(raw)),
        HeldState::Blob(value) => Held::new(&Stored::Blob {
            digest: value.digest,
            size: u64::from(value.size),
        }),
    };
    let vars = vars.into_iter();
    vars.map(|(name, state)| (name, held(state))).collect()
}

type Sets = BTreeMap<Instance, Arc<[Instance]>>;

fn sets(sets: &Sets) -> Vec<(Instance, Vec<Instance>)> {
    sets.iter()
        .map(|(&node, set)| (node, set.to_vec()))
        .collect()
}

fn arcs(sets: Vec<(Instance, Vec<Instance>)>) -> Sets {
    // Equal sets were shared; neighbours in order mostly are the same one.
    let mut last: Option<Arc<[Instance]>> = None;
    let mut share = |set: Vec<Instance>| match &last {
        Some(known) if **known == set[..] => Arc::clone(known),
        _ => {
            let set: Arc<[Instance]> = set.into();
            last = Some(Arc::clone(&set));
            set
        }
    };
    sets.into_iter()
        .map(|(node, set)| (node, share(set)))
        .collect()
}

/// The default of a status, for what a snapshot leaves out.
pub(super) fn is_false(truth: &bool) -> bool {
    !truth
}

/// A status that a snapshot leaves out.
pub(super) fn pending() -> NodeStatus {
    NodeStatus::Pending
}

/// Whether a snapshot leaves a status out.
pub(super) fn is_pending(status: &NodeStatus) -> bool {
    *status == NodeStatus::Pending
}

/// Whether a snapshot leaves a number out.
pub(super) fn is_zero(number: &u32) -> bool {
    *number == 0
}
