//! Read-only queries on a run: where instances belong, how their incoming edges stand, and
//! which instances the next event makes the run forget.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Run;
use super::frame::{FrameKey, Instance};
use crate::definition::When;
use crate::id::{Millis, RunId};
use crate::plan::{NodeIndex, NodeKind, Plan};
use crate::routing::EdgeState;
use crate::status::NodeStatus;

/// What users see of an open instance that no worker has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingNode {
    /// The instance.
    pub node: Instance,
    /// Its path.
    pub path: Box<str>,
    /// What it waits for, or how far the loop is.
    pub what: WaitState,
}

/// How an open instance stands that no worker has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WaitState {
    /// A loop goes round.
    Loop {
        /// Iterations that have ended.
        done: u32,
        /// How many there will be, where that is known.
        total: Option<u32>,
        /// Iterations that are open.
        running: u32,
        /// Iterations that ended badly.
        failed: u32,
    },
    /// It waits for a time.
    Until(Millis),
    /// It waits for a signal.
    Signal {
        /// The signal.
        name: Box<str>,
        /// How long, where there is an end.
        until: Option<Millis>,
    },
    /// It waits for a child run.
    Child(RunId),
}

impl Run {
    /// How an open instance stands, where no worker has it.
    pub fn waiting_node(&self, node: Instance) -> Option<WaitingNode> {
        let state = self.find_state(node).filter(|state| state.is_open())?;
        let what = if state.status == NodeStatus::Waiting {
            match (self.signal_of(node), self.due(node)) {
                (Some(name), until) => WaitState::Signal {
                    name: name.into(),
                    until,
                },
                (None, due) => WaitState::Until(due?),
            }
        } else if let Some(child) = self.child(node) {
            WaitState::Child(child)
        } else {
            let cycle = self.loops.get(&node)?;
            let is_list = self.kind_of(node) == NodeKind::ForEach;
            WaitState::Loop {
                done: cycle.opened() - cycle.running(),
                total: is_list.then(|| cycle.items()),
                running: cycle.running(),
                failed: cycle.failed.len() as u32,
            }
        };
        let path = self.path(node);
        Some(WaitingNode { node, path, what })
    }

    /// The loop and the iteration that an instance is in; none at the top level.
    pub fn owner(&self, node: Instance) -> Option<(Instance, u32)> {
        let owner = self.frame(self.key_of(node)).owner?;
        Some((owner.node, owner.iteration))
    }

    /// The instances of one of a loop's iterations, while it is kept.
    pub fn iteration(&self, node: Instance, iteration: u32) -> Vec<Instance> {
        let key = self
            .loops
            .get(&node)
            .and_then(|cycle| cycle.frames.get(&iteration));
        key.map(|&key| self.frame(key).instances().collect())
            .unwrap_or_default()
    }

    /// The loop that had an instance with this path in an iteration which has ended and is
    /// forgotten, as the iterations of a loop that succeeded are.
    pub fn closed_loop(&self, path: &str) -> Option<Instance> {
        let mut below = String::new();
        for step in path.split('/') {
            if !below.is_empty() {
                below.push('/');
            }
            below.push_str(step.split('[').next().unwrap_or_default());
        }
        let mut nodes = 0..self.plan.total() as NodeIndex;
        if !nodes.any(|node| *self.plan.static_path(node) == *below) {
            return None;
        }
        let iterations = path.match_indices('[');
        let mut closed = iterations.filter_map(|(at, _)| {
            let node = self.resolve(&path[..at])?;
            let number: u32 = path[at + 1..].split(']').next()?.parse().ok()?;
            let cycle = self.loops.get(&node)?;
            let is_closed = number < cycle.opened() && !cycle.frames.contains_key(&number);
            is_closed.then_some(node)
        });
        closed.next()
    }

    /// The number that the next instance gets.
    pub fn next_instance(&self) -> Instance {
        self.next_instance
    }

    /// The instances of the top level, in definition order.
    pub fn top_instances(&self) -> impl Iterator<Item = Instance> + '_ {
        self.top.instances()
    }

    /// The node of a graph that an instance, or the undoing of one, is of: it keeps its
    /// shape when the graph changes under it.
    pub fn place(&self, node: Instance) -> (&Arc<Plan>, NodeIndex) {
        self.plan_node(node)
    }

    /// Whether the run follows, or followed, newer versions: as its starting definition
    /// says, for as long as its graph is not its own.
    pub fn is_healing(&self) -> bool {
        !self.frozen && self.heals
    }

    /// Where each of an instance's incoming edges comes from, and how it stands.
    pub fn parents(&self, node: Instance) -> Vec<(Instance, EdgeState)> {
        let frame = self.frame_of(node);
        let incoming = frame.plan.incoming(frame.node(node)).iter();
        let parents = incoming.map(|&edge| {
            let source = frame.instance(frame.plan.edge(edge).source);
            (source, frame.edge(edge))
        });
        parents.collect()
    }

    /// The instance that undoes a node, if the run is undone and the node with it.
    pub fn undoing_of(&self, node: Instance) -> Option<Instance> {
        self.undo.as_ref()?.of(node)
    }

    /// Whether every instance that ever was is there now, under the path it always had:
    /// nothing is inside a loop, and the graph never changed.
    pub fn forgets_nothing(&self) -> bool {
        let queued = &self.queued;
        let is_first = self.version == queued.version && self.definition == queued.definition;
        let same_graph = is_first && self.frozen == queued.frozen && self.top.ids.is_none();
        same_graph && self.plan.graphs().len() == 1
    }

    /// Every instance that the next event makes the run forget, because the iteration it is in
    /// has ended and nothing needs it any more.
    pub fn instances_to_free(&self) -> Vec<Instance> {
        let mut found = Vec::new();
        for &key in &self.garbage {
            self.leaving_with(key, &mut found);
        }
        found
    }

    fn leaving_with(&self, key: FrameKey, found: &mut Vec<Instance>) {
        let Some(frame) = self.frames.get(key) else {
            return;
        };
        for node in frame.instances() {
            let inner = self.loops.get(&node);
            for &key in inner.into_iter().flat_map(|cycle| cycle.frames.values()) {
                self.leaving_with(key, found);
            }
            found.push(node);
        }
    }
}

impl Run {
    /// A node's outgoing edges, in definition order: when each is taken, where it leads,
    /// and how it stands. Empty for an instance that the run does not have.
    pub fn edges_from(&self, node: Instance) -> Vec<(When, Instance, EdgeState)> {
        let Some(frame) = self.find_frame(node) else {
            return Vec::new();
        };
        let edges = frame.plan.outgoing(frame.node(node));
        let look = |index| {
            let edge = frame.plan.edge(index);
            (edge.when, frame.instance(edge.target), frame.edge(index))
        };
        edges.map(look).collect()
    }
}
