//! A run's state as bytes, which stands for a prefix of its log. It is derived, and never the
//! only copy of anything: a reader that cannot decode one replays the log instead.
//!
//! The request is not in it: it is found in the log's first record. Graphs are not in it
//! either, but named: the present one, and those by which something began that keeps the
//! shape it had.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::answered::Answered;
use super::child::Child;
use super::deaths::Deaths;
use super::environment::Held;
use super::frame::{Frame, FrameKey, Ids, Instance, NodeState, Owner};
use super::levels::Levels;
use super::record_count::RecordCount;
use super::reuse::Reuse;
use super::superseded::Superseded;
use super::undo_steps::{StepIndex, step_status};
use super::{Loop, Run, Stop, Undo, Undone};
use crate::event::{Finished, Queued};
use crate::id::{Digest, Millis, RunId};
use crate::plan::{GraphIndex, NodeIndex, Plan};
use crate::routing::EdgeState;
use crate::status::{NodeStatus, RunStatus};
use crate::value::{Stored, ValueRef};

/// The version of snapshots that this code writes, and the only one that it reads.
pub const SNAPSHOT_VERSION: u16 = 2;

/// A graph that a state needs: a version of the run's workflow, or, where it is frozen, a
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphName {
    /// Digest of its definition.
    pub definition: Digest,
    /// The workflow's version.
    pub version: u32,
    /// Whether the definition is a value, and not a version.
    pub frozen: bool,
}

/// A graph in use, with its name.
#[derive(Clone, Debug)]
pub(crate) struct NamedGraph {
    name: GraphName,
    plan: Arc<Plan>,
}

/// A state that was read from bytes, before its graphs are brought.
#[derive(Serialize, Deserialize)]
pub struct Snapshot {
    /// The graphs that it needs, the present one first.
    graphs: Vec<GraphName>,
    frozen: bool,
    heals: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    graph_waits: bool,
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shapes: Vec<(Instance, u32, NodeIndex)>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    removed: BTreeMap<Instance, Box<str>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    past: BTreeMap<Box<str>, (u32, u32)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kept: Vec<SupersededState>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kept_frames: Vec<FrameState>,
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
    #[serde(default)]
    failures: u64,
    finished: Option<Finished>,
    #[serde(default)]
    deaths: Deaths,
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    answered: VecDeque<Answered>,
}

#[derive(Serialize, Deserialize)]
struct FrameState {
    /// Which of the named graphs it is of.
    #[serde(default, skip_serializing_if = "is_zero")]
    plan: u32,
    graph: GraphIndex,
    base: FrameKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ids: Option<Box<Ids>>,
    owner: Option<Owner>,
    nodes: Vec<NodeState>,
    /// One digit for each edge.
    edges: String,
    counts: [u32; 9],
    routing: u32,
    failed: BTreeSet<Instance>,
    /// The numbers of those failures, in the same order; older snapshots have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failed_as: Vec<u64>,
    stop: Option<Stop>,
    levels: Option<Levels>,
    done: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<ValueRef>,
}

#[derive(Serialize, Deserialize)]
struct SupersededState {
    number: Instance,
    frame: FrameKey,
    path: Box<str>,
    plan: u32,
    node: NodeIndex,
    value: Option<ValueRef>,
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    twins: Vec<(u32, Vec<u32>)>,
    ending: Box<Finished>,
}

impl Snapshot {
    /// Decodes a snapshot; `None` if the bytes are not one.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// The graphs that it needs.
    pub fn graphs(&self) -> &[GraphName] {
        &self.graphs
    }
}

/// About how many bytes an instance takes in a snapshot.
const INSTANCE_BYTES: usize = 200;

/// About how many bytes the result of an iteration takes.
const RESULT_BYTES: usize = 120;

impl Run {
    /// About how many bytes a snapshot has.
    pub fn size_hint(&self) -> usize {
        let inside = self
            .frames
            .values()
            .next()
            .map_or(0, |frame| frame.nodes.len());
        let results: usize = self.loops.values().map(|cycle| cycle.results.len()).sum();
        (self.top.nodes.len() + self.frames.len() * inside) * INSTANCE_BYTES
            + results * RESULT_BYTES
    }

    /// The state as bytes, if it can be.
    pub fn snapshot(&mut self) -> Option<Vec<u8>> {
        self.collect_garbage();
        self.graphs_in_use();
        let frames = std::iter::once(&self.top).chain(self.frames.values());
        let frames = frames.map(|frame| self.frame_state(frame));
        let kept_frames = self.kept_frames.values();
        let kept_frames = kept_frames.map(|frame| self.frame_state(frame));
        let shapes = self.shapes.iter();
        let shapes =
            shapes.map(|(&node, (plan, index))| Some((node, self.graph_number(plan)?, *index)));
        let kept = self.kept.iter();
        let kept = kept.map(|(&number, kept)| self.superseded_state(number, kept));
        let snapshot = Snapshot {
            graphs: self.graphs.iter().rev().map(|graph| graph.name).collect(),
            frozen: self.frozen,
            heals: self.heals,
            graph_waits: self.graph_waits,
            status: self.status,
            created_at: self.created_at,
            started_at: self.started_at,
            ended_at: self.ended_at,
            reopened_at: self.reopened_at,
            clock_from: self.clock_from,
            records: self.records(),
            frames: frames.collect::<Option<_>>()?,
            loops: self.loops.clone(),
            shapes: shapes.collect::<Option<_>>()?,
            removed: self.removed.clone(),
            past: self.past.clone(),
            kept: kept.collect::<Option<_>>()?,
            kept_frames: kept_frames.collect::<Option<_>>()?,
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
            failures: self.failures,
            finished: self.finished.as_deref().cloned(),
            deaths: self.deaths.clone(),
            answered: self.answered.clone(),
        };
        serde_json::to_vec(&snapshot).ok()
    }

    /// The state that a snapshot stands for, with the graphs that it names in their order;
    /// none if it is not one of this run.
    pub fn restore(
        id: RunId,
        plans: Vec<Arc<Plan>>,
        queued: Queued,
        created_at: Millis,
        snapshot: Snapshot,
    ) -> Option<Self> {
        let present = *snapshot.graphs.first()?;
        if plans.len() != snapshot.graphs.len() {
            return None;
        }
        let mut run = Self::new(id, Arc::clone(&plans[0]), queued, created_at).ok()?;
        let graphs = snapshot.graphs.iter().zip(&plans);
        let graphs = graphs.map(|(&name, plan)| NamedGraph {
            name,
            plan: Arc::clone(plan),
        });
        run.graphs = graphs.rev().collect();
        run.definition = present.definition;
        let mut frames = snapshot.frames.into_iter();
        let top = frames.next().and_then(|state| frame_from(state, &plans))?;
        for state in frames {
            run.frames.insert(frame_from(state, &plans)?);
        }
        for state in snapshot.kept_frames {
            let frame = frame_from(state, &plans)?;
            run.kept_frames.insert(frame.base, frame);
        }
        for (node, plan, index) in snapshot.shapes {
            let plan = plans.get(plan as usize)?;
            run.shapes.insert(node, (Arc::clone(plan), index));
        }
        for state in snapshot.kept {
            let plan = plans.get(state.plan as usize)?;
            run.kept.insert(state.number, superseded_from(state, plan));
        }
        if top.nodes.len() != run.plan.len() || !Arc::ptr_eq(&top.plan, &run.plan) {
            return None;
        }
        run.removed = snapshot.removed;
        run.past = snapshot.past;
        run.top = top;
        run.version = present.version;
        run.frozen = snapshot.frozen;
        run.heals = snapshot.heals;
        run.graph_waits = snapshot.graph_waits;
        run.status = snapshot.status;
        run.created_at = snapshot.created_at;
        run.started_at = snapshot.started_at;
        run.ended_at = snapshot.ended_at;
        run.reopened_at = snapshot.reopened_at;
        run.clock_from = snapshot.clock_from;
        run.records = RecordCount::new(snapshot.records);
        run.loops = snapshot.loops;
        run.next_instance = snapshot.next_instance;
        run.active = snapshot.active;
        run.vars = held(snapshot.vars);
        run.vars_bytes = run.count_vars_bytes();
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
        run.failures = snapshot.failures;
        run.finished = snapshot.finished.map(Arc::new);
        run.deaths = snapshot.deaths;
        run.answered = snapshot.answered;
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

    /// The graph that the run goes on with is in use from now on.
    pub(crate) fn note_graph(&mut self) {
        let name = GraphName {
            definition: self.definition,
            version: self.version,
            frozen: self.frozen,
        };
        let plan = Arc::clone(&self.plan);
        self.graphs.retain(|graph| !Arc::ptr_eq(&graph.plan, &plan));
        self.graphs.push(NamedGraph { name, plan });
        self.graphs_in_use();
    }

    /// Forgets graphs that nothing in the state belongs to any more.
    fn graphs_in_use(&mut self) {
        let frames = self.frames.values().chain(self.kept_frames.values());
        let frames = frames.map(|frame| &frame.plan);
        let shapes = self.shapes.values().map(|(plan, _)| plan);
        let kept = self.kept.values().map(|kept| &kept.plan);
        let all = frames.chain(shapes).chain(kept);
        let used: BTreeSet<*const Plan> = all
            .chain([&self.plan, &self.top.plan])
            .map(Arc::as_ptr)
            .collect();
        self.graphs
            .retain(|graph| used.contains(&Arc::as_ptr(&graph.plan)));
    }

    /// The place of a graph among those that a snapshot names, the present one first.
    fn graph_number(&self, plan: &Arc<Plan>) -> Option<u32> {
        let mut graphs = self.graphs.iter().rev();
        let number = graphs.position(|graph| Arc::ptr_eq(&graph.plan, plan))?;
        Some(number as u32)
    }

    fn superseded_state(&self, number: Instance, kept: &Superseded) -> Option<SupersededState> {
        Some(SupersededState {
            number,
            frame: kept.frame,
            path: kept.path.clone(),
            plan: self.graph_number(&kept.plan)?,
            node: kept.node,
            value: kept.value,
        })
    }

    fn frame_state(&self, frame: &Frame) -> Option<FrameState> {
        Some(FrameState {
            plan: self.graph_number(&frame.plan)?,
            graph: frame.graph,
            base: frame.base,
            ids: frame.ids.clone(),
            owner: frame.owner,
            nodes: frame.nodes.clone(),
            edges: frame.edges.iter().map(|edge| edge_digit(*edge)).collect(),
            counts: frame.counts,
            routing: frame.routing,
            failed: frame.failed.keys().copied().collect(),
            failed_as: frame.failed.values().copied().collect(),
            stop: frame.stop.clone(),
            levels: frame.levels.clone(),
            done: frame.done,
            previous: frame.previous,
        })
    }
}

fn frame_from(state: FrameState, plans: &[Arc<Plan>]) -> Option<Frame> {
    let plan = plans.get(state.plan as usize)?;
    let graph = plan.graphs().get(state.graph as usize)?;
    let edges: Vec<EdgeState> = state.edges.bytes().map(edge_from).collect::<Option<_>>()?;
    if graph.len() != state.nodes.len() || graph.edges().len() != edges.len() {
        return None;
    }
    let numbered = state.ids.as_ref().map(|ids| ids.instances.len());
    if numbered.is_some_and(|count| count != state.nodes.len()) {
        return None;
    }
    let numbers = state.failed_as.into_iter().chain(std::iter::repeat(0));
    Some(Frame {
        plan: Arc::clone(plan),
        graph: state.graph,
        base: state.base,
        ids: state.ids,
        owner: state.owner,
        nodes: state.nodes,
        edges,
        counts: state.counts,
        routing: state.routing,
        failed: state.failed.into_iter().zip(numbers).collect(),
        stop: state.stop,
        levels: state.levels,
        done: state.done,
        previous: state.previous,
    })
}

fn superseded_from(state: SupersededState, plan: &Arc<Plan>) -> Superseded {
    Superseded {
        frame: state.frame,
        path: state.path,
        plan: Arc::clone(plan),
        node: state.node,
        value: state.value,
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
        twins: undo
            .twins
            .iter()
            .map(|(&local, twins)| (local, twins.to_vec()))
            .collect(),
        ending: undo.ending.clone(),
    }
}

fn undo_from(state: UndoState) -> Undo {
    let steps = state.states.iter().zip(&state.skipped);
    let statuses = steps.map(|(state, &skipped)| step_status(state, skipped));
    Undo {
        base: state.base,
        index: StepIndex::new(&state.targets, statuses),
        targets: state.targets,
        states: state.states,
        skipped: state.skipped,
        twins: state
            .twins
            .into_iter()
            .map(|(local, twins)| (local, twins.into()))
            .collect(),
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

/// Whether a snapshot leaves a flag out.
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
