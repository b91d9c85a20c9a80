//! How what came of a command is written.

use std::collections::BTreeSet;

use windlass_core::Millis;
use windlass_core::NodeStatus;
use windlass_core::event::{Compensation, Event, Finished};
use windlass_core::plan::NodeIndex;
use windlass_core::run::{Change, Refusal};
use windlass_core::value::Stored;

use crate::harness::{BEGIN, Steps};
use crate::script::Script;

impl Script {
    pub(crate) fn tell(&self, steps: &Steps) -> Vec<String> {
        let mut lines = Vec::new();
        for (event, changes) in steps {
            lines.extend(self.event(event));
            lines.extend(changes.iter().map(|change| self.change(change)));
        }
        lines
    }

    fn event(&self, event: &Event) -> Option<String> {
        Some(match event {
            Event::Queued(_) | Event::AttemptEnded(_) => return None,
            Event::Started {} => "run Running".to_owned(),
            Event::AttemptStarted(started) => format!("{} Running", started.node),
            Event::Routed { node, taken } => {
                let targets = &self.harness.asked[&**node];
                let targets: Vec<&str> = taken.iter().map(|&at| &*targets[at as usize]).collect();
                format!("{node} asked: takes [{}]", targets.join(", "))
            }
            Event::Stopping(stopping) => {
                let cause = format!("{:?}", stopping.cause);
                let scope = stopping.scope.as_deref().unwrap_or("run");
                format!(
                    "{scope} stopping: {cause}, grace until {}",
                    at(stopping.deadline)
                )
            }
            Event::GraceEnded { .. } => "grace ended".to_owned(),
            Event::Paused(_) => "run Paused".to_owned(),
            Event::Resumed(_) => "run resumed".to_owned(),
            Event::Accepted(_) => "accepted, nothing to do".to_owned(),
            Event::Reattempted { nodes, .. } => format!("reattempted {}", nodes.join(", ")),
            Event::Recovered { .. } => "recovered".to_owned(),
            Event::Checkpointed {} => "checkpointed".to_owned(),
            Event::Warning {
                node,
                code,
                message,
            } => {
                let node = node.as_deref().unwrap_or("run");
                format!("warning {node} {code}: {message}")
            }
            Event::Finished(finished) => ended(finished),
            Event::Expanded { node, count, .. } => format!("{node} has {count} items"),
            Event::Looped {
                node,
                iteration,
                due: Some(due),
            } => format!("{node} goes round at {}: {iteration}", at(*due)),
            Event::Looped {
                node, iteration, ..
            } => format!("{node} goes round: {iteration}"),
            Event::SignalReceived(signal) => format!("signal {}", signal.name),
            Event::ChildStarted(started) => {
                format!("{} starts a run of {}", started.node, started.workflow)
            }
            Event::SetByHand(set) => format!("{} set by hand", set.node),
            Event::Compensating { .. } => "run compensating".to_owned(),
            Event::CompensationRetried { nodes, .. } => {
                format!("undone again {}", nodes.join(", "))
            }
            Event::CompensationSkipped { nodes, .. } => format!("not undone {}", nodes.join(", ")),
            Event::Healed { version, .. } => format!("run healed to version {version}"),
            Event::Imported { .. } => "graph imported".to_owned(),
            Event::Reused(nodes) => format!("reuses {} results", nodes.len()),
            Event::IterationEnded { .. } | Event::Waiting { .. } | Event::CompensationEnded(_) => {
                return None;
            }
        })
    }

    fn change(&self, change: &Change) -> String {
        let id = |node: &NodeIndex| {
            let path = self.harness.id(*node);
            let undoes = self.harness.run.undone(*node).is_some();
            if undoes {
                format!("undo of {path}")
            } else {
                path
            }
        };
        match change {
            Change::Ready(node, _) => format!("{} Queued", id(node)),
            Change::Waiting(node, _, Some(due)) => {
                format!("{} Waiting until {}", id(node), at(*due))
            }
            Change::Waiting(node, _, None) => format!("{} Waiting", id(node)),
            Change::Ended(node, _, status) => format!("{} {status}", id(node)),
            Change::StopAsked(node, _) => format!("{} is told to stop", id(node)),
            Change::IterationStarted(node, iteration) => {
                format!("{}[{iteration}] begins", id(node))
            }
            Change::IterationEnded(node, iteration, result) => {
                let how = match result {
                    NodeStatus::Failed => "failed",
                    NodeStatus::Cancelled => "was let go",
                    _ => "succeeded",
                };
                format!("{}[{iteration}] {how}", id(node))
            }
            Change::ChildStarted(node, ..) => format!("{} has a child run", id(node)),
            Change::ChildLetGo(node, _) => format!("{} lets its child go", id(node)),
            Change::ChildUndone(node, ..) => format!("{} undoes its child", id(node)),
        }
    }

    pub(crate) fn refused(&self, refusal: &Refusal) -> String {
        match refusal {
            Refusal::NotFailed(nodes) | Refusal::InTheWay(nodes) => {
                format!("refused: {refusal}: {}", self.names(nodes))
            }
            _ => format!("refused: {refusal}"),
        }
    }

    pub(crate) fn names(&self, nodes: &[NodeIndex]) -> String {
        let names: BTreeSet<String> = nodes.iter().map(|&node| self.harness.id(node)).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    }
}

fn ended(finished: &Finished) -> String {
    let mut line = format!("run {}", finished.status);
    if let Some(error) = &finished.error {
        line.push_str(&format!(" {}: {}", error.code, error.message));
        line.push_str(&format!(" [{}]", error.nodes.join(", ")));
    }
    match finished.compensation {
        None => {}
        Some(Compensation::Complete) => line.push_str(", undone"),
        Some(Compensation::Incomplete) => line.push_str(", not wholly undone"),
    }
    match &finished.output {
        Some(Stored::Inline(raw)) => line.push_str(&format!(" with {}", raw.get())),
        Some(Stored::Blob { size, .. }) => line.push_str(&format!(" with {size} bytes")),
        None => {}
    }
    line
}

/// A moment, counted from when the run was asked for.
fn at(moment: Millis) -> String {
    format!("+{}ms", moment.0 - BEGIN.0)
}
