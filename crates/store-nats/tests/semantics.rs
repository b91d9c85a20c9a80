//! Real engines over NATS play the cases that the rules of a run are held against
//! (`core/tests/fixtures`): two processes that divide the partitions, and processes that die and
//! hand over.

use std::sync::Arc;
use std::time::Duration;

use windlass_test_support::cluster::{
    World, play_where_processes_die, play_where_processes_hand_over,
    play_where_two_divide_the_partitions,
};

/// Processes over a store in NATS.
fn world() -> Arc<World> {
    World::new(Arc::new(crate::common::open()))
}

#[tokio::test]
async fn the_semantic_cases_hold_where_two_processes_divide_the_partitions() {
    play_where_two_divide_the_partitions(world()).await;
}

#[tokio::test]
async fn the_semantic_cases_hold_where_processes_die_and_others_come() {
    play_where_processes_die(world(), 3, Duration::from_millis(200)).await;
}

#[tokio::test]
async fn the_semantic_cases_hold_where_processes_stop_and_hand_over() {
    play_where_processes_hand_over(world(), 3, Duration::from_millis(150)).await;
}
