//! What was offered to runs, and what owners refused: a row for each offer, of which each process
//! has a copy (`inbox_state.rs`). The record that consumes an offer names it; the row is removed
//! after that record is durable, before the database has it (`projector.rs`).

use std::sync::atomic::Ordering;

use bytes::Bytes;
use windlass_core::RunId;
use windlass_store::{
    Error, Inbox, InboxBounds, InboxItem, Offer, OfferAnswer, Partitions, Pending, not_waiting,
    offered_bells,
};

use crate::codec::ConsumedOffer;
use crate::error::PublishFault;
use crate::inbox_state::{InboxState, OfferMeta, OfferState, Offered};
use crate::mirror::Rows as _;
use crate::store::{Inner, NatsStore};
use crate::table::{Row, message};

/// How often an offer is tried that others get ahead of.
const MOST_TRIES: usize = 8;

impl Inner {
    /// An offer's row, by the server. One that the server does not have leaves the copy.
    pub(crate) async fn offer_row(
        &self,
        run: RunId,
        key: &str,
    ) -> Result<Option<(Row, OfferMeta)>, Error> {
        let subject = self.names.inbox_item_anywhere(run, key);
        let known = self.offers.rows().offer(run, key).map(Offered::place);
        let Some(row) = self.inbox.row(&subject).await? else {
            if let Some((subject, sequence)) = known {
                self.offers.rows().forget(&subject, sequence);
            }
            return Ok(None);
        };
        let meta: OfferMeta = row.meta()?;
        self.note_row(row.clone());
        let there = meta.state != OfferState::Gone;
        Ok(there.then_some((row, meta)))
    }

    /// Writes an offer's row in place of the one at `expected`.
    pub(crate) async fn put_offer(
        &self,
        subject: String,
        expected: u64,
        meta: &OfferMeta,
        payload: Bytes,
    ) -> Result<u64, PublishFault> {
        let put = self
            .inbox
            .put(subject.clone(), expected, meta, payload.clone());
        let sequence = put.await?;
        self.note_offered(Row::written(subject, sequence, meta, payload));
        Ok(sequence)
    }

    fn note_offered(&self, row: Row) {
        self.last_offer.fetch_max(row.sequence, Ordering::Relaxed);
        self.note_row(row);
    }

    /// Takes a row into the copy, if this process reads it: no other row comes here otherwise, not
    /// even the one that says that this one is gone.
    fn note_row(&self, row: Row) {
        if self.offers.is_wanted() {
            self.offers.rows().note_own(row);
        }
    }

    /// Removes an offer that must be as it is known; `false` if it has changed or is gone.
    async fn remove_offer(&self, offered: &Offered) -> Result<bool, Error> {
        let Offered { row, meta, .. } = offered;
        let gone = OfferMeta {
            state: OfferState::Gone,
            ..meta.clone()
        };
        match self
            .inbox
            .put_gone(row.subject.clone(), row.sequence, &gone)
            .await
        {
            Ok(sequence) => {
                let row = Row::written(row.subject.clone(), sequence, &gone, Bytes::new());
                self.note_row(row);
                Ok(true)
            }
            Err(PublishFault::Conflict) => {
                match self.inbox.row(&row.subject).await? {
                    Some(found) => self.note_row(found),
                    None => self.offers.rows().forget(&row.subject, row.sequence),
                }
                Ok(false)
            }
            // A stream that is full takes no row, but lets go of one.
            Err(PublishFault::Failed(Error::Full(_)) | PublishFault::Unknown(Error::Full(_))) => {
                let removed = self.inbox.remove(row.sequence).await?;
                self.offers.rows().forget(&row.subject, row.sequence);
                if removed {
                    self.tell_gone(row.subject.clone(), &gone).await;
                }
                Ok(removed)
            }
            Err(fault) => Err(fault.into_error()),
        }
    }

    /// Lets other processes know of an offer whose row was removed, now that there is room again.
    /// What they do not hear they find out when they ask for the offer or take its partition.
    async fn tell_gone(&self, subject: String, gone: &OfferMeta) {
        let put = self.inbox.put_gone(subject.clone(), 0, gone).await;
        if let Ok(sequence) = put {
            let row = Row::written(subject, sequence, gone, Bytes::new());
            self.note_row(row);
        }
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
        let copied = self.offers.rows().offer(run, key).cloned();
        // The payload of one that is written again is needed.
        let usable = |it: &Offered| it.has_payload() || it.meta.state != OfferState::Refusing;
        let mut found = copied.filter(usable).map(|it| (it.row, it.meta));
        for _ in 0..MOST_TRIES {
            if found.is_none() {
                // It may not have come here yet.
                found = self.offer_row(run, key).await?;
            }
            let Some((row, meta)) = found.take() else {
                return Err(not_waiting(key));
            };
            if self.offers.rows().is_consumed(&meta.offer) {
                return Err(not_waiting(key));
            }
            match meta.state {
                OfferState::Refused | OfferState::Gone => return Err(not_waiting(key)),
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
                    let put = self.put_offer(row.subject, row.sequence, &waiting, row.payload);
                    match put.await {
                        Ok(_) | Err(PublishFault::Conflict) => {}
                        Err(fault) => return Err(fault.into_error()),
                    }
                }
            }
        }
        Err(Error::Unavailable(
            "the offer is being consumed and refused at once; try again".into(),
        ))
    }

    /// A record that was written consumed offers: they wait no more, although their rows stay
    /// until the database follows.
    pub(crate) fn note_consumed(&self, consumed: &[ConsumedOffer]) {
        if consumed.is_empty() {
            return;
        }
        let mut rows = self.offers.rows();
        for it in consumed {
            rows.note_consumed(it.offer.clone());
        }
    }

    /// Removes offers that a durable record consumed. A later offer under the same key stays.
    pub(crate) async fn remove_consumed(
        &self,
        run: RunId,
        consumed: &[ConsumedOffer],
    ) -> Result<(), Error> {
        let each = consumed.iter().map(|it| self.remove_consumed_one(run, it));
        futures_util::future::try_join_all(each).await.map(|_| ())
    }

    async fn remove_consumed_one(&self, run: RunId, consumed: &ConsumedOffer) -> Result<(), Error> {
        let ConsumedOffer { key, offer } = consumed;
        let mut copied = self.offers.rows().offer(run, key).cloned();
        copied = copied.filter(|it| it.meta.offer == *offer);
        loop {
            let found = match copied.take() {
                Some(found) => Some(found),
                None => {
                    let found = self.offer_row(run, key).await?;
                    let found = found.map(|(row, meta)| Offered::of(row, meta));
                    found.filter(|it| it.meta.offer == *offer)
                }
            };
            let Some(found) = found else { break };
            if self.remove_offer(&found).await? {
                break;
            }
        }
        self.offers.rows().note_removed(offer);
        Ok(())
    }

    /// Offers items, in order: of two under one key the first wins, and numbers follow the order.
    async fn offer_all(&self, offers: &[Offer]) -> Result<Vec<bool>, Error> {
        let mut sent = Vec::with_capacity(offers.len());
        for offer in offers {
            let (subject, meta) = self.new_offer(offer);
            let after = self.offers.rows().gone(&subject).unwrap_or(0);
            let bytes = Bytes::copy_from_slice(&offer.bytes);
            let text = message(&meta, bytes)?;
            let ack = self.inbox.sent(subject.clone(), after, text).await;
            sent.push((subject, meta, ack));
        }
        let mut answers = Vec::with_capacity(offers.len());
        for (offer, (subject, meta, ack)) in offers.iter().zip(sent) {
            let written = match ack {
                Ok(ack) => ack.await,
                Err(fault) => Err(fault),
            };
            answers.push(match written {
                Ok(sequence) => {
                    let bytes = Bytes::copy_from_slice(&offer.bytes);
                    self.note_offered(Row::written(subject, sequence, &meta, bytes));
                    true
                }
                Err(PublishFault::Conflict) => self.offer_again(offer).await?,
                Err(fault) => return Err(fault.into_error()),
            });
        }
        // Other processes hear of the rows themselves.
        let runs: Vec<_> = offers.iter().map(|it| (it.partition, it.run)).collect();
        for bell in offered_bells(&runs, &answers) {
            self.bells.ring(bell);
        }
        Ok(answers)
    }

    fn new_offer(&self, offer: &Offer) -> (String, OfferMeta) {
        let subject = self
            .names
            .inbox_item(offer.partition.0, offer.run, &offer.key);
        let meta = OfferMeta {
            key: offer.key.clone(),
            offer: self.client.new_inbox().into(),
            state: OfferState::Waiting,
            number: 0,
        };
        (subject, meta)
    }

    /// Offers what found another row: that may say that an earlier offer is gone, or be one that a
    /// record of this process has consumed.
    async fn offer_again(&self, offer: &Offer) -> Result<bool, Error> {
        let (subject, meta) = self.new_offer(offer);
        for _ in 0..MOST_TRIES {
            let after = match self.inbox.row(&subject).await? {
                None => 0,
                Some(row) => {
                    let found: OfferMeta = row.meta()?;
                    self.note_row(row.clone());
                    if found.state != OfferState::Gone {
                        if !self.offers.rows().is_consumed(&found.offer) {
                            return Ok(false);
                        }
                        self.barrier().await?;
                        continue;
                    }
                    row.sequence
                }
            };
            let bytes = Bytes::copy_from_slice(&offer.bytes);
            match self.put_offer(subject.clone(), after, &meta, bytes).await {
                Ok(_) => return Ok(true),
                Err(PublishFault::Conflict) => {}
                Err(fault) => return Err(fault.into_error()),
            }
        }
        Err(Error::Unavailable(
            "an offer changes too often; try again".into(),
        ))
    }

    /// Whether anything waits for a run of these partitions.
    pub(crate) async fn has_offers(&self, partitions: &Partitions) -> Result<bool, Error> {
        self.offers.complete().await?;
        Ok(!self.offers.rows().offered(partitions, None, 1).is_empty())
    }

    /// Removes everything that was offered to a run.
    pub(crate) async fn remove_offers(&self, run: RunId) -> Result<(), Error> {
        self.offers.catch_up().await?;
        let offered = self.offers.rows().of_run(run);
        for it in offered {
            self.remove_offer(&it).await?;
        }
        Ok(())
    }

    /// What became of an offer.
    async fn answer_to(&self, run: RunId, key: &str) -> Result<Option<OfferAnswer>, Error> {
        self.offers.complete().await?;
        let copied = self.offers.rows().offer(run, key).cloned();
        let offered = match copied {
            Some(it) if it.meta.state == OfferState::Refused && !it.has_payload() => {
                let found = self.offer_row(run, key).await?;
                found.map(|(row, meta)| Offered::of(row, meta))
            }
            copied => copied,
        };
        Ok(offered.and_then(|it| match it.meta.state {
            OfferState::Gone => None,
            OfferState::Refused => Some(OfferAnswer::Refused(it.row.payload.to_vec())),
            OfferState::Waiting | OfferState::Refusing => {
                let waits = !self.offers.rows().is_consumed(&it.meta.offer);
                waits.then_some(OfferAnswer::Waiting)
            }
        }))
    }

    /// A page of what waits for a run, with payloads that are not kept.
    async fn whole_page(
        &self,
        run: RunId,
        after: u64,
        most: InboxBounds,
    ) -> Result<Vec<InboxItem>, Error> {
        for _ in 0..MOST_TRIES {
            self.offers.complete().await?;
            let page = self.offers.rows().page(run, after, most);
            let whole = page.iter().map(|it| self.whole(run, it));
            let whole = futures_util::future::try_join_all(whole).await?;
            // One that is no more leaves the copy.
            if whole.iter().all(Option::is_some) {
                return Ok(whole.into_iter().flatten().collect());
            }
        }
        Err(Error::Unavailable(
            "the inbox changes too often; try again".into(),
        ))
    }

    /// An offer that waits, with its payload; nothing if it waits no more.
    async fn whole(&self, run: RunId, offered: &Offered) -> Result<Option<InboxItem>, Error> {
        if offered.has_payload() {
            return Ok(Some(inbox_item(offered, &offered.row.payload)));
        }
        let found = self.offer_row(run, &offered.meta.key).await?;
        let found = found.filter(|(_, meta)| meta.waits() && meta.offer == offered.meta.offer);
        Ok(found.map(|(row, _)| inbox_item(offered, &row.payload)))
    }

    async fn discard_offer(&self, run: RunId, key: &str) -> Result<bool, Error> {
        let mut copied = self.offers.rows().offer(run, key).cloned();
        for _ in 0..MOST_TRIES {
            let found = match copied.take() {
                Some(found) => Some(found),
                None => {
                    let found = self.offer_row(run, key).await?;
                    found.map(|(row, meta)| Offered::of(row, meta))
                }
            };
            let Some(found) = found else {
                return Ok(false);
            };
            if self.remove_offer(&found).await? {
                return Ok(true);
            }
        }
        Err(Error::Unavailable(
            "an offer changes too often; try again".into(),
        ))
    }
}

fn inbox_item(offered: &Offered, payload: &[u8]) -> InboxItem {
    InboxItem {
        number: offered.number(),
        key: offered.meta.key.clone(),
        bytes: payload.to_vec(),
    }
}

impl NatsStore {
    /// Answers from the copy of the inbox, at once if it is complete.
    fn look_at_inbox<T: Send + 'static>(
        &self,
        look: impl FnOnce(&InboxState) -> T + Send + 'static,
    ) -> Pending<'_, Result<T, Error>> {
        if self.inner.offers.is_complete() {
            let answer = look(&self.inner.offers.rows());
            return Box::pin(std::future::ready(Ok(answer)));
        }
        self.task(move |inner| async move {
            inner.offers.complete().await?;
            Ok(look(&inner.offers.rows()))
        })
    }
}

impl Inbox for NatsStore {
    fn offer(&self, offers: Vec<Offer>) -> Pending<'_, Result<Vec<bool>, Error>> {
        self.task_at_home(move |inner| async move { inner.offer_all(&offers).await })
    }

    fn inbox_page(
        &self,
        run: RunId,
        after: u64,
        most: InboxBounds,
    ) -> Pending<'_, Result<Vec<InboxItem>, Error>> {
        if self.inner.offers.is_complete() {
            let page = self.inner.offers.rows().page(run, after, most);
            if page.iter().all(Offered::has_payload) {
                let page = page.iter().map(|it| inbox_item(it, &it.row.payload));
                return Box::pin(std::future::ready(Ok(page.collect())));
            }
        }
        self.task(move |inner| async move { inner.whole_page(run, after, most).await })
    }

    fn waiting_items(&self, run: RunId, most: usize) -> Pending<'_, Result<usize, Error>> {
        self.look_at_inbox(move |rows| rows.waiting(run).len().min(most))
    }

    fn offered(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        let partitions = partitions.clone();
        self.look_at_inbox(move |rows| rows.offered(&partitions, after, limit))
    }

    fn refuse(&self, run: RunId, key: &str, reason: &[u8]) -> Pending<'_, Result<bool, Error>> {
        let (key, reason) = (key.to_owned(), Bytes::copy_from_slice(reason));
        self.task(move |inner| async move { inner.refuse_offer(run, &key, reason).await })
    }

    fn answer(&self, run: RunId, key: &str) -> Pending<'_, Result<Option<OfferAnswer>, Error>> {
        let key = key.to_owned();
        self.task(move |inner| async move { inner.answer_to(run, &key).await })
    }

    fn discard(&self, run: RunId, key: &str) -> Pending<'_, Result<bool, Error>> {
        let key = key.to_owned();
        self.task(move |inner| async move { inner.discard_offer(run, &key).await })
    }
}
