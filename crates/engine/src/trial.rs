//! Who kills the process (semantics §12). A process that dies with one run in hand was killed
//! by it. With several in hand it may be any of them: then nobody is found guilty, and those
//! who were there at two deaths are tried one after the other, each while nothing else
//! begins. Only who dies alone, or in its trial, is ever buried; the others are not counted
//! for that death. So a run that happens to be long is never buried for another's deed. What
//! cannot be told apart is a process that is killed from outside with a single run in hand:
//! that counts as the run's doing, and is why burying takes several deaths and can be undone.
//!
//! All of it is written down before it counts: who serves (`process`), who is about to begin
//! after a death (`begin`), who is tried beside whom (`trial`), and what was found about
//! each death when it was first looked at (`death`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::{Millis, RunId, RunStatus};
use windlass_orchestrator::Adoption;
use windlass_store::{Error, RunRow};

use crate::dead_letter::Limits;
use crate::driver::Message;
use crate::engine::{Engine, Taking};
use crate::gates::Passage;

const PROCESS: &str = "process";
const BEGIN: &str = "begin";
const TRIAL: &str = "trial";
const DEATH: &str = "death";

/// How many notes or runs are read together.
const PAGE: usize = 256;

/// How long a trial waits for those that are about to begin, at most, in milliseconds.
const SETTLING_MS: u64 = 1000;

/// A run that waits for its trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspended {
    /// How many processes died with it in hand.
    pub deaths: u32,
    /// When it is tried, if nobody else is then.
    pub until: Millis,
}

/// What is known of deaths, and of those that may have caused them.
#[derive(Default)]
pub(crate) struct Trials {
    /// By writer that died: who is found guilty, if anybody.
    culprits: Mutex<HashMap<u64, Option<RunId>>>,
    suspended: Mutex<BTreeMap<RunId, Suspended>>,
    /// Whether somebody is tried now: nobody else begins.
    pub(crate) closed: AtomicBool,
    /// Whether to write down who is about to begin.
    pub(crate) careful: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Trials {
    /// Who was found guilty of a writer's death; none if nobody was, or nobody looked.
    pub(crate) fn culprit(&self, writer: u64) -> Option<RunId> {
        lock(&self.culprits).get(&writer).copied().flatten()
    }

    pub(crate) fn suspended(&self, run: RunId) -> Option<Suspended> {
        lock(&self.suspended).get(&run).copied()
    }

    /// How many wait for their trial.
    pub(crate) fn count(&self) -> usize {
        lock(&self.suspended).len()
    }

    fn suspend(&self, run: RunId, suspended: Suspended) {
        lock(&self.suspended).insert(run, suspended);
    }

    fn release(&self, run: RunId) {
        lock(&self.suspended).remove(&run);
    }
}

/// A run that is about to begin.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Beginning {
    /// The process that begins it; none once its death was counted.
    writer: Option<u64>,
    deaths: u32,
}

/// A run that is tried.
#[derive(Serialize, Deserialize)]
struct Trial {
    writer: u64,
    /// The runs that were in hand when it began.
    beside: BTreeSet<RunId>,
}

/// What was found about a death.
#[derive(Serialize, Deserialize)]
struct Death {
    culprit: Option<RunId>,
}

/// A run that is to be tried.
pub(crate) struct Suspect {
    pub(crate) row: RunRow,
    pub(crate) deaths: u32,
}

fn name(writer: u64) -> String {
    format!("{writer:016x}")
}

fn written<T: Serialize>(note: &T) -> Vec<u8> {
    serde_json::to_vec(note).unwrap_or_default()
}

/// Who did it: the only one there was, or the one that was tried, if all others had been
/// there before.
fn guilty(
    writer: u64,
    members: &BTreeSet<RunId>,
    trials: &BTreeMap<RunId, Trial>,
) -> Option<RunId> {
    if members.len() == 1 {
        return members.first().copied();
    }
    let convicts = |(run, trial): &(&RunId, &Trial)| {
        let others = || members.iter().filter(|member| member != run);
        trial.writer == writer
            && members.contains(run)
            && others().all(|other| trial.beside.contains(other))
    };
    trials.iter().find(convicts).map(|(run, _)| *run)
}

/// Notes by their keys; none where the text cannot be read.
type Notes<T> = Vec<(Box<str>, Option<T>)>;

impl Engine {
    fn trials(&self) -> &Trials {
        &self.shared().trials
    }

    /// Whether a run waits for its trial, because processes died with it in hand.
    pub fn suspended(&self, run: RunId) -> Option<Suspended> {
        self.trials().suspended(run)
    }

    /// All notes of a kind whose key and text can be read.
    fn all_notes<T: for<'a> Deserialize<'a>>(&self, kind: &str) -> Result<Notes<T>, Error> {
        let mut found = Notes::new();
        loop {
            let after = found.last().map(|(key, _)| &**key);
            let page = self.store().notes(kind, after, PAGE)?;
            if page.is_empty() {
                return Ok(found);
            }
            let read = |bytes: Vec<u8>| serde_json::from_slice(&bytes).ok();
            found.extend(page.into_iter().map(|(key, bytes)| (key, read(bytes))));
        }
    }

    fn run_notes<T: for<'a> Deserialize<'a>>(
        &self,
        kind: &str,
    ) -> Result<BTreeMap<RunId, T>, Error> {
        let notes = self.all_notes(kind)?.into_iter();
        Ok(notes
            .filter_map(|(key, note)| Some((key.parse().ok()?, note?)))
            .collect())
    }

    /// Looks at how those who served before ended, and says that this one serves now.
    pub(crate) async fn weigh_deaths(&self, limits: Limits) -> Result<Vec<Suspect>, Error> {
        let before = self.all_notes::<serde::de::IgnoredAny>(PROCESS)?;
        let own = name(self.writer().0);
        let store = self.store();
        store.keep_note(PROCESS, &own, b"null".to_vec()).await?;
        let died: BTreeSet<u64> = before
            .iter()
            .filter_map(|(key, _)| u64::from_str_radix(key, 16).ok())
            .collect();
        let begins: BTreeMap<RunId, Beginning> = self.run_notes(BEGIN)?;
        if died.is_empty() && begins.is_empty() {
            return Ok(Vec::new());
        }
        self.trials().careful.store(true, Ordering::Release);
        let engine = self.clone();
        let looking = tokio::task::spawn_blocking(move || engine.in_hand());
        let stopped = |_| Error::Unavailable("the engine has stopped".to_owned());
        let hands = looking.await.map_err(stopped)??;
        self.find_guilty(&hands, &begins, &died).await?;
        let suspects = self.count_begins(begins, &died, limits).await?;
        for (run, _) in self.run_notes::<Trial>(TRIAL)? {
            store.forget_note(TRIAL, &run.to_string()).await?;
        }
        for (key, _) in self.all_notes::<Death>(DEATH)? {
            let writer = u64::from_str_radix(&key, 16).unwrap_or(0);
            if !hands.contains_key(&writer) {
                store.forget_note(DEATH, &key).await?;
            }
        }
        for writer in died {
            store.forget_note(PROCESS, &name(writer)).await?;
        }
        Ok(suspects)
    }

    /// The runs that go, by who wrote to them last, if that one died.
    fn in_hand(&self) -> Result<HashMap<u64, BTreeSet<RunId>>, Error> {
        let mut hands: HashMap<u64, BTreeSet<RunId>> = HashMap::new();
        let mut after = None;
        loop {
            let page = self.store().begun(after, PAGE)?;
            let Some(last) = page.last() else {
                return Ok(hands);
            };
            after = Some(last.run);
            for row in page {
                if row.dead || row.status != RunStatus::Running {
                    continue;
                }
                // One that cannot be read is found when it is to go on.
                let Ok(Some(writer)) = self.last_writer(row.run) else {
                    continue;
                };
                if !self.writer_stopped_well(writer)? {
                    hands.entry(writer.0).or_default().insert(row.run);
                }
            }
        }
    }

    /// Decides about every death that was not decided about before.
    async fn find_guilty(
        &self,
        hands: &HashMap<u64, BTreeSet<RunId>>,
        begins: &BTreeMap<RunId, Beginning>,
        died: &BTreeSet<u64>,
    ) -> Result<(), Error> {
        let trials = self.run_notes::<Trial>(TRIAL)?;
        let mut members = hands.clone();
        for (run, beginning) in begins {
            if let Some(writer) = beginning.writer.filter(|writer| died.contains(writer)) {
                members.entry(writer).or_default().insert(*run);
            }
        }
        for (writer, members) in members {
            let key = name(writer);
            let known = self.store().note_at(DEATH, &key).ok().flatten();
            let known: Option<Death> = known.and_then(|text| serde_json::from_slice(&text).ok());
            let death = match known {
                Some(death) => death,
                None => {
                    let culprit = guilty(writer, &members, &trials);
                    let death = Death { culprit };
                    self.store().keep_note(DEATH, &key, written(&death)).await?;
                    death
                }
            };
            lock(&self.trials().culprits).insert(writer, death.culprit);
        }
        Ok(())
    }

    /// Counts deaths of those that were about to begin; gives those that are to be tried.
    async fn count_begins(
        &self,
        begins: BTreeMap<RunId, Beginning>,
        died: &BTreeSet<u64>,
        limits: Limits,
    ) -> Result<Vec<Suspect>, Error> {
        let mut suspects = Vec::new();
        for (run, beginning) in begins {
            let key = run.to_string();
            let row = self.store().run(run).ok().flatten();
            let Some(row) = row.filter(|row| row.status == RunStatus::Pending && !row.dead) else {
                // It began, or is gone.
                self.store().forget_note(BEGIN, &key).await?;
                continue;
            };
            let writer = beginning.writer.filter(|writer| died.contains(writer));
            let culprit = writer.and_then(|writer| self.trials().culprit(writer));
            let counts = writer.is_some() && culprit.is_none_or(|culprit| culprit == run);
            let deaths = beginning.deaths + u32::from(counts);
            if culprit == Some(run) && deaths >= limits.max_retries.max(1) {
                self.dead_letter_crasher(&row, deaths).await?;
                self.store().forget_note(BEGIN, &key).await?;
                continue;
            }
            let counted = Beginning {
                writer: None,
                deaths,
            };
            self.store()
                .keep_note(BEGIN, &key, written(&counted))
                .await?;
            if deaths >= limits.suspicious() {
                suspects.push(Suspect { row, deaths });
            }
        }
        Ok(suspects)
    }

    /// This engine stops in good order.
    pub(crate) async fn forget_serving(&self) {
        if self.poison_limits().is_some() {
            // Otherwise the next looks for a death that was none, and finds nobody guilty.
            let own = name(self.writer().0);
            let _ = self.store().forget_note(PROCESS, &own).await;
        }
    }

    /// Writes down that a run is about to begin, if somebody died before.
    pub(crate) async fn about_to_begin(&self, run: RunId) -> bool {
        if !self.trials().careful.load(Ordering::Acquire) {
            return false;
        }
        let key = run.to_string();
        let before = self.store().note_at(BEGIN, &key).ok().flatten();
        let before: Option<Beginning> = before.and_then(|text| serde_json::from_slice(&text).ok());
        let beginning = Beginning {
            writer: Some(self.writer().0),
            deaths: before.map_or(0, |before| before.deaths),
        };
        let keeping = self.store().keep_note(BEGIN, &key, written(&beginning));
        keeping.await.is_ok()
    }

    /// It has begun, or is in line again.
    pub(crate) async fn has_begun(&self, run: RunId) {
        let _ = self.store().forget_note(BEGIN, &run.to_string()).await;
    }

    /// Everything that was in line after a death has begun.
    pub(crate) fn line_is_empty(&self) {
        if lock(&self.trials().suspended).is_empty() {
            self.trials().careful.store(false, Ordering::Release);
        }
    }

    /// Tries suspects once their time has come, one after the other.
    pub(crate) fn try_later(&self, suspects: Vec<Suspect>, limits: Limits) {
        if suspects.is_empty() {
            return;
        }
        let until = self.now().plus(limits.delay_ms);
        for suspect in &suspects {
            let deaths = suspect.deaths;
            let suspended = Suspended { deaths, until };
            self.trials().suspend(suspect.row.run, suspended);
        }
        let (engine, stop) = (self.clone(), self.stop_token());
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_millis(limits.delay_ms)) => {}
            }
            for suspect in suspects {
                if stop.is_cancelled() {
                    return;
                }
                engine.try_alone(suspect, limits).await;
            }
        });
    }

    /// Carries one suspect on, or begins it, while nobody else begins.
    async fn try_alone(&self, suspect: Suspect, limits: Limits) {
        let closed = Closed::new(self);
        let settled = tokio::time::timeout(Duration::from_millis(SETTLING_MS), async {
            while self.shared().gates.beginning() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        // Whoever is still about to begin then makes the trial say less.
        let _ = settled.await;
        let run = suspect.row.run;
        let key = run.to_string();
        let trial = Trial {
            writer: self.writer().0,
            beside: self.ask(Message::List).await.unwrap_or_default(),
        };
        let noted = self.store().keep_note(TRIAL, &key, written(&trial)).await;
        let taken = self.take_suspect(&suspect.row).await;
        self.trials().release(run);
        if taken && noted.is_ok() {
            let window = limits.window(suspect.deaths);
            let (stop, ending) = (self.stop_token(), self.wait(run));
            tokio::select! {
                _ = ending => {}
                () = stop.cancelled() => {}
                () = tokio::time::sleep(window) => {}
            }
        }
        let _ = self.store().forget_note(TRIAL, &key).await;
        drop(closed);
        self.shared()
            .arrived(suspect.row.tenant, suspect.row.priority);
    }

    /// Whether it is carried on now.
    async fn take_suspect(&self, row: &RunRow) -> bool {
        if row.status != RunStatus::Pending {
            let taking = Taking::recover(Adoption::RECOVER).patiently();
            // What cannot be read now is found at the next start.
            return self.hold(row.run, taking).await.is_ok();
        }
        match self.shared().gates.pass(row) {
            Passage::Free => self.begin_tried(row).await,
            // It is in line again, and begins when its gate has room.
            Passage::Full | Passage::Beginning => false,
        }
    }
}

/// While this lives, nobody begins but who is tried.
struct Closed(Engine);

impl Closed {
    fn new(engine: &Engine) -> Self {
        engine.trials().closed.store(true, Ordering::Release);
        Self(engine.clone())
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.trials().closed.store(false, Ordering::Release);
        self.0.shared().bell.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(n: u8) -> RunId {
        RunId::from_bytes([n; 16])
    }

    fn set(numbers: &[u8]) -> BTreeSet<RunId> {
        numbers.iter().map(|n| run(*n)).collect()
    }

    fn trial(of: u8, writer: u64, beside: &[u8]) -> BTreeMap<RunId, Trial> {
        let beside = set(beside);
        [(run(of), Trial { writer, beside })].into()
    }

    #[test]
    fn only_who_is_alone_or_tried_is_guilty() {
        let none = BTreeMap::new();
        assert_eq!(guilty(7, &set(&[1]), &none), Some(run(1)));
        assert_eq!(guilty(7, &set(&[1, 2]), &none), None);
        // Tried, and the others were there before.
        assert_eq!(
            guilty(7, &set(&[1, 2]), &trial(2, 7, &[1, 9])),
            Some(run(2))
        );
        // Somebody came who was not.
        assert_eq!(guilty(7, &set(&[1, 2, 3]), &trial(2, 7, &[1])), None);
        // By another process, or it was not in hand any more.
        assert_eq!(guilty(7, &set(&[1, 2]), &trial(2, 8, &[1])), None);
        assert_eq!(guilty(7, &set(&[1, 3]), &trial(2, 7, &[1, 3])), None);
    }

    #[test]
    fn trials_grow_longer_with_deaths_up_to_the_delay() {
        let limits = Limits {
            max_retries: 3,
            delay_ms: 300_000,
            trial_ms: 10_000,
        };
        let seconds = |deaths| limits.window(deaths).as_secs();
        assert_eq!([2, 3, 4, 60].map(seconds), [10, 20, 40, 300]);
        assert_eq!(limits.suspicious(), 2);
    }
}
