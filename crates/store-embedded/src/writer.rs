//! The writer: takes all waiting jobs, executes them in one transaction, commits, and only
//! then completes the answers. There is no linger timer: the disk is the timer.
//!
//! It owns the only writing connection, and one thread uses it for all waiting jobs. A caller
//! with a single small job may use it itself while no other caller wants it, because on a fast
//! disk waking two threads costs as much as the sync. It does not know what jobs do.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use windlass_store::{Error, crash};

use crate::error::Fault;
use crate::journal::Journal;
use crate::log::Heads;
use crate::queue::Queue;
use crate::space::Space;

/// What a job sees while it executes, inside the transaction.
pub(crate) struct Session<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) heads: &'a mut Heads,
    /// The data directory.
    pub(crate) directory: &'a Path,
    /// Whether files are synced.
    pub(crate) durable: bool,
}

/// Something to execute in the writer's transaction.
pub(crate) trait WriteJob: Send {
    /// Does the work. May be called again after the transaction was rolled back.
    fn execute(&mut self, session: &mut Session<'_>) -> Result<(), Fault>;

    /// From now on, a failure in one part must not undo the others: called before the second
    /// try, in which the job is alone in its transaction.
    fn isolate(&mut self) {}

    /// Answers, once the fate of the transaction is known.
    fn finish(self: Box<Self>, outcome: Outcome);
}

/// The fate of a transaction.
#[derive(Clone)]
pub(crate) enum Outcome {
    /// Durable.
    Committed,
    /// Nothing was written.
    Undone(Error),
    /// The sync failed.
    Unknown(Error),
}

/// A job made of a closure with one result.
pub(crate) struct Task<F, T> {
    pub(crate) work: F,
    pub(crate) output: Option<T>,
    pub(crate) reply: crate::queue::Reply<Result<T, Error>>,
}

impl<F, T> WriteJob for Task<F, T>
where
    F: FnMut(&mut Session<'_>) -> Result<T, Fault> + Send,
    T: Send,
{
    fn execute(&mut self, session: &mut Session<'_>) -> Result<(), Fault> {
        self.output = Some((self.work)(session)?);
        Ok(())
    }

    fn finish(self: Box<Self>, outcome: Outcome) {
        let answer = match (outcome, self.output) {
            (Outcome::Committed, Some(output)) => Ok(output),
            (Outcome::Committed, None) => Err(stopped()),
            (Outcome::Undone(error) | Outcome::Unknown(error), _) => Err(error),
        };
        self.reply.send(answer);
    }
}

/// The callback that gets the duration of each commit.
pub(crate) type CommitCallback = Box<dyn Fn(Duration) + Send + Sync>;

/// The answer to a caller when the writer thread is gone.
pub(crate) fn stopped() -> Error {
    Error::Fatal("the writer has stopped".into())
}

/// The writer as the store sees it.
pub(crate) struct Handle {
    pub(crate) queue: Arc<Queue<Box<dyn WriteJob>>>,
    writer: Arc<Mutex<Writer>>,
    thread: Option<JoinHandle<()>>,
    failed: Arc<AtomicBool>,
    /// Whether writes fail for lack of space.
    pub(crate) space: Arc<Space>,
}

impl Handle {
    /// Starts the thread on a prepared connection; its first work may be a checkpoint.
    pub(crate) fn start(
        connection: Connection,
        journal: Journal,
        checkpoint: bool,
    ) -> Result<Self, Error> {
        let queue = Arc::new(Queue::new());
        let failed = Arc::new(AtomicBool::new(false));
        let space = Arc::new(Space::default());
        let writer = Arc::new(Mutex::new(Writer {
            connection,
            journal,
            heads: Heads::default(),
            fatal: None,
            failed: Arc::clone(&failed),
            usual: Duration::ZERO,
            told: None,
            space: Arc::clone(&space),
        }));
        let jobs = Arc::clone(&queue);
        let shared = Arc::clone(&writer);
        let thread = thread::Builder::new()
            .name("windlass-writer".into())
            .spawn(move || {
                let _close = CloseOnExit(&jobs);
                if checkpoint {
                    lock(&shared).checkpoint();
                }
                while let Some(jobs) = jobs.take() {
                    lock(&shared).run_once(jobs);
                }
            })
            .map_err(|error| Error::Unavailable(format!("no writer thread: {error}")))?;
        Ok(Self {
            queue,
            writer,
            thread: Some(thread),
            failed,
            space,
        })
    }

    /// Executes a job on the caller's thread. Gives it back if another caller writes or waits,
    /// so that they share a commit, or if the disk is too slow to wait for.
    pub(crate) fn try_here(&self, job: Box<dyn WriteJob>) -> Option<Box<dyn WriteJob>> {
        let Some(mut writer) = self.try_writer() else {
            return Some(job);
        };
        if writer.usual > WORTH_WAITING || writer.fatal.is_some() {
            return Some(job);
        }
        writer.commit(VecDeque::from([job]));
        let is_due = writer.journal.is_due();
        drop(writer);
        if is_due {
            // Maintenance takes long, and is the thread's work.
            self.queue.push_blocking(Box::new(Nothing));
        }
        None
    }

    /// The writer, if no other caller wants it. A caller that was just answered is often a
    /// moment faster than the thread that answered it, so it spins for that moment.
    fn try_writer(&self) -> Option<MutexGuard<'_, Writer>> {
        let deadline = Instant::now() + ABOUT_TO_LEAVE;
        while self.queue.is_empty() {
            match self.writer.try_lock() {
                Ok(writer) => return Some(writer),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::hint::spin_loop();
                }
                Err(TryLockError::WouldBlock) => return None,
            }
        }
        None
    }

    /// Calls `told` with the duration of each later commit.
    pub(crate) fn on_commit(&self, told: CommitCallback) {
        lock(&self.writer).told = Some(told);
    }

    /// Ends writing: what waits and what comes is refused, and the database is closed.
    pub(crate) fn close(&self) {
        let mut writer = lock(&self.writer);
        if writer.fatal.is_some() {
            return;
        }
        writer.journal.leave_mark();
        writer.fatal = Some(Error::Unavailable("the store was closed".to_owned()));
        if let Ok(nothing) = Connection::open_in_memory() {
            writer.connection = nothing;
        }
    }

    /// Whether a sync failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A waker may drop the last handle on the writer's own thread.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
        // Not after a failed sync: then it is not known what is durable.
        if let Ok(mut writer) = self.writer.try_lock()
            && writer.fatal.is_none()
        {
            writer.journal.leave_mark();
        }
    }
}

/// However the thread ends, no caller waits for it afterwards.
struct CloseOnExit<'a>(&'a Queue<Box<dyn WriteJob>>);

impl Drop for CloseOnExit<'_> {
    fn drop(&mut self) {
        self.0.close();
        while let Some(abandoned) = self.0.take() {
            drop(abandoned);
        }
    }
}

/// A commit that usually takes longer than this is left to the thread.
const WORTH_WAITING: Duration = Duration::from_micros(500);

/// How long the thread takes from its answer to being done.
const ABOUT_TO_LEAVE: Duration = Duration::from_micros(20);

/// Nothing to write: after it the thread tends the journal.
struct Nothing;

impl WriteJob for Nothing {
    fn execute(&mut self, _: &mut Session<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn finish(self: Box<Self>, _: Outcome) {}
}

/// A panic while it was held leaves nothing half done: the transaction is rolled back
/// before the next begins.
fn lock(writer: &Mutex<Writer>) -> MutexGuard<'_, Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Writer {
    connection: Connection,
    journal: Journal,
    heads: Heads,
    /// Set by the first failed sync: nothing is accepted after it.
    fatal: Option<Error>,
    failed: Arc<AtomicBool>,
    /// How long a commit has taken lately.
    usual: Duration,
    /// The callback that gets the duration of each commit.
    told: Option<CommitCallback>,
    space: Arc<Space>,
}

impl Writer {
    fn run_once(&mut self, jobs: VecDeque<Box<dyn WriteJob>>) {
        self.commit(jobs);
        if self.fatal.is_none() {
            let tended = self.journal.tend(&self.connection);
            self.note(tended);
        }
    }

    fn commit(&mut self, mut jobs: VecDeque<Box<dyn WriteJob>>) {
        if let Some(error) = &self.fatal {
            return finish(jobs, &Outcome::Undone(error.clone()));
        }
        let begun = Instant::now();
        match self.attempt(jobs.make_contiguous()) {
            Outcome::Committed => finish(jobs, &Outcome::Committed),
            Outcome::Unknown(error) => finish(jobs, &Outcome::Unknown(error)),
            Outcome::Undone(_) => self.one_by_one(jobs),
        }
        let took = begun.elapsed();
        self.usual = (self.usual * 7 + took) / 8;
        if let Some(told) = &self.told {
            told(took);
        }
    }

    fn checkpoint(&mut self) {
        let done = self.journal.checkpoint(&self.connection, false);
        self.note(done);
    }

    /// Failed maintenance is tried again later, unless a sync failed.
    fn note(&mut self, result: Result<(), Error>) {
        if let Err(error @ Error::Fatal(_)) = result {
            self.fail(error);
        }
    }

    /// Gives each job of a transaction that was rolled back one of its own: a damaged page, or
    /// a record too large for the disk, must not refuse the other jobs.
    fn one_by_one(&mut self, jobs: VecDeque<Box<dyn WriteJob>>) {
        for mut job in jobs {
            if let Some(error) = &self.fatal {
                job.finish(Outcome::Undone(error.clone()));
                continue;
            }
            job.isolate();
            let outcome = self.attempt(std::slice::from_mut(&mut job));
            job.finish(outcome);
        }
    }

    fn attempt(&mut self, jobs: &mut [Box<dyn WriteJob>]) -> Outcome {
        let error = match self.transact(jobs) {
            Ok(()) => return Outcome::Committed,
            Err(fault) => fault.into_error(),
        };
        // The heads in memory are ahead of what was rolled back.
        self.heads.clear();
        if !self.connection.is_autocommit() {
            // If even this fails, the next BEGIN fails too and says why.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        match error {
            Error::Fatal(_) => {
                self.fail(error.clone());
                Outcome::Unknown(error)
            }
            other => Outcome::Undone(self.with_space(other)),
        }
    }

    /// SQLite does not say why it could not write, unless the disk is full: the user's quota
    /// may be used up, or the file may not get longer.
    fn with_space(&self, error: Error) -> Error {
        let error = match error {
            Error::Unavailable(_) => self.journal.lacks_space().unwrap_or(error),
            other => other,
        };
        if matches!(error, Error::Full(_)) {
            self.space.refused_commit();
        }
        error
    }

    fn transact(&mut self, jobs: &mut [Box<dyn WriteJob>]) -> Result<(), Fault> {
        let connection = &self.connection;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut session = Session {
            connection,
            heads: &mut self.heads,
            directory: self.journal.directory(),
            durable: self.journal.is_durable(),
        };
        for job in jobs {
            job.execute(&mut session)?;
        }
        crash::point("before-commit");
        crash::during("in-commit");
        connection.prepare_cached("COMMIT")?.execute([])?;
        crash::point("after-commit");
        // Before the answers: the mark covers everything that the answers confirm.
        self.journal.acknowledge();
        Ok(())
    }

    fn fail(&mut self, error: Error) {
        self.failed.store(true, Ordering::Release);
        self.fatal = Some(error);
    }
}

fn finish(jobs: VecDeque<Box<dyn WriteJob>>, outcome: &Outcome) {
    for job in jobs {
        job.finish(outcome.clone());
    }
}
