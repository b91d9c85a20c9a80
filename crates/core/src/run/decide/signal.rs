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
}
