//! The end of a run (semantics §4): its status, its error, its output.

use windlass_expr::Limits;

use super::{Decision, Facts, OUTPUT_LIMIT_BYTES};
use crate::event::{Event, Finished, RunFailure, StopCause};
use crate::plan::NodeIndex;
use crate::run::Run;
use crate::run::environment::Place;
use crate::status::{NodeStatus, RunStatus};
use crate::value::{Payload, ValueRef};

/// A message names this many nodes; `nodes` has them all.
const NAMED_NODES: usize = 5;

impl Run {
    pub(super) fn want_for_end(&self, wants: &mut Vec<ValueRef>) {
        if self.settled_as() != RunStatus::Succeeded {
            return;
        }
        match &self.plan.output {
            Some(template) => self.want(template.references(), wants),
            None => wants.extend(
                self.plan
                    .sinks()
                    .filter(|&node| self.succeeded(node))
                    .filter_map(|node| self.value(node)),
            ),
        }
    }

    pub(super) fn decide_settle(&self, facts: &Facts<'_>) -> Decision {
        let mut decision = Decision::default();
        let mut finished = Finished {
            status: self.settled_as(),
            error: None,
            output: None,
        };
        match finished.status {
            RunStatus::Succeeded => match self.output(facts) {
                Ok(output) => finished.output = Some(decision.store(&output)),
                Err(message) => {
                    finished.status = RunStatus::Failed;
                    finished.error = Some(self.failure("OUTPUT_INVALID", message));
                }
            },
            RunStatus::Failed if self.stop_cause() == Some(StopCause::Timeout) => {
                let time = self.plan.run_timeout_ms().unwrap_or_default();
                let message = format!("the run did not end within {time} ms");
                finished.error = Some(self.failure("RUN_TIMEOUT", message));
            }
            RunStatus::Failed => {
                let message = self.failed_message();
                finished.error = Some(self.failure("NODE_FAILED", message));
            }
            _ => {}
        }
        decision.events.push(Event::Finished(Box::new(finished)));
        decision
    }

    fn settled_as(&self) -> RunStatus {
        match self.stop_cause() {
            Some(StopCause::Cancel) => RunStatus::Cancelled,
            Some(StopCause::Timeout) => RunStatus::Failed,
            _ if self.failed().all(|node| self.is_handled(node)) => RunStatus::Succeeded,
            _ => RunStatus::Failed,
        }
    }

    fn failure(&self, code: &str, message: String) -> RunFailure {
        RunFailure {
            code: code.into(),
            message: message.into(),
            nodes: self.unhandled(),
        }
    }

    fn unhandled(&self) -> Vec<Box<str>> {
        let unhandled = self.failed().filter(|&node| !self.is_handled(node));
        unhandled.map(|node| self.plan.id(node).into()).collect()
    }

    fn failed_message(&self) -> String {
        let nodes = self.unhandled();
        let named = nodes.iter().take(NAMED_NODES).map(|id| format!("'{id}'"));
        let named = named.collect::<Vec<_>>().join(", ");
        match nodes.len() {
            1 => format!("node {named} failed"),
            count if count > NAMED_NODES => format!("{count} nodes failed, among them {named}"),
            _ => format!("nodes {named} failed"),
        }
    }

    fn succeeded(&self, node: NodeIndex) -> bool {
        self.node_status(node) == NodeStatus::Succeeded
    }

    fn output(&self, facts: &Facts<'_>) -> Result<Payload, String> {
        let text = match &self.plan.output {
            Some(template) => {
                let place = Place {
                    now: facts.now,
                    node: None,
                    output: None,
                    error: None,
                };
                let inputs = self.inputs(template.references(), &place, facts.values);
                template
                    .render(&inputs.as_slots(), &Limits::default())
                    .map_err(|error| format!("{}: {}", error.code, error.message))?
            }
            None => self.default_output(facts),
        };
        if text.len() > OUTPUT_LIMIT_BYTES {
            let size = text.len();
            return Err(format!(
                "OUTPUT_LIMIT: the output has {size} bytes; a run's output may have {OUTPUT_LIMIT_BYTES}"
            ));
        }
        Ok(Payload::new(text))
    }

    /// The output of the only sink (null if that did not succeed), or, with several, an
    /// object by id of those that succeeded (§7).
    fn default_output(&self, facts: &Facts<'_>) -> String {
        let text = |node: NodeIndex| {
            let value = self
                .value(node)
                .and_then(|value| facts.values.get(&value.digest));
            value.map_or("null", |value| value.text())
        };
        let mut sinks = self.plan.sinks();
        if let (Some(only), None) = (sinks.next(), sinks.next()) {
            return if self.succeeded(only) {
                text(only).to_owned()
            } else {
                "null".to_owned()
            };
        }
        let mut object = String::from("{");
        for node in self.plan.sinks().filter(|&node| self.succeeded(node)) {
            if object.len() > 1 {
                object.push(',');
            }
            // Ids are letters, digits, '_' and '-': nothing to escape.
            object.push_str(&format!("\"{}\":{}", self.plan.id(node), text(node)));
        }
        object.push('}');
        object
    }
}
