//! Finding the run that crashes the process, so that it alone is set aside (semantics §12.4).
//!
//! - A process that serves keeps one *session* record. A clean stop closes it; one that the next
//!   process finds open belongs to a crash.
//! - A crash counts against the runs that the session had in hand: those whose last record it
//!   wrote, and the one that it was acquiring. After a crash runs are acquired one at a time,
//!   and the record names each before it is loaded.
//! - A run with two crashes is a suspect. It waits for a while; then the record names it as
//!   alone, and nothing else is acquired until it has ended or survived for some time.
//! - What caused a crash, and what follows for each run, is decided by `CrashPolicy`; what is
//!   kept of a run that is set aside is in `dead_letter.rs`.
//!
//! A process that is killed from outside with one run in hand cannot be told from a crash by
//! that run, which is why a dead letter takes several crashes and can be requeued.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::event::After;
use windlass_core::{Millis, RunId, RunStatus};
use windlass_orchestrator::Adoption;
use windlass_orchestrator::supervisor::{CrashPolicy, SessionEnd, Verdict, cause_of_crash};
use windlass_store::{Error, Leases, Partitions, RunRow, WriterId};

use crate::engine::{Engine, Taking};
use crate::gates::Passage;
use crate::load::{LoadError, LoadedRun, Unavailable};

/// The kind of the notes that are session records; their keys are writers.
const SESSION: &str = "session";

/// How many notes or runs are read together.
const PAGE: usize = 256;

/// How many runs are acquired one at a time after those that had begun: what crashed the
/// process at its start is again among the first in line.
const CAREFUL: usize = 256;

/// How long a run that is acquired like this may take to its first record.
const FIRST_RECORD: Duration = Duration::from_secs(1);

/// How soon to look again.
const AGAIN: Duration = Duration::from_millis(2);

/// What a process that serves has written about itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Session {
    /// None while it serves, and after a crash until the next process looks.
    end: Option<SessionEnd>,
    acquiring: Option<RunId>,
    alone: Option<RunId>,
    /// Suspects that were alone before, and had not ended in that time.
    survivors: BTreeSet<RunId>,
    /// The suspect that was alone at the last crash, when a survivor may have caused it as
    /// well: it is the first to be alone this time.
    first: Option<RunId>,
    /// Crashes of runs that had not written anything since they were acquired.
    crashes: BTreeMap<RunId, u32>,
}

/// A run that waits to be acquired alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspended {
    /// How many processes died with it in hand.
    pub deaths: u32,
    /// When it is tried, if no other run is then.
    pub until: Millis,
}

/// A run that is to be acquired alone.
pub(crate) struct Suspect {
    pub(crate) row: RunRow,
    pub(crate) crashes: u32,
}

/// When a run is a suspect, and how it is treated then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) policy: CrashPolicy,
    /// How long a suspect waits.
    pub(crate) delay_ms: u64,
    /// How long nothing else is acquired, at first.
    pub(crate) alone_ms: u64,
}

impl Limits {
    /// How long a suspect stays alone: the longer, the more crashes there were without a
    /// known cause, up to the time that it waits before.
    fn alone(&self, crashes: u32) -> Duration {
        let doubled = crashes.saturating_sub(2).min(16);
        let grown = self.alone_ms.saturating_mul(1 << doubled);
        Duration::from_millis(grown.min(self.delay_ms.max(self.alone_ms)))
    }
}

/// What an engine knows of crashes.
#[derive(Default)]
pub(crate) struct CrashIsolation {
    /// Whether a suspect is alone, or it is not known yet who is one: nothing else begins.
    closed: AtomicBool,
    /// How many runs are still acquired one at a time.
    careful: AtomicUsize,
    session: tokio::sync::Mutex<Session>,
    suspects: Mutex<BTreeMap<RunId, Suspended>>,
    ends: Mutex<HashMap<u64, SessionEnd>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(writer: u64) -> String {
    format!("{writer:016x}")
}

impl CrashIsolation {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn suspended(&self, run: RunId) -> Option<Suspended> {
        lock(&self.suspects).get(&run).copied()
    }

    /// How many suspects wait.
    pub(crate) fn count(&self) -> usize {
        lock(&self.suspects).len()
    }
}

impl Engine {
    fn isolation(&self) -> &CrashIsolation {
        &self.shared().isolation
    }

    /// Whether a run waits to be acquired alone, because processes crashed with it in hand.
    pub fn suspended(&self, run: RunId) -> Option<Suspended> {
        self.isolation().suspended(run)
    }

    async fn keep_session(&self, writer: u64, session: &Session) -> Result<(), Error> {
        let text = serde_json::to_vec(session).expect("its keys are text");
        self.store().keep_note(SESSION, &key(writer), text).await
    }

    /// How the process ended that writes with this number.
    async fn session_end(&self, writer: u64) -> Result<SessionEnd, Error> {
        // A process that has not ended released the run in good order.
        if writer == self.writer().0 || self.live_writers().await?.contains(&writer) {
            return Ok(SessionEnd::Clean);
        }
        if let Some(&end) = lock(&self.isolation().ends).get(&writer) {
            return Ok(end);
        }
        let note = self.store().note_at(SESSION, &key(writer)).await?;
        let session = note.and_then(|text| serde_json::from_slice::<Session>(&text).ok());
        let end = session.and_then(|session| session.end);
        let end = end.unwrap_or(SessionEnd::Crashed { caused_by: None });
        lock(&self.isolation().ends).insert(writer, end);
        Ok(end)
    }

    /// How a run is recovered, after what became of the process that had it.
    ///
    /// # Errors
    /// The run is a dead letter, becomes one, or must wait until it is acquired alone.
    pub(crate) async fn crash_policy(
        &self,
        row: Option<&RunRow>,
        loaded: &LoadedRun,
        alone: bool,
    ) -> Result<After, LoadError> {
        let run = &loaded.run;
        if row.is_some_and(|row| row.dead) {
            return Err(LoadError::Unavailable(Unavailable::Dead));
        }
        let begun = matches!(run.status(), RunStatus::Running | RunStatus::Paused);
        let writer = match begun && run.has_attempts_out() {
            true => self.writer_at(run.id(), loaded.head.sequence).await?,
            false => None,
        };
        // Nothing of it was in hand: nothing is counted.
        let Some(WriterId(writer)) = writer else {
            return Ok(After::Death);
        };
        let end = self.session_end(writer).await?;
        let Some(limits) = self.crash_limits() else {
            return Ok(match end {
                SessionEnd::Clean => After::Stop,
                SessionEnd::Crashed { .. } => After::Death,
            });
        };
        let why = match limits.policy.verdict(run.id(), run.deaths(), end) {
            Verdict::Acquire(after) => return Ok(after),
            Verdict::Isolate { .. } if alone => return Ok(After::Death),
            Verdict::Isolate { crashes: deaths } => Unavailable::Later { deaths },
            Verdict::DeadLetter { crashes: deaths } => Unavailable::Poison { deaths },
        };
        Err(LoadError::Unavailable(why))
    }

    /// Finds out how the sessions before ended, and opens this one; gives the suspects among
    /// the runs that had not written anything. A process that dies meanwhile repeats it.
    pub(crate) async fn open_session(&self, limits: Limits) -> Result<Vec<Suspect>, Error> {
        let sessions = self.sessions().await?;
        let mut own = Session::default();
        let mut in_hand = HashMap::new();
        if !sessions.is_empty() {
            in_hand = self.last_writers().await?;
        }
        let mut crashed = Vec::new();
        let live = self.live_writers().await?;
        for (writer, mut session) in sessions {
            if live.contains(&writer) {
                in_hand.entry(writer).or_default();
                continue;
            }
            if session.end.is_none() {
                let runs = in_hand.entry(writer).or_default();
                self.examine(writer, &mut session, runs, limits).await?;
                own.first = session.alone.or(session.first).or(own.first);
                crashed.push((writer, session.clone()));
            }
            // The same count may stand in two records if a process died right here.
            for (run, crashes) in session.crashes {
                let known = own.crashes.entry(run).or_default();
                *known = crashes.max(*known);
            }
        }
        let mut suspects = Vec::new();
        for (&run, &crashes) in &own.crashes {
            let row = self.store().run(run).await?;
            if let Some(row) = row.filter(|_| crashes >= limits.policy.isolate_from()) {
                suspects.push(Suspect { row, crashes });
            }
        }
        if !crashed.is_empty() || !own.crashes.is_empty() {
            let careful = &self.isolation().careful;
            careful.store(usize::MAX, Ordering::Release);
        }
        self.keep_session(self.writer().0, &own).await?;
        *self.isolation().session.lock().await = own;
        for (writer, session) in crashed {
            self.keep_session(writer, &session).await?;
        }
        // What no run refers to any more is not asked for again.
        for (writer, _) in self.sessions().await? {
            if writer != self.writer().0 && !in_hand.contains_key(&writer) {
                self.store().forget_note(SESSION, &key(writer)).await?;
            }
        }
        Ok(suspects)
    }

    /// Who writes for the processes that share the store and live; this one may be missing.
    async fn live_writers(&self) -> Result<BTreeSet<u64>, Error> {
        if !self.shared().owned.is_shared() {
            return Ok(BTreeSet::new());
        }
        let writer = |name: &str| u64::from_str_radix(name.rsplit(' ').next()?, 16).ok();
        let live = Leases::sessions(&**self.store()).await?;
        Ok(live.iter().filter_map(|it| writer(&it.name)).collect())
    }

    async fn sessions(&self) -> Result<Vec<(u64, Session)>, Error> {
        let (mut found, mut after) = (Vec::new(), None::<Box<str>>);
        loop {
            let page = self.store().notes(SESSION, after.as_deref(), PAGE).await?;
            let Some((last, _)) = page.last() else {
                return Ok(found);
            };
            after = Some(last.clone());
            found.extend(page.into_iter().filter_map(|(key, text)| {
                let session = serde_json::from_slice(&text).unwrap_or_default();
                Some((u64::from_str_radix(&key, 16).ok()?, session))
            }));
        }
    }

    /// The sessions that wrote last to runs that have begun, with those that do not rest.
    async fn last_writers(&self) -> Result<HashMap<u64, BTreeSet<RunId>>, Error> {
        let mut writers: HashMap<u64, BTreeSet<RunId>> = HashMap::new();
        let mut after = None;
        loop {
            let page = self.store().begun(&Partitions::All, after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(writers);
            };
            after = Some(last.run);
            for row in page.into_iter().filter(|row| !row.dead) {
                if let Some(writer) = self.last_writer(row.run).await {
                    let runs = writers.entry(writer).or_default();
                    if row.status == RunStatus::Running {
                        runs.insert(row.run);
                    }
                }
            }
        }
    }

    /// None for a run that cannot be read: that is found when it is acquired.
    async fn last_writer(&self, run: RunId) -> Option<u64> {
        let last = self.store().head(run).await.ok()?.sequence;
        Some(self.writer_at(run, last).await.ok()??.0)
    }

    /// The runs of these whose last record a session wrote.
    async fn written_by(&self, writer: u64, runs: impl Iterator<Item = &RunId>) -> BTreeSet<RunId> {
        let mut written = BTreeSet::new();
        for &run in runs {
            if self.last_writer(run).await == Some(writer) {
                written.insert(run);
            }
        }
        written
    }

    /// What a session that crashed had in hand, what caused that, and how often those that
    /// had not written anything have crashed now.
    async fn examine(
        &self,
        writer: u64,
        session: &mut Session,
        in_hand: &mut BTreeSet<RunId>,
        limits: Limits,
    ) -> Result<(), Error> {
        let named = session.crashes.keys().chain(&session.acquiring);
        let written = self.written_by(writer, named).await;
        session.crashes.retain(|run, _| !written.contains(run));
        let acquiring = session.acquiring.filter(|run| !written.contains(run));
        in_hand.extend(acquiring);
        let caused_by = cause_of_crash(session.alone, &session.survivors, in_hand);
        let end = SessionEnd::Crashed { caused_by };
        session.end = Some(end);
        lock(&self.isolation().ends).insert(writer, end);
        let Some(run) = acquiring.filter(|run| end.counts_against(*run)) else {
            return Ok(());
        };
        let before = session.crashes.remove(&run).unwrap_or(0);
        let row = self.store().run(run).await?;
        match (row, limits.policy.verdict(run, before, end)) {
            (Some(row), Verdict::DeadLetter { crashes }) => {
                // Loading it may be what crashes the process: its contents stay unread.
                self.dead_letter_crasher(&row, crashes, None).await
            }
            (Some(row), _) if !row.dead && !row.status.is_final() => {
                session.crashes.insert(run, before + 1);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Everything that had begun is here: only the first in line are acquired carefully now.
    pub(crate) fn has_recovered(&self) {
        let careful = &self.isolation().careful;
        let _ = careful.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            (left > 0).then_some(CAREFUL)
        });
    }

    /// After a crash: names a run in the session record before it is acquired. No other is
    /// while the answer lives.
    pub(crate) async fn name_acquired(&self, run: RunId) -> Option<impl Sized + use<'_>> {
        let isolation = self.isolation();
        let take = |left: usize| left.checked_sub(1);
        let careful = &isolation.careful;
        careful
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .ok()?;
        let mut session = isolation.session.lock().await;
        session.acquiring = Some(run);
        // A store that does not take this will not take the run's record either.
        let _ = self.keep_session(self.writer().0, &session).await;
        Some(session)
    }

    /// Waits for the first record of a run that was acquired; its crashes before are forgiven.
    pub(crate) async fn has_survived(&self, run: RunId) {
        let written = async {
            while self.last_writer(run).await != Some(self.writer().0) && self.carries(run).await {
                tokio::time::sleep(AGAIN).await;
            }
        };
        let _ = tokio::time::timeout(FIRST_RECORD, written).await;
    }

    /// This engine stops, and leaves so many runs behind that have not ended. What cannot be
    /// written counts as a crash, which the next success forgives.
    pub(crate) async fn record_clean_shutdown(&self, left: usize) {
        let own = self.writer().0;
        let mut session = self.isolation().session.lock().await;
        let written = self.written_by(own, session.crashes.keys()).await;
        session.crashes.retain(|run, _| !written.contains(run));
        if left > 0 || !session.crashes.is_empty() || self.shared().owned.is_shared() {
            session.end = Some(SessionEnd::Clean);
            let _ = self.keep_session(own, &session).await;
        } else if self.crash_limits().is_some() {
            let _ = self.store().forget_note(SESSION, &key(own)).await;
        }
    }

    /// From now on these wait to be acquired alone.
    pub(crate) fn suspend(&self, suspects: &[Suspect], limits: Limits) {
        let until = self.now().plus(limits.delay_ms);
        for &Suspect { ref row, crashes } in suspects {
            let suspended = Suspended {
                deaths: crashes,
                until,
            };
            lock(&self.isolation().suspects).insert(row.run, suspended);
        }
    }

    /// Acquires suspects after a while, one after the other, each alone.
    pub(crate) fn isolate(&self, suspects: Vec<Suspect>, limits: Limits) {
        if suspects.is_empty() {
            return;
        }
        self.suspend(&suspects, limits);
        let (engine, stop) = (self.clone(), self.stop_token());
        let mut waiting = VecDeque::from(suspects);
        let isolating = async move {
            let first = engine.isolation().session.lock().await.first;
            let is_first = |suspect: &Suspect| Some(suspect.row.run) == first;
            if let Some(place) = waiting.iter().position(is_first) {
                waiting.swap(0, place);
            }
            tokio::time::sleep(Duration::from_millis(limits.delay_ms)).await;
            while let Some(suspect) = waiting.pop_front() {
                if !engine.run_alone(&suspect, limits).await {
                    waiting.push_back(suspect);
                    tokio::time::sleep(AGAIN).await;
                }
            }
        };
        tokio::spawn(async move { stop.run_until_cancelled(isolating).await });
    }

    /// Acquires one suspect while nothing else is; false if it has to wait.
    async fn run_alone(&self, suspect: &Suspect, limits: Limits) -> bool {
        let closed = Closed::new(self);
        while self.shared().gates.beginning() > 0 {
            tokio::time::sleep(AGAIN).await;
        }
        let run = suspect.row.run;
        if self.set_alone(Some(run)).await.is_err() {
            return false;
        }
        let acquired = self.acquire_suspect(&suspect.row).await;
        if acquired == Some(true) {
            lock(&self.isolation().suspects).remove(&run);
            let _ = tokio::time::timeout(limits.alone(suspect.crashes), self.wait(run)).await;
        }
        let _ = self.set_alone(None).await;
        drop(closed);
        let RunRow {
            tenant, priority, ..
        } = &suspect.row;
        self.shared().arrived(tenant.clone(), *priority);
        acquired.is_some()
    }

    /// Names the run that is acquired alone; the one before has survived.
    async fn set_alone(&self, run: Option<RunId>) -> Result<(), Error> {
        let mut session = self.isolation().session.lock().await;
        let before = session.alone.take();
        session.survivors.extend(before);
        session.alone = run;
        session.acquiring = run;
        self.keep_session(self.writer().0, &session).await
    }

    /// Whether a suspect is here now; none if its gate is full.
    async fn acquire_suspect(&self, row: &RunRow) -> Option<bool> {
        if row.status != RunStatus::Pending {
            let taking = Taking::recover(Adoption::RECOVER).alone();
            // What cannot be read now is found at the next start.
            return Some(self.hold(row.run, taking).await.is_ok());
        }
        match self.shared().gates.pass(row) {
            Passage::Free => Some(self.begin_admitted(row).await),
            Passage::Full | Passage::Beginning => None,
        }
    }
}

/// While this lives, nothing is acquired but a suspect.
pub(crate) struct Closed(Engine);

impl Closed {
    pub(crate) fn new(engine: &Engine) -> Self {
        engine.isolation().closed.store(true, Ordering::Release);
        Self(engine.clone())
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.isolation().closed.store(false, Ordering::Release);
        self.0.shared().bell.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspects_stay_alone_for_longer_with_each_crash_up_to_the_delay() {
        let limits = Limits {
            policy: CrashPolicy { max_crashes: 3 },
            delay_ms: 300_000,
            alone_ms: 10_000,
        };
        let seconds = |crashes| limits.alone(crashes).as_secs();
        assert_eq!([2, 3, 4, 60].map(seconds), [10, 20, 40, 300]);
    }
}
