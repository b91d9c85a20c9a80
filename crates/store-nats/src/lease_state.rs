//! Sessions and what they hold, as one document: every change is a compare-and-set on all of it,
//! so that a partition has one holder. It does not know how it is stored.
//!
//! A session expires when a process has seen no renewal of it for its whole duration, by that
//! process's own clock; it writes that down, and from then on the session is over for all. No
//! clock is compared with another's.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use windlass_store::{
    ExpiredSession, LiveSession, Partition, ProcessInfo, SessionId, TakenPartition,
};

/// The document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LeaseState {
    /// The last id that was given.
    last: u64,
    sessions: BTreeMap<u64, SessionEntry>,
    partitions: BTreeMap<u32, u64>,
    named: BTreeMap<Box<str>, u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct SessionEntry {
    process: ProcessInfo,
    duration_ms: u64,
    /// Grows with each renewal.
    beat: u64,
    /// By its own process's clock; for people.
    began_ms: i64,
    expired: bool,
}

/// Which renewal of each session this process saw last, and when.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    seen: HashMap<u64, (u64, u64)>,
}

impl Observations {
    /// Looks at a document that was read at a moment.
    pub(crate) fn look(&mut self, state: &LeaseState, now: u64) {
        self.seen.retain(|id, _| state.sessions.contains_key(id));
        for (id, session) in &state.sessions {
            let seen = self.seen.entry(*id).or_insert((session.beat, now));
            if seen.0 != session.beat {
                *seen = (session.beat, now);
            }
        }
    }

    /// In how many milliseconds a session expires, as far as this process knows.
    fn left(&self, id: u64, session: &SessionEntry, now: u64) -> u64 {
        let seen = self.seen.get(&id).map_or(now, |seen| seen.1);
        seen.saturating_add(session.duration_ms).saturating_sub(now)
    }
}

impl LeaseState {
    /// Marks the sessions that have expired.
    pub(crate) fn expire(&mut self, observed: &Observations, now: u64) {
        for (id, session) in &mut self.sessions {
            session.expired |= observed.left(*id, session, now) == 0;
        }
    }

    pub(crate) fn is_live(&self, id: SessionId) -> bool {
        let session = self.sessions.get(&id.0);
        session.is_some_and(|session| !session.expired)
    }

    /// The same, if it has not expired by now as far as a process has observed.
    pub(crate) fn is_live_by(&self, observed: &Observations, id: SessionId, now: u64) -> bool {
        let session = self.sessions.get(&id.0);
        session.is_some_and(|it| !it.expired && observed.left(id.0, it, now) > 0)
    }

    /// Whether any session is live.
    pub(crate) fn has_live(&self) -> bool {
        self.sessions.values().any(|session| !session.expired)
    }

    /// The names of processes whose sessions began, or were renewed, after an earlier look.
    pub(crate) fn renewed_since(&self, before: &Self) -> Vec<String> {
        let live = self.sessions.iter().filter(|(_, session)| !session.expired);
        let renewed = live.filter(|(id, session)| {
            let known = before.sessions.get(id);
            known.is_none_or(|known| known.beat != session.beat)
        });
        let names = renewed.map(|(_, session)| session.process.name.to_string());
        names.collect()
    }

    /// A new session; `wall_ms` makes its id differ from those of a document that was lost.
    pub(crate) fn join(
        &mut self,
        process: ProcessInfo,
        duration_ms: u64,
        wall_ms: i64,
    ) -> SessionId {
        let floor = u64::try_from(wall_ms).unwrap_or(0).saturating_mul(1000);
        self.last = floor.max(self.last + 1);
        self.sessions.insert(
            self.last,
            SessionEntry {
                process,
                duration_ms,
                began_ms: wall_ms,
                ..SessionEntry::default()
            },
        );
        SessionId(self.last)
    }

    pub(crate) fn renew(&mut self, id: SessionId) -> bool {
        let session = self.sessions.get_mut(&id.0).filter(|it| !it.expired);
        session.map(|session| session.beat += 1).is_some()
    }

    pub(crate) fn describe(&mut self, id: SessionId, process: &ProcessInfo) -> bool {
        let session = self.sessions.get_mut(&id.0).filter(|it| !it.expired);
        let session = session.map(|session| {
            let name = std::mem::take(&mut session.process.name);
            session.process = ProcessInfo {
                name,
                ..process.clone()
            };
        });
        session.is_some()
    }

    /// Gives a session those of the partitions, of so many, that no live session holds.
    pub(crate) fn take(
        &mut self,
        id: SessionId,
        partitions: &[Partition],
        count: u32,
    ) -> Vec<TakenPartition> {
        let mut taken = Vec::new();
        if !self.is_live(id) {
            return taken;
        }
        for &partition in partitions.iter().filter(|it| it.0 < count) {
            let holder = self.partitions.get(&partition.0).copied().map(SessionId);
            if holder.is_some_and(|holder| self.is_live(holder)) {
                continue;
            }
            self.partitions.insert(partition.0, id.0);
            taken.push(TakenPartition {
                partition,
                from_expired: holder,
            });
        }
        taken
    }

    pub(crate) fn give(&mut self, id: SessionId, partitions: &[Partition]) {
        for partition in partitions {
            if self.partitions.get(&partition.0) == Some(&id.0) {
                self.partitions.remove(&partition.0);
            }
        }
    }

    pub(crate) fn take_named(&mut self, id: SessionId, name: &str) -> bool {
        let holder = self.named.get(name).copied().map(SessionId);
        let holder = holder.filter(|holder| self.is_live(*holder));
        if !self.is_live(id) || holder.is_some_and(|holder| holder != id) {
            return false;
        }
        self.named.insert(name.into(), id.0);
        true
    }

    pub(crate) fn give_named(&mut self, id: SessionId, name: &str) {
        if self.named.get(name) == Some(&id.0) {
            self.named.remove(name);
        }
    }

    /// The live sessions, by id.
    pub(crate) fn live(&self, observed: &Observations, now: u64, wall_ms: i64) -> Vec<LiveSession> {
        let live = self.sessions.iter().filter(|(_, session)| !session.expired);
        let live = live.map(|(id, session)| {
            let held = self.partitions.iter().filter(|(_, holder)| *holder == id);
            LiveSession {
                session: SessionId(*id),
                process: session.process.clone(),
                partitions: held.map(|(number, _)| Partition(*number)).collect(),
                began_ms: u64::try_from(wall_ms.saturating_sub(session.began_ms)).unwrap_or(0),
                expires_ms: observed.left(*id, session, now),
            }
        });
        live.collect()
    }

    /// Ends a session cleanly; `false` if it was not live.
    pub(crate) fn leave(&mut self, id: SessionId) -> bool {
        if !self.is_live(id) {
            return false;
        }
        self.sessions.remove(&id.0);
        self.partitions.retain(|_, holder| *holder != id.0);
        self.named.retain(|_, holder| *holder != id.0);
        true
    }

    pub(crate) fn expired(&self) -> Vec<ExpiredSession> {
        let expired = self.sessions.iter().filter(|(_, session)| session.expired);
        let expired = expired.map(|(id, session)| ExpiredSession {
            session: SessionId(*id),
            name: session.process.name.clone(),
        });
        expired.collect()
    }

    pub(crate) fn forget(&mut self, id: SessionId) -> bool {
        let is_expired = self.sessions.get(&id.0).is_some_and(|it| it.expired);
        if is_expired {
            self.sessions.remove(&id.0);
            self.named.retain(|_, holder| *holder != id.0);
        }
        is_expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_expires_only_when_no_renewal_was_seen_for_its_whole_duration() {
        let mut state = LeaseState::default();
        let a = state.join(ProcessInfo::named("a"), 100, 7);
        let (mut early, mut late) = (Observations::default(), Observations::default());
        early.look(&state, 0);
        // Another process looks for the first time much later: it does not know better.
        late.look(&state, 1_000);
        state.expire(&late, 1_099);
        assert!(state.is_live(a));
        assert!(state.renew(a));
        early.look(&state, 99);
        state.expire(&early, 198);
        assert!(state.is_live(a));
        state.expire(&early, 199);
        assert!(!state.is_live(a) && !state.renew(a), "it is over for all");
    }

    #[test]
    fn ids_are_not_given_again_after_the_document_was_lost() {
        let mut state = LeaseState::default();
        let first = state.join(ProcessInfo::named("a"), 1, 1_000);
        let mut lost = LeaseState::default();
        assert!(lost.join(ProcessInfo::named("b"), 1, 1_001) > first);
    }
}
