//! Beginning what is no call of an action: a loop, a wait, a child run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::Value;
use windlass_expr::{Template, parse_moment};

use super::{Decision, Facts, Failure, Outcome, Refusal};
use crate::event::{ChildStarted, Event};
use crate::id::Millis;
use crate::plan::Structure;
use crate::plan::structure::{Delay, ForEach, Signal, Subworkflow};
use crate::run::child::MAX_DEPTH;
use crate::run::environment::EvaluationSite;
use crate::run::{Instance, Run};
use crate::status::{NodeStatus, RunStatus};
use crate::value::{Payload, ValueRef, scalar};

impl Run {
    pub(super) fn require_for_opening(&self, node: Instance, required: &mut Vec<ValueRef>) {
        if self.find_state(node).is_none() || self.undone(node).is_some() {
            return;
        }
        let Some(structure) = self.structure(node) else {
            return;
        };
        self.require(
            self.key_of(node),
            Some(node),
            structure.references(),
            required,
        );
        self.require_for_attempt(node, required);
        if let Structure::Signal(signal) = structure {
            required.extend(self.kept_signal(&signal.name));
        }
    }

    pub(super) fn decide_open(&self, node: Instance, facts: &Facts<'_>) -> Decision {
        let mut decision = Decision::default();
        let opened = match self.structure(node) {
            Some(Structure::ForEach(each)) => self.expand(node, each, facts, &mut decision),
            Some(Structure::While(_)) => self.go_round(node, facts, &mut decision),
            Some(Structure::RetryUntil(_)) => {
                decision.events.push(self.looped(node, 0, None));
                Ok(())
            }
            Some(Structure::Subworkflow(child)) => {
                self.start_child(node, child, facts, &mut decision)
            }
            Some(Structure::Signal(signal)) => {
                self.await_signal(node, signal, facts, &mut decision);
                Ok(())
            }
            Some(Structure::Delay(delay)) => self.set_timer(node, delay, facts, &mut decision),
            None => Ok(()),
        };
        if let Err(failure) = opened {
            self.fail(node, failure, facts, &mut decision);
        }
        decision
    }

    /// Fails a node that no worker has.
    pub(super) fn fail(
        &self,
        node: Instance,
        failure: Failure,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) {
        let outcome = Outcome::Failed(failure);
        self.conclude(node, outcome, BTreeMap::new(), facts, decision);
    }

    /// Ends a node that no worker has, with an output.
    pub(super) fn succeed(
        &self,
        node: Instance,
        output: Payload,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) {
        let outcome = Outcome::Succeeded(output);
        self.conclude(node, outcome, BTreeMap::new(), facts, decision);
    }

    pub(super) fn looped(&self, node: Instance, iteration: u32, due: Option<Millis>) -> Event {
        Event::Looped {
            node: self.path(node),
            iteration,
            due,
        }
    }

    /// Renders one of a node's own templates.
    fn render(
        &self,
        node: Instance,
        what: &str,
        template: &Template,
        facts: &Facts<'_>,
    ) -> Result<Arc<str>, Failure> {
        let place = EvaluationSite::of(self, node, facts.now);
        let text = self.rendered(template, &place, facts).map_err(|error| {
            Failure::permanent(error.code, format!("{what}: {}", error.message))
        })?;
        let limit = facts.limits.output_bytes;
        if text.len() > limit {
            let size = text.len();
            let message = format!("{what} has {size} bytes; it may have {limit}");
            return Err(Failure::permanent("OUTPUT_LIMIT", message));
        }
        Ok(text)
    }

    fn expand(
        &self,
        node: Instance,
        each: &ForEach,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) -> Result<(), Failure> {
        let text = self.render(node, "items", &each.items, facts)?;
        // Counted, not kept: there may be many.
        let items: Vec<IgnoredAny> = serde_json::from_str(&text).map_err(|_| {
            let message = "'items' did not come to a list".to_owned();
            Failure::permanent("ITEMS_INVALID", message)
        })?;
        let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
        if count == 0 {
            self.succeed(node, Payload::new("[]"), facts, decision);
            return Ok(());
        }
        let items = decision.store(&Payload::new(text));
        decision.events.push(Event::Expanded {
            node: self.path(node),
            attempt: self.attempt(node),
            count,
            items,
        });
        Ok(())
    }

    fn start_child(
        &self,
        node: Instance,
        child: &Subworkflow,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) -> Result<(), Failure> {
        if self.queued.depth >= MAX_DEPTH {
            let message = format!("runs may start runs {MAX_DEPTH} deep; this one is that deep");
            return Err(Failure::permanent("SUBWORKFLOW_DEPTH", message));
        }
        let input = self.render(node, "input", &child.input, facts)?;
        let input = decision.store(&Payload::new(input));
        let started = ChildStarted {
            node: self.path(node),
            attempt: self.attempt(node),
            child: self.child_id(node, facts.now),
            workflow: child.workflow.clone(),
            version: child.version,
            input,
        };
        decision.events.push(Event::ChildStarted(Box::new(started)));
        Ok(())
    }

    fn await_signal(
        &self,
        node: Instance,
        signal: &Signal,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) {
        let kept = self.kept_signal(&signal.name);
        if let Some(value) = kept.and_then(|value| facts.values.get(&value.digest)) {
            let payload = Payload::new(value.text().clone());
            self.succeed(node, payload, facts, decision);
            return;
        }
        let due = signal.timeout_ms.map(|timeout| facts.now.plus(timeout));
        decision.events.push(self.waiting(node, due));
    }

    fn set_timer(
        &self,
        node: Instance,
        delay: &Delay,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) -> Result<(), Failure> {
        let due = match delay {
            Delay::For(milliseconds) => facts.now.plus(*milliseconds),
            Delay::Until(until) => {
                let text = self.render(node, "until", until, facts)?;
                moment(&text)?
            }
        };
        decision.events.push(self.waiting(node, Some(due)));
        Ok(())
    }

    fn waiting(&self, node: Instance, due: Option<Millis>) -> Event {
        Event::Waiting {
            node: self.path(node),
            attempt: self.attempt(node),
            due,
        }
    }

    /// A delay, a wait or a backoff is over, or a child run's time.
    pub(super) fn decide_due(
        &self,
        node: Instance,
        attempt: u32,
        facts: &Facts<'_>,
    ) -> Result<Decision, Refusal> {
        let is_due = self.due.get(&node).is_some_and(|due| *due <= facts.now);
        if !self.is_open(node, attempt) || !is_due {
            return Err(Refusal::NotNow("it is not due".into()));
        }
        if self.status == RunStatus::Paused {
            return Err(Refusal::NotNow(
                "the run is paused; it is due on resume".into(),
            ));
        }
        let mut decision = Decision::default();
        match self.structure(node) {
            Some(Structure::Delay(_)) => {
                self.succeed(node, Payload::null(), facts, &mut decision);
            }
            Some(Structure::Signal(signal)) => {
                let message = format!("the signal '{}' did not come in time", signal.name);
                let failure = Failure {
                    retriable: true,
                    ..Failure::permanent("SIGNAL_TIMEOUT", message)
                };
                self.fail(node, failure, facts, &mut decision);
            }
            Some(Structure::Subworkflow(_)) if self.node_status(node) == NodeStatus::Running => {
                let time = self.own_timeout(node).unwrap_or_default();
                let failure = Failure {
                    retriable: true,
                    ..Failure::permanent(
                        "TIMEOUT",
                        format!("the child did not end within {time} ms"),
                    )
                };
                self.fail(node, failure, facts, &mut decision);
            }
            Some(Structure::Subworkflow(_)) => return Ok(self.decide_open(node, facts)),
            Some(Structure::RetryUntil(_)) => {
                let next = self.loops.get(&node).map_or(0, |cycle| cycle.next);
                decision.events.push(self.looped(node, next, None));
            }
            _ => return Err(Refusal::NotNow("it waits for nothing".into())),
        }
        Ok(decision)
    }
}

/// The moment that `until` evaluated to: ISO 8601 text, or milliseconds since 1970.
fn moment(text: &str) -> Result<Millis, Failure> {
    let parsed = match scalar(text) {
        Some(Value::String(text)) => parse_moment(&text),
        Some(Value::Number(number)) => number.as_i64().or(number.as_f64().map(|n| n as i64)),
        _ => None,
    };
    parsed.map(Millis).ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        let message = format!("'until' came to {shown}, which is no moment");
        Failure::permanent("DELAY_INVALID", message)
    })
}
