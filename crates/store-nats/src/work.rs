//! The work queue: a stream in memory with a row for each attempt, which may lose them. Each
//! process has a copy of the rows (`work_state.rs`, `mirror.rs`); a hand-out is a compare-and-set
//! on the item's row, so an item has one worker. A removed item leaves a row that says so and that
//! the server removes after a while, so that copies learn of it.
//!
//! A lease runs out when a process has seen no new row of it for its whole term, by that process's
//! own clock, and lets the item wait again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use windlass_store::{
    BegunItem, Bell, Error, ItemState, LeaseAnswer, LeaseTerm, LeasedItem, Pending, Pull,
    QueueDepth, SessionId, WorkItem, WorkKey, WorkLease, WorkQueue,
};

use crate::error::PublishFault;
use crate::store::{Inner, NatsStore};
use crate::table::message;
use crate::work_room::full;
use crate::work_state::{
    Known, WorkMeta, WorkState, Write, removed, removed_after, renewed, returned, stopped,
};

/// How long an owner that withdraws an item leaves it to the worker, which removes it when its
/// outcome is offered.
const REMOVES_ITSELF: Duration = Duration::from_millis(50);

/// How often a change is tried that others get ahead of.
const MOST_TRIES: usize = 8;

impl Inner {
    /// Whether the copy answers as it is: it is complete, and no lease has run out.
    fn has_queue(&self) -> bool {
        let is_settled = |rows: &WorkState| {
            !rows.has_late() && rows.sessions().all(|it| self.is_surely_live(it))
        };
        self.items.is_complete() && is_settled(&self.items.rows())
    }

    /// Waits until the copy answers; leases that have run out are ended.
    async fn queue(&self) -> Result<(), Error> {
        self.items.complete().await?;
        if self.has_queue() {
            return Ok(());
        }
        let is_over = {
            let rows = self.items.rows();
            rows.sessions().any(|it| !self.is_surely_live(it))
        };
        let live = match is_over {
            true => Some(self.live_sessions().await?),
            false => None,
        };
        let is_live = |id: SessionId| live.as_ref().is_none_or(|state| state.is_live(id));
        let lapsed = self.items.rows().lapsed(is_live);
        if !lapsed.is_empty() {
            self.write_all(lapsed).await?;
        }
        Ok(())
    }

    /// Writes rows; gives what each is now, or nothing if another process was faster. Then the copy
    /// has what that one wrote.
    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Option<Known>>, Error> {
        let rows: Vec<_> = writes.iter().map(Write::row).collect();
        let each: Vec<_> = writes.into_iter().map(|it| self.write(it)).collect();
        let mut written = Vec::with_capacity(each.len());
        let mut failed = None;
        for answer in join_all(each).await {
            match answer {
                Ok(known) => written.push(Some(known)),
                Err(PublishFault::Conflict) => written.push(None),
                Err(fault) => failed = Some(self.work_fault(fault)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if written.iter().any(Option::is_none) {
            self.items.catch_up().await?;
        }
        for ((key, sequence), _) in rows.into_iter().zip(&written).filter(|it| it.1.is_none()) {
            self.look_for_removed(key, sequence).await?;
        }
        Ok(written)
    }

    /// A row in whose place none could be written, and that no other has come for, may have been
    /// removed without one that says so.
    async fn look_for_removed(&self, key: WorkKey, sequence: u64) -> Result<(), Error> {
        let known = self.items.rows().item(key).cloned();
        if let Some(known) = known.filter(|it| it.sequence == sequence)
            && self.work.row(&known.subject).await?.is_none()
        {
            self.items.rows().note_removed(key, sequence, 0);
        }
        Ok(())
    }

    async fn write(&self, write: Write) -> Result<Known, PublishFault> {
        let Write { before, meta } = write;
        let subject = before.subject.clone();
        let (sequence, payload) = match meta.gone {
            true => {
                let gone = meta.of_gone();
                let put_gone = self.work.put_gone(subject.clone(), before.sequence, &gone);
                match put_gone.await {
                    Ok(sequence) => (sequence, Bytes::new()),
                    // A stream that is full takes no row, but lets go of one.
                    Err(
                        PublishFault::Failed(Error::Full(_))
                        | PublishFault::Unknown(Error::Full(_)),
                    ) => return self.remove_item(before, meta).await,
                    Err(fault) => return Err(fault),
                }
            }
            false => {
                let payload = before.payload;
                let put = self
                    .work
                    .put(subject.clone(), before.sequence, &meta, payload.clone());
                (put.await?, payload)
            }
        };
        let known = Known::new(subject, sequence, meta, payload, self.clock.now_ms());
        self.items.rows().note_known(known.clone());
        Ok(known)
    }

    /// Removes an item's row, of which other processes learn when they want to write in its place.
    async fn remove_item(&self, mut item: Known, meta: WorkMeta) -> Result<Known, PublishFault> {
        let removed = self.work.remove(item.sequence).await;
        if !removed.map_err(PublishFault::Failed)? {
            return Err(PublishFault::Conflict);
        }
        let mut rows = self.items.rows();
        rows.note_removed(item.key(), item.sequence, meta.offer);
        item.meta = meta;
        Ok(item)
    }

    /// The error of a write. A stream that does not take rows may be another one by now.
    fn work_fault(&self, fault: PublishFault) -> Error {
        if matches!(fault, PublishFault::Failed(Error::Unavailable(_))) {
            self.items.begin_anew();
        }
        fault.into_error()
    }

    /// Puts items into the queue whose keys are not there, in order; gives those.
    async fn push_all(
        &self,
        items: Vec<(&WorkItem, WorkMeta)>,
    ) -> Result<Vec<Option<Known>>, Error> {
        self.items.complete().await?;
        let wanted = items.iter().map(|(item, meta)| self.bytes_of(item, meta));
        let wanted: Vec<u64> = wanted.collect();
        let mut room = self.room_for(wanted.iter().sum()).await?;
        let mut has_room = true;
        let mut sent = Vec::with_capacity(items.len());
        for ((item, meta), bytes) in items.into_iter().zip(wanted) {
            has_room = bytes <= room;
            if !has_room {
                break;
            }
            room -= bytes;
            let after = {
                let rows = self.items.rows();
                match rows.item(item.key) {
                    Some(_) => None,
                    None => Some(rows.gone_row(item.key).unwrap_or(0)),
                }
            };
            let Some(after) = after else {
                sent.push(None);
                continue;
            };
            let subject = self.names.work(item);
            let payload = Bytes::copy_from_slice(&item.payload);
            let text = message(&meta, payload.clone())?;
            let ack = self.work.sent(subject.clone(), after, text).await;
            sent.push(Some((subject, meta, payload, ack)));
        }
        let mut pushed = Vec::with_capacity(sent.len());
        for it in sent {
            let Some((subject, meta, payload, ack)) = it else {
                pushed.push(None);
                continue;
            };
            let sequence = match ack {
                Ok(ack) => ack.await,
                Err(fault) => Err(fault),
            };
            pushed.push(match sequence {
                Ok(sequence) => Some(self.note_pushed(subject, sequence, meta, payload)),
                Err(PublishFault::Conflict) => self.push_again(subject, meta, payload).await?,
                Err(fault) => return Err(self.work_fault(fault)),
            });
        }
        match has_room {
            true => Ok(pushed),
            false => Err(full()),
        }
    }

    /// What a push adds to the stream at most.
    fn bytes_of(&self, item: &WorkItem, meta: &WorkMeta) -> u64 {
        if self.items.rows().item(item.key).is_some() {
            return 0;
        }
        meta.bytes(&self.names.work(item), item.payload.len()) as u64
    }

    fn note_pushed(&self, subject: String, sequence: u64, meta: WorkMeta, payload: Bytes) -> Known {
        let known = Known::new(subject, sequence, meta, payload, self.clock.now_ms());
        self.items.rows().note_known(known.clone());
        known
    }

    /// Puts an item into the queue whose subject has a row: it may say that an earlier one is gone.
    async fn push_again(
        &self,
        subject: String,
        meta: WorkMeta,
        payload: Bytes,
    ) -> Result<Option<Known>, Error> {
        for _ in 0..MOST_TRIES {
            let after = match self.work.row(&subject).await? {
                None => 0,
                Some(row) if row.meta::<WorkMeta>()?.gone => row.sequence,
                Some(row) => {
                    let meta = row.meta::<WorkMeta>()?;
                    self.note_pushed(row.subject, row.sequence, meta, row.payload);
                    return Ok(None);
                }
            };
            let put = self
                .work
                .put(subject.clone(), after, &meta, payload.clone());
            match put.await {
                Ok(sequence) => {
                    return Ok(Some(self.note_pushed(subject, sequence, meta, payload)));
                }
                Err(PublishFault::Conflict) => {}
                Err(fault) => return Err(self.work_fault(fault)),
            }
        }
        Err(busy())
    }

    /// Changes an item that is leased under the lease, and gives the answer to its worker.
    async fn under_lease(
        &self,
        (tenant, key, lease): (Option<Box<str>>, WorkKey, WorkLease),
        change: impl Fn(&Known) -> Write + Send,
    ) -> Result<LeaseAnswer, Error> {
        let mut is_fresh = false;
        for _ in 0..MOST_TRIES {
            self.queue().await?;
            let (answer, write) = {
                let rows = self.items.rows();
                let answer = rows.answer(tenant.as_deref(), key, lease);
                let known = rows.item(key).filter(|_| is_held(answer));
                (answer, known.map(&change))
            };
            match write {
                Some(write) => {
                    if self.write_all(vec![write]).await?.pop().flatten().is_some() {
                        return Ok(answer);
                    }
                }
                None if is_fresh => return Ok(answer),
                // The hand-out may be one of another process, and not have come here yet.
                None => {
                    self.items.catch_up().await?;
                    is_fresh = true;
                }
            }
        }
        Err(busy())
    }

    /// Changes items, whatever their leases are.
    async fn change_items(
        &self,
        keys: Vec<WorkKey>,
        change: fn(&Known) -> Write,
    ) -> Result<(), Error> {
        self.queue().await?;
        let is_unknown = |key: &WorkKey| {
            let rows = self.items.rows();
            rows.item(*key).is_none() && rows.gone(*key).is_none()
        };
        if keys.iter().any(is_unknown) {
            self.items.catch_up().await?;
        }
        let mut left = keys;
        for _ in 0..MOST_TRIES {
            let writes: Vec<Write> = {
                let rows = self.items.rows();
                let known = left.iter().filter_map(|key| rows.item(*key));
                known.map(change).collect()
            };
            if writes.is_empty() {
                return Ok(());
            }
            let asked: Vec<WorkKey> = writes.iter().map(|it| it.before.key()).collect();
            let written = self.write_all(writes).await?;
            let lost = asked.into_iter().zip(written).filter(|it| it.1.is_none());
            left = lost.map(|it| it.0).collect();
        }
        match left.is_empty() {
            true => Ok(()),
            false => Err(busy()),
        }
    }

    /// Removes items whatever their leases are. Two that remove one row at once would only get in
    /// each other's way.
    async fn withdraw_items(&self, keys: Vec<WorkKey>) -> Result<(), Error> {
        let has_lease = |key: &WorkKey| {
            let rows = self.items.rows();
            rows.item(*key).is_some_and(|it| it.lease().is_some())
        };
        if keys.iter().any(has_lease) {
            tokio::time::sleep(REMOVES_ITSELF).await;
        }
        self.change_items(keys, removed).await
    }

    async fn pull_items(&self, pull: Pull) -> Result<Vec<LeasedItem>, Error> {
        if let LeaseTerm::Session(session) = pull.term
            && !self.is_surely_live(session)
            && !self.live_sessions().await?.is_live(session)
        {
            return Ok(Vec::new());
        }
        self.queue().await?;
        let unnamed = self.items.rows().unnamed(&pull);
        if !unnamed.is_empty() {
            self.write_all(unnamed).await?;
        }
        // What another process was faster with is known after that, and the next items are tried.
        for _ in 0..MOST_TRIES {
            let wall = self.wall_ms();
            let writes = self.items.rows().pulled(&pull, wall);
            if writes.is_empty() {
                break;
            }
            let taken = Taken {
                inner: self,
                keys: writes.iter().map(|it| it.before.key()).collect(),
            };
            let runs = taken.keys.iter().map(|key| key.run).collect();
            // Side by side: whether the runs go on could change after the look in any case.
            let (written, runs) = tokio::join!(self.write_all(writes), self.item_runs(runs));
            drop(taken);
            let written = written?.into_iter().flatten();
            let leased = written.filter_map(|it| {
                let run = runs.get(&it.key().run).copied();
                it.leased(wall, run)
            });
            let leased: Vec<_> = leased.collect();
            if !leased.is_empty() {
                return Ok(leased);
            }
        }
        Ok(Vec::new())
    }

    async fn known_items(&self, keys: &[WorkKey]) -> Result<Vec<(WorkKey, ItemState)>, Error> {
        self.queue().await?;
        let is_unknown = |key: &WorkKey| {
            let rows = self.items.rows();
            rows.item(*key).is_none() && rows.gone(*key).is_none()
        };
        let unknown = keys.iter().any(is_unknown);
        if unknown {
            self.items.catch_up().await?;
            self.queue().await?;
        }
        let (found, offer) = self.found(keys);
        // An owner that learns that an item is gone looks for its outcome next.
        match keys.iter().any(is_unknown) {
            true => self.offers.catch_up().await?,
            false => self.offers.reached(offer).await?,
        }
        Ok(found)
    }

    /// What the copy has of items, and the last offer that was made before one was removed.
    fn found(&self, keys: &[WorkKey]) -> (Vec<(WorkKey, ItemState)>, u64) {
        let (rows, wall) = (self.items.rows(), self.wall_ms());
        let found = keys
            .iter()
            .filter_map(|key| Some((*key, rows.state(*key, wall)?)));
        let found: Vec<_> = found.collect();
        let offer = match found.len() == keys.len() {
            true => None,
            false => keys.iter().filter_map(|key| rows.gone(*key)).max(),
        };
        (found, offer.unwrap_or(0))
    }

    async fn resume(
        &self,
        (tenant, key): (Option<&str>, WorkKey),
        worker: &str,
        term: LeaseTerm,
    ) -> Result<Option<WorkLease>, Error> {
        for _ in 0..MOST_TRIES {
            self.queue().await?;
            let wall = self.wall_ms();
            let resumed = self.items.rows().resumed((tenant, key), worker, term, wall);
            let Some(write) = resumed else {
                return Ok(None);
            };
            if let Some(known) = self.write_all(vec![write]).await?.pop().flatten() {
                return Ok(known.lease());
            }
        }
        Err(busy())
    }
}

/// Items that a call is about to hand out, let go of however the call ends: one that takes too long
/// is dropped in the middle.
struct Taken<'a> {
    inner: &'a Inner,
    keys: Vec<WorkKey>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.inner.items.rows().let_go(&self.keys);
    }
}

fn is_held(answer: LeaseAnswer) -> bool {
    matches!(answer, LeaseAnswer::Held { .. })
}

fn busy() -> Error {
    Error::Unavailable("an item of the work queue changes too often; try again".into())
}

impl WorkQueue for NatsStore {
    fn push(&self, items: Vec<WorkItem>) -> Pending<'_, Result<(), Error>> {
        self.task_at_home(move |inner| async move {
            let new = items.iter().map(|item| (item, WorkMeta::new(item)));
            inner.push_all(new.collect()).await?;
            // Other processes hear of the rows themselves.
            inner.bells.ring(Bell::Work);
            Ok(())
        })
    }

    fn push_begun(
        &self,
        items: Vec<BegunItem>,
        worker: &str,
        session: SessionId,
    ) -> Pending<'_, Result<Vec<Option<WorkLease>>, Error>> {
        let worker = worker.to_owned();
        self.task(move |inner| async move {
            if !inner.live_sessions().await?.is_live(session) {
                return Ok(vec![None; items.len()]);
            }
            let new = items.iter().map(|BegunItem { item, begun_ms }| {
                let ago = i64::try_from(*begun_ms).unwrap_or(i64::MAX);
                let begun = inner.wall_ms().saturating_sub(ago);
                (item, WorkMeta::begun(item, &worker, session, begun))
            });
            let pushed = inner.push_all(new.collect()).await?.into_iter();
            let leases = pushed.map(|known| known.and_then(|it| it.lease()));
            Ok(leases.collect())
        })
    }

    fn pull(&self, pull: Pull) -> Pending<'_, Result<Vec<LeasedItem>, Error>> {
        self.task_at_home(move |inner| async move { inner.pull_items(pull).await })
    }

    fn known(&self, keys: &[WorkKey]) -> Pending<'_, Result<Vec<(WorkKey, ItemState)>, Error>> {
        if self.inner.has_queue() {
            let (found, _) = self.inner.found(keys);
            if found.len() == keys.len() {
                return Box::pin(std::future::ready(Ok(found)));
            }
        }
        let keys = keys.to_vec();
        self.task_at_home(move |inner| async move { inner.known_items(&keys).await })
    }

    fn queue_depth(&self, limit: usize) -> Pending<'_, Result<Vec<QueueDepth>, Error>> {
        self.task(move |inner| async move {
            inner.queue().await?;
            Ok(inner.items.rows().depth(limit))
        })
    }

    fn renew_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        let asked = (tenant.map(Into::into), key, lease);
        self.task(move |inner| async move { inner.under_lease(asked, renewed).await })
    }

    fn complete(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        let asked = (tenant.map(Into::into), key, lease);
        self.task_at_home(move |inner| async move {
            let offer = inner.last_offer.load(Ordering::Relaxed);
            inner
                .under_lease(asked, |known| removed_after(known, offer))
                .await
        })
    }

    fn return_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        let asked = (tenant.map(Into::into), key, lease);
        self.task(move |inner| async move { inner.under_lease(asked, returned).await })
    }

    fn resume_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        worker: &str,
        term: LeaseTerm,
    ) -> Pending<'_, Result<Option<WorkLease>, Error>> {
        let (tenant, worker): (Option<Box<str>>, _) = (tenant.map(Into::into), worker.to_owned());
        self.task(move |inner| async move {
            let asked = (tenant.as_deref(), key);
            inner.resume(asked, &worker, term).await
        })
    }

    fn stop(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        let keys = keys.to_vec();
        self.task(move |inner| async move { inner.change_items(keys, stopped).await })
    }

    fn withdraw(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        let keys = keys.to_vec();
        self.task(move |inner| async move { inner.withdraw_items(keys).await })
    }
}
