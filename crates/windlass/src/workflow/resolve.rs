//! From declarations to a definition: the chain gets its order, names become edges, and
//! functions become actions with names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::definition::{
    Compensate, DefinitionFormat, DefinitionSource, Edge, JsonText, Node, When,
};

use super::builder::{Declared, WorkflowBuilder};
use super::{BuildError, Problem, Workflow, chain};
use crate::work::{Inner, Naming, Registration, Work};

pub(super) fn build(builder: WorkflowBuilder) -> Result<Workflow, BuildError> {
    let WorkflowBuilder {
        mut definition,
        nodes,
        mut problems,
    } = builder;
    let names = Names::of(&nodes);
    names.check(&nodes, &mut problems);
    let previous = previous_steps(&nodes, &names, &mut problems);
    if !problems.is_empty() {
        let workflow = definition.id;
        return Err(BuildError { workflow, problems });
    }
    let mut registrations = Vec::new();
    let mut arrivals: BTreeMap<Box<str>, Vec<Edge>> = BTreeMap::new();
    for declared in nodes {
        let previous = previous.get(&declared.node.id);
        let arriving = collect_arrivals(&declared);
        let named = wire(declared, previous.map(|name| &**name));
        let node = named.assign(&definition.id, &mut registrations, &mut problems);
        for (from, edge) in arriving {
            arrivals.entry(from).or_default().push(edge);
        }
        definition.nodes.push(node);
    }
    for node in &mut definition.nodes {
        let mut edges = std::mem::take(&mut node.edges).into_vec();
        edges.extend(arrivals.remove(&node.id).unwrap_or_default());
        node.edges = edges.into();
    }
    let workflow = definition.id.clone();
    if !problems.is_empty() {
        return Err(BuildError { workflow, problems });
    }
    let text = serde_json::to_vec(&definition).expect("a definition is JSON");
    let source = DefinitionSource {
        name: format!("{workflow} (built in code)"),
        text: &text,
        format: DefinitionFormat::Json,
    };
    Workflow::check(&workflow, &source, registrations)
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

impl Wired {
    /// Gives the work its names.
    fn assign(
        self,
        workflow: &str,
        registrations: &mut Vec<Registration>,
        problems: &mut Vec<Problem>,
    ) -> Node {
        let mut node = self.node;
        if let Inner::Function(function) = &self.work.0
            && function.takes_parameters
            && node.parameters.is_none()
        {
            node.parameters = Some(whole_trigger());
        }
        let naming = Naming {
            name: format!("{workflow}/{}", node.id).into(),
            description: format!("'{}' of the workflow '{workflow}'.", node.id).into(),
        };
        match action_name(self.work, naming, registrations) {
            Ok(name) => node.action_type = Some(name),
            Err(defined) => defined.apply(&mut node),
        }
        if let Some((work, parameters)) = self.compensation {
            let naming = Naming {
                name: format!("{workflow}/{}/compensate", node.id).into(),
                description: format!("Undoes '{}' of the workflow '{workflow}'.", node.id).into(),
            };
            match action_name(work, naming, registrations) {
                Ok(action_type) => {
                    node.compensate = Some(Box::new(Compensate {
                        action_type,
                        parameters,
                        policies: None,
                    }));
                }
                Err(_) => {
                    let node = node.id.clone();
                    problems.push(Problem::CompensationIsNoAction { node });
                }
            }
        }
        node
    }
}

/// The name of the action that does the work, or what the definition says instead.
fn action_name(
    work: Work,
    naming: Naming,
    registrations: &mut Vec<Registration>,
) -> Result<Box<str>, crate::work::Defined> {
    let registration = match work.0 {
        Inner::Named(name) => return Ok(name),
        Inner::Defined(defined) => return Err(defined),
        Inner::Action(registration) => registration,
        Inner::Function(function) => function.named(naming),
    };
    let name = registration.name.clone();
    registrations.push(registration);
    Ok(name)
}

/// A function whose parameters are not said is given the run's trigger.
fn whole_trigger() -> JsonText {
    serde_json::value::to_raw_value("{{ trigger }}").expect("text is JSON")
}
