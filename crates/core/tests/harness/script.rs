//! The commands of fixtures, and how what they lead to is written.

use serde_json::json;
use windlass_core::Digest;
use windlass_core::command::RunCommand;
use windlass_core::event::{After, Event, Hand, RequestKey};
use windlass_core::run::{Input, Instance, Outcome, Refusal};

use crate::harness::{Harness, Steps, digest, failure, output, retriable};
use crate::{hands, notation};

/// A run that obeys commands and tells what came of them.
pub(crate) struct Script {
    pub(crate) harness: Harness,
    /// The key that the present command comes with.
    request: Option<Box<RequestKey>>,
}

impl Script {
    /// A run of this graph; a `trigger JSON` line is what it is started with, `depth N` how
    /// many runs are above it, `queued JSON` has keys of the request as it is stored, and
    /// `reuses NODE RESULT` lines are what it takes from the run that it was forked from.
    pub(crate) fn new(graph: &[&str]) -> Self {
        let (mut trigger, mut keys) = ("null", json!({}));
        let (mut reused, mut lines) = (Vec::new(), Vec::new());
        for line in graph {
            if let Some(json) = line.strip_prefix("trigger ") {
                trigger = json;
            } else if let Some(number) = line.strip_prefix("depth ") {
                let depth: u32 = number.parse().expect("a number");
                keys["depth"] = json!(depth);
            } else if let Some(json) = line.strip_prefix("queued ") {
                keys = serde_json::from_str(json).expect("keys of a request");
            } else if let Some(rest) = line.strip_prefix("reuses ") {
                reused.push(hands::reused(rest));
            } else {
                lines.push(*line);
            }
        }
        let mut harness = Harness::asked(&notation::definition(&lines), trigger, keys);
        if !reused.is_empty() {
            harness.record(vec![Event::Reused(reused)]);
        }
        let request = None;
        Self { harness, request }
    }

    /// Obeys one command; the lines say what it led to. `request KEY COMMAND` gives it an
    /// idempotency key.
    pub(crate) fn command(&mut self, command: &str) -> Vec<String> {
        if let Some(keyed) = command.strip_prefix("request ") {
            let (key, command) = keyed.split_once(' ').expect("request KEY COMMAND");
            self.request = Some(Box::new(RequestKey {
                key: key.into(),
                command: Digest::of(command.as_bytes()),
            }));
            let lines = self.command(command);
            self.request = None;
            return lines;
        }
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let before = digest(&self.harness.run);
        let result = match verb {
            "start" => self.harness.give(&Input::Begin),
            "succeed" | "fail" | "skip" | "stopped" => self.end(verb, rest),
            "still" => self.still(rest),
            "cancel" => self.harness.give(&Input::command(
                RunCommand::Cancel {
                    compensate: rest == "compensate",
                },
                self.hand(rest),
            )),
            "pause" => self
                .harness
                .give(&Input::command(RunCommand::Pause, self.hand(rest))),
            "resume" => self
                .harness
                .give(&Input::command(RunCommand::Resume, self.hand(rest))),
            "timeout" => self.harness.give(&Input::TimedOut),
            "grace" => self.harness.give(&Input::GraceEnded),
            "recover" => {
                let after = match rest {
                    "stop" => After::Stop,
                    "requeue" => After::Requeue,
                    _ => After::Death,
                };
                self.harness.give(&Input::Recover(after))
            }
            "reattempt" => {
                let nodes = rest.split_whitespace().map(|id| self.harness.index(id));
                let input = Input::command(
                    RunCommand::Reattempt {
                        nodes: nodes.collect(),
                    },
                    self.hand(""),
                );
                self.harness.give(&input)
            }
            _ => match self.lay_hand(verb, rest) {
                Some(result) => result,
                None => return self.look(verb, rest),
            },
        };
        let replayed = digest(&self.harness.replayed());
        assert_eq!(
            replayed,
            digest(&self.harness.run),
            "replay after {command}"
        );
        match result {
            Ok(steps) if steps.is_empty() && self.request.is_some() => vec![self.answered_before()],
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

    /// Who gives the present command.
    pub(crate) fn hand(&self, by: &str) -> Hand {
        Hand {
            by: (!by.is_empty()).then(|| by.into()),
            reason: None,
            request: self.request.clone(),
        }
    }

    /// What a request was answered that comes again.
    fn answered_before(&self) -> String {
        let request = self.request.as_deref().expect("a request that has a key");
        let answered = self.harness.run.answer_to(request);
        let answered = answered.expect("the same command").expect("a known key");
        format!("answered before: {}", answered.status())
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
            // What workers say besides how an attempt ended.
            "reporting" => {
                self.harness.reporting = serde_json::from_str(rest).expect("a report's keys");
                Vec::new()
            }
            // The next record ends with a checkpoint.
            "checkpoint" => {
                self.harness.takes_checkpoint = true;
                Vec::new()
            }
            "nodes" => self.nodes(),
            "edges" => self.edges(),
            "vars" => self.vars(),
            "keys" => self.keys(rest),
            "hashes" => self.hashes(),
            "values" => self.values(rest),
            "undo" => self.undoing(),
            "causes" => self.causes(),
            "signals" => self.signals(),
            _ => panic!("unknown command '{verb} {rest}'"),
        }
    }

    /// `succeed NODE[#ATTEMPT] [JSON]`, `fail NODE[#ATTEMPT] CODE [retriable [MS]]`, `skip NODE`, `stopped NODE`.
    fn end(&mut self, verb: &str, rest: &str) -> Result<Steps, Refusal> {
        let (node, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let outcome = outcome(verb, rest);
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
        self.still_has(node)
    }

    /// A worker still has the node's present attempt, or the one that undoes it.
    pub(crate) fn still_has(&mut self, node: Instance) -> Result<Steps, Refusal> {
        self.harness.running.insert(node);
        let input = Input::StillRunning {
            node,
            attempt: self.harness.run.attempt(node),
            started: self.harness.now,
            worker: "worker".into(),
        };
        self.harness.give(&input)
    }
}

/// What a worker says: `succeed [JSON]`, `fail CODE [retriable [MS]]`, `skip`, `stopped`.
pub(crate) fn outcome(verb: &str, rest: &str) -> Outcome {
    match verb {
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
    }
}
