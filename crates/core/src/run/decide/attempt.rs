//! The end of an attempt: succeeded, failed for good, to be repeated, or skipped.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Decision, Facts, Failure, Outcome, Refusal, Report, ValueLimits};
use crate::event::{AttemptEnded, AttemptResult, AttemptStarted, Event};
use crate::id::{Digest, Millis};
use crate::plan::NodeKind;
use crate::run::environment::EvaluationSite;
use crate::run::{Instance, Loaded, Run, retry, var_bytes};
use crate::status::NodeStatus;
use crate::value::{Payload, Stored, ValueRef, nesting};

/// The worker that records name where the engine itself ends a node.
const ENGINE: &str = "engine";

impl Run {
    /// What `setVars` of a node needs.
    pub(super) fn require_for_attempt(&self, node: Instance, required: &mut Vec<ValueRef>) {
        if self.find_state(node).is_none() || self.undone(node).is_some() {
            return;
        }
        let (plan, index) = self.plan_node(node);
        let Some(rare) = plan.rare(index) else {
            return;
        };
        self.require(
            self.key_of(node),
            None,
            rare.set_vars
                .iter()
                .flat_map(|(_, template)| template.references()),
            required,
        );
    }

    pub(super) fn decide_still_running(
        &self,
        node: Instance,
        attempt: u32,
        started: Millis,
        worker: &str,
    ) -> Result<Decision, Refusal> {
        let has_no_worker =
            |node| self.structure(node).is_some() || self.node_status(node) == NodeStatus::Running;
        if !self.is_open(node, attempt) || has_no_worker(node) {
            return Err(Refusal::NotOpen);
        }
        let event = AttemptStarted {
            node: self.path(node),
            attempt,
            started,
            worker: worker.into(),
            undo: self.undone(node).is_some(),
        };
        Ok(Decision::of(Event::AttemptStarted(Box::new(event))))
    }

    pub(super) fn decide_ended(
        &self,
        node: Instance,
        attempt: u32,
        report: &Report,
        facts: &Facts<'_>,
    ) -> Result<Decision, Refusal> {
        // A loop, a wait or a child run has no worker that could report.
        if !self.is_open(node, attempt) || self.structure(node).is_some() {
            return Err(Refusal::NotOpen);
        }
        // As far as the log knows, no request asked the attempt to stop: the worker is shutting
        // down, and the attempt stays open for the next worker.
        if matches!(report.outcome, Outcome::Stopped) && !self.state(node).stopping {
            return Err(Refusal::NotNow("the attempt was not told to stop".into()));
        }
        let mut decision = Decision::default();
        self.end_attempt(node, report, BTreeMap::new(), facts, &mut decision);
        Ok(decision)
    }

    /// Ends a node that no worker has: a loop, a wait, a child run.
    pub(super) fn conclude(
        &self,
        node: Instance,
        outcome: Outcome,
        vars: BTreeMap<Box<str>, Payload>,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) {
        let report = Report {
            started: self.since(node).unwrap_or(facts.now),
            ended: facts.now,
            worker: ENGINE.into(),
            outcome,
            parameters: None,
            meta: None,
            resources: Vec::new(),
            files: Vec::new(),
            lease: None,
            completed: false,
        };
        self.end_attempt(node, &report, vars, facts, decision);
    }

    fn end_attempt(
        &self,
        node: Instance,
        report: &Report,
        mut vars: BTreeMap<Box<str>, Payload>,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) {
        let undoes = self.undone(node).is_some();
        let outcome = match &report.outcome {
            Outcome::Succeeded(output) => {
                let checked = self.check_success(node, output, facts).and_then(|set| {
                    vars.extend(set);
                    self.check_vars(vars.iter(), facts)
                });
                match checked {
                    Ok(()) => report.outcome.clone(),
                    Err(failure) => {
                        vars.clear();
                        Outcome::Failed(failure)
                    }
                }
            }
            other => other.clone(),
        };
        let (result, digest) = self.result(node, &outcome, facts, decision);
        let ends = !matches!(
            result,
            AttemptResult::Retrying { .. } | AttemptResult::Stopped {}
        );
        let is_failure = matches!(outcome, Outcome::Failed(_));
        let said_success = report.completed || matches!(report.outcome, Outcome::Succeeded(_));
        let attempt = self.attempt(node);
        let path = self.path(node);
        let ancestry = || self.ancestry_of((node, &path), attempt, &digest);
        let ancestry = (ends && !undoes).then(ancestry);
        let parameters = report
            .parameters
            .as_ref()
            .map(|payload| decision.store(payload));
        let vars = vars
            .iter()
            .map(|(name, value)| (name.clone(), decision.store(value)))
            .collect();
        let files = match result {
            AttemptResult::Succeeded(_) => report.files.clone(),
            _ => Vec::new(),
        };
        let ended = Box::new(AttemptEnded {
            node: path,
            attempt,
            started: report.started,
            ended: report.ended,
            worker: report.worker.clone(),
            result,
            digest,
            ancestry,
            parameters,
            meta: report.meta.clone(),
            resources: report.resources.clone(),
            vars,
            files,
            lease: report.lease.clone(),
            completed: report.lease.is_some() && is_failure && said_success,
        });
        decision.events.push(if undoes {
            Event::CompensationEnded(ended)
        } else {
            Event::AttemptEnded(ended)
        });
    }

    fn result(
        &self,
        node: Instance,
        outcome: &Outcome,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) -> (AttemptResult, Digest) {
        match outcome {
            Outcome::Succeeded(output) => (
                AttemptResult::Succeeded(decision.store(output)),
                output.digest(),
            ),
            Outcome::Skipped => (AttemptResult::Skipped {}, Digest::of(b"null")),
            Outcome::Stopped => (AttemptResult::Stopped {}, Digest::of(b"null")),
            Outcome::Failed(failure) => {
                let error = failure.payload();
                let stored: Stored = decision.store(&error);
                let result = match self.next_attempt_at(node, failure, facts) {
                    Some(due) => AttemptResult::Retrying { error: stored, due },
                    None => AttemptResult::Failed(stored),
                };
                (result, error.digest())
            }
        }
    }

    /// When the next attempt is due, if there is to be one.
    fn next_attempt_at(
        &self,
        node: Instance,
        failure: &Failure,
        facts: &Facts<'_>,
    ) -> Option<Millis> {
        let (plan, index) = self.plan_node(node);
        let default = self.defaults().and_then(|it| it.retry.as_ref());
        let policy = match self.undone(node) {
            Some(_) => plan.compensate(index)?.retry.as_ref().or(default)?,
            None => {
                let kind = plan.kind(index);
                let takes = matches!(kind, NodeKind::Action | NodeKind::Subworkflow);
                plan.retry(index).or(default.filter(|_| takes))?
            }
        };
        let made = self.attempt(node) - self.state(node).first_attempt + 1;
        if !failure.retriable || !self.may_start(node) || !retry::may_retry(Some(policy), made) {
            return None;
        }
        let longest = facts.limits.retry_after_ms;
        let asked = failure.retry_after_ms.map(|asked| asked.min(longest));
        let delay = match failure.retry_delay_ms {
            Some(delay) => delay.min(policy.max_delay_ms).max(asked.unwrap_or(0)),
            None => retry::delay_ms(policy, made, asked, facts.fraction()),
        };
        Some(facts.now.plus(delay))
    }

    /// Checks what can still fail a success: limits, and the variables it sets.
    pub(super) fn check_success(
        &self,
        node: Instance,
        output: &Payload,
        facts: &Facts<'_>,
    ) -> Result<Vec<(Box<str>, Payload)>, Failure> {
        let size = output.text().len();
        let ValueLimits {
            output_bytes,
            outputs_bytes,
            nesting: deepest,
            ..
        } = *facts.limits;
        if size > output_bytes {
            let message =
                format!("the output has {size} bytes; a node's output may have {output_bytes}");
            return Err(Failure::permanent("OUTPUT_LIMIT", message));
        }
        if nesting(output.text()) > deepest {
            let message = format!("the output is nested deeper than {deepest}");
            return Err(Failure::permanent("NESTING_LIMIT", message));
        }
        if self.output_bytes + size as u64 > outputs_bytes {
            let message = format!(
                "with this output the run's outputs have more than {outputs_bytes} bytes together"
            );
            return Err(Failure::permanent("RUN_OUTPUTS_LIMIT", message));
        }
        self.set_vars(node, output, facts)
    }

    /// Refuses variables that make those of the run larger than they may be together. A run
    /// that was past the limit before may still make them smaller.
    pub(super) fn check_vars<'a>(
        &self,
        set: impl Iterator<Item = (&'a Box<str>, &'a Payload)>,
        facts: &Facts<'_>,
    ) -> Result<(), Failure> {
        let limit = facts.limits.vars_bytes;
        let (mut before, mut after) = (0, 0);
        for (name, value) in set {
            before += self.var_bytes(name);
            after += var_bytes(name, value.text().len() as u64);
        }
        let together = self.vars_bytes - before + after;
        if together > limit && after > before {
            let message = format!(
                "the run's variables would have {together} bytes together; they may have {limit}"
            );
            return Err(Failure::permanent("VARS_LIMIT", message));
        }
        Ok(())
    }

    fn set_vars(
        &self,
        node: Instance,
        output: &Payload,
        facts: &Facts<'_>,
    ) -> Result<Vec<(Box<str>, Payload)>, Failure> {
        let (plan, index) = self.plan_node(node);
        let rare = plan.rare(index).filter(|rare| !rare.set_vars.is_empty());
        let Some(rare) = rare.filter(|_| self.undone(node).is_none()) else {
            return Ok(Vec::new());
        };
        let output = Loaded::new(Arc::clone(output.text()));
        let place = EvaluationSite {
            output: Some(&output),
            ..EvaluationSite::of(self, node, facts.now)
        };
        let mut vars = Vec::new();
        for (name, template) in &rare.set_vars {
            let text = self.rendered(template, &place, facts).map_err(|error| {
                let message = format!("setVars '{name}': {}", error.message);
                Failure::permanent(error.code, message)
            })?;
            vars.push((name.clone(), Payload::new(text)));
        }
        Ok(vars)
    }
}
