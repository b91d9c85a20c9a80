//! Results of the run that a fork came from. Where a fork reaches a node by another way,
//! because something before it ran again or has other edges, the node's hash covers parents
//! that only the other run had: it is looked up there.

use std::collections::HashSet;

use windlass_core::event::Event;
use windlass_core::run::{Change, Run};
use windlass_core::{Digest, RunId};

use crate::Backend;
use crate::load::LoadError;
use crate::plans::Plans;
use crate::replay::{EventPosition, Visitor, replay};

/// A node's end, as a log has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct End {
    pub(super) path: Box<str>,
    pub(super) attempt: u32,
    pub(super) digest: Digest,
    pub(super) ancestry: Option<Digest>,
}

/// Every end that a log has, those before a reattempt included.
#[derive(Debug, Default)]
pub(super) struct Ends {
    known: HashSet<End>,
    /// The run was deleted, so any end may have been its own.
    forgotten: bool,
}

impl Ends {
    /// Walks a run's log.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub(super) fn of(store: &dyn Backend, plans: &Plans, run: RunId) -> Result<Self, LoadError> {
        let mut ends = Self::default();
        match replay(store, plans, run, &mut ends) {
            Ok(_) => {}
            Err(LoadError::NotFound(_)) => ends.forgotten = true,
            Err(error) => return Err(error),
        }
        Ok(ends)
    }

    pub(super) fn may_have(&self, end: &End) -> bool {
        self.forgotten || self.known.contains(end)
    }
}

impl Visitor for Ends {
    type Error = LoadError;

    fn after(
        &mut self,
        _run: &Run,
        event: &Event,
        _place: EventPosition,
        _changes: &[Change],
    ) -> Result<(), LoadError> {
        match event {
            Event::AttemptEnded(ended) => {
                self.known.insert(End {
                    path: ended.node.clone(),
                    attempt: ended.attempt,
                    digest: ended.digest,
                    ancestry: ended.ancestry,
                });
            }
            Event::SetByHand(set) => {
                self.known.insert(End {
                    path: set.node.clone(),
                    attempt: set.attempt,
                    digest: set.output.digest(),
                    ancestry: Some(set.ancestry),
                });
            }
            Event::Reused(nodes) => self.known.extend(nodes.iter().map(|node| {
                let output = node.output.as_ref();
                End {
                    path: node.node.clone(),
                    attempt: node.attempt,
                    digest: output.map_or_else(|| Digest::of(b"null"), |it| it.digest()),
                    ancestry: node.ancestry,
                }
            })),
            _ => {}
        }
        Ok(())
    }
}
