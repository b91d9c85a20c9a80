//! An engine on a store in memory, and what people see of its runs.

use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::Value;
use windlass_core::command::{CommandRequest, RunCommand};
use windlass_core::event::{Actor, Event};
use windlass_core::run::{Refusal, Run};
use windlass_core::{NodeStatus, RunId, RunStatus};
use windlass_engine::fork::{Ask, Fork, ForkError, fork};
use windlass_engine::history::for_each_event;
use windlass_engine::verify::{Misfit, verify};
use windlass_engine::{Backend, CommandError, Engine, NewRun, Options, Registry, view};
use windlass_orchestrator::codec;
use windlass_store::{Log as _, MemoryStore, Queries as _, Wait as _};

use crate::catalogue;

/// The engine, and its store.
pub struct World {
    pub store: MemoryStore,
    pub engine: Engine,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// A new store, and the actions that always exist.
    pub fn new() -> Self {
        Self::on(MemoryStore::new(), Options::default())
    }

    /// An engine on a store, as another process would be.
    pub fn on(store: MemoryStore, options: Options) -> Self {
        Self::with(store, windlass_actions::registry(), options)
    }

    /// An engine with these actions.
    pub fn with(store: MemoryStore, registry: Registry, options: Options) -> Self {
        let backend: Arc<dyn Backend> = Arc::new(store.clone());
        let engine = Engine::new(backend, registry, options).wait();
        Self { store, engine }
    }

    /// Another process on the same store, after this one.
    pub async fn restart(self, options: Options) -> Self {
        self.engine.shutdown().await;
        Self::on(self.store, options)
    }

    /// Adds a definition to the catalogue, as a request for a run of it.
    pub async fn publish(&self, text: &str) -> NewRun {
        self.publish_for(None, text).await
    }

    /// The same in a tenant.
    pub async fn publish_for(&self, tenant: Option<&str>, text: &str) -> NewRun {
        catalogue::publish(&self.store, tenant, text).await
    }

    /// Runs a definition to its end.
    pub async fn run(&self, text: &str) -> (RunId, RunStatus) {
        let run = self.start(text).await;
        (run, self.end(run).await)
    }

    /// Runs what is asked for to its end.
    pub async fn run_request(&self, request: &NewRun) -> RunId {
        let run = self.engine.start(request).await.expect("started").run;
        self.end(run).await;
        run
    }

    /// Starts a run and goes on at once.
    pub async fn start(&self, text: &str) -> RunId {
        let request = self.publish(text).await;
        self.engine.start(&request).await.expect("started").run
    }

    /// Waits until a run has ended.
    pub async fn end(&self, run: RunId) -> RunStatus {
        self.engine.wait(run).await.expect("ended")
    }

    /// The state that the run's log leads to.
    pub fn state(&self, run: RunId) -> Run {
        self.engine.load(run).expect("readable").run
    }

    /// What the run came to.
    pub fn output(&self, run: RunId) -> Value {
        let state = self.state(run);
        let finished = state.finished();
        let output = finished.and_then(|finished| finished.output.as_ref());
        let text = self.engine.values().resolve(output.expect("an output"));
        serde_json::from_str(&text.wait().expect("readable")).expect("JSON")
    }

    /// The status of a node.
    pub fn node(&self, run: RunId, path: &str) -> NodeStatus {
        let state = self.state(run);
        let node = state.resolve(path).expect("such a node");
        state.node_status(node)
    }

    /// The error of a node.
    pub fn error(&self, run: RunId, path: &str) -> Value {
        let state = self.state(run);
        let node = state.resolve(path).expect("such a node");
        let value = state.value(node).expect("an error");
        let text = self.engine.values().read(run, &value).wait();
        serde_json::from_str(&text.expect("readable")).expect("JSON")
    }

    /// The runs that a run started.
    pub fn children(&self, parent: RunId) -> Vec<RunId> {
        let rows = self.store.children(parent).wait().expect("readable");
        rows.iter().map(|row| row.run).collect()
    }

    /// Waits until the engine has no run in memory.
    pub async fn until_idle(&self) {
        while self.engine.held().await > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Sends a signal, which the run must take.
    pub async fn signal(&self, run: RunId, name: &str, json: &str) {
        let signal = RunCommand::Signal { name: name.into() };
        let signal = signal.by(Actor::default()).with(json);
        self.engine.command(run, signal).await.expect("taken");
    }

    /// The fork of a run, which has not begun.
    pub fn fork(&self, ask: &Ask) -> Result<Fork, ForkError> {
        let engine = &self.engine;
        fork(&**engine.store(), engine.plans(), engine.values(), ask)
    }

    /// The node instances that ran, in the order of their ends.
    pub fn ran(&self, run: RunId) -> Vec<String> {
        let events = self.log(run).into_iter();
        let ended = |event| match event {
            Event::AttemptEnded(ended) => Some(ended.node.into_string()),
            _ => None,
        };
        events.filter_map(ended).collect()
    }

    /// The events of a run as they are stored.
    pub fn log(&self, run: RunId) -> Vec<Event> {
        let records = self.store.read(run, 1, usize::MAX).wait().expect("a log");
        let records = records.iter().map(|record| codec::decode(&record.bytes));
        records
            .flat_map(|transition| transition.expect("readable").events)
            .collect()
    }

    /// Gives a command, which the run must take.
    pub async fn command(&self, run: RunId, command: CommandRequest) {
        // One that falls asleep just then is said to have ended, and is asked again.
        for _ in 0..10 {
            match self.engine.command(run, command.clone()).await {
                Err(CommandError::Refused {
                    refusal: Refusal::RunEnded,
                    ..
                }) => tokio::task::yield_now().await,
                done => {
                    done.expect("the command is carried out");
                    return;
                }
            }
        }
        panic!("the run has ended");
    }

    /// Waits until an event of this kind about this node has happened.
    pub async fn until(&self, run: RunId, kind: &str, node: &str) {
        let happened = |event: &Value| event["kind"] == kind && event["node"] == node;
        while !self.events(run).iter().any(happened) {
            tokio::task::yield_now().await;
        }
    }

    /// The first event of this kind about this node.
    pub fn event(&self, run: RunId, kind: &str, node: &str) -> Value {
        let mut events = self.events(run).into_iter();
        let found = events.find(|event| event["kind"] == kind && event["node"] == node);
        found.unwrap_or_else(|| panic!("no {kind} of {node}"))
    }

    /// What the check of a run finds, and how many hashes it recomputed.
    pub fn verify(&self, run: RunId) -> (Option<Misfit>, u64) {
        let (store, plans) = (&**self.engine.store(), self.engine.plans());
        let verified = verify(store, plans, run).expect("readable");
        (verified.misfit, verified.hashes)
    }

    /// The events of a run as people read them.
    pub fn events(&self, run: RunId) -> Vec<Value> {
        let mut events = Vec::new();
        for_each_event(&**self.engine.store(), self.engine.plans(), run, |event| {
            events.push(serde_json::to_value(&event).expect("JSON"));
            ControlFlow::Continue(())
        })
        .expect("readable");
        events
    }

    /// The same in short: kind, node, attempt.
    pub fn kinds(&self, run: RunId) -> Vec<String> {
        let name = |event: &Value| {
            let node = event["node"].as_str().map(|node| format!(" {node}"));
            let attempt = event["attempt"]
                .as_u64()
                .map(|attempt| format!(" {attempt}"));
            let kind = event["kind"].as_str().unwrap_or_default();
            format!(
                "{kind}{}{}",
                node.unwrap_or_default(),
                attempt.unwrap_or_default()
            )
        };
        self.events(run).iter().map(name).collect()
    }

    /// The run as people see it who ask for nothing special.
    pub fn show(&self, run: RunId) -> Value {
        self.json(run, &view::Options::default())
    }

    /// The run as people see it.
    pub fn json(&self, run: RunId, options: &view::Options) -> Value {
        let mut out = Vec::new();
        view::write(
            &**self.engine.store(),
            self.engine.plans(),
            run,
            options,
            &mut out,
        )
        .expect("written");
        serde_json::from_slice(&out).expect("valid JSON")
    }
}
