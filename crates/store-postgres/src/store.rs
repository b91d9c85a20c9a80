//! The store as callers hold it: its connections, the threads that serve them, and how a call
//! gets a connection. The traits are implemented in the other files.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use deadpool_postgres::{Object, Pool};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use windlass_core::RunId;
use windlass_store::{Damage, Error, Pending, RunRow};

use crate::OpenError;
use crate::codec::{Columns as _, run_row};
use crate::connect::{Access, Kind};
use crate::error::Fault;
use crate::migrate::{self, Opened};
use crate::notify::Bells;
use crate::settings::Settings;
use crate::writer::Writers;

/// Damaged rows that are remembered until a caller asks.
const MOST_DAMAGE: usize = 1000;

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
    pub(crate) writers: Writers,
    pub(crate) bells: Bells,
    damaged: Mutex<Vec<Damage>>,
    // Last: what the tasks hold is dropped before their threads end.
    threads: Threads,
}

/// The threads that serve the connections. They are the store's own, so that a caller may block
/// on an answer wherever it runs.
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
        let opening = threads.spawn(open(settings.clone()));
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
                writers: parts.writers,
                bells: parts.bells,
                damaged: Mutex::default(),
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
        let inner = Arc::clone(&self.inner);
        self.task(async move {
            let session = inner.session().await?;
            drop(inner);
            work(session).await.map_err(Fault::into_error)
        })
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
        let inner = Arc::clone(&self.inner);
        self.task(async move {
            let mut tries = 0;
            loop {
                tries += 1;
                match work(inner.session().await?).await {
                    Err(fault) if fault.is_race() && tries < 8 => {}
                    answer => return answer.map_err(Fault::into_error),
                }
            }
        })
    }

    /// Lets a task of the store's threads answer.
    pub(crate) fn task<'a, T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Pending<'a, Result<T, Error>> {
        let task = self.inner.threads.spawn(work);
        blockable(async move {
            match task {
                None => Err(closed()),
                Some(task) => task.await.unwrap_or_else(|_| Err(closed())),
            }
        })
    }

    /// Rows of runs; those that cannot be read are left out and remembered.
    pub(crate) fn run_rows<'a>(
        &self,
        work: impl Future<Output = Result<Vec<Row>, Fault>> + Send + 'static,
    ) -> Pending<'a, Result<Vec<RunRow>, Error>> {
        let inner = Arc::clone(&self.inner);
        self.task(async move {
            let rows = work.await.map_err(Fault::into_error)?;
            Ok(inner.readable(&rows))
        })
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
        got.map(Session)
            .map_err(|error| self.access.without(&error))
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
    writers: Writers,
    bells: Bells,
}

async fn open(settings: Settings) -> Result<Parts, OpenError> {
    let access = Access::new(&settings)?;
    let opened = access.config.connect(access.tls.clone()).await;
    let (mut client, connection) = opened.map_err(|error| access.refusal(&error))?;
    let served = tokio::spawn(connection);
    let opened = migrate::open(&mut client, &access, &settings).await;
    drop(client);
    let _ = served.await;
    let opened = opened?;
    // The first writer shows that a connection with everything set on it can be made.
    let first = access.open(Kind::Writer).await.map_err(OpenError::Away)?;
    Ok(Parts {
        pool: access.pool(settings.pool)?,
        writers: Writers::start(&access, &settings, first),
        bells: Bells::start(&access, &settings.schema),
        opened,
        access,
    })
}

/// A future that a caller may block on wherever it runs. Inside a task, tokio lets what belongs to
/// it wait after some hundred answers until the task has yielded; a caller that blocks never does.
pub(crate) fn blockable<'a, T: 'a>(answer: impl Future<Output = T> + Send + 'a) -> Pending<'a, T> {
    Box::pin(tokio::task::unconstrained(answer))
}

pub(crate) fn closed() -> Error {
    Error::Unavailable("the store was closed".into())
}

/// A connection of the pool. Statements are prepared once per connection.
pub(crate) struct Session(Object);

impl Session {
    pub(crate) async fn rows(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        let statement = self.0.prepare_cached(sql).await?;
        Ok(self.0.query(&statement, parameters).await?)
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
        let statement = self.0.prepare_cached(sql).await?;
        Ok(self.0.execute(&statement, parameters).await?)
    }

    pub(crate) async fn transaction(&mut self) -> Result<Work<'_>, Fault> {
        Ok(Work(self.0.transaction().await?))
    }
}

/// A transaction; without `commit` nothing of it happened.
pub(crate) struct Work<'a>(deadpool_postgres::Transaction<'a>);

impl Work<'_> {
    pub(crate) async fn rows(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        let statement = self.0.prepare_cached(sql).await?;
        Ok(self.0.query(&statement, parameters).await?)
    }

    pub(crate) async fn execute(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<u64, Fault> {
        let statement = self.0.prepare_cached(sql).await?;
        Ok(self.0.execute(&statement, parameters).await?)
    }

    pub(crate) async fn commit(self) -> Result<(), Fault> {
        Ok(self.0.commit().await?)
    }
}
