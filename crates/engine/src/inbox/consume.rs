//! The owner's side: commands that other processes offered to runs of this process's partitions
//! are carried out or refused. An owner looks when it has taken a partition, when a bell rings
//! for it, and now and then by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;
use windlass_core::RunId;
use windlass_core::command::CommandRequest;
use windlass_orchestrator::supervisor::{
    CommandItem, ItemAnswer, ItemStep, KeyInLog, PartitionRecovery, RECOVERY_PAGE, RecoveryStep,
};
use windlass_store::{Bell, InboxBounds, InboxItem, Partition, Partitions};

use super::letters::LETTERS;
use super::wire;
use crate::command::CommandError;
use crate::engine::Engine;
use crate::load::{LoadError, Unavailable};
use crate::ownership::ring;
use crate::payload::PayloadError;
use crate::remote::OUTCOMES;

/// How many runs are given what was offered to them at once.
const AT_ONCE: usize = 16;

/// Items of other kinds are not for this module.
const COMMANDS: &str = "command/";

/// The walks of a kind that are under way: at most one over each partition, or run, so that no item
/// is decided on twice at once. Each with whether it is to begin again, because something may have
/// come meanwhile.
pub(crate) struct Walks<K>(Mutex<BTreeMap<K, bool>>);

impl<K> Default for Walks<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Copy> Walks<K> {
    fn walking(&self) -> MutexGuard<'_, BTreeMap<K, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the caller walks now; else the walk that is under way begins again.
    pub(crate) fn begins(&self, over: K) -> bool {
        let mut walking = self.walking();
        match walking.get_mut(&over) {
            Some(again) => {
                *again = true;
                false
            }
            None => {
                walking.insert(over, false);
                true
            }
        }
    }

    /// Whether the caller walks once more.
    pub(crate) fn goes_again(&self, over: K) -> bool {
        let mut walking = self.walking();
        if walking.get(&over) == Some(&true) {
            walking.insert(over, false);
            return true;
        }
        walking.remove(&over);
        false
    }
}

impl Engine {
    /// Decides on what was offered to the runs of a partition.
    pub(crate) async fn consume_inbox(&self, partition: Partition) {
        let walks = &self.shared().inbox_walks;
        if !walks.begins(partition) {
            return;
        }
        loop {
            self.walk_inbox(partition).await;
            if !walks.goes_again(partition) {
                return;
            }
        }
    }

    /// The same, beside the caller.
    pub(crate) fn consume_inbox_beside(&self, partition: Partition) {
        let engine = self.clone();
        tokio::spawn(async move { engine.consume_inbox(partition).await });
    }

    /// Decides on what was offered to a run, beside the caller. Outcomes that came with their bells
    /// are not read again; everything else is read.
    pub(crate) fn consume_run_beside(&self, run: RunId, brought: Vec<InboxItem>) {
        let engine = self.clone();
        tokio::spawn(async move { engine.consume_run(run, brought).await });
    }

    async fn consume_run(&self, run: RunId, mut brought: Vec<InboxItem>) {
        let walks = &self.shared().run_inbox_walks;
        if !walks.begins(run) {
            return;
        }
        loop {
            match std::mem::take(&mut brought) {
                items if items.is_empty() => self.consume_items(run).await,
                _ if self.suspended(run).is_some() => {}
                items => self.consume_outcomes(run, &items).await,
            }
            if !walks.goes_again(run) {
                return;
            }
        }
    }

    async fn walk_inbox(&self, partition: Partition) {
        let only = Partitions::Only(BTreeSet::from([partition]));
        let mut walk = PartitionRecovery::of_inbox(partition);
        let mut consuming = JoinSet::new();
        loop {
            match walk.next_step() {
                RecoveryStep::ReadOffered(after) => {
                    let page = self.store().offered(&only, after, RECOVERY_PAGE).await;
                    // What cannot be read now is looked for again soon.
                    let Ok(page) = page else { break };
                    walk.page_read(&page);
                }
                RecoveryStep::Consume(run) => {
                    if consuming.len() >= AT_ONCE {
                        consuming.join_next().await;
                    }
                    let engine = self.clone();
                    consuming.spawn(async move { engine.consume_run(run, Vec::new()).await });
                }
                RecoveryStep::ReadAwake(_) | RecoveryStep::Acquire(..) | RecoveryStep::Done => {
                    break;
                }
            }
        }
        consuming.join_all().await;
    }

    /// Decides on what was offered to a run, in order.
    async fn consume_items(&self, run: RunId) {
        if self.suspended(run).is_some() {
            // It may crash the process, and is acquired alone first.
            return;
        }
        let (mut after, mut commands) = (0, true);
        loop {
            let page = self
                .store()
                .inbox_page(run, after, InboxBounds::default())
                .await;
            let Ok(items) = page else { return };
            let Some(last) = items.last() else { return };
            after = last.number;
            if items.iter().any(|item| item.key.starts_with(OUTCOMES)) {
                self.consume_outcomes(run, &items).await;
            }
            for item in items.iter().filter(|item| item.key.starts_with(LETTERS)) {
                self.consume_letter(run, item).await;
            }
            // Those after one that stays wait with it.
            let mut asked = items.iter().filter(|item| item.key.starts_with(COMMANDS));
            while let Some(item) = asked.next().filter(|_| commands) {
                commands = self.consume_item(run, item).await;
            }
        }
    }

    /// Decides on one item; `false` if it stays.
    async fn consume_item(&self, run: RunId, item: &InboxItem) -> bool {
        if wire::is_newer(item) {
            return false;
        }
        let request = wire::decode(item);
        let mut refused = None;
        let mut step = CommandItem.begin(request.is_some());
        loop {
            step = match (step, &request) {
                (ItemStep::ReadRun, Some(request)) => match self.key_in_log(run, request).await {
                    Ok(found) => CommandItem.run_read(Some(found)),
                    Err(error) => CommandItem.executed(self.answer_of(error, &mut refused)),
                },
                (ItemStep::Execute, Some(request)) => {
                    let done = self.execute_item(run, request, &item.key).await;
                    CommandItem.executed(match done {
                        Ok(()) => ItemAnswer::Taken,
                        Err(error) => self.answer_of(error, &mut refused),
                    })
                }
                (ItemStep::Refuse, _) => {
                    let error = refused.take();
                    let error = error.unwrap_or_else(|| wire::unreadable(run, &item.key));
                    let reason = wire::refusal(request.as_ref(), error);
                    let done = self.store().refuse(run, &item.key, &reason).await;
                    self.ring_for(run);
                    return done.is_ok();
                }
                (ItemStep::Discard, _) => {
                    let done = self.store().discard(run, &item.key).await;
                    self.ring_for(run);
                    return done.is_ok();
                }
                (ItemStep::Ring, _) => {
                    self.ring_for(run);
                    return true;
                }
                (ItemStep::Leave | ItemStep::ReadRun | ItemStep::Execute, _) => return false,
            };
        }
    }

    async fn key_in_log(
        &self,
        run: RunId,
        request: &CommandRequest,
    ) -> Result<Result<KeyInLog, windlass_core::run::Refusal>, CommandError> {
        let loaded = self.load_beside(run).await?;
        let key = request.actor.request.as_deref();
        Ok(key.map_or(Ok(KeyInLog::Unknown), |key| KeyInLog::of(&loaded.run, key)))
    }

    async fn execute_item(
        &self,
        run: RunId,
        request: &CommandRequest,
        item: &str,
    ) -> Result<(), CommandError> {
        let command = self.resolved(run, request).await?;
        self.submit_item(run, command.into(), Some(item)).await
    }

    /// What an error means for the item that led to it; kept if it is the caller's to know.
    fn answer_of(&self, error: CommandError, refused: &mut Option<CommandError>) -> ItemAnswer {
        if let CommandError::Load(LoadError::NotFound(_)) = error {
            return ItemAnswer::NoRun;
        }
        if self.is_lost(&error) {
            return ItemAnswer::Lost;
        }
        *refused = Some(error);
        ItemAnswer::Refused
    }

    /// Whether an error says nothing of the item that led to it: another process, or a later
    /// moment, decides on it.
    pub(super) fn is_lost(&self, error: &CommandError) -> bool {
        match error {
            CommandError::Load(LoadError::Unavailable(why)) => {
                matches!(why, Unavailable::Elsewhere | Unavailable::Later { .. })
            }
            CommandError::Load(error) => !self.is_unreadable(error),
            CommandError::SignalInvalid(error) | CommandError::ResultInvalid(error) => {
                *error == PayloadError::Busy
            }
            CommandError::Stopped
            | CommandError::OwnerUnavailable { .. }
            | CommandError::LetterWaits => true,
            CommandError::Refused { .. }
            | CommandError::UnknownNode(_)
            | CommandError::AmbiguousNode(_)
            | CommandError::SignalName
            | CommandError::KeyInvalid
            | CommandError::ParentEnded { .. }
            | CommandError::NotAwaited { .. } => false,
        }
    }

    pub(crate) fn ring_for(&self, run: RunId) {
        ring(Arc::clone(self.store()), Bell::Run(run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_walked_once_at_a_time_and_again_if_something_may_have_come() {
        let (walks, partition) = (Walks::default(), Partition(3));
        assert!(walks.begins(partition));
        assert!(!walks.begins(partition) && !walks.begins(partition));
        assert!(walks.begins(Partition(4)));
        assert!(walks.goes_again(partition));
        assert!(!walks.goes_again(partition));
        assert!(walks.begins(partition));
    }
}
