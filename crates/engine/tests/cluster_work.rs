//! Orchestrators, workers and processes that serve workers over HTTP are processes of their own:
//! attempts go through the queue, outcomes through the inbox of their run.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::command::{CommandRequest, RunCommand};
use windlass_core::event::{Actor, Event, ResourceLink};
use windlass_core::{RunId, RunStatus};
use windlass_engine::{
    ActionError, Declaration, Engine, Options, Poll, StartRequest, TaskOutcome, WorkError,
    WorkState, WorkerTask,
};
use windlass_store::{ItemState, MemoryStore, Offer, Role, WorkKey};
use windlass_test_support::cluster::{Word, World, play_all};

/// A node that a worker process does.
const PLAIN: &str = r#"{"id":"plain","nodes":[{"id":"n","actionType":"test",
    "parameters":{"of":"{{ trigger.of }}"}}]}"#;

/// A node that a worker over HTTP does.
const OTHER: &str = r#"{"id":"other","nodes":[{"id":"n","actionType":"other",
    "parameters":{"of":"{{ trigger.of }}"}}]}"#;

fn world() -> Arc<World> {
    let store = MemoryStore::new();
    store.set_partitions(8);
    World::new(Arc::new(store))
}

async fn start(engine: &Engine, workflow: &str) -> RunId {
    let request = StartRequest {
        trigger: json!({ "of": 7 }).to_string(),
        ..StartRequest::default()
    };
    let started = engine.enqueue(workflow, None, request).await;
    started.expect("it is queued").run
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..4_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("in vain: {what}");
}

/// How the attempts of a run ended: which worker, which lease, which attempt.
async fn ends(world: &World, run: RunId) -> Vec<(String, Option<String>, u32)> {
    let events = world.events(run).await;
    let ends = events.into_iter().filter_map(|(_, event)| match event {
        Event::AttemptEnded(end) => Some((
            end.worker.to_string(),
            end.lease.map(|lease| lease.to_string()),
            end.attempt,
        )),
        _ => None,
    });
    ends.collect()
}

fn command(command: RunCommand) -> CommandRequest {
    command.by(Actor::default())
}

#[tokio::test]
async fn the_semantic_cases_hold_where_every_role_is_a_process_of_its_own() {
    let world = world();
    let mut workers = Vec::new();
    for roles in [Role::Orchestrator, Role::Orchestrator, Role::Api] {
        world.join_as(&[roles]).await;
    }
    for _ in 0..2 {
        workers.push(world.join_as(&[Role::Worker]).await);
    }
    play_all(Arc::clone(&world), async {}).await;
    let did: Vec<usize> = world.stage.processes().into_iter().collect();
    assert_eq!(did, workers, "no orchestrator calls an action");
}

#[tokio::test]
async fn a_worker_that_dies_leaves_its_attempt_to_another_under_the_same_number() {
    let world = world();
    world.publish(PLAIN).await;
    let front = world.join_as(&[Role::Orchestrator, Role::Api]).await;
    let dying = world.join_as(&[Role::Worker]).await;
    let run = start(&world.engine_of(front), "plain").await;
    until("a worker has it", async || world.stage.is_open(run)).await;
    let heir = world.join_as(&[Role::Worker]).await;
    world.kill(dying);
    until("the heir has it", async || {
        world.stage.processes().contains(&heir)
    })
    .await;
    let ended = world
        .stage
        .give(run, "n", false, Word::Succeed(json!(1)))
        .await;
    assert_eq!(ended.3, 1, "the attempt is the same");
    world.ended(run).await;
    let ends = ends(&world, run).await;
    assert_eq!(ends.len(), 1);
    assert_eq!((&*ends[0].0, ends[0].2), (&*format!("process-{heir}"), 1));
    assert!(ends[0].1.is_some(), "the log names the lease");
}

#[tokio::test]
async fn an_attempt_with_which_three_workers_died_makes_its_run_a_dead_letter() {
    let world = world();
    world.publish(PLAIN).await;
    let front = world.join_as(&[Role::Orchestrator, Role::Api]).await;
    let engine = world.engine_of(front);
    let run = start(&engine, "plain").await;
    for _ in 0..3 {
        let worker = world.join_as(&[Role::Worker]).await;
        until("it has the attempt", async || {
            world.stage.processes().contains(&worker)
        })
        .await;
        world.kill(worker);
    }
    let last = world.join_as(&[Role::Worker]).await;
    until("the run is given up", async || {
        let row = engine.store().run(run).await.expect("a row");
        row.is_some_and(|row| row.dead)
    })
    .await;
    assert!(
        !world.stage.processes().contains(&last),
        "no fourth one dies"
    );
}

#[tokio::test]
async fn the_next_owner_takes_the_outcome_of_an_attempt_that_outlived_its_owner() {
    let world = world();
    world.publish(PLAIN).await;
    let owner = world.join_as(&[Role::Orchestrator]).await;
    let front = world.join_as(&[Role::Api]).await;
    let worker = world.join_as(&[Role::Worker]).await;
    let run = start(&world.engine_of(front), "plain").await;
    until("the worker has it", async || world.stage.is_open(run)).await;
    world.kill(owner);
    // The outcome is offered while no process owns the run.
    world
        .stage
        .give(run, "n", false, Word::Succeed(json!(1)))
        .await;
    until("it is offered", async || !world.stage.is_open(run)).await;
    world.join_as(&[Role::Orchestrator]).await;
    world.ended(run).await;
    let ends = ends(&world, run).await;
    assert_eq!(ends.len(), 1, "it is not done again: {ends:?}");
    assert_eq!(ends[0].0, format!("process-{worker}"));
    assert_eq!(world.execution(run)["status"], "Succeeded");
    let waiting = world.store.inbox(run).await.expect("an inbox");
    assert!(waiting.is_empty(), "the record consumed the offer");
}

#[tokio::test]
async fn a_cancel_reaches_the_worker_that_has_the_attempt() {
    let world = world();
    world.publish(PLAIN).await;
    world.join_as(&[Role::Orchestrator]).await;
    let front = world.join_as(&[Role::Api]).await;
    world.join_as(&[Role::Worker]).await;
    let engine = world.engine_of(front);
    let run = start(&engine, "plain").await;
    until("the worker has it", async || world.stage.is_open(run)).await;
    let cancel = command(RunCommand::Cancel { compensate: false });
    engine.command(run, cancel).await.expect("it is taken");
    world.ended(run).await;
    until("the action stops", async || !world.stage.is_open(run)).await;
    assert_eq!(world.execution(run)["status"], "Cancelled");
}

#[tokio::test]
async fn what_waits_for_a_worker_does_not_begin_while_its_run_is_paused() {
    let world = world();
    world.publish(PLAIN).await;
    let front = world.join_as(&[Role::Orchestrator, Role::Api]).await;
    let engine = world.engine_of(front);
    let run = start(&engine, "plain").await;
    until("it waits in the queue", async || {
        let depth = engine.store().queue_depth(10).await.expect("a depth");
        depth.iter().any(|kind| kind.waiting == 1)
    })
    .await;
    let pause = command(RunCommand::Pause);
    engine.command(run, pause).await.expect("it is taken");
    world.join_as(&[Role::Worker]).await;
    until("the worker leaves it alone", async || {
        let depth = engine.store().queue_depth(10).await.expect("a depth");
        depth.is_empty()
    })
    .await;
    assert!(!world.stage.is_open(run));
    let resume = command(RunCommand::Resume);
    engine.command(run, resume).await.expect("it is taken");
    world
        .stage
        .give(run, "n", false, Word::Succeed(json!(1)))
        .await;
    world.ended(run).await;
}

fn poll(worker: &str) -> Poll {
    Poll {
        tenant: None,
        worker: worker.into(),
        actions: vec![Declaration {
            action: "other".into(),
            parameters: None,
            description: None,
        }],
        labels: Vec::new(),
        slots: 1,
        wait: Duration::from_secs(20),
        holding: None,
    }
}

/// The first attempt of the only node of a run.
fn first_attempt(run: RunId) -> WorkKey {
    WorkKey {
        run,
        instance: 0,
        attempt: 1,
    }
}

async fn task(engine: &Engine, worker: &str) -> WorkerTask {
    let tasks = engine.poll_work(poll(worker), std::future::pending()).await;
    tasks.expect("a poll").pop().expect("a task")
}

async fn finish(engine: &Engine, task: &WorkerTask, output: Value) -> Result<(), WorkError> {
    report(engine, task, succeeded(output, Vec::new())).await
}

fn succeeded(output: Value, resources: Vec<ResourceLink>) -> TaskOutcome {
    TaskOutcome::Succeeded {
        output: serde_json::value::to_raw_value(&output).ok(),
        meta: None,
        resources,
    }
}

async fn report(engine: &Engine, task: &WorkerTask, outcome: TaskOutcome) -> Result<(), WorkError> {
    engine
        .finish_task(None, task.task, &task.lease, outcome)
        .await
}

/// An orchestrator, two processes that serve workers, and a run that waits for one.
async fn served() -> (Arc<World>, Engine, Engine, RunId) {
    served_by(OTHER, |options| options).await
}

/// The same for a definition with the id "other", in processes with options of their own.
async fn served_by(
    definition: &str,
    change: fn(Options) -> Options,
) -> (Arc<World>, Engine, Engine, RunId) {
    let world = world();
    world.publish(definition).await;
    let (one, two) = (
        world.join_with(&[Role::Api], change).await,
        world.join_with(&[Role::Api], change).await,
    );
    let (one, two) = (world.engine_of(one), world.engine_of(two));
    let nothing = Poll {
        wait: Duration::ZERO,
        ..poll("w")
    };
    let declared = one.poll_work(nothing, std::future::pending()).await;
    assert!(declared.expect("a poll").is_empty());
    world.join_with(&[Role::Orchestrator], change).await;
    let run = start(&two, "other").await;
    (world, one, two, run)
}

#[tokio::test]
async fn a_worker_is_served_by_processes_that_own_nothing() {
    let (world, one, two, run) = served().await;
    let handed = task(&one, "w").await;
    assert_eq!(&*handed.parameters, r#"{"of":7}"#);
    assert_eq!(handed.dispatch.run, run);
    let stop = two.keep_task(None, handed.task, &handed.lease).await;
    assert!(!stop.expect("any process renews the lease"));
    finish(&two, &handed, json!({ "done": 1 }))
        .await
        .expect("it is recorded");
    let ends = ends(&world, run).await;
    assert_eq!(ends.len(), 1, "200 says that the log has it");
    assert_eq!(ends[0].1.as_deref(), Some(&*handed.lease));
    world.ended(run).await;
    finish(&one, &handed, json!(null))
        .await
        .expect("a repeated report gets the first answer");
    for engine in [&one, &two] {
        let skipped = TaskOutcome::Skipped;
        let other = engine.finish_task(None, handed.task, &handed.lease, skipped);
        let other = other.await;
        assert!(matches!(other, Err(WorkError::TaskEnded)), "{other:?}");
    }
    let row = world.store.run(run).await.expect("a row").expect("a run");
    assert_eq!(row.status, RunStatus::Succeeded);
}

#[tokio::test]
async fn every_process_says_which_worker_has_an_attempt_or_that_none_polls_for_it() {
    // Without heartbeats the worker keeps the attempt for as long as the test asks.
    let lasting = |options| Options {
        work_lease_ms: 60_000,
        ..options
    };
    let (world, one, two, run) = served_by(OTHER, lasting).await;
    let key = first_attempt(run);
    let state = async |engine: &Engine, action: &str, requires: &[Box<str>]| {
        let state = engine.work_state(None, key, action, requires).await;
        state.expect("an answer")
    };
    let is_queued = async || !world.store.known(&[key]).await.expect("a queue").is_empty();
    until("it is in the queue", is_queued).await;
    // The worker polls at the first process alone.
    let polled = async || state(&two, "other", &[]).await == WorkState::Polled(1);
    until("the other process knows of it", polled).await;
    let gpu: [Box<str>; 1] = ["gpu".into()];
    assert_eq!(state(&two, "other", &gpu).await, WorkState::Lacking);
    assert_eq!(state(&two, "none", &[]).await, WorkState::Undeclared);
    let handed = task(&one, "w").await;
    for engine in [&one, &two] {
        let state = state(engine, "other", &[]).await;
        let is_with = matches!(&state, WorkState::With { worker, .. } if **worker == *"w");
        assert!(is_with, "{state:?}");
    }
    finish(&two, &handed, json!(1)).await.expect("recorded");
    world.ended(run).await;
    // One that is not in the queue, of an action that no worker has declared.
    let gone = state(&two, "none", &[]).await;
    assert_eq!(gone, WorkState::Unqueued(Box::new(WorkState::Undeclared)));
}

#[tokio::test]
async fn of_two_leases_the_later_one_counts_at_every_process() {
    let (world, one, two, run) = served().await;
    let first = task(&one, "first").await;
    // Without a heartbeat the task goes to another worker.
    let second = task(&two, "second").await;
    assert_eq!((second.dispatch.run, second.dispatch.attempt), (run, 1));
    let lost = finish(&two, &first, json!(1)).await;
    assert!(matches!(lost, Err(WorkError::LeaseLost)), "{lost:?}");
    let lost = one.keep_task(None, first.task, &first.lease).await;
    assert!(matches!(lost, Err(WorkError::LeaseLost)), "{lost:?}");
    finish(&one, &second, json!(2))
        .await
        .expect("it is recorded");
    world.ended(run).await;
    let ended = finish(&one, &first, json!(1)).await;
    assert!(matches!(ended, Err(WorkError::LeaseLost)), "{ended:?}");
    assert_eq!(ends(&world, run).await.len(), 1);
}

#[tokio::test]
async fn of_a_task_that_waits_only_the_last_lease_counts() {
    let (world, one, two, run) = served().await;
    let first = task(&one, "first").await;
    let second = task(&two, "second").await;
    until("the second lease runs out too", async || {
        let known = world.store.known(&[second.dispatch_key()]).await;
        let (_, state) = known.expect("a state").pop().expect("an item");
        matches!(state, ItemState::Waiting { .. })
    })
    .await;
    let lost = finish(&one, &first, json!(1)).await;
    assert!(matches!(lost, Err(WorkError::LeaseLost)), "{lost:?}");
    assert_eq!(ends(&world, run).await, []);
    finish(&one, &second, json!(2))
        .await
        .expect("no other worker has had it since");
    world.ended(run).await;
    let ends = ends(&world, run).await;
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].1.as_deref(), Some(&*second.lease));
}

#[tokio::test]
async fn a_queue_that_lost_everything_is_filled_again() {
    let (world, one, _, run) = served().await;
    let handed = task(&one, "w").await;
    let key = handed.task.to_string();
    world
        .store
        .withdraw(&[handed.dispatch_key()])
        .await
        .expect("it is lost");
    let again = task(&one, "w").await;
    assert_eq!(again.task.to_string(), key, "the log knows what is open");
    finish(&one, &again, json!(1))
        .await
        .expect("it is recorded");
    world.ended(run).await;
    assert_eq!(ends(&world, run).await.len(), 1);
}

#[tokio::test]
async fn an_attempt_whose_settled_outcome_is_recorded_leaves_no_copy_in_the_queue() {
    let (world, _, _, run) = served().await;
    let key = first_attempt(run);
    let is_queued = async || !world.store.known(&[key]).await.expect("a queue").is_empty();
    until("it is in the queue", is_queued).await;
    // A worker settles it: the item goes, and its owner finds it missing before it hears why.
    world.store.withdraw(&[key]).await.expect("it is gone");
    until("it is in the queue again", is_queued).await;
    let wire = json!({
        "v": 1, "lease": "s.1", "number": 1, "worker": "w", "isAwaited": false,
        "isSettled": true, "started": 1, "ended": 2, "end": {"succeeded": {"text": "1"}},
    });
    let row = world.store.run(run).await.expect("a row").expect("a run");
    let offer = Offer {
        run,
        partition: row.partition,
        key: "outcome/0/1/1".into(),
        bytes: wire.to_string().into_bytes(),
    };
    let offered = world.store.offer(vec![offer]).await.expect("it is offered");
    assert_eq!(offered, [true]);
    world.ended(run).await;
    assert_eq!(ends(&world, run).await.len(), 1);
    until("no worker gets it any more", async || !is_queued().await).await;
}

/// The variable cannot be set.
const UNSETTABLE: &str = r#"{"id":"other","nodes":[{"id":"n","actionType":"other",
    "parameters":{"of":"{{ trigger.of }}"},"setVars":{"x":"{{ output.missing }}"}}]}"#;

/// A worker reports success, of which the engine makes a failure with this code: each report gets the
/// same answer.
async fn is_accepted(definition: &str, resources: Vec<ResourceLink>, code: &str) {
    let (world, one, two, run) = served_by(definition, |options| options).await;
    let handed = task(&one, "w").await;
    for engine in [&two, &two, &one] {
        let completed = succeeded(json!({ "a": 1 }), resources.clone());
        let answer = report(engine, &handed, completed).await;
        assert!(answer.is_ok(), "{code}: {answer:?}");
    }
    world.ended(run).await;
    let shown = world.execution(run);
    assert_eq!(shown["status"], "Failed", "{shown}");
    assert!(shown.to_string().contains(code), "{shown}");
    let failed = ActionError::failed("REFUSED", "no");
    let other = report(&two, &handed, TaskOutcome::Failed(failed)).await;
    assert!(matches!(other, Err(WorkError::TaskEnded)), "{other:?}");
    assert_eq!(ends(&world, run).await.len(), 1);
}

#[tokio::test]
async fn a_completion_is_accepted_though_its_run_makes_a_failure_of_it() {
    is_accepted(UNSETTABLE, Vec::new(), "TEMPLATE_UNDEFINED").await;
}

#[tokio::test]
async fn a_completion_is_accepted_though_what_comes_with_it_is_invalid() {
    let invalid = ResourceLink {
        system: "x".repeat(300).into(),
        kind: "order".into(),
        id: "7".into(),
        url: None,
    };
    is_accepted(OTHER, vec![invalid], "RESOURCE_INVALID").await;
}

#[tokio::test]
async fn the_deaths_of_owners_that_call_no_action_are_not_held_against_their_runs() {
    let world = world();
    world.publish(PLAIN).await;
    let front = world.join_as(&[Role::Api]).await;
    world.join_as(&[Role::Worker]).await;
    let mut owner = world.join_as(&[Role::Orchestrator]).await;
    let run = start(&world.engine_of(front), "plain").await;
    until("the worker has it", async || world.stage.is_open(run)).await;
    for _ in 0..2 {
        let (_, before) = world.owner(run).await;
        world.kill(owner);
        owner = world.join_as(&[Role::Orchestrator]).await;
        until("the next owner has recovered it", async || {
            let events = world.events(run).await;
            events.last().is_some_and(|(writer, _)| *writer != before)
        })
        .await;
    }
    let engine = world.engine_of(front);
    let loaded = tokio::task::spawn_blocking(move || engine.load(run));
    let loaded = loaded.await.expect("it is read").expect("a run");
    assert_eq!(loaded.run.deaths(), 0, "its attempt was with a worker");
    world
        .stage
        .give(run, "n", false, Word::Succeed(json!(1)))
        .await;
    world.ended(run).await;
}
