//! Dead letters that an operator purges: their runs end as Failed (semantics §12.4).

use windlass_core::command::RunCommand;
use windlass_core::event::Actor;
use windlass_core::{Millis, NodeStatus, RunId, RunStatus};
use windlass_engine::Options;
use windlass_store::{DeadLetter, DeadLetters as _, Queries as _, Wait as _};
use windlass_test_support::in_memory::World;

/// Waits for a signal, after something that can be undone.
const WAITS: &str = r#"{"id":"w","nodes":[
  {"id":"book","actionType":"core.echo","compensate":{"actionType":"core.echo"}},
  {"id":"wait","waitForSignal":{"name":"go"},"dependsOn":["book"]},
  {"id":"after","actionType":"core.echo","dependsOn":["wait"]}]}"#;

const PARENT: &str = r#"{"id":"parent","nodes":[
  {"id":"sub","subworkflow":{"workflowId":"w","input":{}}},
  {"id":"help","actionType":"core.echo"},
  {"id":"end","actionType":"core.echo","dependsOn":["sub"]}]}"#;

async fn add_dead_letter(world: &World, run: RunId) {
    let letter = DeadLetter {
        run,
        tenant: None,
        workflow: "w".into(),
        reason: "it would not go".into(),
        payload: b"{}".to_vec(),
        deliveries: 3,
        at: Millis(0),
        damage: None,
    };
    world.store.add_dead_letter(letter).await.expect("buried");
}

async fn purge(world: &World, run: RunId) -> bool {
    let actor = Actor::default();
    world.engine.purge(run, actor).await.expect("a store")
}

/// A run of a parent that waits for its child, which another process had.
async fn parent_and_child() -> (World, RunId, RunId) {
    let world = World::new();
    world.publish(WAITS).await;
    let parent = world.start(PARENT).await;
    while world.children(parent).is_empty() {
        tokio::task::yield_now().await;
    }
    let child = world.children(parent)[0];
    world.until(child, "NodeWaiting", "wait").await;
    (world.restart(Options::default()).await, parent, child)
}

#[tokio::test]
async fn a_purged_run_ends_as_failed_and_is_not_undone_by_itself() {
    let world = World::new();
    let run = world.start(WAITS).await;
    world.until(run, "NodeWaiting", "wait").await;
    let world = world.restart(Options::default()).await;
    add_dead_letter(&world, run).await;
    assert!(purge(&world, run).await);
    let shown = world.show(run);
    assert_eq!(shown["status"], "Failed", "{shown}");
    assert_eq!(shown["error"]["code"], "DEAD_LETTERED");
    let message = shown["error"]["message"].as_str().expect("a message");
    assert!(message.contains("it would not go"), "{message}");
    assert_eq!(shown["compensation"], serde_json::Value::Null);
    assert_eq!(world.node(run, "wait"), NodeStatus::Cancelled);
    assert_eq!(world.node(run, "after"), NodeStatus::Cancelled);
    let row = world
        .store
        .run(run)
        .wait()
        .expect("a store")
        .expect("a row");
    assert_eq!((row.status, row.dead), (RunStatus::Failed, false));
    assert_eq!(row.error_code.as_deref(), Some("DEAD_LETTERED"));
    assert_eq!(world.store.dead_letter(run).wait().expect("a store"), None);
    assert!(!purge(&world, run).await, "it is no dead letter any more");
    assert!(world.verify(run).0.is_none());
    let recovery = world.engine.recover_all().await.expect("recovery");
    assert!(recovery.recovered.is_empty(), "{recovery:?}");
    world
        .command(run, RunCommand::Compensate.by(Actor::default()))
        .await;
    assert_eq!(world.end(run).await, RunStatus::Failed);
    assert_eq!(world.show(run)["compensation"], "complete");
    assert_eq!(world.show(run)["error"]["code"], "DEAD_LETTERED");
}

#[tokio::test]
async fn the_parent_of_a_purged_run_fails_with_its_code() {
    let (world, parent, child) = parent_and_child().await;
    add_dead_letter(&world, child).await;
    world.engine.recover(parent).await.expect("recovered");
    assert!(purge(&world, child).await);
    assert_eq!(world.end(parent).await, RunStatus::Failed);
    assert_eq!(world.error(parent, "sub")["code"], "DEAD_LETTERED");
}

#[tokio::test]
async fn the_children_of_a_purged_run_are_cancelled() {
    let (world, parent, child) = parent_and_child().await;
    add_dead_letter(&world, parent).await;
    assert!(purge(&world, parent).await);
    assert_eq!(world.show(parent)["error"]["code"], "DEAD_LETTERED");
    assert_eq!(world.node(parent, "sub"), NodeStatus::Cancelled);
    assert_eq!(world.end(child).await, RunStatus::Cancelled);
}

#[tokio::test]
async fn a_letter_of_a_run_that_has_ended_leaves_the_run_alone() {
    let world = World::new();
    let (run, _) = world
        .run(r#"{"id":"e","nodes":[{"id":"a","actionType":"core.echo"}]}"#)
        .await;
    add_dead_letter(&world, run).await;
    assert!(purge(&world, run).await);
    assert_eq!(world.show(run)["status"], "Succeeded");
    let row = world
        .store
        .run(run)
        .wait()
        .expect("a store")
        .expect("a row");
    assert!(!row.dead);
}
