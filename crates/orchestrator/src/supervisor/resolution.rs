//! What became of an append that the store did not answer plainly: the head tells.
//!
//! | the head that is found | what it means | what follows |
//! | --- | --- | --- |
//! | what my record would make of it | mine: it was written | go on |
//! | the last one that was acknowledged | not written, or not yet | append the identical record again |
//! | behind that, or other at its place | the backend lost commits | quarantine, never reload |
//! | anything else | another process wrote | reload if the lease is held, else forget |
//!
//! A record that was on its way and becomes durable after the question is no danger: the
//! identical record has the same place in the log, so one of the two is written, and both
//! make the same head.

use windlass_store::Head;

/// Which process wrote the record at the place where one was to be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The record is durable.
    Mine,
    /// Nothing was written.
    NotWritten,
    /// Another process wrote to the run.
    Another,
    /// What was acknowledged is gone.
    Behind,
}

/// Compares the head that is found with the last one that was acknowledged to this process,
/// and with the one that its record would make, where that is known.
pub fn resolve(acknowledged: Head, attempted: Option<Head>, found: Head) -> Resolution {
    if attempted == Some(found) {
        Resolution::Mine
    } else if found == acknowledged {
        Resolution::NotWritten
    } else if found.sequence <= acknowledged.sequence {
        Resolution::Behind
    } else {
        Resolution::Another
    }
}

/// What a process does with a run that another process wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFence {
    /// This process holds the lease: it reads the run again.
    Reload,
    /// The lease is gone: the run belongs to another process.
    Forget,
}

impl AfterFence {
    /// The lease decides. A single process always holds it.
    pub fn of(holds_lease: bool) -> Self {
        match holds_lease {
            true => Self::Reload,
            false => Self::Forget,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(sequence: u64, writer: u8) -> Head {
        Head {
            sequence,
            chain: [writer; 16],
            append_id: sequence,
        }
    }

    #[test]
    fn the_head_tells_what_became_of_an_append() {
        let (acknowledged, mine) = (head(4, 1), Some(head(5, 1)));
        let is = |found| resolve(acknowledged, mine, found);
        assert_eq!(is(head(5, 1)), Resolution::Mine);
        assert_eq!(is(head(4, 1)), Resolution::NotWritten);
        assert_eq!(is(head(5, 2)), Resolution::Another);
        assert_eq!(is(head(6, 1)), Resolution::Another);
        // Commits that were acknowledged are gone, or replaced.
        assert_eq!(is(head(3, 1)), Resolution::Behind);
        assert_eq!(is(head(4, 2)), Resolution::Behind);
        assert_eq!(is(Head::NONE), Resolution::Behind);
        // A first record: nothing was acknowledged, so nothing can be behind.
        let first = |found| resolve(Head::NONE, Some(head(1, 1)), found);
        assert_eq!(first(Head::NONE), Resolution::NotWritten);
        assert_eq!(first(head(1, 2)), Resolution::Another);
        // Without the record's own head it cannot be recognized.
        assert_eq!(resolve(acknowledged, None, head(5, 1)), Resolution::Another);
    }
}
