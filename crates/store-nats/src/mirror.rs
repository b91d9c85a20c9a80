//! A copy of a table in memory, which the server keeps up to date: every row that is written comes
//! to every process with a push consumer, in order. Reads are answered from the copy; what decides
//! is written by compare-and-set, so a copy that lags behind costs a second try, never the truth.
//!
//! A copy is complete from the moment at which it has everything that was there when it began to
//! follow. What it has to have beyond that is asked of the stream's leader: the server that
//! delivers may be another one, and behind. A copy begins anew, empty, when the connection was
//! lost, when a message is missing, when heartbeats stay out and when a caller finds that the
//! stream is another one.
//!
//! It begins with the first read: a process that never reads a table (a worker the inbox) is sent
//! no rows of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, push};
use async_nats::{Client, Message, StatusCode, Subject};
use futures_util::StreamExt as _;
use tokio::sync::{Notify, watch};
use windlass_store::{Bell, Error};

use crate::error::{names_no_stream, unavailable};
use crate::table::{Row, Table};
use crate::wakes::Bells;

/// How often the server says that it has nothing to say.
const HEARTBEAT: Duration = Duration::from_secs(3);

/// How often a follower looks whether it is still wanted and connected.
const LOOK: Duration = Duration::from_secs(1);

/// How soon a copy begins anew.
const AGAIN: Duration = Duration::from_millis(100);

/// How long a caller waits for a copy that is not complete.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a caller waits for a row that the server has before it asks again.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// The server removes rows that say that something is gone after a while. A copy that was behind
/// for longer than this may have missed some, and looks which rows are there.
const MOST_BEHIND: Duration = Duration::from_secs(60);

/// What is kept of a table.
pub(crate) trait Rows: Send + 'static {
    /// Forgets everything: all rows come again.
    fn clear(&mut self);

    /// Takes in a row; an older one than is known changes nothing. Gives what to ring for it.
    fn note(&mut self, row: Row) -> Option<Bell>;

    /// Subjects and sequences of what is there.
    fn there(&self) -> Vec<(String, u64)>;

    /// The server has no row of this subject any more, which was this one or an older one.
    fn forget(&mut self, subject: &str, sequence: u64);
}

/// A copy, and how far it is.
pub(crate) struct Mirror<R> {
    rows: Mutex<R>,
    place: watch::Sender<Place>,
    consumer: Mutex<Option<Consumer<push::Config>>>,
    table: Table,
    client: Client,
    again: Arc<Notify>,
    /// Whether a caller has read it, or waits to.
    wanted: watch::Sender<bool>,
    /// Whether it has been complete once.
    was_complete: AtomicBool,
    most_behind: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    is_complete: bool,
    /// With which connection it began to follow.
    connects: u64,
    /// How many messages have come since it began to follow.
    received: u64,
    /// The sequence of the last of them, and when the server stored it.
    through: u64,
    stored_ms: i64,
}

impl<R: Rows> Mirror<R> {
    pub(crate) fn new(table: Table, rows: R) -> Arc<Self> {
        Self::with(table, rows, MOST_BEHIND)
    }

    fn with(table: Table, rows: R, most_behind: Duration) -> Arc<Self> {
        Arc::new(Self {
            rows: Mutex::new(rows),
            place: watch::Sender::default(),
            consumer: Mutex::default(),
            client: table.js.client(),
            table,
            again: Arc::default(),
            wanted: watch::Sender::default(),
            was_complete: AtomicBool::new(false),
            most_behind,
        })
    }

    /// The rows, complete or not.
    pub(crate) fn rows(&self) -> MutexGuard<'_, R> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether rows come; what this process writes itself is worth noting only then.
    pub(crate) fn is_wanted(&self) -> bool {
        *self.wanted.borrow()
    }

    fn connects(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    /// Whether the copy may answer.
    pub(crate) fn is_complete(&self) -> bool {
        let place = *self.place.borrow();
        place.is_complete
            && place.connects == self.connects()
            && self.client.connection_state() == State::Connected
    }

    /// Waits until the copy may answer.
    pub(crate) async fn complete(&self) -> Result<(), Error> {
        self.wanted
            .send_if_modified(|wanted| !std::mem::replace(wanted, true));
        let begun = Instant::now();
        let mut place = self.place.subscribe();
        while !self.is_complete() {
            if begun.elapsed() > PATIENCE {
                let text = "NATS: what is in a stream is not delivered; is the server there?";
                return Err(Error::Unavailable(text.into()));
            }
            // The connection may come back without a change here.
            let _ = tokio::time::timeout(ASK_AGAIN, place.changed()).await;
        }
        Ok(())
    }

    /// Waits until the copy has the row of this sequence, which exists or existed.
    pub(crate) async fn reached(&self, sequence: u64) -> Result<(), Error> {
        if self.place.borrow().through >= sequence && self.is_complete() {
            return Ok(());
        }
        let mut place = self.place.subscribe();
        let reached = place.wait_for(|place| place.is_complete && place.through >= sequence);
        let in_time = tokio::time::timeout(ASK_AGAIN, reached).await.is_ok();
        match in_time {
            true => Ok(()),
            // It was replaced before it was delivered.
            false => self.catch_up().await,
        }
    }

    /// Waits until the copy has everything that the stream's leader has now.
    pub(crate) async fn catch_up(&self) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            self.complete().await?;
            let before = *self.place.borrow();
            match self.table.newest().await {
                Ok(newest) => {
                    let newest = newest.map_or((0, 0), |row| (row.sequence, row.stored_ms));
                    if self.has_all(before, newest).await {
                        return Ok(());
                    }
                }
                Err(_) => self.begin_anew(),
            }
            if begun.elapsed() > PATIENCE {
                let text = "NATS: what is in a stream is not delivered to its end";
                return Err(Error::Unavailable(text.into()));
            }
        }
    }

    /// Whether a copy that was at `before` soon has everything up to the newest row. That one may
    /// never come, since it is replaced or removed; and it may be of another stream.
    async fn has_all(&self, before: Place, newest: (u64, i64)) -> bool {
        let mut place = self.place.subscribe();
        let has = place.wait_for(|it| it.is_complete && it.through >= newest.0);
        let in_time = tokio::time::timeout(ASK_AGAIN, has).await.is_ok();
        if in_time && (before.through < newest.0 || (before.through, before.stored_ms) == newest) {
            return true;
        }
        let consumer = self.consumer().clone();
        let is_followed = match consumer {
            Some(consumer) => consumer.get_info().await.is_ok(),
            None => false,
        };
        if !is_followed {
            self.begin_anew();
        }
        in_time && is_followed && before.through > newest.0
    }

    fn consumer(&self) -> MutexGuard<'_, Option<Consumer<push::Config>>> {
        self.consumer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets rows that the stream's leader does not have: they were removed without a row that
    /// says so, or that one was not delivered in time.
    pub(crate) async fn verify(&self) -> Result<(), Error> {
        let known = self.rows().there();
        if known.is_empty() {
            return Ok(());
        }
        let there = self.table.subjects().await?;
        let mut rows = self.rows();
        for (subject, sequence) in known.iter().filter(|(it, _)| !there.contains(it)) {
            rows.forget(subject, *sequence);
        }
        Ok(())
    }

    /// The copy may answer from now on. Rows that came before do not ring: whoever has listened
    /// since an earlier copy looks at everything.
    fn completed(&self, bells: &Bells) {
        let completes = |place: &mut Place| !std::mem::replace(&mut place.is_complete, true);
        if self.place.send_if_modified(completes) && self.was_complete.swap(true, Ordering::Relaxed)
        {
            bells.lost();
        }
    }

    /// Reads everything again.
    pub(crate) fn begin_anew(&self) {
        self.place.send_modify(|place| place.is_complete = false);
        self.again.notify_one();
    }
}

/// Follows a table from its first read on, for as long as its copy is held.
pub(crate) async fn follow<R: Rows>(mirror: Weak<Mirror<R>>, bells: Arc<Bells>) {
    let Some(mut wanted) = mirror.upgrade().map(|held| held.wanted.subscribe()) else {
        return;
    };
    // It fails when the copy is gone.
    if wanted.wait_for(|wanted| *wanted).await.is_err() {
        return;
    }
    while let Some(held) = mirror.upgrade() {
        let table = held.table.clone();
        let followed = follow_once(held, &mirror, &table, &bells).await;
        if followed.as_ref().is_err_and(names_no_stream) {
            table.missing.notify_one();
        }
        if let Some(held) = mirror.upgrade() {
            held.place.send_modify(|place| place.is_complete = false);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Follows a table until something is amiss.
async fn follow_once<R: Rows>(
    held: Arc<Mirror<R>>,
    mirror: &Weak<Mirror<R>>,
    table: &Table,
    bells: &Bells,
) -> Result<(), Error> {
    let broken = |error: &dyn std::fmt::Display| unavailable("a stream cannot be followed", error);
    let client = held.client.clone();
    let connects = held.connects();
    let delivered_to = client.new_inbox();
    let subscribed = client.subscribe(delivered_to.clone()).await;
    let mut messages = subscribed.map_err(|error| broken(&error))?;
    held.rows().clear();
    let made = table.stream.create_consumer(following(delivered_to)).await;
    let consumer = made.map_err(|error| broken(&error))?;
    let there = consumer.cached_info().num_pending;
    *held.consumer() = Some(consumer);
    held.place.send_replace(Place {
        connects,
        ..Place::default()
    });
    if there == 0 {
        held.completed(bells);
    }
    let (again, most_behind) = (Arc::clone(&held.again), held.most_behind);
    drop(held);
    let connected = Instant::now();
    let (mut heard, mut delivered, mut caught_up) = (connected, connected, connected);
    loop {
        let next = tokio::select! {
            next = tokio::time::timeout(LOOK, messages.next()) => next,
            () = again.notified() => return Ok(()),
        };
        let Some(held) = mirror.upgrade() else {
            return Ok(());
        };
        if held.connects() != connects || heard.elapsed() > HEARTBEAT * 2 + LOOK {
            return Ok(());
        }
        let Ok(next) = next else { continue };
        let Some(message) = next else { return Ok(()) };
        heard = Instant::now();
        let place = *held.place.borrow();
        if message.status == Some(StatusCode::IDLE_HEARTBEAT) {
            match told(&message, place.received) {
                Heartbeat::Lost => return Ok(()),
                // What is not answered is asked again.
                Heartbeat::Asked(asked) => {
                    if delivered.elapsed() > most_behind {
                        return Ok(());
                    }
                    drop(client.publish(asked, bytes::Bytes::new()).await);
                }
                // What was there when it began to follow may be gone.
                Heartbeat::Idle => {
                    if caught_up.elapsed() > most_behind {
                        held.verify().await?;
                    }
                    caught_up = Instant::now();
                    held.completed(bells);
                }
            }
            continue;
        }
        let message = jetstream::Message {
            message,
            context: table.js.clone(),
        };
        let (received, pending) = match message.info() {
            Ok(info) => (info.consumer_sequence, info.pending),
            Err(_) => continue,
        };
        if received != place.received + 1 {
            return Ok(());
        }
        delivered = Instant::now();
        let Some(row) = Row::from_consumed(message) else {
            continue;
        };
        let (through, stored_ms) = (row.sequence, row.stored_ms);
        let bell = held.rows().note(row);
        held.place.send_modify(|place| {
            place.received = received;
            place.through = through;
            place.stored_ms = stored_ms;
        });
        if pending == 0 || received >= there {
            let is_late = caught_up.elapsed() > most_behind;
            if is_late {
                held.verify().await?;
            }
            if is_late || pending == 0 {
                caught_up = Instant::now();
            }
            held.completed(bells);
        }
        if let Some(bell) = bell.filter(|_| place.is_complete) {
            bells.ring(bell);
        }
    }
}

fn following(deliver_subject: String) -> push::Config {
    push::Config {
        deliver_subject,
        ack_policy: AckPolicy::None,
        idle_heartbeat: HEARTBEAT,
        flow_control: true,
        memory_storage: true,
        num_replicas: 1,
        inactive_threshold: HEARTBEAT * 2,
        ..push::Config::default()
    }
}

/// What a heartbeat says.
#[derive(Debug, PartialEq, Eq)]
enum Heartbeat {
    /// Messages have not come.
    Lost,
    /// The server waits to be told how far its messages have come, on this subject.
    Asked(Subject),
    /// Everything has come, and nothing waits.
    Idle,
}

fn told(heartbeat: &Message, received: u64) -> Heartbeat {
    let header = |name: &str| heartbeat.headers.as_ref().and_then(|it| it.get(name));
    let last = header("Nats-Last-Consumer").and_then(|last| last.as_str().parse::<u64>().ok());
    if last.is_some_and(|last| last > received) {
        return Heartbeat::Lost;
    }
    match (&heartbeat.reply, header("Nats-Consumer-Stalled")) {
        (Some(reply), _) => Heartbeat::Asked(reply.clone()),
        (None, Some(subject)) => Heartbeat::Asked(subject.as_str().into()),
        (None, None) => Heartbeat::Idle,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use windlass_store::Wait as _;
    use windlass_store::conformance::inbox::offer_of;
    use windlass_store::conformance::run_id;
    use windlass_store::{Bell, Inbox as _, Wakes as _};
    use windlass_test_support::{nats, postgres};

    use super::*;
    use crate::{NatsStore, Settings};

    #[derive(Default)]
    struct Count(Arc<AtomicUsize>);

    impl Rows for Count {
        fn clear(&mut self) {
            self.0.store(0, Ordering::Relaxed);
        }

        fn note(&mut self, _: Row) -> Option<Bell> {
            self.0.fetch_add(1, Ordering::Relaxed);
            None
        }

        fn there(&self) -> Vec<(String, u64)> {
            Vec::new()
        }

        fn forget(&mut self, _: &str, _: u64) {}
    }

    pub(super) fn store() -> NatsStore {
        let database = postgres::server().fresh();
        let database = windlass_store_postgres::Settings::parse(&database).unwrap();
        let settings = Settings::parse(nats::server().url(), database.pool(2)).unwrap();
        NatsStore::open(
            &settings
                .prefix(&nats::fresh_prefix())
                .unwrap()
                .partitions(1),
        )
        .unwrap()
    }

    /// A consumer on a server that is behind says that everything is delivered.
    #[test]
    fn a_copy_has_everything_only_when_it_has_the_newest_row_of_the_leader() {
        let store = store();
        let offered = store.offer(vec![offer_of(run_id(1), "key", b"x")]).wait();
        assert_eq!(offered.unwrap(), [true]);
        let behind = store.task(|inner| async move {
            let mirror = Mirror::new(inner.inbox.clone(), Count::default());
            let config = push::Config {
                deliver_subject: inner.log.client().new_inbox(),
                filter_subject: inner.names.inbox_item(9, run_id(9), "key"),
                ack_policy: AckPolicy::None,
                ..push::Config::default()
            };
            let made = inner.inbox.stream.create_consumer(config).await;
            *mirror.consumer() = Some(made.map_err(|error| unavailable("a consumer", &error))?);
            let place = Place {
                is_complete: true,
                connects: mirror.connects(),
                ..Place::default()
            };
            mirror.place.send_replace(place);
            let early = mirror.catch_up();
            let early = tokio::time::timeout(ASK_AGAIN * 20, early).await;
            assert!(early.is_err(), "the row has not come: {early:?}");
            let newest = inner.inbox.newest().await?.unwrap();
            mirror.place.send_replace(Place {
                received: 1,
                through: newest.sequence,
                stored_ms: newest.stored_ms,
                ..place
            });
            mirror.catch_up().await
        });
        behind.wait().unwrap();
    }

    /// A heartbeat with these headers, after two messages have come.
    fn check(headers: &[(&str, &str)], expected: Heartbeat) {
        let mut message = Message {
            subject: "deliver".into(),
            reply: None,
            payload: bytes::Bytes::new(),
            headers: Some(async_nats::HeaderMap::new()),
            status: Some(StatusCode::IDLE_HEARTBEAT),
            description: None,
            length: 0,
        };
        for (name, value) in headers {
            message.headers.as_mut().unwrap().insert(*name, *value);
        }
        assert_eq!(told(&message, 2), expected);
    }

    #[test]
    fn a_heartbeat_tells_what_is_lost_asked_and_complete() {
        check(&[("Nats-Last-Consumer", "3")], Heartbeat::Lost);
        let stalled = ("Nats-Consumer-Stalled", "answer");
        check(
            &[("Nats-Last-Consumer", "2"), stalled],
            Heartbeat::Asked("answer".into()),
        );
        check(&[("Nats-Last-Consumer", "2")], Heartbeat::Idle);
    }

    /// The rows that were there when a copy began to follow may be removed before they come.
    #[test]
    fn a_copy_whose_last_rows_are_removed_is_complete_with_the_next_heartbeat() {
        let store = store();
        let offered = store.offer(vec![offer_of(run_id(1), "key", b"x")]).wait();
        assert_eq!(offered.unwrap(), [true]);
        let complete = store.task(|inner| async move {
            inner.offers.complete().await?;
            // As if they had been.
            inner
                .offers
                .place
                .send_modify(|place| place.is_complete = false);
            let mut place = inner.offers.place.subscribe();
            let complete = place.wait_for(|place| place.is_complete).await;
            Ok(complete.map(|place| place.received).unwrap_or_default())
        });
        assert_eq!(complete.wait().unwrap(), 1);
    }

    /// A worker offers outcomes and never reads the inbox.
    #[test]
    fn a_copy_has_nothing_and_is_sent_nothing_before_it_is_read() {
        let store = store();
        let run = run_id(1);
        let offered = store.offer(vec![offer_of(run, "key", b"x")]).wait();
        assert_eq!(offered.unwrap(), [true]);
        let offers = &store.inner.offers;
        assert!(offers.rows().there().is_empty() && offers.consumer().is_none());
        assert_eq!(store.waiting_items(run, 9).wait().unwrap(), 1);
        assert!(offers.consumer().is_some());
    }

    /// Rows that were written while a copy begins anew do not ring.
    #[test]
    fn listeners_look_at_everything_when_a_copy_has_begun_anew() {
        let store = store();
        let complete = store.task(|inner| async move {
            inner.offers.complete().await?;
            inner.items.complete().await
        });
        complete.wait().unwrap();
        let mut listener = store.listen().wait().unwrap();
        store.inner.offers.begin_anew();
        let (heard, hears) = std::sync::mpsc::channel();
        std::thread::spawn(move || heard.send(listener.hear().wait()));
        let heard = hears.recv_timeout(Duration::from_secs(60));
        assert!(matches!(heard, Ok(Err(Error::Unavailable(_)))), "{heard:?}");
    }

    /// A copy that takes long is not thrown away while rows come.
    #[test]
    fn a_copy_becomes_complete_however_long_it_takes() {
        let store = store();
        let offers = (0..5).map(|n| offer_of(run_id(n), "key", b"x")).collect();
        store.offer(offers).wait().unwrap();
        let count = Arc::<AtomicUsize>::default();
        let rows = Count(Arc::clone(&count));
        let following = store.task(|inner| async move {
            let mirror = Mirror::with(inner.inbox.clone(), rows, Duration::ZERO);
            tokio::spawn(follow(Arc::downgrade(&mirror), Arc::default()));
            mirror.complete().await
        });
        following.wait().unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 5);
    }
}
