//! Sessions and partitions: which process works on which runs.
//!
//! Leases decide which process works; heads decide which records count
//! ([`crate::Append::head`]). A wrong lease costs time, never correctness, so no append
//! consults anything here. A session expires by the backend's clock alone. When its holder
//! stops by its own clock, how partitions are spread and what follows a loss is the
//! orchestrator's policy.

use std::collections::BTreeSet;
use std::fmt;

use crate::{Error, Pending, ProcessInfo};

/// A share of all runs, numbered from 0 up to the count that [`JoinedSession`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u32);

impl Partition {
    /// The partition in a store that has so many: a log that was moved names one of another store.
    #[must_use]
    pub fn within(self, partitions: u32) -> Self {
        Self(self.0 % partitions.max(1))
    }
}

/// Which partitions are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Partitions {
    /// Every one.
    #[default]
    All,
    /// These.
    Only(BTreeSet<Partition>),
}

impl Partitions {
    /// Whether a partition is among them.
    pub fn contains(&self, partition: Partition) -> bool {
        match self {
            Self::All => true,
            Self::Only(partitions) => partitions.contains(&partition),
        }
    }
}

/// One process between its `join` and its end; never given twice by one backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The longest name of a lease, in bytes.
pub const LEASE_NAME_BYTES: usize = 200;

/// The answer to `join`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinedSession {
    /// The new session, which holds nothing yet.
    pub session: SessionId,
    /// How many partitions there are, fixed when the backend was created.
    pub partitions: u32,
}

/// A session that is live by the backend's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSession {
    /// Its id.
    pub session: SessionId,
    /// What the process said of itself.
    pub process: ProcessInfo,
    /// What it holds, in order.
    pub partitions: Vec<Partition>,
    /// How many milliseconds ago it began.
    pub began_ms: u64,
    /// In how many milliseconds it expires, if it is not renewed.
    pub expires_ms: u64,
}

/// A partition that `take` gave to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenPartition {
    /// The partition that the session now holds.
    pub partition: Partition,
    /// The session that held it last and expired; `None` if the last holder gave it up, or
    /// there was none.
    pub from_expired: Option<SessionId>,
}

/// A session that expired without a clean end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredSession {
    /// Its id.
    pub session: SessionId,
    /// The name that the process gave itself.
    pub name: Box<str>,
}

/// Sessions, and the partitions that they hold.
pub trait Leases: Send + Sync + 'static {
    /// Begins a session that expires `duration_ms` after its last renewal. After a crash in
    /// between: a session that holds nothing may be left behind, and expires.
    fn join(
        &self,
        process: &ProcessInfo,
        duration_ms: u64,
    ) -> Pending<'_, Result<JoinedSession, Error>>;

    /// Prolongs a session by its duration from now. `false` if it is not live: it has
    /// expired or ended, holds nothing, and never becomes live again. After a crash in
    /// between: it was prolonged or not.
    fn renew(&self, session: SessionId) -> Pending<'_, Result<bool, Error>>;

    /// As [`Leases::renew`], and lists the live sessions as they were just before: what an owner
    /// asks each time. `None` if the session is not live.
    fn renew_and_list(
        &self,
        session: SessionId,
    ) -> Pending<'_, Result<Option<Vec<LiveSession>>, Error>> {
        Box::pin(async move {
            let listed = self.sessions().await?;
            Ok(self.renew(session).await?.then_some(listed))
        })
    }

    /// Gives a live session those of the partitions that no live session holds, and answers
    /// with these; for a session that is not live, with none. One that it holds already is
    /// not among them. A partition has one holder at a time by the backend's clock. After a
    /// crash in between: it holds some of them, which `sessions` shows.
    fn take(
        &self,
        session: SessionId,
        partitions: &[Partition],
    ) -> Pending<'_, Result<Vec<TakenPartition>, Error>>;

    /// Gives up partitions, so that others can take them at once. Those that the session
    /// does not hold are passed over. After a crash in between: some of them are given.
    fn give(&self, session: SessionId, partitions: &[Partition]) -> Pending<'_, Result<(), Error>>;

    /// Changes what the process of a live session says of itself, all but its name; `false` if
    /// the session is not live. After a crash in between: it is changed or not.
    fn describe(
        &self,
        session: SessionId,
        process: &ProcessInfo,
    ) -> Pending<'_, Result<bool, Error>>;

    /// Takes the lease of this name for a live session, if no live session holds it; whether the
    /// session holds it now. It has one holder at a time by the backend's clock, and ends with
    /// its session. Names are at most [`LEASE_NAME_BYTES`] long. After a crash in between: it is
    /// held or not, which the same call tells.
    fn take_named(&self, session: SessionId, name: &str) -> Pending<'_, Result<bool, Error>>;

    /// Gives the lease of this name up, if the session holds it. After a crash in between: it is
    /// given up, or ends with the session.
    fn give_named(&self, session: SessionId, name: &str) -> Pending<'_, Result<(), Error>>;

    /// The live sessions with what each holds, by id.
    fn sessions(&self) -> Pending<'_, Result<Vec<LiveSession>, Error>>;

    /// Ends a session cleanly and gives up all that it holds. `false` if it was not live: then
    /// it counts as expired all the same. After a crash in between: it has ended cleanly, or
    /// expires.
    fn leave(&self, session: SessionId) -> Pending<'_, Result<bool, Error>>;

    /// Sessions that expired without a clean end and were not forgotten, by id. They survive
    /// the process if the backend is durable.
    fn expired(&self) -> Pending<'_, Result<Vec<ExpiredSession>, Error>>;

    /// Removes an expired session, once the consequences of its end are recorded; `false` if
    /// it is not one. After a crash in between: it is still listed or not.
    fn forget_session(&self, session: SessionId) -> Pending<'_, Result<bool, Error>>;
}
