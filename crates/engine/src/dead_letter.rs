//! Runs that cannot continue: those that cannot be read, and those that crash the process
//! (`crash_isolation/`). They go to the dead letters with their reason and what is known of
//! them (semantics §12.4), so that the others continue; an operator can requeue or purge them.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::event::{Actor, After, Event};
use windlass_core::run::{DEAD_LETTERED, Input, Refusal, Run};
use windlass_core::{RunId, RunStatus};
use windlass_orchestrator::{AcquireMode, codec};
use windlass_store::{Bell, DeadLetter, Error, RunRow, WriterId};

use crate::acquire::AcquireOptions;
use crate::command::CommandError;
use crate::driver::Message;
use crate::engine::Engine;
use crate::inbox::LetterCommand;
use crate::load::LoadError;
use crate::ownership::ring;

/// The largest trigger that stands in a letter.
const LETTER_TRIGGER_BYTES: usize = 32 * 1024;

/// How many open nodes a letter names.
const LETTER_NODES: usize = 100;

impl Engine {
    /// Who wrote a record of a run.
    pub(crate) async fn writer_at(
        &self,
        run: RunId,
        sequence: u64,
    ) -> Result<Option<WriterId>, Error> {
        let page = self.store().read(run, sequence, 1).await?;
        let record = page.into_iter().next();
        Ok(record.map(|record| record.writer))
    }

    /// Whether an error says that a run itself cannot be read, by any process.
    pub(crate) fn is_unreadable(&self, error: &LoadError) -> bool {
        match error {
            LoadError::Definition(_)
            | LoadError::NotFound(_)
            | LoadError::Store(Error::Damaged(_)) => true,
            // Where others share the store, one of a newer version goes on with the run.
            LoadError::Store(Error::TooNew(_)) => !self.shared().owned.is_shared(),
            _ => false,
        }
    }

    /// Puts a run that cannot be read among the dead letters.
    pub(crate) async fn dead_letter_unreadable(
        &self,
        row: &RunRow,
        error: &LoadError,
    ) -> Result<(), Error> {
        self.dead_letter(row, error.to_string(), 0, None).await
    }

    /// Puts a run that crashes its process among the dead letters, with its state if that can
    /// be read.
    pub(crate) async fn dead_letter_crasher(
        &self,
        row: &RunRow,
        crashes: u32,
        run: Option<&Run>,
    ) -> Result<(), Error> {
        let reason = format!("the process crashed {crashes} times with the run's work in hand");
        self.dead_letter(row, reason, crashes, run).await
    }

    /// The same for a run with whose work so many worker processes died.
    pub(crate) async fn dead_letter_deadly(
        &self,
        row: &RunRow,
        deaths: u32,
        run: Option<&Run>,
    ) -> Result<(), Error> {
        let reason = format!("{deaths} worker processes died with the run's work in hand");
        self.dead_letter(row, reason, deaths, run).await
    }

    /// Lets go of a run that has become a dead letter.
    pub(crate) async fn drop_dead(&self, run: RunId) {
        self.tell(Message::Drop(run)).await;
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
        self.store().add_dead_letter(letter).await?;
        self.shared().gates.lock().dead_letter(row);
        self.shared().gates.lock().give_up(row.run);
        self.shared().bell.notify_one();
        // What cannot be freed now is freed by the next walk.
        let _ = self.free_if_over(row).await;
        self.shared()
            .observe(&crate::engine_event::EngineEvent::DeadLettered {
                run: row.run,
                workflow: &row.workflow,
                version: row.version,
                correlation_id: &self.correlation(row.run, run).await,
                reason: &reason,
            });
        Ok(())
    }

    /// What ties a run to the outside, from its state or else from its first record.
    async fn correlation(&self, id: RunId, run: Option<&Run>) -> Box<str> {
        if let Some(run) = run {
            return run.queued().correlation_id.clone();
        }
        let records = self.store().read(id, 1, 1).await.unwrap_or_default();
        let first = records.first().and_then(|it| codec::decode(&it.bytes).ok());
        let events = first.map(|first| first.events).unwrap_or_default();
        let queued = events.into_iter().find_map(|event| match event {
            Event::Queued(queued) => Some(queued.correlation_id.clone()),
            _ => None,
        });
        queued.unwrap_or_else(|| id.to_string().into())
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

    /// Takes a run from among the dead letters: the engine forgets what was counted, and recovers
    /// the run or lets it wait to begin. `false` if it is not among them.
    ///
    /// # Errors
    /// The store failed, or no process that owns the run has taken the request in time. A run
    /// that still cannot be read is among the dead letters again.
    pub async fn requeue(&self, run: RunId) -> Result<bool, CommandError> {
        let row = self.store().run(run).await.map_err(LoadError::from)?;
        let has_begun = |row: &&RunRow| !row.status.is_final() && row.status != RunStatus::Pending;
        let begun = row.as_ref().filter(has_begun);
        // Its owner must forget what it counted.
        if let Some(row) = begun.filter(|row| !self.shared().owned.holds(row.partition)) {
            return self.ask_owner_for_letter(row, LetterCommand::Requeue).await;
        }
        self.requeue_here(run).await
    }

    /// The same for a run that this process owns, or that has not begun.
    pub(crate) async fn requeue_here(&self, run: RunId) -> Result<bool, CommandError> {
        let row = self.store().run(run).await.map_err(LoadError::from)?;
        let elsewhere = row.as_ref().map(|row| row.partition);
        let elsewhere = elsewhere.filter(|it| !self.shared().owned.holds(*it));
        if !self.store().requeue(run).await.map_err(LoadError::from)? {
            return Ok(false);
        }
        let Some(mut row) = row else { return Ok(true) };
        row.dead = false;
        self.shared().gates.lock().restore(&row);
        match row.status {
            RunStatus::Pending => match elsewhere {
                // Its owner begins it.
                Some(partition) => ring(Arc::clone(self.store()), Bell::Partition(partition)),
                None => self.shared().arrived(row.tenant, row.priority),
            },
            RunStatus::Running | RunStatus::Paused => {
                let acquire_options = AcquireOptions::recover(AcquireMode::Recover(After::Requeue));
                if let Err(error) = self.acquire(run, acquire_options).await
                    && self.is_unreadable(&error)
                {
                    let again = self.dead_letter_unreadable(&row, &error).await;
                    again.map_err(LoadError::from)?;
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// Removes a run from among the dead letters for good: it ends as Failed with
    /// `DEAD_LETTERED`. Nothing of it is handed out or undone. `false` if it is not among them.
    ///
    /// # Errors
    /// The store failed, or no process that owns the run has taken the request in time; the
    /// letter stays then.
    pub async fn purge(&self, run: RunId, actor: Actor) -> Result<bool, CommandError> {
        let row = match self.store().run(run).await {
            Err(Error::Damaged(_)) => None,
            row => row.map_err(LoadError::from)?,
        };
        let open = row.as_ref().filter(|row| !row.status.is_final());
        // Its owner alone may append the record that ends it.
        if let Some(row) = open.filter(|row| !self.shared().owned.holds(row.partition)) {
            let purge = LetterCommand::Purge { actor };
            return self.ask_owner_for_letter(row, purge).await;
        }
        self.purge_here(run, actor).await
    }

    /// The same for a run that this process owns, or that has ended.
    pub(crate) async fn purge_here(&self, run: RunId, actor: Actor) -> Result<bool, CommandError> {
        let letter = match self.store().dead_letter(run).await {
            // A damaged letter is still one, and is purged without its reason.
            Err(Error::Damaged(_)) => None,
            found => match found.map_err(LoadError::from)? {
                Some(letter) => Some(letter),
                None => return Ok(false),
            },
        };
        let reason = letter.map_or("its letter is damaged".into(), |letter| letter.reason);
        let row = match self.store().run(run).await {
            Err(Error::Damaged(_)) => None,
            row => row.map_err(LoadError::from)?,
        };
        let ended = match &row {
            Some(row) if row.status.is_final() => true,
            Some(row) => self.abandon(row, &reason, actor).await?,
            None => false,
        };
        // A run that has ended is no longer dead; one that cannot be read stays dead, and is
        // never acquired.
        let removed = match ended {
            true => self.store().requeue(run).await,
            false => self.store().purge(run).await,
        };
        if let Some(mut row) = row.filter(|_| ended) {
            row.status = RunStatus::Failed;
            self.shared().gates.lock().restore(&row);
        }
        Ok(removed.map_err(LoadError::from)?)
    }

    /// A dead run was cancelled. Once it has ended its letter goes, because there is nothing left
    /// to requeue. If the process dies before, an operator purges the letter.
    pub(crate) async fn forget_letter_at_end(&self, run: RunId) -> Result<(), LoadError> {
        let Some(row) = self.store().run(run).await?.filter(|row| row.dead) else {
            return Ok(());
        };
        if row.status.is_final() {
            self.store().requeue(run).await?;
            return Ok(());
        }
        let engine = self.clone();
        tokio::spawn(async move {
            if engine.wait(run).await.is_ok() {
                let _ = engine.store().requeue(run).await;
            }
        });
        Ok(())
    }

    /// Ends a dead run. `false` if it cannot be read: then its row alone says that it has ended.
    async fn abandon(
        &self,
        row: &RunRow,
        reason: &str,
        actor: Actor,
    ) -> Result<bool, CommandError> {
        let input = Input::Abandon {
            reason: reason.into(),
            actor,
        };
        match self.submit(row.run, input).await {
            Ok(()) => {
                self.wait(row.run).await.map_err(LoadError::from)?;
                // Its parent and its children hear of it, also if this process ends now.
                self.child_jobs_idle().await;
                Ok(true)
            }
            Err(CommandError::Refused {
                refusal: Refusal::RunEnded,
                ..
            }) => Ok(true),
            Err(CommandError::Load(error)) if self.is_unreadable(&error) => {
                self.end_row(row, reason).await.map_err(LoadError::from)?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Says in the row of a run whose log cannot be read that it has ended.
    async fn end_row(&self, row: &RunRow, reason: &str) -> Result<(), Error> {
        let message = format!("the run was a dead letter, which was purged: {reason}");
        let ended = RunRow {
            status: RunStatus::Failed,
            ended_at: Some(self.now()),
            wake_at: None,
            asleep: false,
            error_code: Some(DEAD_LETTERED.into()),
            error_message: Some(message.into()),
            ..row.clone()
        };
        let resources = self.store().resources(row.run).await?;
        self.store().replace_rows(vec![(ended, resources)]).await
    }
}
