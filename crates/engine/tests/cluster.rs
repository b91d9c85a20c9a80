//! Several engines share a store: partitions are divided between them, and another engine recovers
//! what one leaves behind. The cases are those that the rules are held against
//! (`core/tests/fixtures`), played by real engines.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_core::RunStatus;
use windlass_engine::StartRequest;
use windlass_store::MemoryStore;
use windlass_test_support::cluster::{Word, World, play_all};

/// Processes over a store in memory with eight partitions.
fn world() -> Arc<World> {
    let store = MemoryStore::new();
    store.set_partitions(8);
    World::new(Arc::new(store))
}

#[tokio::test]
async fn the_semantic_cases_hold_where_two_processes_divide_the_partitions() {
    let world = world();
    let (first, second) = (world.join().await, world.join().await);
    play_all(Arc::clone(&world), async {}).await;
    let processes = world.stage.processes();
    assert!(processes.contains(&first) && processes.contains(&second));
}

#[tokio::test]
async fn the_semantic_cases_hold_where_processes_die_and_others_come() {
    let world = world();
    let mut oldest = world.join().await;
    world.join().await;
    let disturbed = Arc::clone(&world);
    let disturb = async move {
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(120)).await;
            disturbed.join().await;
            disturbed.kill(oldest);
            oldest = disturbed.live()[0];
        }
    };
    play_all(world, disturb).await;
}

#[tokio::test]
async fn the_semantic_cases_hold_where_processes_stop_and_hand_over() {
    let world = world();
    world.join().await;
    let disturbed = Arc::clone(&world);
    let disturb = async move {
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(80)).await;
            let oldest = disturbed.live()[0];
            disturbed.join().await;
            disturbed.stop(oldest).await;
        }
    };
    play_all(world, disturb).await;
}

const PLAIN: &str = r#"{"id":"plain","nodes":[{"id":"n","actionType":"test"}]}"#;

#[tokio::test]
async fn runs_that_wait_in_a_process_that_dies_end_in_the_other() {
    let world = world();
    let (first, _) = (world.join().await, world.join().await);
    world.publish(PLAIN).await;
    let mut runs = Vec::new();
    for turn in 0..24 {
        let started = world
            .engine(turn)
            .enqueue("plain", None, StartRequest::default())
            .await;
        runs.push(started.expect("it is queued").run);
    }
    while world.stage.waiting() < runs.len() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.kill(first);
    for &run in &runs {
        let word = Word::Succeed(json!(1));
        world.stage.give(run, "n", false, word).await;
    }
    let engine = world.engine(0);
    for run in runs {
        assert_eq!(
            engine.wait(run).await.expect("it ends"),
            RunStatus::Succeeded
        );
    }
}
