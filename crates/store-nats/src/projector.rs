//! Applies what was published to the database, in order: the same append again, fenced by the
//! head that the database has. Applying twice is harmless, so the process that published does it
//! soon, and any process does it again after a crash (`catch_up.rs`).
//!
//! Changes gather for a moment, because the records of a chain and of many runs share a statement
//! and its sync; a caller that waits for rows ends the pause.
//!
//! A log that does not fit what the database has is quarantined, never merged.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, UNIX_EPOCH};

use futures_util::future::{join_all, try_join_all};
use tokio::sync::{Notify, mpsc, watch};
use windlass_core::{Millis, RunId};
use windlass_store::{
    Append, AppendError, DeadLetter, DeadLetters as _, Error, Head, Log as _, Pending, Queries as _,
};

use crate::codec::{ConsumedOffer, Kind, LogMessage};
use crate::error::damaged;
use crate::store::{Inner, closed};
use crate::watermark::{Anchor, KEEP};

/// Changes that are applied together.
const MOST_CHANGES: usize = 1024;

/// How long changes gather. Lists may lag so far behind the log; reads by id do not.
const GATHER: Duration = Duration::from_millis(25);

/// How long the removal of messages waits while records come.
const PAUSE: Duration = Duration::from_millis(100);

/// Ended runs whose messages may wait for a pause.
const MOST_ENDED: usize = 20_000;

/// Ended runs whose messages are removed at once.
const SHORTENED: usize = 16;

/// Changes that may wait for the database, in memory.
const MOST_WAITING: u64 = 50_000;

/// How long the projector waits before it tries again.
const AGAIN: Duration = Duration::from_millis(200);

/// How often a change is tried that the database refuses while it takes others.
const MOST_TRIES: u32 = 5;

/// The rows of a run that is forgotten stay for so long: what is applied so soon after it was
/// published is applied before that.
pub(crate) const FRESH: Duration = Duration::from_millis(500);

/// How long a caller waits for rows to follow the log.
const BARRIER: Duration = Duration::from_secs(10);

/// What follows from a message.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) run: RunId,
    /// The message's place in its stream.
    pub(crate) sequence: u64,
    pub(crate) kind: ChangeKind,
    /// When this process began to publish it; nothing if it was read from the stream.
    pub(crate) published: Option<Instant>,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) enum ChangeKind {
    /// A record: the append as the database takes it, and the head that follows.
    Record(Box<Append>, Head, Vec<ConsumedOffer>),
    /// The run is forgotten.
    Forgotten(Box<LogMessage>),
    /// Nothing; only the place in the stream counts.
    Nothing,
}

impl Change {
    /// What follows from a message; `None` if it cannot be read.
    pub(crate) fn of(message: LogMessage) -> Option<Self> {
        let (run, sequence) = (message.run, message.sequence);
        let kind = match message.kind {
            Kind::Record => {
                let append = message.append()?;
                ChangeKind::Record(Box::new(append), message.head, message.meta.consumed)
            }
            Kind::Forgotten => ChangeKind::Forgotten(Box::new(message)),
            Kind::Fence | Kind::Void => ChangeKind::Nothing,
        };
        Some(Self {
            run,
            sequence,
            kind,
            published: None,
        })
    }

    /// Where the record stands, if it is one.
    pub(crate) fn anchor(&self) -> Option<Anchor> {
        match &self.kind {
            ChangeKind::Record(_, head, _) => Some(Anchor::of(self.sequence, self.run, head)),
            ChangeKind::Forgotten(_) | ChangeKind::Nothing => None,
        }
    }

    /// Whether the rows of the run may have been removed since the message was published.
    fn may_be_forgotten(&self) -> bool {
        self.published.is_none_or(|at| at.elapsed() > FRESH)
    }
}

/// The projector as the store sees it.
pub(crate) struct Projector {
    queue: mpsc::UnboundedSender<Change>,
    enqueued: AtomicU64,
    done: watch::Sender<u64>,
    /// Rings when a caller waits for rows.
    awaited: Arc<Notify>,
}

impl Projector {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Change>) {
        let (queue, changes) = mpsc::unbounded_channel();
        let projector = Self {
            queue,
            enqueued: AtomicU64::new(0),
            done: watch::Sender::new(0),
            awaited: Arc::default(),
        };
        (projector, changes)
    }

    /// Lets a change be applied soon.
    pub(crate) fn enqueue(&self, change: Change) {
        self.enqueued.fetch_add(1, Ordering::SeqCst);
        // A store that is closed applies nothing more; the next one does.
        let _ = self.queue.send(change);
    }

    /// How many changes of this process wait.
    pub(crate) fn lag(&self) -> u64 {
        let done = *self.done.borrow();
        self.enqueued.load(Ordering::SeqCst).saturating_sub(done)
    }
}

/// Applies changes until the store is gone.
pub(crate) async fn run(inner: Weak<Inner>, mut changes: mpsc::UnboundedReceiver<Change>) {
    let (over, ended) = mpsc::unbounded_channel();
    tokio::spawn(shorten_always(Weak::clone(&inner), ended));
    let mut batch = Vec::new();
    loop {
        if await_changes(&inner, &mut changes, &mut batch)
            .await
            .is_none()
        {
            return;
        }
        let awaited = inner.upgrade().map(|it| Arc::clone(&it.projector.awaited));
        let Some(awaited) = awaited else { return };
        gather(&awaited, &mut changes, &mut batch).await;
        let mut tries = 0;
        loop {
            let Some(inner) = inner.upgrade() else { return };
            tries += 1;
            match inner.apply(&batch, tries >= MOST_TRIES).await {
                Ok(()) => {
                    let count = batch.len() as u64;
                    inner.projector.done.send_modify(|done| *done += count);
                    inner.keep_watermarks(false).await;
                    for ended in ended_runs(&batch) {
                        // What stays only takes space.
                        let _ = over.send(ended);
                    }
                    break;
                }
                Err(_) => {
                    drop(inner);
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
        batch.clear();
    }
}

/// Waits for changes. If none come for a while, the watermarks are written as they are, so that
/// other processes see what is applied; none if the store is gone.
async fn await_changes(
    inner: &Weak<Inner>,
    changes: &mut mpsc::UnboundedReceiver<Change>,
    batch: &mut Vec<Change>,
) -> Option<()> {
    let coming = changes.recv_many(batch, MOST_CHANGES);
    let count = match tokio::time::timeout(KEEP, coming).await {
        Ok(count) => count,
        Err(_) => {
            inner.upgrade()?.keep_watermarks(true).await;
            changes.recv_many(batch, MOST_CHANGES).await
        }
    };
    (count > 0).then_some(())
}

/// Lets more changes come, unless there are enough or a caller waits for them.
async fn gather(
    awaited: &Notify,
    changes: &mut mpsc::UnboundedReceiver<Change>,
    batch: &mut Vec<Change>,
) {
    if batch.len() < MOST_CHANGES {
        // A caller that began to wait while the last batch was applied has left its sign.
        let _ = tokio::time::timeout(GATHER, awaited.notified()).await;
    }
    while batch.len() < MOST_CHANGES
        && let Ok(change) = changes.try_recv()
    {
        batch.push(change);
    }
}

/// Removes the messages of runs that have ended, in pauses: the server takes as long for it as for
/// several records, and removes faster when it has nothing else to do.
async fn shorten_always(inner: Weak<Inner>, mut ended: mpsc::UnboundedReceiver<(RunId, u64)>) {
    let mut some = Vec::new();
    while ended.recv_many(&mut some, SHORTENED).await > 0 {
        while ended.len() < MOST_ENDED {
            let Some(inner) = inner.upgrade() else { return };
            if inner.projector.lag() == 0 {
                break;
            }
            drop(inner);
            tokio::time::sleep(PAUSE).await;
        }
        let Some(inner) = inner.upgrade() else { return };
        let each = some.drain(..);
        join_all(each.map(|(run, sequence)| inner.shorten(run, sequence))).await;
    }
}

/// The runs that end with one of these changes, and the places of those changes.
fn ended_runs(changes: &[Change]) -> impl Iterator<Item = (RunId, u64)> {
    let ends = changes.iter().filter(|change| match &change.kind {
        ChangeKind::Record(append, ..) => {
            let row = append.row.as_ref();
            append.head.sequence > 0 && row.is_some_and(|row| row.status.is_final())
        }
        ChangeKind::Forgotten(_) | ChangeKind::Nothing => false,
    });
    ends.map(|change| (change.run, change.sequence))
}

impl Inner {
    /// Removes the messages of a run that has ended, all but the last, which is the fence: the
    /// database has them.
    async fn shorten(&self, run: RunId, sequence: u64) {
        let purging = self.log_stream(run).stream.purge();
        let purging = purging.filter(self.log_subject(run));
        // What stays only takes space.
        let _ = purging.sequence(sequence).await;
    }

    /// Waits until the database has everything that this process has published by now.
    pub(crate) async fn barrier(&self) -> Result<(), Error> {
        let target = self.projector.enqueued.load(Ordering::SeqCst);
        let mut done = self.projector.done.subscribe();
        if *done.borrow_and_update() >= target {
            return Ok(());
        }
        self.projector.awaited.notify_one();
        let reached = done.wait_for(|done| *done >= target);
        match tokio::time::timeout(BARRIER, reached).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(closed()),
            Err(_) => Err(Error::Unavailable(
                "the database does not follow the log; is it reachable?".into(),
            )),
        }
    }

    /// Applies one change whose predecessors are applied.
    pub(crate) async fn apply_one(&self, change: Change) -> Result<(), Error> {
        self.apply(std::slice::from_ref(&change), false).await
    }

    /// Applies changes. `give_up` quarantines what the database refuses although it answers.
    pub(crate) async fn apply(&self, changes: &[Change], give_up: bool) -> Result<(), Error> {
        let mut records = Vec::new();
        let mut consuming = Vec::new();
        for change in changes {
            if let ChangeKind::Record(append, head, consumed) = &change.kind {
                consuming.push(self.remove_consumed(change.run, consumed));
                records.push((append, *head, change));
            }
        }
        // Before the database has the records, so that one that it has leaves no offer behind.
        try_join_all(consuming).await?;
        let appends: Vec<(&Append, Head)> = records.iter().map(|it| (&**it.0, it.1)).collect();
        let stored = self.follow(&appends).await?;
        let mut begun = Vec::new();
        for ((append, head, change), stored) in records.into_iter().zip(stored) {
            if !stored {
                self.apply_record(append, head, give_up).await?;
            }
            self.note_applied(change.run, head);
            if head.sequence == 1 && change.may_be_forgotten() {
                begun.push(self.remove_if_forgotten(append, change.sequence));
            }
        }
        try_join_all(begun).await?;
        let forgotten = changes.iter().filter_map(|change| match &change.kind {
            ChangeKind::Forgotten(message) => Some(&**message),
            ChangeKind::Record(..) | ChangeKind::Nothing => None,
        });
        self.finish_forgetting(&forgotten.collect::<Vec<_>>())
            .await?;
        for change in changes {
            let stream = self.stream_number(change.run);
            self.watermarks
                .note(stream, change.sequence, change.anchor());
        }
        Ok(())
    }

    /// Appends records in the database; whether each is stored there. Those at the beginning of a
    /// run's may be stored already, by a reader or another process: the others follow them.
    async fn follow(&self, records: &[(&Append, Head)]) -> Result<Vec<bool>, Error> {
        let all = records.iter().map(|(append, _)| (*append).clone());
        let mut stored = self.postgres.follow(all.collect()).await;
        let open = |stored: &[bool]| -> Vec<usize> {
            (0..records.len()).filter(|&at| !stored[at]).collect()
        };
        let failed = open(&stored);
        if failed.is_empty() {
            return Ok(stored);
        }
        let runs = failed.iter().map(|&at| records[at].0.run).collect();
        let heads = self.postgres.heads(runs).await?;
        let known: HashMap<RunId, u64> = failed
            .iter()
            .map(|&at| (records[at].0.run, records[at].1))
            .filter(|(run, head)| heads.get(run) == Some(head))
            .map(|(run, head)| (run, head.sequence))
            .collect();
        for at in failed {
            let (append, head) = records[at];
            let through = known.get(&append.run);
            stored[at] = through.is_some_and(|through| head.sequence <= *through);
        }
        let rest = open(&stored);
        let again = rest.iter().map(|&at| records[at].0.clone());
        let again = self.postgres.follow(again.collect()).await;
        for (at, is_stored) in rest.into_iter().zip(again) {
            stored[at] = is_stored;
        }
        Ok(stored)
    }

    /// Applies a record that was not stored with the others of its batch.
    async fn apply_record(&self, append: &Append, head: Head, give_up: bool) -> Result<(), Error> {
        let answer = self.postgres.append(vec![append.clone()]).await.pop();
        let fits = match answer {
            Some(Ok(_)) => return Ok(()),
            Some(Err(error)) => self.resolve(append, head, error).await,
            None => Err(closed()),
        };
        match fits {
            Ok(()) => Ok(()),
            // A run that was forgotten meanwhile lacks everything, and is not damaged.
            Err(Error::Damaged(_)) if self.is_forgotten(append.run).await? => Ok(()),
            Err(error @ Error::Damaged(_)) => self.quarantine(append.run, &error).await,
            Err(error) if give_up && self.postgres_answers().await => {
                self.quarantine(append.run, &error).await
            }
            Err(error) => Err(error),
        }
    }

    /// Finds out what an append means that the database did not take.
    async fn resolve(&self, append: &Append, head: Head, error: AppendError) -> Result<(), Error> {
        let place = &self.log_stream(append.run).name;
        let different = |at| damaged(place, append.run, at, "the log went on differently");
        let found = match error {
            AppendError::Conflict(found) => found,
            AppendError::Held { .. } => return self.apply_without_claims(append, head).await,
            AppendError::Unknown { error, .. } | AppendError::Failed(error) => return Err(error),
        };
        if found == head {
            return Ok(());
        }
        if found.sequence >= head.sequence {
            let page = self.postgres.read(append.run, head.sequence, 1).await?;
            let same = page.first().is_some_and(|record| record.head() == head);
            return match same {
                true => Ok(()),
                false => Err(different(head.sequence)),
            };
        }
        if found.sequence == append.head.sequence {
            return Err(different(found.sequence));
        }
        // Another process published what is missing, and has not applied it.
        self.fill_boxed(append.run, found, head).await
    }

    /// Filling applies messages, and applying may have to fill: the type ends here.
    fn fill_boxed(&self, run: RunId, found: Head, head: Head) -> Pending<'_, Result<(), Error>> {
        Box::pin(self.fill(run, found, head))
    }

    fn resolve_boxed<'a>(
        &'a self,
        append: &'a Append,
        head: Head,
        error: AppendError,
    ) -> Pending<'a, Result<(), Error>> {
        Box::pin(self.resolve(append, head, error))
    }

    /// The bucket of claims decides; a claim that the database alone remembers does not keep a
    /// record out.
    async fn apply_without_claims(&self, append: &Append, head: Head) -> Result<(), Error> {
        let plain = Append {
            claims: Vec::new(),
            ..append.clone()
        };
        let answer = self.postgres.append(vec![plain.clone()]).await.pop();
        match answer {
            Some(Ok(_)) => Ok(()),
            Some(Err(AppendError::Held { .. })) | None => Err(closed()),
            Some(Err(error)) => self.resolve_boxed(&plain, head, error).await,
        }
    }

    async fn postgres_answers(&self) -> bool {
        self.postgres.heads(Vec::new()).await.is_ok()
    }

    /// No process may acquire the run from now on; the reason says why.
    pub(crate) async fn quarantine(&self, run: RunId, error: &Error) -> Result<(), Error> {
        if self.postgres.dead_letter(run).await?.is_some() {
            return Ok(());
        }
        let row = self.postgres.run(run).await?;
        let at = UNIX_EPOCH.elapsed().map_or(0, |it| it.as_millis());
        let letter = DeadLetter {
            run,
            tenant: row.as_ref().and_then(|row| row.tenant.clone()),
            workflow: row.map_or_else(|| "unknown".into(), |row| row.workflow),
            reason: format!("quarantined: {error}").into(),
            payload: b"{}".to_vec(),
            deliveries: 0,
            at: Millis(i64::try_from(at).unwrap_or(i64::MAX)),
            damage: None,
        };
        self.postgres.add_dead_letter(letter).await
    }

    /// For callers outside: wait for rows, if a start is to be acknowledged only then.
    pub(crate) async fn acknowledge(self: &Arc<Self>) {
        // As long as it takes: an answer without the rows is what the setting forbids.
        while self.settings.ack_projected && self.barrier().await.is_err() {
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The same for a run that this process may not have published: its first record is brought to
    /// the database, and it fails while that is away.
    pub(crate) async fn acknowledge_run(&self, run: RunId, head: Head) -> Result<(), Error> {
        if !self.settings.ack_projected || head == Head::NONE || self.has_applied_some(run) {
            return Ok(());
        }
        if self.postgres.head(run).await? == Head::NONE {
            self.settle(run).await?;
        }
        Ok(())
    }

    /// Refuses more records while the database is too far behind: what waits is in memory.
    pub(crate) fn has_room(&self) -> Result<(), Error> {
        match self.projector.lag() < MOST_WAITING {
            true => Ok(()),
            false => Err(Error::Unavailable(format!(
                "{MOST_WAITING} records wait for the database, which does not follow the log"
            ))),
        }
    }
}
