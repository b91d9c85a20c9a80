//! Commands of fixtures that lay a hand on the run, or come from outside it.

use std::collections::BTreeMap;

use windlass_core::command::{NewGraph, RunCommand};
use windlass_core::event::{Compensation, ReusedNode, RunFailure};
use windlass_core::run::{ChildEnd, Failure, Input, Instance, Refusal};
use windlass_core::value::Payload;
use windlass_core::{Digest, RunStatus};

use crate::harness::Steps;
use crate::notation;
use crate::script::{Script, outcome};

impl Script {
    /// `due NODE`, `signal NAME JSON`, `set NODE JSON|skipped`, `child NODE HOW`,
    /// `undone NODE HOW`, `undo-again NODES`, `undo-not NODES`, `compensate`,
    /// `heal VERSION LINES`, `import LINES`.
    pub(crate) fn lay_hand(&mut self, verb: &str, rest: &str) -> Option<Result<Steps, Refusal>> {
        let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
        let hand = self.hand("");
        let input = match verb {
            "due" => {
                let node = self.harness.index(first);
                let attempt = self.harness.run.attempt(node);
                // `due NODE early`: nobody waits for its time.
                if let Some(due) = self.harness.run.due(node).filter(|_| more != "early") {
                    self.harness.now = self.harness.now.max(due);
                }
                Input::Due { node, attempt }
            }
            "signal" => Input::from(
                RunCommand::Signal { name: first.into() }
                    .by(hand)
                    .with(Payload::new(if more.is_empty() { "null" } else { more })),
            ),
            "set" => {
                let node = self.harness.index(first);
                match more {
                    "skipped" => Input::command(RunCommand::Skip { node }, hand),
                    _ => {
                        let command = RunCommand::SetResult { node }.by(hand);
                        Input::from(command.with(Payload::new(more)))
                    }
                }
            }
            "child" => self.child(first, more),
            "undone" => {
                let node = self.undoes(first).expect("it is undone");
                let (verb, rest) = more.split_once(' ').unwrap_or((more, ""));
                if verb == "still" {
                    return Some(self.still_has(node));
                }
                let attempt = self.harness.run.attempt(node);
                self.harness.ended(node, attempt, outcome(verb, rest))
            }
            "compensate" => Input::command(RunCommand::Compensate, hand),
            "undo-again" => Input::command(
                RunCommand::RetryCompensation {
                    nodes: self.nodes_of(rest),
                },
                hand,
            ),
            "undo-not" => Input::command(
                RunCommand::SkipCompensation {
                    nodes: self.nodes_of(rest),
                },
                hand,
            ),
            "heal" => {
                let (definition, plan) = self.bring(more);
                Input::Heal {
                    version: first.parse().expect("a version"),
                    definition,
                    plan,
                }
            }
            "import" => {
                let (definition, plan) = self.bring(rest);
                let text = Payload::null();
                let graph = NewGraph {
                    definition,
                    plan,
                    text,
                };
                Input::from(RunCommand::Import.by(hand).with(graph))
            }
            _ => return None,
        };
        Some(self.harness.give(&input))
    }

    /// The instance that undoes what has this path; the open one, where one is.
    fn undoes(&self, path: &str) -> Option<Instance> {
        let run = &self.harness.run;
        let steps = run.undo().into_iter().flat_map(|undo| undo.steps());
        let steps = steps.filter_map(|(target, _)| run.undoing_of(target));
        let mut undoing: Vec<Instance> = steps.filter(|&node| *run.path(node) == *path).collect();
        let open = run.open_instances();
        undoing.sort_by_key(|node| !open.contains(node));
        undoing.first().copied()
    }

    fn nodes_of(&self, paths: &str) -> Vec<Instance> {
        let paths = paths.split_whitespace();
        paths
            .map(|path| {
                let run = &self.harness.run;
                let undone = run.resolve(path).or_else(|| run.resolve_undone(path));
                undone.expect("the run has, or had, the node")
            })
            .collect()
    }

    /// A graph in one line: the lines of the notation, with ` ; ` between them.
    fn bring(&mut self, lines: &str) -> (Digest, std::sync::Arc<windlass_core::plan::Plan>) {
        let lines: Vec<&str> = lines.split(" ; ").collect();
        self.harness.bring(&notation::definition(&lines))
    }

    /// `succeeded JSON [vars JSON]`, `failed CODE [causes JSON]`, `cancelled`, `undone`,
    /// `not undone`, or `gone CODE` where it could not be started.
    fn child(&self, path: &str, how: &str) -> Input {
        let run = &self.harness.run;
        let node = self
            .undoes(path)
            .unwrap_or_else(|| self.harness.index(path));
        let attempt = run.attempt(node);
        let (word, rest) = how.split_once(' ').unwrap_or((how, ""));
        if word == "gone" {
            let failure = Box::new(Failure::permanent(rest, "it could not be started"));
            return Input::ChildFailed {
                node,
                attempt,
                failure,
            };
        }
        let (output, vars) = rest.split_once(" vars ").unwrap_or((rest, "{}"));
        let (code, causes) = rest.split_once(" causes ").unwrap_or((rest, "[]"));
        let vars: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(vars).expect("variables");
        let vars = vars.into_iter();
        let child = run.child(node).or_else(|| run.undone_child(node));
        let end = ChildEnd {
            child: child.expect("it has a child"),
            status: match word {
                "succeeded" | "undone" | "not" => RunStatus::Succeeded,
                "cancelled" => RunStatus::Cancelled,
                _ => RunStatus::Failed,
            },
            output: Payload::new(if word == "succeeded" { output } else { "null" }),
            error: (word == "failed").then(|| RunFailure {
                code: code.into(),
                message: "it failed".into(),
                nodes: Vec::new(),
                causes: serde_json::from_str(causes).expect("causes"),
            }),
            vars: vars
                .map(|(name, value)| (name.into(), Payload::new(value.to_string())))
                .collect(),
            compensation: match word {
                "undone" => Some(Compensation::Complete),
                "not" => Some(Compensation::Incomplete),
                _ => None,
            },
        };
        let end = Box::new(end);
        Input::ChildEnded { node, attempt, end }
    }
}

/// `NODE JSON|skipped [takes ORDINALS]`: what the run that this one is forked from had.
pub(crate) fn reused(line: &str) -> ReusedNode {
    let (node, rest) = line.split_once(' ').expect("NODE RESULT");
    let (result, taken) = match rest.split_once(" takes ") {
        Some((result, taken)) => (result, Some(taken)),
        None => (rest, None),
    };
    let ordinals = |taken: &str| {
        let words = taken.split_whitespace();
        words.map(|word| word.parse().expect("a number")).collect()
    };
    ReusedNode {
        node: node.into(),
        attempt: 1,
        output: (result != "skipped").then(|| Payload::new(result).stored()),
        ancestry: Some(Digest::of(node.as_bytes())),
        taken: taken.map(ordinals),
    }
}
