//! The store as callers hold it: its connection, the threads that serve it, and what its parts
//! share. The traits are implemented in the other files.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::Client;
use async_nats::jetstream::context::{Context, ContextBuilder};
use async_nats::jetstream::object_store::ObjectStore;
use async_nats::jetstream::stream::{Info, State};
use futures_util::future::{join_all, try_join_all};
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::task::JoinHandle;
use windlass_core::RunId;
use windlass_store::{Error, Head, Pending, Slot};
use windlass_store_postgres::PostgresStore;

use crate::OpenError;
use crate::blob::Touched;
use crate::inbox_state::InboxState;
use crate::intact;
use crate::keeper;
use crate::layout::{self, Layout, LogStream};
use crate::lease_state::{LeaseState, Observations};
use crate::mirror::{self, Mirror};
use crate::names::Names;
use crate::projector::{self, Projector};
use crate::replicas;
use crate::settings::Settings;
use crate::table::Table;
use crate::wakes::Bells;
use crate::watermark::{self, Watermarks};
use crate::work_state::WorkState;

/// How long a caller waits for an answer, whatever the servers do.
pub(crate) const ANSWER: Duration = Duration::from_secs(20);

/// Runs whose last message is remembered; the others are asked for.
const MOST_HEADS: usize = 200_000;

/// A store in JetStream and PostgreSQL. Cloning gives another handle to the same connections.
#[derive(Clone)]
pub struct NatsStore {
    pub(crate) inner: Arc<Inner>,
    threads: Arc<Threads>,
}

impl std::fmt::Debug for NatsStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NatsStore({})", self.inner.settings.address())
    }
}

/// What all parts share.
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) names: Names,
    pub(crate) client: Client,
    pub(crate) js: Context,
    /// The connection that records are published on, and the runtime that serves it.
    pub(crate) log: Context,
    home: Handle,
    pub(crate) partitions: u32,
    pub(crate) logs: Vec<LogStream>,
    pub(crate) inbox: Table,
    /// What the inbox has.
    pub(crate) offers: Arc<Mirror<InboxState>>,
    /// The last row that this process wrote there.
    pub(crate) last_offer: AtomicU64,
    pub(crate) leases: Table,
    pub(crate) claims: Table,
    pub(crate) index: Table,
    pub(crate) objects: ObjectStore,
    pub(crate) work: Table,
    /// What the work queue has.
    pub(crate) items: Arc<Mirror<WorkState>>,
    pub(crate) bells: Arc<Bells>,
    pub(crate) postgres: PostgresStore,
    pub(crate) projector: Projector,
    pub(crate) watermarks: Watermarks,
    /// How many messages were not applied when the store was opened.
    pub(crate) found_behind: u64,
    pub(crate) observed: Mutex<Observations>,
    pub(crate) seen_leases: Mutex<Option<(Instant, LeaseState)>>,
    pub(crate) touched: Touched,
    /// How much older objects count than they are: for tests.
    pub(crate) later_ms: AtomicU64,
    pub(crate) clock: Clock,
    heads: Mutex<HashMap<RunId, KnownHead>>,
    applied: Mutex<HashMap<RunId, Head>>,
}

/// Where a run's log ends, as this process knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownHead {
    pub(crate) head: Head,
    /// The last message's place in the stream.
    pub(crate) sequence: u64,
    /// Whether the copy of the inbox is at least as new as that place. It is where this process
    /// published all that came since it was (`refusal.rs`).
    pub(crate) has_inbox: bool,
    /// The last record that changed the run's row; 0 if that is not known.
    pub(crate) row_at: u64,
}

impl KnownHead {
    /// Of a run that has no log.
    pub(crate) const NOTHING: Self = Self {
        head: Head::NONE,
        sequence: 0,
        has_inbox: true,
        row_at: 0,
    };
}

/// The clock by which this process observes leases. It is compared with nothing but itself.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    Real(Instant),
    Test(Arc<AtomicU64>),
}

impl Default for Clock {
    fn default() -> Self {
        Self::Real(Instant::now())
    }
}

impl Clock {
    pub(crate) fn now_ms(&self) -> u64 {
        match self {
            Self::Real(began) => u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            Self::Test(clock) => clock.load(Ordering::Relaxed),
        }
    }
}

/// The threads that serve the connection. They are the store's own, so that a caller may block on
/// an answer wherever it runs. Records have a connection elsewhere if they can ([`home`]).
struct Threads(Option<Runtime>);

impl Threads {
    fn start() -> Result<Self, OpenError> {
        let built = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("windlass-nats")
            .enable_all()
            .build();
        match built {
            Ok(runtime) => Ok(Self(Some(runtime))),
            Err(error) => Err(OpenError::refused(format!("no thread for NATS: {error}"))),
        }
    }

    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<JoinHandle<T>> {
        self.0.as_ref().map(|runtime| runtime.spawn(work))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // The last handle may be dropped on an asynchronous task, which must not wait.
            runtime.shutdown_background();
        }
    }
}

impl NatsStore {
    /// Connects, makes or checks the streams and the schema, and starts the projector. It blocks;
    /// see [`NatsStore::connect`].
    ///
    /// # Errors
    /// [`OpenError::Away`] if a server cannot be reached now, [`OpenError::Refused`] if what is
    /// there cannot be worked with; each says what to do.
    pub fn open(settings: &Settings) -> Result<Self, OpenError> {
        windlass_store::block_on(Self::connect(settings))
    }

    /// The same for asynchronous callers, on any runtime.
    ///
    /// # Errors
    /// As [`NatsStore::open`].
    pub async fn connect(settings: &Settings) -> Result<Self, OpenError> {
        let threads = Threads::start()?;
        let broken =
            |error: &dyn std::fmt::Display| OpenError::refused(format!("opening broke: {error}"));
        let opening = threads.spawn(open(settings.clone(), home()));
        let opening = opening.ok_or_else(|| broken(&"no thread"))?;
        let inner = tokio::task::unconstrained(opening)
            .await
            .map_err(|error| broken(&error))??;
        Ok(Self {
            inner,
            threads: Arc::new(threads),
        })
    }

    /// The database with everything relational.
    pub fn postgres(&self) -> &PostgresStore {
        &self.inner.postgres
    }

    /// How many records this process published that the database has not yet.
    pub fn unapplied(&self) -> u64 {
        self.inner.projector.lag()
    }

    /// How far the clock of the NATS server is ahead of this machine's, in milliseconds.
    pub fn clock_ahead_ms(&self) -> Pending<'_, Result<i64, Error>> {
        self.task(move |inner| async move {
            let before = inner.wall_ms();
            let server = inner.server_now().await?;
            let between = before + (inner.wall_ms() - before) / 2;
            Ok(server.saturating_sub(between))
        })
    }

    /// Lets a task of the store's threads answer.
    pub(crate) fn task<'a, T: Send + 'static, F>(
        &self,
        work: impl FnOnce(Arc<Inner>) -> F,
    ) -> Pending<'a, Result<T, Error>>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let slot = Slot::default();
        let filled = slot.fill(work(Arc::clone(&self.inner)));
        let task = self.threads.spawn(in_time(filled));
        slot.after(done(task))
    }

    /// The same where records are published, for calls that a node waits for.
    pub(crate) fn task_at_home<'a, T: Send + 'static, F>(
        &self,
        work: impl FnOnce(Arc<Inner>) -> F,
    ) -> Pending<'a, Result<T, Error>>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let slot = Slot::default();
        let filled = slot.fill(work(Arc::clone(&self.inner)));
        let task = self.spawn_at_home(in_time(filled));
        slot.after(done(Some(task)))
    }

    /// The same for work that takes as long as it takes.
    pub(crate) fn answer<'a, T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Pending<'a, Result<T, Error>> {
        let slot = Slot::default();
        let task = self.threads.spawn(slot.fill(work));
        slot.after(done(task))
    }

    /// Lets a task answer where records are published.
    pub(crate) fn spawn_at_home<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.inner.home.spawn(work)
    }
}

/// What a task of the store's threads answered.
fn done<'a>(task: Option<JoinHandle<Result<(), Error>>>) -> Pending<'a, Result<(), Error>> {
    blockable(async move {
        match task {
            None => Err(closed()),
            Some(task) => task.await.unwrap_or_else(|_| Err(closed())),
        }
    })
}

/// The end of some work, or that it did not end in time.
async fn in_time(work: Pending<'static, Result<(), Error>>) -> Result<(), Error> {
    let late = |_| {
        Err(Error::Unavailable(format!(
            "NATS or the database has not answered within {} s",
            ANSWER.as_secs()
        )))
    };
    let answer = tokio::time::timeout(ANSWER, work).await;
    answer.unwrap_or_else(late)
}

/// The runtime of the caller that opens the store, if its tasks never all wait for one thread.
/// Records are published there, so that an append takes no thread of its own to the connection and
/// back: callers await appends and never block on them.
fn home() -> Option<Handle> {
    let home = Handle::try_current().ok()?;
    let is_wide =
        home.runtime_flavor() == RuntimeFlavor::MultiThread && home.metrics().num_workers() > 1;
    is_wide.then_some(home)
}

impl Inner {
    /// The share of the logs that a run is in. It follows from the id alone, so that a log is
    /// found without a row; which process owns the run is another matter.
    pub(crate) fn log_partition(&self, run: RunId) -> u32 {
        u32::from(run.as_bytes()[15]) % self.partitions
    }

    /// The number of a run's stream.
    pub(crate) fn stream_number(&self, run: RunId) -> usize {
        let streams = u32::try_from(self.logs.len()).unwrap_or(u32::MAX);
        (self.log_partition(run) % streams) as usize
    }

    pub(crate) fn log_stream(&self, run: RunId) -> &LogStream {
        &self.logs[self.stream_number(run)]
    }

    pub(crate) fn log_subject(&self, run: RunId) -> String {
        self.names.log(self.log_partition(run), run)
    }

    fn heads(&self) -> MutexGuard<'_, HashMap<RunId, KnownHead>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The head that this process saw last, and its place in the stream.
    pub(crate) fn known_head(&self, run: RunId) -> Option<KnownHead> {
        self.heads().get(&run).copied()
    }

    pub(crate) fn note_head(&self, run: RunId, new: KnownHead) {
        let mut heads = self.heads();
        if heads.len() >= MOST_HEADS {
            heads.clear();
        }
        let known = heads.entry(run).or_insert(new);
        if known.sequence < new.sequence {
            *known = new;
        } else if known.sequence == new.sequence {
            known.has_inbox |= new.has_inbox;
        }
    }

    pub(crate) fn forget_head(&self, run: RunId) {
        self.heads().remove(&run);
        self.applied().remove(&run);
    }

    fn applied(&self) -> MutexGuard<'_, HashMap<RunId, Head>> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database has a run's log up to this head, by this process.
    pub(crate) fn note_applied(&self, run: RunId, head: Head) {
        let mut applied = self.applied();
        if applied.len() >= MOST_HEADS {
            applied.clear();
        }
        let known = applied.entry(run).or_insert(head);
        if known.sequence < head.sequence {
            *known = head;
        }
    }

    /// Whether this process brought the database to this head.
    pub(crate) fn has_applied(&self, run: RunId, head: Head) -> bool {
        self.applied().get(&run) == Some(&head)
    }

    /// Whether this process brought records of the run to the database.
    pub(crate) fn has_applied_some(&self, run: RunId) -> bool {
        self.applied().contains_key(&run)
    }
}

fn jetstream(settings: &Settings, client: Client) -> Context {
    ContextBuilder::new()
        .timeout(settings.answer_time)
        .ack_timeout(settings.answer_time)
        .max_ack_inflight(20_000)
        .backpressure_on_inflight(true)
        .build(client)
}

async fn open(settings: Settings, home: Option<Handle>) -> Result<Arc<Inner>, OpenError> {
    let client = crate::connect::connect(&settings).await?;
    let js = jetstream(&settings, client.clone());
    let home = home.unwrap_or_else(Handle::current);
    let connecting = home.spawn({
        let settings = settings.clone();
        async move { crate::connect::connect(&settings).await }
    });
    let broken = |error| OpenError::refused(format!("opening broke: {error}"));
    let log = jetstream(&settings, connecting.await.map_err(broken)??);
    let names = Names::new(&settings.prefix);
    let postgres = PostgresStore::connect(&settings.postgres).await?;
    let known = watermark::stored(&postgres)
        .await
        .map_err(OpenError::Away)?;
    let layout = layout::open(&js, &names, &settings, &known).await?;
    let Layout {
        logs,
        partitions,
        inbox,
        leases,
        claims,
        index,
        objects,
        work,
        missing,
    } = layout;
    let (found_behind, watermarks) = match settings.rebuilding {
        true => (0, Watermarks::new(&[], &logs)),
        false => {
            let behind = intact::check(&logs, &names, &known).await?;
            (behind, Watermarks::new(&known, &logs))
        }
    };
    let (projector, queue) = Projector::new();
    let clock = match &settings.clock {
        Some(clock) => Clock::Test(Arc::clone(clock)),
        None => Clock::Real(Instant::now()),
    };
    let bells = Arc::<Bells>::default();
    let [inbox, work] = [inbox, work].map(|table| Table {
        js: log.clone(),
        ..table
    });
    let offers = Mirror::new(inbox.clone(), InboxState::default());
    let items = Mirror::new(work.clone(), WorkState::new(clock.clone()));
    let inner = Arc::new(Inner {
        names,
        work,
        items,
        offers,
        bells,
        last_offer: AtomicU64::new(0),
        seen_leases: Mutex::default(),
        settings,
        client,
        js,
        log,
        home,
        partitions,
        logs,
        inbox,
        leases,
        claims,
        index,
        objects,
        postgres,
        projector,
        watermarks,
        found_behind,
        observed: Mutex::default(),
        touched: Touched::default(),
        later_ms: AtomicU64::new(0),
        clock,
        heads: Mutex::default(),
        applied: Mutex::default(),
    });
    let (offers, items) = (&inner.offers, &inner.items);
    let bells = || Arc::clone(&inner.bells);
    let follow_offers = mirror::follow(Arc::downgrade(offers), bells());
    inner.home.spawn(follow_offers);
    let follow_items = mirror::follow(Arc::downgrade(items), bells());
    inner.home.spawn(follow_items);
    tokio::spawn(projector::run(Arc::downgrade(&inner), queue));
    // What other processes published and did not project before they ended.
    inner.catch_up().await.map_err(OpenError::Away)?;
    inner.mend().await?;
    let is_known = |log: &LogStream| known.iter().any(|it| it.stream == log.name);
    if !inner.settings.rebuilding && !inner.logs.iter().all(is_known) {
        // From now on a stream that is not there was deleted.
        let kept = inner.keep_all_watermarks().await;
        kept.map_err(OpenError::Away)?;
    }
    tokio::spawn(keeper::run(Arc::downgrade(&inner), missing));
    Ok(inner)
}

/// A future that a caller may block on wherever it runs. Inside a task, tokio lets what belongs to
/// it wait after some hundred answers until the task has yielded; a caller that blocks never does.
pub(crate) fn blockable<'a, T: 'a>(answer: impl Future<Output = T> + Send + 'a) -> Pending<'a, T> {
    Box::pin(tokio::task::unconstrained(answer))
}

pub(crate) fn closed() -> Error {
    Error::Unavailable("the store was closed".into())
}

impl Inner {
    /// What is worth knowing of the servers and streams.
    pub(crate) async fn facts(&self) -> Result<Vec<(String, String)>, Error> {
        self.is_fit()?;
        let server = self.client.server_info();
        let (streams, away) = self.streams_now().await?;
        let mut facts = vec![
            ("nats_server".to_owned(), server.version.clone()),
            ("nats_prefix".to_owned(), self.settings.prefix.clone()),
        ];
        for (number, log) in streams[..self.logs.len()].iter().enumerate() {
            if log.state.last_sequence < self.watermarks.reached(number) {
                self.look_at(number).await?;
            }
            self.watermarks.trusted(number)?;
        }
        facts.extend(replicas::facts(self.settings.replicas, &streams));
        facts.extend(away);
        facts.push(("log_partitions".into(), self.partitions.to_string()));
        facts.push(("log_streams".into(), self.logs.len().to_string()));
        let logs = &streams[..self.logs.len()];
        let sum = |count: fn(&State) -> u64| logs.iter().map(|it| count(&it.state)).sum::<u64>();
        facts.push(("log_messages".into(), sum(|it| it.messages).to_string()));
        let published = sum(|it| it.last_sequence);
        facts.push(("log_published".into(), published.to_string()));
        facts.push(("log_bytes".into(), sum(|it| it.bytes).to_string()));
        facts.push(("projection_lag".into(), self.behind().await?.to_string()));
        Ok(facts)
    }

    /// How the streams are now, those of logs first. One that is made again by itself may be
    /// missing, and one that does not answer is told; the others must be there.
    async fn streams_now(&self) -> Result<(Vec<Info>, Vec<(String, String)>), Error> {
        let mut streams = try_join_all(self.logs.iter().map(LogStream::info)).await?;
        let tables = [
            &self.inbox,
            &self.work,
            &self.leases,
            &self.claims,
            &self.index,
        ];
        let tables = tables.map(|table| async move {
            let found = layout::info(&self.js, &table.name).await;
            found.map_err(|error| format!("{}: {error}", table.name))
        });
        let mut away = Vec::new();
        for found in join_all(tables).await {
            match found {
                Ok(found) => streams.extend(found),
                Err(told) => away.push(("nats_stream_away".to_owned(), told)),
            }
        }
        streams.push(self.objects_now().await?);
        Ok((streams, away))
    }
}
