//! The commands of fixtures, and how what they lead to is written.

use std::collections::BTreeSet;

use windlass_core::event::{Event, Finished, Hand};
use windlass_core::plan::NodeIndex;
use windlass_core::routing::EdgeState;
use windlass_core::run::{Change, Input, Iteration, Outcome, Refusal};
use windlass_core::value::Stored;
use windlass_core::{Millis, NodeStatus};

use crate::harness::{BEGIN, Harness, Steps, digest, failure, output, retriable};
use crate::notation;

/// A run that obeys commands and tells what came of them.
pub(crate) struct Script {
    harness: Harness,
}

impl Script {
    /// A run of this graph; a `trigger JSON` line is what it is started with.
    pub(crate) fn new(graph: &[&str]) -> Self {
        let (trigger, graph): (Vec<&str>, Vec<&str>) =
            graph.iter().partition(|line| line.starts_with("trigger "));
        let trigger = trigger
            .first()
            .and_then(|line| line.strip_prefix("trigger "));
        let harness = Harness::new(&notation::definition(&graph), trigger.unwrap_or("null"));
        Self { harness }
    }

    /// Obeys one command; the lines say what it led to.
    pub(crate) fn command(&mut self, command: &str) -> Vec<String> {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let before = digest(&self.harness.run);
        let result = match verb {
            "start" => self.harness.give(&Input::Begin),
            "succeed" | "fail" | "skip" | "stopped" => self.end(verb, rest),
            "still" => self.still(rest),
            "cancel" => self.harness.give(&Input::Cancel {
                hand: hand(rest),
                compensate: false,
            }),
            "pause" => self.harness.give(&Input::Pause(hand(rest))),
            "resume" => self.harness.give(&Input::Resume(hand(rest))),
            "timeout" => self.harness.give(&Input::TimedOut),
            "grace" => self.harness.give(&Input::GraceEnded),
            "recover" => self.harness.give(&Input::Recover),
            "reattempt" => {
                let nodes = rest.split_whitespace().map(|id| self.harness.index(id));
                let input = Input::Reattempt(nodes.collect(), Hand::default());
                self.harness.give(&input)
            }
            _ => return self.look(verb, rest),
        };
        let replayed = digest(&self.harness.replayed());
        assert_eq!(
            replayed,
            digest(&self.harness.run),
            "replay after {command}"
        );
        match result {
            Ok(steps) => self.tell(&steps),
            Err(refusal) => {
                assert_eq!(
                    before,
                    digest(&self.harness.run),
                    "a refusal changed something"
                );
                vec![self.refused(&refusal)]
            }
        }
    }

    /// Commands that change nothing in the run.
    fn look(&mut self, verb: &str, rest: &str) -> Vec<String> {
        match verb {
            "running" => {
                let nodes = rest.split_whitespace().map(|id| self.harness.index(id));
                self.harness.running = nodes.collect();
                Vec::new()
            }
            "advance" => {
                let time = rest.strip_suffix("ms").expect("advance NUMBERms");
                self.harness.now = self.harness.now.plus(time.parse().expect("a number"));
                Vec::new()
            }
            // The jitter as a fraction between 0 and 1.
            "jitter" => {
                let fraction: f64 = rest.parse().expect("a fraction");
                self.harness.seed = (fraction * (1u64 << 53) as f64) as u64 * (1 << 11);
                Vec::new()
            }
            "nodes" => self.nodes(),
            "edges" => self.edges(),
            "vars" => self.vars(),
            "keys" => self.keys(rest),
            "hashes" => self.hashes(),
            _ => panic!("unknown command '{verb} {rest}'"),
        }
    }

    /// `succeed NODE[#ATTEMPT] [JSON]`, `fail NODE[#ATTEMPT] CODE [retriable [MS]]`, `skip NODE`, `stopped NODE`.
    fn end(&mut self, verb: &str, rest: &str) -> Result<Steps, Refusal> {
        let (node, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let outcome = match verb {
            "succeed" => output(if rest.is_empty() { "null" } else { rest }),
            "skip" => Outcome::Skipped,
            "stopped" => Outcome::Stopped,
            _ => {
                let words: Vec<&str> = rest.split_whitespace().collect();
                match words[..] {
                    [code] => failure(code),
                    [code, "retriable"] => retriable(code, None),
                    [code, "retriable", after] => {
                        retriable(code, Some(after.parse().expect("milliseconds")))
                    }
                    _ => panic!("fail NODE CODE [retriable [MS]]: {rest}"),
                }
            }
        };
        match node.split_once('#') {
            Some((node, attempt)) => {
                let attempt = attempt.parse().expect("a number");
                self.harness.end_attempt(node, attempt, outcome)
            }
            None => self.harness.end(node, outcome),
        }
    }

    fn still(&mut self, node: &str) -> Result<Steps, Refusal> {
        let node = self.harness.index(node);
        self.harness.running.insert(node);
        let input = Input::StillRunning {
            node,
            attempt: self.harness.run.attempt(node),
            started: self.harness.now,
            worker: "worker".into(),
        };
        self.harness.give(&input)
    }

    fn tell(&self, steps: &Steps) -> Vec<String> {
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
                let plan = self.harness.run.plan();
                let first = plan.outgoing(self.harness.index(node)).start;
                let target = |edge: &u32| plan.id(plan.edge(first + edge).target);
                let targets: Vec<&str> = taken.iter().map(target).collect();
                format!("{node} asked: takes [{}]", targets.join(", "))
            }
            Event::Stopping(stopping) => {
                let cause = format!("{:?}", stopping.cause);
                format!(
                    "run stopping: {cause}, grace until {}",
                    at(stopping.deadline)
                )
            }
            Event::GraceEnded { .. } => "grace ended".to_owned(),
            Event::Paused(_) => "run Paused".to_owned(),
            Event::Resumed(_) => "run resumed".to_owned(),
            Event::Reattempted { nodes, .. } => format!("reattempted {}", nodes.join(", ")),
            Event::Recovered {} => "recovered".to_owned(),
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
        let id = |node: &NodeIndex| self.harness.id(*node);
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
                    Iteration::Succeeded(_) => "succeeded",
                    Iteration::Failed(_) => "failed",
                    Iteration::Open => "was let go",
                };
                format!("{}[{iteration}] {how}", id(node))
            }
            Change::ChildStarted(node, ..) => format!("{} has a child run", id(node)),
            Change::ChildLetGo(node, _) => format!("{} lets its child go", id(node)),
            Change::ChildUndone(node, ..) => format!("{} undoes its child", id(node)),
        }
    }

    fn refused(&self, refusal: &Refusal) -> String {
        match refusal {
            Refusal::NotFailed(nodes) | Refusal::InTheWay(nodes) => {
                format!("refused: {refusal}: {}", self.names(nodes))
            }
            _ => format!("refused: {refusal}"),
        }
    }

    fn nodes(&self) -> Vec<String> {
        let run = &self.harness.run;
        let mut lines = vec![format!("run {}", run.status())];
        for node in 0..run.plan().len() as NodeIndex {
            let status = run.node_status(node);
            let mut line = format!("{} {status}", self.harness.id(node));
            if status == NodeStatus::Blocked {
                line.push_str(&format!(" by {}", self.names(run.blocked_by(node))));
            }
            if status == NodeStatus::Failed && run.is_handled(node) {
                line.push_str(", handled");
            }
            if run.attempts(node) != 0 {
                line.push_str(&format!(", attempts {}", run.attempts(node)));
            }
            lines.push(line);
        }
        lines
    }

    fn edges(&self) -> Vec<String> {
        let run = &self.harness.run;
        let edges = run.plan().edges().iter().enumerate();
        let lines = edges.map(|(index, edge)| {
            let state = match run.edge_state(index as u32) {
                EdgeState::Unresolved => "unresolved",
                EdgeState::Taken => "taken",
                EdgeState::NotTaken => "not taken",
                EdgeState::Lost => "lost",
            };
            let (from, to) = (self.harness.id(edge.source), self.harness.id(edge.target));
            let when = format!("{:?}", edge.when).to_lowercase();
            format!("{from} -{when}-> {to}: {state}")
        });
        lines.collect()
    }

    fn vars(&self) -> Vec<String> {
        let vars = self.harness.run.vars().iter();
        let lines = vars.map(|(name, value)| {
            format!("{name} = {}", value.text().map_or("(a blob)", |text| text))
        });
        lines.collect()
    }

    /// Idempotency keys without the run's id.
    fn keys(&self, nodes: &str) -> Vec<String> {
        let run = &self.harness.run;
        let prefix = run.id().to_string();
        let keys = nodes.split_whitespace().map(|id| {
            let key = run.idempotency_key(self.harness.index(id));
            key.replace(&prefix, "RUN")
        });
        keys.collect()
    }

    fn hashes(&self) -> Vec<String> {
        let run = &self.harness.run;
        let nodes = 0..run.plan().len() as NodeIndex;
        let lines = nodes.map(|node| {
            let hash = run.ancestry(node).map(|hash| hash.to_string());
            format!(
                "{} {}",
                self.harness.id(node),
                hash.as_deref().unwrap_or("-")
            )
        });
        lines.collect()
    }

    fn names(&self, nodes: &[NodeIndex]) -> String {
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
    match &finished.output {
        Some(Stored::Inline(raw)) => line.push_str(&format!(" with {}", raw.get())),
        Some(Stored::Blob { size, .. }) => line.push_str(&format!(" with {size} bytes")),
        None => {}
    }
    line
}

fn hand(by: &str) -> Hand {
    Hand {
        by: (!by.is_empty()).then(|| by.into()),
        reason: None,
    }
}

/// A moment, counted from when the run was asked for.
fn at(moment: Millis) -> String {
    format!("+{}ms", moment.0 - BEGIN.0)
}
