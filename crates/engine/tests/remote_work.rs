//! Work for workers outside the process, without HTTP: what an answer holds, how declarations
//! are kept, and that each task is one worker's.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::value::to_raw_value;
use windlass_core::definition::{self, DefinitionSource, signature};
use windlass_core::{Digest, Millis, RunId, RunStatus};
use windlass_engine::{
    Backend, Clock, Declaration, Engine, Options, Poll, Serving, StartRequest, SystemClock,
    TaskOutcome, WorkError, WorkerTask,
};
use windlass_store::{Catalogue as _, KeyValue as _, MemoryStore, NewDefinition, WorkQueue as _};

const DAY: i64 = 24 * 3_600_000;

/// A clock that goes on only when the test moves it.
#[derive(Default)]
struct Hands(AtomicI64);

impl Clock for Hands {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }

    fn random(&self) -> [u8; 10] {
        SystemClock.random()
    }
}

impl Hands {
    fn pass(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

struct World {
    store: MemoryStore,
    engine: Engine,
    clock: Arc<Hands>,
}

impl World {
    async fn new() -> Self {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Self {
        Self::serving(options, Serving::default()).await
    }

    async fn serving(options: Options, serving: Serving) -> Self {
        let (store, clock) = (MemoryStore::new(), Arc::new(Hands::default()));
        clock.pass(100 * DAY);
        let options = Options {
            unknown_action_wait: Duration::from_secs(60),
            clock: Arc::clone(&clock) as _,
            ..options
        };
        let backend: Arc<dyn Backend> = Arc::new(store.clone());
        let engine = Engine::new(backend, windlass_actions::registry(), options).await;
        engine.serve(serving).await.expect("serves");
        Self {
            store,
            engine,
            clock,
        }
    }

    async fn publish(&self, text: &str) {
        let source = DefinitionSource::new("test.json", text.as_bytes());
        let parsed = definition::parse(&source, &Default::default()).expect("a definition");
        let new = NewDefinition {
            tenant: None,
            workflow: parsed.definition.id.clone(),
            display_name: None,
            digest: Digest::of(text.as_bytes()),
            text: Arc::from(text.as_bytes()),
            signature: signature(&parsed.definition),
            at: Millis(0),
        };
        self.store.publish(new).await.expect("published");
    }

    async fn start(&self, trigger: String) -> RunId {
        let request = StartRequest {
            trigger,
            ..StartRequest::default()
        };
        let started = self.engine.enqueue("w", None, request).await;
        started.expect("queued").run
    }

    async fn poll(&self, poll: Poll) -> Result<Vec<WorkerTask>, WorkError> {
        self.engine.poll_work(poll, pending()).await
    }

    async fn complete(&self, task: &WorkerTask) -> Result<(), WorkError> {
        let outcome = TaskOutcome::Succeeded {
            output: None,
            meta: None,
            resources: Vec::new(),
        };
        let done = self
            .engine
            .finish_task(None, task.task, &task.lease, outcome);
        done.await
    }

    /// Waits until a run has succeeded, which may not have begun.
    async fn ends(&self, run: RunId) {
        while self.engine.wait(run).await.expect("a status") != RunStatus::Succeeded {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What is stored of declarations.
    async fn notes(&self) -> Vec<(Box<str>, Vec<u8>)> {
        self.store.notes("action", None, 5000).await.expect("notes")
    }
}

fn declared(action: &str) -> Declaration {
    Declaration {
        action: action.into(),
        parameters: None,
        description: None,
    }
}

fn poll(worker: &str, actions: &[&str], wait_ms: u64) -> Poll {
    Poll {
        tenant: None,
        worker: worker.into(),
        actions: actions.iter().map(|action| declared(action)).collect(),
        labels: Vec::new(),
        slots: 1,
        wait: Duration::from_millis(wait_ms),
        holding: None,
    }
}

const PLAIN: &str = r#"{"id":"w","nodes":[
    {"id":"n","actionType":"py.act","parameters":{"given":"{{ trigger }}"}}]}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_holds_as_much_as_fits_and_at_least_one_task() {
    let world = World::new().await;
    world.publish(PLAIN).await;
    let large = format!("\"{}\"", "x".repeat(9 * 1024 * 1024));
    let runs = [world.start(large.clone()).await, world.start(large).await];
    let many = || Poll {
        slots: 10,
        ..poll("w", &["py.act"], 30_000)
    };
    let mut seen = BTreeSet::new();
    while seen.len() < 2 {
        let tasks = world.poll(many()).await.expect("an answer");
        assert_eq!(tasks.len(), 1, "two are too large together");
        world.complete(&tasks[0]).await.expect("recorded");
        seen.insert(tasks[0].dispatch.run);
    }
    for run in runs {
        assert_eq!(
            world.engine.wait(run).await.expect("ends"),
            RunStatus::Succeeded
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_behind_others_that_cannot_be_handed_out_is_handed_out() {
    let world = World::new().await;
    world.publish(PLAIN).await;
    for _ in 0..5 {
        world.start("\"text\"".to_owned()).await;
    }
    let good = world.start("7".to_owned()).await;
    let waiting = async || {
        let kinds = world.store.queue_depth(10).await.expect("kinds");
        kinds.iter().map(|kind| kind.waiting).sum::<u64>()
    };
    while waiting().await < 6 {
        tokio::task::yield_now().await;
    }
    let schema = serde_json::json!({ "properties": { "given": { "type": "integer" } } });
    let mut asked = poll("w", &["py.act"], 0);
    asked.actions[0].parameters = Some(to_raw_value(&schema).expect("a schema"));
    let tasks = world.poll(asked).await.expect("an answer");
    let runs: Vec<RunId> = tasks.iter().map(|task| task.dispatch.run).collect();
    assert_eq!(runs, [good], "the one slot is for a task that can be done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_task_is_one_workers() {
    let world = Arc::new(World::new().await);
    let nodes = (0..100).map(|n| format!(r#"{{"id":"n{n}","actionType":"py.act"}}"#));
    let nodes: Vec<String> = nodes.collect();
    world
        .publish(&format!(r#"{{"id":"w","nodes":[{}]}}"#, nodes.join(",")))
        .await;
    let runs = [
        world.start("{}".to_owned()).await,
        world.start("{}".to_owned()).await,
    ];
    let workers = (0..8).map(|worker| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            let mut done = Vec::new();
            loop {
                let asked = poll(&format!("w{worker}"), &["py.act"], 500);
                let tasks = world.poll(asked).await.expect("an answer");
                if tasks.is_empty() {
                    return done;
                }
                for task in tasks {
                    world.complete(&task).await.expect("recorded");
                    done.push(task.task.to_string());
                }
            }
        })
    });
    let mut all = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        all.extend(worker.await.expect("a worker"));
    }
    let apart: BTreeSet<&String> = all.iter().collect();
    assert_eq!((all.len(), apart.len()), (200, 200));
    for run in runs {
        assert_eq!(
            world.engine.wait(run).await.expect("ends"),
            RunStatus::Succeeded
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_goes_away_while_it_waits_strands_nothing() {
    let world = Arc::new(World::new().await);
    world.publish(PLAIN).await;
    let gone: Vec<_> = (0..4)
        .map(|n| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                world
                    .poll(poll(&format!("g{n}"), &["py.act"], 30_000))
                    .await
            })
        })
        .collect();
    while world.engine.work_pollers(None).len() < 4 {
        tokio::task::yield_now().await;
    }
    gone.iter().for_each(tokio::task::JoinHandle::abort);
    let run = world.start("1".to_owned()).await;
    let tasks = world
        .poll(poll("stays", &["py.act"], 30_000))
        .await
        .expect("an answer");
    world.complete(&tasks[0]).await.expect("recorded");
    assert_eq!(
        world.engine.wait(run).await.expect("ends"),
        RunStatus::Succeeded
    );
}

#[tokio::test]
async fn a_repeated_declaration_is_written_once_an_hour() {
    let world = World::new().await;
    let asked = || poll("w", &["py.act", "py.other"], 0);
    world.poll(asked()).await.expect("declared");
    let before = world.notes().await;
    assert_eq!(before.len(), 2);
    for _ in 0..50 {
        world.clock.pass(60_000);
        world.poll(asked()).await.expect("again");
    }
    assert_eq!(world.notes().await, before, "nothing is written");
    world.clock.pass(15 * 60_000);
    world.poll(asked()).await.expect("again");
    assert_ne!(
        world.notes().await,
        before,
        "that it is still used is written"
    );
    let types = world.engine.declared_actions(None).await.expect("a list");
    assert_eq!(types.len(), 2);
}

#[tokio::test]
async fn types_are_forgotten_and_make_room() {
    let world = World::new().await;
    let many: Vec<String> = (0..1000).map(|n| format!("t.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    world
        .poll(poll("w", &many, 0))
        .await
        .expect("as many as may be");
    let refused = world.poll(poll("v", &["one.more"], 0)).await;
    assert!(
        matches!(refused, Err(WorkError::TooManyActions)),
        "{refused:?}"
    );
    let other = Poll {
        tenant: Some("other".into()),
        ..poll("v", &["one.more"], 0)
    };
    world.poll(other).await.expect("another tenant has its own");
    world.clock.pass(29 * DAY);
    world
        .poll(poll("w", &["t.0"], 0))
        .await
        .expect("still used");
    world.clock.pass(2 * DAY);
    let names = |types: Vec<windlass_engine::DeclaredAction>| -> Vec<String> {
        types.iter().map(|it| it.action.to_string()).collect()
    };
    let left = world.engine.declared_actions(None).await.expect("a list");
    assert_eq!(names(left), ["t.0"]);
    world
        .poll(poll("v", &["one.more"], 0))
        .await
        .expect("there is room");
    let left = world.engine.declared_actions(None).await.expect("a list");
    assert_eq!(names(left), ["one.more", "t.0"]);
    assert_eq!(world.notes().await.len(), 3, "with the other tenant's");
}

#[tokio::test]
async fn a_refused_declaration_declares_nothing() {
    let world = World::new().await;
    let bad = Declaration {
        parameters: Some(to_raw_value(&serde_json::json!({ "type": 7 })).expect("JSON")),
        ..declared("py.bad")
    };
    let asked = Poll {
        actions: vec![declared("py.good"), bad],
        ..poll("w", &[], 0)
    };
    let refused = world.poll(asked).await;
    assert!(
        matches!(refused, Err(WorkError::SchemaInvalid { limit: false, .. })),
        "{refused:?}"
    );
    let reserved = world.poll(poll("w", &["py.good", "core.echo"], 0)).await;
    assert!(
        matches!(reserved, Err(WorkError::Reserved(_))),
        "{reserved:?}"
    );
    assert!(world.notes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_ran_out_is_resumed_unless_another_worker_came() {
    let options = Options {
        work_lease_ms: 50,
        ..Options::default()
    };
    let world = World::with(options).await;
    world.publish(PLAIN).await;
    let run = world.start("1".to_owned()).await;
    let mut first = world
        .poll(poll("a", &["py.act"], 30_000))
        .await
        .expect("a task");
    let first = first.remove(0);
    // The second worker gets it once the first was silent for too long.
    let mut second = world
        .poll(poll("b", &["py.act"], 30_000))
        .await
        .expect("a task");
    let second = second.remove(0);
    assert_eq!(first.task, second.task);
    let kept = |task: &WorkerTask| {
        let (engine, id, lease) = (world.engine.clone(), task.task, task.lease.clone());
        async move { engine.keep_task(None, id, &lease).await }
    };
    assert!(matches!(kept(&first).await, Err(WorkError::LeaseLost)));
    // Silent for as long, but no other worker has come.
    tokio::time::sleep(Duration::from_millis(120)).await;
    assert!(matches!(kept(&second).await, Ok(false)));
    assert!(matches!(
        world.complete(&first).await,
        Err(WorkError::LeaseLost)
    ));
    world.complete(&second).await.expect("recorded");
    world.complete(&second).await.expect("the same answer");
    assert_eq!(
        world.engine.wait(run).await.expect("ends"),
        RunStatus::Succeeded
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_report_counts_until_another_worker_gets_the_task() {
    let options = Options {
        work_lease_ms: 20,
        ..Options::default()
    };
    let world = World::with(options).await;
    world.publish(PLAIN).await;
    let run = world.start("1".to_owned()).await;
    let mut tasks = world
        .poll(poll("a", &["py.act"], 30_000))
        .await
        .expect("a task");
    let task = tasks.remove(0);
    // The lease runs out, and the task waits for a worker that does not come.
    tokio::time::sleep(Duration::from_millis(80)).await;
    world.complete(&task).await.expect("recorded");
    world.ends(run).await;
    let notes = world.store.notes("work-lease", None, 10).await;
    assert!(notes.expect("notes").is_empty(), "one hand-out, no note");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_hand_out_is_noted_for_as_long_as_the_attempt_is_open() {
    let options = Options {
        work_lease_ms: 20,
        ..Options::default()
    };
    let world = World::with(options).await;
    world.publish(PLAIN).await;
    let run = world.start("1".to_owned()).await;
    let notes = || async {
        world
            .store
            .notes("work-lease", None, 10)
            .await
            .expect("notes")
    };
    let asked = |worker: &str| poll(worker, &["py.act"], 30_000);
    world.poll(asked("a")).await.expect("a task");
    assert!(notes().await.is_empty());
    let task = world.poll(asked("b")).await.expect("a task").remove(0);
    assert_eq!(notes().await.len(), 1);
    world.complete(&task).await.expect("recorded");
    world.ends(run).await;
    while !notes().await.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_wait_for_a_worker_do_not_keep_others_from_beginning() {
    let serving = Serving {
        max_active_runs: 2,
        ..Serving::default()
    };
    let world = World::serving(Options::default(), serving).await;
    let either = r#"{"id":"w","nodes":[
        {"id":"a","actionType":"core.echo","switch":{"on":"trigger","cases":{"far":"b"},"default":"c"}},
        {"id":"b","actionType":"py.act"}, {"id":"c","actionType":"core.echo"}]}"#;
    world.publish(either).await;
    let mut far = Vec::new();
    for _ in 0..5 {
        far.push(world.start("\"far\"".to_owned()).await);
    }
    let near = world.start("\"near\"".to_owned()).await;
    world.ends(near).await;
    for _ in &far {
        let tasks = world
            .poll(poll("w", &["py.act"], 30_000))
            .await
            .expect("a task");
        world.complete(&tasks[0]).await.expect("recorded");
    }
    for run in far {
        world.ends(run).await;
    }
}
