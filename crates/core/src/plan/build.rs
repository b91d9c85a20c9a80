//! From a validated definition to a plan. What validation has proved (ids resolve,
//! the graph is acyclic, expressions compile) is only checked again where it is free.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use windlass_expr::{Expression, Limits, Reference, Scope, Template, TemplateProblem};

use super::index::Index;
use super::{
    Edge, EdgeIndex, EdgeKind, NO_CONDITION, Node, NodeIndex, Parameters, Plan, Rare, Switch,
};
use crate::definition::{self, Definition, ExecutionMode, Join, Json, When, scope};
use crate::value::compact;

/// Why a definition could not become a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// It uses something that this version of the engine does not run.
    Unsupported(Unsupported),
    /// It was not validated: the sentence says what is wrong.
    Invalid(String),
}

/// Something in a definition that this version of the engine does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The node, if it is about one.
    pub node: Option<Box<str>>,
    /// The key, as written in the definition.
    pub feature: &'static str,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(Unsupported {
                node: Some(node),
                feature,
            }) => {
                write!(
                    f,
                    "node '{node}' uses '{feature}', which this version does not run yet"
                )
            }
            Self::Unsupported(Unsupported {
                node: None,
                feature,
            }) => {
                write!(
                    f,
                    "the definition uses '{feature}', which this version does not run yet"
                )
            }
            Self::Invalid(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for BuildError {}

impl Plan {
    /// Refuses what the engine does not run, by name, before anything is started.
    ///
    /// # Errors
    /// The first thing in the definition that this version does not run.
    pub fn check_support(definition: &Definition) -> Result<(), BuildError> {
        supported(definition)
    }

    /// Builds the plan of a validated definition.
    ///
    /// # Errors
    /// What this version does not run, or what validation would have refused.
    pub fn build(definition: Definition) -> Result<Self, BuildError> {
        supported(&definition)?;
        let edges = Edges::collect(&definition)?;
        let count = definition.nodes.len();
        let (outgoing, incoming, incoming_edges) = adjacency(count, &edges.list);
        let names = scope::plain(&scope::BodyNames::top());
        let output = match &definition.output {
            Some(text) => Some(
                Template::compile(text.get(), &names, &Limits::default())
                    .map_err(|problems| BuildError::Invalid(first_message(&problems)))?,
            ),
            None => None,
        };
        let entries = entries(&definition, &edges, &incoming);
        let mut actions = Actions::default();
        let mut switches = edges.switches;
        let nodes = definition
            .nodes
            .into_iter()
            .enumerate()
            .map(|(index, node)| {
                build_node(node, switches.remove(&(index as NodeIndex)), &mut actions)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mentions = |node: &Node| {
            let parameters = node.parameters.as_ref();
            parameters.is_some_and(|parameters| parameters.text.contains("context"))
        };
        let reads_outputs = nodes.iter().any(mentions);
        let mut plan = Self {
            workflow: definition.id,
            nodes,
            by_id: edges.by_id,
            edges: edges.list,
            outgoing,
            incoming_edges,
            incoming,
            entries,
            levels: Vec::new(),
            actions: actions.names.into_iter().map(Arc::from).collect(),
            conditions: edges.conditions,
            output,
            reads_outputs,
            decided_on: Vec::new(),
            failure_policy: definition.failure_policy,
            execution_mode: definition.execution_mode,
            timeout_ms: definition.timeout_ms,
            max_parallel: definition.max_parallel,
            vars: definition.vars,
            labels: definition.labels,
            trigger_schema: definition.trigger_schema,
        };
        if plan.execution_mode == ExecutionMode::Levels {
            plan.levels = levels(&plan)?;
        }
        plan.decided_on = decided_on(&plan);
        Ok(plan)
    }
}

/// Nodes that conditions, switches, variables or the run's output name; without an
/// output template, the sinks.
fn decided_on(plan: &Plan) -> Vec<bool> {
    let mut marks = vec![false; plan.len()];
    let mut mark = |reference: &Reference| {
        if let Reference::Entry { key, .. } = reference
            && let Some(node) = plan.index(key)
        {
            marks[node as usize] = true;
        }
    };
    let rare = plan.nodes.iter().filter_map(|node| node.rare.as_deref());
    for rare in rare {
        let switch = rare.switch.iter().flat_map(|switch| switch.on.references());
        let vars = rare
            .set_vars
            .iter()
            .flat_map(|(_, template)| template.references());
        switch.chain(vars).for_each(&mut mark);
    }
    let conditions = plan
        .conditions
        .iter()
        .flat_map(|condition| condition.references());
    let output = plan
        .output
        .iter()
        .flat_map(|template| template.references());
    conditions.chain(output).for_each(&mut mark);
    if plan.output.is_none() {
        plan.sinks().for_each(|node| marks[node as usize] = true);
    }
    marks
}

fn supported(definition: &Definition) -> Result<(), BuildError> {
    let unsupported = |node: Option<&str>, feature| {
        Err(BuildError::Unsupported(Unsupported {
            node: node.map(Into::into),
            feature,
        }))
    };
    if definition.in_flight == definition::InFlight::Healing {
        return unsupported(None, "inFlight: healing");
    }
    if definition.concurrency.is_some() {
        return unsupported(None, "concurrency");
    }
    for node in &definition.nodes {
        let features = [
            (node.for_each.is_some(), "forEach"),
            (node.while_loop.is_some(), "while"),
            (node.retry_until.is_some(), "retryUntil"),
            (node.subworkflow.is_some(), "subworkflow"),
            (node.wait_for_signal.is_some(), "waitForSignal"),
            (node.delay.is_some(), "delay"),
            (node.compensate.is_some(), "compensate"),
            (!node.requires.is_empty(), "requires"),
            (!matches!(node.join, None | Some(Join::All)), "join"),
        ];
        if let Some((_, feature)) = features.into_iter().find(|(used, _)| *used) {
            return unsupported(Some(&node.id), feature);
        }
    }
    Ok(())
}

/// The edges of a definition, with the conditions and switches they hang on.
struct Edges {
    by_id: Index,
    list: Vec<Edge>,
    conditions: Vec<Expression>,
    /// Each distinct condition text is compiled once.
    known: HashMap<Box<str>, u32>,
    switches: BTreeMap<NodeIndex, Switch>,
    scope: Scope,
}

impl Edges {
    fn collect(definition: &Definition) -> Result<Self, BuildError> {
        let nodes = &definition.nodes;
        let by_id = Index::new(nodes.len(), |node| &nodes[node as usize].id);
        let mut edges = Self {
            by_id,
            list: Vec::new(),
            conditions: Vec::new(),
            known: HashMap::new(),
            switches: BTreeMap::new(),
            scope: scope::edge(&scope::BodyNames::top()),
        };
        for (index, node) in nodes.iter().enumerate() {
            edges.add_node(nodes, index as NodeIndex, node)?;
        }
        edges.sort();
        Ok(edges)
    }

    fn add_node(
        &mut self,
        nodes: &[definition::Node],
        index: NodeIndex,
        node: &definition::Node,
    ) -> Result<(), BuildError> {
        for edge in &node.edges {
            let target = self.resolve(nodes, &edge.target_node)?;
            let condition = match &edge.condition {
                Some(source) => self.compile(source)?,
                None => NO_CONDITION,
            };
            self.push(index, target, edge.when, EdgeKind::Plain, condition);
        }
        if let Some(switch) = &node.switch {
            self.add_switch(nodes, index, switch)?;
        }
        if let Some(target) = &node.on_failure {
            let target = self.resolve(nodes, target)?;
            self.push(
                index,
                target,
                When::Failure,
                EdgeKind::OnFailure,
                NO_CONDITION,
            );
        }
        for source in &node.depends_on {
            let source = self.resolve(nodes, source)?;
            self.push(source, index, When::Success, EdgeKind::Plain, NO_CONDITION);
        }
        Ok(())
    }

    /// A switch has one edge for each distinct target, taken when a case of it is chosen.
    fn add_switch(
        &mut self,
        nodes: &[definition::Node],
        index: NodeIndex,
        switch: &definition::Switch,
    ) -> Result<(), BuildError> {
        let mut cases = BTreeMap::new();
        for (value, target) in &switch.cases {
            cases.insert(value.clone(), self.resolve(nodes, target)?);
        }
        let default = match &switch.default {
            Some(target) => Some(self.resolve(nodes, target)?),
            None => None,
        };
        let mut targets: Vec<NodeIndex> = cases.values().copied().chain(default).collect();
        targets.sort_unstable();
        targets.dedup();
        for target in targets {
            self.push(index, target, switch.when, EdgeKind::Switch, NO_CONDITION);
        }
        let on = Expression::compile(&switch.on, &self.scope, &Limits::default())
            .map_err(|problems| BuildError::Invalid(message(problems.first())))?;
        self.switches.insert(index, Switch { on, cases, default });
        Ok(())
    }

    fn push(
        &mut self,
        source: NodeIndex,
        target: NodeIndex,
        when: When,
        kind: EdgeKind,
        condition: u32,
    ) {
        self.list.push(Edge {
            source,
            target,
            when,
            kind,
            condition,
        });
    }

    fn compile(&mut self, source: &str) -> Result<u32, BuildError> {
        if let Some(&index) = self.known.get(source) {
            return Ok(index);
        }
        let expression = Expression::compile(source, &self.scope, &Limits::default())
            .map_err(|problems| BuildError::Invalid(message(problems.first())))?;
        let index = self.conditions.len() as u32;
        self.conditions.push(expression);
        self.known.insert(source.into(), index);
        Ok(index)
    }

    fn resolve(&self, nodes: &[definition::Node], id: &str) -> Result<NodeIndex, BuildError> {
        self.by_id
            .find(id, |node| &nodes[node as usize].id)
            .ok_or_else(|| BuildError::Invalid(format!("there is no node '{id}'")))
    }

    /// Sorts by source and drops edges that say the same twice, as `edges` on the
    /// parent and `dependsOn` on the child do.
    fn sort(&mut self) {
        self.list.sort_by_key(|edge| edge.source);
        let mut start = 0;
        let mut kept: Vec<Edge> = Vec::with_capacity(self.list.len());
        let mut seen: std::collections::HashSet<NodeIndex> = std::collections::HashSet::new();
        for edge in &self.list {
            if kept
                .get(start)
                .is_some_and(|first| first.source != edge.source)
            {
                start = kept.len();
                seen.clear();
            }
            let plain_success = edge.kind == EdgeKind::Plain
                && edge.when == When::Success
                && edge.condition == NO_CONDITION;
            if plain_success && !seen.insert(edge.target) {
                continue;
            }
            kept.push(*edge);
        }
        self.list = kept;
    }
}

/// Interned action types.
#[derive(Default)]
struct Actions {
    names: Vec<Box<str>>,
    index: HashMap<Box<str>, u32>,
}

impl Actions {
    fn intern(&mut self, name: Box<str>) -> u32 {
        if let Some(&index) = self.index.get(&name) {
            return index;
        }
        let index = self.names.len() as u32;
        self.names.push(name.clone());
        self.index.insert(name, index);
        index
    }
}

fn build_node(
    node: definition::Node,
    switch: Option<Switch>,
    actions: &mut Actions,
) -> Result<Node, BuildError> {
    let action = node
        .action_type
        .ok_or_else(|| BuildError::Invalid(format!("node '{}' has no actionType", node.id)))?;
    let policies = node.policies.map(|policies| *policies).unwrap_or_default();
    let names = scope::set_vars(&scope::BodyNames::top());
    let mut set_vars = Vec::new();
    for (name, text) in node.set_vars.map(|vars| *vars).unwrap_or_default() {
        let template = Template::compile(text.get(), &names, &Limits::default())
            .map_err(|problems| BuildError::Invalid(first_message(&problems)))?;
        set_vars.push((name, template));
    }
    let rare = Rare {
        name: node.name,
        timeout_ms: policies.timeout_ms,
        retry: policies.retry,
        set_vars,
        switch,
    };
    let is_common = rare.name.is_none()
        && rare.timeout_ms.is_none()
        && rare.retry.is_none()
        && rare.set_vars.is_empty()
        && rare.switch.is_none();
    let parameters = match (&*action, node.parameters) {
        ("core.script", Some(text)) => Some(script_parameters(&text)),
        // Compact, so that an output's digest says what it holds and not how it was typed.
        (_, Some(text)) => Some(compact(text.get()).into()),
        (_, None) => None,
    };
    Ok(Node {
        id: node.id,
        action: actions.intern(action),
        parameters: parameters.map(|text| Box::new(Parameters::new(text))),
        rare: if is_common {
            None
        } else {
            Some(Box::new(rare))
        },
    })
}

/// `core.script` takes a bare expression, which is the template of its own value.
fn script_parameters(text: &Json) -> Box<str> {
    let parsed = serde_json::from_str::<BTreeMap<String, serde_json::Value>>(text.get());
    let Ok(mut parameters) = parsed else {
        return text.get().into();
    };
    if let Some(serde_json::Value::String(expression)) = parameters.get_mut("expression")
        && !expression.contains("{{")
    {
        *expression = format!("{{{{ {expression} }}}}");
    }
    serde_json::json!(parameters).to_string().into()
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

fn entries(definition: &Definition, edges: &Edges, incoming: &[u32]) -> Vec<NodeIndex> {
    if let Some(start) = &definition.start_node
        && let Ok(index) = edges.resolve(&definition.nodes, start)
    {
        return vec![index];
    }
    (0..definition.nodes.len())
        .filter(|&node| incoming[node] == incoming[node + 1])
        .map(|node| node as NodeIndex)
        .collect()
}

/// Each node's longest path from an entry, in topological order.
fn levels(plan: &Plan) -> Result<Vec<u32>, BuildError> {
    let mut levels = vec![0; plan.len()];
    let mut waiting: Vec<usize> = (0..plan.len() as NodeIndex)
        .map(|node| plan.incoming(node).len())
        .collect();
    let mut queue: Vec<NodeIndex> = (0..plan.len() as NodeIndex)
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
    if done == plan.len() {
        Ok(levels)
    } else {
        Err(BuildError::Invalid("the graph has a cycle".to_owned()))
    }
}

fn message(problem: Option<&windlass_expr::Problem>) -> String {
    problem.map_or_else(String::new, |problem| problem.message.clone())
}

pub(super) fn first_message(problems: &[TemplateProblem]) -> String {
    message(problems.first().map(|problem| &problem.problem))
}

/// What a node's parameters may name.
pub(super) fn parameters_scope() -> Scope {
    scope::parameters(&scope::BodyNames::top())
}
