//! How an engine is put together before it runs: store, workflows, actions, options.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::defaults::Defaults;
use windlass_engine::{Action, Backend, Clock, Observer, Options, Registry, SecretSource};
use windlass_orchestrator::supervisor::LeaseOptions;
use windlass_store::{MemoryStore, Projections};
use windlass_store_embedded::{EmbeddedStore, Holder};

use super::publish::{check_actions, publish};
use super::tenant::Tenants;
use super::{Engine, Inner, OpenError, Recovery, actions, recover};
use crate::work::{Intercept, Registration};
use crate::workflow::Workflow;

/// Puts an engine together.
#[must_use = "a builder does nothing until it is opened"]
pub struct EngineBuilder {
    store: StoreLocation,
    workflows: Vec<Workflow>,
    registrations: Vec<Registration>,
    /// Registered last, in place of others of their names.
    replacements: Vec<Registration>,
    intercept: Option<Arc<dyn Intercept>>,
    options: Options,
    actions: windlass_actions::Options,
    recover: bool,
}

/// How often and how long a folder that this process itself holds is waited for: about a
/// second, which is plenty for actions that stop when they are asked to.
const OWN_TRIES: u32 = 50;
const OWN_WAIT: Duration = Duration::from_millis(20);

enum StoreLocation {
    Folder(PathBuf),
    Memory,
    #[cfg(feature = "postgres")]
    Database {
        url: String,
        /// How long a database that cannot be reached is waited for.
        wait: Duration,
    },
}

/// How often a database that cannot be reached is tried again.
#[cfg(feature = "postgres")]
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// A store that is open.
struct OpenedStore {
    backend: Arc<dyn Backend>,
    /// The tables behind the log of a database that several processes share.
    projections: Option<Arc<dyn Projections>>,
}

impl OpenedStore {
    fn alone(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            projections: None,
        }
    }
}

/// In a database, a node whose action this process lacks waits for one that has it.
const WAIT_FOR_ACTION: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl EngineBuilder {
    pub(super) fn embedded(folder: PathBuf) -> Self {
        Self::new(StoreLocation::Folder(folder))
    }

    pub(super) fn in_memory() -> Self {
        Self::new(StoreLocation::Memory)
    }

    #[cfg(feature = "postgres")]
    pub(super) fn postgres(url: String) -> Self {
        Self::new(StoreLocation::Database {
            url,
            wait: Duration::ZERO,
        })
    }

    fn new(store: StoreLocation) -> Self {
        Self {
            store,
            workflows: Vec::new(),
            registrations: Vec::new(),
            replacements: Vec::new(),
            intercept: None,
            options: Options::default(),
            actions: windlass_actions::Options::default(),
            recover: true,
        }
    }

    /// Registers a workflow and the functions it calls. Opening publishes it, and recovers its
    /// unfinished runs.
    pub fn workflow(mut self, workflow: &Workflow) -> Self {
        self.workflows.push(workflow.clone());
        self
    }

    /// Registers an action; a later one of the same name replaces it.
    pub fn action(mut self, action: impl Action) -> Self {
        self.registrations.push(Registration::new(action));
        self
    }

    /// What the actions that always exist may do: which private addresses `http.request`
    /// reaches, and whether `core.exec` exists.
    pub fn core_actions(mut self, options: windlass_actions::Options) -> Self {
        self.actions = options;
        self
    }

    /// How many actions run at once, over all runs.
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = workers;
        self
    }

    /// The labels of this process's workers: a node that `requires` another label waits until a
    /// process with that label acquires the run.
    pub fn worker_labels<L: Into<Box<str>>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.options.labels = labels.into_iter().collect();
        self
    }

    /// Treats every required label as present, for a rehearsal.
    pub(crate) fn with_every_label(mut self) -> Self {
        self.options.labels = windlass_orchestrator::Labels::All;
        self
    }

    /// How many nodes of one run go at once, where its definition does not say.
    pub fn max_parallel(mut self, nodes: u32) -> Self {
        self.options.max_parallel = nodes;
        self
    }

    /// Timeouts and a retry for definitions that name none, written into each run that starts.
    pub fn defaults(mut self, defaults: Defaults) -> Self {
        self.options.defaults = defaults;
        self
    }

    /// Shares a value with every action, one of each type: a connection pool, a client, the
    /// application's settings. [`Context::state`](crate::Context::state) finds it, and a function
    /// that takes a [`State`](crate::State) after its context is given it.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.options.state.insert(value);
        self
    }

    /// Where `secrets.NAME` in parameters comes from.
    pub fn secrets(mut self, secrets: impl SecretSource) -> Self {
        self.options.secrets = Arc::new(secrets);
        self
    }

    /// The observer of the engine.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.options.observer = Some(Arc::new(observer));
        self
    }

    /// Where time and randomness come from.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.options.clock = Arc::new(clock);
        self
    }

    /// How long opening waits for a database that cannot be reached; without this, not at all. What
    /// waiting does not help (a wrong password, a schema of another program) fails at once all the
    /// same. It means nothing for other stores.
    #[cfg(feature = "postgres")]
    pub fn wait_for_database(mut self, limit: Duration) -> Self {
        if let StoreLocation::Database { wait, .. } = &mut self.store {
            *wait = limit;
        }
        self
    }

    /// Whether opening recovers unfinished runs; it does by default.
    pub fn recover(mut self, recover: bool) -> Self {
        self.recover = recover;
        self
    }

    #[cfg(feature = "testing")]
    pub(crate) fn intercept(mut self, intercept: Arc<dyn Intercept>) -> Self {
        self.intercept = Some(intercept);
        self
    }

    #[cfg(feature = "testing")]
    pub(crate) fn replace(mut self, action: impl Action) -> Self {
        self.replacements.push(Registration::new(action));
        self
    }

    /// Opens the store, publishes the workflows, and recovers unfinished runs. It must be called
    /// inside a tokio runtime.
    ///
    /// # Errors
    /// The folder cannot be used, or a workflow names an action that is not registered.
    pub async fn open(self) -> Result<Engine, OpenError> {
        let store = open_store(&self.store).await?;
        let mut options = self.options.clone();
        let is_shared = store.projections.is_some();
        if is_shared {
            options.leases = Some(LeaseOptions::default());
            options.projections.clone_from(&store.projections);
            options.unknown_action_wait = WAIT_FOR_ACTION;
        }
        let registry = self.registry();
        let descriptions = registry.describe();
        let names = registry.names().map(Into::into).collect();
        let own = self.workflows.iter().map(|workflow| workflow.id().into());
        options.own_workflows = Some(Arc::new(own.collect()));
        for workflow in &self.workflows {
            for (node, strategy) in workflow.strategies() {
                let strategy = Arc::clone(strategy);
                options.strategies.insert(workflow.id(), node, strategy);
            }
        }
        let engine = windlass_engine::Engine::new(store.backend, registry, options).await;
        let mut workflows = BTreeMap::new();
        for workflow in &self.workflows {
            check_actions(workflow, &names)?;
            let published = publish(&engine, workflow, self.options.clock.now()).await?;
            if workflows.insert(workflow.id().into(), published).is_some() {
                return Err(OpenError::WorkflowTwice(workflow.id().into()));
            }
        }
        let recovery = match self.recover {
            // Runs are taken as the leases give them, and begun as they come.
            _ if is_shared => recover::serve(&engine).await?,
            true => recover::recover(&engine, &workflows, &names).await?,
            false => Recovery::default(),
        };
        let inner = Inner {
            engine,
            workflows,
            tenants: Tenants::default(),
            actions: names,
            descriptions,
            recovery,
        };
        Ok(Engine {
            inner: Arc::new(inner),
        })
    }

    fn registry(&self) -> Registry {
        let always = actions::always(&self.actions);
        let ours = self.workflows.iter().flat_map(Workflow::registrations);
        let all = always
            .iter()
            .chain(ours)
            .chain(&self.registrations)
            .chain(&self.replacements);
        let mut registry = Registry::new();
        for registration in all {
            registration.register(&mut registry, self.intercept.as_ref());
        }
        registry
    }
}

#[cfg(feature = "postgres")]
async fn open_database(url: &str, wait: Duration) -> Result<OpenedStore, OpenError> {
    use windlass_store_postgres::{OpenError as Refusal, PostgresStore, Settings};
    let failed = |error: Refusal| match error {
        Refusal::Away(error) | Refusal::Refused(error) => OpenError::Store(error),
    };
    let settings = Settings::parse(url).map_err(failed)?;
    let began = tokio::time::Instant::now();
    let store = loop {
        match PostgresStore::connect(&settings).await {
            Err(Refusal::Away(_)) if began.elapsed() < wait => {
                let left = wait.saturating_sub(began.elapsed());
                tokio::time::sleep(TRY_AGAIN.min(left)).await;
            }
            opened => break opened.map_err(failed)?,
        }
    };
    Ok(OpenedStore {
        projections: Some(Arc::new(store.clone())),
        backend: Arc::new(store),
    })
}

async fn open_store(place: &StoreLocation) -> Result<OpenedStore, OpenError> {
    let folder = match place {
        StoreLocation::Memory => return Ok(OpenedStore::alone(Arc::new(MemoryStore::new()))),
        #[cfg(feature = "postgres")]
        StoreLocation::Database { url, wait } => return open_database(url, *wait).await,
        StoreLocation::Folder(folder) => folder,
    };
    // An engine of this process that was shut down closes the folder when its last action has
    // ended.
    for _ in 0..OWN_TRIES {
        match open_folder(folder)? {
            Ok(store) => return Ok(OpenedStore::alone(store)),
            Err(holder) if holder.pid == std::process::id() => {
                tokio::time::sleep(OWN_WAIT).await;
            }
            Err(_) => break,
        }
    }
    let opened = open_folder(folder)?.map_err(|holder| OpenError::InUse {
        folder: folder.clone(),
        holder: holder.to_string(),
    });
    opened.map(OpenedStore::alone)
}

/// The store, or the process that holds its folder.
fn open_folder(folder: &Path) -> Result<Result<Arc<dyn Backend>, Holder>, OpenError> {
    let options = windlass_store_embedded::Options::default();
    let opened = EmbeddedStore::open(folder, options).map_err(OpenError::Store)?;
    Ok(match opened.store.holder() {
        Some(holder) => Err(holder),
        None => Ok(Arc::new(opened.store)),
    })
}
