//! A node's result given by hand: the reattempt rule holds.

use super::{Decision, Facts, Refusal};
use crate::event::{Event, Hand, SetByHand, StopCause};
use crate::run::{Instance, Run};
use crate::status::NodeStatus;
use crate::value::Payload;

impl Run {
    pub(super) fn decide_set_result(
        &self,
        node: Instance,
        output: Option<&Payload>,
        hand: &Hand,
        facts: &Facts<'_>,
    ) -> Result<Decision, Refusal> {
        if self.undo.is_some() {
            return Err(Refusal::Compensated);
        }
        let Some(attempt) = self.attempt_by_hand(node) else {
            return Err(Refusal::NotFailed(vec![node]));
        };
        let is_stopping = matches!(
            self.stop_cause(),
            Some(StopCause::Cancel | StopCause::Timeout)
        );
        if is_stopping && !self.status().is_final() {
            return Err(Refusal::NotNow("the run is being stopped"));
        }
        if self.status() == crate::RunStatus::Pending {
            return Err(Refusal::NotNow("the run has not begun"));
        }
        if matches!(
            self.node_status(node),
            NodeStatus::Failed | NodeStatus::Cancelled
        ) {
            self.check_the_way(&[node])?;
            let mut after = self.clone();
            after.reopen(&[node], facts.now, &mut Vec::new());
            if !after.is_open(node, attempt) {
                return Err(Refusal::NotNow("what is before the node has not ended"));
            }
        }
        let payload = output.cloned().unwrap_or_else(Payload::null);
        let vars = match self.check_success(node, &payload, facts) {
            Ok(vars) => vars,
            Err(failure) => return Err(Refusal::Incompatible(failure.message)),
        };
        let mut decision = Decision::default();
        let set = SetByHand {
            node: self.path(node),
            attempt,
            output: decision.store(&payload),
            skipped: output.is_none(),
            ancestry: self.ancestry_of(node, attempt, &payload.digest()),
            vars: vars
                .iter()
                .map(|(name, value)| (name.clone(), decision.store(value)))
                .collect(),
            hand: hand.clone(),
        };
        decision.events.push(Event::SetByHand(Box::new(set)));
        Ok(decision)
    }
}
