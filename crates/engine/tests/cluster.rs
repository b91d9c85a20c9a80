//! Several engines share a store: partitions are divided between them, and another engine recovers
//! what one leaves behind. The cases are those that the rules are held against
//! (`core/tests/fixtures`), played by real engines.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_core::{RunId, RunStatus};
use windlass_engine::{LoadError, StartRequest};
use windlass_orchestrator::codec::RECORD_VERSION;
use windlass_store::{Append, Envelope, EnvelopeKind, Error, MemoryStore, WriterId};
use windlass_test_support::cluster::{
    Word, World, play_where_processes_die, play_where_processes_hand_over,
    play_where_two_divide_the_partitions,
};

/// Processes over a store in memory with eight partitions.
fn world() -> Arc<World> {
    let store = MemoryStore::new();
    store.set_partitions(8);
    World::new(Arc::new(store))
}

#[tokio::test]
async fn the_semantic_cases_hold_where_two_processes_divide_the_partitions() {
    play_where_two_divide_the_partitions(world()).await;
}

#[tokio::test]
async fn the_semantic_cases_hold_where_processes_die_and_others_come() {
    play_where_processes_die(world(), 4, Duration::from_millis(120)).await;
}

#[tokio::test]
async fn the_semantic_cases_hold_where_processes_stop_and_hand_over() {
    play_where_processes_hand_over(world(), 4, Duration::from_millis(80)).await;
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

/// Appends a record that only a newer program can read.
async fn append_newer(world: &World, run: RunId, record: Vec<u8>) {
    let head = world.store.head(run).await.expect("a head");
    let append = Append::of_record(run, head, (WriterId(1), head.sequence + 1), record);
    let answer = world.store.append(vec![append]).await.pop();
    answer.expect("an answer").expect("it is appended");
}

#[tokio::test]
async fn a_run_with_records_of_a_newer_process_is_left_to_such_a_process() {
    let of = |version, body: &str| {
        let mut record = Envelope::header(EnvelopeKind::Record, version).to_vec();
        record.extend_from_slice(body.as_bytes());
        record
    };
    for record in [
        of(RECORD_VERSION + 1, "what it says is not known"),
        of(RECORD_VERSION, r#"{"at":1,"events":[{"Imagined":{}}]}"#),
    ] {
        let world = world();
        world.publish(PLAIN).await;
        let start = async |process| {
            let engine = world.engine_of(process);
            let request = StartRequest::default();
            let started = engine.enqueue("plain", None, request).await;
            started.expect("it is queued").run
        };
        let first = world.join().await;
        let run = start(first).await;
        while !world.stage.is_open(run) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        world.kill(first);
        append_newer(&world, run, record).await;
        let head = world.store.head(run).await.expect("a head");
        let second = world.join().await;
        let engine = world.engine_of(second);
        // It owns the run, and cannot read it.
        let error = loop {
            match engine.recover(run).await {
                Err(LoadError::Store(error)) => break error,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        assert!(matches!(error, Error::TooNew(_)), "{error:?}");
        // Other runs go on, while it looks at this one again and again.
        for _ in 0..3 {
            let other = start(second).await;
            let word = Word::Succeed(json!(1));
            world.stage.give(other, "n", false, word).await;
            world.ended(other).await;
        }
        let row = world.store.run(run).await.expect("a row").expect("a run");
        assert!(!row.dead, "a newer process continues it");
        assert_eq!(world.store.head(run).await.expect("a head"), head);
    }
}
