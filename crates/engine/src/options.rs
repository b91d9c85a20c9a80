//! How an engine behaves.

use std::collections::BTreeSet;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::defaults::Defaults;
use windlass_core::run::Dispatch;
use windlass_orchestrator::Labels;
use windlass_orchestrator::supervisor::LeaseOptions;
use windlass_store::{Pending, Projections, Roles};

use crate::action::{RetryStrategies, SharedState};
use crate::clock::{Clock, SystemClock};
use crate::engine_event::EngineEvent;

/// How an engine behaves.
#[derive(Clone)]
pub struct Options {
    /// How many actions run at once, over all runs.
    pub workers: usize,
    /// How many threads evaluate expressions that take long.
    pub evaluators: usize,
    /// How many nodes of one run are with workers when its definition does not say.
    pub max_parallel: u32,
    /// Timeouts and a retry for definitions that name none, written into each run that starts.
    pub defaults: Defaults,
    /// The labels of this process's workers: a node that requires another label waits.
    pub labels: Labels,
    /// How long a node waits whose action neither this engine has nor any worker has declared,
    /// before it fails.
    pub unknown_action_wait: Duration,
    /// The workflows that this engine was opened with, where it was: a node of another published
    /// workflow whose action it does not have is left to an engine that has it, and does not fail.
    pub own_workflows: Option<Arc<BTreeSet<Box<str>>>>,
    /// For how many milliseconds after its last heartbeat a worker outside the process keeps a
    /// task.
    pub work_lease_ms: u64,
    /// This process, as attempts name it.
    pub worker_name: Arc<str>,
    /// Where secrets come from.
    pub secrets: Arc<dyn SecretSource>,
    /// Gets the events of the engine, if set.
    pub observer: Option<Arc<dyn Observer>>,
    /// Whether the observer makes spans of attempts. If so, actions pass on the span of their
    /// attempt; otherwise they pass on the trace context of the request that started the run.
    pub traces: bool,
    /// What this process does, where several share the store.
    pub roles: Roles,
    /// How long a process that stops waits for attempts that it pulled from the queue.
    pub drain: Duration,
    /// How leases are held, where several processes share the store; none for an engine that
    /// has its store to itself.
    pub leases: Option<LeaseOptions>,
    /// The tables that are written behind the log, where the store has some; an engine that
    /// serves takes its turn in writing them, and starts the runs that SQL asks for.
    pub projections: Option<Arc<dyn Projections>>,
    /// How often what crashes left in a store that several processes share is removed, by one of
    /// them.
    pub sweep_every: Duration,
    /// Time and randomness.
    pub clock: Arc<dyn Clock>,
    /// Values read again soon are kept in memory up to this many bytes.
    pub value_cache_bytes: usize,
    /// Plans are kept in memory up to about this many bytes.
    pub plan_cache_bytes: usize,
    /// A run that waits for longer than this, in milliseconds, leaves memory until then.
    pub keep_asleep_ms: u64,
    /// A log that has grown by this many bytes gets a checkpoint.
    pub checkpoint_bytes: usize,
    /// What the application shares with its actions.
    pub state: SharedState,
    /// Retry strategies of the application's own.
    pub strategies: RetryStrategies,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 1024,
            evaluators: default_evaluators(),
            max_parallel: 200,
            defaults: Defaults::default(),
            labels: Labels::default(),
            unknown_action_wait: Duration::ZERO,
            own_workflows: None,
            work_lease_ms: 9_000,
            worker_name: format!("local-{}", std::process::id()).into(),
            secrets: Arc::new(NoSecrets),
            observer: None,
            traces: false,
            roles: Roles::ALL,
            drain: Duration::ZERO,
            leases: None,
            projections: None,
            sweep_every: Duration::from_secs(24 * 3600),
            clock: Arc::new(SystemClock),
            value_cache_bytes: 4 * 1024 * 1024,
            keep_asleep_ms: 1000,
            checkpoint_bytes: 1024 * 1024,
            plan_cache_bytes: 256 * 1024 * 1024,
            state: SharedState::default(),
            strategies: RetryStrategies::default(),
        }
    }
}

impl Options {
    /// Whether an attempt with an unknown action is left to another engine. A graph of a run's own
    /// belongs to no engine.
    pub(crate) fn leaves_alone(&self, dispatch: &Dispatch) -> bool {
        let own = self.own_workflows.as_ref();
        dispatch.version != 0 && own.is_some_and(|own| !own.contains(&*dispatch.workflow))
    }
}

/// One core is left for everything else.
fn default_evaluators() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, Into::into);
    usize::max(1, cores - 1)
}

/// Where secrets come from. They exist only while parameters are rendered.
pub trait SecretSource: Send + Sync + 'static {
    /// The secret of this name, of runs without a tenant.
    fn secret(&self, name: &str) -> Option<String>;

    /// The secret of this name for a run of this tenant, or of none. Where tenants have secrets
    /// of their own, the tenant's are used; otherwise all tenants share the same secrets.
    ///
    /// # Errors
    /// The secret exists and cannot be read.
    fn secret_of(
        &self,
        tenant: Option<&str>,
        name: &str,
    ) -> Pending<'_, Result<Option<String>, SecretError>> {
        let _ = tenant;
        Box::pin(ready(Ok(self.secret(name))))
    }
}

/// Why an existing secret cannot be read. It reveals nothing of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretError {
    /// In words.
    pub message: Box<str>,
    /// Whether a later read may succeed.
    pub retriable: bool,
}

/// There are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

impl SecretSource for NoSecrets {
    fn secret(&self, _name: &str) -> Option<String> {
        None
    }
}

/// Watches an engine. Called on the engine's own task: it must be quick.
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn observe(&self, event: &EngineEvent<'_>);
}

/// Several observers, each notified in turn.
#[derive(Clone, Default)]
pub struct Observers(pub Vec<Arc<dyn Observer>>);

impl Observer for Observers {
    fn observe(&self, event: &EngineEvent<'_>) {
        for observer in &self.0 {
            observer.observe(event);
        }
    }
}
