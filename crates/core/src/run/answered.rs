//! The last requests that carried an idempotency key, with their answers: a request that comes
//! again gets the first answer, and changes nothing. Must not know where keys come from.

use serde::{Deserialize, Serialize};

use super::{Refusal, Run};
use crate::event::{Event, RequestKey};
use crate::id::Digest;
use crate::status::RunStatus;

/// How many keys a run keeps. A caller repeats a request within minutes, and a run with more
/// commands than this between a request and its repetition is driven by a program that can
/// look at the run instead.
pub const KEPT_ANSWERS: usize = 256;

/// A request that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// Its key.
    key: Box<str>,
    /// Digest of the command.
    command: Digest,
    /// The record that carried it out, counted from 1.
    record: u64,
    /// How the run stood after that record.
    status: RunStatus,
}

impl Answered {
    /// The request's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How the run stood after the record that carried the command out.
    pub fn status(&self) -> RunStatus {
        self.status
    }
}

impl Run {
    /// The requests that the run remembers, oldest first.
    pub fn answered(&self) -> impl Iterator<Item = &Answered> {
        self.answered.iter()
    }

    /// The answer that was given to a request with this key; `None` if the key is new.
    ///
    /// # Errors
    /// The key was used for another command.
    pub fn answer_to(&self, request: &RequestKey) -> Result<Option<&Answered>, Refusal> {
        let mut answered = self.answered.iter().rev();
        match answered.find(|answered| answered.key == request.key) {
            Some(answered) if answered.command != request.command => {
                Err(Refusal::KeyReused(request.key.clone()))
            }
            found => Ok(found),
        }
    }

    /// Keeps the key that an event names. The answer is how the run stands at the end of the
    /// record, so it follows the events after it.
    pub(super) fn note_request(&mut self, event: &Event) {
        let record = self.records() + 1;
        if let Some(request) = event.actor().and_then(|actor| actor.request.as_deref()) {
            if self.answered.len() == KEPT_ANSWERS {
                self.answered.pop_front();
            }
            self.answered.push_back(Answered {
                key: request.key.clone(),
                command: request.command,
                record,
                status: self.status,
            });
        }
        let of_record = self.answered.iter_mut().rev();
        for answered in of_record.take_while(|answered| answered.record == record) {
            answered.status = self.status;
        }
    }
}
