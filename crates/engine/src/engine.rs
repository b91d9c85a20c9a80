//! The handle of an engine: start, wait, command, recover, stop.

use std::sync::{Arc, OnceLock};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_core::concurrency::StartFacts;
use windlass_core::defaults::Defaults;
use windlass_core::event::ConcurrencyKey;
use windlass_core::run::Input as RunInput;
use windlass_core::{Millis, RunId, RunStatus};
use windlass_orchestrator::supervisor::{GateTable, LeaseOptions};
use windlass_orchestrator::{AcquireMode, Shard, ShardInput};
use windlass_store::{Bell, Error, Role, RunRow, WriterId, crash};

use crate::Backend;
use crate::acquire::AcquireOptions;
use crate::action::Registry;
use crate::at_work::AttemptsAtWork;
use crate::child_coordinator::{ChildCoordinator, PendingJobs};
use crate::clock::Clock;
use crate::cluster::called_here;
use crate::command::CommandError;
use crate::crash_isolation::IsolationLimits;
use crate::driver::{CommandReply, Driver, Message, StartAnswer};
use crate::engine_event::EngineEvent;
use crate::enqueue::Enqueuer;
use crate::evaluators::Evaluators;
use crate::gates::Gates;
use crate::limits::limits;
use crate::load::{LoadError, LoadedRun, load_latest};
use crate::options::Options;
use crate::ownership::{Owned, ring};
use crate::payload::check_payload_off_thread;
use crate::plans::Plans;
use crate::remote::watch_deadlines;
use crate::shared::Shared;
use crate::start::{Begin, NewRun, PreparedStart, StartError, Started};
use crate::values::ValueReader;
use crate::waker::wake_all;
use crate::watched::{LOOK, RunWaiter, Watch};
use crate::worker::Workers;
use crate::worker_slots::WorkerSlots;

/// Messages that wait for the driver: enough that a full pool of workers can report
/// without waiting for each other.
const MESSAGE_QUEUE: usize = 8192;

/// How many runs the engine acquires at once.
const ACQUIRING_LANES: usize = 64;

/// How many runs recovery looks at together.
const RECOVERY_PAGE: usize = 256;

/// A running engine. Cloning it is cheap; [`Engine::shutdown`] ends it for all clones.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    store: Arc<dyn Backend>,
    plans: Plans,
    values: ValueReader,
    options: Options,
    /// The bound on actions under way.
    slots: Arc<WorkerSlots>,
    evaluators: Arc<Evaluators>,
    /// What rendering and reporting an attempt needs.
    workers: Arc<Workers>,
    messages: mpsc::Sender<Message>,
    shutdown: CancellationToken,
    driver: tokio::sync::Mutex<Option<JoinHandle<usize>>>,
    clock: Arc<dyn Clock>,
    /// What runs have to tell each other.
    busy: Arc<PendingJobs>,
    /// Held while a run is acquired, from reading it to handing it to the driver; runs share lanes.
    acquiring: Vec<tokio::sync::Mutex<()>>,
    shared: Arc<Shared>,
    enqueuer: Enqueuer,
    /// Who writes the records of runs.
    writer: WriterId,
    /// When the engine began.
    started: Millis,
    /// Ends what waits for deadlines of workers outside the process.
    _gone: DropGuard,
    /// Set while the engine serves.
    crash_limits: OnceLock<IsolationLimits>,
    /// Why the active runs of the gates are unknown, if the store could not count them.
    gates_unknown: Option<Error>,
}

/// What recovery found.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Runs that the engine acquired, and executes.
    pub recovered: Vec<RunId>,
    /// Runs that are paused, and stay so.
    pub paused: Vec<RunId>,
    /// Runs that cannot be read, each with its reason; the others are not held up.
    pub quarantined: Vec<(RunId, String)>,
    /// Runs that went to the dead letters, each with its reason.
    pub dead_lettered: Vec<(RunId, String)>,
    /// Runs that may have crashed their process, and wait before they are tried again.
    pub waiting: Vec<RunId>,
}

impl Engine {
    /// Starts an engine on a store. It must be called inside a tokio runtime.
    pub async fn new(store: Arc<dyn Backend>, registry: Registry, options: Options) -> Self {
        let values = ValueReader::new(Arc::clone(&store), options.value_cache_bytes);
        let defaults = windlass_orchestrator::Options::default();
        let writer = WriterId(options.clock.random_u64());
        let enqueue_writer = WriterId(options.clock.random_u64());
        let shard = Shard::new(windlass_orchestrator::Options {
            writer,
            max_parallel: options.max_parallel,
            keep_asleep_ms: options.keep_asleep_ms,
            checkpoint_bytes: options.checkpoint_bytes,
            labels: options.labels.clone(),
            local_actions: Some(Arc::new(called_here(&registry, &options))),
            queues_unlabelled: options.leases.is_some(),
            worker: Arc::clone(&options.worker_name),
            limits: limits().values,
            shared_gates: options.leases.is_some(),
            seed: options.clock.random_u64(),
            still_running_ms: crash::setting("WINDLASS_STILL_RUNNING_MS")
                .unwrap_or(defaults.still_running_ms),
            ..defaults
        });
        let (messages, inbox) = mpsc::channel(MESSAGE_QUEUE);
        let slots = Arc::new(WorkerSlots::new(options.workers.max(1)));
        let evaluators = Arc::new(Evaluators::new(options.evaluators));
        let plans = Plans::new(options.plan_cache_bytes);
        let workers = Arc::new(Workers {
            store: Arc::clone(&store),
            plans: plans.clone(),
            at_work: AttemptsAtWork::default(),
            registry,
            values: values.clone(),
            slots: Arc::clone(&slots),
            evaluators: Arc::clone(&evaluators),
            options: options.clone(),
        });
        let shutdown = CancellationToken::new();
        let (sleepers, asleep) = mpsc::unbounded_channel();
        let busy = Arc::new(PendingJobs::default());
        // Before any run is executed here, so that each record counts once.
        let (gates, gates_unknown) = match options.leases {
            Some(_) => (GateTable::in_store(), None),
            None => match store.gates().await {
                Ok(counts) => (GateTable::new(counts), None),
                Err(error) => (GateTable::default(), Some(error)),
            },
        };
        let shared = Arc::new(Shared::new(
            Gates::new(gates),
            Owned::new(options.leases.map(|leases| LeaseOptions {
                owns: leases.owns && options.roles.has(Role::Orchestrator),
                ..leases
            })),
            options.observer.clone(),
        ));
        let gone = CancellationToken::new();
        let started = options.clock.now();
        let inner = Arc::new_cyclic(|engine| {
            let watching = watch_deadlines(engine.clone(), Arc::clone(&shared), gone.clone());
            tokio::spawn(watching);
            let coordinator = ChildCoordinator::start(engine, &busy);
            let driver = Driver::new(
                shard,
                Arc::clone(&workers),
                inbox,
                messages.clone(),
                &shared,
            );
            let driver = driver.with_others(coordinator, sleepers);
            let driver = tokio::spawn(driver.run(shutdown.clone()));
            Inner {
                store,
                plans,
                values,
                slots,
                evaluators,
                workers,
                clock: Arc::clone(&options.clock),
                options,
                messages,
                shutdown,
                driver: tokio::sync::Mutex::new(Some(driver)),
                busy,
                acquiring: (0..ACQUIRING_LANES).map(|_| Default::default()).collect(),
                shared,
                enqueuer: Enqueuer::start(engine, enqueue_writer),
                writer,
                started,
                crash_limits: OnceLock::new(),
                _gone: gone.drop_guard(),
                gates_unknown,
            }
        });
        tokio::spawn(wake_all(Arc::downgrade(&inner), asleep));
        Self { inner }
    }

    pub(crate) fn of(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    pub(crate) fn enqueuer(&self) -> &Enqueuer {
        &self.inner.enqueuer
    }

    pub(crate) fn workers(&self) -> &Arc<Workers> {
        &self.inner.workers
    }

    pub(crate) fn writer(&self) -> WriterId {
        self.inner.writer
    }

    /// Whether the engine stops, or has.
    pub fn is_stopping(&self) -> bool {
        self.inner.shutdown.is_cancelled()
    }

    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.inner.shutdown.clone()
    }

    pub(crate) fn crash_limits(&self) -> Option<IsolationLimits> {
        self.inner.crash_limits.get().copied()
    }

    pub(crate) fn set_crash_limits(&self, limits: IsolationLimits) {
        // They are set once, when the engine begins to serve.
        let _ = self.inner.crash_limits.set(limits);
    }

    pub(crate) fn started(&self) -> Millis {
        self.inner.started
    }

    pub(crate) fn gates_known(&self) -> Result<(), Error> {
        self.inner.gates_unknown.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn new_run_id(&self) -> RunId {
        self.inner.clock.new_run_id()
    }

    pub(crate) fn busy(&self) -> &PendingJobs {
        &self.inner.busy
    }

    /// Resolves when the engine stops.
    pub async fn stopped(&self) {
        self.inner.shutdown.cancelled().await;
    }

    /// What the configuration gives to each run where its definition says nothing.
    pub fn defaults(&self) -> &Defaults {
        &self.options().defaults
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    /// How many actions run now.
    pub fn running_actions(&self) -> usize {
        let workers = self.inner.options.workers.max(1);
        workers.saturating_sub(self.inner.slots.free())
    }

    pub(crate) fn now(&self) -> Millis {
        self.inner.clock.now()
    }

    /// How many runs are in memory.
    pub async fn held(&self) -> usize {
        self.ask(Message::Count).await.unwrap_or(0)
    }

    /// What is held while a run is acquired.
    pub(crate) fn acquiring(&self, run: RunId) -> &tokio::sync::Mutex<()> {
        &self.inner.acquiring[usize::from(run.as_bytes()[15]) % ACQUIRING_LANES]
    }

    pub(crate) async fn send(&self, input: ShardInput) {
        self.tell(Message::Input(input)).await;
    }

    pub(crate) async fn tell(&self, message: Message) {
        // The driver is gone only when the engine is.
        let _ = self.inner.messages.send(message).await;
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Backend> {
        &self.inner.store
    }

    /// The plans in memory.
    pub fn plans(&self) -> &Plans {
        &self.inner.plans
    }

    /// Reads stored values.
    pub fn values(&self) -> &ValueReader {
        &self.inner.values
    }

    async fn gate_of(
        &self,
        run: RunId,
        new: &NewRun,
    ) -> Result<Option<ConcurrencyKey>, StartError> {
        let asked = StartFacts {
            run,
            workflow: new.plan.workflow(),
            version: new.version,
            trigger: &new.request.trigger,
            vars: &new.own_vars(),
        };
        let concurrency = new.plan.concurrency();
        self.gate(concurrency, new.request.tenant.as_deref(), &asked)
            .await
    }

    /// Threads for evaluations that take long.
    pub(crate) fn evaluators(&self) -> &Evaluators {
        &self.inner.evaluators
    }

    /// Starts a run. On return its first record is durable.
    ///
    /// # Errors
    /// The trigger does not fit, the request id was used otherwise, or the store failed.
    pub async fn start(&self, new: &NewRun) -> Result<Started, StartError> {
        new.check_names()?;
        let schemas = new.plan.trigger_schema().map(str::to_owned);
        check_payload_off_thread(
            new.request.tenant.as_deref(),
            new.request.trigger.as_str().into(),
            schemas.into_iter().collect(),
        )
        .await?;
        let run = new
            .run
            .unwrap_or_else(|| self.inner.options.clock.new_run_id());
        let mut prepared = new.prepare(run, self.gate_of(run, new).await?)?;
        let partition = self.partition_for(run, new).await?;
        prepared.queued.partition = partition.0;
        prepared.queued.defaults = self.options().defaults.some();
        if !self.shared().owned.holds(partition) {
            // Its owner begins it.
            return self.file(run, prepared, &new.request).await;
        }
        let PreparedStart {
            queued,
            blobs,
            claims,
        } = prepared;
        let start = windlass_orchestrator::Start {
            run,
            plan: Arc::clone(&new.plan),
            queued,
            blobs,
            claims,
            begin: new.begin,
            reused: new.reused.clone(),
        };
        let answer = self
            .ask(|reply| Message::Start(Box::new(start), reply))
            .await;
        match answer.ok_or(StartError::Stopped)? {
            StartAnswer::Accepted => {
                if new.begin == Begin::Later {
                    self.wait_in_queue(run, new);
                }
                Ok(Started {
                    run,
                    existing: false,
                })
            }
            StartAnswer::Held(value) => self.existing(&value, &new.request).await,
            StartAnswer::Broken(error) => Err(StartError::Store(error)),
        }
    }

    /// Announces a run that was only queued: it waits for the process that serves.
    fn wait_in_queue(&self, run: RunId, new: &NewRun) {
        self.shared().observe(&EngineEvent::Queued {
            run,
            tenant: new.request.tenant.as_deref(),
            workflow: new.plan.workflow(),
        });
        self.shared()
            .arrived(new.request.tenant.clone(), new.request.priority);
    }

    /// Waits until a run has ended, or this engine does not execute it.
    ///
    /// # Errors
    /// The store failed, or the run belongs to another process now.
    pub async fn wait(&self, run: RunId) -> Result<RunStatus, Error> {
        if !self.shared().owned.is_shared() {
            return self.wait_here(run).await;
        }
        let (mut watch, waiter) = (Watch::new(run), RunWaiter::new(self.shared(), run));
        loop {
            if let Some(status) = self.wait_acquired(run, &waiter).await {
                return Ok(status);
            }
            let changed = waiter.changed();
            let row = self.store().run(run).await?;
            let row = row.ok_or_else(|| Error::NotFound(run.to_string()))?;
            if row.status.is_final() {
                return Ok(row.status);
            }
            let look = watch.begin(self, waiter.is_answered()).await;
            let waiting = async {
                if self.shared().owned.holds(row.partition) && self.is_acquired_or_asleep(run).await
                {
                    self.wait_here(run).await.ok()
                } else {
                    std::future::pending().await
                }
            };
            tokio::select! {
                // A run that this process no longer has is looked at again.
                ended = waiting => if let Some(status) = ended.filter(|it| it.is_final()) {
                    return Ok(status);
                },
                () = changed => {}
                () = self.stopped() => return Ok(row.status),
                () = tokio::time::sleep(look) => {}
            }
        }
    }

    /// The end of a run that this engine executes, without a look at its row: that costs a
    /// question to the store, and on NATS waits for the database to follow the log.
    async fn wait_acquired(&self, run: RunId, waiter: &RunWaiter) -> Option<RunStatus> {
        let changed = waiter.changed();
        if self.ask(|reply| Message::Has(run, reply)).await != Some(true) {
            return None;
        }
        tokio::select! {
            biased;
            ended = self.wait_here(run) => ended.ok().filter(|it| it.is_final()),
            () = changed => None,
            () = self.stopped() => None,
            // It may have another owner by now of which this engine has not heard.
            () = tokio::time::sleep(LOOK) => None,
        }
    }

    async fn wait_here(&self, run: RunId) -> Result<RunStatus, Error> {
        let stopped = || Error::Unavailable("the engine has stopped".to_owned());
        let answer = self
            .ask(|reply| Message::Wait(run, reply))
            .await
            .ok_or_else(stopped)??;
        match answer {
            Some(status) => Ok(status),
            None => {
                let row = self.inner.store.run(run).await?;
                row.map(|row| row.status)
                    .ok_or_else(|| Error::NotFound(run.to_string()))
            }
        }
    }

    /// Asks something of a run that is answered: a command, a newer version to follow, the end
    /// of its parent's time. On return the record is durable.
    ///
    /// # Errors
    /// The run cannot be read, or its state does not allow it.
    pub(crate) async fn submit(&self, run: RunId, input: RunInput) -> Result<(), CommandError> {
        self.submit_item(run, input, None).await
    }

    /// The same for an item of the inbox, which the record consumes.
    pub(crate) async fn submit_item(
        &self,
        run: RunId,
        input: RunInput,
        item: Option<&str>,
    ) -> Result<(), CommandError> {
        // An input that makes a run continue also acquires it, with everything that was open.
        let (mode, reopens) = match &input {
            RunInput::Command(asked) if asked.command.continues_run() => {
                (AcquireMode::RECOVER, asked.command.reopens())
            }
            _ => (AcquireMode::ForCommand, false),
        };
        let newest = match reopens && self.has_ended(run).await {
            true => self.newest_once_open(run).await,
            false => None,
        };
        // What needs no more than the run in memory finds it there, mostly.
        let mut acquires = mode != AcquireMode::ForCommand;
        loop {
            if acquires {
                let acquiring = self.acquire(run, AcquireOptions::for_command(mode));
                acquiring.await.map_err(CommandError::Load)?;
            }
            acquires = true;
            let asked = self.ask(|reply| Message::Command {
                run,
                input: input.clone(),
                item: item.map(Into::into),
                reply,
            });
            let answer = match newest.clone() {
                // In one message: a run that had ended and could not follow is acquired here,
                // and might have ended again before a second message.
                Some(newest) => {
                    let follow = self.ask(|reply| Message::command(run, newest, reply));
                    tokio::join!(asked, follow).0
                }
                None => asked.await,
            };
            match answer.ok_or(CommandError::Stopped)? {
                CommandReply::Decided(Ok(())) => return Ok(()),
                CommandReply::Decided(Err(refusal)) => {
                    return Err(self.refused(run, refusal).await);
                }
                CommandReply::Failed(error) => {
                    return Err(CommandError::Load(LoadError::Store(error)));
                }
                // It is not in memory, went to sleep, or ended in between.
                CommandReply::NotHere => {}
            }
        }
    }

    /// Recovers one unfinished run. A run that has ended is left alone, and so is one that waits to
    /// begin while this engine serves: it keeps its place in the queue.
    ///
    /// # Errors
    /// The run cannot be read.
    pub async fn recover(&self, run: RunId) -> Result<(), LoadError> {
        let serving = self.shared().is_serving();
        // A child begins with its parent, which waits for it.
        let is_queued = |row: &RunRow| row.status == RunStatus::Pending && row.parent.is_none();
        let row = self.inner.store.run(run).await?;
        if let Some(row) = &row {
            if row.status.is_final() || (serving && is_queued(row)) {
                return Ok(());
            }
            if !self.shared().owned.holds(row.partition) {
                // Its owner executes it; if it has not found the run yet, it looks now.
                ring(Arc::clone(self.store()), Bell::Partition(row.partition));
                return Ok(());
            }
        }
        self.begin(run).await
    }

    /// Recovers a run, or begins it: its turn has come.
    pub(crate) async fn begin(&self, run: RunId) -> Result<(), LoadError> {
        self.acquire(run, AcquireOptions::recover(AcquireMode::RECOVER))
            .await
    }

    /// Acquires a run that slept.
    pub(crate) async fn wake(&self, run: RunId) -> Result<(), LoadError> {
        self.acquire(run, AcquireOptions::recover(AcquireMode::Wake))
            .await
    }

    /// Recovers every run that has not ended; those that sleep are woken at their time.
    ///
    /// # Errors
    /// The list of runs cannot be read; a run that cannot be is quarantined instead.
    pub async fn recover_all(&self) -> Result<Recovery, Error> {
        let mut recovery = Recovery::default();
        let mut after = None;
        loop {
            let page = self.inner.store.awake(after, RECOVERY_PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(recovery);
            };
            after = Some(last.run);
            for row in page.into_iter().filter(|row| !row.dead) {
                match self.recover(row.run).await {
                    Ok(()) if row.status == RunStatus::Paused => recovery.paused.push(row.run),
                    Ok(()) => recovery.recovered.push(row.run),
                    Err(error) => recovery.quarantined.push((row.run, error.to_string())),
                }
            }
        }
    }

    /// Reads a run back from its log.
    ///
    /// # Errors
    /// There is no such run, or it cannot be read.
    pub fn load(&self, run: RunId) -> Result<LoadedRun, LoadError> {
        load_latest(&*self.inner.store, &self.inner.plans, run)
    }

    /// Stops: waits for appends in flight, and leaves open attempts to the next process. Among
    /// several processes it first hands its partitions over and gives the attempts that its
    /// workers have begun the time that [`Options::drain`] names.
    pub async fn shutdown(&self) {
        if self.shared().owned.is_shared() {
            let since = self.begin_leaving();
            self.hand_over_partitions().await;
            let within = self.options().drain.saturating_sub(since.elapsed());
            let work = &self.shared().remote.shared;
            work.drain(&**self.store(), within).await;
        }
        self.shared().owned.stop().await;
        self.inner.shutdown.cancel();
        if let Some(driver) = self.inner.driver.lock().await.take() {
            // A driver that panicked has nothing left to wait for, and did not stop well.
            if let Ok(left) = driver.await {
                self.record_clean_shutdown(left).await;
            }
        }
    }

    pub(crate) async fn ask<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<T>) -> Message,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.inner.messages.send(message(reply)).await.ok()?;
        tokio::select! {
            answer = answer => answer.ok(),
            () = self.inner.shutdown.cancelled() => None,
        }
    }
}
