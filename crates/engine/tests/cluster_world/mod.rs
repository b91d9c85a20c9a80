//! Several engines over one store in memory, each on a runtime of its own, so that ending the
//! runtime is the death of a process: nothing of it is said or written any more.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use windlass_core::definition::{self, Source, signature};
use windlass_core::event::Event;
use windlass_core::{Digest, Millis, RunId};
use windlass_engine::{
    Action, ActionError, Backend, Context, Engine, Options, Plans, Registry, Reply, Serving, view,
};
use windlass_orchestrator::codec;
use windlass_orchestrator::supervisor::LeaseOptions;
use windlass_store::{Catalogue as _, Log as _, MemoryStore, NewDefinition, Queries as _};

/// Short, so that a test sees a death soon.
pub(crate) const LEASES: LeaseOptions = LeaseOptions {
    duration_ms: 600,
    renew_ms: 100,
    margin_ms: 150,
    hand_over_ms: 300,
    sweep_ms: 300,
};

/// How an attempt is to end.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    Succeed(Value),
    Fail,
    Retry,
    Skip,
}

/// An attempt, as the stage knows it.
pub(crate) type Part = (RunId, String, bool, u32);

/// Where attempts wait for their word. One that was given is given again to whichever process
/// carries the attempt out next.
#[derive(Default)]
pub(crate) struct Stage {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Attempts that wait, and how many processes carry them out.
    open: BTreeMap<Part, usize>,
    words: BTreeMap<Part, Word>,
    /// Nodes, by workflow, that go on until they have their word, though they are told to stop.
    expected: BTreeSet<(String, String)>,
    /// The processes in which attempts were carried out.
    processes: BTreeSet<usize>,
}

impl Stage {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics with the stage")
    }

    /// Waits until an attempt of the node waits that has no word yet, and gives it one. The
    /// undoing of any node answers to the name `undo`.
    pub(crate) async fn give(&self, run: RunId, node: &str, word: Word) -> Part {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state();
                let is_meant = |part: &&Part| match node {
                    "undo" => part.0 == run && part.2,
                    node => part.0 == run && part.1 == node && !part.2,
                };
                let waiting = state.open.keys().filter(is_meant);
                let mut part = waiting.filter(|part| !state.words.contains_key(*part));
                if let Some(part) = part.next().cloned() {
                    state.words.insert(part.clone(), word);
                    self.changed.notify_waiters();
                    return part;
                }
            }
            changed.await;
        }
    }

    /// A node of a workflow goes on until it has its word, though it is told to stop.
    pub(crate) fn expect(&self, workflow: &str, node: &str) {
        let node = (workflow.to_owned(), node.to_owned());
        self.state().expected.insert(node);
    }

    /// How many attempts wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().open.len()
    }

    /// The processes that carried attempts out.
    pub(crate) fn processes(&self) -> BTreeSet<usize> {
        self.state().processes.clone()
    }

    async fn play(&self, part: Part, context: &Context) -> Result<Reply<Value>, ActionError> {
        let node = (context.workflow.to_string(), part.1.clone());
        let is_expected = self.state().expected.contains(&node);
        loop {
            let changed = self.changed.notified();
            let word = self.state().words.get(&part).cloned();
            match word {
                Some(Word::Succeed(value)) => return Ok(value.into()),
                Some(Word::Fail) => return Err(ActionError::failed("BOOM", "as told")),
                Some(Word::Retry) => return Err(ActionError::retriable("BUSY", "as told")),
                Some(Word::Skip) => return Ok(Reply::skipped()),
                None => {}
            }
            tokio::select! {
                () = changed => {}
                () = context.stop_asked(), if !is_expected => return Err(ActionError::stopped()),
            }
        }
    }
}

/// An action that ends as the stage says.
struct Played {
    stage: Arc<Stage>,
    undo: bool,
    process: usize,
}

/// An attempt that is being carried out.
struct Open<'s>(&'s Stage, Part);

impl<'s> Open<'s> {
    fn new(stage: &'s Stage, part: Part) -> Self {
        *stage.state().open.entry(part.clone()).or_default() += 1;
        stage.changed.notify_waiters();
        Self(stage, part)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Some(count) = state.open.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&self.1);
            }
        }
    }
}

impl Action for Played {
    type Parameters = Value;
    type Output = Value;

    fn name(&self) -> &str {
        match self.undo {
            true => "undo",
            false => "test",
        }
    }

    fn description(&self) -> &str {
        "Ends as it is told."
    }

    async fn run(&self, context: Context, _: Value) -> Result<Reply<Value>, ActionError> {
        let part = (
            context.run,
            context.node.to_string(),
            self.undo,
            context.attempt,
        );
        self.stage.state().processes.insert(self.process);
        let _open = Open::new(&self.stage, part.clone());
        self.stage.play(part, &context).await
    }
}

/// One process.
pub(crate) struct Process {
    runtime: Runtime,
    pub(crate) engine: Engine,
}

/// The processes, and what they share.
pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) stage: Arc<Stage>,
    processes: Mutex<BTreeMap<usize, Process>>,
    next: Mutex<usize>,
}

impl World {
    /// A store with this many partitions, and no process yet.
    pub(crate) fn new(partitions: u32) -> Arc<Self> {
        let store = MemoryStore::new();
        store.set_partitions(partitions);
        Arc::new(Self {
            store,
            stage: Arc::default(),
            processes: Mutex::default(),
            next: Mutex::default(),
        })
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<usize, Process>> {
        self.processes.lock().expect("nothing panics with them")
    }

    /// Starts a process; its number.
    pub(crate) async fn join(&self) -> usize {
        let process = {
            let mut next = self.next.lock().expect("a number");
            *next += 1;
            *next
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let mut registry = Registry::new();
        for undo in [false, true] {
            let stage = Arc::clone(&self.stage);
            registry.register(Played {
                stage,
                undo,
                process,
            });
        }
        let backend: Arc<dyn Backend> = Arc::new(self.store.clone());
        let options = Options {
            leases: Some(LEASES),
            keep_asleep_ms: 0,
            worker_name: format!("process-{process}").into(),
            ..Options::default()
        };
        let starting = runtime.spawn(async move {
            let engine = Engine::new(backend, registry, options).await;
            // Each death counts against all that was in hand: none of it is the cause.
            let serving = Serving {
                max_poison_retries: 1000,
                poison_delay_ms: 50,
                poison_trial_ms: 50,
                ..Serving::default()
            };
            engine.serve(serving).await.expect("it serves");
            engine
        });
        let engine = starting.await.expect("it starts");
        self.processes()
            .insert(process, Process { runtime, engine });
        process
    }

    /// Ends a process without a word.
    pub(crate) fn kill(&self, process: usize) {
        let process = self.processes().remove(&process).expect("it lives");
        process.runtime.shutdown_background();
    }

    /// Ends a process in good order.
    pub(crate) async fn stop(&self, process: usize) {
        let Process { runtime, engine } = self.processes().remove(&process).expect("it lives");
        let stopping = runtime.spawn(async move { engine.shutdown().await });
        stopping.await.expect("it stops");
        runtime.shutdown_background();
    }

    /// The processes that live.
    pub(crate) fn live(&self) -> Vec<usize> {
        self.processes().keys().copied().collect()
    }

    /// An engine by turns.
    pub(crate) fn engine(&self, turn: usize) -> Engine {
        let processes = self.processes();
        let place = turn % processes.len();
        let process = processes.values().nth(place).expect("one lives");
        process.engine.clone()
    }

    /// Publishes a definition.
    pub(crate) async fn publish(&self, text: &[u8]) {
        let source = Source::new("test.json", text);
        let parsed = definition::parse(&source, &Default::default()).expect("a definition");
        let new = NewDefinition {
            tenant: None,
            workflow: parsed.definition.id.clone(),
            display_name: None,
            digest: Digest::of(&parsed.json),
            text: parsed.json.clone().into(),
            signature: signature(&parsed.definition),
            at: Millis(0),
        };
        self.store.publish(new).await.expect("published");
    }

    /// The run as people see it.
    pub(crate) fn execution(&self, run: RunId) -> Value {
        let mut json = Vec::new();
        let plans = Plans::new(1 << 20);
        view::write(&self.store, &plans, run, &Default::default(), &mut json).expect("a view");
        serde_json::from_slice(&json).expect("JSON")
    }

    /// Waits until the end of an attempt is durable.
    pub(crate) async fn recorded(&self, (run, node, _, attempt): Part) {
        let is_end = |event: &Event| match event {
            Event::AttemptEnded(ended) => *ended.node == *node && ended.attempt == attempt,
            _ => false,
        };
        loop {
            let records = self.store.read(run, 1, usize::MAX).await.expect("a log");
            let mut transitions = records.iter().map(|it| codec::decode(&it.bytes));
            if transitions.any(|it| it.expect("a record").events.iter().any(is_end)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until a run has ended, whatever becomes of processes meanwhile.
    pub(crate) async fn ended(&self, run: RunId) {
        loop {
            let row = self.store.run(run).await.expect("a row");
            if row.is_some_and(|row| row.status.is_final()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for process in std::mem::take(&mut *self.processes()).into_values() {
            process.runtime.shutdown_background();
        }
    }
}
