//! Evaluations that take long: they hold up no other run, count towards the time of their
//! attempt, and end when their run is cancelled.

use serde_json::{Value, json};
use windlass_core::command::RunCommand;
use windlass_core::event::Actor;
use windlass_core::{RunId, RunStatus};
use windlass_store::{Queries as _, Wait as _};
use windlass_test_support::in_memory::World;

/// Needs more steps than an evaluation has.
const EXHAUSTING: &str = "Array.from({length: 2000}, (_, i) => Array.from({length: 2000}, (_, j) => i * j).length).length";

const CHAIN: &str = r#"{ "id": "chain", "nodes": [
    { "id": "a", "actionType": "core.echo", "parameters": { "n": 1 } },
    { "id": "b", "actionType": "core.echo", "parameters": { "n": "{{ context.data['a'].n }}" },
      "dependsOn": ["a"] },
    { "id": "c", "actionType": "core.echo", "dependsOn": ["b"] } ] }"#;

async fn cancel(world: &World, run: RunId) -> RunStatus {
    let command = RunCommand::Cancel { compensate: false }.by(Actor::default());
    world.command(run, command).await;
    world.engine.wait(run).await.expect("ended")
}

/// Runs a chain to its end beside a run that evaluates, which must not have ended by then.
async fn runs_beside(world: &World, noisy: RunId) {
    for _ in 0..3 {
        let (_, status) = world.run(CHAIN).await;
        assert_eq!(status, RunStatus::Succeeded);
    }
    let row = world
        .store
        .run(noisy)
        .wait()
        .expect("readable")
        .expect("a run");
    let waited = "the chain waited for the other run's evaluations";
    assert_eq!(row.status, RunStatus::Running, "{waited}");
}

fn node_error(world: &World, run: RunId, node: &str) -> Value {
    world.event(run, "NodeFailed", node)["data"]["error"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rendering_that_takes_long_holds_up_no_other_run() {
    let world = World::new();
    let nodes = (0..200).map(|node| {
        json!({ "id": format!("n{node}"), "actionType": "core.echo",
                "parameters": { "x": format!("{{{{ {EXHAUSTING} }}}}") } })
    });
    let text = json!({ "id": "noise", "nodes": nodes.collect::<Vec<_>>() }).to_string();
    let noisy = world.start(&text).await;
    runs_beside(&world, noisy).await;
    assert_eq!(cancel(&world, noisy).await, RunStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_that_take_long_hold_up_no_other_run_and_end_with_a_cancel() {
    let world = World::new();
    let targets =
        (0..90).map(|node| json!({ "id": format!("n{node}"), "actionType": "core.echo" }));
    let edges =
        (0..90).map(|node| json!({ "targetNode": format!("n{node}"), "condition": EXHAUSTING }));
    let root =
        json!({ "id": "root", "actionType": "core.echo", "edges": edges.collect::<Vec<_>>() });
    let nodes: Vec<_> = std::iter::once(root).chain(targets).collect();
    let noisy = world
        .start(&json!({ "id": "noise", "nodes": nodes }).to_string())
        .await;
    runs_beside(&world, noisy).await;
    assert_eq!(cancel(&world, noisy).await, RunStatus::Cancelled);
    // The cancel left the remaining edges unevaluated: all edges together took no more steps
    // than one evaluation may.
    let events = world.events(noisy);
    let left = |event: &&Value| {
        let message = event["data"]["message"].as_str().unwrap_or_default();
        message.contains("take more than 1000000 steps together")
    };
    assert!(events.iter().filter(left).count() > 80, "{events:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_that_only_decides_holds_up_no_other_run() {
    let world = World::new();
    let text = r#"{ "id": "noise", "nodes": [ { "id": "spin", "while": {
        "condition": "true", "maxIterations": 300000, "body": { "nodes": [
            { "id": "none", "forEach": { "items": "{{ [] }}", "body": { "nodes": [
                { "id": "x", "actionType": "core.echo" } ] } } } ] } } } ] }"#;
    let noisy = world.start(text).await;
    runs_beside(&world, noisy).await;
    assert_eq!(cancel(&world, noisy).await, RunStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_an_attempt_covers_its_rendering() {
    let world = World::new();
    let text = json!({ "id": "late", "nodes": [
        { "id": "a", "actionType": "core.echo", "policies": { "timeoutMs": 1 },
          "parameters": { "x": format!("{{{{ {EXHAUSTING} }}}}") } },
        { "id": "b", "actionType": "core.echo",
          "parameters": { "x": format!("{{{{ {EXHAUSTING} }}}}") } } ] });
    let (run, status) = world.run(&text.to_string()).await;
    assert_eq!(status, RunStatus::Failed);
    assert_eq!(node_error(&world, run, "a")["code"], "TIMEOUT");
    assert_eq!(node_error(&world, run, "b")["code"], "EXPRESSION_LIMIT");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_place_of_an_expression_may_take_long_and_means_the_same() {
    let world = World::new();
    // Well within the limits, and too much for the thread that all runs share.
    let long = "Array.from({length: 4000}, (_, i) => i).reduce((sum, i) => sum + i, 0)";
    let text = json!({ "id": "long", "output": format!("{{{{ {long} + vars.seen }}}}"),
        "concurrency": { "key": format!("{{{{ {long} }}}}"), "limit": 1 },
        "vars": { "seen": 0 },
        "nodes": [
            { "id": "a", "actionType": "core.script", "parameters": { "expression": long },
              "setVars": { "seen": format!("{{{{ output + {long} }}}}") },
              "switch": { "on": format!("{long} > 0"), "cases": { "true": "b" }, "default": "c" } },
            { "id": "b", "forEach": { "items": format!("{{{{ [{long}, 2] }}}}"),
                "body": { "output": format!("{{{{ item + {long} }}}}"),
                          "nodes": [{ "id": "x", "actionType": "core.echo" }] } } },
            { "id": "c", "actionType": "core.fail" },
            { "id": "d", "dependsOn": ["b"], "while": { "condition": format!("{long} > 0 && iteration < 2"),
                "body": { "nodes": [{ "id": "y", "actionType": "core.echo" }] } } } ] });
    let (run, status) = world.run(&text.to_string()).await;
    assert_eq!(status, RunStatus::Succeeded);
    let sum = 3999 * 4000 / 2;
    let loaded = world.engine.load(run).expect("readable").run;
    let output = loaded
        .finished()
        .and_then(|it| it.output.clone())
        .expect("an output");
    let output = world
        .engine
        .values()
        .resolve(&output)
        .wait()
        .expect("readable");
    assert_eq!(&*output, (3 * sum).to_string());
    let node = loaded
        .resolve("b")
        .and_then(|node| loaded.value(node))
        .expect("an output");
    let node = world
        .engine
        .values()
        .read(run, &node)
        .wait()
        .expect("readable");
    assert_eq!(&*node, format!("[{},{}]", 2 * sum, sum + 2));
    let rounds = loaded
        .resolve("d")
        .and_then(|node| loaded.value(node))
        .expect("an output");
    let rounds = world
        .engine
        .values()
        .read(run, &rounds)
        .wait()
        .expect("readable");
    assert!(rounds.contains("\"iterations\":2"), "{rounds}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_read_a_large_value_hold_up_no_other_run() {
    let world = World::new();
    let list = format!("{{{{ JSON.parse('[{}[0]]') }}}}", "[0],".repeat(3_000));
    let nodes = (0..8_000).map(|node| {
        json!({ "id": format!("n{node}"), "actionType": "core.echo", "dependsOn": ["large"],
                "parameters": { "x": "{{ context.data['large'].x.length > 0 }}" } })
    });
    let large = json!({ "id": "large", "actionType": "core.echo", "parameters": { "x": list } });
    let nodes: Vec<_> = std::iter::once(large).chain(nodes).collect();
    let noisy = world
        .start(&json!({ "id": "noise", "nodes": nodes }).to_string())
        .await;
    world.until(noisy, "NodeSucceeded", "large").await;
    runs_beside(&world, noisy).await;
    assert_eq!(cancel(&world, noisy).await, RunStatus::Cancelled);
}
