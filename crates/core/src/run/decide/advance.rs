//! What a loop does when an iteration has ended: round again, or its own end.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use windlass_expr::Expression;

use super::{Decision, Facts, Failure, Outcome};
use crate::definition::OnItemFailure;
use crate::id::Millis;
use crate::plan::Structure;
use crate::plan::structure::{ForEach, RetryUntil};
use crate::run::cycle::Iteration;
use crate::run::environment::EvaluationSite;
use crate::run::{Instance, Loop, Run, retry};
use crate::value::{Payload, ValueRef};

impl Run {
    pub(super) fn require_for_advance(&self, node: Instance, required: &mut Vec<ValueRef>) {
        let Some(cycle) = self.loops.get(&node) else {
            return;
        };
        self.require_for_attempt(node, required);
        let value = |result: &Iteration| match result {
            Iteration::Succeeded(value) | Iteration::Failed(value) => *value,
            Iteration::Open => None,
        };
        match self.structure(node) {
            Some(Structure::ForEach(each)) => match lowest_failure(each, cycle) {
                Some(index) => required.extend(value(&cycle.results[index as usize])),
                None => required.extend(cycle.results.iter().filter_map(value)),
            },
            Some(structure) => {
                required.extend(cycle.last.as_ref().and_then(value));
                self.require(
                    self.key_of(node),
                    Some(node),
                    structure.references(),
                    required,
                );
            }
            None => {}
        }
    }

    pub(super) fn decide_advance(&self, node: Instance, facts: &Facts<'_>) -> Decision {
        let mut decision = Decision::default();
        let Some(cycle) = self.loops.get(&node) else {
            return decision;
        };
        let advanced = match self.structure(node) {
            Some(Structure::ForEach(each)) => gather_items(each, cycle, facts),
            Some(Structure::While(_)) => match cycle.last {
                Some(Iteration::Failed(error)) => {
                    let iteration = cycle.next.saturating_sub(1);
                    let message = format!("iteration {iteration} failed");
                    let details = details("iteration", iteration, error, facts);
                    Err(failure("ITERATION_FAILED", message, details))
                }
                _ => self.go_round(node, facts, &mut decision).map(|()| None),
            },
            Some(Structure::RetryUntil(retry)) => {
                self.try_again(node, retry, cycle, facts, &mut decision)
            }
            _ => Ok(None),
        };
        match advanced {
            Ok(Some(output)) => self.succeed(node, output, facts, &mut decision),
            Ok(None) => {}
            Err(failure) => self.fail(node, failure, facts, &mut decision),
        }
        decision
    }

    /// `while`: another iteration, or the end.
    pub(super) fn go_round(
        &self,
        node: Instance,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) -> Result<(), Failure> {
        let Some(Structure::While(repeat)) = self.structure(node) else {
            return Ok(());
        };
        let cycle = self.loops.get(&node);
        let done = cycle.map_or(0, |cycle| cycle.next);
        if !self.loop_holds(node, "condition", &repeat.condition, facts, decision) {
            let last = cycle.and_then(Loop::last_output);
            let output = format!("{{\"iterations\":{done},\"last\":{}}}", text(last, facts));
            self.succeed(node, Payload::new(output), facts, decision);
            return Ok(());
        }
        if done >= repeat.max_iterations {
            let message = format!("the condition still holds after {done} iterations");
            return Err(Failure::permanent("LOOP_LIMIT", message));
        }
        self.loop_again(node, done, None, facts, decision);
        Ok(())
    }

    /// `retryUntil`: the end if it succeeded, another iteration if one is left.
    fn try_again(
        &self,
        node: Instance,
        repeat: &RetryUntil,
        cycle: &Loop,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) -> Result<Option<Payload>, Failure> {
        let error = match cycle.last {
            Some(Iteration::Succeeded(value)) => {
                let until = repeat.until.as_ref();
                let holds = until
                    .is_none_or(|until| self.loop_holds(node, "until", until, facts, decision));
                if holds {
                    return Ok(Some(Payload::new(text(value, facts))));
                }
                None
            }
            Some(Iteration::Failed(error)) => error,
            Some(Iteration::Open) | None => None,
        };
        let made = cycle.next;
        if made >= repeat.max_attempts {
            let message = format!("it did not succeed in {made} attempts");
            let details = details("attempts", made, error, facts);
            return Err(failure("RETRY_EXHAUSTED", message, details));
        }
        let backoff = repeat.backoff.as_ref();
        let delay = backoff.map_or(0, |policy| {
            retry::delay_ms(policy, made, None, facts.fraction())
        });
        let due = (delay > 0).then(|| facts.now.plus(delay));
        self.loop_again(node, made, due, facts, decision);
        Ok(None)
    }

    /// Starts the next round, unless the loop was asked to stop.
    fn loop_again(
        &self,
        node: Instance,
        iteration: u32,
        due: Option<Millis>,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) {
        if self.may_hand_out(node) {
            decision.events.push(self.looped(node, iteration, due));
        } else {
            let vars = BTreeMap::new();
            self.conclude(node, Outcome::Stopped, vars, facts, decision);
        }
    }

    /// Whether a loop's own condition holds; a condition that errs counts as false, with a
    /// warning.
    fn loop_holds(
        &self,
        node: Instance,
        what: &str,
        condition: &Expression,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) -> bool {
        let place = EvaluationSite {
            cycle: Some(node),
            ..EvaluationSite::of(self, node, facts.now)
        };
        match self.truth(condition, &place, facts) {
            Ok(holds) => holds,
            Err(error) => {
                let message = format!("'{what}' erred and counts as false: {}", error.message);
                decision.warn(Some(&self.path(node)), error.code, message);
                false
            }
        }
    }
}

/// The outputs in item order, or the lowest failure.
fn gather_items(
    each: &ForEach,
    cycle: &Loop,
    facts: &Facts<'_>,
) -> Result<Option<Payload>, Failure> {
    if let Some(index) = lowest_failure(each, cycle) {
        let error = match cycle.results[index as usize] {
            Iteration::Failed(error) => error,
            _ => None,
        };
        let message = format!("item {index} failed");
        let details = details("index", index, error, facts);
        return Err(failure("ITEM_FAILED", message, details));
    }
    let mut list = String::from("[");
    for (index, result) in cycle.results.iter().enumerate() {
        if index > 0 {
            list.push(',');
        }
        match result {
            Iteration::Succeeded(value) => list.push_str(text(*value, facts)),
            Iteration::Failed(error) => {
                list.push_str("{\"error\":");
                list.push_str(text(*error, facts));
                list.push('}');
            }
            Iteration::Open => list.push_str("null"),
        }
    }
    list.push(']');
    Ok(Some(Payload::new(list)))
}

/// The lowest item that failed, where one failure fails the loop.
fn lowest_failure(each: &ForEach, cycle: &Loop) -> Option<u32> {
    let fails = each.on_item_failure == OnItemFailure::Fail;
    cycle.failed.first().copied().filter(|_| fails)
}

/// The text of a value that `wants` named.
fn text<'a>(value: Option<ValueRef>, facts: &Facts<'a>) -> &'a str {
    let loaded = value.and_then(|value| facts.values.get(&value.digest));
    loaded.map_or("null", |value| value.text())
}

fn details(
    key: &str,
    number: u32,
    error: Option<ValueRef>,
    facts: &Facts<'_>,
) -> Option<Box<RawValue>> {
    let json = format!("{{\"{key}\":{number},\"error\":{}}}", text(error, facts));
    RawValue::from_string(json).ok()
}

fn failure(code: &str, message: String, details: Option<Box<RawValue>>) -> Failure {
    Failure {
        details,
        ..Failure::permanent(code, message)
    }
}
