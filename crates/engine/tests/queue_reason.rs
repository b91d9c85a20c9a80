//! Runs that wait to begin keep their place in line, whatever is done to them and to
//! those before them.

use crate::serve_world::{Floor, GATED, World};
use windlass_core::command::RunCommand;
use windlass_core::event::Actor;
use windlass_core::{RunId, RunStatus};
use windlass_engine::Serving;
use windlass_store::{Admission as _, Partitions, Queries as _, Wait as _};

fn serving(max_active_runs: usize) -> Serving {
    Serving {
        max_active_runs,
        ..Serving::default()
    }
}

fn status(world: &World, run: RunId) -> RunStatus {
    let row = world
        .store
        .run(run)
        .wait()
        .expect("a store")
        .expect("a row");
    row.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carrying_on_a_run_that_waits_does_not_begin_it_before_its_turn() {
    let mut world = World::new(0);
    world.publish(None, GATED).await;
    world.engine.serve(serving(8)).await.expect("serves");
    let first = world.enqueue(None, r#"{"key":"a"}"#).await;
    assert_eq!(world.next_begun().await, first);
    let second = world.enqueue(None, r#"{"key":"a"}"#).await;
    world.engine.recover(second).await.expect("nothing to do");
    assert!(!world.engine.is_acquired(second).await);
    assert_eq!(status(&world, second), RunStatus::Pending);
    world.floor.permits.add_permits(2);
    assert_eq!(world.next_begun().await, second);
    assert_eq!(world.next_ended().await.0, first);
    assert_eq!(world.next_ended().await.0, second);
    assert_eq!(world.floor.most("a"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_runs_with_something_ready_do_not_hold_up_the_others() {
    let mut world = World::on(Default::default(), Floor::new(0));
    let text = r#"{"id":"w","nodes":[
        {"id":"n","actionType":"test.work","parameters":{"key":"x"}},
        {"id":"m","dependsOn":["n"],"actionType":"core.echo"}]}"#;
    world.publish(None, text).await;
    world.engine.serve(serving(2)).await.expect("serves");
    let mut paused = Vec::new();
    for _ in 0..2 {
        paused.push(world.enqueue(None, "{}").await);
        world.next_begun().await;
    }
    for run in &paused {
        let pause = RunCommand::Pause.by(Actor::default());
        world.engine.command(*run, pause).await.expect("paused");
    }
    // Their work ends, and what follows is ready and not handed out.
    world.floor.permits.add_permits(2);
    let other = world.enqueue(None, "{}").await;
    assert_eq!(world.next_begun().await, other);
    world.floor.permits.add_permits(1);
    assert_eq!(world.next_ended().await, (other, RunStatus::Succeeded));
    for run in &paused {
        let resume = RunCommand::Resume.by(Actor::default());
        world.engine.command(*run, resume).await.expect("resumed");
        assert_eq!(world.next_ended().await, (*run, RunStatus::Succeeded));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_runs_are_admitted_after_a_restart() {
    let text = GATED.replace(r#""limit":1"#, r#""limit":2"#);
    let mut world = World::new(0);
    world.publish(None, &text).await;
    world.engine.serve(serving(64)).await.expect("serves");
    for _ in 0..6 {
        world.enqueue(None, r#"{"key":"a"}"#).await;
    }
    let going = [world.next_begun().await, world.next_begun().await];
    while world
        .store
        .parked_gates(&Partitions::All)
        .wait()
        .expect("a store")
        .is_empty()
    {
        tokio::task::yield_now().await;
    }
    world.engine.shutdown().await;
    // The active runs end while no engine serves, so none has looked at the gate.
    let between = World::on(world.store.clone(), world.floor.clone());
    for run in going {
        let cancel = RunCommand::Cancel { compensate: false }.by(Actor::default());
        between
            .engine
            .command(run, cancel)
            .await
            .expect("cancelled");
        between.engine.wait(run).await.expect("ended");
    }
    between.engine.shutdown().await;
    let mut world = World::on(world.store.clone(), Floor::new(4));
    world.engine.serve(serving(64)).await.expect("serves");
    for _ in 0..4 {
        assert_eq!(world.next_ended().await.1, RunStatus::Succeeded);
    }
    assert!(world.floor.most("a") <= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_ends_once_however_often_it_is_cancelled_after_that() {
    let mut world = World::new(2);
    world.publish(None, GATED).await;
    world.engine.serve(serving(8)).await.expect("serves");
    let first = world.enqueue(None, r#"{"key":"a"}"#).await;
    assert_eq!(world.next_ended().await.0, first);
    let cancel = RunCommand::Cancel { compensate: false }.by(Actor::default());
    let refused = world.engine.command(first, cancel).await;
    assert!(refused.is_err());
    let second = world.enqueue(None, r#"{"key":"a"}"#).await;
    assert_eq!(world.next_ended().await.0, second, "the next to end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wider_gate_admits_the_runs_parked_at_the_old_one() {
    let mut world = World::new(0);
    world.publish(None, GATED).await;
    world.engine.serve(serving(64)).await.expect("serves");
    let mut runs = Vec::new();
    for _ in 0..8 {
        runs.push(world.enqueue(None, r#"{"key":"a"}"#).await);
    }
    // Which one is open: runs of the same millisecond have no order.
    assert!(runs.contains(&world.next_begun().await));
    let wider = GATED.replace(r#""limit":1"#, r#""limit":4"#);
    world.publish(None, &wider).await;
    runs.push(world.enqueue(None, r#"{"key":"a"}"#).await);
    // Three more begin beside the first, though no run has left the gate.
    for _ in 0..3 {
        world.next_begun().await;
    }
    while world.floor.working() < 4 {
        tokio::task::yield_now().await;
    }
    world.floor.permits.add_permits(9);
    for _ in 0..9 {
        assert_eq!(world.next_ended().await.1, RunStatus::Succeeded);
    }
    assert_eq!(world.floor.most("a"), 4);
}
