//! Clients that watch runs of other processes: owners ring for these runs, and for no others.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_core::RunId;
use windlass_engine::{Engine, StartRequest, StreamItem};
use windlass_store::{Bell, Listener, MemoryStore, Role};
use windlass_test_support::cluster::{Word, World};

const PLAIN: &str = r#"{"id":"plain","nodes":[{"id":"n","actionType":"test"},
    {"id":"m","actionType":"test","dependsOn":["n"]}]}"#;

/// An owner, a worker, and a process that answers clients.
async fn world() -> (Arc<World>, Engine) {
    let store = MemoryStore::new();
    store.set_partitions(8);
    let world = World::new(Arc::new(store));
    world.publish(PLAIN).await;
    world.join_as(&[Role::Orchestrator, Role::Worker]).await;
    let front = world.join_as(&[Role::Api]).await;
    let front = world.engine_of(front);
    (world, front)
}

async fn start(engine: &Engine) -> RunId {
    let started = engine.enqueue("plain", None, StartRequest::default()).await;
    started.expect("it is queued").run
}

async fn give(world: &World, run: RunId, node: &str) {
    let word = Word::Succeed(json!(1));
    world.stage.give(run, node, false, word).await;
}

/// Hears bells until one rings; all that rang.
async fn hear(listener: &mut Box<dyn Listener>, until: impl Fn(&Bell) -> bool) -> Vec<Bell> {
    let mut heard = Vec::new();
    while !heard.iter().any(&until) {
        heard.extend(listener.hear().await.expect("bells"));
    }
    heard
}

#[tokio::test]
async fn owners_ring_for_the_records_of_watched_runs_alone() {
    let (world, front) = world().await;
    let mut listener = world.store.listen().await.expect("a listener");
    let (watched, other) = (start(&front).await, start(&front).await);
    let mut events = front.event_stream(watched, 0);
    let watching = tokio::spawn(async move {
        let mut kinds = Vec::new();
        while let StreamItem::Event(event) = events.next().await {
            kinds.push(event.kind.to_string());
        }
        kinds
    });
    let told = |bell: &Bell| matches!(bell, Bell::Watch(_, run) if *run == watched);
    let rung = |bell: &Bell| *bell == Bell::Run(watched);
    let heard = hear(&mut listener, told).await;
    if !heard.iter().any(rung) {
        hear(&mut listener, rung).await;
    }
    // Another record of each.
    give(&world, other, "n").await;
    give(&world, watched, "n").await;
    let mut heard = hear(&mut listener, rung).await;
    give(&world, other, "m").await;
    world.ended(other).await;
    give(&world, watched, "m").await;
    let kinds = watching.await.expect("a watcher");
    assert_eq!(
        kinds.last().map(|it| &**it),
        Some("RunFinished"),
        "{kinds:?}"
    );
    heard.extend(hear(&mut listener, rung).await);
    assert!(!heard.contains(&Bell::Run(other)), "{heard:?}");
}

#[tokio::test]
async fn a_caller_that_waits_for_the_end_of_a_run_is_rung_by_its_owner() {
    let (world, front) = world().await;
    let mut listener = world.store.listen().await.expect("a listener");
    let run = start(&front).await;
    let waiting = {
        let front = front.clone();
        tokio::spawn(async move { front.wait(run).await })
    };
    let told = |bell: &Bell| matches!(bell, Bell::Watch(_, it) if *it == run);
    hear(&mut listener, told).await;
    give(&world, run, "n").await;
    give(&world, run, "m").await;
    let status = waiting.await.expect("a caller").expect("a status");
    assert!(status.is_final());
    let ended = tokio::time::timeout(Duration::from_secs(20), front.wait(run)).await;
    assert!(ended.expect("at once").expect("a status").is_final());
}
