//! What a process writes down for itself or for whoever comes after it.

use crate::{Error, Pending};

/// A note's key, and what it says.
pub type Note = (Box<str>, Vec<u8>);

/// Small things by kind and key, whose meaning is their writer's business: who serves, what is
/// being tried, jobs that are under way.
pub trait Notes: Send + Sync + 'static {
    /// Keeps a note in place of the one of that kind and key. Durable on return.
    fn keep_note(&self, kind: &str, key: &str, bytes: Vec<u8>) -> Pending<'_, Result<(), Error>>;

    /// One note.
    fn note_at(&self, kind: &str, key: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>>;

    /// The notes of a kind, by key, after the given one. A damaged one is left out, and is
    /// an error only to whoever asks for it.
    fn notes(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Note>, Error>>;

    /// Removes a note; `false` if there is none. Durable on return.
    fn forget_note(&self, kind: &str, key: &str) -> Pending<'_, Result<bool, Error>>;
}
