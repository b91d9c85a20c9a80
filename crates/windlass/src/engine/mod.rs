//! The engine as library users hold it: workflows and actions registered, runs started, found,
//! recovered.
//!
//! It wires `windlass_engine` to a store and to what the builder makes; it decides nothing
//! about runs itself.

mod actions;
mod builder;
mod error;
mod publish;
mod recover;
mod request;
mod tenant;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use windlass_core::RunId;
use windlass_engine::action::Description;
use windlass_service::RunQueries;
use windlass_store::{RunFilter, RunPage};

pub use builder::EngineBuilder;
pub use error::{OpenError, StartError};
use publish::Published;
pub use recover::Recovery;
pub use request::{Request, Startable};

use crate::run::{ReadError, RunHandle};

/// A running engine. Cloning is cheap; [`Engine::shutdown`] ends it for all clones.
///
/// ```
/// use windlass::{Context, Engine, Workflow};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = Workflow::builder("sum")
///     .step("add", |_: Context, numbers: Vec<i64>| async move {
///         Ok(numbers.iter().sum::<i64>())
///     })
///     .build()?;
/// let engine = Engine::in_memory().workflow(&workflow).open().await?;
/// let output = engine.run(&workflow, [1, 2, 3]).await?;
/// assert_eq!(output, 6);
/// engine.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    engine: windlass_engine::Engine,
    /// Workflows that were registered, by id.
    workflows: BTreeMap<Box<str>, Published>,
    tenants: tenant::Tenants,
    actions: BTreeSet<Box<str>>,
    descriptions: Vec<Description>,
    recovery: Recovery,
}

impl Engine {
    /// An engine whose runs are durable in a folder of this machine. One process at a time
    /// may hold it.
    pub fn embedded(path: impl Into<std::path::PathBuf>) -> EngineBuilder {
        EngineBuilder::embedded(path.into())
    }

    /// An engine whose runs are durable in a PostgreSQL database, as
    /// `postgres://user:password@host:5432/database?schema=windlass`. Any number of processes may
    /// open the same one: each works on its share of the runs, and those of a process that ends
    /// are taken over.
    ///
    /// Opening answers [`OpenError::Store`] at once if the database cannot be reached;
    /// [`EngineBuilder::wait_for_database`] waits for it, as `windlass serve` does. Once the engine
    /// is open it waits by itself, however often the database goes away.
    #[cfg(feature = "postgres")]
    pub fn postgres(url: impl Into<String>) -> EngineBuilder {
        EngineBuilder::postgres(url.into())
    }

    /// An engine whose runs end with the process: for trying out, and for tests.
    pub fn in_memory() -> EngineBuilder {
        EngineBuilder::in_memory()
    }

    /// Starts a run of a workflow, of a frozen graph, or of the workflow with this id. On
    /// return it is durable.
    ///
    /// # Errors
    /// The workflow is not registered, the trigger does not fit, or the store failed.
    pub async fn start<S: Startable + ?Sized>(
        &self,
        what: &S,
        trigger: impl Serialize,
    ) -> Result<RunHandle, StartError> {
        self.request(what).trigger(trigger).start().await
    }

    /// Starts a run and waits for its result.
    ///
    /// # Errors
    /// It could not be started, or did not succeed.
    pub async fn run<S: Startable + ?Sized>(
        &self,
        what: &S,
        trigger: impl Serialize,
    ) -> Result<serde_json::Value, crate::RunError> {
        let run = self.start(what, trigger).await?;
        run.result().await
    }

    /// Prepares a run that is asked for with more than a trigger.
    pub fn request<'a, S: Startable + ?Sized>(&'a self, what: &'a S) -> Request<'a, S> {
        Request::new(self, what)
    }

    /// A run of this engine's store.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub async fn find(&self, run: RunId) -> Result<RunHandle, ReadError> {
        match self.inner.engine.store().run(run).await {
            Ok(Some(_)) => Ok(RunHandle::new(self.clone(), run)),
            Ok(None) => Err(ReadError::NotFound(run)),
            Err(error) => Err(ReadError::Store(error)),
        }
    }

    /// Makes a pool, or changes its size: nodes with `.pool(…)` hold its
    /// slots. Attempts that wait for a pool which does not exist go once it does.
    ///
    /// # Errors
    /// The store failed.
    pub async fn set_pool(&self, name: &str, slots: u32) -> Result<(), windlass_store::Error> {
        let pool = windlass_store::PoolKey::new(None, name);
        self.inner.engine.put_pool(pool, slots).await.map(|_| ())
    }

    /// A page of this engine's runs, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn list(&self, filter: &RunFilter) -> Result<RunPage, ReadError> {
        let page = self.inner.engine.store().runs(filter).await;
        page.map_err(ReadError::Store)
    }

    /// Reads runs as every other interface does.
    pub(crate) fn queries(&self) -> RunQueries {
        RunQueries {
            plans: self.inner.engine.plans().clone(),
            holder: Some("this process".to_owned()),
            engine: Some(self.inner.engine.clone()),
            ..RunQueries::new(Arc::clone(self.inner.engine.store()))
        }
    }

    /// What was found unfinished when the engine was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.inner.recovery
    }

    /// The registered actions, with the JSON Schema of what they take and give.
    pub fn actions(&self) -> &[Description] {
        &self.inner.descriptions
    }

    /// The engine underneath: the store, its queries, and what this handle does not offer.
    pub fn inner(&self) -> &windlass_engine::Engine {
        &self.inner.engine
    }

    /// Stops. What is under way stays open, and the next engine that opens the same folder
    /// recovers it. On return the folder is free, whatever handles of this engine and its runs
    /// still live: they read, and change nothing any more.
    pub async fn shutdown(&self) {
        self.inner.engine.shutdown().await;
        let store = Arc::clone(self.inner.engine.store());
        // It waits for a commit that is under way.
        let _ = tokio::task::spawn_blocking(move || store.close()).await;
    }
}
