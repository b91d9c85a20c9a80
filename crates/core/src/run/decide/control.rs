//! What people and clocks ask of a run: begin, cancel, time out, pause, resume,
//! reattempt.

use super::{Decision, Facts, GRACE_MS, Refusal};
use crate::event::{Event, Finished, Hand, StopCause, Stopping};
use crate::plan::NodeIndex;
use crate::run::Run;
use crate::status::{NodeStatus, RunStatus};

impl Run {
    pub(super) fn decide_begin(&self) -> Result<Decision, Refusal> {
        match self.status() {
            RunStatus::Pending => Ok(Decision::of(Event::Started {})),
            _ => Err(Refusal::NotNow("the run has begun")),
        }
    }

    pub(super) fn decide_cancel(
        &self,
        hand: &Hand,
        facts: &Facts<'_>,
    ) -> Result<Decision, Refusal> {
        if self.stop_cause() == Some(StopCause::Cancel) {
            return Err(Refusal::NotNow("the run is being cancelled"));
        }
        let mut decision = self.stop_for(StopCause::Cancel, hand, facts);
        if self.status() == RunStatus::Pending {
            let finished = Finished {
                status: RunStatus::Cancelled,
                error: None,
                output: None,
            };
            decision.events.push(Event::Finished(Box::new(finished)));
        }
        Ok(decision)
    }

    pub(super) fn decide_timed_out(&self, facts: &Facts<'_>) -> Result<Decision, Refusal> {
        match (self.timeout_at(), self.stop_cause()) {
            (Some(at), None | Some(StopCause::FailFast)) if at <= facts.now => {
                Ok(self.stop_for(StopCause::Timeout, &Hand::default(), facts))
            }
            _ => Err(Refusal::NotNow("the run's time is not over")),
        }
    }

    pub(super) fn decide_stop(&self, facts: &Facts<'_>) -> Decision {
        self.stop_for(StopCause::FailFast, &Hand::default(), facts)
    }

    fn stop_for(&self, cause: StopCause, hand: &Hand, facts: &Facts<'_>) -> Decision {
        let running = facts
            .running
            .iter()
            .map(|&node| self.plan.id(node).into())
            .collect();
        let deadline = facts.now.plus(GRACE_MS);
        let stopping = Stopping {
            cause,
            running,
            deadline,
            hand: hand.clone(),
        };
        Decision::of(Event::Stopping(Box::new(stopping)))
    }

    pub(super) fn decide_grace_ended(&self, facts: &Facts<'_>) -> Result<Decision, Refusal> {
        match self.grace_deadline() {
            Some(deadline) if deadline <= facts.now => Ok(Decision::of(Event::GraceEnded {})),
            Some(_) => Err(Refusal::NotNow("the grace is not over")),
            None => Err(Refusal::NotNow("the run is not stopping")),
        }
    }

    pub(super) fn decide_pause(&self, hand: &Hand) -> Result<Decision, Refusal> {
        match (self.status(), self.stop_cause()) {
            (RunStatus::Running, None) => Ok(Decision::of(Event::Paused(hand.clone()))),
            (RunStatus::Running, Some(_)) => Err(Refusal::NotNow("the run is being stopped")),
            (RunStatus::Paused, _) => Err(Refusal::NotNow("the run is paused already")),
            _ => Err(Refusal::NotNow("the run has not begun")),
        }
    }

    pub(super) fn decide_resume(&self, hand: &Hand) -> Result<Decision, Refusal> {
        match self.status() {
            RunStatus::Paused => Ok(Decision::of(Event::Resumed(hand.clone()))),
            _ => Err(Refusal::NotNow("the run is not paused")),
        }
    }

    pub(super) fn decide_reattempt(
        &self,
        nodes: &[NodeIndex],
        hand: &Hand,
    ) -> Result<Decision, Refusal> {
        let nodes = if nodes.is_empty() {
            self.retriable_nodes()
        } else {
            nodes.to_vec()
        };
        if nodes.is_empty() {
            return Err(Refusal::NothingToReattempt);
        }
        let can_be_tried = |node: &NodeIndex| {
            matches!(
                self.node_status(*node),
                NodeStatus::Failed | NodeStatus::Cancelled
            )
        };
        let others: Vec<_> = nodes
            .iter()
            .copied()
            .filter(|node| !can_be_tried(node))
            .collect();
        if !others.is_empty() {
            return Err(Refusal::NotFailed(others));
        }
        if self.stop_cause().is_some() && !self.status().is_final() {
            return Err(Refusal::NotNow("the run is being stopped"));
        }
        let mut in_the_way = self.in_the_way(&nodes);
        in_the_way.extend(self.held_back_by(&nodes));
        if !in_the_way.is_empty() {
            return Err(Refusal::InTheWay(in_the_way));
        }
        let nodes = nodes
            .iter()
            .map(|&node| self.plan.id(node).into())
            .collect();
        Ok(Decision::of(Event::Reattempted {
            nodes,
            hand: hand.clone(),
        }))
    }
}
