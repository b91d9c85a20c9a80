//! One accounting of `concurrency` for several processes: the limit holds over all of them, and
//! no place is lost with a process.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_core::{RunId, RunStatus};
use windlass_engine::StartRequest;
use windlass_store::{MemoryStore, Partitions};
use windlass_test_support::cluster::{Word, World};

fn gated(limit: u32) -> String {
    format!(
        r#"{{"id":"gated","concurrency":{{"key":"k","limit":{limit}}},
            "nodes":[{{"id":"n","actionType":"test"}}]}}"#
    )
}

/// Processes over a store in memory with eight partitions.
async fn world(limit: u32) -> Arc<World> {
    let store = MemoryStore::new();
    store.set_partitions(8);
    let world = World::new(Arc::new(store));
    world.publish(&gated(limit)).await;
    for _ in 0..3 {
        world.join().await;
    }
    world.spread().await;
    world
}

async fn start(world: &World, count: usize) -> Vec<RunId> {
    let mut runs = Vec::new();
    for turn in 0..count {
        let engine = world.engine(turn);
        let started = engine.enqueue("gated", None, StartRequest::default()).await;
        runs.push(started.expect("it is queued").run);
    }
    runs
}

/// Lets a run that has begun go on for a while, so that another would be seen beside it, and end.
async fn end(world: Arc<World>, run: RunId) {
    while !world.stage.is_open(run) {
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    tokio::time::sleep(Duration::from_millis(25)).await;
    let word = Word::Succeed(json!(1));
    world.stage.give(run, "n", false, word).await;
}

async fn end_all(world: &Arc<World>, runs: &[RunId]) {
    let ending = runs.iter().map(|&run| end(Arc::clone(world), run));
    futures_util::future::join_all(ending).await;
    for &run in runs {
        world.ended(run).await;
        let row = world.store.run(run).await.expect("a row").expect("a run");
        assert_eq!(row.status, RunStatus::Succeeded);
    }
}

async fn no_place_is_left(world: &World) {
    let places = async || {
        let places = world.store.places(&Partitions::All, None, 9).await;
        places.expect("places")
    };
    while !places().await.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_limit_holds_over_all_processes() {
    for limit in [1, 2] {
        let world = world(limit).await;
        let runs = start(&world, 9).await;
        end_all(&world, &runs).await;
        assert_eq!(world.stage.most_runs(), limit as usize);
        no_place_is_left(&world).await;
    }
}

#[tokio::test]
async fn a_limit_holds_while_processes_die_and_none_of_its_places_is_lost() {
    let world = world(1).await;
    let runs = start(&world, 8).await;
    let disturbed = Arc::clone(&world);
    let disturbing = tokio::spawn(async move {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let oldest = disturbed.live()[0];
            disturbed.join().await;
            disturbed.kill(oldest);
        }
    });
    end_all(&world, &runs).await;
    disturbing.await.expect("processes came and went");
    assert_eq!(world.stage.most_runs(), 1);
    no_place_is_left(&world).await;
}
