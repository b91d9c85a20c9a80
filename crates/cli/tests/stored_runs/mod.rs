//! A data directory with runs in it, and the binary to look at them with.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::RunId;
use windlass_engine::history::for_each_event;
use windlass_engine::{Backend, Begin, Engine};
use windlass_store::Wait as _;
use windlass_store_embedded::EmbeddedStore;
use windlass_test_support::catalogue;
use windlass_test_support::process::{Ended, World as Place};

/// A directory of its own, removed at the end.
pub(crate) struct World {
    place: Place,
}

impl World {
    pub(crate) fn new() -> Self {
        let place = Place::new();
        Self { place }
    }

    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Runs the binary here, without a terminal.
    pub(crate) fn windlass(&self, arguments: &[&str]) -> Ended {
        let mut command = self.place.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let guard = apart();
        let child = command.spawn().expect("the binary runs");
        drop(guard);
        Ended::new(child.wait_with_output().expect("it ends"))
    }

    /// Writes a file here.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        self.place.definition(name, text);
        name.to_owned()
    }

    /// Runs a definition to its end; gives the run's id.
    pub(crate) fn run(&self, definition: &str, trigger: &str) -> String {
        self.start(definition, trigger, Begin::Now, None)
    }

    /// Runs a definition until all of this has happened to these nodes; no process executes it
    /// then.
    pub(crate) fn run_until(&self, definition: &str, events: &[(&str, &str)]) -> String {
        self.start(definition, "{}", Begin::Now, Some(events))
    }

    /// Adds a definition to the catalogue.
    pub(crate) fn publish(&self, definition: &str) {
        let file = self.file("published.json", definition);
        self.windlass(&["publish", &file]).expect(0);
    }

    /// Queues a run that no process executes.
    pub(crate) fn queue(&self, definition: &str, trigger: &str) -> String {
        self.start(definition, trigger, Begin::Later, None)
    }

    fn start(
        &self,
        text: &str,
        trigger: &str,
        begin: Begin,
        until: Option<&[(&str, &str)]>,
    ) -> String {
        let _guard = apart();
        let store = EmbeddedStore::open(
            &self.path().join(".windlass"),
            windlass_store_embedded::Options::default(),
        );
        let store = store.expect("a store").store;
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let mut request = catalogue::publish(&store, None, text).await;
            let backend: Arc<dyn Backend> = Arc::new(store.clone());
            let registry = windlass_actions::registry();
            let engine = Engine::new(backend, registry, windlass_engine::Options::default()).wait();
            request.request.trigger = trigger.to_owned();
            request.begin = begin;
            let started = engine.start(&request).await.expect("started");
            if let Some(events) = until {
                let pending =
                    |(kind, node): &(&str, &str)| !happened(&engine, started.run, kind, node);
                while events.iter().any(pending) {
                    tokio::task::yield_now().await;
                }
            } else if begin == Begin::Now {
                engine.wait(started.run).await.expect("ended");
            }
            engine.shutdown().await;
            started.run.to_string()
        })
    }
}

fn happened(engine: &Engine, run: RunId, kind: &str, node: &str) -> bool {
    let mut found = false;
    let (store, plans) = (&**engine.store(), engine.plans());
    for_each_event(store, plans, run, |event| {
        found |= event.kind == kind && event.node.as_deref() == Some(node);
        ControlFlow::Continue(())
    })
    .expect("readable");
    found
}

/// A child that has not yet become the binary shares every lock that this process has:
/// children are started while no store is open here.
fn apart() -> MutexGuard<'static, ()> {
    static APART: Mutex<()> = Mutex::new(());
    APART.lock().unwrap_or_else(PoisonError::into_inner)
}
