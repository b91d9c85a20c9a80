//! A new run from an old one (semantics §5): chosen nodes and everything after them run again,
//! and so do compensated nodes; the recorded results of the rest are reused. Nothing is written
//! here: the result is a request to start a run.

mod again;
mod compensated;
mod results;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use windlass_core::definition::JsonText;
use windlass_core::event::{Actor, ForkOrigin, ReusedNode};
use windlass_core::plan::{AmbiguousName, Plan};
use windlass_core::run::Run;
use windlass_core::value::Stored;
use windlass_core::{Digest, NodeStatus, RunId};
use windlass_store::{Error, Wait as _};

use crate::Backend;
use crate::load::LoadError;
use crate::plans::Plans;
use crate::start::{FROZEN_AT, NewRun};
use crate::values::{ValueReader, blob_text, stored_text};

use again::Again;
use compensated::{Compensated, compensated, is_undone};
use results::{Results, results};

/// The request for a fork.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The old run.
    pub origin: RunId,
    /// The node instances that run again, by path, with everything after them.
    pub from: Vec<String>,
    /// The graph that the new run walks.
    pub graph: ForkGraph,
    /// The new run's trigger, as JSON text; the old run's if none is given.
    pub trigger: Option<String>,
    /// Variables that replace the values that the reused nodes left.
    pub vars: BTreeMap<Box<str>, JsonText>,
    /// Whether results that compensation has undone are reused like others.
    pub reuse_compensated: bool,
    /// Who forks, and why.
    pub actor: Actor,
}

/// The graph that a fork walks.
#[derive(Clone, Debug)]
pub enum ForkGraph {
    /// The one that the old run has now.
    Same,
    /// That of a version in the catalogue.
    Version {
        /// The version.
        version: u32,
        /// Digest of its definition.
        definition: Digest,
        /// Its plan.
        plan: Arc<Plan>,
    },
    /// One that belongs to the new run alone.
    Frozen {
        /// The definition.
        text: Arc<str>,
        /// Its plan.
        plan: Arc<Plan>,
    },
}

/// A fork that can be started.
#[derive(Clone, Debug)]
pub struct Fork {
    /// What to start.
    pub new_run: NewRun,
    /// The nodes that run again: the chosen ones with those after them, then what was
    /// compensated with those after it.
    pub again: Vec<Box<str>>,
    /// The nodes whose results are reused.
    pub reused: Vec<Box<str>>,
    /// The other nodes of the top level, which have no result to reuse, as they stood.
    pub rest: Vec<(Box<str>, NodeStatus)>,
    /// The nodes whose results compensation has undone, or tried to.
    pub compensated: Vec<CompensatedNode>,
}

/// A node of the old run that was compensated, or is being.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompensatedNode {
    /// The node instance.
    pub node: Box<str>,
    /// How far its compensation is. `Failed` means that its effect still stands.
    pub compensation: NodeStatus,
    /// Whether the fork reuses its result.
    pub reused: bool,
}

/// Why a run cannot be forked as asked.
#[derive(Debug)]
pub enum ForkError {
    /// The old run cannot be read.
    Load(LoadError),
    /// The old run never had this node instance, or the new graph does not have it.
    UnknownNode(String),
    /// A name that several nodes have.
    AmbiguousNode(AmbiguousName),
    /// No node was named.
    NoNode,
}

impl fmt::Display for ForkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => error.fmt(f),
            Self::UnknownNode(node) => write!(f, "the run has no node '{node}'"),
            Self::AmbiguousNode(name) => name.fmt(f),
            Self::NoNode => f.write_str("no node is named to run again"),
        }
    }
}

impl std::error::Error for ForkError {}

impl From<LoadError> for ForkError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<Error> for ForkError {
    fn from(error: Error) -> Self {
        Self::Load(error.into())
    }
}

/// The definition of the graph that a run has now, as JSON text.
///
/// # Errors
/// It cannot be read.
pub fn definition_text(store: &dyn Backend, run: &Run) -> Result<String, LoadError> {
    if run.is_frozen() {
        return Ok(blob_text(store, &run.definition())?);
    }
    let (queued, version) = (run.queued(), run.version());
    let (tenant, workflow) = (queued.tenant.as_deref(), &queued.workflow);
    let row = store.definition(tenant, workflow, Some(version)).wait()?;
    let row = row.ok_or_else(|| {
        LoadError::Definition(format!("version {version} of '{workflow}' is missing"))
    })?;
    String::from_utf8(row.text).map_err(|error| LoadError::Definition(error.to_string()))
}

/// Makes the request that starts a fork.
///
/// # Errors
/// The old run cannot be read, or has no such node.
pub fn fork(
    store: &dyn Backend,
    plans: &Plans,
    values: &ValueReader,
    ask: &Ask,
) -> Result<Fork, ForkError> {
    if ask.from.is_empty() {
        return Err(ForkError::NoNode);
    }
    let old = results(store, plans, ask.origin)?;
    let ask = &by_id(ask, old.run.plan())?;
    let compensated = compensated(store, plans, &old)?;
    let Results {
        run,
        nodes,
        mut writes,
        iterations,
        ..
    } = old;
    let mut new_run = new_run(store, &run, ask)?;
    let plan = Arc::clone(&new_run.plan);
    let again = again(&plan, ask, &compensated)?;
    for path in &ask.from {
        // The state forgets the inside of an iteration that has ended; of its nodes that have no
        // result, the graph knows the names.
        let has_begun = |(iteration, _): (&str, &str)| iterations.contains(iteration);
        let known = nodes.contains_key(path.as_str())
            || run.resolve(path).is_some()
            || path.rsplit_once('/').is_some_and(has_begun);
        if !known {
            return Err(ForkError::UnknownNode(path.clone()));
        }
    }
    let kept: BTreeMap<Box<str>, ReusedNode> = nodes
        .into_iter()
        .filter(|(path, _)| again.keeps(path))
        .collect();
    let fits = |path: &str| again::fits(run.plan(), &plan, path);
    // Nodes inside a loop that is reused as a whole are reused with it.
    let is_inside = |path: &str| again::loops_around(path).any(|outer| kept.contains_key(outer));
    writes.retain(|write| kept.contains_key(&write.node));
    let reused = kept.values().filter(|node| !is_inside(&node.node));
    new_run.reused = reused
        .cloned()
        .map(|mut node| {
            if !fits(&node.node) {
                node.taken = None;
            }
            node
        })
        .collect();
    new_run.request.vars = variables(store, &run, &plan, &writes, ask)?;
    if let Some(trigger) = &ask.trigger {
        new_run.request.trigger.clone_from(trigger);
    } else {
        let trigger = values.resolve(&run.queued().trigger).wait()?;
        new_run.request.trigger = trigger.to_string();
    }
    let reused: Vec<Box<str>> = new_run.reused.iter().map(|it| it.node.clone()).collect();
    let compensated = marked(compensated, &reused);
    let is_rest = |id: &str| !again.touches(id) && !kept.contains_key(id);
    let rest = (0..plan.len() as u32)
        .map(|node| plan.id(node))
        .filter(|id| is_rest(id))
        .map(|id| {
            let before = run.resolve(id).and_then(|node| run.find_status(node));
            (id.into(), before.unwrap_or(NodeStatus::Pending))
        })
        .collect();
    Ok(Fork {
        new_run,
        again: again.paths(),
        reused,
        rest,
        compensated,
    })
}

/// The same request with its nodes by id, where it names them otherwise.
fn by_id(ask: &Ask, plan: &Plan) -> Result<Ask, ForkError> {
    let path = |node: &String| match plan.named_path(node) {
        Ok(path) => Ok(path.into_owned()),
        Err(name) => Err(ForkError::AmbiguousNode(name)),
    };
    let from = ask.from.iter().map(path).collect::<Result<_, _>>()?;
    Ok(Ask {
        from,
        ..ask.clone()
    })
}

/// What runs again: the chosen nodes and, unless the caller wants it reused, what was compensated.
fn again(plan: &Plan, ask: &Ask, compensated: &Compensated) -> Result<Again, ForkError> {
    let unknown = |path: Box<str>| ForkError::UnknownNode(path.into_string());
    let mut again = Again::new(plan, &ask.from).map_err(unknown)?;
    if !ask.reuse_compensated {
        let undone = compensated.iter().filter(|(_, status)| is_undone(**status));
        for (path, _) in undone {
            again.include(plan, path);
        }
    }
    Ok(again)
}

fn marked(compensated: Compensated, reused: &[Box<str>]) -> Vec<CompensatedNode> {
    let reused: BTreeSet<&str> = reused.iter().map(|node| &**node).collect();
    let is_reused = |path: &str| {
        let mut around = std::iter::once(path).chain(again::loops_around(path));
        around.any(|path| reused.contains(path))
    };
    let nodes = compensated.into_iter();
    let mark = |(node, compensation): (Box<str>, NodeStatus)| CompensatedNode {
        reused: is_reused(&node),
        node,
        compensation,
    };
    nodes.map(mark).collect()
}

/// A run like the old one.
fn new_run(store: &dyn Backend, run: &Run, ask: &Ask) -> Result<NewRun, ForkError> {
    let mut new = match &ask.graph {
        ForkGraph::Version {
            version,
            definition,
            plan,
        } => NewRun::new(Arc::clone(plan), *version, *definition),
        ForkGraph::Frozen { text, plan } => {
            let definition = Digest::of(text.as_bytes());
            let mut new = NewRun::new(Arc::clone(plan), run.version(), definition);
            new.frozen = Some(Arc::clone(text));
            new
        }
        ForkGraph::Same => {
            let plan = Arc::clone(run.plan());
            let mut new = NewRun::new(plan, run.version(), run.definition());
            if run.is_frozen() {
                new.frozen = Some(definition_text(store, run)?.into());
            }
            new
        }
    };
    let queued = run.queued();
    let request = &mut new.request;
    request.correlation_id = Some(queued.correlation_id.clone());
    request.tenant.clone_from(&queued.tenant);
    request.priority = queued.priority;
    request.labels.clone_from(&queued.labels);
    if !matches!(ask.graph, ForkGraph::Same) {
        // The time at which the old graph was frozen does not apply to the new graph.
        request.labels.remove(FROZEN_AT);
    }
    new.origin = Some(ForkOrigin {
        execution_id: run.id(),
        nodes: ask.from.iter().map(|node| node.as_str().into()).collect(),
        actor: ask.actor.clone(),
    });
    Ok(new)
}

/// Variables as the old run was started with them, then as the reused nodes left them,
/// then as the fork is asked for. A variable that still had its default takes the default of
/// the new graph.
fn variables(
    store: &dyn Backend,
    run: &Run,
    plan: &Plan,
    writes: &[results::Write],
    ask: &Ask,
) -> Result<BTreeMap<Box<str>, JsonText>, ForkError> {
    let text = |stored: &Stored| -> Result<Option<JsonText>, ForkError> {
        let text = stored_text(store, stored)?.into_owned();
        // Stored values are JSON.
        Ok(serde_json::value::RawValue::from_string(text).ok())
    };
    let mut vars = BTreeMap::new();
    for (name, stored) in &run.queued().vars {
        let value = text(stored)?;
        let default = run.plan().vars().get(name).map(|raw| raw.get());
        let is_default = value.as_ref().map(|raw| raw.get()) == default;
        if !(is_default && plan.vars().contains_key(name)) {
            vars.extend(value.map(|value| (name.clone(), value)));
        }
    }
    for write in writes {
        let value = text(&write.value)?;
        vars.extend(value.map(|value| (write.name.clone(), value)));
    }
    vars.extend(ask.vars.clone());
    Ok(vars)
}
