//! Dead letters of runs that have begun, at a process that owns nothing: their owner requeues or
//! purges them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_core::event::Actor;
use windlass_core::{RunId, RunStatus};
use windlass_engine::{CommandError, Engine, StartRequest};
use windlass_store::{MemoryStore, Role};
use windlass_test_support::cluster::{Word, World};

const PLAIN: &str = r#"{"id":"plain","nodes":[{"id":"n","actionType":"test"}]}"#;

/// An owner, a process that serves requests, and a run with which three workers died.
async fn with_letter() -> (Arc<World>, usize, Engine, RunId) {
    let store = MemoryStore::new();
    store.set_partitions(1);
    let world = World::new(Arc::new(store));
    world.publish(PLAIN).await;
    let owner = world.join_as(&[Role::Orchestrator]).await;
    let front = world.join_as(&[Role::Api]).await;
    let engine = world.engine_of(front);
    let request = StartRequest::default();
    let started = engine.enqueue("plain", None, request).await;
    let run = started.expect("it is queued").run;
    for _ in 0..3 {
        let worker = world.join_as(&[Role::Worker]).await;
        while !world.stage.processes().contains(&worker) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        world.kill(worker);
    }
    world.join_as(&[Role::Worker]).await;
    while !row(&world, run).await.dead {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (world, owner, engine, run)
}

async fn row(world: &World, run: RunId) -> windlass_store::RunRow {
    world.store.run(run).await.expect("a row").expect("a run")
}

async fn ends_well(world: &World, run: RunId) {
    let word = Word::Succeed(json!(1));
    world.stage.give(run, "n", false, word).await;
    world.ended(run).await;
    assert_eq!(row(world, run).await.status, RunStatus::Succeeded);
}

#[tokio::test]
async fn a_dead_letter_is_requeued_through_a_process_that_owns_nothing() {
    let (world, _, engine, run) = with_letter().await;
    assert!(engine.requeue(run).await.expect("its owner does it"));
    assert!(!row(&world, run).await.dead);
    assert!(!engine.requeue(run).await.expect("it is none any more"));
    ends_well(&world, run).await;
}

#[tokio::test]
async fn a_dead_letter_is_purged_through_a_process_that_owns_nothing() {
    let (world, _, engine, run) = with_letter().await;
    let actor = Actor {
        by: Some("ana".into()),
        ..Actor::default()
    };
    let purged = engine.purge(run, actor).await;
    assert!(purged.expect("its owner does it"));
    let row = row(&world, run).await;
    assert_eq!((row.status, row.dead), (RunStatus::Failed, false));
    assert_eq!(row.error_code.as_deref(), Some("DEAD_LETTERED"));
}

#[tokio::test]
async fn a_requeue_without_an_owner_stands_until_there_is_one() {
    let (world, owner, engine, run) = with_letter().await;
    world.kill(owner);
    let waits = engine.requeue(run).await;
    assert!(matches!(waits, Err(CommandError::LetterWaits)), "{waits:?}");
    world.join_as(&[Role::Orchestrator]).await;
    ends_well(&world, run).await;
}
