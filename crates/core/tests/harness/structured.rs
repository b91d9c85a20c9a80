//! The one place where the engine is held against the model of structured runs: the
//! same moves, and the same report of what can be seen afterwards.
//!
//! Everything here speaks of instances by their paths. The engine of today knows only
//! top-level instances, so a path is an id; `Engine::new` declines what it cannot plan.

use std::fmt::Write as _;

use serde_json::Value;
use windlass_core::definition::Definition;
use windlass_core::event::Hand;
use windlass_core::plan::{NodeIndex, Plan};
use windlass_core::routing::EdgeState;
use windlass_core::run::{Input, Outcome};
use windlass_core::{NodeStatus, RunStatus};

use crate::harness::{Harness, failure, output, retriable};
use crate::model::structured::{Model, Move, Status, Word};
use crate::model::{Life, Names};

/// A run of the engine.
pub(crate) struct Engine {
    harness: Harness,
}

impl Engine {
    /// A run that has not begun; `None` where the engine cannot run the definition.
    pub(crate) fn new(definition: &str) -> Option<Self> {
        let read: Definition = serde_json::from_str(definition).expect("a definition");
        Plan::build(read).ok()?;
        let harness = Harness::new(definition, "null");
        Some(Self { harness })
    }

    /// Makes a move; says whether it was accepted.
    pub(crate) fn make(&mut self, step: &Move) -> bool {
        let input = match step {
            Move::Start => Input::Begin,
            Move::Cancel => Input::Cancel {
                hand: Hand::default(),
                compensate: false,
            },
            Move::TimeOut => {
                self.harness.now = self.harness.now.plus(100_000);
                Input::TimedOut
            }
            Move::GraceEnds => Input::GraceEnded,
            Move::Word(path, attempt, word) => {
                let ended = self.harness.end_attempt(path, *attempt, outcome(word));
                return ended.is_ok();
            }
            Move::Fire(_) | Move::Signal(..) | Move::Undone(_) => return false,
        };
        self.harness.give(&input).is_ok()
    }

    /// Says which instances are with a worker.
    pub(crate) fn set_running(&mut self, running: &Names) {
        let running = running.iter().map(|path| self.harness.index(path));
        self.harness.running = running.collect();
    }

    /// What can be seen of the run.
    pub(crate) fn report(&self) -> String {
        let run = &self.harness.run;
        let finished = run.finished();
        let output = finished.and_then(|finished| finished.output.as_ref());
        let output = output.map(|output| match output {
            windlass_core::value::Stored::Inline(raw) => parse(raw.get()),
            stored => panic!("small outputs stand in the record: {stored:?}"),
        });
        let error = finished.and_then(|finished| finished.error.as_ref());
        let mut text = head(run.status(), output, error.map(|error| &*error.code));
        let mut lines: Vec<String> = (0..run.plan().len() as NodeIndex)
            .map(|node| self.instance(node))
            .collect();
        lines.sort();
        text.push_str(&lines.join("\n"));
        text.push('\n');
        text.push_str(&self.edges().join("\n"));
        text
    }

    fn instance(&self, node: NodeIndex) -> String {
        let run = &self.harness.run;
        let status = run.node_status(node);
        let by = run.blocked_by(node).iter().map(|&by| self.harness.id(by));
        let value = run.value(node).map(|value| {
            let loaded = self.harness.values.get(&value.digest);
            parse(loaded.expect("a stored value").text())
        });
        let has_value = matches!(status, NodeStatus::Succeeded | NodeStatus::Failed);
        line(&Line {
            path: self.harness.id(node),
            status: match status {
                NodeStatus::Queued | NodeStatus::Running => "Open",
                status => status.as_str(),
            },
            attempt: run.attempt(node),
            blocked_by: by.collect(),
            handled: status == NodeStatus::Failed && run.is_handled(node),
            value: value.filter(|_| has_value),
        })
    }

    fn edges(&self) -> Vec<String> {
        let run = &self.harness.run;
        let edges = run.plan().edges().iter().enumerate();
        let lines = edges.map(|(index, edge)| {
            let state = match run.edge_state(index as u32) {
                EdgeState::Unresolved => "open",
                EdgeState::Taken => "taken",
                EdgeState::NotTaken => "not taken",
                EdgeState::Lost => "lost",
            };
            let (from, to) = (self.harness.id(edge.source), self.harness.id(edge.target));
            format!("{from} -{:?}-> {to} {state}", edge.when)
        });
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        lines
    }
}

/// What the model says can be seen.
pub(crate) fn report(model: &Model) -> String {
    let mut text = head(life(model.life), model.output.clone(), model.error);
    let lines = model.seen().into_iter().map(|(path, seen)| {
        let has_value = matches!(seen.status, Status::Succeeded | Status::Failed);
        line(&Line {
            path,
            status: &format!("{:?}", seen.status),
            attempt: seen.attempt,
            blocked_by: seen.blocked_by,
            handled: seen.handled,
            value: seen.value.filter(|_| has_value),
        })
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    text.push_str(&lines.join("\n"));
    text.push('\n');
    text.push_str(&model.edges().join("\n"));
    if let Some(word) = model.compensation() {
        let _ = write!(text, "\ncompensation {word}: {:?}", model.undoing.done);
    }
    text
}

struct Line<'a> {
    path: String,
    status: &'a str,
    attempt: u32,
    blocked_by: Names,
    handled: bool,
    value: Option<Value>,
}

fn head(status: RunStatus, output: Option<Value>, error: Option<&str>) -> String {
    let output = output.map(|output| worded(&output));
    format!("run {status} output {output:?} error {error:?}\n")
}

fn line(line: &Line<'_>) -> String {
    let Line {
        path,
        status,
        attempt,
        blocked_by,
        handled,
        ..
    } = line;
    let value = line.value.as_ref().map(worded);
    format!("{path} {status} {attempt} by {blocked_by:?} handled {handled} value {value:?}")
}

/// A value as text, without the messages of errors: those are the engine's to word.
fn worded(value: &Value) -> String {
    fn strip(value: &Value) -> Value {
        match value {
            Value::Object(object) => {
                let kept = object.iter().filter(|(key, _)| *key != "message");
                let mut kept: Vec<_> = kept.map(|(key, part)| (key.clone(), strip(part))).collect();
                kept.sort_by(|(left, _), (right, _)| left.cmp(right));
                Value::Object(kept.into_iter().collect())
            }
            Value::Array(list) => list.iter().map(strip).collect(),
            plain => plain.clone(),
        }
    }
    strip(value).to_string()
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("stored values are JSON")
}

fn outcome(word: &Word) -> Outcome {
    match word {
        Word::Success(value) => output(&value.to_string()),
        Word::Failure => failure("BOOM"),
        Word::Retriable => retriable("BUSY", None),
        Word::Skip => Outcome::Skipped,
        Word::Stopped => Outcome::Stopped,
    }
}

fn life(life: Life) -> RunStatus {
    match life {
        Life::Pending => RunStatus::Pending,
        Life::Running => RunStatus::Running,
        Life::Paused => RunStatus::Paused,
        Life::Succeeded => RunStatus::Succeeded,
        Life::Failed => RunStatus::Failed,
        Life::Cancelled => RunStatus::Cancelled,
    }
}
