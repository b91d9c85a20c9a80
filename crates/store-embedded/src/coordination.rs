//! Leases, work and wake-ups of a data directory. One process holds its lock, and with that
//! the only partition; sessions last as long as the process. The disk holds only which
//! sessions have not ended cleanly, so that a later process recognises a crash. The work queue
//! and the bells are in this process's memory: both may lose everything.

use rusqlite::{Connection, OptionalExtension as _, params};
use windlass_store::{
    BegunItem, Bell, Error, ExpiredSession, GatePlace, HeldPlace, ItemState, JoinedSession,
    LeaseAnswer, LeaseTerm, LeasedItem, Leases, Listener, LiveSession, Partition, Partitions,
    Pending, Places, ProcessInfo, Pull, QueueDepth, SessionId, TakePlace, TakenPartition, Wakes,
    WorkItem, WorkKey, WorkLease, WorkQueue,
};

use crate::EmbeddedStore;
use crate::codec::Sum;
use crate::error::Fault;

/// The kind of the notes that name sessions which have not ended cleanly, by id.
const SESSION: &str = "lease-session";

/// The kind of the note that counts sessions, so that no id is given twice.
const COUNT: &str = "lease-session-count";

impl Leases for EmbeddedStore {
    fn join(
        &self,
        process: &ProcessInfo,
        duration_ms: u64,
    ) -> Pending<'_, Result<JoinedSession, Error>> {
        let stored = process.name.clone();
        let begun = self.task(None, move |session| begin(session.connection, &stored));
        let process = process.clone();
        Box::pin(async move {
            let (session, others) = begun.await?;
            let coordinator = self.coordinator();
            let gone = others.into_iter().filter(|&id| !coordinator.is_live(id));
            if let Some(last) = gone.max() {
                coordinator.was_left_by(Partition(0), last);
            }
            Ok(coordinator.join_as(session, &process, duration_ms))
        })
    }

    fn renew(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        self.coordinator().renew(session)
    }

    fn take(
        &self,
        session: SessionId,
        partitions: &[Partition],
    ) -> Pending<'_, Result<Vec<TakenPartition>, Error>> {
        self.coordinator().take(session, partitions)
    }

    fn give(&self, session: SessionId, partitions: &[Partition]) -> Pending<'_, Result<(), Error>> {
        self.coordinator().give(session, partitions)
    }

    fn describe(
        &self,
        session: SessionId,
        process: &ProcessInfo,
    ) -> Pending<'_, Result<bool, Error>> {
        self.coordinator().describe(session, process)
    }

    fn take_named(&self, session: SessionId, name: &str) -> Pending<'_, Result<bool, Error>> {
        self.coordinator().take_named(session, name)
    }

    fn give_named(&self, session: SessionId, name: &str) -> Pending<'_, Result<(), Error>> {
        self.coordinator().give_named(session, name)
    }

    fn sessions(&self) -> Pending<'_, Result<Vec<LiveSession>, Error>> {
        self.coordinator().sessions()
    }

    fn leave(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        Box::pin(async move {
            if !self.coordinator().is_live(session) {
                return Ok(false);
            }
            // On disk first: a crash in between must not look like a clean end of nothing.
            let ended = self.task(None, move |it| remove(it.connection, session));
            ended.await?;
            self.coordinator().leave(session).await
        })
    }

    fn expired(&self) -> Pending<'_, Result<Vec<ExpiredSession>, Error>> {
        let kept = self.task(None, |session| kept(session.connection));
        Box::pin(async move {
            let mut expired = kept.await?;
            expired.retain(|it| !self.coordinator().is_live(it.session));
            Ok(expired)
        })
    }

    fn forget_session(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        Box::pin(async move {
            if self.coordinator().is_live(session) {
                return Ok(false);
            }
            let removed = self.task(None, move |it| remove(it.connection, session));
            removed.await
        })
    }
}

/// Counts one more session, and stores it; returns its id, and all sessions that are stored.
fn begin(connection: &Connection, name: &str) -> Result<(SessionId, Vec<SessionId>), Fault> {
    const LAST: &str = "SELECT bytes FROM note WHERE kind = ? AND key = ''";
    let mut statement = connection.prepare_cached(LAST)?;
    let last: Option<Vec<u8>> = statement.query_row([COUNT], |row| row.get(0)).optional()?;
    let last = last.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
    let others = kept(connection)?;
    // The stored sessions replace a damaged count.
    let greatest = others.last().map_or(0, |other| other.session.0);
    let id = last.map_or(0, u64::from_be_bytes).max(greatest) + 1;
    keep(connection, COUNT, "", &id.to_be_bytes())?;
    let session = SessionId(id);
    keep(connection, SESSION, &session.to_string(), name.as_bytes())?;
    Ok((session, others.into_iter().map(|it| it.session).collect()))
}

fn keep(connection: &Connection, kind: &str, key: &str, bytes: &[u8]) -> Result<(), Fault> {
    const SQL: &str = "INSERT OR REPLACE INTO note (kind, key, bytes, sum) VALUES (?, ?, ?, ?)";
    let sum = Sum::default().text(kind).text(key).bytes(bytes).value();
    let mut statement = connection.prepare_cached(SQL)?;
    statement.execute(params![kind, key, bytes, sum])?;
    Ok(())
}

/// The sessions that have not ended cleanly, by id. A name that is damaged is shown as it is.
fn kept(connection: &Connection) -> Result<Vec<ExpiredSession>, Fault> {
    const SQL: &str = "SELECT key, bytes FROM note WHERE kind = ? ORDER BY key";
    let mut statement = connection.prepare_cached(SQL)?;
    let mut rows = statement.query([SESSION])?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        let (key, name): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
        // A key that is no id cannot be a session's.
        if let Ok(id) = u64::from_str_radix(&key, 16) {
            sessions.push(ExpiredSession {
                session: SessionId(id),
                name: String::from_utf8_lossy(&name).into(),
            });
        }
    }
    Ok(sessions)
}

fn remove(connection: &Connection, session: SessionId) -> Result<bool, Fault> {
    const SQL: &str = "DELETE FROM note WHERE kind = ? AND key = ?";
    let mut statement = connection.prepare_cached(SQL)?;
    Ok(statement.execute([SESSION, &session.to_string()])? == 1)
}

impl Places for EmbeddedStore {
    fn take_places(&self, places: Vec<TakePlace>) -> Pending<'_, Result<Vec<Option<u64>>, Error>> {
        self.coordinator().take_places(places)
    }

    fn give_places(&self, places: Vec<HeldPlace>) -> Pending<'_, Result<(), Error>> {
        self.coordinator().give_places(places)
    }

    fn places(
        &self,
        partitions: &Partitions,
        after: Option<&GatePlace>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<HeldPlace>, Error>> {
        self.coordinator().places(partitions, after, limit)
    }
}

impl Wakes for EmbeddedStore {
    fn ring(&self, bells: &[Bell]) -> Pending<'_, Result<(), Error>> {
        self.coordinator().ring(bells)
    }

    fn listen(&self) -> Pending<'_, Result<Box<dyn Listener>, Error>> {
        self.coordinator().listen()
    }
}

impl WorkQueue for EmbeddedStore {
    fn push(&self, items: Vec<WorkItem>) -> Pending<'_, Result<(), Error>> {
        self.coordinator().push(items)
    }

    fn push_begun(
        &self,
        items: Vec<BegunItem>,
        worker: &str,
        session: SessionId,
    ) -> Pending<'_, Result<Vec<Option<WorkLease>>, Error>> {
        self.coordinator().push_begun(items, worker, session)
    }

    fn pull(&self, pull: Pull) -> Pending<'_, Result<Vec<LeasedItem>, Error>> {
        self.coordinator().pull(pull)
    }

    fn known(&self, keys: &[WorkKey]) -> Pending<'_, Result<Vec<(WorkKey, ItemState)>, Error>> {
        self.coordinator().known(keys)
    }

    fn queue_depth(&self, limit: usize) -> Pending<'_, Result<Vec<QueueDepth>, Error>> {
        self.coordinator().queue_depth(limit)
    }

    fn renew_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        self.coordinator().renew_item(tenant, key, lease)
    }

    fn complete(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        self.coordinator().complete(tenant, key, lease)
    }

    fn return_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        self.coordinator().return_item(tenant, key, lease)
    }

    fn resume_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        worker: &str,
        term: LeaseTerm,
    ) -> Pending<'_, Result<Option<WorkLease>, Error>> {
        self.coordinator().resume_item(tenant, key, worker, term)
    }

    fn stop(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        self.coordinator().stop(keys)
    }

    fn withdraw(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        self.coordinator().withdraw(keys)
    }
}
