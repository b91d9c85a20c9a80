//! Dynamic workflows: a graph that is made at run time, as large as the data, and frozen
//! before it runs. Its nodes call registered actions by name; there is no code in it.
//!
//! It knows definitions' nodes, and never an engine, a clock of its own or randomness.

mod freeze;
mod frozen;
mod ids;
mod spec;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::Serialize;
use windlass_core::Millis;
use windlass_engine::{Clock as _, SystemClock};

pub use frozen::{FROZEN_VERSION, FrozenError, FrozenGraph};
use ids::Ids;
pub use ids::NodeId;
pub use spec::{NodeKey, NodeSpec};

use crate::retry::Retry;
use crate::workflow::{BuildError, Problem};

/// A graph under construction.
///
/// ```
/// use serde_json::json;
/// use windlass::{Graph, NodeSpec};
///
/// let mut graph = Graph::builder();
/// let fetch = graph.node("fetch", "core.echo", json!({ "user": 7 })).id();
/// let mutations = graph.fan_out(1..=3, |id| {
///     NodeSpec::new(format!("mutation_{id}"), "core.echo", json!({ "mutation": id }))
/// });
/// graph.node("aggregate", "core.echo", json!({}));            // after all mutations
/// graph.node("audit", "core.echo", json!({})).depends_on([&fetch]);
/// let frozen = graph.freeze()?;
/// assert_eq!(frozen.nodes().len(), 6);
/// assert_eq!(mutations.len(), 3);
/// # Ok::<(), windlass::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Graph {
    ids: Ids,
    nodes: Vec<Placed>,
    /// The nodes that a node without dependencies comes after.
    previous: Vec<NodeId>,
    problems: Vec<Problem>,
}

/// A node with its identity.
#[derive(Debug)]
struct Placed {
    id: NodeId,
    spec: NodeSpec,
    /// What was previous when it was declared.
    previous: Vec<NodeId>,
}

impl Graph {
    /// An empty graph.
    pub fn builder() -> Self {
        Self {
            ids: Ids::default(),
            nodes: Vec::new(),
            previous: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Makes the ids of this graph differ from those of another with the same names. Ids
    /// derive from the salt, the place and the name of a node; those made before stay.
    #[must_use]
    pub fn salt(mut self, salt: impl Into<String>) -> Self {
        self.ids.salt(salt.into());
        self
    }

    /// Adds a node that calls a registered action. It comes after the previous node (after
    /// all of them, if that was a fan-out); the first node is an entry. What is returned
    /// can say otherwise, and gives the node's id.
    pub fn node(
        &mut self,
        name: impl Into<Box<str>>,
        action: impl Into<Box<str>>,
        parameters: impl Serialize,
    ) -> NodeRef<'_> {
        let spec = NodeSpec::new(name, action, parameters);
        let previous = self.previous.clone();
        self.place(spec, previous);
        NodeRef { graph: self }
    }

    /// Adds a node as a specification has it, and returns its id.
    pub fn add(&mut self, spec: NodeSpec) -> NodeId {
        let previous = self.previous.clone();
        self.place(spec, previous)
    }

    /// Adds a node for each item. Those that name no dependency all come after what came
    /// before the fan-out, beside each other; a node that follows comes after all of them.
    /// No items add no nodes, and what follows comes after what came before.
    pub fn fan_out<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut node: impl FnMut(T) -> NodeSpec,
    ) -> Vec<NodeId> {
        let before = self.previous.clone();
        let ids: Vec<NodeId> = items
            .into_iter()
            .map(|item| self.place(node(item), before.clone()))
            .collect();
        self.previous = if ids.is_empty() { before } else { ids.clone() };
        ids
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Freezes the graph: it never changes from here on.
    ///
    /// # Errors
    /// Everything that is wrong with it: names that lead nowhere or to several nodes,
    /// cycles, expressions that do not compile.
    pub fn freeze(self) -> Result<FrozenGraph, BuildError> {
        self.freeze_at(SystemClock.now())
    }

    /// Freezes the graph as of a moment.
    ///
    /// # Errors
    /// As for [`Self::freeze`].
    pub fn freeze_at(self, at: Millis) -> Result<FrozenGraph, BuildError> {
        freeze::freeze(self, at)
    }

    fn place(&mut self, spec: NodeSpec, previous: Vec<NodeId>) -> NodeId {
        let id = self.ids.next(&spec.name);
        self.problems.extend(spec.problems.iter().cloned());
        self.nodes.push(Placed {
            id: id.clone(),
            spec,
            previous,
        });
        self.previous = vec![id.clone()];
        id
    }
}

/// The node that was added last.
#[derive(Debug)]
pub struct NodeRef<'a> {
    graph: &'a mut Graph,
}

impl NodeRef<'_> {
    /// The node's id, to depend on it.
    pub fn id(&self) -> NodeId {
        let last = self.graph.nodes.last();
        last.expect("a node reference begins with its node")
            .id
            .clone()
    }

    /// Depends on nothing: an entry.
    pub fn entry(self) -> Self {
        self.change(NodeSpec::entry)
    }

    /// Depends on these nodes, by id or by name, and not on the previous one; on none of
    /// them means an entry.
    pub fn depends_on<N: Into<NodeKey>>(self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.change(|spec| spec.depends_on(nodes))
    }

    /// How often and how soon an attempt is repeated; a number means that many attempts.
    pub fn retry(self, retry: impl Into<Retry>) -> Self {
        self.change(|spec| spec.retry(retry))
    }

    /// The time of one attempt.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.change(|spec| spec.timeout(timeout))
    }

    /// How the node's effect is undone if the run fails.
    pub fn compensate(self, action: impl Into<Box<str>>, parameters: impl Serialize) -> Self {
        self.change(|spec| spec.compensate(action, parameters))
    }

    fn change(self, change: impl FnOnce(NodeSpec) -> NodeSpec) -> Self {
        let last = self.graph.nodes.last_mut();
        let placed = last.expect("a node reference begins with its node");
        let known = placed.spec.problems.len();
        let spec = std::mem::replace(&mut placed.spec, NodeSpec::empty());
        placed.spec = change(spec);
        let new = placed.spec.problems.iter().skip(known).cloned();
        self.graph.problems.extend(new);
        self
    }
}
