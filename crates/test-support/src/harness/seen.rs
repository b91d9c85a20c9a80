//! What can be seen of a run of the state machine. It frees iterations that have ended, so
//! what was seen of them at that moment is remembered.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_core::NodeStatus;
use windlass_core::event::Event;
use windlass_core::routing::EdgeState;
use windlass_core::run::{Instance, Run};
use windlass_core::value::Stored;

use super::Harness;
use crate::report::{CompensationReport, NodeReport, RunReport, without_messages};

/// What was last seen of instances that may be gone.
#[derive(Default)]
pub struct LastSeen {
    gone: BTreeMap<String, (NodeReport, Vec<String>)>,
}

impl LastSeen {
    /// Takes over what the harness kept of iterations that have ended.
    pub fn update(&mut self, harness: &mut Harness) {
        for (scope, run) in std::mem::take(&mut harness.freed) {
            let prefix = format!("{scope}/");
            for node in run.instances() {
                let path = run.path(node).into_string();
                if path.starts_with(&prefix) {
                    let seen = (instance(harness, &run, node), edges(&run, node));
                    self.gone.insert(path, seen);
                }
            }
        }
    }

    /// What can be seen of the run now.
    pub fn report(&self, harness: &Harness) -> RunReport {
        let run = &harness.run;
        let finished = run.finished().or_else(|| ending(harness));
        let error = finished.and_then(|finished| finished.error.as_ref());
        let output = run.finished().and_then(|finished| finished.output.as_ref());
        let output = output.map(|output| match output {
            Stored::Inline(raw) => without_messages(&parse(raw.get())),
            stored => panic!("small outputs stand in the record: {stored:?}"),
        });
        let nodes = self.all(harness);
        RunReport {
            status: run.status().to_string(),
            output,
            error: error.map(|error| error.code.to_string()),
            nodes: nodes
                .into_iter()
                .map(|(path, (node, _))| (path, node))
                .collect(),
            compensation: compensation(run),
        }
    }

    /// Every edge with what it came to, as `loop[0]/a -Success-> b taken`.
    pub fn edges(&self, harness: &Harness) -> Vec<String> {
        let nodes = self.all(harness).into_values();
        let mut edges: Vec<String> = nodes.flat_map(|(_, edges)| edges).collect();
        edges.sort();
        edges
    }

    fn all(&self, harness: &Harness) -> BTreeMap<String, (NodeReport, Vec<String>)> {
        let (mut seen, run) = (self.gone.clone(), &harness.run);
        for node in run.instances() {
            let path = run.path(node).into_string();
            seen.insert(path, (instance(harness, run, node), edges(run, node)));
        }
        seen
    }
}

/// How a run that is being undone will end.
fn ending(harness: &Harness) -> Option<&windlass_core::event::Finished> {
    harness.run.undo()?;
    let mut events = harness
        .log
        .iter()
        .rev()
        .flat_map(|it| it.events.iter().rev());
    events.find_map(|event| match event {
        Event::Compensating { ending, .. } => Some(&**ending),
        _ => None,
    })
}

fn instance(harness: &Harness, run: &Run, node: Instance) -> NodeReport {
    let status = run.node_status(node);
    let has_value = matches!(status, NodeStatus::Succeeded | NodeStatus::Failed);
    let value = run.value(node).filter(|_| has_value).map(|value| {
        let loaded = harness.values.get(&value.digest);
        without_messages(&parse(loaded.expect("a stored value").text()))
    });
    NodeReport {
        status: match status {
            NodeStatus::Queued | NodeStatus::Running => "Open".to_owned(),
            status => status.to_string(),
        },
        attempt: run.attempt(node),
        blocked_by: run
            .blocked_by(node)
            .iter()
            .map(|&by| name(run, by))
            .collect(),
        handled: status == NodeStatus::Failed && run.is_handled(node),
        value,
    }
}

fn edges(run: &Run, node: Instance) -> Vec<String> {
    let from = run.path(node);
    let edges = run.edges_from(node).into_iter();
    let lines = edges.map(|(when, target, state)| {
        let state = match state {
            EdgeState::Unresolved => "open",
            EdgeState::Taken => "taken",
            EdgeState::NotTaken => "not taken",
            EdgeState::Lost => "lost",
        };
        format!("{from} -{when:?}-> {} {state}", name(run, target))
    });
    lines.collect()
}

/// The last name of a path.
fn name(run: &Run, node: Instance) -> String {
    let path = run.path(node);
    let name = path.rsplit('/').next();
    name.expect("a path has a name").to_owned()
}

fn compensation(run: &Run) -> Option<CompensationReport> {
    let undo = run.undo()?;
    let (done, left): (Vec<_>, Vec<_>) = undo.steps().partition(|(_, status)| status.is_final());
    let path = |node: Instance| run.path(node).into_string();
    let finished = run.finished().and_then(|finished| finished.compensation);
    Some(CompensationReport {
        status: super::compensation_word(finished).to_owned(),
        done: done
            .into_iter()
            .map(|(node, status)| (path(node), status == NodeStatus::Succeeded))
            .collect(),
        next: left.first().map(|&(node, _)| path(node)),
    })
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("stored values are JSON")
}
