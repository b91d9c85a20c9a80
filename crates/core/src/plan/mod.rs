//! The plan: what the engine walks. Built once from a definition, immutable, shared.
//!
//! Nodes are indices in definition order, edges are arrays sorted by their source,
//! and expressions are compiled. A plan knows nothing of any run.

mod build;
mod index;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use windlass_expr::{Expression, Limits, Reference, Template};

use crate::definition::signature_of;
use crate::definition::{ExecutionMode, FailurePolicy, Json, Retry, When};
use crate::id::Digest;

pub use build::{BuildError, Unsupported};

/// A node's place in its plan.
pub type NodeIndex = u32;

/// An edge's place in its plan.
pub type EdgeIndex = u32;

/// An attempt's time when its node names none.
pub const DEFAULT_TIMEOUT_MS: u64 = 300_000;

/// An executable workflow.
#[derive(Debug)]
pub struct Plan {
    pub(crate) workflow: Box<str>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) by_id: index::Index,
    /// Sorted by source; a node's edges stand together, in definition order.
    pub(crate) edges: Vec<Edge>,
    /// Where each node's outgoing edges begin; one entry more than there are nodes.
    pub(crate) outgoing: Vec<EdgeIndex>,
    /// Edge indices sorted by target.
    pub(crate) incoming_edges: Vec<EdgeIndex>,
    /// Where each node's incoming edges begin in `incoming_edges`.
    pub(crate) incoming: Vec<u32>,
    pub(crate) entries: Vec<NodeIndex>,
    /// Longest path from an entry; empty unless the mode is `levels`.
    pub(crate) levels: Vec<u32>,
    pub(crate) actions: Vec<Arc<str>>,
    pub(crate) conditions: Vec<Expression>,
    pub(crate) output: Option<Template>,
    /// Whether any node's parameters may name another node's output.
    pub(crate) reads_outputs: bool,
    /// Nodes whose output a decision may need later.
    pub(crate) decided_on: Vec<bool>,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) execution_mode: ExecutionMode,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) max_parallel: Option<u32>,
    pub(crate) vars: BTreeMap<Box<str>, Json>,
    pub(crate) labels: BTreeMap<Box<str>, Box<str>>,
    pub(crate) trigger_schema: Option<Json>,
}

/// A node of a plan.
#[derive(Debug)]
pub struct Node {
    pub(crate) id: Box<str>,
    /// Which of the plan's action types it calls.
    pub(crate) action: u32,
    pub(crate) parameters: Option<Box<Parameters>>,
    /// What most nodes do not have.
    pub(crate) rare: Option<Box<Rare>>,
}

/// The uncommon parts of a node.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    pub(crate) name: Option<Box<str>>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) retry: Option<Retry>,
    pub(crate) set_vars: Vec<(Box<str>, Template)>,
    pub(crate) switch: Option<Switch>,
}

/// A compiled switch.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) on: Expression,
    pub(crate) cases: BTreeMap<Box<str>, NodeIndex>,
    pub(crate) default: Option<NodeIndex>,
}

/// Parameters as written; their template is compiled when it is first needed.
#[derive(Debug)]
pub(crate) struct Parameters {
    pub(crate) text: Box<str>,
    template: OnceLock<Arc<Template>>,
}

/// How an edge came to be, which decides who asks whether it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EdgeKind {
    /// Written as an edge or a dependency.
    Plain,
    /// Taken when no explicit failure edge was.
    OnFailure,
    /// One target of a switch.
    Switch,
}

/// Marks an edge without a condition.
pub(crate) const NO_CONDITION: u32 = u32::MAX;

/// An edge of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// Where it leaves.
    pub source: NodeIndex,
    /// Where it arrives.
    pub target: NodeIndex,
    /// After which end of its source it may be taken.
    pub when: When,
    pub(crate) kind: EdgeKind,
    pub(crate) condition: u32,
}

impl Edge {
    /// Whether taking it needs something evaluated.
    pub(crate) fn needs_evaluation(&self) -> bool {
        self.condition != NO_CONDITION || self.kind == EdgeKind::Switch
    }
}

impl Plan {
    /// The workflow's id.
    pub fn workflow(&self) -> &str {
        &self.workflow
    }

    /// The signature of the graph (semantics §9).
    pub fn signature(&self) -> Digest {
        signature_of(
            self.len(),
            |at| self.id(at as NodeIndex),
            |at, sources| {
                let incoming = self.incoming(at as NodeIndex).iter();
                sources.extend(incoming.map(|&edge| self.id(self.edge(edge).source)));
            },
        )
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes; a valid plan has some.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// All edges, sorted by source.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The node with this id.
    pub fn index(&self, id: &str) -> Option<NodeIndex> {
        self.by_id.find(id, |node| self.id(node))
    }

    /// A node's id.
    pub fn id(&self, node: NodeIndex) -> &str {
        &self.nodes[node as usize].id
    }

    /// A node's name for people.
    pub fn name(&self, node: NodeIndex) -> Option<&str> {
        self.rare(node)?.name.as_deref()
    }

    /// The action a node calls.
    pub fn action(&self, node: NodeIndex) -> &str {
        &self.actions[self.nodes[node as usize].action as usize]
    }

    /// The action a node calls, shared.
    pub(crate) fn shared_action(&self, node: NodeIndex) -> Arc<str> {
        Arc::clone(&self.actions[self.nodes[node as usize].action as usize])
    }

    /// The time of one of a node's attempts.
    pub fn timeout_ms(&self, node: NodeIndex) -> u64 {
        self.rare(node)
            .and_then(|rare| rare.timeout_ms)
            .unwrap_or(DEFAULT_TIMEOUT_MS)
    }

    /// How a node's attempts are repeated.
    pub fn retry(&self, node: NodeIndex) -> Option<&Retry> {
        self.rare(node)?.retry.as_ref()
    }

    /// The template of a node's parameters, compiled on first use; none if it has none.
    ///
    /// # Errors
    /// What does not compile, though publishing checked it: a definition from elsewhere.
    pub fn parameters(&self, node: NodeIndex) -> Result<Option<Arc<Template>>, String> {
        let Some(parameters) = &self.nodes[node as usize].parameters else {
            return Ok(None);
        };
        if let Some(template) = parameters.template.get() {
            return Ok(Some(Arc::clone(template)));
        }
        let scope = build::parameters_scope();
        let template = Template::compile(&parameters.text, &scope, &Limits::default())
            .map_err(|problems| build::first_message(&problems))?;
        let template = Arc::new(template);
        // In a huge graph most templates are used once; keeping each would cost more
        // memory than compiling costs time.
        if self.nodes.len() <= KEEP_TEMPLATES {
            return Ok(Some(Arc::clone(
                parameters.template.get_or_init(|| template),
            )));
        }
        Ok(Some(template))
    }

    /// A node's parameters as written.
    pub fn parameters_text(&self, node: NodeIndex) -> Option<&str> {
        self.nodes[node as usize]
            .parameters
            .as_ref()
            .map(|parameters| &*parameters.text)
    }

    /// A node's outgoing edges.
    pub fn outgoing(&self, node: NodeIndex) -> std::ops::Range<EdgeIndex> {
        self.outgoing[node as usize]..self.outgoing[node as usize + 1]
    }

    /// A node's incoming edges.
    pub fn incoming(&self, node: NodeIndex) -> &[EdgeIndex] {
        let from = self.incoming[node as usize] as usize;
        let to = self.incoming[node as usize + 1] as usize;
        &self.incoming_edges[from..to]
    }

    /// An edge.
    pub fn edge(&self, edge: EdgeIndex) -> &Edge {
        &self.edges[edge as usize]
    }

    /// The nodes that are ready when a run begins.
    pub fn entries(&self) -> &[NodeIndex] {
        &self.entries
    }

    /// A node's level, where levels are asked for.
    pub fn level(&self, node: NodeIndex) -> u32 {
        self.levels.get(node as usize).copied().unwrap_or(0)
    }

    /// What a failure does to the rest.
    pub fn failure_policy(&self) -> FailurePolicy {
        self.failure_policy
    }

    /// How nodes are let go.
    pub fn execution_mode(&self) -> ExecutionMode {
        self.execution_mode
    }

    /// The whole run's time.
    pub fn run_timeout_ms(&self) -> Option<u64> {
        self.timeout_ms
    }

    /// The run's own bound on running nodes.
    pub fn max_parallel(&self) -> Option<u32> {
        self.max_parallel
    }

    /// The variables a run begins with.
    pub fn vars(&self) -> &BTreeMap<Box<str>, Json> {
        &self.vars
    }

    /// Defaults for a run's labels.
    pub fn labels(&self) -> &BTreeMap<Box<str>, Box<str>> {
        &self.labels
    }

    /// JSON Schema of the trigger.
    pub fn trigger_schema(&self) -> Option<&str> {
        self.trigger_schema.as_ref().map(|schema| schema.get())
    }

    /// Nodes without outgoing edges: their outputs are the run's, unless a template says otherwise.
    pub fn sinks(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        (0..self.nodes.len() as NodeIndex).filter(|&node| self.outgoing(node).is_empty())
    }

    /// Whether any node's parameters may name another node's output: then outputs are
    /// worth keeping at hand for a while.
    pub fn reads_outputs(&self) -> bool {
        self.reads_outputs
    }

    /// Whether a condition, a variable or the run's output may need this node's output:
    /// worth keeping in memory while it is small.
    pub fn is_decided_on(&self, node: NodeIndex) -> bool {
        self.decided_on[node as usize]
    }

    pub(crate) fn rare(&self, node: NodeIndex) -> Option<&Rare> {
        self.nodes[node as usize].rare.as_deref()
    }

    /// The condition of an edge, if it has one.
    pub(crate) fn condition(&self, edge: &Edge) -> Option<&Expression> {
        self.conditions.get(edge.condition as usize)
    }

    /// References of everything that is evaluated when this node's edges resolve.
    pub(crate) fn routing_references(&self, node: NodeIndex) -> impl Iterator<Item = &Reference> {
        let switch = self.rare(node).and_then(|rare| rare.switch.as_ref());
        self.outgoing(node)
            .filter_map(|edge| self.condition(self.edge(edge)))
            .chain(switch.map(|switch| &switch.on))
            .flat_map(|expression| expression.references())
    }
}

/// Graphs up to this size keep their compiled parameter templates.
const KEEP_TEMPLATES: usize = 10_000;

impl Parameters {
    pub(crate) fn new(text: Box<str>) -> Self {
        Self {
            text,
            template: OnceLock::new(),
        }
    }
}
