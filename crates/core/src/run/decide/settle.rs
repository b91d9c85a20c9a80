//! The end of a run (semantics §4): its status, its error, its output.

use super::{Decision, Facts, Failure};
use crate::event::{Actor, Cause, Event, Finished, IterationResult, RunFailure, StopCause};
use crate::run::causes::NODE_FAILED;
use crate::run::environment::EvaluationSite;
use crate::run::frame::{FrameKey, TOP};
use crate::run::{Instance, Run};
use crate::status::{NodeStatus, RunStatus};
use crate::value::{Payload, ValueRef};

/// The code of a run that ended because its dead letter was purged.
pub const DEAD_LETTERED: &str = "DEAD_LETTERED";

impl Run {
    pub(super) fn require_for_end(&self, required: &mut Vec<ValueRef>) {
        if self.undo.is_some() {
            return;
        }
        match self.settled_as() {
            RunStatus::Succeeded => self.require_for_output(TOP, required),
            RunStatus::Failed if self.abandoned().is_none() => self.require_for_causes(required),
            _ => {}
        }
    }

    /// What the output of a scope needs.
    pub(super) fn require_for_output(&self, key: FrameKey, required: &mut Vec<ValueRef>) {
        let frame = self.frame(key);
        match &frame.shape().output {
            Some(template) => self.require(key, None, template.references(), required),
            None => {
                let sinks = self.sinks(key).filter(|&node| self.succeeded(node));
                required.extend(sinks.filter_map(|node| self.value(node)));
            }
        }
    }

    pub(super) fn decide_settle(&self, facts: &Facts<'_>) -> Decision {
        let mut decision = Decision::default();
        if let Some(undo) = &self.undo {
            let mut finished = undo.ending.clone();
            finished.compensation = Some(undo.outcome());
            decision.events.push(Event::Finished(finished));
            return decision;
        }
        let mut finished = Finished {
            status: self.settled_as(),
            error: None,
            output: None,
            compensation: None,
        };
        match finished.status {
            RunStatus::Succeeded => match self.output(TOP, facts) {
                Ok(output) => finished.output = Some(decision.store(&output)),
                Err(message) => {
                    finished.status = RunStatus::Failed;
                    finished.error = Some(self.failure("OUTPUT_INVALID", message, Vec::new()));
                }
            },
            RunStatus::Failed if self.abandoned().is_some() => {
                finished.error = self.abandoned().map(|reason| self.dead_lettered(reason));
            }
            RunStatus::Failed if self.stop_cause() == Some(StopCause::Timeout) => {
                finished.error = Some(self.out_of_time(facts));
            }
            RunStatus::Failed => {
                let (causes, more) = self.causes(facts);
                let message = failed_message(&causes, more);
                finished.error = Some(self.failure(NODE_FAILED, message, causes));
            }
            _ => {}
        }
        let ending = Box::new(finished);
        decision
            .events
            .push(if self.is_undone_after(ending.status) {
                let actor = Actor::default();
                Event::Compensating { ending, actor }
            } else {
                Event::Finished(ending)
            });
        decision
    }

    /// The output of an iteration in which nothing is left to do.
    pub(super) fn decide_settle_body(&self, key: FrameKey, facts: &Facts<'_>) -> Decision {
        let mut decision = Decision::default();
        let Some(owner) = self.frame(key).owner else {
            return decision;
        };
        let result = match self.output(key, facts) {
            Ok(output) => IterationResult::Succeeded(decision.store(&output)),
            Err(message) => {
                let failure = Failure::permanent("OUTPUT_INVALID", message);
                IterationResult::Failed(decision.store(&failure.payload()))
            }
        };
        decision.events.push(Event::IterationEnded {
            node: self.path(owner.node),
            iteration: owner.iteration,
            result,
        });
        decision
    }

    /// The error of a run whose time is over, or that of the run that started it.
    pub(super) fn out_of_time(&self, facts: &Facts<'_>) -> RunFailure {
        let own = self.timeout_at().filter(|&at| at <= facts.now);
        let message = match own.and(self.run_timeout_ms()) {
            Some(time) => format!("the run did not end within {time} ms"),
            None => "the run that started it did not end in time".to_owned(),
        };
        let (causes, _) = self.causes(facts);
        self.failure("RUN_TIMEOUT", message, causes)
    }

    /// The error of a run whose dead letter was purged.
    pub(super) fn dead_lettered(&self, reason: &str) -> RunFailure {
        let message = format!("the run was a dead letter, which was purged: {reason}");
        self.failure(DEAD_LETTERED, message, Vec::new())
    }

    fn settled_as(&self) -> RunStatus {
        match self.stop_cause() {
            Some(_) if self.abandoned().is_some() => RunStatus::Failed,
            Some(StopCause::Cancel) => RunStatus::Cancelled,
            Some(StopCause::Timeout) => RunStatus::Failed,
            _ if self.failed().all(|node| self.is_handled(node)) => RunStatus::Succeeded,
            _ => RunStatus::Failed,
        }
    }

    fn failure(&self, code: &str, message: String, causes: Vec<Cause>) -> RunFailure {
        RunFailure {
            code: code.into(),
            message: message.into(),
            nodes: self.unhandled(),
            causes,
        }
    }

    fn unhandled(&self) -> Vec<Box<str>> {
        let unhandled = self.failed().filter(|&node| !self.is_handled(node));
        unhandled.map(|node| self.path(node)).collect()
    }

    fn succeeded(&self, node: Instance) -> bool {
        self.node_status(node) == NodeStatus::Succeeded
    }

    fn sinks(&self, key: FrameKey) -> impl Iterator<Item = Instance> + '_ {
        let frame = self.frame(key);
        let sinks = frame.shape().sinks().iter();
        sinks.map(|&node| frame.instance(node))
    }

    fn output(&self, key: FrameKey, facts: &Facts<'_>) -> Result<Payload, String> {
        let text = match &self.frame(key).shape().output {
            Some(template) => {
                let place = EvaluationSite::at(key, facts.now);
                self.rendered(template, &place, facts)
                    .map_err(|error| format!("{}: {}", error.code, error.message))?
            }
            None => self.default_output(key, facts).into(),
        };
        let limit = facts.limits.output_bytes;
        if text.len() > limit {
            let size = text.len();
            return Err(format!(
                "OUTPUT_LIMIT: the output has {size} bytes; an output may have {limit}"
            ));
        }
        Ok(Payload::new(text))
    }

    /// The output of the only sink (null if that did not succeed), or, with several, an
    /// object by id of those that succeeded (semantics §7).
    fn default_output(&self, key: FrameKey, facts: &Facts<'_>) -> String {
        let text = |node: Instance| {
            let value = self
                .value(node)
                .and_then(|value| facts.values.get(&value.digest));
            value.map_or("null", |value| value.text())
        };
        let mut sinks = self.sinks(key);
        if let (Some(only), None) = (sinks.next(), sinks.next()) {
            return if self.succeeded(only) {
                text(only).to_owned()
            } else {
                "null".to_owned()
            };
        }
        let frame = self.frame(key);
        let mut object = String::from("{");
        for node in self.sinks(key).filter(|&node| self.succeeded(node)) {
            if object.len() > 1 {
                object.push(',');
            }
            // Ids are letters, digits, '_' and '-': nothing to escape.
            let id = frame.plan.id(frame.node(node));
            object.push_str(&format!("\"{id}\":{}", text(node)));
        }
        object.push('}');
        object
    }
}

/// A sentence that names the first root cause, and how many others there are.
fn failed_message(causes: &[Cause], more: usize) -> String {
    let Some(first) = causes.first() else {
        return "a node failed".to_owned();
    };
    let message = format!(
        "{} failed: {}: {}",
        first.place(),
        first.code,
        first.message
    );
    match causes.len() - 1 + more {
        0 => message,
        others => format!("{message} (and {others} more)"),
    }
}
