//! Pools and node priority in one process: the limit holds over all runs, the line goes by priority
//! and age, and no slot is lost.

use std::time::Duration;

use crate::serve_world::{Floor, World};
use windlass_core::command::RunCommand;
use windlass_core::event::{Actor, Event};
use windlass_core::{RunId, RunStatus};
use windlass_engine::Serving;
use windlass_orchestrator::codec;
use windlass_store::{Log as _, PoolKey, PoolRemoval, PoolUse, Pools as _, Queries as _};

/// One node in the pool `p`, and one without a pool beside it.
const POOLED: &str = r#"{"id":"w","nodes":[
    {"id":"n","actionType":"test.work","pool":{"name":"p"},
     "parameters":{"key":"p","fate":"{{ trigger.fate ?? 'ok' }}"}},
    {"id":"beside","actionType":"core.echo"}]}"#;

fn pool() -> PoolKey {
    PoolKey::new(None, "p")
}

async fn world(slots: u32, text: &str) -> World {
    let world = World::new(0);
    world.publish(None, text).await;
    world.engine.put_pool(pool(), slots).await.expect("a pool");
    world
        .engine
        .serve(Serving::default())
        .await
        .expect("serves");
    world
}

async fn usage(world: &World) -> PoolUse {
    world.store.pool_use(&pool(), 100).await.expect("its use")
}

/// Waits until attempts hold so many slots, and so many wait.
async fn settle(world: &World, used: u64, waiting: u64) {
    loop {
        let now = usage(world).await;
        if (now.used, now.waiting) == (used, waiting) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until so many attempts work.
async fn working(world: &World, count: usize) {
    while world.floor.working() != count {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn end(world: &mut World, count: usize) -> Vec<RunId> {
    let mut runs = Vec::new();
    for _ in 0..count {
        let (run, status) = world.next_ended().await;
        assert_eq!(status, RunStatus::Succeeded);
        runs.push(run);
    }
    runs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_holds_over_many_runs_and_a_node_that_waits_keeps_no_other_waiting() {
    let mut world = world(3, POOLED).await;
    for _ in 0..20 {
        world.enqueue(None, "{}").await;
    }
    settle(&world, 3, 17).await;
    working(&world, 3).await;
    world.floor.permits.add_permits(20);
    end(&mut world, 20).await;
    assert_eq!(world.floor.most("p"), 3);
    settle(&world, 0, 0).await;
    let removed = world.engine.remove_pool(&pool()).await.expect("an answer");
    assert_eq!(removed, PoolRemoval::Removed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_goes_by_priority_then_age() {
    let mut world = world(1, POOLED).await;
    let first = world.enqueue(None, "{}").await;
    settle(&world, 1, 0).await;
    let mut line = Vec::new();
    for (place, priority) in [5, 1, 9, 5].into_iter().enumerate() {
        line.push(world.enqueue_with(None, "{}", priority).await);
        settle(&world, 1, place as u64 + 1).await;
    }
    let waiters = usage(&world).await.waiters;
    let waiters: Vec<RunId> = waiters.iter().map(|it| it.attempt.run).collect();
    let expected = [line[2], line[0], line[3], line[1]];
    assert_eq!(waiters, expected);
    let mut order = vec![first];
    order.extend(expected);
    for run in order {
        working(&world, 1).await;
        let holders = usage(&world).await.holders;
        assert_eq!(holders[0].attempt.run, run);
        world.floor.permits.add_permits(1);
        assert_eq!(world.next_ended().await.0, run);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_larger_pool_lets_others_go_at_once_and_a_smaller_one_stops_none() {
    let mut world = world(1, POOLED).await;
    for _ in 0..6 {
        world.enqueue(None, "{}").await;
    }
    settle(&world, 1, 5).await;
    let before = world.engine.put_pool(pool(), 4).await.expect("a pool");
    assert_eq!(before, Some(1));
    settle(&world, 4, 2).await;
    world.engine.put_pool(pool(), 1).await.expect("a pool");
    settle(&world, 4, 2).await;
    working(&world, 4).await;
    world.floor.permits.add_permits(3);
    end(&mut world, 3).await;
    // One is still over: none of those that wait goes.
    settle(&world, 1, 2).await;
    world.floor.permits.add_permits(3);
    end(&mut world, 3).await;
    assert_eq!(world.floor.most("p"), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_waits_for_its_retry_holds_nothing() {
    let text = r#"{"id":"w","nodes":[
        {"id":"n","actionType":"core.fail","pool":{"name":"p"},
         "parameters":{"code":"AGAIN","message":"again","retriable":true},
         "policies":{"retry":{"maxAttempts":2,"strategy":"fixed","baseDelayMs":3600000,"jitter":false}}}]}"#;
    let world = world(1, text).await;
    let waiting = world.enqueue(None, "{}").await;
    loop {
        let row = world.store.run(waiting).await.expect("a row");
        if row.is_some_and(|row| row.asleep) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    settle(&world, 0, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_paused_or_cancelled_leaves_the_line() {
    let mut world = world(1, POOLED).await;
    let first = world.enqueue(None, "{}").await;
    settle(&world, 1, 0).await;
    let second = world.enqueue(None, "{}").await;
    settle(&world, 1, 1).await;
    let third = world.enqueue(None, "{}").await;
    settle(&world, 1, 2).await;
    let command = async |run, command: RunCommand<_>| {
        let asked = command.by(Actor::default());
        world.engine.command(run, asked).await.expect("done");
    };
    command(second, RunCommand::Pause).await;
    settle(&world, 1, 1).await;
    let cancel = RunCommand::Cancel { compensate: false };
    command(third, cancel).await;
    settle(&world, 1, 0).await;
    command(second, RunCommand::Resume).await;
    settle(&world, 1, 1).await;
    world.floor.permits.add_permits(2);
    let mut ended = Vec::new();
    for _ in 0..3 {
        ended.push(world.next_ended().await);
    }
    assert!(ended.contains(&(first, RunStatus::Succeeded)));
    assert!(ended.contains(&(second, RunStatus::Succeeded)));
    assert!(ended.contains(&(third, RunStatus::Cancelled)));
    assert_eq!(world.floor.most("p"), 1);
    settle(&world, 0, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_attempt_is_not_overtaken_for_ever() {
    let text = r#"{"id":"w","nodes":[
        {"id":"large","actionType":"test.work","pool":{"name":"p","slots":3},
         "parameters":{"key":"large"}}]}"#;
    let mut world = world(3, POOLED).await;
    world.enqueue(None, "{}").await;
    settle(&world, 1, 0).await;
    world.enqueue(None, "{}").await;
    settle(&world, 2, 0).await;
    world.publish(None, text).await;
    let large = world.enqueue(None, "{}").await;
    settle(&world, 2, 1).await;
    world.publish(None, POOLED).await;
    let behind = world.enqueue(None, "{}").await;
    settle(&world, 2, 2).await;
    world.floor.permits.add_permits(2);
    end(&mut world, 2).await;
    settle(&world, 3, 1).await;
    let holders = usage(&world).await.holders;
    assert_eq!(holders[0].attempt.run, large);
    world.floor.permits.add_permits(2);
    assert_eq!(end(&mut world, 2).await, [large, behind]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_nothing_is_lost_and_the_limit_holds() {
    let first = world(2, POOLED).await;
    for _ in 0..5 {
        first.enqueue(None, "{}").await;
    }
    settle(&first, 2, 3).await;
    working(&first, 2).await;
    let World { store, engine, .. } = first;
    engine.shutdown().await;
    let floor = Floor::new(0);
    let mut next = World::on(store, floor);
    next.engine.serve(Serving::default()).await.expect("serves");
    working(&next, 2).await;
    settle(&next, 2, 3).await;
    next.floor.permits.add_permits(5);
    end(&mut next, 5).await;
    assert_eq!(next.floor.most("p"), 2);
    settle(&next, 0, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sequential_run_keeps_its_turn_while_it_waits() {
    let text = r#"{"id":"w","executionMode":"sequential","nodes":[
        {"id":"n","actionType":"test.work","pool":{"name":"p"},"priority":0,"parameters":{"key":"p"}},
        {"id":"after","actionType":"test.work","priority":9,"parameters":{"key":"after"}}]}"#;
    let mut world = world(1, text).await;
    world.enqueue(None, "{}").await;
    settle(&world, 1, 0).await;
    world.enqueue(None, "{}").await;
    settle(&world, 1, 1).await;
    working(&world, 1).await;
    assert_eq!(world.floor.most("after"), 0);
    world.floor.permits.add_permits(4);
    end(&mut world, 2).await;
    assert_eq!(world.floor.most("p"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ready_nodes_go_by_priority_then_in_the_order_they_became_ready() {
    let text = r#"{"id":"w","maxParallel":1,"nodes":[
        {"id":"a","actionType":"core.echo"},
        {"id":"b","actionType":"core.echo","priority":9},
        {"id":"c","actionType":"core.echo","priority":2},
        {"id":"d","actionType":"core.echo"},
        {"id":"e","actionType":"core.echo","priority":9}]}"#;
    let mut world = World::new(0);
    world.publish(None, text).await;
    world
        .engine
        .serve(Serving::default())
        .await
        .expect("serves");
    let run = world.enqueue(None, "{}").await;
    end(&mut world, 1).await;
    let records = world.store.read(run, 1, usize::MAX).await.expect("a log");
    let events = records.iter().flat_map(|record| {
        let transition = codec::decode(&record.bytes).expect("a record");
        transition.events
    });
    let ended: Vec<Box<str>> = events
        .filter_map(|event| match event {
            Event::AttemptEnded(ended) => Some(ended.node.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(ended, ["b", "e", "a", "d", "c"].map(Box::from));
}
