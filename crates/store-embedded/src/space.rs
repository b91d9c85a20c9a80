//! Whether writes fail for lack of space, so that the store says so as long as they do, and
//! notices by itself when they no longer do.
//!
//! A refused write sets it, a write of the same kind that succeeds clears it. If nothing is
//! written meanwhile, asking for the store's health tries a small write, but not often.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_store::Error;

use crate::error::{Fault, from_io};
use crate::files::try_room;
use crate::writer::Session;

/// How long after a try the next one may come.
const BETWEEN_TRIES: Duration = Duration::from_millis(250);

/// The size of the file that is tried: more than the smallest value that gets one.
const TRIED_BYTES: u64 = 1 << 20;

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
    pub(crate) fn committed(&self) {
        // Read first: the line is shared, and this is done for every commit.
        if self.commit.load(Ordering::Relaxed) {
            self.commit.store(false, Ordering::Release);
        }
    }

    pub(crate) fn refused_commit(&self) {
        self.commit.store(true, Ordering::Release);
    }

    pub(crate) fn refused_file(&self) {
        self.file.store(true, Ordering::Release);
    }

    pub(crate) fn wrote_file(&self) {
        self.file.store(false, Ordering::Release);
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

    /// Whether a try is due.
    fn is_due(&self) -> bool {
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let due = tried.is_none_or(|at| at.elapsed() >= BETWEEN_TRIES);
        if due {
            *tried = Some(Instant::now());
        }
        due
    }

    /// Tries what was refused again, at most every so often; an error if there is no space.
    /// `commit` makes a small commit, which reports its fate here by itself.
    pub(crate) fn look(
        &self,
        directory: &Path,
        commit: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !self.is_full() {
            return Ok(());
        }
        if self.is_due() {
            if self.file.load(Ordering::Acquire) {
                try_room(directory, TRIED_BYTES).map_err(|error| from_io(directory, &error))?;
                self.wrote_file();
            }
            if self.commit.load(Ordering::Acquire) {
                commit()?;
            }
        }
        match self.is_full() {
            true => Err(Error::Full("writes are refused; free space".into())),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_write_is_told_until_one_of_its_kind_succeeds() {
        let root = tempfile::tempdir().expect("a directory");
        let space = Space::default();
        let never = || -> Result<(), Error> { panic!("nothing is tried") };
        assert!(space.look(root.path(), never).is_ok());
        space.refused_commit();
        let full = || Err(Error::Full("as before".into()));
        assert!(matches!(space.look(root.path(), full), Err(Error::Full(_))));
        // The next try is not due yet, and it is still full.
        assert!(matches!(
            space.look(root.path(), never),
            Err(Error::Full(_))
        ));
        space.committed();
        assert!(space.look(root.path(), never).is_ok());
    }

    #[test]
    fn a_try_that_succeeds_ends_it() {
        let root = tempfile::tempdir().expect("a directory");
        let space = Space::default();
        space.refused_file();
        space.refused_commit();
        let works = || {
            space.committed();
            Ok(())
        };
        assert!(space.look(root.path(), works).is_ok());
        assert!(!space.is_full());
    }
}
