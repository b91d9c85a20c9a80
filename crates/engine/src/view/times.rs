//! When each node instance started and ended, gathered while the log is folded.

use std::collections::BTreeMap;

use windlass_core::event::{AttemptResult, Event};
use windlass_core::run::{Change, Instance, Run};
use windlass_core::{Millis, NodeStatus};

use crate::load::LoadError;
use crate::replay::{EventPosition, Visitor};

/// No such moment.
const NEVER: i64 = i64::MIN;

#[derive(Clone, Copy, Debug)]
struct Moments {
    /// The start of the first of the attempts that led to where the instance stands;
    /// a reattempt by hand begins anew.
    started: i64,
    ended: i64,
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            started: NEVER,
            ended: NEVER,
        }
    }
}

/// Two moments for each instance that the run knows.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// The top level as it was at the start: as many as there are nodes.
    top: Vec<Moments>,
    /// Everything else, for as long as the run knows it.
    others: BTreeMap<Instance, Moments>,
    /// What the present event is about: once it is applied, paths may lead there no more.
    own: Option<Instance>,
    /// When the last event happened.
    last: Option<Millis>,
}

impl Times {
    /// When a node's first attempt started.
    pub fn started(&self, node: Instance) -> Option<Millis> {
        moment(self.moments(node)?.started)
    }

    /// When a node ended; one that never ran has ended when that was decided.
    pub fn ended(&self, node: Instance) -> Option<Millis> {
        moment(self.moments(node)?.ended)
    }

    /// When something last happened to the run.
    pub fn last(&self) -> Option<Millis> {
        self.last
    }

    /// How long a node took, or has taken so far.
    pub fn took(&self, node: Instance, now: Millis) -> Option<u64> {
        let started = self.started(node)?;
        let ended = self.ended(node).unwrap_or(now);
        Some(u64::try_from(ended.0.saturating_sub(started.0)).unwrap_or(0))
    }

    fn moments(&self, node: Instance) -> Option<&Moments> {
        self.top
            .get(node as usize)
            .or_else(|| self.others.get(&node))
    }

    fn moments_mut(&mut self, node: Instance) -> &mut Moments {
        match self.top.get_mut(node as usize) {
            Some(moments) => moments,
            None => self.others.entry(node).or_default(),
        }
    }

    fn start(&mut self, node: Instance, at: Millis) {
        let moments = self.moments_mut(node);
        if moments.started == NEVER {
            moments.started = at.0;
        }
    }

    /// Everything that has to run again begins anew.
    fn begin_anew(&mut self, run: &Run) {
        let top = self.top.iter_mut().enumerate();
        let top = top.map(|(node, moments)| (node as Instance, moments));
        let others = self
            .others
            .iter_mut()
            .map(|(&node, moments)| (node, moments));
        for (node, moments) in top.chain(others) {
            match run.find_status(node) {
                Some(NodeStatus::Pending | NodeStatus::Queued) => *moments = Moments::default(),
                Some(status) if !status.is_final() => moments.ended = NEVER,
                _ => {}
            }
        }
    }
}

fn moment(moment: i64) -> Option<Millis> {
    (moment != NEVER).then_some(Millis(moment))
}

/// The instance that an event about the end or the start of something is about, and
/// when that started.
fn started_by(run: &Run, event: &Event, at: Millis) -> Option<(Instance, Millis)> {
    let (path, started) = match event {
        Event::AttemptStarted(event) if event.undo => {
            let undoing = run.undoing_at(&event.node, event.attempt)?;
            return Some((undoing, event.started));
        }
        Event::CompensationEnded(event) => {
            let undoing = run.undoing_at(&event.node, event.attempt)?;
            return Some((undoing, event.started));
        }
        Event::AttemptStarted(event) => (&event.node, event.started),
        Event::AttemptEnded(event) => (&event.node, event.started),
        Event::Expanded { node, .. } | Event::Looped { node, .. } | Event::Waiting { node, .. } => {
            (node, at)
        }
        Event::ChildStarted(event) => (&event.node, at),
        _ => return None,
    };
    Some((run.resolve(path)?, started))
}

impl Visitor for Times {
    type Error = LoadError;

    fn before(&mut self, run: &Run, event: &Event, place: EventPosition) -> Result<(), LoadError> {
        if self.top.is_empty() {
            self.top = vec![Moments::default(); run.plan().len()];
        }
        self.last = self.last.max(Some(place.at));
        let started = started_by(run, event, place.at);
        self.own = started.map(|(node, _)| node);
        if let Some((node, at)) = started {
            self.start(node, at);
        }
        Ok(())
    }

    fn after(
        &mut self,
        run: &Run,
        event: &Event,
        place: EventPosition,
        changes: &[Change],
    ) -> Result<(), LoadError> {
        if matches!(event, Event::Reattempted { .. } | Event::SetByHand(_)) {
            self.begin_anew(run);
        }
        let own = match event {
            Event::AttemptEnded(ended) | Event::CompensationEnded(ended)
                if !matches!(ended.result, AttemptResult::Retrying { .. }) =>
            {
                self.own.map(|node| (node, ended.ended))
            }
            _ => None,
        };
        for change in changes {
            if let &Change::Ended(node, _, status) = change {
                let (at, ran) = match own {
                    Some((own, at)) if own == node => (at, true),
                    _ => (place.at, status == NodeStatus::Cancelled),
                };
                let by_hand = run.find_status(node).is_some() && run.is_by_hand(node);
                let moments = self.moments_mut(node);
                moments.ended = at.0;
                if !ran && !by_hand {
                    // A node that ran before a reattempt may be blocked after it.
                    moments.started = NEVER;
                }
            }
        }
        Ok(())
    }

    fn freeing(&mut self, _run: &Run, node: Instance) -> Result<(), LoadError> {
        self.others.remove(&node);
        Ok(())
    }
}
