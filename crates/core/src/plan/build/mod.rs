//! From a validated definition to a plan. What validation has proved (ids resolve,
//! the graph is acyclic, expressions compile) is only checked again where it is free.

mod edges;
mod node;

use std::collections::VecDeque;
use std::fmt;
use std::sync::OnceLock;

use windlass_expr::{Expression, ExpressionLimits, Reference, Scope, Template, TemplateProblem};

use super::{
    Edge, EdgeIndex, EdgeKind, GraphIndex, KEEP_TEMPLATES, NO_CONDITION, Node, NodeIndex,
    Parameters, Plan, PlanGraph, Rare, Switch, Texts,
};
use crate::concurrency::ConcurrencyRule;
use crate::definition::scope::BodyNames;
use crate::definition::{self, Definition, ExecutionMode, JsonText, scope};
use crate::value::compact;
use edges::Edges;
use node::Actions;

/// Why a definition could not become a plan: it was not validated, and the sentence says
/// what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(pub String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Builds the plan of a validated definition.
    ///
    /// # Errors
    /// The definition uses what this version does not run, or what validation would have
    /// refused.
    pub fn build(definition: Definition) -> Result<Self, PlanError> {
        let mut builder = Builder::default();
        builder.waiting.push_back(Level {
            nodes: definition.nodes,
            start_node: definition.start_node,
            output: definition.output,
            names: BodyNames::top(),
            owner: None,
        });
        while let Some(level) = builder.waiting.pop_front() {
            builder.add_graph(level)?;
        }
        builder.mark_compensated();
        let concurrency = definition.concurrency.as_ref();
        let concurrency = concurrency.map(ConcurrencyRule::compile).transpose();
        let (outgoing, incoming, incoming_edges) = adjacency(builder.nodes.len(), &builder.edges);
        builder.texts.shrink();
        let texts = builder.texts;
        let mentions = |node: &Node| {
            let parameters = texts.parameters(node.texts);
            parameters.is_some_and(|parameters| parameters.contains("context"))
        };
        let reads_outputs = builder.nodes.iter().any(mentions);
        let kept_templates = match builder.nodes.len() {
            few if few <= KEEP_TEMPLATES => few,
            _ => 0,
        };
        let has_priority = |node: &Node| {
            let rare = node.rare.as_deref();
            rare.is_some_and(|rare| rare.priority.is_some())
        };
        let has_priorities = builder.nodes.iter().any(has_priority);
        let mut plan = Self {
            workflow: definition.id,
            nodes: builder.nodes,
            texts,
            templates: vec![OnceLock::new(); kept_templates],
            graphs: builder.graphs,
            edges: builder.edges,
            outgoing,
            incoming_edges,
            incoming,
            levels: Vec::new(),
            depths: OnceLock::new(),
            actions: builder.actions.into_names(),
            conditions: builder.conditions,
            reads_outputs,
            has_priorities,
            decided_on: Vec::new(),
            failure_policy: definition.failure_policy,
            execution_mode: definition.execution_mode,
            timeout_ms: definition.timeout_ms,
            max_parallel: definition.max_parallel,
            vars: definition.vars,
            labels: definition.labels,
            trigger_schema: definition.trigger_schema,
            in_flight: definition.in_flight,
            compensation: definition.compensation,
            concurrency: concurrency.map_err(PlanError)?,
        };
        for graph in 0..plan.graphs.len() {
            plan.find_ends(graph);
        }
        if plan.execution_mode == ExecutionMode::Levels {
            plan.levels = levels(&plan)?;
        }
        plan.decided_on = decided_on(&plan);
        Ok(plan)
    }

    /// A graph's sinks, and its entries where no start node says them.
    fn find_ends(&mut self, graph: usize) {
        let nodes = self.graphs[graph].nodes();
        let sinks = nodes.clone().filter(|&node| self.outgoing(node).is_empty());
        let sinks = sinks.collect();
        let entries = nodes.filter(|&node| self.incoming(node).is_empty());
        let entries: Vec<_> = entries.collect();
        let graph = &mut self.graphs[graph];
        graph.sinks = sinks;
        if graph.entries.is_empty() {
            graph.entries = entries;
        }
    }
}

/// About how many bytes a node's id and parameters have.
fn text_bytes(node: &definition::Node) -> usize {
    let parameters = node.parameters.as_ref();
    node.id.len() + parameters.map_or(0, |text| text.get().len())
}

/// A graph that is still to be added.
struct Level {
    nodes: Vec<definition::Node>,
    start_node: Option<Box<str>>,
    output: Option<JsonText>,
    names: BodyNames,
    owner: Option<NodeIndex>,
}

/// A plan in the making.
#[derive(Default)]
struct Builder {
    waiting: VecDeque<Level>,
    nodes: Vec<Node>,
    texts: Texts,
    graphs: Vec<PlanGraph>,
    edges: Vec<Edge>,
    conditions: Vec<Expression>,
    actions: Actions,
}

impl Builder {
    fn add_graph(&mut self, level: Level) -> Result<(), PlanError> {
        let first = self.nodes.len() as NodeIndex;
        let edges = Edges::collect(&level.nodes, &level.names)?;
        let mut entries = Vec::new();
        if let Some(start) = &level.start_node {
            entries.push(first + edges.resolve(&level.nodes, start)?);
        }
        let output = match &level.output {
            Some(text) => Some(template(text, &scope::plain(&level.names))?),
            None => None,
        };
        let first_edge = self.edges.len() as EdgeIndex;
        let first_condition = self.conditions.len() as u32;
        self.edges.extend(edges.list.iter().map(|edge| Edge {
            source: first + edge.source,
            target: first + edge.target,
            condition: match edge.condition {
                NO_CONDITION => NO_CONDITION,
                condition => first_condition + condition,
            },
            ..*edge
        }));
        self.conditions.extend(edges.conditions);
        let graph = self.graphs.len() as GraphIndex;
        self.graphs.push(PlanGraph {
            nodes: first..first + level.nodes.len() as NodeIndex,
            edges: first_edge..self.edges.len() as EdgeIndex,
            by_id: edges.by_id,
            entries,
            sinks: Vec::new(),
            output,
            owner: level.owner,
            names: level.names,
            is_compensated: false,
        });
        let mut switches = edges.switches;
        self.nodes.reserve_exact(level.nodes.len());
        self.texts.reserve(level.nodes.iter().map(text_bytes).sum());
        for (index, node) in level.nodes.into_iter().enumerate() {
            let switch = switches.remove(&(index as NodeIndex));
            let switch = switch.map(|switch| switch.shifted(first));
            let node = self.node(node, graph, switch)?;
            self.nodes.push(node);
        }
        Ok(())
    }

    /// A graph is compensated when one of its nodes is, or a body inside it.
    fn mark_compensated(&mut self) {
        for graph in (0..self.graphs.len()).rev() {
            let is_undone = |node: &Node| {
                let rare = node.rare.as_deref();
                rare.is_some_and(|rare| rare.compensate.is_some() || rare.is_transactional())
            };
            let nodes = self.graphs[graph].nodes();
            let own = &self.nodes[nodes.start as usize..nodes.end as usize];
            let marked = self.graphs[graph].is_compensated || own.iter().any(is_undone);
            self.graphs[graph].is_compensated = marked;
            if let Some(owner) = self.graphs[graph].owner
                && marked
            {
                let after = self
                    .graphs
                    .partition_point(|graph| graph.nodes.start <= owner);
                self.graphs[after - 1].is_compensated = true;
            }
        }
    }
}

/// Nodes that conditions, switches, variables or an output name; without an output
/// template, the sinks, except where they are only gathered for a list.
fn decided_on(plan: &Plan) -> Vec<bool> {
    let mut marks = vec![false; plan.total()];
    for graph in &plan.graphs {
        let mut mark = |reference: &Reference| {
            if let Reference::Entry { key, .. } = reference
                && let Some(node) = plan.named(graph, key)
            {
                marks[node as usize] = true;
            }
        };
        for node in graph.nodes() {
            plan.decision_references(node).for_each(&mut mark);
        }
        let output = graph.output.iter();
        output
            .flat_map(|template| template.references())
            .for_each(&mut mark);
        if graph.output.is_none() && !plan.gathers(graph) {
            for &node in &graph.sinks {
                marks[node as usize] = true;
            }
        }
    }
    marks
}

type Adjacency = (Vec<EdgeIndex>, Vec<u32>, Vec<EdgeIndex>);

/// Where each node's outgoing and incoming edges are, by counting sort.
fn adjacency(nodes: usize, edges: &[Edge]) -> Adjacency {
    let mut outgoing = vec![0; nodes + 1];
    let mut incoming = vec![0; nodes + 1];
    for edge in edges {
        outgoing[edge.source as usize + 1] += 1;
        incoming[edge.target as usize + 1] += 1;
    }
    for node in 0..nodes {
        outgoing[node + 1] += outgoing[node];
        incoming[node + 1] += incoming[node];
    }
    let mut next = incoming.clone();
    let mut incoming_edges = vec![0; edges.len()];
    for (index, edge) in edges.iter().enumerate() {
        let place = &mut next[edge.target as usize];
        incoming_edges[*place as usize] = index as EdgeIndex;
        *place += 1;
    }
    (outgoing, incoming, incoming_edges)
}

/// Each node's longest path from an entry, in topological order.
pub(super) fn levels(plan: &Plan) -> Result<Vec<u32>, PlanError> {
    let mut levels = vec![0; plan.total()];
    let mut waiting: Vec<usize> = (0..plan.total() as NodeIndex)
        .map(|node| plan.incoming(node).len())
        .collect();
    let mut queue: Vec<NodeIndex> = (0..plan.total() as NodeIndex)
        .filter(|&node| waiting[node as usize] == 0)
        .collect();
    let mut done = 0;
    while let Some(node) = queue.pop() {
        done += 1;
        for edge in plan.outgoing(node) {
            let target = plan.edge(edge).target as usize;
            levels[target] = levels[target].max(levels[node as usize] + 1);
            waiting[target] -= 1;
            if waiting[target] == 0 {
                queue.push(target as NodeIndex);
            }
        }
    }
    if done == plan.total() {
        Ok(levels)
    } else {
        Err(PlanError("the graph has a cycle".to_owned()))
    }
}

/// Compiles a template that validation has accepted.
fn template(text: &JsonText, scope: &Scope) -> Result<Template, PlanError> {
    Template::compile(&compact(text.get()), scope, &ExpressionLimits::CHECKED)
        .map_err(|problems| PlanError(first_message(&problems)))
}

/// Compiles an expression that validation has accepted.
fn expression(text: &str, scope: &Scope) -> Result<Expression, PlanError> {
    Expression::compile(text, scope, &ExpressionLimits::CHECKED)
        .map_err(|problems| PlanError(message(problems.first())))
}

fn message(problem: Option<&windlass_expr::Problem>) -> String {
    problem.map_or_else(String::new, |problem| problem.message.clone())
}

pub(crate) fn first_message(problems: &[TemplateProblem]) -> String {
    message(problems.first().map(|problem| &problem.problem))
}
