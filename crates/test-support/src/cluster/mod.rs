//! Several engines over one store of any backend, each on a runtime of its own, so that ending
//! the runtime acts as the death of a process: it sends and writes nothing more.

mod cases;
mod play;
mod stage;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;
use windlass_core::RunId;
use windlass_core::event::Event;
use windlass_engine::{Backend, Engine, NewRun, Options, Plans, Registry, Serving, view};
use windlass_orchestrator::codec;
use windlass_orchestrator::supervisor::LeaseOptions;
use windlass_store::{Leases, Role, WriterId};

use crate::catalogue;

pub use cases::{
    play_where_processes_die, play_where_processes_hand_over, play_where_two_divide_the_partitions,
};
pub use play::play_all;
pub use stage::{Stage, StagedAttempt, Word};

/// Short, so that a test sees a death soon.
pub const LEASES: LeaseOptions = LeaseOptions {
    duration_ms: 600,
    renew_ms: 100,
    margin_ms: 150,
    hand_over_ms: 300,
    sweep_ms: 300,
    command_ms: 1_500,
    owns: true,
};

/// One process.
struct Process {
    runtime: Runtime,
    engine: Engine,
}

/// The processes, and what they share.
pub struct World {
    pub store: Arc<dyn Backend>,
    pub stage: Arc<Stage>,
    processes: Mutex<BTreeMap<usize, Process>>,
    next: Mutex<usize>,
    poison_delay_ms: AtomicU64,
}

impl World {
    /// A store, and no process yet.
    pub fn new(store: Arc<dyn Backend>) -> Arc<Self> {
        Arc::new(Self {
            store,
            stage: Arc::default(),
            processes: Mutex::default(),
            next: Mutex::default(),
            poison_delay_ms: AtomicU64::new(50),
        })
    }

    /// How long processes that start from now on set suspects aside.
    pub fn set_poison_delay(&self, millis: u64) {
        self.poison_delay_ms.store(millis, Ordering::SeqCst);
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<usize, Process>> {
        self.processes.lock().expect("nothing panics with them")
    }

    /// Starts a process with every role; its number.
    pub async fn join(&self) -> usize {
        self.join_as(&Role::ALL).await
    }

    /// Starts a process with these roles; its number.
    pub async fn join_as(&self, roles: &[Role]) -> usize {
        self.join_with(roles, |options| options).await
    }

    /// Starts a process with these roles and options of its own; its number.
    pub async fn join_with(
        &self,
        roles: &[Role],
        change: impl FnOnce(Options) -> Options,
    ) -> usize {
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
        let registry = stage::actions(&self.stage, process);
        let backend = Arc::clone(&self.store);
        let options = Options {
            leases: Some(LEASES),
            keep_asleep_ms: 0,
            worker_name: format!("process-{process}").into(),
            roles: roles.iter().copied().collect(),
            work_lease_ms: 600,
            ..Options::default()
        };
        let options = change(options);
        let poison_delay_ms = self.poison_delay_ms.load(Ordering::SeqCst);
        let starting = runtime.spawn(async move {
            let engine = Engine::new(backend, registry, options).await;
            // Each death counts against all runs in hand, and none of them is the cause.
            let serving = Serving {
                max_poison_retries: 1000,
                poison_delay_ms,
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

    /// Ends a process as a crash would.
    pub fn kill(&self, process: usize) {
        let process = self.processes().remove(&process).expect("it lives");
        process.runtime.shutdown_background();
    }

    /// Ends a process in good order.
    pub async fn stop(&self, process: usize) {
        let Process { runtime, engine } = self.processes().remove(&process).expect("it lives");
        let stopping = runtime.spawn(async move { engine.shutdown().await });
        stopping.await.expect("it stops");
        runtime.shutdown_background();
    }

    /// The processes that live.
    pub fn live(&self) -> Vec<usize> {
        self.processes().keys().copied().collect()
    }

    /// An engine by turns.
    pub fn engine(&self, turn: usize) -> Engine {
        let processes = self.processes();
        let place = turn % processes.len();
        let process = processes.values().nth(place).expect("one lives");
        process.engine.clone()
    }

    /// The engine of a process.
    pub fn engine_of(&self, process: usize) -> Engine {
        let processes = self.processes();
        processes.get(&process).expect("it lives").engine.clone()
    }

    /// An engine that takes requests and works on no partition.
    pub async fn front(&self) -> Engine {
        let options = Options {
            leases: Some(LEASES),
            ..Options::default()
        };
        Engine::new(Arc::clone(&self.store), Registry::new(), options).await
    }

    /// The process whose session holds the partition of a run, once one does; and the id that
    /// its records have.
    pub async fn owner(&self, run: RunId) -> (usize, WriterId) {
        loop {
            let row = self.store.run(run).await.expect("a row").expect("a run");
            let live = Leases::sessions(&*self.store).await.expect("sessions");
            let mut live = live.into_iter();
            if let Some(session) = live.find(|it| it.partitions.contains(&row.partition)) {
                return parse_session(&session.process.name);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until every process holds as many partitions as the others, or one more.
    pub async fn spread(&self) {
        loop {
            let live = Leases::sessions(&*self.store).await.expect("sessions");
            let held: Vec<usize> = live.iter().map(|it| it.partitions.len()).collect();
            let (least, most) = (held.iter().min(), held.iter().max());
            if held.len() == self.live().len()
                && least
                    .zip(most)
                    .is_some_and(|(least, most)| most - least <= 1 && *least > 0)
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The events of a run, each with the id of its writer.
    pub async fn events(&self, run: RunId) -> Vec<(WriterId, Event)> {
        let records = self.store.read(run, 1, usize::MAX).await.expect("a log");
        let events = records.into_iter().flat_map(|record| {
            let transition = codec::decode(&record.bytes).expect("a record");
            let of_record = move |event| (record.writer, event);
            transition.events.into_iter().map(of_record)
        });
        events.collect()
    }

    /// Publishes a definition.
    pub async fn publish(&self, text: &str) -> NewRun {
        catalogue::publish(&*self.store, None, text).await
    }

    /// The run as people see it.
    pub fn execution(&self, run: RunId) -> Value {
        let mut json = Vec::new();
        let plans = Plans::new(1 << 20);
        view::write(&*self.store, &plans, run, &Default::default(), &mut json).expect("a view");
        serde_json::from_slice(&json).expect("JSON")
    }

    /// Waits until the end of an attempt is durable.
    pub async fn recorded(&self, (run, node, _, attempt): StagedAttempt) {
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
    pub async fn ended(&self, run: RunId) {
        loop {
            let row = self.store.run(run).await.expect("a row");
            if row.is_some_and(|row| row.status.is_final()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The process and the writer that the name of a session tells.
fn parse_session(name: &str) -> (usize, WriterId) {
    let (process, writer) = name.split_once(' ').expect("a name and a writer");
    let process = process.strip_prefix("process-").expect("a process");
    let writer = u64::from_str_radix(writer, 16).expect("a number");
    (process.parse().expect("a number"), WriterId(writer))
}

impl Drop for World {
    fn drop(&mut self) {
        for process in std::mem::take(&mut *self.processes()).into_values() {
            process.runtime.shutdown_background();
        }
    }
}
