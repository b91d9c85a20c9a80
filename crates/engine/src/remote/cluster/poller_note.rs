//! Which workers poll at this process, as a note for the other processes: any of them may be asked
//! why an attempt waits. A note counts while its process lives. Only sentences depend on it, so no
//! poll waits for its being written.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::Millis;
use windlass_store::Error;

use super::super::pollers::{Asking, LISTED_MS, WorkerInfo};
use super::lock;
use crate::engine::{Engine, Inner};
use crate::turns::Tenant;

/// The kind of the notes; their keys are writers.
const POLLERS: &str = "pollers";

/// How often the same workers are written again, while they poll.
const AGAIN_MS: i64 = 20_000;

/// How soon after a note the next one may follow, if it says something new.
const PAUSE: Duration = Duration::from_secs(1);

/// How many notes are read at once.
const PAGE: usize = 256;

/// How many kinds of workers a note has; more say nothing new to a person.
const MOST_KINDS: usize = 1_000;

/// About how many bytes the kinds of a note have: every backend takes so much in one value.
const MOST_BYTES: usize = 256 * 1024;

/// What a kind takes in a note beside its names, at most, about.
const KIND_BYTES: usize = 64;

/// Workers of one tenant that ask for the same, with the same labels.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct PollerKind {
    tenant: Tenant,
    actions: Vec<Box<str>>,
    labels: Vec<Box<str>>,
}

/// The same, of workers in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
struct PollerKindRef<'a> {
    tenant: &'a Tenant,
    actions: &'a [Box<str>],
    labels: &'a [Box<str>],
}

impl<'a> PollerKindRef<'a> {
    fn of(asking: &'a Asking) -> Self {
        Self {
            tenant: &asking.tenant,
            actions: &asking.actions,
            labels: &asking.labels,
        }
    }

    /// By which a kind is recognised. Two kinds with one hash differ only in sentences.
    fn hash(&self) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(self)
    }

    fn bytes(&self) -> usize {
        let names = self.actions.iter().chain(self.labels);
        let names: usize = names.map(|name| name.len() + 3).sum();
        KIND_BYTES + self.tenant.as_ref().map_or(0, |tenant| tenant.len()) + names
    }
}

/// A note, as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PollerNote {
    at: Millis,
    kinds: Vec<(PollerKind, usize)>,
}

/// A note, as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PollerNoteRef<'a> {
    v: u32,
    at: Millis,
    kinds: Vec<(PollerKindRef<'a>, usize)>,
}

/// What this process has written of its pollers, and when.
#[derive(Default)]
pub(super) struct NotedPollers {
    at: Option<Millis>,
    /// The hashes of the kinds that the note has: as many as a note may have.
    kinds: HashSet<u64>,
    /// Whether the note had no room for more.
    is_full: bool,
    /// Whether a worker has polled since of which the note does not say.
    is_due: bool,
    /// Whether a task writes notes.
    is_writing: bool,
}

impl NotedPollers {
    /// A worker polls. Whether a task has to begin to write notes.
    fn hear(&mut self, asking: &Asking, now: Millis) -> bool {
        let is_fresh = self.at.is_some_and(|at| now.0 - at.0 < AGAIN_MS);
        let says = || self.is_full || self.kinds.contains(&PollerKindRef::of(asking).hash());
        if is_fresh && says() {
            return false;
        }
        self.is_due = true;
        !std::mem::replace(&mut self.is_writing, true)
    }

    /// The note of these workers, to be written now.
    fn write(&mut self, workers: &[Asking], now: Millis) -> Vec<u8> {
        let mut kinds: BTreeMap<PollerKindRef<'_>, usize> = BTreeMap::new();
        for asking in workers {
            *kinds.entry(PollerKindRef::of(asking)).or_default() += 1;
        }
        let all = kinds.len();
        let mut left = MOST_BYTES;
        let fits = |(kind, _): &(PollerKindRef<'_>, usize)| {
            let rest = left.checked_sub(kind.bytes());
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        let kinds: Vec<_> = kinds.into_iter().filter(fits).take(MOST_KINDS).collect();
        self.at = Some(now);
        self.is_full = kinds.len() < all;
        self.kinds = kinds.iter().map(|(kind, _)| kind.hash()).collect();
        self.is_due = false;
        let note = PollerNoteRef {
            v: 1,
            at: now,
            kinds,
        };
        serde_json::to_vec(&note).expect("its keys are text")
    }

    /// Whether there is another note to write; if not, the task ends.
    fn goes_on(&mut self) -> bool {
        self.is_writing = self.is_due;
        self.is_due
    }
}

/// Writes what workers poll here, at most once in a while, until there is nothing new.
async fn write_pollers(engine: Weak<Inner>) {
    loop {
        let Some(now) = engine.upgrade().map(Engine::of) else {
            return;
        };
        now.write_pollers().await;
        drop(now);
        tokio::time::sleep(PAUSE).await;
        let Some(engine) = engine.upgrade().map(Engine::of) else {
            return;
        };
        if !lock(&engine.shared().remote.shared.pollers).goes_on() {
            return;
        }
    }
}

/// How many workers poll for an action: all, and those with the labels that a node requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::remote) struct Polling {
    pub(in crate::remote) all: usize,
    pub(in crate::remote) able: usize,
}

impl Engine {
    /// A worker polls here: tells the other processes, if they do not know or may have forgotten.
    pub(in crate::remote) fn tell_pollers(&self, asking: &Asking) {
        if !self.shared().owned.is_shared() {
            return;
        }
        let pollers = &self.shared().remote.shared.pollers;
        if lock(pollers).hear(asking, self.now()) {
            tokio::spawn(write_pollers(Arc::downgrade(self.inner())));
        }
    }

    async fn write_pollers(&self) {
        let (now, remote) = (self.now(), &self.shared().remote);
        let workers = remote.pollers.lately(now);
        let text = lock(&remote.shared.pollers).write(&workers, now);
        let key = format!("{:016x}", self.writer().0);
        if self.store().keep_note(POLLERS, &key, text).await.is_err() {
            // The next poll has it written again.
            lock(&remote.shared.pollers).at = None;
        }
    }

    /// How many workers poll for an action, at all live processes. Notes of dead processes are
    /// removed on the way.
    pub(in crate::remote) async fn polling(
        &self,
        tenant: Option<&str>,
        action: &str,
        requires: &[Box<str>],
    ) -> Result<Polling, Error> {
        let mut polling = Polling::default();
        let mut count = |actions: &[Box<str>], labels: &[Box<str>], workers: usize| {
            if actions.iter().any(|own| **own == *action) {
                let is_able = requires.iter().all(|label| labels.contains(label));
                polling.all += workers;
                polling.able += if is_able { workers } else { 0 };
            }
        };
        for WorkerInfo {
            actions, labels, ..
        } in self.work_pollers(tenant)
        {
            count(&actions, &labels, 1);
        }
        if !self.shared().owned.is_shared() {
            return Ok(polling);
        }
        let (live, now) = (self.live_writers().await?, self.now());
        for (key, text) in self.store().notes(POLLERS, None, PAGE).await? {
            let writer = u64::from_str_radix(&key, 16).unwrap_or_default();
            if writer == self.writer().0 {
                continue;
            }
            if !live.contains(&writer) {
                self.store().forget_note(POLLERS, &key).await?;
                continue;
            }
            // What a newer process wrote in another form says nothing here.
            let Ok(note) = serde_json::from_slice::<PollerNote>(&text) else {
                continue;
            };
            if now.0 - note.at.0 < LISTED_MS + AGAIN_MS {
                let own = |it: &&(PollerKind, usize)| it.0.tenant.as_deref() == tenant;
                for (kind, workers) in note.kinds.iter().filter(own) {
                    count(&kind.actions, &kind.labels, *workers);
                }
            }
        }
        Ok(polling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(worker: usize, label: String) -> Asking {
        Asking {
            tenant: None,
            worker: worker.to_string().into(),
            actions: Arc::from([Box::<str>::from("a")]),
            labels: Arc::from([label.into_boxed_str()]),
        }
    }

    fn read(text: &[u8]) -> Vec<(PollerKind, usize)> {
        let note: PollerNote = serde_json::from_slice(text).expect("a note");
        note.kinds
    }

    #[test]
    fn many_kinds_of_workers_make_one_note_after_another() {
        let mut noted = NotedPollers::default();
        let workers: Vec<_> = (0..5_000)
            .map(|at| asking(at, format!("pod={at}")))
            .collect();
        let begun = workers.iter().filter(|it| noted.hear(it, Millis(1)));
        assert_eq!(begun.count(), 1, "one task writes for all");
        let kinds = read(&noted.write(&workers[..900], Millis(1)));
        assert_eq!(kinds.len(), 900);
        // Those that it says poll again, and one that it does not say.
        assert!(!noted.goes_on());
        assert!(!workers[..900].iter().any(|it| noted.hear(it, Millis(2))));
        assert!(noted.hear(&workers[900], Millis(2)));
        assert!(noted.goes_on(), "it has heard of another kind meanwhile");
        // With more kinds than a note has, it says nothing new until it may be forgotten.
        let kinds = read(&noted.write(&workers, Millis(3)));
        assert_eq!((kinds.len(), noted.kinds.len()), (MOST_KINDS, MOST_KINDS));
        assert!(!noted.goes_on());
        assert!(!workers.iter().any(|it| noted.hear(it, Millis(4))));
        assert!(noted.hear(&workers[0], Millis(3 + AGAIN_MS)));
    }

    #[test]
    fn a_note_has_a_bounded_size_and_counts_workers_of_a_kind() {
        let mut noted = NotedPollers::default();
        let mut workers: Vec<_> = (0..900)
            .map(|at| asking(at, format!("pod={at}{}", "x".repeat(1_000))))
            .collect();
        workers.push(asking(900, "huge".repeat(MOST_BYTES)));
        workers.extend((0..3).map(|at| asking(901 + at, "small".into())));
        let text = noted.write(&workers, Millis(1));
        assert!(text.len() <= MOST_BYTES, "{} bytes", text.len());
        assert!(noted.is_full);
        let kinds = read(&text);
        assert!(kinds.len() > 200);
        let workers: Vec<_> = workers.split_off(901);
        let kinds = read(&noted.write(&workers, Millis(1)));
        assert_eq!(kinds.len(), 1);
        assert_eq!((&*kinds[0].0.labels[0], kinds[0].1), ("small", 3));
    }
}
