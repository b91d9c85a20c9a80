//! Executes runs in this process: an engine on the data directory it holds, with signals, progress,
//! and a socket for other processes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, watch};
use windlass_api::{App, Host};
use windlass_core::{RunId, RunStatus};
use windlass_engine::{Backend, Engine, Options};
use windlass_service::secrets::SecretKeys;
use windlass_store::RunFilter;

use crate::ending;
use crate::event_fanout::EventFanout;
use crate::exit::{Exit, Failure};
use crate::foreground::WaitOptions;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::registry::registry_for;
use crate::secrets;
use crate::session::Session;
use crate::socket::{self, SocketHost};

/// How many queued runs of others this process executes at once: a bound on memory, not on their
/// number.
const QUEUED_AT_ONCE: usize = 64;

/// Unfinished runs beyond this many are not counted.
const COUNTED: usize = 1000;

/// Waiting longer than this is worth a line.
const SHORT: Duration = Duration::from_millis(100);

/// How long actions that do not notice the end may hold it up.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How long cancelled children may take to stop: their grace, and a little.
const STOPPING: Duration = Duration::from_secs(12);

/// Between two looks at a child that stops.
const A_MOMENT: Duration = Duration::from_millis(10);

/// An engine on a data directory that this process holds.
#[derive(Clone)]
pub(crate) struct LocalEngine {
    pub(crate) engine: Engine,
    pub(crate) event_fanout: Arc<EventFanout>,
    pub(crate) interrupt: Interrupt,
    /// Whether the runs that no process executes have been looked at.
    looked: watch::Receiver<bool>,
    queries: Arc<watch::Sender<bool>>,
}

/// How the wait for the end of a run was over.
pub(crate) enum Ending {
    Ended(RunStatus),
    Interrupted,
    TimedOut,
}

/// Does some work with an engine, and ends it cleanly.
pub(crate) fn with_engine(
    session: &Session,
    max_parallel: Option<u32>,
    work: impl AsyncFnOnce(&LocalEngine) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Storage, "RUNTIME_FAILED", error))?;
    let result = runtime.block_on(async {
        let interrupt = Interrupt::listen()?;
        let event_fanout = Arc::new(EventFanout::default());
        let keys = secrets::keys(&session.settings)?;
        let options = options(session, max_parallel, &event_fanout, &keys);
        let registry = registry_for(&session.settings);
        let backend: Arc<dyn Backend> = std::sync::Arc::clone(&session.store);
        let engine = Engine::new(backend, registry, options).await;
        let host = LocalEngine::of(engine, interrupt, event_fanout);
        let socket = listen(session, &host, keys)?;
        let result = work(&host).await;
        // The engine stops after the commands are answered: otherwise they would get its
        // refusals as answers.
        if let Some(socket) = socket {
            socket.close().await;
        }
        host.engine.shutdown().await;
        result
    });
    runtime.shutdown_timeout(LAST_WORDS);
    result
}

/// Lets other processes act on the data directory through this one, if they can reach it.
fn listen(
    session: &Session,
    host: &LocalEngine,
    keys: Arc<SecretKeys>,
) -> Result<Option<SocketHost>, Failure> {
    let directory = session.directory()?.clone();
    let place = directory.directory().to_owned();
    let settings = session.settings.clone();
    let engine = host.engine.clone();
    let host = Arc::new(host.clone());
    let app = move || {
        let engine = host.engine.clone();
        let registry = registry_for(&settings);
        App::new(
            engine,
            socket::app_options(directory, &registry, keys, host),
        )
    };
    match SocketHost::listen(&place, &engine, app) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) => {
            let output = session.settings.output;
            output.say(&format!(
                "warning: other processes cannot act on this data directory meanwhile: {error}"
            ));
            Ok(None)
        }
    }
}

fn options(
    session: &Session,
    max_parallel: Option<u32>,
    event_fanout: &Arc<EventFanout>,
    keys: &Arc<SecretKeys>,
) -> Options {
    let settings = &session.settings;
    let mut options = Options {
        secrets: secrets::source(session, keys),
        observer: Some(Arc::clone(event_fanout) as _),
        labels: settings.worker_labels.clone(),
        defaults: settings.defaults.clone(),
        ..Options::default()
    };
    if let Some(workers) = settings.workers {
        options.workers = workers as usize;
    }
    if let Some(bound) = max_parallel.or(settings.max_parallel) {
        options.max_parallel = bound;
        options.workers = options.workers.min(bound as usize);
    }
    options
}

impl Host for LocalEngine {
    fn started(&self, run: RunId) -> BoxFuture<'_, Result<(), windlass_service::Failure>> {
        Box::pin(async move {
            self.engine.recover(run).await?;
            self.watch_over(run);
            Ok(())
        })
    }

    fn run_continues(&self, run: RunId) {
        self.watch_over(run);
    }
}

impl LocalEngine {
    /// Wraps an engine that the caller made.
    pub(crate) fn of(engine: Engine, interrupt: Interrupt, event_fanout: Arc<EventFanout>) -> Self {
        let (queries, looked) = watch::channel(true);
        Self {
            engine,
            event_fanout,
            interrupt,
            looked,
            queries: Arc::new(queries),
        }
    }

    /// Waits for the end of a run, an interrupt, or a moment.
    pub(crate) async fn wait(&self, run: RunId, until: Option<Instant>) -> Result<Ending, Failure> {
        let time = async {
            match until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            status = self.engine.wait(run) => match status {
                Ok(status) => Ok(Ending::Ended(status)),
                Err(error) => Err(Failure::from(error).hint(format!(
                    "what was acknowledged is safe; `windlass resume {run}` continues it"
                ))),
            },
            () = self.interrupt.asked() => Ok(Ending::Interrupted),
            () = time => Ok(Ending::TimedOut),
        }
    }

    /// Waits for the end of the process's own run and prints it, then waits for the
    /// other runs that this process executes.
    pub(crate) async fn to_the_end(
        &self,
        session: &Session,
        run: RunId,
        progress: &Progress,
        options: WaitOptions,
    ) -> Result<Exit, Failure> {
        let ending = self.wait(run, options.until).await;
        progress.finish(match &ending {
            Ok(Ending::Ended(status)) => Some(*status),
            _ => None,
        });
        self.event_fanout.unfollow();
        let output = session.settings.output;
        match ending? {
            Ending::Ended(status) => {
                windlass_store::crash::point("before-print");
                ending::print(session, self.engine.plans(), run, options)?;
                self.children_stop(run).await;
                if !self.alone(session, Some(run)).await {
                    return Ok(Exit::Interrupted);
                }
                Ok(status.into())
            }
            Ending::Interrupted => {
                let message = format!("interrupted; the run is safe: windlass resume {run}");
                output.left(Exit::Interrupted, &message)
            }
            Ending::TimedOut => {
                let message =
                    format!("the run has not ended in time; it is safe: windlass resume {run}");
                output.left(Exit::TimedOut, &message)
            }
        }
    }

    /// Waits until the children of an ended run have ended: they have been asked to stop, and after
    /// this process exits no other would bring them to their end.
    async fn children_stop(&self, run: RunId) {
        let stopping = async {
            self.engine.child_jobs_idle().await;
            let mut parents = vec![run];
            while let Some(parent) = parents.pop() {
                while let Some(child) = self.open_child(parent).await {
                    // A child that sleeps must be woken first, to get the command.
                    let _ = self.engine.wait(child).await;
                    tokio::time::sleep(A_MOMENT).await;
                    if !parents.contains(&child) {
                        parents.push(child);
                    }
                }
            }
        };
        tokio::select! {
            () = stopping => {}
            () = tokio::time::sleep(STOPPING) => {}
            () = self.interrupt.asked() => {}
        }
    }

    async fn open_child(&self, parent: RunId) -> Option<RunId> {
        let filter = RunFilter {
            parent: Some(parent),
            statuses: vec![RunStatus::Pending, RunStatus::Running, RunStatus::Paused],
            limit: 1,
            ..RunFilter::default()
        };
        let page = self.engine.store().runs(&filter).await.ok()?;
        page.rows.first().map(|row| row.run)
    }

    /// Waits for the other runs that this process executes; `false` if interrupted.
    pub(crate) async fn alone(&self, session: &Session, own: Option<RunId>) -> bool {
        if let Some(own) = own {
            self.event_fanout.remove_other(own);
        }
        let rest = async {
            let mut looked = self.looked.clone();
            // The sender lives as long as this.
            let _ = looked.wait_for(|looked| *looked).await;
            self.event_fanout.alone().await;
        };
        tokio::pin!(rest);
        if tokio::time::timeout(SHORT, &mut rest).await.is_ok() {
            return true;
        }
        let count = self.event_fanout.others();
        let (runs, verb) = if count == 1 {
            ("run", "goes")
        } else {
            ("runs", "go")
        };
        session.settings.output.say(&format!(
            "waiting for {count} other {runs} that {verb} on in this process; \
             Ctrl-C leaves what is unfinished safe for `windlass resume`"
        ));
        tokio::select! {
            () = rest => true,
            () = self.interrupt.asked() => false,
        }
    }

    /// Recovers the runs that wait for the end of this one, beside it.
    pub(crate) async fn recover_parents(
        &self,
        session: &Session,
        run: RunId,
    ) -> Result<(), Failure> {
        let mut row = session.store.run(run).await?;
        while let Some(parent) = row.and_then(|row| row.parent) {
            row = session.store.run(parent).await?;
            if row
                .as_ref()
                .is_some_and(|row| row.status == RunStatus::Running)
            {
                self.engine.recover(parent).await?;
                self.watch_over(parent);
            }
        }
        Ok(())
    }

    /// Counts a run as active beside the process's own, until this process stops executing it.
    pub(crate) fn watch_over(&self, run: RunId) {
        self.event_fanout.add_other(run);
        let host = self.clone();
        tokio::spawn(async move {
            // However it ends, this process stops executing it.
            let _ = host.engine.wait(run).await;
            host.event_fanout.remove_other(run);
        });
    }

    /// Looks for runs that no process executes: queued ones begin in the background, the number of
    /// the others is printed.
    pub(crate) fn look_around(&self, session: &Session, own: Option<RunId>) {
        let (host, store) = (self.clone(), session.store.clone());
        let output = session.settings.output;
        self.queries.send_replace(false);
        tokio::spawn(async move {
            let slots = Arc::new(Semaphore::new(QUEUED_AT_ONCE));
            let (mut after, mut waiting) = (None, 0);
            // A store that cannot be read fails the own run as well, which reports it.
            while let Ok(page) = store.unfinished(after, 256).await {
                let Some(last) = page.last() else { break };
                after = Some(last.run);
                for row in page {
                    if Some(row.run) == own {
                        continue;
                    }
                    match row.status {
                        RunStatus::Pending => host.begin_queued(row.run, &slots).await,
                        // The engine wakes it when its time has come.
                        _ if row.asleep && row.status == RunStatus::Running => {}
                        // Its parent starts it, or this process executes it already.
                        _ if row.parent.is_some()
                            || host.engine.is_acquired_or_asleep(row.run).await => {}
                        _ => waiting += 1,
                    }
                }
                if waiting > COUNTED {
                    break;
                }
            }
            host.queries.send_replace(true);
            if waiting > 0 {
                let (runs, verb) = if waiting == 1 {
                    ("run", "is")
                } else {
                    ("runs", "are")
                };
                let more = if waiting > COUNTED { "more than " } else { "" };
                let count = waiting.min(COUNTED);
                output.say(&format!(
                    "note: {more}{count} unfinished {runs} here {verb} not executed; \
                     `windlass runs` lists them, `windlass resume RUN` continues one"
                ));
            }
        });
    }

    async fn begin_queued(&self, run: RunId, slots: &Arc<Semaphore>) {
        let Ok(slot) = Arc::clone(slots).acquire_owned().await else {
            return;
        };
        self.event_fanout.add_other(run);
        let host = self.clone();
        tokio::spawn(async move {
            // A run that cannot be read stays queued; `windlass show` says why.
            if host.engine.recover(run).await.is_ok() {
                let _ = host.engine.wait(run).await;
            }
            host.event_fanout.remove_other(run);
            drop(slot);
        });
    }
}
