//! The session record of a process that serves: what it says, what the records of processes
//! before tell about their crashes, and how it is closed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use windlass_core::{RunId, RunStatus};
use windlass_orchestrator::supervisor::{CrashVerdict, SessionEnd, cause_of_crash};
use windlass_store::{Error, Leases, Partitions, Role};

use super::{IsolationLimits, Suspect, lock};
use crate::engine::Engine;

/// The kind of the notes that are session records; their keys are writers.
const SESSION: &str = "session";

/// How many notes or runs are read together.
const PAGE: usize = 256;

/// What a process that serves has written about itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Session {
    /// None while it serves, and after a crash until the next process looks.
    end: Option<SessionEnd>,
    /// Whether it calls no action itself: the open attempts of its runs are with other processes,
    /// and did not take it down.
    delegates: bool,
    pub(super) acquiring: Option<RunId>,
    pub(super) alone: Option<RunId>,
    /// Suspects that were alone before, and had not ended in that time.
    pub(super) survivors: BTreeSet<RunId>,
    /// The suspect that was alone at the last crash, when a survivor may have caused it as
    /// well: it is the first to be alone this time.
    pub(super) first: Option<RunId>,
    /// Crashes of runs that had not written anything since they were acquired.
    crashes: BTreeMap<RunId, u32>,
}

fn key(writer: u64) -> String {
    format!("{writer:016x}")
}

impl Engine {
    pub(super) async fn keep_session(&self, writer: u64, session: &Session) -> Result<(), Error> {
        let text = serde_json::to_vec(session).expect("its keys are text");
        self.store().keep_note(SESSION, &key(writer), text).await
    }

    /// Whether the process that writes with this number calls no action itself.
    pub(super) async fn delegates(&self, writer: u64) -> Result<bool, Error> {
        let note = self.store().note_at(SESSION, &key(writer)).await?;
        let session = note.and_then(|text| serde_json::from_slice::<Session>(&text).ok());
        Ok(session.is_some_and(|session| session.delegates))
    }

    /// How the process ended that writes with this number.
    pub(super) async fn session_end(&self, writer: u64) -> Result<SessionEnd, Error> {
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

    /// Finds out how the sessions before ended, and opens this one; gives the suspects among
    /// the runs that had not written anything. A process that dies meanwhile repeats it.
    pub(crate) async fn open_session(
        &self,
        limits: IsolationLimits,
    ) -> Result<Vec<Suspect>, Error> {
        let sessions = self.sessions().await?;
        let mut own = Session {
            delegates: !self.options().roles.has(Role::Worker),
            ..Session::default()
        };
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

    /// The writers of the live processes that share the store; this one may be missing.
    pub(crate) async fn live_writers(&self) -> Result<BTreeSet<u64>, Error> {
        if !self.shared().owned.is_shared() {
            return Ok(BTreeSet::new());
        }
        let writer = |name: &str| u64::from_str_radix(name.rsplit(' ').next()?, 16).ok();
        let live = Leases::sessions(&**self.store()).await?;
        Ok(live
            .iter()
            .filter_map(|it| writer(&it.process.name))
            .collect())
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

    /// None for a run that cannot be read: acquiring it reports that.
    pub(super) async fn last_writer(&self, run: RunId) -> Option<u64> {
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
        limits: IsolationLimits,
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
            (Some(row), CrashVerdict::DeadLetter { crashes }) => {
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

    /// This engine stops, and leaves so many runs behind that have not ended. What cannot be
    /// written counts as a crash, which the next success forgives.
    pub(crate) async fn record_clean_shutdown(&self, left: usize) {
        if !self.options().roles.has(Role::Orchestrator) {
            // It had no run in hand, and opened no session record.
            return;
        }
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
}
