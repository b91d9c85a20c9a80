//! Which hand-out of an attempt was the last, over restarts of the server: of two leases the
//! later one counts. The first hand-out needs no note; each further one is noted before its
//! worker hears of it, and the note goes with the attempt.

use serde::{Deserialize, Serialize};
use windlass_core::RunId;
use windlass_store::{WorkKey, crash};

use super::WorkError;
use super::task_id::{LeaseTerms, TaskId};
use crate::Backend;
use crate::engine::Engine;

/// What these notes are kept as; the key is the task.
const KIND: &str = "work-lease";

/// How many notes are read at once.
const PAGE: usize = 1_000;

/// The stored form.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Noted {
    v: u32,
    generation: u32,
    worker: Box<str>,
}

async fn noted(store: &dyn Backend, key: WorkKey) -> Result<Option<Noted>, WorkError> {
    let bytes = store.note_at(KIND, &TaskId(key).to_string()).await?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Forgets the notes of attempts that have ended.
pub(super) async fn forget(store: &dyn Backend, keys: &[WorkKey]) {
    for key in keys {
        // One that stays is forgotten when a server starts after the run has ended.
        let _ = store.forget_note(KIND, &TaskId(*key).to_string()).await;
    }
}

/// Forgets the notes of runs that have ended: a process died before it could.
pub(super) async fn sweep(store: &dyn Backend) -> Result<(), WorkError> {
    let mut after: Option<String> = None;
    loop {
        let page = store.notes(KIND, after.as_deref(), PAGE).await?;
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        after = Some(last.to_string());
        for (task, _) in &page {
            let run = task.split('.').next().map(str::parse::<RunId>);
            let row = match run {
                Some(Ok(run)) => store.run(run).await?,
                _ => None,
            };
            if row.is_none_or(|row| row.status.is_final()) {
                store.forget_note(KIND, task).await?;
            }
        }
    }
}

impl Engine {
    /// Reads which hand-out of an attempt was the last, if a process before had it open.
    pub(super) async fn read_generation(&self, key: WorkKey) -> Result<(), WorkError> {
        let open = &self.shared().remote.open;
        if open.with(key, |open| open.is_read).unwrap_or(true) {
            return Ok(());
        }
        let noted = noted(&**self.store(), key).await?;
        open.with(key, |open| {
            if !open.is_read {
                open.is_read = true;
                // Without a note it was handed out once, or not at all.
                open.generation = noted.as_ref().map_or(1, |noted| noted.generation);
                open.last_worker = noted.map(|noted| noted.worker);
            }
        });
        Ok(())
    }

    /// The number of an attempt's next hand-out; a second one is noted, durably. Nothing if the
    /// attempt is not open any more.
    pub(super) async fn next_generation(
        &self,
        key: WorkKey,
        worker: &str,
    ) -> Result<Option<u32>, WorkError> {
        self.read_generation(key).await?;
        let open = &self.shared().remote.open;
        let next = open.with(key, |open| {
            open.generation += 1;
            open.generation
        });
        if let Some(generation) = next.filter(|generation| *generation > 1) {
            let noted = Noted {
                v: 1,
                generation,
                worker: worker.into(),
            };
            let bytes = serde_json::to_vec(&noted).expect("its keys are text");
            let task = TaskId(key).to_string();
            self.store().keep_note(KIND, &task, bytes).await?;
            crash::point("after-work-noted");
        }
        Ok(next)
    }

    /// Whether a lease is the last one of an attempt that is not open here.
    pub(super) async fn is_last(
        &self,
        key: WorkKey,
        terms: &LeaseTerms,
    ) -> Result<bool, WorkError> {
        let noted = noted(&**self.store(), key).await?;
        Ok(noted.is_none_or(|noted| terms.generation >= noted.generation))
    }
}
