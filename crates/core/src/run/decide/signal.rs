//! A signal came: the node that has waited longest takes it; otherwise it is kept.

use super::{Decision, Facts, Refusal};
use crate::event::{Actor, Event, SignalReceived};
use crate::run::Run;
use crate::value::{Payload, ValueRef};

impl Run {
    pub(super) fn require_for_signal(&self, name: &str, required: &mut Vec<ValueRef>) {
        if let Some(node) = self.first_waiter(name) {
            self.require_for_attempt(node, required);
        }
    }

    pub(super) fn decide_signal(
        &self,
        name: &str,
        payload: &Payload,
        actor: &Actor,
        facts: &Facts<'_>,
    ) -> Result<Decision, Refusal> {
        if !self.is_ever_awaited(name) {
            return Err(Refusal::UnknownSignal(name.into()));
        }
        let mut decision = Decision::default();
        let received = SignalReceived {
            name: name.into(),
            payload: decision.store(payload),
            actor: actor.clone(),
        };
        let event = Event::SignalReceived(Box::new(received));
        decision.events.push(event);
        if let Some(node) = self.first_waiter(name) {
            self.succeed(node, payload.clone(), facts, &mut decision);
        }
        Ok(decision)
    }

    /// Whether some node waits for a signal of this name, or still may.
    fn is_ever_awaited(&self, name: &str) -> bool {
        if self.waiters.contains_key(name) {
            return true;
        }
        (0..self.plan.total() as u32).any(|node| {
            let is_top = (node as usize) < self.plan.len();
            self.plan.signal(node) == Some(name)
                && !(is_top && self.node_status(self.top.instance(node)).is_final())
        })
    }
}
