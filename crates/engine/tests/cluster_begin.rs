//! An action is called under a live lease alone: a process that stood still between taking an
//! attempt and calling its action leaves the attempt to the process that has it by then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use windlass_core::RunId;
use windlass_core::event::Event;
use windlass_engine::{Engine, Options, SecretSource, StartRequest};
use windlass_store::{MemoryStore, Role};
use windlass_test_support::cluster::{LEASES, Word, World};

/// A node whose parameters need a secret, which is read after the attempt was taken.
const SEALED: &str = r#"{"id":"sealed","nodes":[{"id":"n","actionType":"test",
    "parameters":{"of":"{{ secrets.word }}"}}]}"#;

/// Stands still when it is first asked: the runtime of the process has one thread, so nothing of
/// the process goes on, as after SIGSTOP.
struct StandsStill {
    asked: AtomicUsize,
    pause: Duration,
}

impl SecretSource for StandsStill {
    fn secret(&self, _: &str) -> Option<String> {
        if self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
            std::thread::sleep(self.pause);
        }
        Some("a secret word".to_owned())
    }
}

/// Secrets whose first read takes this many times the duration of a lease.
fn standing_still(leases: f64) -> impl FnOnce(Options) -> Options {
    let pause = Duration::from_millis(LEASES.duration_ms).mul_f64(leases);
    move |options| Options {
        secrets: Arc::new(StandsStill {
            asked: AtomicUsize::new(0),
            pause,
        }),
        ..options
    }
}

fn prompt() -> impl FnOnce(Options) -> Options {
    standing_still(0.0)
}

async fn world() -> Arc<World> {
    let store = MemoryStore::new();
    store.set_partitions(1);
    let world = World::new(Arc::new(store));
    world.publish(SEALED).await;
    world
}

async fn start(engine: &Engine) -> RunId {
    let started = engine
        .enqueue("sealed", None, StartRequest::default())
        .await;
    started.expect("it is queued").run
}

/// Waits until a process has called the action, then as long as the other would need.
async fn called_by(world: &World, run: RunId) -> Vec<usize> {
    while !world.stage.is_open(run) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(3 * LEASES.duration_ms)).await;
    world.stage.processes().into_iter().collect()
}

async fn ends_once(world: &World, run: RunId) {
    let word = Word::Succeed(json!(1));
    world.stage.give(run, "n", false, word).await;
    world.ended(run).await;
    let events = world.events(run).await;
    let ends = events
        .iter()
        .filter(|it| matches!(it.1, Event::AttemptEnded(_)));
    assert_eq!(ends.count(), 1);
    assert_eq!(world.execution(run)["status"], "Succeeded");
}

#[tokio::test]
async fn a_worker_that_stood_still_past_its_lease_calls_nothing() {
    let world = world().await;
    let front = world.join_as(&[Role::Orchestrator, Role::Api]).await;
    world.join_with(&[Role::Worker], standing_still(3.0)).await;
    let run = start(&world.engine_of(front)).await;
    // The first worker has the attempt by then, and stands still.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let heir = world.join_with(&[Role::Worker], prompt()).await;
    assert_eq!(called_by(&world, run).await, [heir]);
    ends_once(&world, run).await;
}

#[tokio::test]
async fn an_owner_that_stood_still_past_its_lease_calls_nothing() {
    let world = world().await;
    let still = world.join_with(&Role::ALL, standing_still(3.0)).await;
    let run = start(&world.engine_of(still)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let heir = world.join_with(&Role::ALL, prompt()).await;
    assert_eq!(called_by(&world, run).await, [heir]);
    ends_once(&world, run).await;
}

#[tokio::test]
async fn a_worker_whose_lease_is_renewed_after_all_calls_the_action() {
    let world = world().await;
    let front = world.join_as(&[Role::Orchestrator, Role::Api]).await;
    // Past the moment at which it stops by its own clock, and before the lease is over.
    let late = world.join_with(&[Role::Worker], standing_still(0.8)).await;
    let run = start(&world.engine_of(front)).await;
    assert_eq!(called_by(&world, run).await, [late]);
    ends_once(&world, run).await;
}
