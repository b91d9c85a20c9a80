//! What reaches a run's owner from outside: commands that another process accepted, and later
//! the outcomes of its workers. An item waits until a record consumes it or the owner refuses
//! it; nothing here says what it means.
//!
//! ```text
//! offer ─▶ waiting ─┬ Append::consumed ─▶ gone: the log says what came of it
//!                   ├ refuse ───────────▶ refused, with a reason, until it is discarded
//!                   └ discard ──────────▶ gone
//! ```

use std::collections::BTreeSet;

use windlass_core::RunId;

use crate::{Bell, Error, InboxItem, Partition, Partitions, Pending};

/// Something for a run's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The run that the offer is for.
    pub run: RunId,
    /// The partition that the run is in.
    pub partition: Partition,
    /// What makes a repeated offer the same one, within the run.
    pub key: Box<str>,
    /// What is offered.
    pub bytes: Vec<u8>,
}

/// How much of an inbox is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxBounds {
    /// The most items.
    pub items: usize,
    /// The most bytes of all items together.
    pub bytes: usize,
}

impl Default for InboxBounds {
    fn default() -> Self {
        Self {
            items: 1_000,
            bytes: 8 << 20,
        }
    }
}

impl InboxBounds {
    /// The items of a page, of those that follow its beginning.
    pub fn cut<E>(
        self,
        items: impl IntoIterator<Item = Result<InboxItem, E>>,
    ) -> Result<Vec<InboxItem>, E> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        for item in items.into_iter().take(self.items) {
            let item = item?;
            bytes += item.bytes.len();
            if bytes > self.bytes && !page.is_empty() {
                break;
            }
            page.push(item);
        }
        Ok(page)
    }
}

/// What became of an offer whose item is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferAnswer {
    /// The owner has not decided on it.
    Waiting,
    /// The owner refused it, for this reason.
    Refused(Vec<u8>),
}

/// What was offered to runs, and what owners refused.
pub trait Inbox: Send + Sync + 'static {
    /// Offers items to the owners of runs; one answer for each, in order. Durable on return.
    /// The first per run and key wins: `false` says that one waits already, or was refused and
    /// is not discarded yet. Rings [`crate::Bell::Offered`] for the runs of the first ones. After an
    /// error, or a crash in between: some of them are offered, or none.
    fn offer(&self, offers: Vec<Offer>) -> Pending<'_, Result<Vec<bool>, Error>>;

    /// What waits for a run after a place (0 is the beginning), oldest first, within the bounds
    /// of a page: at least one item comes if there is one. An item is consumed by naming its key
    /// in [`crate::Append::consumed`].
    fn inbox_page(
        &self,
        run: RunId,
        after: u64,
        most: InboxBounds,
    ) -> Pending<'_, Result<Vec<InboxItem>, Error>>;

    /// All that waits for a run, oldest first.
    fn inbox(&self, run: RunId) -> Pending<'_, Result<Vec<InboxItem>, Error>> {
        Box::pin(async move {
            let mut items: Vec<InboxItem> = Vec::new();
            loop {
                let after = items.last().map_or(0, |item| item.number);
                let page = self.inbox_page(run, after, InboxBounds::default()).await?;
                if page.is_empty() {
                    return Ok(items);
                }
                items.extend(page);
            }
        })
    }

    /// How many items wait for a run, counted up to `most`.
    fn waiting_items(&self, run: RunId, most: usize) -> Pending<'_, Result<usize, Error>> {
        Box::pin(async move { Ok(self.inbox(run).await?.len().min(most)) })
    }

    /// Runs of these partitions for which something waits, by id, after the given one, whether
    /// or not they have a log: what an owner walks.
    fn offered(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>>;

    /// Refuses an item that waits; no record can consume it from then on, also not one that is
    /// on its way. The reason stays until it is discarded, or the run is forgotten. `false` if
    /// none waits under that key. After a crash in between: it waits, or is refused.
    fn refuse(&self, run: RunId, key: &str, reason: &[u8]) -> Pending<'_, Result<bool, Error>>;

    /// What became of an offer. `None` if there is no item under that key: it was consumed,
    /// discarded or never offered, and the run's log tells which.
    fn answer(&self, run: RunId, key: &str) -> Pending<'_, Result<Option<OfferAnswer>, Error>>;

    /// Removes an item, waiting or refused, without a record: the log holds its outcome
    /// already, or its caller has read the refusal. `false` if there is none. After a crash in
    /// between: it is there, or not.
    fn discard(&self, run: RunId, key: &str) -> Pending<'_, Result<bool, Error>>;
}

/// The bells for the runs of those offers that are the first under their keys, each once.
pub fn offered_bells(runs: &[(Partition, RunId)], firsts: &[bool]) -> Vec<Bell> {
    let first = runs.iter().zip(firsts).filter(|(_, first)| **first);
    let bells: BTreeSet<Bell> = first
        .map(|((partition, run), _)| Bell::Offered(*partition, *run))
        .collect();
    bells.into_iter().collect()
}

/// Why an append fails that consumes an item which does not wait.
pub fn not_waiting(key: &str) -> Error {
    Error::NotFound(format!("inbox item '{key}', which the record consumes"))
}
