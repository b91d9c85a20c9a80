//! A child run ended: its node ends with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_expr::Template;

use super::{Decision, Facts, Failure, Outcome, Refusal};
use crate::definition::Isolation;
use crate::event::Compensation;
use crate::plan::Structure;
use crate::run::causes::{NODE_FAILED, child_details};
use crate::run::environment::EvaluationSite;
use crate::run::{ChildEnd, Instance, Loaded, Run};
use crate::status::RunStatus;
use crate::value::{Payload, ValueRef};

impl Run {
    pub(super) fn require_for_child(&self, node: Instance, required: &mut Vec<ValueRef>) {
        if self.find_state(node).is_none() || self.undone(node).is_some() {
            return;
        }
        self.require_for_attempt(node, required);
        if let Some(Structure::Subworkflow(child)) = self.structure(node)
            && let Some(output) = &child.output
        {
            self.require(self.key_of(node), None, output.references(), required);
        }
    }

    pub(super) fn decide_child_ended(
        &self,
        node: Instance,
        attempt: u32,
        end: &ChildEnd,
        facts: &Facts<'_>,
    ) -> Result<Decision, Refusal> {
        let known = [self.child(node), self.undone_child(node)];
        if !self.is_open(node, attempt) || !known.contains(&Some(end.child)) {
            return Err(Refusal::NotOpen);
        }
        let mut decision = Decision::default();
        if self.undone(node).is_some() {
            let outcome = match end.compensation {
                Some(Compensation::Incomplete) => {
                    let message = format!("the child {} could not be undone", end.child);
                    Outcome::Failed(Failure::permanent("COMPENSATION_INCOMPLETE", message))
                }
                _ => Outcome::Succeeded(Payload::null()),
            };
            self.conclude(node, outcome, BTreeMap::new(), facts, &mut decision);
            return Ok(decision);
        }
        let outcome = match end.status {
            RunStatus::Succeeded => match self.child_output(node, &end.output, facts) {
                Ok(output) => Outcome::Succeeded(output),
                Err(failure) => Outcome::Failed(failure),
            },
            RunStatus::Cancelled if self.state(node).stopping => Outcome::Stopped,
            // The parent timed out, and timed out the child with it.
            RunStatus::Failed if self.state(node).stopping && end.timed_out() => Outcome::Stopped,
            _ => Outcome::Failed(child_failure(&self.path(node), end)),
        };
        let shares =
            self.isolation(node) == Isolation::Shared && matches!(outcome, Outcome::Succeeded(_));
        let vars = if shares {
            end.vars.clone()
        } else {
            BTreeMap::new()
        };
        self.conclude(node, outcome, vars, facts, &mut decision);
        Ok(decision)
    }

    pub(super) fn decide_child_failed(
        &self,
        node: Instance,
        attempt: u32,
        failure: &Failure,
        facts: &Facts<'_>,
    ) -> Result<Decision, Refusal> {
        let has_child = self.child(node).is_some() || self.undone_child(node).is_some();
        if !self.is_open(node, attempt) || !has_child {
            return Err(Refusal::NotOpen);
        }
        let mut decision = Decision::default();
        self.fail(node, failure.clone(), facts, &mut decision);
        Ok(decision)
    }

    /// The node's output: the child's, or what the template makes of it.
    fn child_output(
        &self,
        node: Instance,
        output: &Payload,
        facts: &Facts<'_>,
    ) -> Result<Payload, Failure> {
        let template: &Template = match self.structure(node) {
            Some(Structure::Subworkflow(child)) => match &child.output {
                Some(template) => template,
                None => return Ok(output.clone()),
            },
            _ => return Ok(output.clone()),
        };
        let value = Loaded::new(Arc::clone(output.text()));
        let place = EvaluationSite {
            output: Some(&value),
            ..EvaluationSite::of(self, node, facts.now)
        };
        self.rendered(template, &place, facts)
            .map(Payload::new)
            .map_err(|error| Failure::permanent(error.code, format!("output: {}", error.message)))
    }
}

/// The child's error code, and who it was.
fn child_failure(node: &str, end: &ChildEnd) -> Failure {
    let (code, message) = match (&end.error, end.status) {
        (Some(error), _) => (&*error.code, error.message.to_string()),
        (None, RunStatus::Cancelled) => ("CHILD_CANCELLED", "the child was cancelled".to_owned()),
        (None, _) => ("CHILD_FAILED", "the child failed".to_owned()),
    };
    // What failed in a child that ran out of time is no cause of the parent's either (semantics §4.6).
    let by_nodes = end.error.as_ref().filter(|it| &*it.code == NODE_FAILED);
    let causes = by_nodes.map(|error| &*error.causes);
    Failure {
        details: child_details(node, end.child, causes.unwrap_or_default()),
        // Another attempt is another run, which may fare better.
        retriable: true,
        ..Failure::permanent(code, message)
    }
}
