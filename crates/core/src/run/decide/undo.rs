//! The operator's commands on a compensation: start it, retry it, leave a node as it is.

use super::{Decision, Refusal};
use crate::event::{Actor, Event};
use crate::run::undo::{can_be_retried, can_be_skipped};
use crate::run::{Instance, Run};
use crate::status::NodeStatus;

impl Run {
    pub(super) fn decide_compensate(&self, actor: &Actor) -> Result<Decision, Refusal> {
        if self.undo.is_some() {
            return Err(Refusal::NotNow("compensation has begun already".into()));
        }
        let Some(finished) = self.finished() else {
            return Err(Refusal::NotNow(
                "the run has not ended; cancel it first".into(),
            ));
        };
        if self.completed.is_empty() {
            return Err(Refusal::NotNow(
                "nothing that succeeded says how it is undone".into(),
            ));
        }
        Ok(Decision::of(Event::Compensating {
            ending: Box::new(finished.clone()),
            actor: actor.clone(),
        }))
    }

    pub(super) fn decide_retry_undo(
        &self,
        nodes: &[Instance],
        actor: &Actor,
    ) -> Result<Decision, Refusal> {
        let otherwise = "its compensation has not failed";
        let nodes = self.undo_paths(nodes, can_be_retried, otherwise)?;
        let actor = actor.clone();
        Ok(Decision::of(Event::CompensationRetried { nodes, actor }))
    }

    pub(super) fn decide_skip_undo(
        &self,
        nodes: &[Instance],
        actor: &Actor,
    ) -> Result<Decision, Refusal> {
        let nodes = self.undo_paths(nodes, can_be_skipped, "its compensation has ended")?;
        let actor = actor.clone();
        Ok(Decision::of(Event::CompensationSkipped { nodes, actor }))
    }

    /// The paths of nodes that are being undone and in the right state.
    fn undo_paths(
        &self,
        nodes: &[Instance],
        can: impl Fn(NodeStatus) -> bool,
        otherwise: &'static str,
    ) -> Result<Vec<Box<str>>, Refusal> {
        let Some(undo) = &self.undo else {
            return Err(Refusal::NotNow("compensation has not begun".into()));
        };
        if undo.is_open() && nodes.len() > 1 {
            return Err(Refusal::NotNow(
                "compensation is under way; name one node".into(),
            ));
        }
        let mut paths = Vec::new();
        for &node in nodes {
            let is_known = self.find_state(node).is_some() || self.is_kept(node);
            let path = match is_known {
                true => self.path(node),
                false => "".into(),
            };
            // What ran again is undone more than once; its path names every step.
            let steps = self.undoing(&path);
            if steps.is_empty() {
                return Err(Refusal::NotNow(
                    "compensation does not undo this node".into(),
                ));
            }
            if !steps
                .iter()
                .filter_map(|&step| self.undo_status(step))
                .any(&can)
            {
                return Err(Refusal::NotNow(otherwise.into()));
            }
            paths.push(path);
        }
        Ok(paths)
    }
}
