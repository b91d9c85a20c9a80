//! What the driver tells the engine's observer. Decides nothing.

use windlass_core::run::{Instance, WaitingNode};
use windlass_core::{NodeStatus, RunId};
use windlass_orchestrator::FailedAttempt;

use super::Driver;
use crate::engine_event::EngineEvent;

impl Driver {
    /// Tells the observer what changed and which attempts failed, in the order of the log.
    pub(super) fn tell_changes(
        &self,
        run: RunId,
        nodes: &[(Instance, NodeStatus)],
        waiting_nodes: &[WaitingNode],
        failures: &[FailedAttempt],
    ) {
        let mut told = 0;
        for failed in failures {
            let until = failed.changes_before.clamp(told, nodes.len());
            if until > told {
                self.observe(&EngineEvent::Progress {
                    run,
                    nodes: &nodes[told..until],
                    waiting_nodes: &[],
                });
            }
            told = until;
            self.observe(&EngineEvent::Failed { run, failed });
        }
        self.observe(&EngineEvent::Progress {
            run,
            nodes: &nodes[told..],
            waiting_nodes,
        });
    }

    /// Tells the observer how attempts ended, now that it is durable.
    pub(super) fn tell_ends(&mut self, run: RunId, nodes: &[(Instance, NodeStatus)]) {
        let clock = &self.workers.options.clock;
        for attempt in self.attempts.ended(run, nodes, || clock.now()) {
            self.observe(&EngineEvent::Ended { attempt: &attempt });
        }
    }

    pub(super) fn observe(&self, event: &EngineEvent<'_>) {
        if let Some(observer) = &self.workers.options.observer {
            observer.observe(event);
        }
    }
}
