//! One node instance with all that is known of it: its part of the execution's own JSON, its
//! attempts, what it waits for, and the commands that the run's rules allow on it now.

use std::num::NonZeroU64;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use windlass_core::command::{CommandRequest, RunCommand};
use windlass_core::event::Actor;
use windlass_core::run::Run;
use windlass_core::{NodeStatus, RunId, RunStatus};
use windlass_engine::view::{self, AttemptFilter, Nodes, Progress};
use windlass_store::Wait as _;

use crate::dry_run;
use crate::failure::{Failure, FailureKind};
use crate::members::Members;
use crate::run_queries::{RunQueries, no_such_run};
use crate::wait_state::has_instance;
use crate::why::{self, no_such_node};

/// How many instances of one name are listed where several fit.
const NAMED: usize = 5;

/// One node as JSON text; `name` is its path, or a name or id that only one instance has.
///
/// # Errors
/// There is no such run or node, several are meant, or it cannot be read.
pub fn node_json(queries: &RunQueries, run: RunId, name: &str) -> Result<String, Failure> {
    let loaded = windlass_engine::load_latest(&*queries.store, &queries.plans, run)?;
    let path = &*find(&loaded.run, name)?;
    let options = view::Options {
        actions: AttemptFilter::Of(path.into()),
        nodes: Nodes::Only([path.into()].into()),
        at_work: queries
            .engine
            .as_ref()
            .map(|engine| engine.at_work(run))
            .unwrap_or_default(),
        ..view::Options::default()
    };
    let mut text = Vec::new();
    view::write(&*queries.store, &queries.plans, run, &options, &mut text)?;
    let why = why::why(queries, run, Some(path))?;
    let answer = why.nodes.first();
    let reason = answer.map(|answer| &*answer.reason);
    let commands = commands(queries, &loaded.run, path);
    let mut node = whole_node(queries, run, path, &text)?;
    node.set("why", &reason).map_err(unreadable)?;
    node.set("waitsFor", &answer.map(|answer| &answer.waits_for))
        .map_err(unreadable)?;
    set_status(&mut node, loaded.run.status())?;
    node.set("commands", &commands).map_err(unreadable)?;
    serde_json::to_string(&node).map_err(unreadable)
}

/// One node as it was after one of the run's events, by its position; as it is now, if the run
/// has had fewer. What it waited for is left out, and so are commands: they are about now.
///
/// # Errors
/// There is no such run, the node was not there yet, several are meant, or it cannot be read.
pub fn node_json_at(
    queries: &RunQueries,
    run: RunId,
    name: &str,
    at: NonZeroU64,
) -> Result<String, Failure> {
    let mut progress = Progress::new(run);
    progress.read(&*queries.store, &queries.plans, Some(at))?;
    let state = progress.run().ok_or_else(|| no_such_run(run))?;
    let (path, status) = (find(state, name)?, state.status());
    let options = view::Options {
        actions: AttemptFilter::Of(path.clone()),
        nodes: Nodes::Only([path.clone()].into()),
        ..view::Options::default()
    };
    let mut text = Vec::new();
    progress.write(&*queries.store, &queries.plans, &options, &mut text)?;
    let mut node = whole_node(queries, run, &path, &text)?;
    set_status(&mut node, status)?;
    serde_json::to_string(&node).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> Failure {
    Failure::new(FailureKind::OutputFailed, error)
}

/// What the execution's JSON says of a node.
fn whole_node(
    queries: &RunQueries,
    run: RunId,
    path: &str,
    text: &[u8],
) -> Result<Members, Failure> {
    let node = picked(text, run, path).map_err(unreadable)?;
    let mut node = node.ok_or_else(|| no_such_node(path))?;
    if let Some(input) = child_input(queries, &node) {
        node.set("input", &input).map_err(unreadable)?;
    }
    Ok(node)
}

/// Says how the node's run stands.
fn set_status(node: &mut Members, status: RunStatus) -> Result<(), Failure> {
    node.set("runStatus", &status.as_str())
        .map_err(unreadable)?;
    node.set("runEnded", &status.is_final()).map_err(unreadable)
}

/// What a node gave the child run that it started: the child's trigger.
fn child_input(queries: &RunQueries, node: &Members) -> Option<Box<RawValue>> {
    let child: RunId = serde_json::from_str(node.get("child")?.get()).ok()?;
    // A child that is gone, or cannot be read, leaves the node without it.
    let child = windlass_engine::load_latest(&*queries.store, &queries.plans, child).ok()?;
    let values = queries.values();
    let trigger = values.resolve(&child.run.queued().trigger).wait().ok()?;
    RawValue::from_string(trigger.to_string()).ok()
}

/// The path of the instance that is meant.
fn find(run: &Run, name: &str) -> Result<Box<str>, Failure> {
    let path = run.plan().named_path(name)?;
    if has_instance(run, &path) {
        return Ok((*path).into());
    }
    let mut found: Vec<Box<str>> = Vec::new();
    for node in run.instances() {
        let (plan, index) = run.place(node);
        if plan.name(index) == Some(name) || plan.id(index) == name {
            found.push(run.path(node));
        }
    }
    match found.as_slice() {
        [] => Err(no_such_node(name)),
        // Other rounds of its loop may have ended, and are not among the instances any more.
        [only] if only.contains('[') => {
            let message = format!("'{name}' is inside a loop, once for each round");
            let first = first_round(only);
            Err(Failure::new(FailureKind::NodeNotFound, message)
                .hint(format!("give the path of one, such as {first}")))
        }
        [only] => Ok(only.clone()),
        several => {
            let named = several.iter().take(NAMED).map(|path| &**path);
            let named = named.collect::<Vec<_>>().join(", ");
            let message = format!("{} nodes are called '{name}'", several.len());
            Err(Failure::new(FailureKind::NodeAmbiguous, message)
                .hint(format!("give the path of one: {named}")))
        }
    }
}

/// The same path in the first round of each loop.
fn first_round(path: &str) -> String {
    let mut parts = path.split('[');
    let mut first = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.split_once(']').map_or("", |(_, rest)| rest);
        first.push_str("[0]");
        first.push_str(rest);
    }
    first
}

/// The command lines that the rules of the run allow on a node now.
fn commands(queries: &RunQueries, run: &Run, path: &str) -> Vec<String> {
    let (id, node) = (run.id(), quoted(path));
    let mut lines = Vec::new();
    let Some(instance) = run.resolve(path) else {
        if run.status().is_final() {
            lines.push(format!("windlass fork {id} --from {node}"));
        }
        return lines;
    };
    if run.node_status(instance) == NodeStatus::Waiting
        && let Some(signal) = run.signal_of(instance)
    {
        lines.push(format!("windlass signal {id} {} JSON", quoted(signal)));
    }
    let nodes = || vec![path.to_owned()];
    let candidates = [
        (
            RunCommand::Reattempt { nodes: nodes() },
            format!("windlass reattempt {id} {node}"),
        ),
        (
            RunCommand::SetResult {
                node: path.to_owned(),
            },
            format!("windlass set-result {id} {node} JSON"),
        ),
        (
            RunCommand::Skip {
                node: path.to_owned(),
            },
            format!("windlass skip {id} {node}"),
        ),
        (
            RunCommand::RetryCompensation { nodes: nodes() },
            format!("windlass compensate {id} --retry {node}"),
        ),
        (
            RunCommand::SkipCompensation { nodes: nodes() },
            format!("windlass compensate {id} --skip {node}"),
        ),
    ];
    for (command, line) in candidates {
        let request: CommandRequest = command.by(Actor::default()).with("null");
        if dry_run::effect(queries, run, &request).is_ok() {
            lines.push(line);
        }
    }
    if run.status().is_final() && run.node_status(instance) != NodeStatus::Pending {
        lines.push(format!("windlass fork {id} --from {node}"));
    }
    lines
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The parts of an execution that are about a node, as they are written.
fn picked(text: &[u8], run: RunId, path: &str) -> serde_json::Result<Option<Members>> {
    #[derive(Deserialize)]
    struct Whole {
        nodes: Members,
        actions: Vec<Members>,
    }
    let Whole { nodes, actions } = serde_json::from_slice(text)?;
    let Some(node) = nodes.get(path) else {
        return Ok(None);
    };
    let mut node: Members = serde_json::from_str(node.get())?;
    let quoted = json!(path).to_string();
    let own = |attempt: &&Members| attempt.get("node").is_some_and(|node| node.get() == quoted);
    let attempts: Vec<&Members> = actions.iter().filter(own).collect();
    node.set("executionId", &run.to_string())?;
    node.set("node", path)?;
    node.set("actions", &attempts)?;
    Ok(Some(node))
}
