//! Events as they come, for readers that come and go, are fast and slow.

use std::ops::ControlFlow;

use crate::serve_world::{PLAIN, World};
use windlass_core::command::RunCommand;
use windlass_core::event::Actor;
use windlass_core::{RunId, RunStatus};
use windlass_engine::history::for_each_event;
use windlass_engine::{RunEventStream, Serving, StreamItem};
use windlass_store::Wait as _;

/// What a reader that asks the log itself sees.
fn all(world: &World, run: RunId) -> Vec<String> {
    let mut events = Vec::new();
    let (store, plans) = (&**world.engine.store(), world.engine.plans());
    for_each_event(store, plans, run, |event| {
        events.push(format!("{} {}", event.position, event.kind));
        ControlFlow::Continue(())
    })
    .expect("readable");
    events
}

async fn rest(event_stream: &mut RunEventStream) -> Vec<String> {
    let mut events = Vec::new();
    loop {
        match event_stream.next().await {
            StreamItem::Event(event) => events.push(format!("{} {}", event.position, event.kind)),
            StreamItem::Ended => return events,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_the_same_events_wherever_they_begin() {
    let mut world = World::new(0);
    world.publish(None, PLAIN).await;
    let run = world.enqueue(None, "{}").await;
    // It is not in memory, and nothing has begun.
    let mut early = world.engine.event_stream(run, 0);
    let StreamItem::Event(first) = early.next().await else {
        panic!("no event");
    };
    assert_eq!((first.position, first.kind), (1, "RunQueued"));
    let mut second = world.engine.event_stream(run, 1);
    let reading = tokio::spawn(async move { rest(&mut second).await });
    let serving = Serving::default();
    world.engine.serve(serving).await.expect("serves");
    world.floor.permits.add_permits(1);
    assert_eq!(world.next_ended().await, (run, RunStatus::Succeeded));
    let expected = all(&world, run);
    assert_eq!(rest(&mut early).await, expected[1..]);
    assert_eq!(reading.await.expect("read"), expected[1..]);
    let mut late = world.engine.event_stream(run, 2);
    assert_eq!(rest(&mut late).await, expected[2..]);
    // Asking again changes nothing.
    assert!(matches!(late.next().await, StreamItem::Ended));
    let nobody = RunId::from_bytes([1; 16]);
    assert!(matches!(
        world.engine.event_stream(nobody, 0).next().await,
        StreamItem::Failed(_)
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleeping_run_is_heard_when_it_wakes() {
    let mut world = World::new(0);
    let text = r#"{"id":"w","nodes":[{"id":"s","waitForSignal":{"name":"go"}}]}"#;
    world.publish(None, text).await;
    world
        .engine
        .serve(Serving::default())
        .await
        .expect("serves");
    let run = world.enqueue(None, "{}").await;
    world.next_begun().await;
    let mut event_stream = world.engine.event_stream(run, 0);
    let mut seen = Vec::new();
    while seen.last() != Some(&"SignalWaiting") && seen.len() < 3 {
        if let StreamItem::Event(event) = event_stream.next().await {
            seen.push(event.kind);
        }
    }
    while world.engine.held().await > 0 {
        tokio::task::yield_now().await;
    }
    let engine = world.engine.clone();
    let signal = tokio::spawn(async move {
        engine
            .command(
                run,
                RunCommand::Signal { name: "go".into() }
                    .by(Actor::default())
                    .with("1"),
            )
            .await
    });
    let after = rest(&mut event_stream).await;
    signal.await.expect("sent").expect("taken");
    let expected = all(&world, run);
    assert_eq!(seen.len() + after.len(), expected.len());
    assert_eq!(after, expected[seen.len()..]);
}

/// Reads the events until the run waits, and waits a while, which makes the reader join the follower.
async fn settle(event_stream: &mut RunEventStream) -> u64 {
    let (mut position, mut has_begun_to_wait) = (0, false);
    loop {
        let waiting =
            tokio::time::timeout(std::time::Duration::from_millis(100), event_stream.next());
        match waiting.await {
            Ok(StreamItem::Event(event)) => {
                position = event.position;
                has_begun_to_wait |= event.kind == "NodeWaiting";
            }
            Ok(other) => panic!("{other:?}"),
            Err(_) if has_begun_to_wait => return position,
            Err(_) => {}
        }
    }
}

/// A reader that sleeps while another one reads; gives how often it was notified that it fell
/// behind.
async fn lag() -> usize {
    let mut world = World::new(0);
    let text = r#"{"id":"w","nodes":[
        {"id":"s","waitForSignal":{"name":"go"},"edges":[{"targetNode":"l"}]},
        {"id":"l","forEach":{"items":"{{ trigger }}","body":{"nodes":[
            {"id":"n","actionType":"core.echo"}]}}}]}"#;
    world.publish(None, text).await;
    let serving = Serving::default();
    world.engine.serve(serving).await.expect("serves");
    let items = format!("[{}0]", "0,".repeat(999));
    let run = world.enqueue(None, &items).await;
    world.next_begun().await;
    let (mut slow, mut fast) = (
        world.engine.event_stream(run, 0),
        world.engine.event_stream(run, 0),
    );
    let mut position = settle(&mut slow).await;
    let seen = settle(&mut fast).await;
    assert_eq!(seen, position);
    let reading = tokio::spawn(async move { rest(&mut fast).await });
    let signal = world.engine.command(
        run,
        RunCommand::Signal { name: "go".into() }
            .by(Actor::default())
            .with("1"),
    );
    signal.await.expect("taken");
    assert_eq!(world.next_ended().await, (run, RunStatus::Succeeded));
    let expected = all(&world, run);
    assert!(expected.len() > 2000, "{}", expected.len());
    assert_eq!(reading.await.expect("read"), expected[seen as usize..]);
    let mut lagged = 0;
    loop {
        match slow.next().await {
            StreamItem::Event(event) => {
                assert_eq!(event.position, position + 1);
                position = event.position;
            }
            StreamItem::Lagged => lagged += 1,
            StreamItem::Ended => break,
            StreamItem::Failed(reason) => panic!("{reason}"),
        }
    }
    assert_eq!(position, expected.len() as u64);
    lagged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_is_told_and_misses_nothing() {
    // On a machine that is slow enough even the slow reader may keep up.
    for _ in 0..5 {
        if lag().await == 1 {
            return;
        }
    }
    panic!("it was never told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_shows_lists_hears_that_something_changed() {
    let mut world = World::new(1);
    world.publish(None, PLAIN).await;
    let mut changes = world.engine.changes();
    let run = world.enqueue(None, "{}").await;
    changes.changed().await.expect("the engine lives");
    world
        .engine
        .serve(Serving::default())
        .await
        .expect("serves");
    changes.changed().await.expect("the engine lives");
    assert_eq!(world.next_ended().await.0, run);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_back_soon_goes_on_where_it_was() {
    let mut world = World::new(0);
    world.publish(None, PLAIN).await;
    let run = world.enqueue(None, "{}").await;
    let followed = |world: &World| world.engine.stats().wait().expect("numbers").followed;
    let mut event_stream = world.engine.event_stream(run, 0);
    assert!(matches!(event_stream.next().await, StreamItem::Event(_)));
    // The feed waits for the second event, which starts a follower of the run.
    let mut waits = 0;
    while followed(&world) == 0 {
        let waiting =
            tokio::time::timeout(std::time::Duration::from_millis(50), event_stream.next()).await;
        assert!(waiting.is_err());
        waits += 1;
        assert!(waits < 600, "no follower is started");
    }
    assert_eq!(followed(&world), 1);
    for _ in 0..3 {
        drop(event_stream);
        tokio::task::yield_now().await;
        assert_eq!(followed(&world), 1, "it is kept for who comes back");
        event_stream = world.engine.event_stream(run, 1);
        let waiting =
            tokio::time::timeout(std::time::Duration::from_millis(20), event_stream.next());
        assert!(waiting.await.is_err());
        assert_eq!(followed(&world), 1, "and nobody reads the log again");
    }
    drop(event_stream);
    world
        .engine
        .serve(Serving::default())
        .await
        .expect("serves");
    world.floor.permits.add_permits(1);
    assert_eq!(world.next_ended().await, (run, RunStatus::Succeeded));
    let expected = all(&world, run);
    let mut again = world.engine.event_stream(run, 1);
    assert_eq!(rest(&mut again).await, expected[1..]);
    // What has ended has no more to tell, until it is opened again.
    let last = expected.len() as u64;
    assert!(matches!(
        world.engine.event_stream(run, last).next().await,
        StreamItem::Ended
    ));
}
