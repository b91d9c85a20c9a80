//! What users and timers ask of a run: begin, cancel, time out, pause, resume, reattempt.

use super::{Decision, Facts, GRACE_MS, Recovery, Refusal};
use crate::event::{Actor, Event, Finished, Grace, StopCause, Stopping};
use crate::run::frame::{FrameKey, TOP};
use crate::run::{Instance, Run};
use crate::status::{NodeStatus, RunStatus};

impl Run {
    pub(super) fn decide_begin(&self) -> Result<Decision, Refusal> {
        match self.status() {
            RunStatus::Pending => Ok(Decision::of(Event::Started {})),
            _ => Err(Refusal::NotNow("the run has begun".into())),
        }
    }

    pub(super) fn decide_cancel(
        &self,
        actor: &Actor,
        compensate: bool,
        facts: &Facts<'_>,
    ) -> Result<Decision, Refusal> {
        if self.undo.is_some() {
            return Err(Refusal::NotNow("the run is being compensated".into()));
        }
        if self.stop_cause() == Some(StopCause::Cancel) {
            return Err(Refusal::NotNow("the run is being cancelled".into()));
        }
        let mut decision = self.stop_for(StopCause::Cancel, TOP, actor, facts);
        if let Some(Event::Stopping(stopping)) = decision.events.first_mut() {
            stopping.compensate = compensate;
        }
        if self.status() == RunStatus::Pending {
            let finished = Finished {
                status: RunStatus::Cancelled,
                error: None,
                output: None,
                compensation: None,
            };
            decision.events.push(Event::Finished(Box::new(finished)));
        }
        Ok(decision)
    }

    pub(super) fn decide_timed_out(&self, facts: &Facts<'_>) -> Result<Decision, Refusal> {
        match (self.timeout_at(), self.stop_cause()) {
            (Some(at), None | Some(StopCause::FailFast)) if at <= facts.now => {
                Ok(self.stop_for(StopCause::Timeout, TOP, &Actor::default(), facts))
            }
            _ => Err(Refusal::NotNow("the run's time is not over".into())),
        }
    }

    /// A child whose parent timed out does so, too (semantics §8).
    pub(super) fn decide_timed_out_above(
        &self,
        actor: &Actor,
        facts: &Facts<'_>,
    ) -> Result<Decision, Refusal> {
        let stopping = matches!(
            self.stop_cause(),
            Some(StopCause::Cancel | StopCause::Timeout)
        );
        if stopping || self.undo.is_some() {
            return Err(Refusal::NotNow("the run is being stopped".into()));
        }
        let mut decision = self.stop_for(StopCause::Timeout, TOP, actor, facts);
        if self.status() == RunStatus::Pending {
            let finished = Finished {
                status: RunStatus::Failed,
                error: Some(self.out_of_time(facts)),
                output: None,
                compensation: None,
            };
            decision.events.push(Event::Finished(Box::new(finished)));
        }
        Ok(decision)
    }

    /// The run's dead letter was purged (semantics §12.4): nothing of it starts or is waited for,
    /// and it ends as Failed.
    pub(super) fn decide_abandon(
        &self,
        reason: &str,
        actor: &Actor,
        facts: &Facts<'_>,
    ) -> Decision {
        let finished = |compensation| {
            Event::Finished(Box::new(Finished {
                status: RunStatus::Failed,
                error: Some(self.dead_lettered(reason)),
                output: None,
                compensation,
            }))
        };
        if let Some(undo) = &self.undo {
            return Decision::of(finished(Some(undo.outcome())));
        }
        let mut decision = self.stop_for(StopCause::Cancel, TOP, actor, facts);
        if let Some(Event::Stopping(stopping)) = decision.events.first_mut() {
            stopping.running.clear();
            stopping.deadline = facts.now;
            stopping.abandoned = Some(reason.into());
        }
        decision.events.push(match self.status() {
            RunStatus::Pending => finished(None),
            // The stop's consequences are decided next, and the end with them.
            _ => Event::GraceEnded { deadline: None },
        });
        decision
    }

    pub(super) fn decide_stop(&self, key: FrameKey, facts: &Facts<'_>) -> Decision {
        self.stop_for(StopCause::FailFast, key, &Actor::default(), facts)
    }

    fn stop_for(
        &self,
        cause: StopCause,
        key: FrameKey,
        actor: &Actor,
        facts: &Facts<'_>,
    ) -> Decision {
        let running = facts
            .running
            .iter()
            .filter(|&&node| self.find_state(node).is_some() && self.is_in_frame(node, key))
            .map(|&node| self.path(node))
            .collect();
        let deadline = facts.now.plus(GRACE_MS);
        let stopping = Stopping {
            cause,
            running,
            deadline,
            scope: (key != TOP).then(|| self.scope_path(key)),
            compensate: false,
            abandoned: None,
            actor: actor.clone(),
        };
        Decision::of(Event::Stopping(Box::new(stopping)))
    }

    pub(super) fn decide_grace_ended(&self, facts: &Facts<'_>) -> Result<Decision, Refusal> {
        match self.grace_deadline() {
            Some(deadline) if deadline <= facts.now => Ok(Decision::of(Event::GraceEnded {
                deadline: Some(facts.now),
            })),
            Some(_) => Err(Refusal::NotNow("the grace is not over".into())),
            None => Err(Refusal::NotNow("the run is not stopping".into())),
        }
    }

    /// Attempts that were asked to stop keep their worker's result for a grace period if the
    /// worker may have outlived the process.
    pub(super) fn decide_recover(&self, recovery: &Recovery, facts: &Facts<'_>) -> Decision {
        let is_told = |node: &&Instance| {
            let told = self.find_state(**node);
            told.is_some_and(|state| state.stopping && state.is_open())
                && !self.is_structural(**node)
        };
        let nodes = recovery.remote.iter().filter(is_told);
        let nodes: Vec<_> = nodes.map(|&node| self.path(node)).collect();
        let deadline = facts.now.plus(GRACE_MS);
        let grace = (!nodes.is_empty()).then(|| Box::new(Grace { nodes, deadline }));
        Decision::of(Event::Recovered {
            after: recovery.after,
            grace,
        })
    }

    pub(super) fn decide_pause(&self, actor: &Actor) -> Result<Decision, Refusal> {
        match (self.status(), self.stop_cause()) {
            (RunStatus::Running, None) => Ok(Decision::of(Event::Paused(actor.clone()))),
            (RunStatus::Running, Some(_)) => {
                Err(Refusal::NotNow("the run is being stopped".into()))
            }
            (RunStatus::Paused, _) => Err(Refusal::NotNow("the run is paused already".into())),
            _ => Err(Refusal::NotNow("the run has not begun".into())),
        }
    }

    pub(super) fn decide_resume(&self, actor: &Actor) -> Result<Decision, Refusal> {
        match self.status() {
            RunStatus::Paused => Ok(Decision::of(Event::Resumed(actor.clone()))),
            // Without a record the key would not be known, and the same request would resume
            // a run that is paused later.
            _ if actor.request.is_some() => Ok(Decision::of(Event::Accepted(actor.clone()))),
            _ => Err(Refusal::NotNow("the run is not paused".into())),
        }
    }

    pub(super) fn decide_reattempt(
        &self,
        nodes: &[Instance],
        actor: &Actor,
    ) -> Result<Decision, Refusal> {
        let nodes = if nodes.is_empty() {
            self.retriable_nodes()
        } else {
            nodes.to_vec()
        };
        if self.undo.is_some() {
            return Err(Refusal::Compensated);
        }
        // A graph that was imported into a failed run may have removed what had failed.
        if nodes.is_empty() && !self.graph_waits {
            return Err(Refusal::NothingToReattempt);
        }
        if nodes.iter().any(|&node| self.find_frame(node).is_none()) {
            return Err(Refusal::NotNow(
                "the run has no such node instance now".into(),
            ));
        }
        let can_be_tried = |node: &Instance| {
            matches!(
                self.find_status(*node),
                Some(NodeStatus::Failed | NodeStatus::Cancelled)
            ) && !self.is_leaving(*node)
        };
        let others: Vec<_> = nodes
            .iter()
            .copied()
            .filter(|node| !can_be_tried(node))
            .collect();
        if !others.is_empty() {
            return Err(Refusal::NotFailed(others));
        }
        self.check_no_stop(&nodes)?;
        self.check_the_way(&nodes)?;
        let nodes = nodes.iter().map(|&node| self.path(node)).collect();
        Ok(Decision::of(Event::Reattempted {
            nodes,
            actor: actor.clone(),
        }))
    }

    /// Refuses to open again what is about to be stopped: the run, or an iteration that
    /// one of these nodes is in.
    pub(super) fn check_no_stop(&self, nodes: &[Instance]) -> Result<(), Refusal> {
        if self.stop_cause().is_some() && !self.status().is_final() {
            return Err(Refusal::NotNow("the run is being stopped".into()));
        }
        let mut scopes = nodes.iter().flat_map(|&node| self.scopes_around(node));
        let is_stopping = |key: FrameKey| {
            let frame = self.frame(key);
            key != TOP && frame.stop.is_some() && !frame.done
        };
        if scopes.any(is_stopping) {
            return Err(Refusal::NotNow("the iteration is being stopped".into()));
        }
        Ok(())
    }

    /// Refuses what nodes after these, or before them, do not allow.
    pub(super) fn check_the_way(&self, nodes: &[Instance]) -> Result<(), Refusal> {
        let mut in_the_way = self.in_the_way(nodes);
        in_the_way.extend(self.held_back_by(nodes));
        if in_the_way.is_empty() {
            return Ok(());
        }
        Err(Refusal::InTheWay(in_the_way))
    }
}
