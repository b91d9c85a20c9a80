//! Which workers poll at this process, as a note for the other processes: any of them may be asked
//! why an attempt waits. A note counts while its process lives. Only sentences depend on it, so no
//! poll waits for its being written.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use windlass_core::Millis;
use windlass_store::Error;

use super::super::pollers::{Asking, LISTED_MS, WorkerInfo};
use super::lock;
use crate::engine::Engine;
use crate::turns::Tenant;

/// The kind of the notes; their keys are writers.
const POLLERS: &str = "pollers";

/// How often the same workers are written again, while they poll.
const AGAIN_MS: i64 = 20_000;

/// How many notes are read at once.
const PAGE: usize = 256;

/// How many kinds of workers a note has; more say nothing new to a person.
const MOST_KINDS: usize = 1_000;

/// Workers of one tenant that ask for the same, with the same labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct PollerKind {
    tenant: Tenant,
    actions: Vec<Box<str>>,
    labels: Vec<Box<str>>,
}

impl PollerKind {
    fn of(asking: &Asking) -> Self {
        Self {
            tenant: asking.tenant.clone(),
            actions: asking.actions.to_vec(),
            labels: asking.labels.to_vec(),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PollerNote {
    v: u32,
    at: Millis,
    kinds: Vec<(PollerKind, usize)>,
}

/// What this process has written of its pollers, and when.
#[derive(Default)]
pub(super) struct NotedPollers {
    at: Option<Millis>,
    kinds: BTreeSet<PollerKind>,
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
        let (now, kind) = (self.now(), PollerKind::of(asking));
        let remote = &self.shared().remote;
        {
            let mut noted = lock(&remote.shared.pollers);
            let is_fresh = noted.at.is_some_and(|at| now.0 - at.0 < AGAIN_MS);
            if is_fresh && noted.kinds.contains(&kind) {
                return;
            }
            if !is_fresh {
                noted.kinds.clear();
            }
            noted.at = Some(now);
            noted.kinds.insert(kind);
        }
        let mut kinds: BTreeMap<PollerKind, usize> = BTreeMap::new();
        for asking in remote.pollers.lately(now) {
            *kinds.entry(PollerKind::of(&asking)).or_default() += 1;
        }
        let note = PollerNote {
            v: 1,
            at: now,
            kinds: kinds.into_iter().take(MOST_KINDS).collect(),
        };
        let text = serde_json::to_vec(&note).expect("its keys are text");
        let engine = self.clone();
        tokio::spawn(async move {
            let key = format!("{:016x}", engine.writer().0);
            let _ = engine.store().keep_note(POLLERS, &key, text).await;
        });
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
