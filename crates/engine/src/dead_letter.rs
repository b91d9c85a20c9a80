//! Runs that nobody can carry on: those that cannot be read, and those that took down
//! whoever carried them, again and again (semantics §12). They go to the dead letters with
//! their reason, so that the others go on.
//!
//! A process that stops in good order and leaves work behind says so with a value of its
//! own in the store, whose address anybody can compute from the writer's number. Whoever
//! takes a run up asks whether the last writer left such a word; without it, it died.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::event::After;
use windlass_core::run::Run;
use windlass_core::value::Payload;
use windlass_core::{RunId, RunStatus};
use windlass_orchestrator::Adoption;
use windlass_store::{Blob, DeadLetter, Error, RunRow, WriterId};

use crate::engine::{Engine, Taking};
use crate::load::{LoadError, LoadedRun, Unavailable};

/// The largest trigger that stands in a letter.
const LETTER_TRIGGER_BYTES: usize = 32 * 1024;

/// How many open nodes a letter names.
const LETTER_NODES: usize = 100;

/// When a run counts as poison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_retries: u32,
    pub(crate) delay_ms: u64,
    pub(crate) trial_ms: u64,
}

impl Limits {
    /// With how many deaths a run is tried alone.
    pub(crate) fn suspicious(&self) -> u32 {
        self.max_retries.clamp(1, 2)
    }

    /// How long a trial takes: the longer, the more often its process died without its guilt
    /// being clear, up to the time between two tries.
    pub(crate) fn window(&self, deaths: u32) -> Duration {
        let doubled = deaths.saturating_sub(2).min(16);
        let grown = self.trial_ms.saturating_mul(1 << doubled);
        Duration::from_millis(grown.min(self.delay_ms.max(self.trial_ms)))
    }
}

/// Which writers stopped in good order, as far as somebody asked.
#[derive(Default)]
pub(crate) struct Stops {
    known: Mutex<HashMap<u64, bool>>,
}

/// What a writer leaves behind when it stops in good order.
fn word_of(writer: WriterId) -> Payload {
    Payload::new(format!(
        "\"writer {:016x} stopped in good order\"",
        writer.0
    ))
}

impl Engine {
    /// Leaves word that this engine stops in good order, though its runs have not ended.
    pub(crate) async fn record_clean_shutdown(&self) {
        let word = word_of(self.writer());
        let blob = Blob {
            digest: word.digest(),
            bytes: Arc::from(word.text().as_bytes()),
        };
        // Without it the runs count one death too many, which the next success forgives.
        let _ = self.store().put_blob(blob).await;
    }

    /// What became of whoever carried a run before.
    ///
    /// # Errors
    /// It died once too often of this run, or so recently that the run must wait.
    pub(crate) fn crash_policy(
        &self,
        row: Option<&RunRow>,
        loaded: &LoadedRun,
        patient: bool,
    ) -> Result<After, LoadError> {
        let run = &loaded.run;
        if row.is_some_and(|row| row.dead) {
            return Err(LoadError::Unavailable(Unavailable::Dead));
        }
        let begun = matches!(run.status(), RunStatus::Running | RunStatus::Paused);
        if !begun || !run.has_attempts_out() {
            return Ok(After::Death);
        }
        let Some(writer) = self.writer_at(run.id(), loaded.head.sequence)? else {
            return Ok(After::Death);
        };
        if self.writer_stopped_well(writer)? {
            return Ok(After::Stop);
        }
        let Some(limits) = self.poison_limits() else {
            return Ok(After::Death);
        };
        let culprit = self.shared().trials.culprit(writer.0);
        if culprit.is_some_and(|culprit| culprit != run.id()) {
            // It was another's doing.
            return Ok(After::Stop);
        }
        let deaths = run.deaths() + 1;
        if culprit.is_some() && deaths >= limits.max_retries.max(1) {
            return Err(LoadError::Unavailable(Unavailable::Poison { deaths }));
        }
        if deaths >= limits.suspicious() && !patient {
            return Err(LoadError::Unavailable(Unavailable::Later { deaths }));
        }
        Ok(After::Death)
    }

    /// Who wrote to a run last.
    pub(crate) fn last_writer(&self, run: RunId) -> Result<Option<WriterId>, Error> {
        let last = self.store().head(run)?.sequence;
        self.writer_at(run, last)
    }

    /// Who wrote a record of a run.
    pub(crate) fn writer_at(&self, run: RunId, sequence: u64) -> Result<Option<WriterId>, Error> {
        let record = self.store().read(run, sequence, 1)?.into_iter().next();
        Ok(record.map(|record| record.writer))
    }

    /// Whether a writer stopped in good order.
    pub(crate) fn writer_stopped_well(&self, writer: WriterId) -> Result<bool, Error> {
        // This process has not stopped at all: somebody let the run go in good order.
        if writer == self.writer() {
            return Ok(true);
        }
        let known = &self.stops().known;
        let lock = || {
            known
                .lock()
                .expect("nothing panics while it holds the list")
        };
        if let Some(&well) = lock().get(&writer.0) {
            return Ok(well);
        }
        let well = self.store().blob(&word_of(writer).digest())?.is_some();
        lock().insert(writer.0, well);
        Ok(well)
    }

    /// Whether an error says that a run itself cannot be read, whoever tries.
    pub(crate) fn is_unreadable(&self, error: &LoadError) -> bool {
        matches!(
            error,
            LoadError::Definition(_)
                | LoadError::NotFound(_)
                | LoadError::Store(Error::Damaged(_) | Error::TooNew(_))
        )
    }

    /// Puts a run that cannot be read among the dead letters.
    pub(crate) async fn dead_letter_unreadable(
        &self,
        row: &RunRow,
        error: &LoadError,
    ) -> Result<(), Error> {
        self.dead_letter(row, error.to_string(), 0, None).await
    }

    /// Puts a run that is poison among the dead letters.
    pub(crate) async fn dead_letter_crasher(&self, row: &RunRow, deaths: u32) -> Result<(), Error> {
        let reason = format!("whoever carried it died {deaths} times with its work in hand");
        let engine = self.clone();
        let run = row.run;
        let loading = tokio::task::spawn_blocking(move || engine.load(run).ok());
        let loaded = loading.await.ok().flatten();
        let run = loaded.map(|loaded| loaded.run);
        self.dead_letter(row, reason, deaths, run.as_ref()).await
    }

    async fn dead_letter(
        &self,
        row: &RunRow,
        reason: String,
        deliveries: u32,
        run: Option<&Run>,
    ) -> Result<(), Error> {
        let letter = DeadLetter {
            run: row.run,
            tenant: row.tenant.clone(),
            workflow: row.workflow.clone(),
            reason: reason.as_str().into(),
            payload: self.contents(row, run).to_string().into_bytes(),
            deliveries,
            at: self.now(),
            damage: None,
        };
        self.store().bury(letter).await?;
        self.shared().gates.dead_letter(row);
        self.shared().gates.give_up(row.run);
        self.shared().bell.notify_one();
        self.shared().notice(&crate::notice::Notice::Buried {
            run: row.run,
            reason: &reason,
        });
        Ok(())
    }

    /// What a run was about, as far as it can be read.
    fn contents(&self, row: &RunRow, run: Option<&Run>) -> Value {
        let mut contents = json!({
            "executionId": row.run.to_string(),
            "workflowId": &*row.workflow,
            "version": row.version,
            "requestId": &*row.request_id,
            "status": row.status.as_str(),
            "priority": row.priority,
            "createdAt": row.created_at.to_string(),
        });
        let Some(run) = run else {
            return contents;
        };
        let text = run.trigger().text().cloned();
        let text = text.filter(|text| text.len() <= LETTER_TRIGGER_BYTES);
        if let Some(text) = text {
            contents["trigger"] = serde_json::from_str(&text).unwrap_or(Value::Null);
        }
        let open = run.open_instances().into_iter().take(LETTER_NODES);
        contents["openNodes"] = open.map(|node| Value::from(&*run.path(node))).collect();
        contents
    }

    /// Takes a run from among the dead letters: what was counted is forgotten, and it is
    /// carried on, or waits to begin. `false` if it is not among them.
    ///
    /// # Errors
    /// The store failed. A run that still cannot be read is among the dead letters again.
    pub async fn requeue(&self, run: RunId) -> Result<bool, Error> {
        let row = self.store().run(run)?;
        if !self.store().requeue(run).await? {
            return Ok(false);
        }
        let Some(mut row) = row else { return Ok(true) };
        row.dead = false;
        self.shared().gates.restore(&row);
        match row.status {
            RunStatus::Pending => self.shared().arrived(row.tenant, row.priority),
            RunStatus::Running | RunStatus::Paused => {
                let taking = Taking::recover(Adoption::Recover(After::Requeue));
                if let Err(error) = self.hold(run, taking).await
                    && self.is_unreadable(&error)
                {
                    self.dead_letter_unreadable(&row, &error).await?;
                }
            }
            _ => {}
        }
        Ok(true)
    }
}
