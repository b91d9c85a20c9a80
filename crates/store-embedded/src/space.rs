//! Whether writes fail for lack of space, so that the store reports it for as long as they do,
//! and notices by itself when they no longer do.
//!
//! A refused write sets the flag. A smaller write may still succeed and proves nothing, so
//! only a trial clears it: a file as large as any value, and a commit. Asking for the store's
//! health makes such a trial, but not often.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_store::Error;

use crate::error::{Fault, from_io};
use crate::files::try_room;
use crate::writer::Session;

/// How long after a trial the next one may come.
const BETWEEN_TRIES: Duration = Duration::from_millis(250);

/// The size of the file that a trial writes: more than the largest value, so that the refused
/// write has room, and not only a smaller one.
const TRIED_BYTES: u64 = 16 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// The last commit was refused.
    commit: AtomicBool,
    /// The last large value was refused.
    file: AtomicBool,
    tried: Mutex<Option<Instant>>,
}

impl Space {
    pub(crate) fn refused_commit(&self) {
        self.commit.store(true, Ordering::Release);
    }

    pub(crate) fn refused_file(&self) {
        self.file.store(true, Ordering::Release);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.commit.load(Ordering::Acquire) || self.file.load(Ordering::Acquire)
    }

    /// A small commit that leaves nothing to be read.
    pub(crate) fn touch(session: &mut Session<'_>) -> Result<(), Fault> {
        let sql = "INSERT INTO fact (name, value) VALUES ('space', 1)
            ON CONFLICT (name) DO UPDATE SET value = value + 1";
        session.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Whether a trial is due.
    fn is_due(&self, now: Instant) -> bool {
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let due = tried.is_none_or(|at| now.duration_since(at) >= BETWEEN_TRIES);
        if due {
            *tried = Some(now);
        }
        due
    }

    /// Tries again what was refused, at most every so often; an error if there is no space.
    /// `commit` makes a small commit.
    pub(crate) fn look(
        &self,
        directory: &Path,
        now: Instant,
        commit: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !self.is_full() {
            return Ok(());
        }
        if self.is_due(now) {
            try_room(directory, TRIED_BYTES).map_err(|error| from_io(directory, &error))?;
            commit()?;
            self.commit.store(false, Ordering::Release);
            self.file.store(false, Ordering::Release);
            return Ok(());
        }
        Err(Error::Full("writes are refused; free space".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_write_is_told_until_a_try_succeeds() {
        let root = tempfile::tempdir().expect("a directory");
        let space = Space::default();
        let never = || -> Result<(), Error> { panic!("nothing is tried") };
        let now = Instant::now();
        assert!(space.look(root.path(), now, never).is_ok());
        space.refused_commit();
        let full = || Err(Error::Full("as before".into()));
        assert!(matches!(
            space.look(root.path(), now, full),
            Err(Error::Full(_))
        ));
        // The next trial is not due yet, and the disk is still full.
        assert!(matches!(
            space.look(root.path(), now, never),
            Err(Error::Full(_))
        ));
    }

    #[test]
    fn a_try_that_succeeds_ends_it() {
        let root = tempfile::tempdir().expect("a directory");
        let space = Space::default();
        space.refused_file();
        space.refused_commit();
        assert!(space.look(root.path(), Instant::now(), || Ok(())).is_ok());
        assert!(!space.is_full());
    }
}
