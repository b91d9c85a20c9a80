//! The one place where the engine is held against the model of structured runs: the
//! same moves, and the same report of what can be seen afterwards.
//!
//! Everything here speaks of instances by their paths. The engine frees iterations that
//! have succeeded, so what was seen of them when they ended is remembered.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use windlass_core::command::RunCommand;
use windlass_core::definition::Definition;
use windlass_core::event::{Compensation, Hand};
use windlass_core::plan::Plan;
use windlass_core::routing::EdgeState;
use windlass_core::run::{Input, Instance, Outcome, Run};
use windlass_core::value::Payload;
use windlass_core::{NodeStatus, RunStatus};

use crate::model::structured::{Model, Move, Status, Word};
use crate::model::{Life, Names};
use windlass_test_support::harness::{Harness, digest, failure, output, retriable};

/// A run of the engine.
pub(crate) struct Engine {
    pub(crate) harness: Harness,
    /// What was last seen of iterations that have ended: a line for each instance, and
    /// one for each of its edges.
    gone: BTreeMap<String, (String, Vec<String>)>,
}

impl Engine {
    /// A run that has not begun; `None` where the engine cannot run the definition.
    pub(crate) fn new(definition: &str) -> Option<Self> {
        let read: Definition = serde_json::from_str(definition).expect("a definition");
        Plan::build(read).ok()?;
        let mut harness = Harness::new(definition, "null");
        harness.buries = true;
        let gone = BTreeMap::new();
        Some(Self { harness, gone })
    }

    /// Makes a move; says whether it was accepted.
    pub(crate) fn make(&mut self, step: &Move) -> bool {
        let accepted = self.try_move(step);
        for (scope, run) in std::mem::take(&mut self.harness.buried) {
            let prefix = format!("{scope}/");
            for node in run.instances() {
                let path = run.path(node).into_string();
                if path.starts_with(&prefix) {
                    let seen = (self.instance(&run, node), edges(&run, node));
                    self.gone.insert(path, seen);
                }
            }
        }
        accepted
    }

    fn try_move(&mut self, step: &Move) -> bool {
        let input = match step {
            Move::Start => Some(Input::Begin),
            Move::Cancel => Some(Input::command(
                RunCommand::Cancel { compensate: false },
                Hand::default(),
            )),
            Move::TimeOut => {
                self.harness.now = self.harness.now.plus(100_000);
                Some(Input::TimedOut)
            }
            // The model knows one grace, the engine one for each scope.
            Move::GraceEnds => {
                self.harness.now = self.harness.now.plus(20_000);
                Some(Input::GraceEnded)
            }
            Move::Word(path, attempt, word) => {
                let node = self.harness.run.resolve(path);
                node.map(|node| self.harness.ended(node, *attempt, outcome(word)))
            }
            Move::Fire(path) => self.due(path),
            Move::Signal(name, value) => Some(Input::from(
                RunCommand::Signal {
                    name: (&**name).into(),
                }
                .by(Hand::default())
                .with(Payload::new(value.to_string())),
            )),
            Move::Undone(word) => self.undone(word),
        };
        input.is_some_and(|input| self.harness.give(&input).is_ok())
    }

    /// The clock moves to when a waiting instance is due.
    fn due(&mut self, path: &str) -> Option<Input> {
        let run = &self.harness.run;
        let node = run.resolve(path)?;
        let (due, attempt) = (run.due(node)?, run.attempt(node));
        self.harness.now = self.harness.now.max(due);
        Some(Input::Due { node, attempt })
    }

    /// A word on the compensation that is open.
    fn undone(&self, word: &Word) -> Option<Input> {
        let run = &self.harness.run;
        let mut open = run.open_instances().into_iter();
        let node = open.find(|&node| run.undone(node).is_some())?;
        Some(self.harness.ended(node, run.attempt(node), outcome(word)))
    }

    /// Says which instances are with a worker.
    pub(crate) fn set_running(&mut self, running: &Names) {
        let running = running.iter();
        let running = running.filter_map(|path| self.harness.run.resolve(path));
        self.harness.running = running.collect();
    }

    /// The log, folded by nobody who decided it, leads to the same state.
    pub(crate) fn check_replay(&self) {
        let replayed = digest(&self.harness.replayed());
        assert_eq!(replayed, digest(&self.harness.run), "replay differs");
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
        let mut seen = self.gone.clone();
        for node in run.instances() {
            let path = run.path(node).into_string();
            seen.insert(path, (self.instance(run, node), edges(run, node)));
        }
        let mut lines: Vec<&str> = seen.values().map(|(line, _)| &**line).collect();
        lines.sort_unstable();
        let mut edges: Vec<&str> = seen
            .values()
            .flat_map(|(_, edges)| edges)
            .map(|e| &**e)
            .collect();
        edges.sort_unstable();
        text.push_str(&lines.join("\n"));
        text.push('\n');
        text.push_str(&edges.join("\n"));
        text.push_str(&compensation(run));
        text
    }

    fn instance(&self, run: &Run, node: Instance) -> String {
        let status = run.node_status(node);
        let by = run.blocked_by(node).iter().map(|&by| id(run, by));
        let value = run.value(node).map(|value| {
            let loaded = self.harness.values.get(&value.digest);
            parse(loaded.expect("a stored value").text())
        });
        let has_value = matches!(status, NodeStatus::Succeeded | NodeStatus::Failed);
        line(&Line {
            path: run.path(node).into_string(),
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
        format!("{from} -{when:?}-> {} {state}", id(run, target))
    });
    lines.collect()
}

/// The last name of a path.
fn id(run: &Run, node: Instance) -> String {
    let path = run.path(node);
    let name = path.rsplit('/').next();
    name.expect("a path has a name").to_owned()
}

fn compensation(run: &Run) -> String {
    let Some(undo) = run.undo() else {
        return String::new();
    };
    let word = match run.finished().and_then(|finished| finished.compensation) {
        None => "running",
        Some(Compensation::Complete) => "complete",
        Some(Compensation::Incomplete) => "incomplete",
    };
    let ended = undo.steps().filter(|(_, status)| status.is_final());
    let done: Vec<(String, bool)> = ended
        .map(|(node, status)| (run.path(node).into(), status == NodeStatus::Succeeded))
        .collect();
    format!("\ncompensation {word}: {done:?}")
}

/// What the model says can be seen.
pub(crate) fn report(model: &Model) -> String {
    // Until its compensations have ended, a run has not.
    let error = model.error.filter(|_| model.has_ended());
    let mut text = head(life(model.life), model.output.clone(), error);
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
