//! The store as callers hold it: its connections, the threads that serve them, and how a call
//! gets a connection. The traits are implemented in the other files.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{Object, Pool};
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::task::JoinHandle;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use windlass_core::RunId;
use windlass_store::{Damage, Error, Pending, RunRow, Slot};

use crate::OpenError;
use crate::codec::{Columns as _, run_row};
use crate::connect::{Access, Kind};
use crate::error::Fault;
use crate::line::Lines;
use crate::migrate::{self, Opened};
use crate::notify::Bells;
use crate::settings::{QUEUE, Settings};
use crate::writer::Writers;

/// Damaged rows that are remembered until a caller asks.
const MOST_DAMAGE: usize = 1000;

/// How long a caller waits for an answer of the database, whatever the database does. A database
/// that stands still keeps connections open and answers nothing.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

/// The same for calls that go over many rows.
const LONG_ANSWER: Duration = Duration::from_secs(60);

/// How often the queue is swept of items that no worker gets again.
const SWEEP: Duration = Duration::from_secs(60);

/// Parameters of a statement.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A store in PostgreSQL. Cloning gives another handle to the same connections.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) inner: Arc<Inner>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PostgresStore({})", self.inner.access.address)
    }
}

pub(crate) struct Inner {
    pub(crate) access: Access,
    pub(crate) opened: Opened,
    pool: Pool,
    /// The connections of the work queue and inboxes. They are served where the store was opened
    /// ([`home`]), so that each step of an attempt in another process saves two switches of threads.
    queue: Pool,
    home: Option<Handle>,
    /// One connection for leases alone: a session must not expire because others wait long.
    leases: Pool,
    pub(crate) writers: Writers,
    pub(crate) bells: Bells,
    pub(crate) lines: Lines,
    damaged: Mutex<Vec<Damage>>,
    /// When the queue was last swept of items that no worker gets again.
    swept: Mutex<Option<Instant>>,
    // Last: what the tasks hold is dropped before their threads end.
    threads: Threads,
}

/// The threads that serve the connections. They are the store's own, so that a caller may block
/// on an answer wherever it runs. The writers are elsewhere if they can be ([`home`]).
struct Threads(Option<Runtime>);

impl Threads {
    fn start() -> Result<Self, OpenError> {
        let built = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("windlass-postgres")
            .enable_all()
            .build();
        match built {
            Ok(runtime) => Ok(Self(Some(runtime))),
            Err(error) => Err(OpenError::refused(format!(
                "no thread for the database: {error}"
            ))),
        }
    }

    fn spawn<T: Send + 'static>(&self, work: Pending<'static, T>) -> Option<JoinHandle<T>> {
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

impl PostgresStore {
    /// Connects, makes or updates the schema, and starts the writers. It blocks; see
    /// [`PostgresStore::connect`].
    ///
    /// # Errors
    /// [`OpenError::Away`] if the database cannot be reached now, [`OpenError::Refused`] if what
    /// is there cannot be worked with; each says what to do.
    pub fn open(settings: &Settings) -> Result<Self, OpenError> {
        windlass_store::block_on(Self::connect(settings))
    }

    /// The same for asynchronous callers, on any runtime.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub async fn connect(settings: &Settings) -> Result<Self, OpenError> {
        let threads = Threads::start()?;
        let home = home();
        let opening = threads.spawn(Box::pin(open(settings.clone(), home.clone())));
        let Some(opening) = opening else {
            return Err(OpenError::refused("no thread for the database"));
        };
        let broken = |error| OpenError::refused(format!("opening broke: {error}"));
        let parts = tokio::task::unconstrained(opening)
            .await
            .map_err(broken)??;
        Ok(Self {
            inner: Arc::new(Inner {
                access: parts.access,
                opened: parts.opened,
                pool: parts.pool,
                queue: parts.queue,
                home,
                leases: parts.leases,
                writers: parts.writers,
                bells: parts.bells,
                lines: Lines::default(),
                damaged: Mutex::default(),
                swept: Mutex::default(),
                threads,
            }),
        })
    }

    /// Does work on a connection of the pool.
    pub(crate) fn call<'a, T, F>(
        &self,
        work: impl FnOnce(Session) -> F + Send + 'static,
    ) -> Pending<'a, Result<T, Error>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let (work, slot) = job(work);
        slot.after(self.call_within(ANSWER, work))
    }

    /// The same on a connection of the queue, in the caller's own task if it awaits the answer. A
    /// caller that blocks on it is served by the store's threads: it may block the very thread that
    /// would bring the answer.
    pub(crate) fn call_queue<'a, T, F>(
        &self,
        work: impl FnOnce(Session) -> F + Send + 'static,
    ) -> Pending<'a, Result<T, Error>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let (work, slot) = job(work);
        slot.after(self.call_beside(work))
    }

    /// The same for work that goes over many rows.
    pub(crate) fn call_long<'a, T, F>(
        &self,
        work: impl FnOnce(Session) -> F + Send + 'static,
    ) -> Pending<'a, Result<T, Error>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let (work, slot) = job(work);
        slot.after(self.call_within(LONG_ANSWER, work))
    }

    /// The same on the connection of leases.
    pub(crate) fn call_lease<'a, T, F>(
        &self,
        work: impl FnOnce(Session) -> F + Send + 'static,
    ) -> Pending<'a, Result<T, Error>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let (work, slot) = job(work);
        slot.after(self.call_leases(work))
    }

    /// The same, again if it lost a race against another process.
    pub(crate) fn call_again<'a, T, F>(
        &self,
        work: impl Fn(Session) -> F + Send + Sync + 'static,
    ) -> Pending<'a, Result<T, Error>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let slot = Slot::default();
        let filled = slot.clone();
        let attempt: Attempt = Box::new(move |session| filled.fill(work(session)));
        slot.after(self.repeat(attempt))
    }

    fn call_within<'a>(&self, time: Duration, work: Job) -> Pending<'a, Result<(), Error>> {
        let inner = Arc::clone(&self.inner);
        self.task(Box::pin(async move {
            let answer = async {
                let session = inner.session().await?;
                work(session).await.map_err(Fault::into_error)
            };
            inner.answered_within(time, answer).await
        }))
    }

    fn call_beside<'a>(&self, work: Job) -> Pending<'a, Result<(), Error>> {
        let store = self.clone();
        Box::pin(async move {
            let inner = &store.inner;
            if !inner.is_home() || windlass_store::may_block() {
                return store.call_within(ANSWER, work).await;
            }
            let answer = async {
                let session = inner.queue_session().await?;
                work(session).await.map_err(Fault::into_error)
            };
            inner.answered_within(ANSWER, answer).await
        })
    }

    fn call_leases<'a>(&self, work: Job) -> Pending<'a, Result<(), Error>> {
        let inner = Arc::clone(&self.inner);
        self.task(Box::pin(async move {
            let answer = async {
                let got = inner.leases.get().await;
                let session = got.map_err(|error| inner.access.without(&error))?;
                let answer = work(Session::new(session)).await;
                answer.map_err(Fault::into_error)
            };
            inner.answered_within(ANSWER, answer).await
        }))
    }

    fn repeat<'a>(&self, work: Attempt) -> Pending<'a, Result<(), Error>> {
        let inner = Arc::clone(&self.inner);
        self.task(Box::pin(async move {
            let answer = async {
                let mut tries = 0;
                loop {
                    tries += 1;
                    match work(inner.session().await?).await {
                        Err(fault) if fault.is_race() && tries < 8 => {}
                        answer => return answer.map_err(Fault::into_error),
                    }
                }
            };
            inner.answered_within(ANSWER, answer).await
        }))
    }

    /// Lets a task of the store's threads answer.
    pub(crate) fn task<'a, T: Send + 'static>(
        &self,
        work: Pending<'static, Result<T, Error>>,
    ) -> Pending<'a, Result<T, Error>> {
        let slot = Slot::default();
        let task = self.inner.threads.spawn(slot.fill(work));
        slot.after(blockable(async move {
            match task {
                None => Err(closed()),
                Some(task) => task.await.unwrap_or_else(|_| Err(closed())),
            }
        }))
    }

    /// Rows of runs; those that cannot be read are left out and remembered.
    pub(crate) fn run_rows<'a>(
        &self,
        work: impl Future<Output = Result<Vec<Row>, Fault>> + Send + 'static,
    ) -> Pending<'a, Result<Vec<RunRow>, Error>> {
        let inner = Arc::clone(&self.inner);
        self.task(Box::pin(async move {
            let rows = async { work.await.map_err(Fault::into_error) };
            let rows = inner.answered_within(LONG_ANSWER, rows).await?;
            Ok(inner.readable(&rows))
        }))
    }

    pub(crate) fn damaged(&self) -> Vec<Damage> {
        let mut damaged = self
            .inner
            .damaged
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut damaged)
    }
}

impl Inner {
    pub(crate) async fn session(&self) -> Result<Session, Error> {
        let got = self.pool.get().await;
        got.map(Session::new)
            .map_err(|error| self.access.without(&error))
    }

    pub(crate) async fn queue_session(&self) -> Result<Session, Error> {
        let got = self.queue.get().await;
        got.map(Session::new)
            .map_err(|error| self.access.without(&error))
    }

    /// Whether the current task runs where the connections of the queue are served.
    fn is_home(&self) -> bool {
        let here = Handle::try_current().ok().map(|here| here.id());
        here.is_some() && here == self.home.as_ref().map(Handle::id)
    }

    /// An answer of the database, if it comes in time. A connection that is waited for no more
    /// is closed.
    pub(crate) async fn answered_within<T>(
        &self,
        time: Duration,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let late = |_| {
            Err(Error::Unavailable(format!(
                "the database {} has not answered within {} s",
                self.access.address,
                time.as_secs()
            )))
        };
        tokio::time::timeout(time, answer)
            .await
            .unwrap_or_else(late)
    }

    /// Lets a task work beside its caller: for the queue where its connections are served, else on
    /// the store's threads.
    pub(crate) fn spawn(&self, kind: Kind, work: Pending<'static, ()>) {
        match &self.home {
            Some(home) if kind == Kind::Queue => drop(home.spawn(work)),
            // Nothing more is served by a store that is closed.
            _ => drop(self.threads.spawn(work)),
        }
    }

    /// Whether the queue is to be swept now: once in a while is enough.
    pub(crate) fn sweeps_now(&self) -> bool {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = swept.is_none_or(|at| at.elapsed() >= SWEEP);
        if is_due {
            *swept = Some(Instant::now());
        }
        is_due
    }

    /// How many connections the pool has, how many of these are free, and how many callers wait
    /// for one.
    pub(crate) fn pool_state(&self) -> PoolState {
        let status = self.pool.status();
        PoolState {
            limit: status.max_size,
            open: status.size,
            free: status.available,
            waiting: status.waiting,
        }
    }

    pub(crate) fn readable(&self, rows: &[Row]) -> Vec<RunRow> {
        let mut readable = Vec::with_capacity(rows.len());
        for row in rows {
            match run_row(row) {
                Ok(row) => readable.push(row),
                Err(fault) => self.remember(row.run(0).ok(), fault),
            }
        }
        readable
    }

    fn remember(&self, run: Option<RunId>, fault: Fault) {
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if damaged.len() < MOST_DAMAGE {
            damaged.push(Damage {
                place: "table workflow_executions".into(),
                run,
                sequence: None,
                offset: None,
                reason: fault.into_error().to_string(),
            });
        }
    }
}

struct Parts {
    access: Access,
    opened: Opened,
    pool: Pool,
    queue: Pool,
    leases: Pool,
    writers: Writers,
    bells: Bells,
}

/// The runtime of the caller that opens the store, if its tasks never all wait for one thread. The
/// writers, the queue and the bells run there, so that no call changes threads on its way to the
/// connection and back: callers await these and never block on them.
fn home() -> Option<Handle> {
    let home = Handle::try_current().ok()?;
    let is_wide =
        home.runtime_flavor() == RuntimeFlavor::MultiThread && home.metrics().num_workers() > 1;
    is_wide.then_some(home)
}

async fn open(settings: Settings, home: Option<Handle>) -> Result<Parts, OpenError> {
    let access = Access::new(&settings)?;
    let opening = access.config.connect(access.tls.clone());
    let opened = tokio::time::timeout(ANSWER, opening).await;
    let opened = opened.map_err(|_| OpenError::Away(access.silent()))?;
    let (mut client, connection) = opened.map_err(|error| access.refusal(&error))?;
    let served = tokio::spawn(connection);
    let opened = migrate::open(&mut client, &access, &settings).await;
    drop(client);
    let _ = served.await;
    let opened = opened?;
    // The first writer shows that a connection with everything set on it can be made.
    let home = home.unwrap_or_else(Handle::current);
    let first = home.spawn({
        let access = access.clone();
        async move { access.open(Kind::Writer).await }
    });
    let first = first.await.unwrap_or_else(|_| Err(closed()));
    let first = first.map_err(OpenError::Away)?;
    Ok(Parts {
        pool: access.pool(Kind::Pooled, settings.pool)?,
        queue: access.pool(Kind::Queue, QUEUE)?,
        leases: access.pool(Kind::Pooled, 1)?,
        writers: Writers::start(&access, &settings, first, &home),
        bells: Bells::start(&access, &settings.schema, &opened.items_channel, &home),
        opened,
        access,
    })
}

/// Work on a connection, which leaves its answer in a slot.
type Job = Box<dyn FnOnce(Session) -> Pending<'static, Result<(), Fault>> + Send>;

/// The same that may be done again.
type Attempt = Box<dyn Fn(Session) -> Pending<'static, Result<(), Fault>> + Send + Sync>;

/// Work as a job, and where its answer will be.
fn job<T, F>(work: impl FnOnce(Session) -> F + Send + 'static) -> (Job, Slot<T>)
where
    T: Send + 'static,
    F: Future<Output = Result<T, Fault>> + Send + 'static,
{
    let slot = Slot::default();
    let filled = slot.clone();
    (Box::new(move |session| filled.fill(work(session))), slot)
}

/// A future that a caller may block on wherever it runs. Inside a task, tokio lets what belongs to
/// it wait after some hundred answers until the task has yielded; a caller that blocks never does.
pub(crate) fn blockable<'a, T: 'a>(answer: impl Future<Output = T> + Send + 'a) -> Pending<'a, T> {
    Box::pin(tokio::task::unconstrained(answer))
}

pub(crate) fn closed() -> Error {
    Error::Unavailable("the store was closed".into())
}

/// The pool of connections for everything but appends, leases and wake-ups, at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// The most connections that there may be.
    pub limit: usize,
    /// Connections that are open.
    pub open: usize,
    /// Open connections that no caller has.
    pub free: usize,
    /// Callers that wait for a connection.
    pub waiting: usize,
}

impl PostgresStore {
    /// The pool of connections at this moment.
    pub fn pool_state(&self) -> PoolState {
        self.inner.pool_state()
    }
}

/// A connection of the pool. Statements are prepared once per connection. One that is dropped
/// while an answer is awaited is closed: its next user would wait for that answer too.
pub(crate) struct Session {
    connection: Option<Object>,
    awaited: AtomicBool,
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.awaited.load(Ordering::Relaxed)
            && let Some(connection) = self.connection.take()
        {
            drop(Object::take(connection));
        }
    }
}

/// Notes that an answer is awaited until it is there.
async fn noted<T>(awaited: &AtomicBool, answer: impl Future<Output = T>) -> T {
    awaited.store(true, Ordering::Relaxed);
    let answer = answer.await;
    awaited.store(false, Ordering::Relaxed);
    answer
}

impl Session {
    fn new(connection: Object) -> Self {
        Self {
            connection: Some(connection),
            awaited: AtomicBool::new(false),
        }
    }

    fn connection(&self) -> &Object {
        let held = self.connection.as_ref();
        held.expect("a session has its connection until it is dropped")
    }

    pub(crate) async fn rows(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        noted(&self.awaited, async {
            let statement = self.connection().prepare_cached(sql).await?;
            Ok(self.connection().query(&statement, parameters).await?)
        })
        .await
    }

    pub(crate) async fn first(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Option<Row>, Fault> {
        Ok(self.rows(sql, parameters).await?.into_iter().next())
    }

    /// How many rows the statement changed.
    pub(crate) async fn execute(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<u64, Fault> {
        noted(&self.awaited, async {
            let statement = self.connection().prepare_cached(sql).await?;
            Ok(self.connection().execute(&statement, parameters).await?)
        })
        .await
    }

    pub(crate) async fn transaction(&mut self) -> Result<Work<'_>, Fault> {
        let Self {
            connection,
            awaited,
        } = self;
        let held = connection.as_mut();
        let held = held.expect("a session has its connection until it is dropped");
        let work = noted(awaited, held.transaction()).await?;
        Ok(Work { work, awaited })
    }
}

/// A transaction; without `commit` nothing of it happened.
pub(crate) struct Work<'a> {
    work: deadpool_postgres::Transaction<'a>,
    awaited: &'a AtomicBool,
}

impl Work<'_> {
    pub(crate) async fn rows(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        noted(self.awaited, async {
            let statement = self.work.prepare_cached(sql).await?;
            Ok(self.work.query(&statement, parameters).await?)
        })
        .await
    }

    pub(crate) async fn execute(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<u64, Fault> {
        noted(self.awaited, async {
            let statement = self.work.prepare_cached(sql).await?;
            Ok(self.work.execute(&statement, parameters).await?)
        })
        .await
    }

    pub(crate) async fn commit(self) -> Result<(), Fault> {
        Ok(noted(self.awaited, self.work.commit()).await?)
    }
}
