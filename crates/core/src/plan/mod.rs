//! The plan: what the engine walks. Built once from a definition, immutable, shared.
//!
//! Nodes are indices in definition order, edges are arrays sorted by their source,
//! and expressions are compiled. A plan knows nothing of any run.

mod build;
mod graph;
mod index;
mod names;
pub(crate) mod structure;
mod texts;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use windlass_expr::{Expression, ExpressionLimits, Reference, Scope, Template};

use crate::concurrency::ConcurrencyRule;
use crate::definition::{
    CompensationSettings, ExecutionMode, FailurePolicy, InFlight, Join, JsonText, Pool, Retry, When,
};
use crate::definition::{scope, signature_of};
use crate::id::Digest;

pub use build::PlanError;
pub(crate) use build::first_message;
pub use graph::PlanGraph;
pub use names::AmbiguousName;
pub use structure::{NodeKind, Structure};
use texts::Texts;

/// A node's place in its plan. The nodes of the top level come first, in definition
/// order; those of each body stand together after them.
pub type NodeIndex = u32;

/// A graph's place in its plan: the top level is 0, bodies follow.
pub type GraphIndex = u32;

/// An edge's place in its plan.
pub type EdgeIndex = u32;

/// The top level's place among a plan's graphs.
pub const TOP: GraphIndex = 0;

/// An attempt's time when neither its node nor the run's defaults name one.
pub const DEFAULT_TIMEOUT_MS: u64 = 300_000;

/// An executable workflow.
#[derive(Debug)]
pub struct Plan {
    pub(crate) workflow: Box<str>,
    pub(crate) nodes: Vec<Node>,
    /// The ids of the nodes, and their parameters as written.
    pub(crate) texts: Texts,
    /// The compiled parameters of each node, filled on first use. Empty in a huge graph, where
    /// most are used once and keeping each would cost more memory than compiling costs time.
    pub(crate) templates: Vec<OnceLock<Arc<Template>>>,
    /// The top level, then every body, in the order of their nodes.
    pub(crate) graphs: Vec<PlanGraph>,
    /// Sorted by source; a node's edges stand together, in definition order.
    pub(crate) edges: Vec<Edge>,
    /// Where each node's outgoing edges begin; one entry more than there are nodes.
    pub(crate) outgoing: Vec<EdgeIndex>,
    /// Edge indices sorted by target.
    pub(crate) incoming_edges: Vec<EdgeIndex>,
    /// Where each node's incoming edges begin in `incoming_edges`.
    pub(crate) incoming: Vec<u32>,
    /// Longest path from an entry; empty unless the mode is `levels`.
    pub(crate) levels: Vec<u32>,
    /// The longest paths in every mode, computed on first use.
    pub(crate) depths: OnceLock<Vec<u32>>,
    pub(crate) actions: Vec<Arc<str>>,
    pub(crate) conditions: Vec<Expression>,
    /// Whether any node's parameters may name another node's output.
    pub(crate) reads_outputs: bool,
    /// Whether any node has a priority of its own.
    pub(crate) has_priorities: bool,
    /// Nodes whose output a decision may need later.
    pub(crate) decided_on: Vec<bool>,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) execution_mode: ExecutionMode,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) max_parallel: Option<u32>,
    pub(crate) vars: BTreeMap<Box<str>, JsonText>,
    pub(crate) labels: BTreeMap<Box<str>, Box<str>>,
    pub(crate) trigger_schema: Option<JsonText>,
    pub(crate) in_flight: InFlight,
    pub(crate) compensation: CompensationSettings,
    pub(crate) concurrency: Option<ConcurrencyRule>,
}

/// A node of a plan.
#[derive(Debug)]
pub struct Node {
    pub(crate) texts: texts::TextSpan,
    /// Which of the plan's action types it calls.
    pub(crate) action: u32,
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
    pub(crate) join: Join,
    pub(crate) compensate: Option<Compensate>,
    /// What the node is, where it is not one call of an action.
    pub(crate) structure: Option<Structure>,
    pub(crate) requires: Box<[Box<str>]>,
    pub(crate) priority: Option<u8>,
    pub(crate) pool: Option<Box<Pool>>,
}

/// How a node's effect is undone.
#[derive(Debug)]
pub(crate) struct Compensate {
    pub(crate) action: u32,
    pub(crate) parameters: Option<Box<Parameters>>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) retry: Option<Retry>,
}

/// A compiled switch.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) on: Expression,
    pub(crate) cases: BTreeMap<Box<str>, NodeIndex>,
    pub(crate) default: Option<NodeIndex>,
}

/// Parameters with which a node is undone, as written; their template is compiled when it
/// is first needed.
#[derive(Debug)]
pub(crate) struct Parameters {
    pub(crate) text: Box<str>,
    template: OnceLock<Arc<Template>>,
}

/// How an edge came to be, which decides how it resolves.
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
    pub fn needs_evaluation(&self) -> bool {
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

    /// How many nodes the top level has.
    pub fn len(&self) -> usize {
        self.top().len()
    }

    /// How many nodes there are, those of all bodies included.
    pub fn total(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes; a valid plan has some.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The edges of the top level, sorted by source.
    pub fn edges(&self) -> &[Edge] {
        let edges = self.top().edges();
        &self.edges[edges.start as usize..edges.end as usize]
    }

    /// The node of the top level with this id.
    pub fn index(&self, id: &str) -> Option<NodeIndex> {
        self.find(TOP, id)
    }

    /// A node's id.
    pub fn id(&self, node: NodeIndex) -> &str {
        self.texts.id(self.nodes[node as usize].texts)
    }

    /// A node's name for people.
    pub fn name(&self, node: NodeIndex) -> Option<&str> {
        self.rare(node)?.name.as_deref()
    }

    /// The action a node calls, if it is a call.
    pub fn action(&self, node: NodeIndex) -> Option<&str> {
        let action = self.nodes[node as usize].action;
        self.actions.get(action as usize).map(|name| &**name)
    }

    /// One of the plan's action types.
    pub(crate) fn action_name(&self, action: u32) -> Arc<str> {
        let known = self.actions.get(action as usize);
        known.map_or_else(|| Arc::from(""), Arc::clone)
    }

    /// The time of one of a node's attempts, where the definition says one.
    pub fn timeout_ms(&self, node: NodeIndex) -> Option<u64> {
        self.rare(node)?.timeout_ms
    }

    /// The labels that a worker must have to be given the node.
    pub fn requires(&self, node: NodeIndex) -> &[Box<str>] {
        self.rare(node).map_or(&[], |rare| &rare.requires)
    }

    /// The node's own priority, where the definition gives one.
    pub fn priority(&self, node: NodeIndex) -> Option<u8> {
        self.rare(node)?.priority
    }

    /// Whether any node has a priority of its own: then ready nodes are ordered by it.
    pub fn has_priorities(&self) -> bool {
        self.has_priorities
    }

    /// The pool whose slots an attempt of the node holds.
    pub fn pool(&self, node: NodeIndex) -> Option<&Pool> {
        self.rare(node)?.pool.as_deref()
    }

    /// The nodes that need a pool, those of bodies included.
    pub fn pooled_nodes(&self) -> impl Iterator<Item = (NodeIndex, &Pool)> {
        let nodes = 0..self.total() as NodeIndex;
        nodes.filter_map(|node| Some((node, self.pool(node)?)))
    }

    /// How a node's attempts are repeated.
    pub fn retry(&self, node: NodeIndex) -> Option<&Retry> {
        self.rare(node)?.retry.as_ref()
    }

    /// The template of a node's parameters, compiled on first use; none if it has none.
    ///
    /// # Errors
    /// The template does not compile, though publishing checked it: the definition comes from
    /// elsewhere.
    pub fn parameters(&self, node: NodeIndex) -> Result<Option<Arc<Template>>, String> {
        let Some(text) = self.parameters_text(node) else {
            return Ok(None);
        };
        let scope = || scope::parameters(&self.graph_of(node).names);
        let kept = self.templates.get(node as usize);
        compiled(text, kept, scope).map(Some)
    }

    /// The template of the parameters with which a node's effect is undone.
    ///
    /// # Errors
    /// As for [`Self::parameters`].
    pub(crate) fn undo_parameters(&self, node: NodeIndex) -> Result<Option<Arc<Template>>, String> {
        let compensate = self.compensate(node);
        let parameters = compensate.and_then(|compensate| compensate.parameters.as_deref());
        let Some(Parameters { text, template }) = parameters else {
            return Ok(None);
        };
        let scope = || scope::compensate(&self.graph_of(node).names);
        compiled(text, Some(template), scope).map(Some)
    }

    /// A node's parameters as written.
    pub fn parameters_text(&self, node: NodeIndex) -> Option<&str> {
        self.texts.parameters(self.nodes[node as usize].texts)
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
        self.top().entries()
    }

    /// Whether runs follow newer versions.
    pub fn in_flight(&self) -> InFlight {
        self.in_flight
    }

    /// When compensations run, and what one that fails does to the others.
    pub fn compensation(&self) -> CompensationSettings {
        self.compensation
    }

    /// How a node joins its incoming edges.
    pub fn join(&self, node: NodeIndex) -> Join {
        self.rare(node).map_or(Join::All, |rare| rare.join)
    }

    /// Whether a node says how its effect is undone.
    pub fn is_compensated(&self, node: NodeIndex) -> bool {
        self.compensate(node).is_some()
    }

    pub(crate) fn compensate(&self, node: NodeIndex) -> Option<&Compensate> {
        self.rare(node)?.compensate.as_ref()
    }

    /// A node's level, in the mode `levels`.
    pub fn level(&self, node: NodeIndex) -> u32 {
        self.levels.get(node as usize).copied().unwrap_or(0)
    }

    /// Every node's longest path from an entry, whatever the mode.
    pub(crate) fn depths(&self) -> &[u32] {
        if !self.levels.is_empty() {
            return &self.levels;
        }
        self.depths
            .get_or_init(|| build::levels(self).unwrap_or_default())
    }

    /// What a failure does to the rest.
    pub fn failure_policy(&self) -> FailurePolicy {
        self.failure_policy
    }

    /// Whether nodes run in parallel, one at a time, or level by level.
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
    pub fn vars(&self) -> &BTreeMap<Box<str>, JsonText> {
        &self.vars
    }

    /// Defaults for a run's labels.
    pub fn labels(&self) -> &BTreeMap<Box<str>, Box<str>> {
        &self.labels
    }

    /// What bounds how many of its runs go at once.
    pub fn concurrency(&self) -> Option<&ConcurrencyRule> {
        self.concurrency.as_ref()
    }

    /// JSON Schema of the trigger.
    pub fn trigger_schema(&self) -> Option<&str> {
        self.trigger_schema.as_ref().map(|schema| schema.get())
    }

    /// Nodes without outgoing edges: their outputs are the run's, unless a template says otherwise.
    pub fn sinks(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.top().sinks().iter().copied()
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

    /// References of everything that is decided about a node, and not rendered by a worker.
    pub(crate) fn decision_references(&self, node: NodeIndex) -> impl Iterator<Item = &Reference> {
        let rare = self.rare(node);
        let vars = rare.into_iter().flat_map(|rare| &rare.set_vars);
        let structure = rare.and_then(|rare| rare.structure.as_ref());
        self.routing_references(node)
            .chain(vars.flat_map(|(_, template)| template.references()))
            .chain(structure.into_iter().flat_map(Structure::references))
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
pub(crate) const KEEP_TEMPLATES: usize = 10_000;

/// The template of a text: what is kept, or compiled now and kept if there is a place.
fn compiled(
    text: &str,
    kept: Option<&OnceLock<Arc<Template>>>,
    scope: impl FnOnce() -> Scope,
) -> Result<Arc<Template>, String> {
    if let Some(template) = kept.and_then(OnceLock::get) {
        return Ok(Arc::clone(template));
    }
    let template = match Template::constant(text) {
        Some(template) => template,
        None => Template::compile(text, &scope(), &ExpressionLimits::CHECKED)
            .map_err(|problems| build::first_message(&problems))?,
    };
    let template = Arc::new(template);
    Ok(match kept {
        Some(kept) => Arc::clone(kept.get_or_init(|| template)),
        None => template,
    })
}

impl Parameters {
    pub(crate) fn new(text: Box<str>) -> Self {
        Self {
            text,
            template: OnceLock::new(),
        }
    }
}
