//! The owner's side of outcomes: it takes the outcome of the current lease of an attempt, or any
//! if the queue lost the item, and refuses the others. The record that ends the attempt consumes
//! the offer.

use std::collections::HashMap;

use tokio::task::JoinSet;
use windlass_core::RunId;
use windlass_core::run::Input as RunInput;
use windlass_store::{InboxItem, ItemState, WorkKey, WorkLease};

use super::super::WorkError;
use super::super::lookup::Found;
use super::super::task_id::TaskId;
use super::outcome::{self, WireOutcome};
use crate::command::CommandError;
use crate::engine::Engine;

/// What the inbox keys of outcomes begin with.
pub(crate) const OUTCOMES: &str = "outcome/";

/// How many outcomes of a run are decided on at once: those that come while a record is in
/// flight go into the next one together.
const AT_ONCE: usize = 256;

impl Engine {
    /// Decides on the outcomes that were offered to a run.
    pub(crate) async fn consume_outcomes(&self, run: RunId, items: &[InboxItem]) {
        let offered = items.iter().filter_map(|item| {
            // What a newer process wrote is left to an owner that can read it.
            let read = (outcome::attempt_of(item, run)?, outcome::decode(item)?);
            Some((item.key.clone(), read))
        });
        let offered: Vec<(Box<str>, (WorkKey, WireOutcome))> = offered.collect();
        if offered.is_empty() {
            return;
        }
        // For a settled outcome the queue gave the item up: there is no other lease.
        let unsure = offered.iter().filter(|(_, (_, wire))| !wire.is_settled);
        let keys: Vec<WorkKey> = unsure.map(|(_, (key, _))| *key).collect();
        let known = match keys.is_empty() {
            true => Vec::new(),
            // What the queue cannot say now is looked at again soon.
            false => match self.store().known(&keys).await {
                Ok(known) => known,
                Err(_) => return,
            },
        };
        let mut known: HashMap<WorkKey, ItemState> = known.into_iter().collect();
        let mut deciding = JoinSet::new();
        for (item, read) in offered {
            if deciding.len() >= AT_ONCE {
                deciding.join_next().await;
            }
            let (engine, state) = (self.clone(), known.remove(&read.0));
            deciding.spawn(async move { engine.consume_outcome(&item, read, state).await });
        }
        deciding.join_all().await;
    }

    async fn consume_outcome(
        &self,
        item: &str,
        (key, wire): (WorkKey, WireOutcome),
        state: Option<ItemState>,
    ) {
        let awaited = wire.is_awaited;
        if state.is_some_and(|it| it.fences(&wire.worker, WorkLease(wire.number))) {
            return self
                .refuse_outcome(item, key, awaited, &WorkError::LeaseLost)
                .await;
        }
        if let Some(deaths) = wire.deaths() {
            return self.give_up_deadly(item, key, deaths).await;
        }
        if wire.is_settled {
            self.shared()
                .remote
                .open
                .with(key, |open| open.is_settled = true);
        }
        let lease = wire.lease.clone();
        let Ok(report) = wire.report(key, self.values()).await else {
            // A value that cannot be read now is read by the next walk.
            return;
        };
        let input = RunInput::Ended {
            node: key.instance,
            attempt: key.attempt,
            report: Box::new(report),
        };
        match self.submit_item(key.run, input, Some(item)).await {
            Ok(()) => {
                if awaited {
                    self.ring_for(key.run);
                }
            }
            Err(CommandError::Refused { .. }) => {
                let error = match self.look_up_log(TaskId(key), &lease, None).await {
                    // A repeated offer: its caller reads the log.
                    Ok(Found::EndedUnder { same: true }) => None,
                    Ok(Found::EndedUnder { same: false }) => Some(WorkError::LeaseLost),
                    Ok(Found::Ended) | Err(WorkError::TaskNotFound) => Some(WorkError::TaskEnded),
                    // Not now: the next walk looks again.
                    Ok(Found::Open(_)) | Err(_) => return,
                };
                match error {
                    Some(error) => self.refuse_outcome(item, key, awaited, &error).await,
                    None => self.discard_outcome(item, key, awaited).await,
                }
            }
            // Another process owns the run now, or the store failed: the offer stands.
            Err(_) => {}
        }
    }

    /// Refuses an outcome. Where no caller waits for the reason, nothing stays.
    async fn refuse_outcome(&self, item: &str, key: WorkKey, awaited: bool, error: &WorkError) {
        if !awaited {
            self.discard_outcome(item, key, false).await;
            return;
        }
        let reason = outcome::refusal(error);
        let _ = self.store().refuse(key.run, item, &reason).await;
        self.ring_for(key.run);
    }

    async fn discard_outcome(&self, item: &str, key: WorkKey, awaited: bool) {
        let _ = self.store().discard(key.run, item).await;
        if awaited {
            self.ring_for(key.run);
        }
    }

    /// As many workers died with an attempt in hand as may: its run becomes a dead letter.
    async fn give_up_deadly(&self, item: &str, key: WorkKey, deaths: u32) {
        let Ok(Some(row)) = self.store().run(key.run).await else {
            return;
        };
        if !row.status.is_final() && !row.dead {
            let loaded = self.load_beside(key.run).await.ok();
            let run = loaded.as_ref().map(|loaded| &loaded.run);
            if self.dead_letter_deadly(&row, deaths, run).await.is_err() {
                return;
            }
            self.drop_dead(key.run).await;
        }
        let _ = self.store().withdraw(&[key]).await;
        self.discard_outcome(item, key, true).await;
    }
}
