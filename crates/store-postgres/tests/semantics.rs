//! Real engines over PostgreSQL play the cases that the rules of a run are held against
//! (`core/tests/fixtures`): two processes that divide the partitions, and processes that die and
//! hand over.

use std::sync::Arc;
use std::time::Duration;

use windlass_store_postgres::{PostgresStore, Settings};
use windlass_test_support::cluster::{World, play_all};
use windlass_test_support::postgres::server;

/// Processes over a store in PostgreSQL with eight partitions.
fn world() -> Arc<World> {
    let settings = Settings::parse(&server().fresh()).expect("a URL");
    let store = PostgresStore::open(&settings.partitions(8)).expect("a store");
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
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(200)).await;
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
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let oldest = disturbed.live()[0];
            disturbed.join().await;
            disturbed.stop(oldest).await;
        }
    };
    play_all(world, disturb).await;
}
