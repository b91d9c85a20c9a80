//! The work queue: a stream in memory with a row for each attempt, which may lose them. Each
//! process keeps a copy of the rows (`work_state.rs`) and reads what is new before each call; a
//! hand-out is a compare-and-set on the item's row, so an item has one worker. A removed item
//! leaves a row that says so and that the server removes after a while, so that copies learn of it.
//!
//! A lease runs out when a process has seen no new row of it for its whole term, by that process's
//! own clock, and lets the item wait again.

use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::stream::Config;
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{Mutex, MutexGuard};
use windlass_store::{
    BegunItem, Error, ItemState, LeaseAnswer, LeaseTerm, LeasedItem, Pending, Pull, QueueDepth,
    SessionId, WorkItem, WorkKey, WorkLease, WorkQueue,
};

use crate::OpenError;
use crate::error::{PublishFault, unavailable};
use crate::layout;
use crate::store::{Inner, NatsStore};
use crate::table::{Row, Table, message, publish_after, reading, scan};
use crate::work_state::{Known, WorkMeta, WorkState, Write, removed, renewed, returned, stopped};

/// How long the row of a removed item stays.
const GONE: Duration = Duration::from_secs(120);

/// A copy that was not brought up to date for so long is read anew: it may have missed that items
/// were removed.
const STALE: Duration = Duration::from_secs(60);

/// How often a change is tried that others get ahead of.
const MOST_TRIES: usize = 8;

/// The queue as the store holds it.
pub(crate) struct Queue {
    config: Config,
    copy: Mutex<Copy>,
}

/// The copy, and up to where it is one.
#[derive(Default)]
struct Copy {
    table: Option<Table>,
    /// When the stream was made: it is gone after a restart of the server.
    created: String,
    through: u64,
    read: Option<Instant>,
    state: WorkState,
}

impl Queue {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config: Config {
                allow_message_ttl: true,
                ..config
            },
            copy: Mutex::default(),
        }
    }
}

impl Inner {
    /// The copy, up to date, with no lease that has run out.
    async fn queue(&self) -> Result<MutexGuard<'_, Copy>, Error> {
        let mut copy = self.work.copy.lock().await;
        self.refresh(&mut copy).await?;
        let live = match copy.state.has_sessions() {
            true => Some(self.live_sessions().await?),
            false => None,
        };
        let is_live = |id: SessionId| live.as_ref().is_none_or(|state| state.is_live(id));
        let lapsed = copy.state.lapsed(self.clock.now_ms(), is_live);
        if !lapsed.is_empty() {
            self.write_all(&mut copy, lapsed).await?;
        }
        Ok(copy)
    }

    /// Reads what is new.
    async fn refresh(&self, copy: &mut Copy) -> Result<(), Error> {
        let table = self.work_table(copy).await?;
        let info = match table.stream.get_info().await {
            Ok(info) => info,
            Err(_) => {
                // The server was started anew.
                copy.table = None;
                let table = self.work_table(copy).await?;
                let info = table.stream.get_info().await;
                info.map_err(|error| unavailable("the work queue does not answer", &error))?
            }
        };
        let created = info.created.to_string();
        let stale = copy.read.is_none_or(|at| at.elapsed() >= STALE);
        if stale || created != copy.created || info.state.last_sequence < copy.through {
            let table = copy.table.take();
            *copy = Copy {
                table,
                created,
                ..Copy::default()
            };
        }
        let begun = Instant::now();
        if info.state.last_sequence > copy.through && info.state.messages > 0 {
            let policy = DeliverPolicy::ByStartSequence {
                start_sequence: copy.through + 1,
            };
            let table = self.work_table(copy).await?;
            let rows = scan(&table.stream, reading(policy)).await?;
            for row in rows {
                self.note_row(copy, &row);
            }
        }
        copy.through = copy.through.max(info.state.last_sequence);
        copy.read = Some(begun);
        Ok(())
    }

    fn note_row(&self, copy: &mut Copy, row: &Row) {
        // A row of a newer program is passed over.
        if let Ok(meta) = row.meta::<WorkMeta>() {
            let (subject, now) = (row.subject.clone(), self.clock.now_ms());
            let known = Known::new(subject, row.sequence, meta, row.payload.clone(), now);
            copy.state.note(known);
            copy.through = copy.through.max(row.sequence);
        }
    }

    async fn work_table(&self, copy: &mut Copy) -> Result<Table, Error> {
        if let Some(table) = &copy.table {
            return Ok(table.clone());
        }
        let made = layout::work_table(&self.js, &self.work.config).await;
        let made = made.map_err(OpenError::into_error)?;
        copy.table = Some(made.clone());
        Ok(made)
    }

    /// Writes rows; gives what each is now, or nothing if another process was faster.
    async fn write_all(
        &self,
        copy: &mut Copy,
        writes: Vec<Write>,
    ) -> Result<Vec<Option<Known>>, Error> {
        let now = self.clock.now_ms();
        let each = writes.into_iter().map(|write| async move {
            let Write { before, meta } = write;
            let payload = if meta.gone {
                Bytes::new()
            } else {
                before.payload
            };
            let put = self.put_work(before.subject.clone(), before.sequence, &meta, &payload);
            match put.await {
                Ok(sequence) => Ok(Some(Known::new(
                    before.subject,
                    sequence,
                    meta,
                    payload,
                    now,
                ))),
                Err(PublishFault::Conflict) => Ok(None),
                Err(fault) => Err(fault.into_error()),
            }
        });
        let each: Vec<_> = each.collect();
        let mut written = Vec::with_capacity(each.len());
        let mut failed = None;
        for answer in join_all(each).await {
            match answer {
                Ok(known) => {
                    if let Some(known) = known.clone() {
                        copy.state.note(known);
                    }
                    written.push(known);
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(written),
        }
    }

    async fn put_work(
        &self,
        subject: String,
        after: u64,
        meta: &WorkMeta,
        payload: &Bytes,
    ) -> Result<u64, PublishFault> {
        let mut written = message(meta, payload.clone()).map_err(PublishFault::Failed)?;
        if meta.gone {
            let seconds = format!("{}s", GONE.as_secs());
            written = written.header("Nats-TTL", seconds);
        }
        publish_after(&self.js, subject, after, written).await
    }

    /// Puts an item into the queue, if its key is not there.
    async fn push_one(
        &self,
        copy: &mut Copy,
        item: &WorkItem,
        meta: &WorkMeta,
    ) -> Result<Option<Known>, Error> {
        if copy.state.item(item.key).is_some() {
            return Ok(None);
        }
        let subject = self.names.work(item);
        let payload = Bytes::copy_from_slice(&item.payload);
        let table = self.work_table(copy).await?;
        let mut after = 0;
        for _ in 0..MOST_TRIES {
            let put = self.put_work(subject.clone(), after, meta, &payload).await;
            match put {
                Ok(sequence) => {
                    let now = self.clock.now_ms();
                    let known = Known::new(subject, sequence, meta.clone(), payload, now);
                    copy.state.note(known.clone());
                    return Ok(Some(known));
                }
                Err(PublishFault::Conflict) => {}
                Err(fault) => return Err(fault.into_error()),
            }
            match table.row(&subject).await? {
                None => after = 0,
                Some(row) if row.meta::<WorkMeta>()?.gone => after = row.sequence,
                Some(row) => {
                    self.note_row(copy, &row);
                    return Ok(None);
                }
            }
        }
        Err(busy())
    }

    /// Changes an item that is leased under the lease, and gives the answer to its worker.
    async fn under_lease(
        &self,
        (tenant, key, lease): (Option<Box<str>>, WorkKey, WorkLease),
        change: fn(&Known) -> Write,
    ) -> Result<LeaseAnswer, Error> {
        for _ in 0..MOST_TRIES {
            let mut copy = self.queue().await?;
            let answer = copy.state.answer(tenant.as_deref(), key, lease);
            let known = copy.state.item(key).filter(|_| is_held(answer));
            let Some(write) = known.map(change) else {
                return Ok(answer);
            };
            if self
                .write_all(&mut copy, vec![write])
                .await?
                .pop()
                .flatten()
                .is_some()
            {
                return Ok(answer);
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
        let mut left = keys;
        for _ in 0..MOST_TRIES {
            let mut copy = self.queue().await?;
            let known = left.iter().filter_map(|key| copy.state.item(*key));
            let writes: Vec<Write> = known.map(change).collect();
            if writes.is_empty() {
                return Ok(());
            }
            let asked: Vec<WorkKey> = writes.iter().map(|it| it.before.key()).collect();
            let written = self.write_all(&mut copy, writes).await?;
            let lost = asked.into_iter().zip(written).filter(|it| it.1.is_none());
            left = lost.map(|it| it.0).collect();
            if left.is_empty() {
                return Ok(());
            }
        }
        Err(busy())
    }

    async fn pull_items(&self, pull: Pull) -> Result<Vec<LeasedItem>, Error> {
        if let LeaseTerm::Session(session) = pull.term
            && !self.live_sessions().await?.is_live(session)
        {
            return Ok(Vec::new());
        }
        let mut copy = self.queue().await?;
        let unnamed = copy.state.unnamed(&pull);
        if !unnamed.is_empty() {
            self.write_all(&mut copy, unnamed).await?;
        }
        let mut leased = Vec::new();
        // What another process was faster with is read, and the next items are tried.
        for _ in 0..MOST_TRIES {
            let wall = self.wall_ms();
            let writes = copy.state.pulled(&pull, wall);
            let asked = writes.len();
            let written = self.write_all(&mut copy, writes).await?;
            leased.extend(
                written
                    .into_iter()
                    .flatten()
                    .filter_map(|it| it.leased(wall)),
            );
            if !leased.is_empty() || asked == 0 {
                break;
            }
            self.refresh(&mut copy).await?;
        }
        Ok(leased)
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
        self.task(move |inner| async move {
            let mut copy = inner.queue().await?;
            for item in &items {
                inner
                    .push_one(&mut copy, item, &WorkMeta::new(item))
                    .await?;
            }
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
            let mut copy = inner.queue().await?;
            let mut leases = Vec::with_capacity(items.len());
            for BegunItem { item, begun_ms } in &items {
                let ago = i64::try_from(*begun_ms).unwrap_or(i64::MAX);
                let begun = inner.wall_ms().saturating_sub(ago);
                let meta = WorkMeta::begun(item, &worker, session, begun);
                let known = inner.push_one(&mut copy, item, &meta).await?;
                leases.push(known.and_then(|it| it.lease()));
            }
            Ok(leases)
        })
    }

    fn pull(&self, pull: Pull) -> Pending<'_, Result<Vec<LeasedItem>, Error>> {
        self.task(move |inner| async move { inner.pull_items(pull).await })
    }

    fn known(&self, keys: &[WorkKey]) -> Pending<'_, Result<Vec<(WorkKey, ItemState)>, Error>> {
        let keys = keys.to_vec();
        self.task(move |inner| async move {
            let copy = inner.queue().await?;
            let wall = inner.wall_ms();
            let known = keys.into_iter();
            let known = known.filter_map(|key| Some((key, copy.state.state(key, wall)?)));
            Ok(known.collect())
        })
    }

    fn queue_depth(&self, limit: usize) -> Pending<'_, Result<Vec<QueueDepth>, Error>> {
        self.task(move |inner| async move { Ok(inner.queue().await?.state.depth(limit)) })
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
        self.task(move |inner| async move { inner.under_lease(asked, removed).await })
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
            let mut copy = inner.queue().await?;
            let asked = (tenant.as_deref(), key);
            let write = copy.state.resumed(asked, &worker, term, inner.wall_ms());
            let written = inner
                .write_all(&mut copy, write.into_iter().collect())
                .await?;
            Ok(written
                .into_iter()
                .flatten()
                .next()
                .and_then(|it| it.lease()))
        })
    }

    fn stop(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        let keys = keys.to_vec();
        self.task(move |inner| async move { inner.change_items(keys, stopped).await })
    }

    fn withdraw(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        let keys = keys.to_vec();
        self.task(move |inner| async move { inner.change_items(keys, removed).await })
    }
}
