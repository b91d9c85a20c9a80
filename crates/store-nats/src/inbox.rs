//! What was offered to runs, and what owners refused: a row for each offer. The record that
//! consumes an offer names it; the row is removed after that record is durable, before the
//! database has it (`projector.rs`).

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_core::RunId;
use windlass_store::{
    Error, Inbox, InboxBounds, InboxItem, Offer, OfferAnswer, Partitions, Pending, not_waiting,
};

use crate::codec::ConsumedOffer;
use crate::error::PublishFault;
use crate::store::{Inner, NatsStore};
use crate::table::Row;

/// How an offer stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OfferState {
    /// It waits.
    #[default]
    Waiting,
    /// A refusal is under way, and not decided: it waits until it is.
    Refusing,
    /// The owner refused it; the payload is the reason.
    Refused,
}

/// What is noted with an offer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OfferMeta {
    pub(crate) key: Box<str>,
    /// Which offer under this key it is.
    pub(crate) offer: Box<str>,
    #[serde(default)]
    pub(crate) state: OfferState,
    /// Its place among what was offered, if the row was changed since.
    #[serde(default)]
    pub(crate) number: u64,
}

impl OfferMeta {
    pub(crate) fn waits(&self) -> bool {
        self.state != OfferState::Refused
    }

    /// The place of an offer whose row is this.
    pub(crate) fn number_in(&self, row: &Row) -> u64 {
        match self.number {
            0 => row.sequence,
            number => number,
        }
    }
}

impl Inner {
    /// An offer's row.
    pub(crate) async fn offer_row(
        &self,
        run: RunId,
        key: &str,
    ) -> Result<Option<(Row, OfferMeta)>, Error> {
        let subject = self.names.inbox_item_anywhere(run, key);
        let Some(row) = self.inbox.row(&subject).await? else {
            return Ok(None);
        };
        let meta = row.meta()?;
        Ok(Some((row, meta)))
    }

    /// The offers that a record is about to consume: each must wait. A refusal that is under way
    /// is stopped.
    pub(crate) async fn consumable(
        &self,
        run: RunId,
        keys: &[Box<str>],
    ) -> Result<Vec<ConsumedOffer>, Error> {
        let each = keys.iter().map(|key| self.consumable_one(run, key));
        futures_util::future::try_join_all(each).await
    }

    async fn consumable_one(&self, run: RunId, key: &str) -> Result<ConsumedOffer, Error> {
        loop {
            let Some((row, meta)) = self.offer_row(run, key).await? else {
                return Err(not_waiting(key));
            };
            match meta.state {
                OfferState::Refused => return Err(not_waiting(key)),
                OfferState::Waiting => {
                    return Ok(ConsumedOffer {
                        key: key.into(),
                        offer: meta.offer,
                    });
                }
                OfferState::Refusing => {
                    let waiting = OfferMeta {
                        state: OfferState::Waiting,
                        number: meta.number_in(&row),
                        ..meta
                    };
                    let put = self
                        .inbox
                        .put(row.subject, row.sequence, &waiting, row.payload);
                    match put.await {
                        Ok(_) | Err(PublishFault::Conflict) => {}
                        Err(fault) => return Err(fault.into_error()),
                    }
                }
            }
        }
    }

    /// Removes offers that a durable record consumed. A later offer under the same key stays.
    pub(crate) async fn remove_consumed(
        &self,
        run: RunId,
        consumed: &[ConsumedOffer],
    ) -> Result<(), Error> {
        for ConsumedOffer { key, offer } in consumed {
            while let Some((row, meta)) = self.offer_row(run, key).await? {
                if meta.offer != *offer || self.inbox.remove(row.sequence).await? {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn offer_one(&self, offer: &Offer) -> Result<bool, Error> {
        let subject = self
            .names
            .inbox_item(offer.partition.0, offer.run, &offer.key);
        let meta = OfferMeta {
            key: offer.key.clone(),
            offer: self.client.new_inbox().into(),
            state: OfferState::Waiting,
            number: 0,
        };
        let bytes = Bytes::copy_from_slice(&offer.bytes);
        let put = || self.inbox.put(subject.clone(), 0, &meta, bytes.clone());
        let answer = match put().await {
            Err(PublishFault::Conflict) => {
                // A record of this process may have consumed the one that is there.
                self.barrier().await?;
                put().await
            }
            answer => answer,
        };
        match answer {
            Ok(_) => Ok(true),
            Err(PublishFault::Conflict) => Ok(false),
            Err(fault) => Err(fault.into_error()),
        }
    }

    async fn waiting_rows(&self, run: RunId) -> Result<Vec<(u64, Row, OfferMeta)>, Error> {
        // An offer that this process's own record consumed is gone once that is applied.
        self.barrier().await?;
        let rows = self
            .inbox
            .scan(vec![self.names.inbox_of_run(run)], false)
            .await?;
        let mut waiting = Vec::with_capacity(rows.len());
        for row in rows {
            let meta: OfferMeta = row.meta()?;
            if meta.waits() {
                waiting.push((meta.number_in(&row), row, meta));
            }
        }
        waiting.sort_by_key(|it| it.0);
        Ok(waiting)
    }

    async fn offered_runs(&self, partitions: &Partitions) -> Result<BTreeSet<RunId>, Error> {
        self.barrier().await?;
        let subjects: Vec<String> = match partitions {
            Partitions::All => vec![self.names.inbox_all()],
            Partitions::Only(only) => {
                let each = only.iter().map(|it| self.names.inbox_of_partition(it.0));
                each.collect()
            }
        };
        if subjects.is_empty() || self.inbox.count().await? == 0 {
            return Ok(BTreeSet::new());
        }
        let rows = self.inbox.scan(subjects, true).await?;
        let waits = |row: &&Row| row.meta::<OfferMeta>().is_ok_and(|meta| meta.waits());
        let runs = rows.iter().filter(waits);
        Ok(runs
            .filter_map(|row| self.names.run_of_inbox(&row.subject))
            .collect())
    }

    /// Whether anything waits for a run of these partitions.
    pub(crate) async fn has_offers(&self, partitions: &Partitions) -> Result<bool, Error> {
        Ok(!self.offered_runs(partitions).await?.is_empty())
    }

    /// Removes everything that was offered to a run.
    pub(crate) async fn remove_offers(&self, run: RunId) -> Result<(), Error> {
        if self.inbox.count().await? == 0 {
            return Ok(());
        }
        let rows = self
            .inbox
            .scan(vec![self.names.inbox_of_run(run)], true)
            .await?;
        for row in rows {
            self.inbox.remove(row.sequence).await?;
        }
        Ok(())
    }
}

impl Inbox for NatsStore {
    fn offer(&self, offers: Vec<Offer>) -> Pending<'_, Result<Vec<bool>, Error>> {
        self.task(move |inner| async move {
            // In order, so that of two under one key the first wins, and numbers follow the
            // order. Different runs go side by side.
            let mut by_run: std::collections::BTreeMap<RunId, Vec<(usize, &Offer)>> =
                std::collections::BTreeMap::new();
            for (at, offer) in offers.iter().enumerate() {
                by_run.entry(offer.run).or_default().push((at, offer));
            }
            let each = by_run.into_values().map(|own| {
                let inner = &inner;
                async move {
                    let mut answers = Vec::with_capacity(own.len());
                    for (at, offer) in own {
                        answers.push((at, inner.offer_one(offer).await?));
                    }
                    Ok::<_, Error>(answers)
                }
            });
            let each: Vec<_> = each.collect();
            let mut answers = vec![false; offers.len()];
            for (at, answer) in futures_util::future::try_join_all(each)
                .await?
                .into_iter()
                .flatten()
            {
                answers[at] = answer;
            }
            Ok(answers)
        })
    }

    fn inbox_page(
        &self,
        run: RunId,
        after: u64,
        most: InboxBounds,
    ) -> Pending<'_, Result<Vec<InboxItem>, Error>> {
        self.task(move |inner| async move {
            let rows = inner.waiting_rows(run).await?;
            let items = rows.into_iter().filter(|it| it.0 > after);
            let items = items.map(|(number, row, meta)| {
                Ok(InboxItem {
                    number,
                    key: meta.key,
                    bytes: row.payload.to_vec(),
                })
            });
            most.cut(items)
        })
    }

    fn waiting_items(&self, run: RunId, most: usize) -> Pending<'_, Result<usize, Error>> {
        self.task(move |inner| async move { Ok(inner.waiting_rows(run).await?.len().min(most)) })
    }

    fn offered(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        let partitions = partitions.clone();
        self.task(move |inner| async move {
            let runs = inner.offered_runs(&partitions).await?.into_iter();
            let later = runs.filter(|run| after.is_none_or(|after| *run > after));
            Ok(later.take(limit).collect())
        })
    }

    fn refuse(&self, run: RunId, key: &str, reason: &[u8]) -> Pending<'_, Result<bool, Error>> {
        let (key, reason) = (key.to_owned(), Bytes::copy_from_slice(reason));
        self.task(move |inner| async move { inner.refuse_offer(run, &key, reason).await })
    }

    fn answer(&self, run: RunId, key: &str) -> Pending<'_, Result<Option<OfferAnswer>, Error>> {
        let key = key.to_owned();
        NatsStore::task(self, move |inner| async move {
            let waits = |found: &Option<(Row, OfferMeta)>| {
                found.as_ref().is_some_and(|(_, meta)| meta.waits())
            };
            let mut found = inner.offer_row(run, &key).await?;
            if waits(&found) && inner.projector.lag() > 0 {
                // A record of this process may have consumed it.
                inner.barrier().await?;
                found = inner.offer_row(run, &key).await?;
            }
            Ok(found.map(|(row, meta)| match meta.state {
                OfferState::Refused => OfferAnswer::Refused(row.payload.to_vec()),
                OfferState::Waiting | OfferState::Refusing => OfferAnswer::Waiting,
            }))
        })
    }

    fn discard(&self, run: RunId, key: &str) -> Pending<'_, Result<bool, Error>> {
        let key = key.to_owned();
        self.task(move |inner| async move {
            while let Some((row, _)) = inner.offer_row(run, &key).await? {
                if inner.inbox.remove(row.sequence).await? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }
}
