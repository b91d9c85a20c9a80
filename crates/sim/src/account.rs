//! What one simulated run did, read from its log: how it ended, what ran, which
//! conditions held, what failed, and when.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::definition::When;
use windlass_core::event::{AttemptEnded, AttemptResult, Event};
use windlass_core::plan::{NodeIndex, Plan};
use windlass_core::value::Stored;
use windlass_core::{Millis, RunStatus};
use windlass_orchestrator::codec;
use windlass_store::Record;

use crate::script::without_iterations;

/// How a simulated run ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// By itself.
    Finished {
        /// How.
        status: RunStatus,
        /// Why, if it failed.
        code: Option<Box<str>>,
        /// The nodes whose failure was not handled.
        nodes: Vec<Box<str>>,
        /// The nodes that failed, and whose failure was.
        handled: Vec<Box<str>>,
        /// Whether everything was undone, if something was.
        compensated: Option<bool>,
    },
    /// Nothing will happen any more: it waits for these signals, or for nothing at all.
    Stuck(Vec<Box<str>>),
    /// It took more steps than are simulated.
    TooManySteps,
    /// It had not ended after a year.
    TooLong,
    /// Windlass broke one of its own rules, which ended the simulation.
    RuleBroken,
}

/// An edge that needs something evaluated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition {
    /// Where it leaves: the node's path in the definition.
    pub node: String,
    /// Where it arrives: the node's id.
    pub target: String,
    /// `success`, `failure` or `always`.
    pub when: &'static str,
}

/// How often something was asked, and held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawCount {
    /// How often it was asked.
    pub asked: u64,
    /// How often it was taken.
    pub taken: u64,
}

/// One simulated run.
#[derive(Clone, Debug)]
pub struct Account {
    /// Where everything came from.
    pub seed: u64,
    /// How it ended.
    pub ending: Ending,
    /// How long it took, in virtual time.
    pub duration_ms: u64,
    /// How often the process died meanwhile.
    pub crashes: u64,
    /// The nodes that ran, by their paths in the definition.
    pub ran: BTreeSet<String>,
    /// Edges that needed something evaluated.
    pub conditions: BTreeMap<Condition, DrawCount>,
    /// Failed attempts by node and code, with the message of the first.
    pub failures: BTreeMap<(String, String), (u64, String)>,
    /// What happened, and after how many milliseconds.
    pub story: Vec<(u64, String)>,
    /// The rule of the engine that was broken, which ended the simulation: a defect of Windlass,
    /// not of the definition. The story says so too.
    pub broken: Option<String>,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            seed: 0,
            ending: Ending::Stuck(Vec::new()),
            duration_ms: 0,
            crashes: 0,
            ran: BTreeSet::new(),
            conditions: BTreeMap::new(),
            failures: BTreeMap::new(),
            story: Vec::new(),
            broken: None,
        }
    }
}

impl Account {
    pub(crate) fn empty(seed: u64, why: &str) -> Self {
        Self {
            seed,
            story: vec![(0, why.to_owned())],
            ..Self::default()
        }
    }

    /// Tells of a broken rule.
    pub(crate) fn breaks(&mut self, rule: &str) {
        let words = format!("the simulation ended: Windlass broke one of its own rules, {rule}");
        self.story.push((self.duration_ms, words));
        self.ending = Ending::RuleBroken;
        self.broken = Some(rule.to_owned());
    }

    /// Reads a log.
    pub(crate) fn read(&mut self, records: &[Record], plan: &Plan, began: Millis) {
        let mut succeeded: BTreeMap<Box<str>, bool> = BTreeMap::new();
        let nodes: BTreeMap<String, NodeIndex> = (0..plan.total() as NodeIndex)
            .map(|node| (plan.static_path(node), node))
            .collect();
        for record in records {
            let Ok(transition) = codec::decode(&record.bytes) else {
                continue;
            };
            let after = u64::try_from(transition.at.0 - began.0).unwrap_or(0);
            for event in &transition.events {
                if let Some(words) = words(event) {
                    self.story.push((after, words));
                }
                match event {
                    Event::AttemptEnded(ended) => {
                        let well = matches!(ended.result, AttemptResult::Succeeded(_));
                        succeeded.insert(ended.node.clone(), well);
                        self.ended(ended, "");
                    }
                    Event::CompensationEnded(ended) => self.ended(ended, " (undone)"),
                    Event::Waiting { node, .. } | Event::Expanded { node, .. } => {
                        self.ran.insert(without_iterations(node));
                    }
                    Event::ChildStarted(started) => {
                        self.ran.insert(without_iterations(&started.node));
                    }
                    Event::Routed { node, taken } => {
                        let well = succeeded.get(node).copied();
                        self.routed(plan, &nodes, (node, well), taken);
                    }
                    _ => {}
                }
            }
        }
    }

    fn ended(&mut self, ended: &AttemptEnded, what: &str) {
        let path = without_iterations(&ended.node);
        let error = match &ended.result {
            AttemptResult::Failed(error) | AttemptResult::Retrying { error, .. } => error_of(error),
            _ => None,
        };
        if let Some((code, message)) = error {
            let key = (format!("{path}{what}"), code);
            self.failures.entry(key).or_insert((0, message)).0 += 1;
        }
        self.ran.insert(path);
    }

    fn routed(
        &mut self,
        plan: &Plan,
        nodes: &BTreeMap<String, NodeIndex>,
        (path, well): (&str, Option<bool>),
        taken: &[u32],
    ) {
        let path = without_iterations(path);
        let Some(&node) = nodes.get(&path) else {
            return;
        };
        for (place, edge) in plan.outgoing(node).enumerate() {
            let edge = plan.edge(edge);
            let is_asked = match edge.when {
                When::Success => well == Some(true),
                When::Failure => well == Some(false),
                When::Always => true,
            };
            if !edge.needs_evaluation() || !is_asked {
                continue;
            }
            let condition = condition_of(plan, node, edge.target, edge.when);
            let asked = self.conditions.entry(condition).or_default();
            asked.asked += 1;
            asked.taken += u64::from(taken.contains(&(place as u32)));
        }
    }
}

fn condition_of(plan: &Plan, node: NodeIndex, target: NodeIndex, when: When) -> Condition {
    Condition {
        node: plan.static_path(node),
        target: plan.id(target).to_owned(),
        when: match when {
            When::Success => "success",
            When::Failure => "failure",
            When::Always => "always",
        },
    }
}

/// Every edge of a graph that needs something evaluated.
pub fn conditions(plan: &Plan) -> Vec<Condition> {
    let nodes = 0..plan.total() as NodeIndex;
    let mut found: Vec<Condition> = nodes
        .flat_map(|node| plan.outgoing(node).map(move |edge| (node, edge)))
        .filter(|&(_, edge)| plan.edge(edge).needs_evaluation())
        .map(|(node, edge)| {
            let edge = plan.edge(edge);
            condition_of(plan, node, edge.target, edge.when)
        })
        .collect();
    found.dedup();
    found
}

/// The code and the message of an error.
fn error_of(error: &Stored) -> Option<(String, String)> {
    let Stored::Inline(raw) = error else {
        return Some(("UNKNOWN".to_owned(), String::new()));
    };
    let value: serde_json::Value = serde_json::from_str(raw.get()).ok()?;
    let message = value["message"].as_str().unwrap_or_default();
    Some((value["code"].as_str()?.to_owned(), message.to_owned()))
}

/// Both, as people read them.
fn error_text(error: &Stored) -> String {
    match error_of(error) {
        Some((code, message)) if message.is_empty() => code,
        Some((code, message)) => format!("{code}: {message}"),
        None => String::new(),
    }
}

/// An event in words, where it tells a reader something.
fn words(event: &Event) -> Option<String> {
    let ended = |ended: &AttemptEnded, verb: &str| {
        let (node, attempt) = (&ended.node, ended.attempt);
        let result = match &ended.result {
            AttemptResult::Succeeded(_) => "succeeded".to_owned(),
            AttemptResult::Failed(error) => {
                format!("failed with {}", error_text(error))
            }
            AttemptResult::Retrying { error, .. } => {
                format!("failed with {}; it is tried again", error_text(error))
            }
            AttemptResult::Skipped {} => "had nothing to do".to_owned(),
            AttemptResult::Stopped {} => "stopped".to_owned(),
        };
        match attempt {
            1 => format!("{verb}{node} {result}"),
            _ => format!("{verb}{node} {result} (attempt {attempt})"),
        }
    };
    Some(match event {
        Event::Started {} => "the run began".to_owned(),
        Event::AttemptEnded(attempt) => ended(attempt, ""),
        Event::CompensationEnded(attempt) => ended(attempt, "undoing "),
        Event::Expanded { node, count, .. } => format!("{node} goes over {count} items"),
        Event::Waiting { node, .. } => format!("{node} waits"),
        Event::SignalReceived(signal) => format!("signal '{}' came", signal.name),
        Event::ChildStarted(started) => {
            format!("{} starts a run of '{}'", started.node, started.workflow)
        }
        Event::Stopping(stopping) => format!("the run is stopped: {:?}", stopping.cause),
        Event::Compensating { .. } => "what succeeded is undone".to_owned(),
        Event::Recovered { .. } => "another process took over".to_owned(),
        Event::Checkpointed {} => "a checkpoint was taken".to_owned(),
        Event::Warning { code, message, .. } => format!("warning {code}: {message}"),
        Event::Finished(finished) => match &finished.error {
            Some(error) => format!("the run ended {}: {}", finished.status, error.message),
            None => format!("the run ended {}", finished.status),
        },
        _ => return None,
    })
}
