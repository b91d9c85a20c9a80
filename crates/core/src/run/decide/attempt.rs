//! The end of an attempt: succeeded, failed for good, to be repeated, or skipped.

use serde_json::Value;
use windlass_expr::Limits;

use super::{
    Decision, Facts, Failure, OUTPUT_LIMIT_BYTES, Outcome, RUN_OUTPUTS_LIMIT_BYTES, Refusal, Report,
};
use crate::event::{AttemptEnded, AttemptResult, AttemptStarted, Event};
use crate::id::{Digest, Millis};
use crate::plan::NodeIndex;
use crate::run::environment::Place;
use crate::run::{Run, retry};
use crate::status::NodeStatus;
use crate::value::{MAX_NESTING, Payload, Stored, ValueRef, nesting};

impl Run {
    pub(super) fn want_for_attempt(&self, node: NodeIndex, wants: &mut Vec<ValueRef>) {
        let Some(rare) = self.plan.rare(node) else {
            return;
        };
        self.want(
            rare.set_vars
                .iter()
                .flat_map(|(_, template)| template.references()),
            wants,
        );
    }

    pub(super) fn decide_still_running(
        &self,
        node: NodeIndex,
        attempt: u32,
        started: Millis,
        worker: &str,
    ) -> Result<Decision, Refusal> {
        if !self.is_open(node, attempt) || self.node_status(node) == NodeStatus::Running {
            return Err(Refusal::NotOpen);
        }
        let node = self.plan.id(node).into();
        let event = AttemptStarted {
            node,
            attempt,
            started,
            worker: worker.into(),
        };
        Ok(Decision::of(Event::AttemptStarted(Box::new(event))))
    }

    pub(super) fn decide_ended(
        &self,
        node: NodeIndex,
        attempt: u32,
        report: &Report,
        facts: &Facts<'_>,
    ) -> Result<Decision, Refusal> {
        if !self.is_open(node, attempt) {
            return Err(Refusal::NotOpen);
        }
        // Nobody asked it to stop, as far as the log knows: the worker is going away, and
        // the attempt stays open for whoever comes next.
        if matches!(report.outcome, Outcome::Stopped) && !self.state(node).stopping {
            return Err(Refusal::NotNow("the attempt was not told to stop"));
        }
        let mut decision = Decision::default();
        let mut vars = Vec::new();
        let outcome = match &report.outcome {
            Outcome::Succeeded(output) => match self.check_success(node, output, facts) {
                Ok(set) => {
                    vars = set;
                    report.outcome.clone()
                }
                Err(failure) => Outcome::Failed(failure),
            },
            other => other.clone(),
        };
        let (result, digest) = self.result(node, &outcome, facts, &mut decision);
        let ends = !matches!(
            result,
            AttemptResult::Retrying { .. } | AttemptResult::Stopped {}
        );
        let ancestry = ends.then(|| self.ancestry_of(node, attempt, &digest));
        let parameters = report
            .parameters
            .as_ref()
            .map(|payload| decision.store(payload));
        let vars = vars
            .iter()
            .map(|(name, value)| (name.clone(), decision.store(value)))
            .collect();
        decision
            .events
            .push(Event::AttemptEnded(Box::new(AttemptEnded {
                node: self.plan.id(node).into(),
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
            })));
        Ok(decision)
    }

    fn result(
        &self,
        node: NodeIndex,
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
        node: NodeIndex,
        failure: &Failure,
        facts: &Facts<'_>,
    ) -> Option<Millis> {
        let policy = self.plan.retry(node)?;
        let made = self.attempt(node) - self.state(node).first_attempt + 1;
        if !failure.retriable || !self.may_start(node) || !retry::may_retry(Some(policy), made) {
            return None;
        }
        // The upper 53 bits of the seed make a fraction between 0 and 1.
        let fraction = (facts.seed >> 11) as f64 / (1u64 << 53) as f64;
        let delay = retry::delay_ms(policy, made, failure.retry_after_ms, fraction);
        Some(facts.now.plus(delay))
    }

    /// What can still fail a success: limits, and the variables it sets.
    fn check_success(
        &self,
        node: NodeIndex,
        output: &Payload,
        facts: &Facts<'_>,
    ) -> Result<Vec<(Box<str>, Payload)>, Failure> {
        let size = output.text().len();
        if size > OUTPUT_LIMIT_BYTES {
            let message = format!(
                "the output has {size} bytes; a node's output may have {OUTPUT_LIMIT_BYTES}"
            );
            return Err(Failure::permanent("OUTPUT_LIMIT", message));
        }
        if nesting(output.text()) > MAX_NESTING {
            let message = format!("the output is nested deeper than {MAX_NESTING}");
            return Err(Failure::permanent("NESTING_LIMIT", message));
        }
        if self.output_bytes + size as u64 > RUN_OUTPUTS_LIMIT_BYTES {
            let message = format!(
                "with this output the run's outputs have more than {RUN_OUTPUTS_LIMIT_BYTES} bytes together"
            );
            return Err(Failure::permanent("RUN_OUTPUTS_LIMIT", message));
        }
        self.set_vars(node, output, facts)
    }

    fn set_vars(
        &self,
        node: NodeIndex,
        output: &Payload,
        facts: &Facts<'_>,
    ) -> Result<Vec<(Box<str>, Payload)>, Failure> {
        let Some(rare) = self
            .plan
            .rare(node)
            .filter(|rare| !rare.set_vars.is_empty())
        else {
            return Ok(Vec::new());
        };
        let output: Value = serde_json::from_str(output.text()).unwrap_or_default();
        let place = Place {
            now: facts.now,
            node: Some(node),
            output: Some(&output),
            error: None,
        };
        let mut vars = Vec::new();
        for (name, template) in &rare.set_vars {
            let inputs = self.inputs(template.references(), &place, facts.values);
            let text = template
                .render(&inputs.as_slots(), &Limits::default())
                .map_err(|error| {
                    let message = format!("setVars '{name}': {}", error.message);
                    Failure::permanent(error.code, message)
                })?;
            vars.push((name.clone(), Payload::new(text)));
        }
        Ok(vars)
    }
}
