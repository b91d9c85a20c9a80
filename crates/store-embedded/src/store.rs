//! The store's handle: opening it, and the contract's traits over the files beside this one.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::runtime::Handle as Runtime;
use windlass_core::{Digest, Millis, RunId};
use windlass_store::{
    Append, AppendError, Appended, Blob, Blobs, Checkpoint, Compacted, Damage, Error, Head, Health,
    Log, Partition, Partitions, Pending, Queries, Record, Relatives, ResourceRow, RunFilter,
    RunPage, RunRow, StatusCounts, TenantFilter, Wait as _, may_block,
};

use crate::connect::{self, Layout};
use crate::damaged::DamagedRows;
use crate::error::Fault;
use crate::files::{FileWork, Files};
use crate::held::Holds;
use crate::lock::{Holder, Lock, Taken};
use crate::log::AppendJob;
use crate::pack::Packer;
use crate::read::Leftovers;
use crate::reader::Readers;
use crate::space::Space;
use crate::wal::TornTail;
use crate::writer::{Handle, Session, Task, WriteJob, stopped};
use crate::{blob, checkpoint, claim, log, migrate, page, private, query, queue, read, wal};

/// How to open a data directory.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Make the directory and the database if they are missing.
    pub create: bool,
    /// Take the lock if it is free. Without this, the store only reads, and leaves the lock to
    /// a process that wants to write.
    pub exclusive: bool,
    /// Sync every commit. Only tests may do without.
    pub durable: bool,
    /// A list or a search that takes longer is given up with [`Error::Timeout`].
    pub query_timeout: Duration,
    /// Open a directory that a migration has not completed, to go on with it.
    pub migrating: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            create: true,
            exclusive: true,
            durable: true,
            query_timeout: QUERY_TIMEOUT,
            migrating: false,
        }
    }
}

/// How long a list or a search may take by default.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);

/// An opened data directory.
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub store: EmbeddedStore,
    /// Whether the database was made now.
    pub created: bool,
    /// Commits found in the write-ahead log, which the last session had not copied into
    /// the database; after a crash as after an ordinary end.
    pub replayed: u64,
}

/// The embedded store. Cloning gives another handle; the last one dropped closes it.
#[derive(Clone)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
}

/// Fields are dropped in order: the threads end before the lock is given back.
struct Shared {
    directory: PathBuf,
    durable: bool,
    packer: OnceLock<Packer>,
    files: OnceLock<Files>,
    writer: Option<Handle>,
    readers: Arc<Readers>,
    leftovers: Leftovers,
    holds: Holds,
    damaged_rows: Arc<DamagedRows>,
    coordinator: windlass_store::LocalCoordinator,
    /// Whether the sizes of pools were read into the coordinator.
    pools_read: std::sync::atomic::AtomicBool,
    /// How many backups need the files of values to stay.
    backups: AtomicUsize,
    holder: Option<Holder>,
    torn: Option<TornTail>,
    lock: Mutex<Option<Lock>>,
}

impl Shared {
    /// A store that only reads.
    fn reading(layout: &Layout, readers: Readers) -> Self {
        Self {
            directory: layout.directory.clone(),
            durable: true,
            packer: OnceLock::new(),
            files: OnceLock::new(),
            writer: None,
            readers: Arc::new(readers),
            leftovers: Leftovers::default(),
            holds: Holds::default(),
            damaged_rows: Arc::default(),
            coordinator: windlass_store::LocalCoordinator::under_lock(),
            pools_read: std::sync::atomic::AtomicBool::new(false),
            backups: AtomicUsize::new(0),
            holder: None,
            torn: None,
            lock: Mutex::default(),
        }
    }
}

impl EmbeddedStore {
    /// Opens a data directory; see [`Options`].
    ///
    /// If another process holds the lock, the store can be read, and every write is refused
    /// with the holder's name. Damage, a newer version and a foreign file are refused here,
    /// and nothing is changed.
    pub fn open(directory: &Path, options: Options) -> Result<Opened, Error> {
        if !options.migrating {
            crate::transfer::refuse_incomplete(directory)?;
        }
        connect::prepare_directory(directory, options.create && options.exclusive)?;
        let layout = Layout::of(directory);
        if !options.create && !layout.database.exists() {
            return Err(connect::missing(directory));
        }
        if !options.exclusive {
            return Self::open_reading(&layout, options, Lock::holder(directory));
        }
        match Lock::take(directory)? {
            Taken::Theirs(holder) => Self::open_reading(&layout, options, Some(holder)),
            Taken::Ours(lock) => Self::open_writing(&layout, options, lock),
        }
    }

    fn open_writing(layout: &Layout, options: Options, lock: Lock) -> Result<Opened, Error> {
        private::tighten_data_directory(&layout.directory);
        let created = !layout.database.exists();
        if created {
            connect::create_database(layout, options.durable)?;
        }
        let scan = connect::check_log(layout)?;
        connect::check_header(layout, scan)?;
        let readers = Readers::new(&layout.database, options.query_timeout);
        let writer = connect::start_writer(layout, scan, readers.gate(), options.durable)?;
        let shared = Shared {
            durable: options.durable,
            writer: Some(writer),
            torn: scan.torn_tail(),
            lock: Mutex::new(Some(lock)),
            ..Shared::reading(layout, readers)
        };
        crate::files::remove_unfinished(&layout.directory);
        let store = Self {
            shared: Arc::new(shared),
        };
        store.release_all();
        Ok(Opened {
            store,
            created,
            replayed: scan.commits,
        })
    }

    fn open_reading(
        layout: &Layout,
        options: Options,
        holder: Option<Holder>,
    ) -> Result<Opened, Error> {
        if holder.is_some() {
            wait_for_maker(layout);
        }
        if !layout.database.exists() {
            return Err(match holder {
                Some(holder) => Error::Unavailable(format!("{holder} is making it")),
                None => connect::missing(&layout.directory),
            });
        }
        // While another process writes, the log's end changes; that process has checked the
        // log.
        let mut torn = None;
        if holder.is_none() {
            match connect::look_at_log(layout) {
                _ if Lock::holder(&layout.directory).is_some() => {}
                Ok(scan) => torn = scan.torn_tail(),
                Err(error) => return Err(error),
            }
        }
        let readers = Readers::new(&layout.database, options.query_timeout);
        readers
            .read(connect::check_versions)
            .map_err(Fault::into_error)?;
        modernise(layout, &readers)?;
        let shared = Shared {
            holder,
            torn,
            ..Shared::reading(layout, readers)
        };
        Ok(Opened {
            store: Self {
                shared: Arc::new(shared),
            },
            created: false,
            replayed: 0,
        })
    }

    /// Ends writing and gives the directory's lock back; reads still work.
    fn release_lock(&self) {
        if let Some(writer) = &self.shared.writer {
            writer.close();
        }
        let lock = &self.shared.lock;
        let mut lock = lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(lock.take());
    }

    /// Whether this process holds the lock and may write.
    pub fn is_holder(&self) -> bool {
        self.shared.writer.is_some()
    }

    /// The other process that held the lock when this store was opened.
    pub fn holder(&self) -> Option<Holder> {
        self.shared.holder.clone()
    }

    /// The unfinished end of the write-ahead log that opening this store skipped, if there was
    /// one.
    pub fn torn_tail(&self) -> Option<TornTail> {
        self.shared.torn
    }

    /// The data directory.
    pub fn directory(&self) -> &Path {
        &self.shared.directory
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.shared.readers
    }

    /// Calls `told` with the duration of each later commit, on the thread that made it. A
    /// store that only reads makes no commits.
    pub fn on_commit(&self, told: impl Fn(Duration) + Send + Sync + 'static) {
        if let Some(writer) = &self.shared.writer {
            writer.on_commit(Box::new(told));
        }
    }

    pub(crate) fn shared_readers(&self) -> Arc<Readers> {
        Arc::clone(&self.shared.readers)
    }

    /// While this is held, no file of a value is removed in this process.
    pub(crate) fn keep_files(&self) -> impl Drop + '_ {
        struct KeepFiles<'a>(&'a AtomicUsize);
        impl Drop for KeepFiles<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.shared.backups.fetch_add(1, Ordering::AcqRel);
        KeepFiles(&self.shared.backups)
    }

    /// Whether a backup keeps files from being removed.
    pub(crate) fn keeps_files(&self) -> bool {
        self.shared.backups.load(Ordering::Acquire) > 0
    }

    pub(crate) fn leftovers(&self) -> &Leftovers {
        &self.shared.leftovers
    }

    pub(crate) fn holds(&self) -> &Holds {
        &self.shared.holds
    }

    pub(crate) fn damage_log(&self) -> &DamagedRows {
        &self.shared.damaged_rows
    }

    pub(crate) fn pools_read(&self) -> &std::sync::atomic::AtomicBool {
        &self.shared.pools_read
    }

    pub(crate) fn coordinator(&self) -> &windlass_store::LocalCoordinator {
        &self.shared.coordinator
    }

    fn writer(&self) -> Result<&Handle, Error> {
        self.shared.writer.as_ref().ok_or_else(|| {
            Error::Unavailable(match &self.shared.holder {
                Some(holder) => format!("the data directory is in use by {holder}"),
                None => "the data directory was opened for reading".into(),
            })
        })
    }

    /// The thread that packs logs, started by the first of them.
    fn packer(&self) -> Result<&Packer, Error> {
        let writer = Arc::clone(&self.writer()?.queue);
        let start = || Packer::start(Arc::clone(&self.shared.readers), writer);
        Ok(self.shared.packer.get_or_init(start))
    }

    /// The thread that writes large values, started by the first of them.
    pub(crate) fn files(&self) -> &Files {
        self.shared.files.get_or_init(|| {
            let space = self.shared.writer.as_ref();
            let space = space.map(|writer| Arc::clone(&writer.space));
            Files::start(&self.shared.directory, self.shared.durable, space)
        })
    }

    /// Queues work for the writer, after the files that it refers to.
    fn submit<T: Send + 'static>(
        &self,
        first: Option<FileWork>,
        small: bool,
        job: impl FnOnce(queue::Reply<T>) -> Box<dyn WriteJob>,
    ) -> Result<impl Future<Output = Option<T>> + Send + 'static, Error> {
        let writer = self.writer()?;
        let Some(work) = first else {
            let shortcut = |job| {
                if small {
                    writer.try_here(job)
                } else {
                    Some(job)
                }
            };
            return Ok(Either::Left(queue::submit(&writer.queue, job, shortcut)));
        };
        let next = Arc::clone(&writer.queue);
        Ok(Either::Right(self.files().submit(work, next, job)))
    }

    /// The answer of [`Queries::health`]; if the disk was full, it tries to write again.
    fn check_health(&self) -> Result<Health, Error> {
        if self.shared.writer.as_ref().is_some_and(Handle::has_failed) {
            return Err(stopped());
        }
        if let Some(writer) = &self.shared.writer {
            let commit = || self.task(None, Space::touch).wait();
            writer
                .space
                .look(&self.shared.directory, Instant::now(), commit)?;
        }
        self.readers().query(|connection| {
            let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
            let log = Layout::of(&self.shared.directory).log;
            let fact = |name: &str, value: String| (name.to_owned(), value);
            Ok(Health {
                facts: vec![
                    fact("store", "embedded".into()),
                    fact("directory", self.shared.directory.display().to_string()),
                    fact("sqlite", rusqlite::version().into()),
                    fact("schema", connect::SCHEMA_VERSION.to_string()),
                    fact("writable", self.is_holder().to_string()),
                    fact("bytes", (pages * wal::PAGE as i64).to_string()),
                    fact("journal", log.metadata().map_or(0, |m| m.len()).to_string()),
                ],
            })
        })
    }

    /// A list or a search.
    pub(crate) fn list<T: Send + 'static>(
        &self,
        work: impl Fn(&Connection, &DamagedRows) -> Result<T, Fault> + Send + 'static,
    ) -> Pending<'static, Result<T, Error>> {
        let (readers, damaged_rows) = (
            Arc::clone(&self.shared.readers),
            Arc::clone(&self.shared.damaged_rows),
        );
        blocking(move || readers.query(|connection| work(connection, &damaged_rows)))
    }

    /// A job for the writer, after the files that it refers to.
    pub(crate) fn task<T: Send + 'static>(
        &self,
        first: Option<FileWork>,
        work: impl FnMut(&mut Session<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Pending<'static, Result<T, Error>> {
        let submitted = self.submit(first, false, |reply| {
            Box::new(Task {
                work,
                output: None,
                reply,
            })
        });
        Box::pin(async move {
            match submitted?.await {
                Some(answer) => answer,
                None => Err(stopped()),
            }
        })
    }
}

/// Work that may take long: a runtime's thread leaves it to a thread that may block.
pub(crate) fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Pending<'static, Result<T, Error>> {
    Box::pin(async move {
        match Runtime::try_current() {
            Ok(runtime) if !may_block() => match runtime.spawn_blocking(work).await {
                Ok(answer) => answer,
                Err(error) => Err(Error::Unavailable(format!("the query ended: {error}"))),
            },
            _ => work(),
        }
    })
}

/// What appends release at gates and of pools; nothing where runs have neither, and no gates for
/// an engine that has its store to itself.
fn releases(batch: &[Append]) -> Vec<Releases> {
    let named = batch.iter().enumerate();
    let named = named.filter(|(_, append)| !append.releases.is_empty() || !append.slots.is_empty());
    named
        .map(|(place, append)| Releases {
            place,
            run: append.run,
            gates: append.releases.clone(),
            slots: append.slots.clone(),
        })
        .collect()
}

/// What an append releases.
struct Releases {
    /// Its place in the batch.
    place: usize,
    run: RunId,
    gates: Vec<Box<str>>,
    /// Attempts, by instance and number.
    slots: Vec<(u32, u32)>,
}

/// The one partition of a data directory: the process that holds the directory holds it.
pub(crate) const PARTITION: Partition = Partition(0);

/// The answer for other partitions, which have nothing.
pub(crate) fn nothing<'a, T: Default + Send + 'a>() -> Pending<'a, Result<T, Error>> {
    answer(|| Ok(T::default()))
}

/// The answer to a small read, which is done before the method returns.
pub(crate) fn answer<'a, T: Send + 'a>(
    read: impl FnOnce() -> Result<T, Error>,
) -> Pending<'a, Result<T, Error>> {
    Box::pin(ready(read()))
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore")
            .field("directory", &self.shared.directory)
            .field("is_holder", &self.is_holder())
            .finish()
    }
}

/// Brings an older database to the present schema, for a store that only reads. Only a writer
/// can do that, so it takes the lock for a moment.
fn modernise(layout: &Layout, readers: &Readers) -> Result<(), Error> {
    let version = readers
        .read(|connection| Ok(migrate::version(connection)?))
        .map_err(Fault::into_error)?;
    if version >= connect::SCHEMA_VERSION {
        return Ok(());
    }
    match Lock::take(&layout.directory)? {
        Taken::Ours(_lock) => connect::migrate_only(layout),
        Taken::Theirs(holder) => Err(Error::Unavailable(format!(
            "the data directory has schema version {version} and is in use by {holder}, \
             which is an older version of this program"
        ))),
    }
}

/// Writes large values, if there are any.
pub(crate) fn write_large(large: Vec<Blob>) -> Option<FileWork> {
    if large.is_empty() {
        return None;
    }
    Some(Box::new(move |directory, durable| {
        large
            .iter()
            .try_for_each(|blob| blob::write_file(directory, blob, durable))
    }))
}

/// Waits for the process that holds the lock of a directory without a database: it is creating
/// the database.
fn wait_for_maker(layout: &Layout) {
    let deadline = Instant::now() + MAKING_TAKES;
    while !layout.database.exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How long making a database may take on a slow disk.
const MAKING_TAKES: Duration = Duration::from_secs(5);

/// A record up to this size may be committed on its caller's thread: a step or two of a chain.
/// With more under way, the caller can do other work meanwhile.
const SMALL_RECORD: usize = 2 << 10;

impl Log for EmbeddedStore {
    fn close(&self) {
        self.release_lock();
    }

    fn append(&self, batch: Vec<Append>) -> Pending<'_, Vec<Result<Appended, AppendError>>> {
        let count = batch.len();
        let blobs = batch.iter().flat_map(|append| &append.blobs);
        let large = blobs.filter(|blob| blob::is_large(blob)).cloned().collect();
        // Alone and small: waking the writer and being woken again would cost as much as the
        // commit.
        let small = matches!(&*batch, [only] if only.record.len() <= SMALL_RECORD);
        let first = write_large(large);
        let released = releases(&batch);
        let submitted = self.submit(first, small, |reply| Box::new(AppendJob::new(batch, reply)));
        Box::pin(async move {
            let answers = match submitted {
                Ok(submitted) => submitted.await.unwrap_or_else(|| log::abandoned(count)),
                Err(error) => log::refuse_all(count, &AppendError::Failed(error)),
            };
            for released in released {
                if answers.get(released.place).is_some_and(Result::is_ok) {
                    let run = released.run;
                    self.coordinator().release_places(run, &released.gates);
                    self.coordinator().release_slots(run, &released.slots);
                }
            }
            answers
        })
    }

    fn head(&self, run: RunId) -> Pending<'_, Result<Head, Error>> {
        answer(|| {
            let found = self
                .readers()
                .read(|connection| read::locate(connection, run));
            let found = found.map_err(|fault| fault.about(run))?;
            Ok(found.map_or(Head::NONE, |(_, head)| head))
        })
    }

    fn read(
        &self,
        run: RunId,
        from: u64,
        max_bytes: usize,
    ) -> Pending<'_, Result<Vec<Record>, Error>> {
        answer(|| {
            let leftovers = Some(&self.shared.leftovers);
            self.readers()
                .read(|connection| read::read(connection, run, from, max_bytes, leftovers))
                .map_err(|fault| fault.about(run))
        })
    }

    fn claimed(&self, namespace: &str, key: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        answer(|| {
            self.readers()
                .read(|connection| claim::value(connection, namespace, key))
                .map_err(Fault::into_error)
        })
    }

    fn put_checkpoint(&self, run: RunId, checkpoint: Checkpoint) -> Pending<'_, Result<(), Error>> {
        let head = checkpoint.head;
        let large = checkpoint::is_large(&checkpoint);
        let (work, small): (Option<FileWork>, _) = if large {
            let write = move |directory: &Path, durable| {
                checkpoint::write_file(directory, run, &checkpoint, durable)
            };
            (Some(Box::new(write)), None)
        } else {
            (None, Some(checkpoint.bytes))
        };
        let stored = self.task(work, move |session| {
            checkpoint::put(session.connection, run, &head, small.as_deref())
        });
        Box::pin(async move {
            let was_large = stored.await?;
            if large || was_large {
                self.files().later(Box::new(move |directory, _| {
                    checkpoint::remove_older(directory, run, head.sequence, large);
                    Ok(())
                }));
            }
            Ok(())
        })
    }

    fn checkpoint(&self, run: RunId) -> Pending<'_, Result<Option<Checkpoint>, Error>> {
        answer(|| {
            self.readers()
                .read(|connection| checkpoint::read(connection, &self.shared.directory, run))
                .map_err(|fault| fault.about(run))
        })
    }

    fn compact(&self, run: RunId, through: u64) -> Pending<'_, Result<Compacted, Error>> {
        let submitted = self.packer().map(|packer| packer.submit(run, through));
        Box::pin(async move { submitted?.await.unwrap_or_else(|| Err(stopped())) })
    }
}

impl Blobs for EmbeddedStore {
    fn put_blob(&self, blob: Blob) -> Pending<'_, Result<(), Error>> {
        let large = Some(blob.clone()).filter(blob::is_large);
        self.task(write_large(Vec::from_iter(large)), move |session| {
            blob::insert(session, std::slice::from_ref(&blob))
        })
    }

    fn hold_blob(&self, blob: Blob) -> Pending<'_, Result<(), Error>> {
        Box::pin(self.hold(blob))
    }

    fn blob(&self, digest: &Digest) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        let found = self
            .readers()
            .read(|connection| blob::row(connection, digest));
        let small = match found {
            Ok(None) => return answer(|| Ok(None)),
            Ok(Some(small)) => small,
            Err(fault) => return answer(|| Err(fault.into_error())),
        };
        if let Some(bytes) = small {
            return answer(|| blob::checked(digest, bytes).map(Some));
        }
        // A file takes long to read and to check.
        let (readers, digest) = (Arc::clone(&self.shared.readers), *digest);
        let directory = self.shared.directory.clone();
        blocking(move || {
            let read = readers.read(|connection| blob::read(connection, &directory, &digest));
            read.map_err(Fault::into_error)
        })
    }
}

impl Queries for EmbeddedStore {
    fn damaged_rows(&self) -> Vec<Damage> {
        self.damage_log().take()
    }

    fn run(&self, run: RunId) -> Pending<'_, Result<Option<RunRow>, Error>> {
        answer(|| {
            self.readers()
                .read(|connection| log::row(connection, run))
                .map_err(|fault| fault.about(run))
        })
    }

    fn runs(&self, filter: &RunFilter) -> Pending<'_, Result<RunPage, Error>> {
        let filter = filter.clone();
        self.list(move |connection, damaged_rows| page::runs(connection, damaged_rows, &filter))
    }

    fn count_runs(
        &self,
        tenant: &TenantFilter,
        moments: &[Millis],
    ) -> Pending<'_, Result<Vec<StatusCounts>, Error>> {
        let (tenant, moments) = (tenant.clone(), moments.to_vec());
        self.list(move |connection, _| query::count(connection, &tenant, &moments))
    }

    fn runs_with_prefix(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        let prefix = prefix.to_owned();
        self.list(move |connection, _| query::with_prefix(connection, &prefix, limit))
    }

    fn unfinished(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        self.list(move |connection, damaged_rows| {
            let sleeping = [false, true];
            query::unfinished(connection, damaged_rows, after, limit, &sleeping)
        })
    }

    fn awake(&self, after: Option<RunId>, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        self.list(move |connection, damaged_rows| {
            query::unfinished(connection, damaged_rows, after, limit, &[false])
        })
    }

    fn due(
        &self,
        partitions: &Partitions,
        after: Option<(Millis, RunId)>,
        until: Millis,
        limit: usize,
    ) -> Pending<'_, Result<Vec<(RunId, Millis)>, Error>> {
        if !partitions.contains(PARTITION) {
            return nothing();
        }
        self.list(move |connection, _| query::due(connection, after, until, limit))
    }

    fn children(&self, parent: RunId) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        self.list(move |connection, damaged_rows| query::children(connection, damaged_rows, parent))
    }

    fn relatives(&self, runs: &[RunId]) -> Pending<'_, Result<Vec<Relatives>, Error>> {
        let runs = runs.to_vec();
        self.list(move |connection, _| query::relatives(connection, &runs))
    }

    fn resources(&self, run: RunId) -> Pending<'_, Result<Vec<ResourceRow>, Error>> {
        self.list(move |connection, _| query::resources(connection, run))
    }

    fn resource(
        &self,
        tenant: Option<&str>,
        system: &str,
        kind: &str,
        id: &str,
    ) -> Pending<'_, Result<Option<ResourceRow>, Error>> {
        answer(|| {
            self.readers()
                .query(|connection| query::resource(connection, tenant, system, kind, id))
        })
    }

    fn replace_rows(
        &self,
        rows: Vec<(RunRow, Vec<ResourceRow>)>,
    ) -> Pending<'_, Result<(), Error>> {
        self.task(None, move |session| query::replace(session, &rows))
    }

    fn logged_runs(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        self.list(move |connection, _| query::logged(connection, after, limit))
    }

    fn health(&self) -> Pending<'_, Result<Health, Error>> {
        let store = self.clone();
        blocking(move || store.check_health())
    }
}

/// One of two futures with the same answer.
enum Either<L, R> {
    Left(L),
    Right(R),
}

impl<L, R> Future for Either<L, R>
where
    L: Future + Unpin,
    R: Future<Output = L::Output> + Unpin,
{
    type Output = L::Output;

    fn poll(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<L::Output> {
        match self.get_mut() {
            Self::Left(left) => std::pin::Pin::new(left).poll(context),
            Self::Right(right) => std::pin::Pin::new(right).poll(context),
        }
    }
}
