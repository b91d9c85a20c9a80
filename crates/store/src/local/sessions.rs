//! Sessions and partitions in memory. Time is an argument; `expire` removes what has run out,
//! and every other method expects it to have been called.

use std::collections::BTreeMap;
use std::future::ready;

use super::LocalCoordinator;
use crate::{
    Error, ExpiredSession, JoinedSession, Leases, LiveSession, Partition, Pending, ProcessInfo,
    SessionId, TakenPartition,
};

struct Session {
    process: ProcessInfo,
    duration_ms: u64,
    began: u64,
    /// The first moment at which it is not live.
    until: u64,
}

/// Sessions, and what they hold.
pub(super) struct SessionTable {
    partitions: u32,
    /// Whether sessions last as long as the process.
    lasting: bool,
    next: u64,
    live: BTreeMap<SessionId, Session>,
    expired: BTreeMap<SessionId, Box<str>>,
    holders: BTreeMap<Partition, SessionId>,
    /// Partitions that no session holds and whose last holder expired.
    left_by: BTreeMap<Partition, SessionId>,
    /// The holders of named leases; one that is not live holds nothing.
    named: BTreeMap<Box<str>, SessionId>,
}

impl SessionTable {
    pub(super) fn new(partitions: u32) -> Self {
        Self {
            partitions,
            lasting: false,
            next: 1,
            live: BTreeMap::new(),
            expired: BTreeMap::new(),
            holders: BTreeMap::new(),
            left_by: BTreeMap::new(),
            named: BTreeMap::new(),
        }
    }

    pub(super) fn lasting(partitions: u32) -> Self {
        Self {
            lasting: true,
            ..Self::new(partitions)
        }
    }

    pub(super) fn is_live(&self, session: SessionId) -> bool {
        self.live.contains_key(&session)
    }

    /// Ends the sessions that were not renewed in time.
    pub(super) fn expire(&mut self, now: u64) {
        if self.lasting {
            return;
        }
        let over = |session: &Session| session.until <= now;
        let ended = self.live.iter().filter(|(_, session)| over(session));
        let ended: Vec<SessionId> = ended.map(|(&id, _)| id).collect();
        for id in ended {
            if let Some(session) = self.live.remove(&id) {
                self.expired.insert(id, session.process.name);
            }
            for partition in self.held_by(id) {
                self.holders.remove(&partition);
                self.left_by.insert(partition, id);
            }
        }
    }

    fn held_by(&self, session: SessionId) -> Vec<Partition> {
        let holders = self.holders.iter();
        let held = holders.filter(|&(_, &holder)| holder == session);
        held.map(|(&partition, _)| partition).collect()
    }

    fn join(
        &mut self,
        id: SessionId,
        process: &ProcessInfo,
        duration_ms: u64,
        now: u64,
    ) -> JoinedSession {
        self.next = self.next.max(id.0 + 1);
        let session = Session {
            process: process.clone(),
            duration_ms,
            began: now,
            until: now.saturating_add(duration_ms),
        };
        self.live.insert(id, session);
        JoinedSession {
            session: id,
            partitions: self.partitions,
        }
    }

    fn renew(&mut self, session: SessionId, now: u64) -> bool {
        match self.live.get_mut(&session) {
            Some(live) => {
                live.until = now.saturating_add(live.duration_ms);
                true
            }
            None => false,
        }
    }

    fn take(&mut self, session: SessionId, wanted: &[Partition]) -> Vec<TakenPartition> {
        let mut taken = Vec::new();
        if !self.is_live(session) {
            return taken;
        }
        for &partition in wanted {
            if partition.0 >= self.partitions || self.holders.contains_key(&partition) {
                continue;
            }
            self.holders.insert(partition, session);
            taken.push(TakenPartition {
                partition,
                from_expired: self.left_by.remove(&partition),
            });
        }
        taken
    }

    fn give(&mut self, session: SessionId, given: &[Partition]) {
        for partition in given {
            if self.holders.get(partition) == Some(&session) {
                self.holders.remove(partition);
            }
        }
    }

    fn describe(&mut self, session: SessionId, process: &ProcessInfo) -> bool {
        let Some(live) = self.live.get_mut(&session) else {
            return false;
        };
        let name = std::mem::take(&mut live.process.name);
        live.process = ProcessInfo {
            name,
            ..process.clone()
        };
        true
    }

    fn take_named(&mut self, session: SessionId, name: &str) -> bool {
        if !self.is_live(session) {
            return false;
        }
        let holder = self.named.get(name).copied();
        if holder.is_some_and(|holder| holder != session && self.is_live(holder)) {
            return false;
        }
        self.named.insert(name.into(), session);
        true
    }

    fn give_named(&mut self, session: SessionId, name: &str) {
        if self.named.get(name) == Some(&session) {
            self.named.remove(name);
        }
    }

    fn leave(&mut self, session: SessionId) -> bool {
        let held = self.held_by(session);
        self.give(session, &held);
        self.live.remove(&session).is_some()
    }

    fn sessions(&self, now: u64) -> Vec<LiveSession> {
        let live = self.live.iter().map(|(&id, session)| LiveSession {
            session: id,
            process: session.process.clone(),
            partitions: self.held_by(id),
            began_ms: now.saturating_sub(session.began),
            expires_ms: session.until.saturating_sub(now),
        });
        live.collect()
    }

    fn expired(&self) -> Vec<ExpiredSession> {
        let expired = self.expired.iter().map(|(&id, name)| ExpiredSession {
            session: id,
            name: name.clone(),
        });
        expired.collect()
    }
}

impl LocalCoordinator {
    /// Begins a session with an id that another table gave.
    pub fn join_as(
        &self,
        session: SessionId,
        process: &ProcessInfo,
        duration_ms: u64,
    ) -> JoinedSession {
        let (mut tables, now) = self.current();
        tables.sessions.join(session, process, duration_ms, now)
    }

    /// Whether a session is live.
    pub fn is_live(&self, session: SessionId) -> bool {
        self.current().0.sessions.is_live(session)
    }

    /// Notes that a session of an earlier process left a partition, unless it is held.
    pub fn was_left_by(&self, partition: Partition, session: SessionId) {
        let sessions = &mut self.current().0.sessions;
        if !sessions.holders.contains_key(&partition) {
            sessions.left_by.insert(partition, session);
        }
    }
}

impl Leases for LocalCoordinator {
    fn join(
        &self,
        process: &ProcessInfo,
        duration_ms: u64,
    ) -> Pending<'_, Result<JoinedSession, Error>> {
        let (mut tables, now) = self.current();
        let id = SessionId(tables.sessions.next);
        let joined = tables.sessions.join(id, process, duration_ms, now);
        Box::pin(ready(Ok(joined)))
    }

    fn renew(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        let (mut tables, now) = self.current();
        Box::pin(ready(Ok(tables.sessions.renew(session, now))))
    }

    fn take(
        &self,
        session: SessionId,
        partitions: &[Partition],
    ) -> Pending<'_, Result<Vec<TakenPartition>, Error>> {
        let taken = self.current().0.sessions.take(session, partitions);
        Box::pin(ready(Ok(taken)))
    }

    fn give(&self, session: SessionId, partitions: &[Partition]) -> Pending<'_, Result<(), Error>> {
        self.current().0.sessions.give(session, partitions);
        Box::pin(ready(Ok(())))
    }

    fn describe(
        &self,
        session: SessionId,
        process: &ProcessInfo,
    ) -> Pending<'_, Result<bool, Error>> {
        let described = self.current().0.sessions.describe(session, process);
        Box::pin(ready(Ok(described)))
    }

    fn take_named(&self, session: SessionId, name: &str) -> Pending<'_, Result<bool, Error>> {
        let taken = self.current().0.sessions.take_named(session, name);
        Box::pin(ready(Ok(taken)))
    }

    fn give_named(&self, session: SessionId, name: &str) -> Pending<'_, Result<(), Error>> {
        self.current().0.sessions.give_named(session, name);
        Box::pin(ready(Ok(())))
    }

    fn sessions(&self) -> Pending<'_, Result<Vec<LiveSession>, Error>> {
        let (tables, now) = self.current();
        Box::pin(ready(Ok(tables.sessions.sessions(now))))
    }

    fn leave(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        Box::pin(ready(Ok(self.current().0.sessions.leave(session))))
    }

    fn expired(&self) -> Pending<'_, Result<Vec<ExpiredSession>, Error>> {
        Box::pin(ready(Ok(self.current().0.sessions.expired())))
    }

    fn forget_session(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        let removed = self.current().0.sessions.expired.remove(&session);
        Box::pin(ready(Ok(removed.is_some())))
    }
}
