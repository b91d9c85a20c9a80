//! Attempts that failed, for observers: read from the events that record them, so that loops,
//! waits and child runs are reported like actions, and so is an action whose success the run
//! could not accept. `core` decides what a failure leads to.

use windlass_core::event::{AttemptEnded, AttemptResult, Event};
use windlass_core::run::Failure;
use windlass_core::value::Stored;

use super::{Consequence, Slot};
use crate::shard::FailedAttempt;

impl Slot {
    /// Reports the attempt that failed with this event, once the event is durable.
    pub(super) fn note_failure(&mut self, event: &Event) {
        let (ended, undo): (&AttemptEnded, bool) = match event {
            Event::AttemptEnded(ended) => (ended, false),
            Event::CompensationEnded(ended) => (ended, true),
            _ => return,
        };
        let (error, again) = match &ended.result {
            AttemptResult::Failed(error) => (error, false),
            AttemptResult::Retrying { error, .. } => (error, true),
            AttemptResult::Succeeded(_) | AttemptResult::Skipped {} | AttemptResult::Stopped {} => {
                return;
            }
        };
        if let Some(failure) = self.read_failure(error) {
            let failed = FailedAttempt {
                path: ended.node.clone(),
                undo,
                failure,
                again,
                // Known when the changes are collected.
                changes_before: 0,
            };
            self.consequences
                .push(Consequence::Failed(Box::new(failed)));
        }
    }

    /// An error that stands in the record, or comes with it.
    fn read_failure(&self, error: &Stored) -> Option<Failure> {
        match error {
            Stored::Inline(raw) => serde_json::from_str(raw.get()).ok(),
            Stored::Blob { digest, .. } => {
                let blob = self.blobs.iter().find(|blob| blob.digest == *digest)?;
                serde_json::from_slice(&blob.bytes).ok()
            }
        }
    }
}
