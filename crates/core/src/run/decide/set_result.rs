//! A node's result given by hand: the reattempt rule holds.

use super::{Decision, Facts, Refusal};
use crate::event::{Actor, Event, SetByHand, StopCause};
use crate::run::{Instance, Run};
use crate::status::{NodeStatus, RunStatus};
use crate::value::Payload;

impl Run {
    pub(super) fn decide_set_result(
        &self,
        node: Instance,
        output: Option<&Payload>,
        actor: &Actor,
        facts: &Facts<'_>,
    ) -> Result<Decision, Refusal> {
        if self.undo.is_some() {
            return Err(Refusal::Compensated);
        }
        let Some(state) = self.find_state(node).filter(|_| !self.is_leaving(node)) else {
            return Err(Refusal::NotNow(
                "the run has no such node instance now".into(),
            ));
        };
        if self.status() == RunStatus::Pending {
            return Err(Refusal::NotNow("the run has not begun".into()));
        }
        let attempt = match state.status {
            NodeStatus::Failed | NodeStatus::Cancelled => self.reopened_attempt(node, facts)?,
            _ if state.is_open() => {
                let cause = self.stop_cause();
                if matches!(cause, Some(StopCause::Cancel | StopCause::Timeout)) {
                    return Err(Refusal::NotNow("the run is being stopped".into()));
                }
                state.attempt
            }
            _ => return Err(Refusal::NotFailed(vec![node])),
        };
        let payload = output.cloned().unwrap_or_else(Payload::null);
        let vars = self.check_success(node, &payload, facts).and_then(|vars| {
            self.check_vars(vars.iter().map(|(name, value)| (name, value)), facts)?;
            Ok(vars)
        });
        let vars = match vars {
            Ok(vars) => vars,
            Err(failure) => return Err(Refusal::Incompatible(failure.message)),
        };
        let mut decision = Decision::default();
        let path = self.path(node);
        let set = SetByHand {
            ancestry: self.ancestry_of((node, &path), attempt, &payload.digest()),
            node: path,
            attempt,
            output: decision.store(&payload),
            skipped: output.is_none(),
            vars: vars
                .iter()
                .map(|(name, value)| (name.clone(), decision.store(value)))
                .collect(),
            actor: actor.clone(),
        };
        decision.events.push(Event::SetByHand(Box::new(set)));
        Ok(decision)
    }

    /// The number of the attempt that a node would have if it were tried again now.
    fn reopened_attempt(&self, node: Instance, facts: &Facts<'_>) -> Result<u32, Refusal> {
        self.check_no_stop(&[node])?;
        self.check_the_way(&[node])?;
        let mut after = self.clone();
        after.reopen(&[node], facts.now, &mut Vec::new());
        let state = after.state(node);
        if state.is_open() {
            return Ok(state.attempt);
        }
        // Cancelled nodes before it begin again with it, so it would wait for them.
        let frame = after.frame_of(node);
        let sources = frame.plan.incoming(frame.node(node)).iter();
        let sources = sources.map(|&edge| frame.instance(frame.plan.edge(edge).source));
        let waits = |source: &Instance| !frame.state(*source).status.is_final();
        Err(Refusal::InTheWay(sources.filter(waits).collect()))
    }
}
