//! Notes in memory.

use std::future::ready;

use super::answer;
use crate::{Error, KeyValue, MemoryStore, Note, Pending};

/// Kind and key.
pub(super) type NoteKey = (Box<str>, Box<str>);

impl KeyValue for MemoryStore {
    fn keep_note(&self, kind: &str, key: &str, bytes: Vec<u8>) -> Pending<'_, Result<(), Error>> {
        self.state().notes.insert((kind.into(), key.into()), bytes);
        Box::pin(ready(Ok(())))
    }

    fn note_at(&self, kind: &str, key: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        answer(|| {
            let key: NoteKey = (kind.into(), key.into());
            Ok(self.state().notes.get(&key).cloned())
        })
    }

    fn notes(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Note>, Error>> {
        answer(|| {
            let state = self.state();
            let meant = state.notes.iter().filter(|((of, _), _)| **of == *kind);
            let rest = meant.filter(|((_, key), _)| after.is_none_or(|after| **key > *after));
            let notes = rest.map(|((_, key), bytes)| (key.clone(), bytes.clone()));
            Ok(notes.take(limit).collect())
        })
    }

    fn forget_note(&self, kind: &str, key: &str) -> Pending<'_, Result<bool, Error>> {
        let key: NoteKey = (kind.into(), key.into());
        let removed = self.state().notes.remove(&key);
        Box::pin(ready(Ok(removed.is_some())))
    }
}
