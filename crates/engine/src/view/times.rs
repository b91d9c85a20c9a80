//! When each node started and ended, gathered while the log is folded.

use windlass_core::event::{AttemptResult, Event};
use windlass_core::plan::NodeIndex;
use windlass_core::run::{Change, Run};
use windlass_core::{Millis, NodeStatus};

use crate::load::LoadError;
use crate::replay::{Place, Visitor};

/// No such moment.
const NEVER: i64 = i64::MIN;

/// Two moments a node.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// The start of the first of the attempts that led to where the node stands;
    /// a reattempt by hand begins anew.
    started: Vec<i64>,
    ended: Vec<i64>,
}

impl Times {
    /// When a node's first attempt started.
    pub fn started(&self, node: NodeIndex) -> Option<Millis> {
        moment(&self.started, node)
    }

    /// When a node ended; one that never ran has ended when that was decided.
    pub fn ended(&self, node: NodeIndex) -> Option<Millis> {
        moment(&self.ended, node)
    }

    /// How long a node took, or has taken so far.
    pub fn took(&self, node: NodeIndex, now: Millis) -> Option<u64> {
        let started = self.started(node)?;
        let ended = self.ended(node).unwrap_or(now);
        Some(u64::try_from(ended.0.saturating_sub(started.0)).unwrap_or(0))
    }

    fn start(&mut self, node: NodeIndex, at: Millis) {
        let place = &mut self.started[node as usize];
        if *place == NEVER {
            *place = at.0;
        }
    }
}

fn moment(moments: &[i64], node: NodeIndex) -> Option<Millis> {
    let moment = *moments.get(node as usize)?;
    (moment != NEVER).then_some(Millis(moment))
}

impl Visitor for Times {
    type Error = LoadError;

    fn before(&mut self, run: &Run, event: &Event, _place: Place) -> Result<(), LoadError> {
        if self.started.is_empty() {
            self.started = vec![NEVER; run.plan().len()];
            self.ended = vec![NEVER; run.plan().len()];
        }
        let (path, at) = match event {
            Event::AttemptStarted(event) => (&event.node, event.started),
            Event::AttemptEnded(event) => (&event.node, event.started),
            _ => return Ok(()),
        };
        if let Some(node) = run.plan().index(path) {
            self.start(node, at);
        }
        Ok(())
    }

    fn after(
        &mut self,
        run: &Run,
        event: &Event,
        place: Place,
        changes: &[Change],
    ) -> Result<(), LoadError> {
        if let Event::Reattempted { .. } = event {
            // Everything that has to run again begins anew.
            for node in 0..run.plan().len() as NodeIndex {
                if !run.node_status(node).is_final() {
                    self.started[node as usize] = NEVER;
                    self.ended[node as usize] = NEVER;
                }
            }
        }
        let own = match event {
            Event::AttemptEnded(ended)
                if !matches!(ended.result, AttemptResult::Retrying { .. }) =>
            {
                run.plan()
                    .index(&ended.node)
                    .map(|node| (node, ended.ended))
            }
            _ => None,
        };
        for change in changes {
            if let &Change::Ended(node, _, status) = change
                && (node as usize) < self.ended.len()
            {
                let (at, ran) = match own {
                    Some((own, at)) if own == node => (at, true),
                    _ => (place.at, status == NodeStatus::Cancelled),
                };
                self.ended[node as usize] = at.0;
                if !ran {
                    // A node that ran before a reattempt may be blocked after it.
                    self.started[node as usize] = NEVER;
                }
            }
        }
        Ok(())
    }
}
