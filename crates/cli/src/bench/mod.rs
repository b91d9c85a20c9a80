//! The figures of this machine, each as a ratio against the machine's own limit,
//! measured in the same run. Nothing here is special-cased in the engine: the same
//! store, shard, workers and actions as in production.

pub(crate) mod disk;
mod expressions;
mod figures;
mod graphs;
mod http;
pub(crate) mod nats;
mod noisy;
pub(crate) mod postgres;
mod process;
mod recover;
mod report;
mod server;
mod workers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::Digest;
use windlass_core::definition::Definition;
use windlass_core::plan::Plan;
use windlass_engine::{Backend, Engine, NewRun, Options};
use windlass_store::{NewDefinition, Wait as _};
use windlass_store_embedded::EmbeddedStore;

use crate::exit::{Exit, Failure};

pub(crate) use report::Report;

/// How large the measurements are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) chain: usize,
    pub(crate) fan_out: usize,
    pub(crate) items: usize,
    pub(crate) rounds: usize,
    pub(crate) runs: usize,
    pub(crate) in_flight: usize,
    pub(crate) graph: usize,
    pub(crate) repeats: usize,
}

impl Sizes {
    /// The sizes that the figures are stated for.
    pub(crate) const FULL: Self = Self {
        chain: 1000,
        fan_out: 10_000,
        items: 100_000,
        rounds: 100_000,
        runs: 10_000,
        in_flight: 64,
        graph: 100_000,
        repeats: 3,
    };

    /// Sizes for a quick look.
    pub(crate) const QUICK: Self = Self {
        chain: 200,
        fan_out: 2000,
        items: 10_000,
        rounds: 2000,
        runs: 1000,
        in_flight: 64,
        graph: 10_000,
        repeats: 1,
    };
}

/// Measures everything whose name contains `only`.
pub(crate) fn measure(
    sizes: Sizes,
    only: Option<&str>,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Storage, "RUNTIME_FAILED", error))?;
    let scratch = Scratch::new()?;
    let mut report = Report::default();
    let wanted = |name: &str| only.is_none_or(|only| name.contains(only));
    for figure in figures::ALL {
        if wanted(figure.name) {
            progress(figure.name);
            let bench = Bench {
                sizes,
                scratch: &scratch,
            };
            report.add(figure.name, runtime.block_on((figure.run)(bench))?);
        }
    }
    if wanted("process") {
        progress("process");
        process::measure(&scratch, sizes, &mut report)?;
    }
    Ok(report)
}

/// What a figure is measured with.
#[derive(Clone, Copy)]
pub(crate) struct Bench<'a> {
    pub(crate) sizes: Sizes,
    pub(crate) scratch: &'a Scratch,
}

/// An engine on a fresh store.
pub(crate) struct Rig {
    pub(crate) engine: Engine,
}

impl Rig {
    /// The same measurements on an engine that is there.
    pub(crate) fn on(engine: Engine) -> Self {
        Self { engine }
    }

    /// On a fresh data directory.
    pub(crate) fn new(bench: Bench<'_>) -> Result<Self, Failure> {
        let directory = bench.scratch.fresh();
        let options = windlass_store_embedded::Options::default();
        let store = EmbeddedStore::open(&directory, options)?.store;
        let backend: Arc<dyn Backend> = Arc::new(store);
        let mut registry = windlass_actions::registry();
        registry.register(graphs::Pause50);
        let engine = Engine::new(backend, registry, Options::default()).wait();
        Ok(Self { engine })
    }

    /// Publishes a definition and makes a request for runs of it.
    pub(crate) async fn prepare(&self, text: &str) -> Result<NewRun, Failure> {
        let invalid = |error: &dyn std::fmt::Display| {
            Failure::new(Exit::Invalid, "BENCH_DEFINITION", error.to_string())
        };
        let definition: Definition = serde_json::from_str(text).map_err(|error| invalid(&error))?;
        let workflow = definition.id.clone();
        let signature = windlass_core::definition::signature(&definition);
        let plan = Plan::build(definition).map_err(|error| invalid(&error))?;
        let digest = Digest::of(text.as_bytes());
        let published = self
            .engine
            .store()
            .publish(NewDefinition {
                tenant: None,
                workflow,
                display_name: None,
                digest,
                text: Arc::from(text.as_bytes()),
                signature,
                at: windlass_core::Millis(0),
            })
            .await?;
        Ok(NewRun::new(Arc::new(plan), published.version, digest))
    }

    /// Runs a request to its end, which must be a success.
    pub(crate) async fn run(&self, request: &NewRun) -> Result<Duration, Failure> {
        let begun = Instant::now();
        let started = self.engine.start(request).await?;
        let status = self.engine.wait(started.run).await?;
        if status != windlass_core::RunStatus::Succeeded {
            let message = format!("a measured run ended {status}");
            return Err(Failure::new(Exit::RunFailed, "BENCH_RUN", message));
        }
        Ok(begun.elapsed())
    }
}

/// A folder that goes away with the measurement.
pub(crate) struct Scratch {
    root: PathBuf,
    next: std::sync::atomic::AtomicU32,
}

impl Scratch {
    fn new() -> Result<Self, Failure> {
        // Beside the data, not in a temp folder that may be in memory: it is the disk
        // that is measured.
        let root = PathBuf::from(format!(".windlass-bench-{}", std::process::id()));
        std::fs::create_dir_all(&root).map_err(|error| {
            let message = format!("cannot make {}: {error}", root.display());
            Failure::new(Exit::Storage, "STORE_UNAVAILABLE", message)
        })?;
        Ok(Self {
            root,
            next: std::sync::atomic::AtomicU32::new(0),
        })
    }

    /// A path in the folder that nothing uses yet.
    pub(crate) fn fresh(&self) -> PathBuf {
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.root.join(number.to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is only untidy.
        let _ = std::fs::remove_dir_all(&self.root);
    }
}
