//! An engine that serves on a store in memory, and an action whose runs can be watched and
//! held back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};
use windlass_core::{RunId, RunStatus};
use windlass_engine::{
    Action, ActionError, Backend, Context, Engine, EngineEvent, Observer, Options, Registry, Reply,
    StartRequest,
};
use windlass_store::{MemoryStore, Wait as _};
use windlass_test_support::catalogue;

/// What the action `test.work` has done.
pub(crate) struct Floor {
    state: Mutex<HashMap<String, (usize, usize)>>,
    begun: AtomicUsize,
    /// Each attempt waits for one and uses it up.
    pub(crate) permits: Semaphore,
}

impl Floor {
    pub(crate) fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            begun: AtomicUsize::new(0),
            permits: Semaphore::new(permits),
        })
    }

    /// The most that worked at once for a key.
    pub(crate) fn most(&self, key: &str) -> usize {
        let state = self.state.lock().expect("the floor");
        state.get(key).map_or(0, |(_, most)| *most)
    }

    /// How many have begun to work.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    /// How many work now.
    pub(crate) fn working(&self) -> usize {
        let state = self.state.lock().expect("the floor");
        state.values().map(|(now, _)| now).sum()
    }
}

struct Working(Arc<Floor>, String);

impl Working {
    fn new(floor: &Arc<Floor>, key: String) -> Self {
        floor.begun.fetch_add(1, Ordering::Relaxed);
        let mut state = floor.state.lock().expect("the floor");
        let (now, most) = state.entry(key.clone()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        Self(Arc::clone(floor), key)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().expect("the floor");
        if let Some((now, _)) = state.get_mut(&self.1) {
            *now -= 1;
        }
    }
}

/// Works for a key until there is a permit; then ends as its parameters say.
struct Work(Arc<Floor>);

impl Action for Work {
    type Parameters = Value;
    type Output = Value;

    fn name(&self) -> &str {
        "test.work"
    }

    fn description(&self) -> &str {
        "Works for a key."
    }

    async fn run(&self, _: Context, parameters: Value) -> Result<Reply<Value>, ActionError> {
        let key = parameters["key"].as_str().unwrap_or_default().to_owned();
        let _working = Working::new(&self.0, key);
        let permit = self.0.permits.acquire().await.expect("open");
        permit.forget();
        match parameters["fate"].as_str() {
            Some("fail") => Err(ActionError::failed("TOLD_TO", "it was told to fail")),
            _ => Ok(Value::Null.into()),
        }
    }
}

/// Tells which runs began and ended.
pub(crate) struct RecordingObserver {
    began: mpsc::UnboundedSender<RunId>,
    ended: mpsc::UnboundedSender<(RunId, RunStatus)>,
}

impl Observer for RecordingObserver {
    fn observe(&self, event: &EngineEvent<'_>) {
        match event {
            EngineEvent::Started { run, .. } => drop(self.began.send(*run)),
            EngineEvent::Finished { run, status, .. } => drop(self.ended.send((*run, *status))),
            _ => {}
        }
    }
}

pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) engine: Engine,
    pub(crate) floor: Arc<Floor>,
    pub(crate) began: mpsc::UnboundedReceiver<RunId>,
    pub(crate) ended: mpsc::UnboundedReceiver<(RunId, RunStatus)>,
}

impl World {
    pub(crate) fn new(permits: usize) -> Self {
        Self::on(MemoryStore::new(), Floor::new(permits))
    }

    pub(crate) fn on(store: MemoryStore, floor: Arc<Floor>) -> Self {
        let (began_told, began) = mpsc::unbounded_channel();
        let (ended_told, ended) = mpsc::unbounded_channel();
        let mut registry: Registry = windlass_actions::registry();
        registry.register(Work(Arc::clone(&floor)));
        let backend: Arc<dyn Backend> = Arc::new(store.clone());
        let options = Options {
            keep_asleep_ms: 0,
            observer: Some(Arc::new(RecordingObserver {
                began: began_told,
                ended: ended_told,
            })),
            ..Options::default()
        };
        Self {
            store,
            engine: Engine::new(backend, registry, options).wait(),
            floor,
            began,
            ended,
        }
    }

    pub(crate) async fn publish(&self, tenant: Option<&str>, text: &str) {
        let published = catalogue::publish(&self.store, tenant, text).await;
        let workflow = published.plan.workflow();
        self.engine.catalogue_changed(tenant, workflow);
    }

    pub(crate) async fn enqueue(&self, tenant: Option<&str>, trigger: &str) -> RunId {
        self.enqueue_with(tenant, trigger, 5).await
    }

    pub(crate) async fn enqueue_with(
        &self,
        tenant: Option<&str>,
        trigger: &str,
        priority: u8,
    ) -> RunId {
        let request = StartRequest {
            tenant: tenant.map(Into::into),
            trigger: trigger.to_owned(),
            priority,
            ..StartRequest::default()
        };
        let started = self
            .engine
            .enqueue("w", None, request)
            .await
            .expect("queued");
        assert!(!started.existing);
        started.run
    }

    pub(crate) async fn next_begun(&mut self) -> RunId {
        self.began.recv().await.expect("the engine lives")
    }

    pub(crate) async fn next_ended(&mut self) -> (RunId, RunStatus) {
        self.ended.recv().await.expect("the engine lives")
    }
}

/// One node that works for `trigger.key`.
pub(crate) const PLAIN: &str = r#"{"id":"w","nodes":[
    {"id":"n","actionType":"test.work","parameters":{"key":"{{ trigger.key ?? 'none' }}","fate":"{{ trigger.fate ?? 'ok' }}"}}]}"#;

/// The same, one at a time for each key.
pub(crate) const GATED: &str = r#"{"id":"w","concurrency":{"key":"{{ trigger.key }}","limit":1},"nodes":[
    {"id":"n","actionType":"test.work","parameters":{"key":"{{ trigger.key }}","fate":"{{ trigger.fate ?? 'ok' }}"}}]}"#;
