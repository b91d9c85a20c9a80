//! Small records that a process writes for itself or for the next process.

use crate::{Error, Pending};

/// A note's key, and what it says.
pub type Note = (Box<str>, Vec<u8>);

/// Small records by kind and key; only their writer knows their meaning: which process serves,
/// which runs are being tried, which jobs are under way.
pub trait KeyValue: Send + Sync + 'static {
    /// Keeps a note in place of the one of that kind and key. Durable on return.
    fn keep_note(&self, kind: &str, key: &str, bytes: Vec<u8>) -> Pending<'_, Result<(), Error>>;

    /// One note.
    fn note_at(&self, kind: &str, key: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>>;

    /// The notes of a kind, by key, after the given one. A damaged one is left out; only a
    /// caller that asks for that one gets an error.
    fn notes(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Note>, Error>>;

    /// Removes a note; `false` if there is none. Durable on return.
    fn forget_note(&self, kind: &str, key: &str) -> Pending<'_, Result<bool, Error>>;
}
