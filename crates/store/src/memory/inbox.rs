//! The inbox in memory.

use std::collections::BTreeMap;
use std::future::ready;
use std::ops::Bound;

use windlass_core::RunId;

use super::{State, answer};
use crate::{
    Error, Inbox, InboxBounds, InboxItem, MemoryStore, Offer, OfferAnswer, Partition, Partitions,
    Pending, Wakes as _, offered_bells,
};

/// What was offered to one run.
#[derive(Debug)]
pub(super) struct RunInbox {
    partition: Partition,
    /// Oldest first.
    waiting: Vec<InboxItem>,
    /// How many were offered.
    offered: u64,
    /// The reasons, by key.
    refused: BTreeMap<Box<str>, Vec<u8>>,
}

impl RunInbox {
    fn new(partition: Partition) -> Self {
        Self {
            partition,
            waiting: Vec::new(),
            offered: 0,
            refused: BTreeMap::new(),
        }
    }

    pub(super) fn waits(&self, key: &str) -> bool {
        self.waiting.iter().any(|item| *item.key == *key)
    }

    /// Removes an item that waits.
    pub(super) fn take(&mut self, key: &str) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|item| *item.key != *key);
        self.waiting.len() < before
    }

    fn offer(&mut self, offer: Offer) -> bool {
        let first = !self.waits(&offer.key) && !self.refused.contains_key(&offer.key);
        if first {
            self.offered += 1;
            self.waiting.push(InboxItem {
                number: self.offered,
                key: offer.key,
                bytes: offer.bytes,
            });
        }
        first
    }
}

impl State {
    pub(super) fn offer(&mut self, offer: Offer) -> bool {
        let inbox = self.inbox.entry(offer.run);
        let inbox = inbox.or_insert_with(|| RunInbox::new(offer.partition));
        inbox.offer(offer)
    }
}

impl Inbox for MemoryStore {
    fn offer(&self, offers: Vec<Offer>) -> Pending<'_, Result<Vec<bool>, Error>> {
        let runs: Vec<(Partition, RunId)> =
            offers.iter().map(|it| (it.partition, it.run)).collect();
        let mut state = self.state();
        let offered: Vec<bool> = offers.into_iter().map(|it| state.offer(it)).collect();
        drop(state);
        let bells = offered_bells(&runs, &offered);
        Box::pin(async move {
            self.ring(&bells).await?;
            Ok(offered)
        })
    }

    fn inbox_page(
        &self,
        run: RunId,
        after: u64,
        most: InboxBounds,
    ) -> Pending<'_, Result<Vec<InboxItem>, Error>> {
        answer(|| {
            let state = self.state();
            let waiting = state.inbox.get(&run).map(|inbox| &inbox.waiting);
            let later = waiting.into_iter().flatten().filter(|it| it.number > after);
            most.cut(later.cloned().map(Ok))
        })
    }

    fn offered(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        answer(|| {
            let state = self.state();
            let after = after.map_or(Bound::Unbounded, Bound::Excluded);
            let rest = state.inbox.range((after, Bound::Unbounded));
            let offered = rest.filter(|(_, inbox)| {
                !inbox.waiting.is_empty() && partitions.contains(inbox.partition)
            });
            Ok(offered.map(|(run, _)| *run).take(limit).collect())
        })
    }

    fn refuse(&self, run: RunId, key: &str, reason: &[u8]) -> Pending<'_, Result<bool, Error>> {
        let mut state = self.state();
        let refused = state.inbox.get_mut(&run).is_some_and(|inbox| {
            let waited = inbox.take(key);
            if waited {
                inbox.refused.insert(key.into(), reason.to_vec());
            }
            waited
        });
        Box::pin(ready(Ok(refused)))
    }

    fn answer(&self, run: RunId, key: &str) -> Pending<'_, Result<Option<OfferAnswer>, Error>> {
        answer(|| {
            let state = self.state();
            let Some(inbox) = state.inbox.get(&run) else {
                return Ok(None);
            };
            let refused = inbox.refused.get(key).cloned().map(OfferAnswer::Refused);
            Ok(refused.or_else(|| inbox.waits(key).then_some(OfferAnswer::Waiting)))
        })
    }

    fn discard(&self, run: RunId, key: &str) -> Pending<'_, Result<bool, Error>> {
        let mut state = self.state();
        let discarded = state
            .inbox
            .get_mut(&run)
            .is_some_and(|inbox| inbox.take(key) || inbox.refused.remove(key).is_some());
        Box::pin(ready(Ok(discarded)))
    }
}
