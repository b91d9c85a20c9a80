//! Runs that wait: for a time, a signal, a child. They leave memory, survive restarts, and
//! end as if nothing had happened.

use std::ops::ControlFlow;

use windlass_core::command::RunCommand;
use windlass_core::event::{Actor, Compensation, Event};
use windlass_core::{NodeStatus, RunId, RunStatus};
use windlass_engine::history::for_each_event;
use windlass_engine::{Options, load_latest, load_run};
use windlass_orchestrator::codec;
use windlass_store::{Log as _, MemoryStore, Queries as _, RunFilter, Wait as _};
use windlass_test_support::in_memory::World;

fn options() -> Options {
    Options {
        // Whatever waits leaves memory at once.
        keep_asleep_ms: 0,
        ..Options::default()
    }
}

fn new_world() -> World {
    World::on(MemoryStore::new(), options())
}

/// The state from the run's checkpoint is the state from its whole log.
#[track_caller]
fn assert_checkpoint_fits(world: &World, run: RunId) {
    let checkpoint = world.store.checkpoint(run).wait().expect("readable");
    let covered = checkpoint.expect("a checkpoint").head.sequence;
    let (store, plans) = (&**world.engine.store(), world.engine.plans());
    let mut latest = load_latest(store, plans, run).expect("readable");
    let mut whole = load_run(store, plans, run, |_, _| {}).expect("readable");
    assert!(covered > 100 && covered < whole.head.sequence, "{covered}");
    assert_eq!(latest.head, whole.head);
    let [latest, whole] = [&mut latest.run, &mut whole.run].map(|run| run.snapshot());
    assert_eq!(latest.map(text_of), whole.map(text_of));
    // The record that it goes up to says so, as the last of what it tells.
    let mut told = 0;
    for_each_event(store, plans, run, |event| {
        told += usize::from(event.kind == "Checkpointed");
        ControlFlow::Continue(())
    })
    .expect("readable");
    let bytes = store
        .read(run, covered, usize::MAX)
        .wait()
        .expect("readable");
    let record = codec::decode(&bytes[0].bytes).expect("readable");
    assert!(matches!(record.events.last(), Some(Event::Checkpointed {})));
    assert!(told > 0);
}

const DELAYED: &str = r#"{ "id": "delayed", "nodes": [
    { "id": "nap", "delay": { "ms": 30 } },
    { "id": "then", "actionType": "core.echo", "parameters": { "ok": true }, "dependsOn": ["nap"] } ] }"#;

#[tokio::test]
async fn a_sleeping_run_is_a_row_and_wakes_at_its_time() {
    let world = new_world();
    let run = world.start(DELAYED).await;
    assert_eq!(world.end(run).await, RunStatus::Succeeded);
    assert_eq!(world.output(run), serde_json::json!({ "ok": true }));
    let state = world.state(run);
    let started = state.started_at().expect("it started").0;
    assert!(state.ended_at().expect("it ended").0 >= started + 30);
}

#[tokio::test]
async fn a_timer_that_came_due_while_nobody_ran_fires_after_the_restart() {
    let world = new_world();
    let run = world.start(DELAYED).await;
    world.until_idle().await;
    let row = world
        .store
        .run(run)
        .wait()
        .expect("readable")
        .expect("a row");
    assert!(row.asleep && row.wake_at.is_some(), "{row:?}");
    let world = world.restart(options()).await;
    let recovery = world.engine.recover_all().await.expect("recovered");
    assert!(recovery.recovered.is_empty(), "{recovery:?}");
    assert_eq!(world.end(run).await, RunStatus::Succeeded);
    assert_eq!(world.state(run).attempts(0), 1);
}

const RETRIED: &str = r#"{ "id": "retried", "nodes": [
    { "id": "a", "actionType": "core.fail", "parameters": { "retriable": true },
      "policies": { "retry": { "maxAttempts": 5, "baseDelayMs": 3600000, "jitter": false } } } ] }"#;

/// The next attempt of a call waits for its time; then the run is cancelled, and the call
/// tried again by hand. The number of the attempt that this makes.
async fn tried_again_while_it_waits(restarts: bool) -> u32 {
    let mut world = new_world();
    let run = world.start(RETRIED).await;
    while world.node(run, "a") != NodeStatus::Waiting {
        tokio::task::yield_now().await;
    }
    world.until_idle().await;
    if restarts {
        world = world.restart(options()).await;
    }
    let actor = Actor::default();
    let cancel = RunCommand::Cancel { compensate: false }.by(actor);
    world.engine.command(run, cancel).await.expect("taken");
    assert_eq!(world.end(run).await, RunStatus::Cancelled);
    let again = RunCommand::Reattempt { nodes: Vec::new() }.by(Actor::default());
    world.engine.command(run, again).await.expect("taken");
    while world.node(run, "a") != NodeStatus::Waiting {
        tokio::task::yield_now().await;
    }
    let state = world.state(run);
    state.attempts(state.resolve("a").expect("such a node"))
}

/// The process before may have handed out the waiting attempt, by its own clock, and with it
/// the attempt's number and idempotency key.
#[tokio::test]
async fn an_attempt_that_waits_keeps_its_number_when_another_process_takes_over() {
    assert_eq!(tried_again_while_it_waits(true).await, 3);
}

#[tokio::test]
async fn an_attempt_that_never_began_does_not_use_its_number_up() {
    assert_eq!(tried_again_while_it_waits(false).await, 2);
}

#[tokio::test]
async fn many_sleeping_runs_cost_no_memory_of_the_engine() {
    let world = new_world();
    let text = r#"{ "id": "long", "nodes": [{ "id": "nap", "delay": { "ms": 86400000 } }] }"#;
    let request = world.publish(text).await;
    for _ in 0..500 {
        world.engine.start(&request).await.expect("started");
    }
    world.until_idle().await;
    let filter = RunFilter {
        limit: 1000,
        ..RunFilter::default()
    };
    let rows = world.store.runs(&filter).wait().expect("readable").rows;
    assert_eq!(rows.iter().filter(|row| row.asleep).count(), 500);
}

const APPROVAL: &str = r#"{ "id": "approval", "nodes": [
    { "id": "ask", "waitForSignal": { "name": "approve" }, "setVars": { "by": "{{ output.by }}" } },
    { "id": "then", "actionType": "core.echo", "parameters": "{{ vars }}", "dependsOn": ["ask"] } ] }"#;

#[tokio::test]
async fn a_signal_wakes_the_run_that_waits_for_it_after_a_restart_too() {
    let world = new_world();
    let run = world.start(APPROVAL).await;
    world.until_idle().await;
    assert_eq!(world.node(run, "ask"), NodeStatus::Waiting);
    let world = world.restart(options()).await;
    world.signal(run, "approve", r#"{"by":"ann"}"#).await;
    assert_eq!(world.end(run).await, RunStatus::Succeeded);
    assert_eq!(world.output(run), serde_json::json!({ "by": "ann" }));
}

#[tokio::test]
async fn a_signal_that_comes_early_is_kept() {
    let world = new_world();
    let text = r#"{ "id": "early", "nodes": [
        { "id": "nap", "delay": { "ms": 40 } },
        { "id": "ask", "waitForSignal": { "name": "go" }, "dependsOn": ["nap"] } ] }"#;
    let run = world.start(text).await;
    world.signal(run, "go", "7").await;
    assert_eq!(world.end(run).await, RunStatus::Succeeded);
    assert_eq!(world.output(run), serde_json::json!(7));
}

#[tokio::test]
async fn a_signal_that_does_not_come_takes_the_failure_edge() {
    let world = new_world();
    let text = r#"{ "id": "late", "nodes": [
        { "id": "ask", "waitForSignal": { "name": "go", "timeoutMs": 20 }, "onFailure": "instead" },
        { "id": "instead", "actionType": "core.echo",
          "parameters": "{{ context.data['ask'].error.code }}" } ] }"#;
    let run = world.start(text).await;
    assert_eq!(world.end(run).await, RunStatus::Succeeded);
    assert_eq!(world.output(run), serde_json::json!("SIGNAL_TIMEOUT"));
}

const CHILD: &str = r#"{ "id": "child", "vars": { "own": 1 }, "nodes": [
    { "id": "work", "actionType": "core.echo", "parameters": { "got": "{{ trigger.n }}" },
      "setVars": { "seen": "{{ trigger.n }}" },
      "compensate": { "actionType": "core.echo", "parameters": { "undo": "{{ output.got }}" } } } ] }"#;

fn parent(more: &str) -> String {
    format!(
        r#"{{ "id": "parent", "vars": {{ "p": 1 }}, "nodes": [
            {{ "id": "sub", "subworkflow": {{ "workflowId": "child", "input": {{ "n": 5 }} {more} }} }},
            {{ "id": "after", "actionType": "core.echo", "parameters": "{{{{ vars }}}}", "dependsOn": ["sub"] }} ] }}"#
    )
}

#[tokio::test]
async fn a_child_run_gives_its_output_and_both_know_each_other() {
    let world = new_world();
    world.publish(CHILD).await;
    let run = world.start(&parent("")).await;
    assert_eq!(world.end(run).await, RunStatus::Succeeded);
    assert_eq!(world.output(run), serde_json::json!({ "p": 1 }));
    let [child] = world.children(run)[..] else {
        panic!("one child");
    };
    let state = world.state(child);
    let known = state.queued().parent.as_ref().expect("a parent");
    assert_eq!((known.execution_id, &*known.node), (run, "sub"));
    assert_eq!(state.status(), RunStatus::Succeeded);
}

#[tokio::test]
async fn a_shared_child_reads_the_parents_variables_and_gives_its_own_back() {
    let world = new_world();
    world.publish(CHILD).await;
    let run = world.start(&parent(r#", "isolation": "shared""#)).await;
    assert_eq!(world.end(run).await, RunStatus::Succeeded);
    let expected = serde_json::json!({ "own": 1, "p": 1, "seen": 5 });
    assert_eq!(world.output(run), expected);
}

#[tokio::test]
async fn a_child_that_fails_fails_its_node_with_its_code() {
    let world = new_world();
    let child = r#"{ "id": "child", "nodes": [{ "id": "bad", "actionType": "core.fail" }] }"#;
    world.publish(child).await;
    let run = world.start(&parent("")).await;
    assert_eq!(world.end(run).await, RunStatus::Failed);
    let error = world.error(run, "sub");
    assert_eq!(error["code"], "NODE_FAILED");
    let child = world.children(run)[0].to_string();
    assert_eq!(error["details"]["executionId"], child.as_str());
}

#[tokio::test]
async fn a_child_of_an_unknown_workflow_fails_its_node() {
    let world = new_world();
    let run = world.start(&parent("")).await;
    assert_eq!(world.end(run).await, RunStatus::Failed);
    assert_eq!(world.error(run, "sub")["code"], "WORKFLOW_NOT_FOUND");
}

#[tokio::test]
async fn runs_that_start_themselves_end_at_the_limit() {
    let world = new_world();
    let text = r#"{ "id": "again", "nodes": [
        { "id": "me", "subworkflow": { "workflowId": "again", "input": {} } } ] }"#;
    let run = world.start(text).await;
    assert_eq!(world.end(run).await, RunStatus::Failed);
    assert_eq!(world.error(run, "me")["code"], "NODE_FAILED");
    let filter = RunFilter {
        limit: 100,
        ..RunFilter::default()
    };
    let rows = world.store.runs(&filter).wait().expect("readable").rows;
    assert_eq!(rows.len(), 33);
    let depth = |run: RunId| world.state(run).queued().depth;
    let deepest = rows.iter().max_by_key(|row| depth(row.run)).expect("one");
    assert_eq!(depth(deepest.run), 32);
    assert_eq!(world.error(deepest.run, "me")["code"], "SUBWORKFLOW_DEPTH");
}

#[tokio::test]
async fn cancelling_a_parent_cancels_its_child() {
    let world = new_world();
    let child = r#"{ "id": "child", "nodes": [{ "id": "nap", "delay": { "ms": 86400000 } }] }"#;
    world.publish(child).await;
    let run = world.start(&parent("")).await;
    world.until_idle().await;
    let command = RunCommand::Cancel { compensate: false }.by(Actor::default());
    world.engine.command(run, command).await.expect("taken");
    assert_eq!(world.end(run).await, RunStatus::Cancelled);
    assert_eq!(
        world.end(world.children(run)[0]).await,
        RunStatus::Cancelled
    );
}

#[tokio::test]
async fn a_parent_hears_of_a_child_that_ended_while_nobody_ran() {
    let world = new_world();
    let child = r#"{ "id": "child", "nodes": [{ "id": "nap", "delay": { "ms": 50 } }] }"#;
    world.publish(child).await;
    let run = world.start(&parent("")).await;
    world.until_idle().await;
    let child = world.children(run)[0];
    // A process that knows nothing of the parent ends the child.
    let world = world.restart(options()).await;
    assert_eq!(world.end(child).await, RunStatus::Succeeded);
    let world = world.restart(options()).await;
    world.engine.recover_all().await.expect("recovered");
    assert_eq!(world.end(run).await, RunStatus::Succeeded);
}

#[tokio::test]
async fn a_child_whose_parent_let_it_go_before_a_crash_is_cancelled() {
    let world = new_world();
    let request = world
        .publish(r#"{ "id": "parent", "nodes": [{ "id": "sub", "actionType": "core.echo" }] }"#);
    let parent = world
        .engine
        .start(&request.await)
        .await
        .expect("started")
        .run;
    assert_eq!(world.end(parent).await, RunStatus::Succeeded);
    // As it is when the parent's record is durable and the child has not got its command.
    let text = r#"{ "id": "child", "nodes": [{ "id": "long", "actionType": "core.sleep", "parameters": { "ms": 60000 } }] }"#;
    let mut request = world.publish(text).await;
    request.parent = Some(windlass_core::event::Parent {
        execution_id: parent,
        node: "sub".into(),
    });
    let child = world.engine.start(&request).await.expect("started").run;
    let world = world.restart(options()).await;
    world.engine.recover_all().await.expect("recovered");
    assert_eq!(world.end(child).await, RunStatus::Cancelled);
}

#[tokio::test]
async fn a_transactional_child_is_undone_at_its_place() {
    let world = new_world();
    world.publish(CHILD).await;
    let text = r#"{ "id": "parent", "nodes": [
        { "id": "sub", "subworkflow": { "workflowId": "child", "input": { "n": 5 }, "isolation": "transactional" } },
        { "id": "bad", "actionType": "core.fail", "dependsOn": ["sub"] } ] }"#;
    let run = world.start(text).await;
    assert_eq!(world.end(run).await, RunStatus::Failed);
    let finished = world.state(run).finished().cloned().expect("ended");
    assert_eq!(finished.compensation, Some(Compensation::Complete));
    let child = world.state(world.children(run)[0]);
    let undone = child.finished().expect("ended");
    assert_eq!(undone.status, RunStatus::Succeeded);
    assert_eq!(undone.compensation, Some(Compensation::Complete));
}

#[tokio::test]
async fn a_state_from_a_checkpoint_equals_the_state_from_the_whole_log() {
    let options = Options {
        checkpoint_bytes: 16 * 1024,
        ..options()
    };
    let world = World::on(MemoryStore::new(), options);
    let text = r#"{ "id": "round", "nodes": [
        { "id": "w", "while": { "condition": "iteration < 700", "body": { "nodes": [
            { "id": "x", "actionType": "core.echo", "parameters": { "n": "{{ iteration }}" },
              "setVars": { "n": "{{ output.n }}" } } ] } } },
        { "id": "ask", "dependsOn": ["w"], "waitForSignal": { "name": "end" } } ] }"#;
    let run = world.start(text).await;
    world.until_idle().await;
    assert_checkpoint_fits(&world, run);
    world.signal(run, "end", "null").await;
    assert_eq!(world.end(run).await, RunStatus::Succeeded);
}

/// What began before the graph changed keeps its shape, also through a checkpoint.
#[tokio::test]
async fn a_run_whose_graph_changed_has_a_checkpoint_that_fits() {
    let options = Options {
        checkpoint_bytes: 16 * 1024,
        ..options()
    };
    let world = World::on(MemoryStore::new(), options);
    let text = |body: &str, more: &str| {
        format!(
            r#"{{ "id": "round", "inFlight": "healing", "nodes": [
            {{ "id": "held", "forEach": {{ "items": [1, 2], "body": {{ "nodes": [
                {{ "id": "{body}", "waitForSignal": {{ "name": "end" }} }} ] }} }} }},
            {{ "id": "go", "waitForSignal": {{ "name": "go" }} }},
            {{ "id": "w", "dependsOn": ["go"], "while": {{ "condition": "iteration < 700",
                "body": {{ "nodes": [ {{ "id": "x", "actionType": "core.echo",
                    "parameters": {{ "n": "{{{{ iteration }}}}" }} }} ] }} }} }}{more} ] }}"#
        )
    };
    let run = world.start(&text("ask", "")).await;
    world.until_idle().await;
    let second = text(
        "wait",
        r#", { "id": "new", "actionType": "core.echo", "dependsOn": ["go"] }"#,
    );
    world.publish(&second).await;
    let healed = world.engine.heal_all(None, "round").await;
    assert_eq!(healed.expect("healed"), 1);
    let actor = Actor::default();
    let pause = world
        .engine
        .command(run, RunCommand::Pause.by(actor.clone()))
        .await;
    pause.expect("paused");
    let third = text(
        "other",
        r#", { "id": "newer", "actionType": "core.echo", "dependsOn": ["w"] }"#,
    );
    let import = RunCommand::Import.by(actor.clone()).with(third);
    world.engine.command(run, import).await.expect("imported");
    let resumed = world
        .engine
        .command(run, RunCommand::Resume.by(actor))
        .await;
    resumed.expect("resumed");
    world.signal(run, "go", "null").await;
    world.until_idle().await;
    assert_checkpoint_fits(&world, run);
    assert_eq!(world.node(run, "held[1]/ask"), NodeStatus::Waiting);
    assert_eq!(world.node(run, "newer"), NodeStatus::Succeeded);
    for _ in 0..2 {
        world.signal(run, "end", "null").await;
    }
    assert_eq!(world.end(run).await, RunStatus::Succeeded);
}

/// A loop is read back from its last checkpoint, however often it has gone round.
#[tokio::test]
async fn what_is_read_to_carry_a_loop_on_does_not_grow_with_its_rounds() {
    // The checkpoint may be one behind, if it was being stored when the next was due.
    const BOUND: u64 = 200;
    for rounds in [100, 1000, 4000] {
        let options = Options {
            checkpoint_bytes: 16 * 1024,
            ..options()
        };
        let world = World::on(MemoryStore::new(), options);
        let text = format!(
            r#"{{ "id": "round", "nodes": [
            {{ "id": "w", "while": {{ "condition": "iteration < {rounds}",
                "maxIterations": {rounds}, "body": {{ "nodes": [
                {{ "id": "x", "actionType": "core.echo",
                   "parameters": {{ "n": "{{{{ iteration }}}}" }} }} ] }} }} }},
            {{ "id": "ask", "dependsOn": ["w"], "waitForSignal": {{ "name": "end" }} }} ] }}"#
        );
        let run = world.start(&text).await;
        world.until_idle().await;
        let loaded = world.engine.load(run).expect("readable");
        assert!(loaded.head.sequence > rounds, "{:?}", loaded.head);
        assert!(
            loaded.event_count <= BOUND,
            "{rounds}: {}",
            loaded.event_count
        );
    }
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("JSON")
}
