//! From declarations to a definition: the chain gets its order, names become edges, and
//! functions become actions with names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::definition::{
    Compensate, DefinitionFormat, DefinitionSource, Edge, JsonText, Node, When,
};

use super::builder::{Declared, WorkflowBuilder};
use super::{BuildError, Parts, Problem, Workflow, chain};
use crate::work::{Defined, Inner, LoopWork, Naming, Work};

pub(super) fn build(builder: WorkflowBuilder) -> Result<Workflow, BuildError> {
    let WorkflowBuilder {
        mut definition,
        nodes,
        problems,
    } = builder;
    let mut resolving = Resolving {
        parts: Parts::default(),
        problems,
    };
    let workflow = definition.id.clone();
    definition.nodes = resolving.nodes(nodes, &Scope::top(&workflow));
    let Resolving { parts, problems } = resolving;
    if !problems.is_empty() {
        return Err(BuildError { workflow, problems });
    }
    let text = serde_json::to_vec(&definition).expect("a definition is JSON");
    let source = DefinitionSource {
        name: format!("{workflow} (built in code)"),
        text: &text,
        format: DefinitionFormat::Json,
    };
    Workflow::check(&workflow, &source, parts)
}

/// Where nodes are: at the top level, or in the body of a loop.
struct Scope {
    workflow: Box<str>,
    /// The path of the loop around them, with a slash behind it.
    prefix: String,
    /// What a function is given whose parameters are not said.
    whole: &'static str,
}

impl Scope {
    fn top(workflow: &str) -> Self {
        Self {
            workflow: workflow.into(),
            prefix: String::new(),
            whole: "{{ trigger }}",
        }
    }

    /// The body of a loop in this scope.
    fn body(&self, node: &str, of: &Defined) -> Self {
        Self {
            workflow: self.workflow.clone(),
            prefix: format!("{}{node}/", self.prefix),
            whole: match of {
                Defined::ForEach(_) => "{{ item }}",
                _ => "{{ trigger }}",
            },
        }
    }
}

/// What is gathered while names become edges and functions become actions.
struct Resolving {
    parts: Parts,
    problems: Vec<Problem>,
}

impl Resolving {
    /// The nodes of a scope.
    fn nodes(&mut self, nodes: Vec<Declared>, scope: &Scope) -> Vec<Node> {
        let names = Names::of(&nodes);
        let before = self.problems.len();
        names.check(&nodes, &mut self.problems);
        if self.problems.len() > before {
            return Vec::new();
        }
        let previous = previous_steps(&nodes, &names, &mut self.problems);
        if self.problems.len() > before {
            return Vec::new();
        }
        let mut resolved = Vec::with_capacity(nodes.len());
        let mut arrivals: BTreeMap<Box<str>, Vec<Edge>> = BTreeMap::new();
        for mut declared in nodes {
            let previous = previous.get(&declared.node.id);
            let arriving = collect_arrivals(&declared);
            if let Some(strategy) = declared.strategy.take() {
                let path = format!("{}{}", scope.prefix, declared.node.id);
                self.parts.strategies.push((path.into(), strategy));
            }
            let wired = wire(declared, previous.map(|name| &**name));
            let node = self.assign(wired, scope);
            for (from, edge) in arriving {
                arrivals.entry(from).or_default().push(edge);
            }
            resolved.push(node);
        }
        for node in &mut resolved {
            let mut edges = std::mem::take(&mut node.edges).into_vec();
            edges.extend(arrivals.remove(&node.id).unwrap_or_default());
            node.edges = edges.into();
        }
        resolved
    }

    /// Gives the work of a node its names.
    fn assign(&mut self, wired: Wired, scope: &Scope) -> Node {
        let mut node = wired.node;
        if let Inner::Function(function) = &wired.work.0
            && function.takes_parameters
            && node.parameters.is_none()
        {
            let whole = serde_json::value::to_raw_value(scope.whole);
            node.parameters = Some(whole.expect("text is JSON"));
        }
        let workflow = &scope.workflow;
        let path = format!("{}{}", scope.prefix, node.id);
        let naming = Naming {
            name: format!("{workflow}/{path}").into(),
            description: format!("'{path}' of the workflow '{workflow}'.").into(),
        };
        match self.action_name(wired.work, naming) {
            Ok(name) => node.action_type = Some(name),
            Err(NoAction::Defined(defined)) => defined.apply(&mut node),
            Err(NoAction::Loop(of)) => self.apply_loop(*of, scope, &mut node),
        }
        if let Some((work, parameters)) = wired.compensation {
            let naming = Naming {
                name: format!("{workflow}/{path}/compensate").into(),
                description: format!("Undoes '{path}' of the workflow '{workflow}'.").into(),
            };
            match self.action_name(work, naming) {
                Ok(action_type) => {
                    node.compensate = Some(Box::new(Compensate {
                        action_type,
                        parameters,
                        policies: None,
                    }));
                }
                Err(_) => {
                    let node = node.id.clone();
                    self.problems.push(Problem::CompensationIsNoAction { node });
                }
            }
        }
        node
    }

    /// Writes a loop with its body into a node.
    fn apply_loop(&mut self, of: LoopWork, scope: &Scope, node: &mut Node) {
        let LoopWork { mut defined, body } = of;
        let inner = scope.body(&node.id, &defined);
        self.problems.extend(body.problems);
        let nodes = self.nodes(body.nodes, &inner);
        if let Some(place) = defined.body_mut() {
            place.nodes = nodes;
            place.output = body.definition.output;
        }
        defined.apply(node);
    }

    /// The name of the action that does the work, or what the definition says instead.
    fn action_name(&mut self, work: Work, naming: Naming) -> Result<Box<str>, NoAction> {
        let registration = match work.0 {
            Inner::Named(name) => return Ok(name),
            Inner::Defined(defined) => return Err(NoAction::Defined(defined)),
            Inner::Loop(of) => return Err(NoAction::Loop(of)),
            Inner::Action(registration) => registration,
            Inner::Function(function) => function.named(naming),
        };
        let name = registration.name.clone();
        self.parts.registrations.push(registration);
        Ok(name)
    }
}

/// Work that no action does.
enum NoAction {
    Defined(Defined),
    Loop(Box<LoopWork>),
}

/// The names there are, in the order of their declaration.
struct Names {
    all: BTreeSet<Box<str>>,
    declared: Arc<[Box<str>]>,
    steps: Arc<[Box<str>]>,
}

impl Names {
    fn of(nodes: &[Declared]) -> Self {
        let is_step = |node: &&Declared| node.position.is_some();
        let name = |node: &Declared| node.node.id.clone();
        Self {
            all: nodes.iter().map(name).collect(),
            declared: nodes.iter().map(name).collect(),
            steps: nodes.iter().filter(is_step).map(name).collect(),
        }
    }

    /// Names that are taken, and references that lead nowhere.
    fn check(&self, nodes: &[Declared], problems: &mut Vec<Problem>) {
        let mut seen = BTreeSet::new();
        let mut taken = BTreeSet::new();
        for declared in nodes {
            let name = &declared.node.id;
            if !seen.insert(name) && taken.insert(name) {
                let name = name.clone();
                problems.push(Problem::NameTaken { name });
            }
            for (through, name) in references(declared) {
                if !self.all.contains(name) {
                    problems.push(Problem::UnknownNode {
                        node: declared.node.id.clone(),
                        through,
                        name: name.into(),
                        known: Arc::clone(&self.declared),
                    });
                }
            }
        }
    }
}

/// Every name that a node refers to, and how.
fn references(declared: &Declared) -> Vec<(&'static str, &str)> {
    let node = &declared.node;
    let mut found: Vec<(&'static str, &str)> = Vec::new();
    if let Some(position) = &declared.position
        && let Some(anchor) = position.anchor()
    {
        let is_after = matches!(position, chain::Position::After(_));
        found.push((if is_after { "after" } else { "before" }, anchor));
    }
    let depends_on = declared.depends_on.iter().flatten();
    found.extend(depends_on.map(|name| ("depends_on", &**name)));
    let also = declared.also_depends_on.iter();
    found.extend(also.map(|name| ("also_depends_on", &**name)));
    let arrivals = declared.arrivals.iter();
    found.extend(arrivals.map(|arrival| (through(arrival.when), &*arrival.from)));
    let edges = node.edges.iter();
    found.extend(edges.map(|edge| ("edge", &*edge.target_node)));
    let on_failure = node.on_failure.iter();
    found.extend(on_failure.map(|name| ("on_failure", &**name)));
    if let Some(switch) = &node.switch {
        let targets = switch.cases.values().chain(&switch.default);
        found.extend(targets.map(|name| ("switch", &**name)));
    }
    found
}

fn through(when: When) -> &'static str {
    match when {
        When::Success => "when",
        When::Failure => "when_failed",
        When::Always => "always_after",
    }
}

/// For each step, the one before it once all insertions are made.
fn previous_steps(
    nodes: &[Declared],
    names: &Names,
    problems: &mut Vec<Problem>,
) -> BTreeMap<Box<str>, Box<str>> {
    let mut steps = Vec::new();
    for declared in nodes {
        let Some(position) = &declared.position else {
            continue;
        };
        let id = &*declared.node.id;
        if let Some(anchor) = position.anchor()
            && names.all.contains(anchor)
            && !names.steps.iter().any(|step| **step == *anchor)
        {
            problems.push(Problem::NotInChain {
                node: id.into(),
                name: anchor.into(),
                steps: Arc::clone(&names.steps),
            });
        }
        steps.push((id, position));
    }
    if !problems.is_empty() {
        return BTreeMap::new();
    }
    let order = match chain::order(&steps) {
        Ok(order) => order,
        Err(circle) => {
            let nodes = circle.iter().map(|&step| steps[step].0.into()).collect();
            problems.push(Problem::PlacedInCircle { nodes });
            return BTreeMap::new();
        }
    };
    order
        .windows(2)
        .map(|pair| (steps[pair[1]].0.into(), steps[pair[0]].0.into()))
        .collect()
}

/// The edges that were declared where they arrive, by where they leave.
fn collect_arrivals(declared: &Declared) -> Vec<(Box<str>, Edge)> {
    let edge = |arrival: &super::builder::Arrival| Edge {
        target_node: declared.node.id.clone(),
        when: arrival.when,
        condition: arrival.condition.clone(),
    };
    declared
        .arrivals
        .iter()
        .map(|arrival| (arrival.from.clone(), edge(arrival)))
        .collect()
}

/// A node whose dependencies are resolved, and whose work has no name yet.
struct Wired {
    node: Node,
    work: Work,
    compensation: Option<(Work, Option<JsonText>)>,
}

/// Dependencies that the node names replace the previous step; those from `also_depends_on` are
/// added to it.
fn wire(declared: Declared, previous: Option<&str>) -> Wired {
    let positional = declared.position.is_some() && declared.arrivals.is_empty();
    let mut names = match declared.depends_on {
        Some(names) => names,
        None if positional => previous.map(Into::into).into_iter().collect(),
        None => Vec::new(),
    };
    names.extend(declared.also_depends_on);
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let mut node = declared.node;
    node.depends_on = names.into();
    Wired {
        node,
        work: declared.work,
        compensation: declared.compensation,
    }
}
