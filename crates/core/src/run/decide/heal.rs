//! Whether a run follows a new graph (semantics §9), and what people should know of it.

use std::sync::Arc;

use super::{Decision, Refusal};
use crate::definition::InFlight;
use crate::event::{Actor, Event};
use crate::id::Digest;
use crate::plan::Plan;
use crate::run::Run;
use crate::status::{NodeStatus, RunStatus};

impl Run {
    /// Whether the run follows newer versions, as its starting definition says.
    pub fn heals(&self) -> bool {
        !self.frozen && self.heals && !self.status.is_final()
    }

    /// Whether the run follows newer versions while it is open; one that has ended may be
    /// opened again.
    pub fn would_heal_if_open(&self) -> bool {
        !self.frozen && self.heals && self.undo.is_none()
    }

    /// Whether the run would follow a newer version now: one that stops, or is undone,
    /// ends on the graph it has.
    pub fn can_heal(&self) -> bool {
        self.heals() && self.undo.is_none() && self.stop_cause().is_none()
    }

    pub(super) fn decide_heal(
        &self,
        version: u32,
        definition: Digest,
        plan: &Arc<Plan>,
    ) -> Result<Decision, Refusal> {
        if !self.heals() || self.undo.is_some() {
            return Err(Refusal::NotNow(
                "the run does not follow newer versions".into(),
            ));
        }
        if self.stop_cause().is_some() {
            return Err(Refusal::NotNow("the run is being stopped".into()));
        }
        if definition == self.definition {
            return Err(Refusal::NotNow("the run has this graph already".into()));
        }
        let event = Event::Healed {
            version,
            definition,
        };
        Ok(self.exchange(event, definition, plan))
    }

    pub(super) fn decide_import(
        &self,
        definition: Digest,
        plan: &Arc<Plan>,
        actor: &Actor,
    ) -> Result<Decision, Refusal> {
        if !matches!(self.status, RunStatus::Paused | RunStatus::Failed) {
            return Err(Refusal::NotNow(
                "the run is neither paused nor failed; pause it first".into(),
            ));
        }
        if self.undo.is_some() {
            return Err(Refusal::Compensated);
        }
        if self.status == RunStatus::Paused && self.stop_cause().is_some() {
            return Err(Refusal::NotNow("the run is being stopped".into()));
        }
        if plan.workflow() != self.plan.workflow() {
            let message = format!(
                "the graph is of workflow '{}', the run of '{}'",
                plan.workflow(),
                self.plan.workflow()
            );
            return Err(Refusal::Incompatible(message.into()));
        }
        let event = Event::Imported {
            definition,
            actor: actor.clone(),
        };
        let decision = self.exchange(event, definition, plan);
        let stuck = decision.events.iter().any(
            |event| matches!(event, Event::Warning { code, .. } if &**code == "DAG_INCOMPATIBLE"),
        );
        if stuck {
            let message = "with this graph the run could make no progress";
            return Err(Refusal::Incompatible(message.into()));
        }
        Ok(decision)
    }

    /// The change itself, what it does to completed nodes, and a pause if nothing could
    /// go on with it.
    fn exchange(&self, event: Event, definition: Digest, plan: &Arc<Plan>) -> Decision {
        let mut decision = Decision::default();
        self.warn_of_change(plan, &mut decision);
        let mut after = self.clone();
        after.stage(definition, Arc::clone(plan));
        let applied = after.apply(&event, after.created_at, &mut Vec::new());
        decision.events.insert(0, event);
        let pending = after.count(NodeStatus::Pending) > 0;
        let is_stuck = applied.is_err()
            || (pending && after.open() == 0 && after.to_route.is_empty() && self.open() > 0);
        if is_stuck {
            let message = "with the newest version the run can make no progress".to_owned();
            decision.warn(None, "DAG_INCOMPATIBLE", message);
            if self.status == RunStatus::Running && self.stop_cause().is_none() {
                let reason = Some("DAG_INCOMPATIBLE".into());
                let actor = Actor {
                    reason,
                    ..Actor::default()
                };
                decision.events.push(Event::Paused(actor));
            }
        }
        decision
    }

    /// Completed nodes that the new graph removes, or puts an unmet dependency before.
    fn warn_of_change(&self, plan: &Plan, decision: &mut Decision) {
        for node in self.top.instances() {
            if self.node_status(node) != NodeStatus::Succeeded {
                continue;
            }
            let id = self.top.plan.id(self.top.node(node));
            let Some(new) = plan.index(id) else {
                let message = "the node has completed, and the new graph does not have it";
                decision.warn(Some(id), "NODE_REMOVED", message.to_owned());
                continue;
            };
            let sources = plan
                .incoming(new)
                .iter()
                .map(|&edge| plan.edge(edge).source);
            let is_unmet = |source: &u32| {
                let known = self.plan.index(plan.id(*source));
                !known.is_some_and(|node| self.node_status(self.top.instance(node)).is_final())
            };
            for source in sources.filter(is_unmet) {
                let message = format!(
                    "the node has completed, and the new graph puts '{}' before it, which has not",
                    plan.id(source)
                );
                decision.warn(Some(id), "DEPENDENCY_UNMET", message);
            }
        }
    }
}

/// Whether runs of this graph follow newer versions.
pub(crate) fn heals(plan: &Plan) -> bool {
    plan.in_flight() == InFlight::Healing
}
