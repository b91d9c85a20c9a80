//! Scopes of a run: the top level, and one frame for each open iteration of a loop.
//!
//! An instance is a node in a frame. Instances are numbered once and for ever: those of
//! the top level are its nodes, each iteration takes the next numbers, and none is used
//! again, so that a late result can never be mistaken for that of another iteration.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::levels::Levels;
use super::snapshot::{is_false, is_pending, is_zero, pending};
use super::{Run, Stop};
use crate::definition::ExecutionMode;
use crate::id::Digest;
use crate::plan::{EdgeIndex, GraphIndex, NodeIndex, Plan, PlanGraph};
use crate::routing::EdgeState;
use crate::status::NodeStatus;
use crate::value::ValueRef;

/// A node instance of a run; at the top level, the node's place in the plan.
pub type Instance = u32;

/// A frame, named by its first instance; the top level is 0.
pub type FrameKey = u32;

/// Room for the paths of most instances inside loops.
const PATH_BYTES: usize = 64;

/// The top level's key.
pub(crate) const TOP: FrameKey = 0;

/// A node instance's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeState {
    #[serde(rename = "s", default = "pending", skip_serializing_if = "is_pending")]
    pub(crate) status: NodeStatus,
    /// The run asked it to stop; a result that arrives within the grace is recorded.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) stopping: bool,
    /// It goes on although its scope stops, because a taken `always` edge leads to it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) exempt: bool,
    /// It was cancelled as not needed: a join had enough without it, its loop ended, or a new graph
    /// lacks it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) let_go: bool,
    /// Its result is that of another run, from which this one was forked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) reused: bool,
    /// Its result was given by hand.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) by_hand: bool,
    /// The last attempt begun or due; 0 before the first.
    #[serde(rename = "n", default, skip_serializing_if = "is_zero")]
    pub(crate) attempt: u32,
    /// The attempt with which the present retry budget began.
    #[serde(rename = "f", default, skip_serializing_if = "is_zero")]
    pub(crate) first_attempt: u32,
    /// How often another process took the run over while the attempt was open. The process
    /// before may have handed out the attempt, with its number and idempotency key, without a
    /// record.
    #[serde(rename = "d", default, skip_serializing_if = "is_zero")]
    pub(crate) deliveries: u32,
    /// Incoming edges that have not resolved.
    #[serde(rename = "u", default, skip_serializing_if = "is_zero")]
    pub(crate) unresolved: u32,
    /// Its output, or its error if it failed.
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<ValueRef>,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub(crate) ancestry: Option<Digest>,
}

impl NodeState {
    pub(crate) fn new(unresolved: u32) -> Self {
        Self {
            status: NodeStatus::Pending,
            stopping: false,
            exempt: false,
            let_go: false,
            reused: false,
            by_hand: false,
            attempt: 0,
            first_attempt: 0,
            deliveries: 0,
            unresolved,
            value: None,
            ancestry: None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(
            self.status,
            NodeStatus::Queued | NodeStatus::Running | NodeStatus::Waiting
        )
    }
}

/// The loop instance and iteration that a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) node: Instance,
    pub(crate) iteration: u32,
}

/// Instances that do not follow their nodes' order, because the graph changed under them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ids {
    /// The instance of each node of the graph.
    pub(crate) instances: Vec<Instance>,
    /// The node of each instance, counted from the graph's first.
    pub(crate) nodes: BTreeMap<Instance, u32>,
}

/// One scope: the nodes and edges of a graph, and how they stand.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) plan: Arc<Plan>,
    pub(crate) graph: GraphIndex,
    pub(crate) base: FrameKey,
    pub(crate) ids: Option<Box<Ids>>,
    pub(crate) owner: Option<Owner>,
    pub(crate) nodes: Vec<NodeState>,
    pub(crate) edges: Vec<EdgeState>,
    /// Nodes by status: what `counts` shows, and how the end is noticed.
    pub(crate) counts: [u32; 9],
    /// Ended nodes whose conditional edges have not been evaluated.
    pub(crate) routing: u32,
    /// Failed nodes, each with the number of its failure in the run: lower is earlier.
    pub(crate) failed: BTreeMap<Instance, u64>,
    pub(crate) stop: Option<Stop>,
    pub(crate) levels: Option<Levels>,
    /// The iteration has ended.
    pub(crate) done: bool,
    /// The output of the iteration before, for what undoes this one.
    pub(crate) previous: Option<ValueRef>,
}

impl Frame {
    pub(crate) fn new(
        plan: Arc<Plan>,
        graph: GraphIndex,
        base: FrameKey,
        owner: Option<Owner>,
    ) -> Self {
        let shape = plan.graph(graph);
        let nodes: Vec<NodeState> = shape
            .nodes()
            .map(|node| NodeState::new(plan.incoming(node).len() as u32))
            .collect();
        let mut counts = [0; 9];
        counts[NodeStatus::Pending as usize] = nodes.len() as u32;
        let by_levels = plan.execution_mode() == ExecutionMode::Levels;
        let levels = by_levels.then(|| Levels::new(&plan, graph));
        Self {
            graph,
            base,
            ids: None,
            owner,
            edges: vec![EdgeState::Unresolved; shape.edges().len()],
            nodes,
            counts,
            routing: 0,
            failed: BTreeMap::new(),
            stop: None,
            levels,
            done: false,
            plan,
            previous: None,
        }
    }

    pub(crate) fn shape(&self) -> &PlanGraph {
        self.plan.graph(self.graph)
    }

    /// Where an instance stands among the frame's nodes.
    pub(crate) fn local(&self, node: Instance) -> usize {
        match &self.ids {
            None => (node - self.base) as usize,
            Some(ids) => ids.nodes[&node] as usize,
        }
    }

    pub(crate) fn owns(&self, node: Instance) -> bool {
        match &self.ids {
            None => node >= self.base && ((node - self.base) as usize) < self.nodes.len(),
            Some(ids) => ids.nodes.contains_key(&node),
        }
    }

    /// The instance of one of the graph's nodes, given by its place in the plan.
    pub(crate) fn instance(&self, node: NodeIndex) -> Instance {
        let local = node - self.shape().nodes.start;
        match &self.ids {
            None => self.base + local,
            Some(ids) => ids.instances[local as usize],
        }
    }

    /// The place in the plan of one of the frame's instances.
    pub(crate) fn node(&self, node: Instance) -> NodeIndex {
        self.shape().nodes.start + self.local(node) as NodeIndex
    }

    pub(crate) fn state(&self, node: Instance) -> &NodeState {
        &self.nodes[self.local(node)]
    }

    pub(crate) fn state_mut(&mut self, node: Instance) -> &mut NodeState {
        let local = self.local(node);
        &mut self.nodes[local]
    }

    pub(crate) fn edge(&self, edge: EdgeIndex) -> EdgeState {
        self.edges[(edge - self.shape().edges.start) as usize]
    }

    pub(crate) fn set_edge(&mut self, edge: EdgeIndex, state: EdgeState) {
        let local = (edge - self.shape().edges.start) as usize;
        self.edges[local] = state;
    }

    /// All instances, in definition order.
    pub(crate) fn instances(&self) -> impl Iterator<Item = Instance> + use<> {
        let ids = self.ids.as_ref().map(|ids| ids.instances.clone());
        let (base, count) = (self.base, self.nodes.len());
        (0..count).map(move |local| match &ids {
            None => base + local as Instance,
            Some(ids) => ids[local],
        })
    }

    /// The numbers that the frame took when it was opened.
    pub(crate) fn range(&self) -> Range<Instance> {
        self.base..self.base + self.nodes.len() as Instance
    }

    /// Nodes that are ready, running or waiting.
    pub(crate) fn open(&self) -> u32 {
        self.counts[NodeStatus::Queued as usize]
            + self.counts[NodeStatus::Running as usize]
            + self.counts[NodeStatus::Waiting as usize]
    }

    /// Whether nothing more happens in it by itself.
    pub(crate) fn is_quiet(&self) -> bool {
        self.open() == 0 && self.routing == 0
    }
}

impl Run {
    pub(crate) fn frame(&self, key: FrameKey) -> &Frame {
        if key == TOP {
            return &self.top;
        }
        self.frames
            .get(key)
            .or_else(|| self.kept_frames.get(&key))
            .expect("a frame that is named is open")
    }

    pub(crate) fn frame_mut(&mut self, key: FrameKey) -> &mut Frame {
        if key == TOP {
            return &mut self.top;
        }
        self.frames
            .get_mut(key)
            .expect("a frame that is named is open")
    }

    pub(crate) fn find_frame(&self, node: Instance) -> Option<&Frame> {
        if self.top.owns(node) {
            return Some(&self.top);
        }
        let open = self.frames.before(node).filter(|frame| frame.owns(node));
        open.or_else(|| {
            let (_, frame) = self.kept_frames.range(..=node).next_back()?;
            frame.owns(node).then_some(frame)
        })
    }

    /// The frame of an instance.
    pub(crate) fn frame_of(&self, node: Instance) -> &Frame {
        self.find_frame(node).expect("an instance has a frame")
    }

    /// The scope that an instance stands in, or stood in when it was taken back.
    pub(crate) fn key_of(&self, node: Instance) -> FrameKey {
        match self.kept.get(&node) {
            Some(kept) => kept.frame,
            None => self.frame_of(node).base,
        }
    }

    /// The place of an instance in the graph of its scope.
    pub(crate) fn node_index(&self, node: Instance) -> NodeIndex {
        match self.kept.get(&node) {
            Some(kept) => kept.node,
            None => self.frame_of(node).node(node),
        }
    }

    fn find_frame_mut(&mut self, node: Instance) -> Option<&mut Frame> {
        if self.top.owns(node) {
            return Some(&mut self.top);
        }
        let frame = self.frames.before_mut(node)?;
        frame.owns(node).then_some(frame)
    }

    fn frame_of_mut(&mut self, node: Instance) -> &mut Frame {
        self.find_frame_mut(node).expect("an instance has a frame")
    }

    /// The state of an instance, or of the undoing of one.
    pub(crate) fn find_state(&self, node: Instance) -> Option<&NodeState> {
        match self.find_frame(node) {
            Some(frame) => Some(frame.state(node)),
            None => self.undo.as_ref()?.state(node),
        }
    }

    pub(crate) fn state(&self, node: Instance) -> &NodeState {
        self.find_state(node).expect("an instance has a state")
    }

    pub(crate) fn state_mut(&mut self, node: Instance) -> &mut NodeState {
        if self.undone(node).is_some() {
            let undo = self.undo.as_mut().expect("what undoes a node is in `undo`");
            return undo.state_mut(node);
        }
        self.frame_of_mut(node).state_mut(node)
    }

    /// The graph's node that an instance, or the undoing of one, is of.
    pub(crate) fn plan_node(&self, node: Instance) -> (&Arc<Plan>, NodeIndex) {
        let node = self.undone(node).unwrap_or(node);
        if let Some((plan, index)) = self.shapes.get(&node) {
            return (plan, *index);
        }
        if let Some(kept) = self.kept.get(&node) {
            return (&kept.plan, kept.node);
        }
        let frame = self.frame_of(node);
        (&frame.plan, frame.node(node))
    }

    pub(crate) fn set_status(&mut self, node: Instance, status: NodeStatus) {
        let was = self.state(node).status;
        let counted = u32::from(self.is_active(node, status));
        self.active = self.active - u32::from(self.is_active(node, was)) + counted;
        if self.undone(node).is_some() {
            let undo = self.undo.as_mut().expect("what undoes a node is in `undo`");
            undo.set_status(node, status);
            return;
        }
        let frame = self.frame_of_mut(node);
        frame.state_mut(node).status = status;
        frame.counts[was as usize] -= 1;
        frame.counts[status as usize] += 1;
        let (key, mut owner, is_over) = (frame.base, frame.owner, frame.open() == 0);
        if key != TOP && is_over {
            self.quiet.insert(key);
        }
        while let Some(Owner { node, .. }) = owner {
            if let Some(cycle) = self.loops.get_mut(&node) {
                cycle.counts[was as usize] = cycle.counts[was as usize].saturating_sub(1);
                cycle.counts[status as usize] += 1;
            }
            owner = self.frame_of(node).owner;
        }
    }

    /// Whether an instance in this status is with a worker, or would be if one were free.
    fn is_active(&self, node: Instance, status: NodeStatus) -> bool {
        match status {
            NodeStatus::Queued => true,
            NodeStatus::Running => {
                let (plan, index) = self.plan_node(node);
                plan.structure(index).is_none() || self.undone(node).is_some()
            }
            _ => false,
        }
    }

    /// An instance's path: `node` at the top level, `loop[3]/node` in a body.
    ///
    /// # Panics
    /// The run has no such instance now.
    pub fn path(&self, node: Instance) -> Box<str> {
        let node = self.undone(node).unwrap_or(node);
        let mut path = String::with_capacity(PATH_BYTES);
        self.write_path(node, &mut path);
        path.into()
    }

    /// Writes an instance's path behind what stands there already.
    fn write_path(&self, node: Instance, path: &mut String) {
        let kept = || self.kept.get(&node).map(|kept| &kept.path);
        if let Some(known) = self.removed.get(&node).or_else(kept) {
            path.push_str(known);
            return;
        }
        let frame = self.frame_of(node);
        if let Some(owner) = frame.owner {
            self.write_scope(owner, path);
            path.push('/');
        }
        path.push_str(frame.plan.id(frame.node(node)));
    }

    fn write_scope(&self, owner: Owner, path: &mut String) {
        self.write_path(owner.node, path);
        // Writing to a string cannot fail.
        let _ = write!(path, "[{}]", owner.iteration);
    }

    /// The id of an instance's node, as names in its own scope go.
    pub(crate) fn id_of(&self, node: Instance) -> &str {
        let frame = self.frame_of(node);
        frame.plan.id(frame.node(node))
    }

    /// A frame's path: empty for the top level, `loop[3]` for an iteration.
    pub(crate) fn scope_path(&self, key: FrameKey) -> Box<str> {
        let Some(owner) = self.frame(key).owner else {
            return "".into();
        };
        let mut path = String::with_capacity(PATH_BYTES);
        self.write_scope(owner, &mut path);
        path.into()
    }

    /// The instance with this path, if there is one now.
    pub fn resolve(&self, path: &str) -> Option<Instance> {
        let (scope, id) = match path.rfind('/') {
            Some(slash) => (self.resolve_scope(&path[..slash])?, &path[slash + 1..]),
            None => (TOP, path),
        };
        let frame = self.frame(scope);
        let node = frame.plan.find(frame.graph, id)?;
        Some(frame.instance(node))
    }

    /// The frame with this path, `loop[3]`; empty is the top level.
    pub(crate) fn resolve_scope(&self, path: &str) -> Option<FrameKey> {
        if path.is_empty() {
            return Some(TOP);
        }
        let inner = path.strip_suffix(']')?;
        let bracket = inner.rfind('[')?;
        let iteration: u32 = inner[bracket + 1..].parse().ok()?;
        let node = self.resolve(&inner[..bracket])?;
        self.loops.get(&node)?.frames.get(&iteration).copied()
    }

    /// The frame of an instance, and those around it, inner ones first.
    pub(crate) fn scopes_around(&self, node: Instance) -> Vec<FrameKey> {
        let mut frame = self.frame_of(node);
        let mut scopes = vec![frame.base];
        while let Some(owner) = frame.owner {
            frame = self.frame(self.key_of(owner.node));
            scopes.push(frame.base);
        }
        scopes
    }

    /// All frames: the top level, then those of iterations, in the order they were opened.
    pub(crate) fn all_frames(&self) -> Vec<FrameKey> {
        std::iter::once(TOP).chain(self.frames.keys()).collect()
    }

    /// Every instance there is a state of, the top level first.
    pub fn instances(&self) -> impl Iterator<Item = Instance> + '_ {
        std::iter::once(&self.top)
            .chain(self.frames.values())
            .flat_map(Frame::instances)
    }

    /// What leads to an instance in its scope: the source of each edge, and how that
    /// edge stands.
    pub fn incoming(&self, node: Instance) -> Vec<(Instance, EdgeState)> {
        let frame = self.frame_of(node);
        let edges = frame.plan.incoming(frame.node(node)).iter();
        edges
            .map(|&edge| {
                let source = frame.instance(frame.plan.edge(edge).source);
                (source, frame.edge(edge))
            })
            .collect()
    }

    /// Where an instance stands in the definition, its iterations included: what comes
    /// first when only one may go at a time.
    ///
    /// # Panics
    /// The run has no such instance now.
    pub fn order(&self, node: Instance) -> Vec<u32> {
        let node = self.undone(node).unwrap_or(node);
        let mut order = match self.frame(self.key_of(node)).owner {
            Some(owner) => {
                let mut order = self.order(owner.node);
                order.push(owner.iteration);
                order
            }
            None => Vec::new(),
        };
        order.push(self.node_index(node));
        order
    }
}
