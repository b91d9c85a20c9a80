//! The store's answer to an append, and what becomes of one that it cannot answer plainly
//! (`supervisor/resolution.rs`). Until that is known, the record stays in flight: nothing else
//! of the run is appended, and nothing that follows from the record is carried out.

use windlass_store::{Append, AppendError, Appended, Error, Head, checksum};

use super::Slot;
use crate::gate::Proof;
use crate::shard::{Context, Effect};
use crate::supervisor::{Resolution, resolve};

/// How often a record is appended again before the shard drops the run; the run is read back when
/// the store answers plainly again.
const MOST_REPEATS: u32 = 16;

/// An append for which the store could not say whether it happened.
#[derive(Debug)]
pub(super) struct Doubt {
    append: Append,
    /// The head that it makes.
    attempted: Head,
    error: Error,
    /// Whether it is to be appended again.
    again: bool,
    repeats: u32,
}

impl Slot {
    /// The store answers an append; `false` when the shard should drop the run.
    pub(super) fn appended(
        &mut self,
        append_id: u64,
        result: Result<Appended, AppendError>,
        context: &mut Context<'_>,
    ) -> bool {
        if self.in_flight.as_ref().map(|(id, _)| *id) != Some(append_id) {
            return true;
        }
        match result {
            Ok(appended) => self.proved(appended, context),
            Err(AppendError::Conflict(found)) => self.found(found, context),
            Err(AppendError::Held { value, .. }) => {
                let run = self.run.id();
                self.lose(Effect::Held { run, value }, context)
            }
            Err(AppendError::Unknown {
                error,
                append: Some(append),
            }) => self.doubts(*append, error, context),
            Err(AppendError::Unknown { error, .. } | AppendError::Failed(error)) => {
                self.break_off(error, context)
            }
        }
    }

    /// The store says where the log of a run in doubt ends.
    pub(super) fn head_read(
        &mut self,
        result: Result<Head, Error>,
        context: &mut Context<'_>,
    ) -> bool {
        match result {
            _ if self.doubt.as_ref().is_none_or(|doubt| doubt.again) => true,
            Ok(found) => self.found(found, context),
            Err(error) => self.break_off(error, context),
        }
    }

    /// The record in doubt, if it is to be appended again.
    pub(super) fn repeated(&mut self) -> Option<Append> {
        let doubt = self.doubt.as_mut()?;
        std::mem::take(&mut doubt.again).then(|| doubt.append.clone())
    }

    fn doubts(&mut self, append: Append, error: Error, context: &mut Context<'_>) -> bool {
        let repeats = self.doubt.take().map_or(0, |doubt| doubt.repeats);
        if repeats > MOST_REPEATS {
            return self.break_off(error, context);
        }
        self.doubt = Some(Box::new(Doubt {
            attempted: checksum::next_head(&append),
            append,
            error,
            again: false,
            repeats,
        }));
        let run = self.run.id();
        context.effects.push_back(Effect::ReadHead { run });
        true
    }

    fn found(&mut self, found: Head, context: &mut Context<'_>) -> bool {
        let attempted = self.doubt.as_ref().map(|doubt| doubt.attempted);
        let (run, parent) = (self.run.id(), self.parent());
        match (resolve(self.head, attempted, found), &mut self.doubt) {
            (Resolution::Mine, _) => self.proved(Appended { head: found }, context),
            (Resolution::NotWritten, Some(doubt)) if doubt.repeats < MOST_REPEATS => {
                doubt.repeats += 1;
                doubt.again = true;
                true
            }
            (Resolution::NotWritten, Some(doubt)) => {
                let error = doubt.error.clone();
                self.break_off(error, context)
            }
            (Resolution::Behind, _) => {
                let acknowledged = self.head;
                let gone = Effect::Quarantined {
                    run,
                    parent,
                    acknowledged,
                    found,
                };
                self.lose(gone, context)
            }
            // The store refused the record at the head that it was made for: only reading the
            // run again tells what the store has.
            (Resolution::Another | Resolution::NotWritten, _) => {
                self.broken = true;
                self.lose(Effect::Fenced { run, parent }, context)
            }
        }
    }

    fn proved(&mut self, appended: Appended, context: &mut Context<'_>) -> bool {
        let proof = Proof::new(appended);
        self.doubt = None;
        // A graph for a run that has failed leaves it ended as it was.
        if self.found_ended == Some(self.head) && self.run.graph_waits() {
            self.found_ended = Some(proof.head());
        }
        self.head = proof.head();
        if let Some((_, consequences)) = self.in_flight.take() {
            self.carry_out(consequences.release(&proof), context);
        }
        true
    }

    /// Breaks the run off: nothing of it can be stored now.
    fn break_off(&mut self, error: Error, context: &mut Context<'_>) -> bool {
        self.broken = true;
        let (run, parent) = (self.run.id(), self.parent());
        self.lose(Effect::Broken { run, parent, error }, context)
    }

    fn lose(&mut self, effect: Effect, context: &mut Context<'_>) -> bool {
        self.closed = true;
        context.effects.push_back(effect);
        false
    }
}
