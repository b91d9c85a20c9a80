//! What one node of a graph is to be, before it has an id.

use std::time::Duration;

use serde::Serialize;
use windlass_core::definition::{Compensate, JsonText, Policies};

use super::NodeId;
use crate::retry::{Retry, milliseconds};
use crate::workflow::{Problem, to_json};

/// How a node of a graph is named as a dependency: by id, or by its name for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKey {
    /// By id.
    Id(NodeId),
    /// By name, which must belong to one node alone.
    Name(Box<str>),
}

impl From<NodeId> for NodeKey {
    fn from(id: NodeId) -> Self {
        Self::Id(id)
    }
}

impl From<&NodeId> for NodeKey {
    fn from(id: &NodeId) -> Self {
        Self::Id(id.clone())
    }
}

impl From<&str> for NodeKey {
    fn from(name: &str) -> Self {
        Self::Name(name.into())
    }
}

impl From<String> for NodeKey {
    fn from(name: String) -> Self {
        Self::Name(name.into())
    }
}

/// A node of a graph: its name, the action it calls, and what that is given.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    pub(super) name: Box<str>,
    pub(super) action: Box<str>,
    pub(super) parameters: Option<JsonText>,
    /// None means: after the previous node.
    pub(super) depends_on: Option<Vec<NodeKey>>,
    pub(super) policies: Option<Box<Policies>>,
    pub(super) compensate: Option<Box<Compensate>>,
    pub(super) problems: Vec<Problem>,
}

impl NodeSpec {
    /// A node that calls an action. The parameters are a template, as in definitions.
    pub fn new(
        name: impl Into<Box<str>>,
        action: impl Into<Box<str>>,
        parameters: impl Serialize,
    ) -> Self {
        let mut spec = Self {
            name: name.into(),
            action: action.into(),
            ..Self::empty()
        };
        spec.parameters = spec.json("the parameters", &parameters);
        spec
    }

    pub(super) fn empty() -> Self {
        Self {
            name: Box::default(),
            action: Box::default(),
            parameters: None,
            depends_on: None,
            policies: None,
            compensate: None,
            problems: Vec::new(),
        }
    }

    /// Depends on nothing: an entry.
    #[must_use]
    pub fn entry(mut self) -> Self {
        self.depends_on = Some(Vec::new());
        self
    }

    /// Depends on these nodes, and not on the previous one.
    #[must_use]
    pub fn depends_on<N: Into<NodeKey>>(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        let keys = nodes.into_iter().map(Into::into);
        self.depends_on.get_or_insert_default().extend(keys);
        self
    }

    /// How often and how soon an attempt is repeated; a number means that many attempts.
    #[must_use]
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        let retry = retry.into();
        if retry.strategy().is_some() {
            let node = self.name.clone();
            self.problems.push(Problem::StrategyInGraph { node });
        }
        self.policies.get_or_insert_default().retry = Some(retry.into_definition());
        self
    }

    /// The time of one attempt.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policies.get_or_insert_default().timeout_ms = Some(milliseconds(timeout));
        self
    }

    /// How the node's effect is undone if the run fails: an action, and the template of its
    /// parameters, with the `output` and `parameters` of this node in scope.
    #[must_use]
    pub fn compensate(mut self, action: impl Into<Box<str>>, parameters: impl Serialize) -> Self {
        let parameters = self.json("the compensation's parameters", &parameters);
        self.compensate = Some(Box::new(Compensate {
            action_type: action.into(),
            parameters,
            policies: None,
        }));
        self
    }

    fn json(&mut self, what: &'static str, value: &impl Serialize) -> Option<JsonText> {
        let json = to_json(Some(&self.name), what, value);
        json.map_err(|problem| self.problems.push(problem)).ok()
    }
}
