//! Looking at runs with loops, waits, child runs, undoing and changing graphs.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::command::RunCommand;
use windlass_core::event::{Actor, ForkOrigin, ReusedNode};
use windlass_core::value::{Payload, Stored};
use windlass_core::{RunId, RunStatus};
use windlass_engine::verify::verify;
use windlass_engine::view::{self, Nodes, Options};

use crate::forged_log::forge;
use windlass_test_support::in_memory::World;

/// Two items, each with two nodes; and a loop inside a loop.
const LOOPS: &str = r#"{"id":"loops","nodes":[
    {"id":"list","actionType":"core.echo","parameters":{"n":[1,2]}},
    {"id":"each","dependsOn":["list"],"forEach":{"items":"{{ context.data['list'].n }}",
     "parallel":false,"body":{"nodes":[
        {"id":"take","actionType":"core.echo","parameters":{"x":"{{ item }}"}},
        {"id":"twice","dependsOn":["take"],"while":{"condition":"iteration < 2","body":{"nodes":[
            {"id":"turn","actionType":"core.echo","parameters":{"t":"{{ iteration }}"}}]}}}]}}},
    {"id":"after","dependsOn":["each"],"actionType":"core.echo"}]}"#;

fn all() -> Options {
    Options {
        nodes: Nodes::All,
        actions: view::AttemptFilter::All,
        ..Options::default()
    }
}

fn actor(reason: &str) -> Actor {
    Actor {
        by: Some("ada".into()),
        reason: Some(reason.into()),
        request: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_listed_by_path_though_the_run_forgot_them() {
    let world = World::new();
    let (run, status) = world.run(LOOPS).await;
    assert_eq!(status, RunStatus::Succeeded);
    let shown = world.json(run, &all());
    let nodes = shown["nodes"].as_object().expect("nodes");
    let mut paths: Vec<&str> = nodes.keys().map(String::as_str).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            "after",
            "each",
            "each[0]/take",
            "each[0]/twice",
            "each[0]/twice[0]/turn",
            "each[0]/twice[1]/turn",
            "each[1]/take",
            "each[1]/twice",
            "each[1]/twice[0]/turn",
            "each[1]/twice[1]/turn",
            "list",
        ]
    );
    assert_eq!(nodes["each[1]/take"]["output"], json!({ "x": 2 }));
    assert_eq!(nodes["each[1]/twice[1]/turn"]["output"], json!({ "t": 1 }));
    assert_eq!(nodes["each[1]/take"]["status"], "Succeeded");
    for key in ["startedAt", "endedAt", "ancestryHash"] {
        assert!(nodes["each[0]/take"][key].is_string(), "{key}");
    }
    assert!(nodes["each[0]/take"].get("kind").is_none());
    assert_eq!(nodes["each"]["kind"], "forEach");
    assert_eq!(nodes["each"]["counts"]["succeeded"], 8);
    assert_eq!(
        nodes["each"]["iterations"],
        json!({ "total": 2, "started": 2, "running": 0, "failed": 0 })
    );
    assert_eq!(nodes["each[0]/twice"]["kind"], "while");
    assert_eq!(nodes["each[0]/twice"]["counts"]["succeeded"], 2);
    assert_eq!(nodes["each[0]/twice"]["iterations"]["total"], Value::Null);
    let turn = shown["actions"].as_array().expect("attempts").iter();
    let mut turn = turn.filter(|attempt| attempt["node"] == "each[1]/twice[0]/turn");
    let attempt = turn.next().expect("its attempt");
    assert_eq!(
        attempt["idempotencyKey"],
        format!("{run}/each[1]/twice[0]/turn")
    );
    assert_eq!(shown["counts"]["succeeded"], 3, "the top level alone");
    let (misfit, hashes) = world.verify(run);
    assert_eq!((misfit, hashes), (None, 11));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_ancestry_inside_a_loop_is_named() {
    let world = World::new();
    let (run, _) = world.run(LOOPS).await;
    for path in ["each[1]/take", "each[0]/twice[1]/turn", "each"] {
        let (forged, record) = forge(&world, run, LOOPS, path).await;
        let verified = verify(&forged, world.engine.plans(), run).expect("readable");
        let misfit = verified.misfit.expect("a misfit");
        assert_eq!(misfit.record, record, "{path}");
        assert_eq!(misfit.node.as_deref(), Some(path));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_are_listed_on_request_and_large_bodies_only_then() {
    let world = World::new();
    let (run, _) = world.run(LOOPS).await;
    let only = |path: &str| Options {
        nodes: Nodes::Only([path.into()].into()),
        ..Options::default()
    };
    let count = |options: &Options| {
        let shown = world.json(run, options);
        shown["nodes"].as_object().map(serde_json::Map::len)
    };
    assert_eq!(count(&only("each[1]")), Some(4));
    assert_eq!(count(&only("each[0]/twice")), Some(3));
    assert_eq!(count(&only("after")), Some(1));
    assert_eq!(count(&Options::default()), Some(11));
    let many = r#"{"id":"many","nodes":[{"id":"each","forEach":{
        "items":"{{ [...Array.from({length: 1001}).keys()] }}","body":{"nodes":[
        {"id":"a","actionType":"core.echo","parameters":{"n":"{{ index }}"}}]}}}]}"#;
    let many = many.replace("[...Array.from({length: 1001}).keys()]", "trigger.items");
    let items: Vec<u32> = (0..1001).collect();
    let mut request = world.publish(&many).await;
    request.request.trigger = json!({ "items": items }).to_string();
    let run = world.engine.start(&request).await.expect("started").run;
    assert_eq!(
        world.engine.wait(run).await.expect("ended"),
        RunStatus::Succeeded
    );
    let shown = world.json(run, &Options::default());
    assert_eq!(
        shown["nodes"].as_object().map(serde_json::Map::len),
        Some(1)
    );
    assert_eq!(shown["nodes"]["each"]["counts"]["succeeded"], 1001);
    let shown = world.json(run, &all());
    let nodes = shown["nodes"].as_object().expect("nodes");
    assert_eq!(nodes.len(), 1002);
    for number in [0, 17, 1000] {
        let path = format!("each[{number}]/a");
        assert_eq!(nodes[&path]["output"], json!({ "n": number }));
    }
    assert_eq!(world.verify(run), (None, 1002));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_is_tried_again_lists_its_last_round() {
    let world = World::new();
    let text = r#"{"id":"again","nodes":[{"id":"each","forEach":{"items":[1,2,3],"parallel":false,
        "body":{"nodes":[{"id":"a","actionType":"core.fail",
            "parameters":{"untilAttempt":"{{ item == 2 ? 2 : 1 }}"}}]}}}]}"#;
    let (run, status) = world.run(text).await;
    assert_eq!(status, RunStatus::Failed);
    let shown = world.json(run, &all());
    assert_eq!(shown["nodes"]["each[0]/a"]["status"], "Succeeded");
    assert_eq!(shown["nodes"]["each[1]/a"]["status"], "Failed");
    assert_eq!(shown["nodes"]["each"]["iterations"]["failed"], 1);
    assert!(shown["nodes"].get("each[2]/a").is_none());
    world
        .engine
        .command(
            run,
            RunCommand::Reattempt {
                nodes: vec!["each".to_owned()],
            }
            .by(Actor::default()),
        )
        .await
        .expect("reattempted");
    assert_eq!(
        world.engine.wait(run).await.expect("ended"),
        RunStatus::Succeeded
    );
    let mut out = Vec::new();
    let (store, plans) = (&**world.engine.store(), world.engine.plans());
    view::write(store, plans, run, &all(), &mut out).expect("written");
    let text = String::from_utf8(out).expect("text");
    assert_eq!(text.matches("\"each[0]/a\": {").count(), 1, "{text}");
    let shown: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        shown["nodes"].as_object().map(serde_json::Map::len),
        Some(4)
    );
    assert_eq!(world.verify(run).0, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_was_re_opened_shows_its_last_end() {
    let world = World::new();
    let text = r#"{"id":"reopen","nodes":[{"id":"each","forEach":{"items":[1,2],"body":{"nodes":[
        {"id":"a","actionType":"core.fail",
         "parameters":{"code":"{{ 'C' + run.attempt }}","message":"no"}}]}}}]}"#;
    let (run, status) = world.run(text).await;
    assert_eq!(status, RunStatus::Failed);
    let code = |run| {
        let shown = world.json(run, &all());
        shown["nodes"]["each"]["error"]["details"]["error"]["code"].clone()
    };
    assert_eq!(code(run), "C1");
    let inside = ["each[0]/a".to_owned(), "each[1]/a".to_owned()];
    let again = world
        .engine
        .command(
            run,
            RunCommand::Reattempt {
                nodes: inside.to_vec(),
            }
            .by(Actor::default()),
        )
        .await;
    again.expect("reattempted");
    world.engine.wait(run).await.expect("ended");
    assert_eq!(code(run), "C2");
    assert_eq!(world.verify(run).0, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_loop_is_in_causal_order() {
    let world = World::new();
    let text = r#"{"id":"short","nodes":[{"id":"each","forEach":{"items":[1],
        "body":{"nodes":[{"id":"a","actionType":"core.echo"}]}}}]}"#;
    let (run, _) = world.run(text).await;
    assert_eq!(
        world.kinds(run),
        [
            "RunQueued",
            "RunStarted",
            "NodeStarted each 1",
            "LoopExpanded each 1",
            "IterationStarted each 1",
            "NodeStarted each[0]/a 1",
            "NodeSucceeded each[0]/a 1",
            "IterationFinished each 1",
            "NodeSucceeded each 1",
            "RunFinished",
        ]
    );
    assert_eq!(world.event(run, "LoopExpanded", "each")["data"]["count"], 1);
    let finished = world.event(run, "IterationFinished", "each");
    assert_eq!(
        finished["data"],
        json!({ "iteration": 0, "status": "Succeeded" })
    );
    for kind in ["NodeStarted", "NodeSucceeded"] {
        let event = world.event(run, kind, "each[0]/a");
        assert_eq!(event["category"], "action:core.echo");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_say_what_they_wait_for() {
    let world = World::new();
    let text = r#"{"id":"waits","nodes":[
        {"id":"nap","delay":{"ms":1}},
        {"id":"ask","dependsOn":["nap"],"waitForSignal":{"name":"approve","timeoutMs":3600000}},
        {"id":"often","dependsOn":["ask"],"retryUntil":{"maxAttempts":3,
         "backoff":{"maxAttempts":3,"baseDelayMs":1,"strategy":"fixed","jitter":false},
         "until":"iteration == 1","body":{"nodes":[{"id":"try","actionType":"core.echo"}]}}}]}"#;
    let run = world.start(text).await;
    world.until(run, "NodeWaiting", "ask").await;
    let waiting = world.event(run, "NodeWaiting", "ask");
    assert_eq!(waiting["data"]["signal"], "approve");
    assert!(waiting["data"]["due"].is_string());
    let shown = world.json(run, &Options::default());
    assert_eq!(shown["nodes"]["ask"]["status"], "Waiting");
    assert_eq!(shown["nodes"]["ask"]["signal"], "approve");
    assert_eq!(shown["nodes"]["ask"]["due"], waiting["data"]["due"]);
    let signal = RunCommand::Signal {
        name: "approve".into(),
    }
    .by(actor("looks good"))
    .with("{\"yes\":true}");
    world.command(run, signal).await;
    assert_eq!(
        world.engine.wait(run).await.expect("ended"),
        RunStatus::Succeeded
    );
    let received = world.event(run, "SignalReceived", "ask");
    assert_eq!(received["data"]["name"], "approve");
    assert_eq!(received["data"]["kept"], false);
    assert_eq!(received["data"]["by"], "ada");
    let kinds = world.kinds(run);
    let place = |kind: &str| {
        let found = kinds.iter().position(|one| one == kind);
        found.unwrap_or_else(|| panic!("no {kind} in {kinds:?}"))
    };
    assert!(place("TimerSet nap 1") < place("TimerFired nap 1"));
    assert!(place("TimerFired nap 1") < place("NodeSucceeded nap 1"));
    assert!(place("SignalReceived ask") < place("NodeSucceeded ask 1"));
    assert!(place("IterationFinished often 1") < place("TimerSet often 1"));
    assert!(place("TimerSet often 1") < place("TimerFired often 1"));
    let starts = kinds.iter().filter(|kind| kind.starts_with("NodeStarted"));
    assert_eq!(starts.count(), 5, "{kinds:?}");
    assert_eq!(world.verify(run).0, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn children_are_linked_both_ways() {
    let world = World::new();
    let child = r#"{"id":"child","nodes":[{"id":"c","actionType":"core.fail"}]}"#;
    world.publish(child).await;
    let text = r#"{"id":"parent","nodes":[{"id":"each","forEach":{"items":[1],
        "onItemFailure":"collect","body":{"nodes":[
        {"id":"sub","subworkflow":{"workflowId":"child","input":{}}}]}}}]}"#;
    let (run, status) = world.run(text).await;
    assert_eq!(status, RunStatus::Succeeded);
    let started = world.event(run, "ChildStarted", "each[0]/sub");
    assert_eq!(started["data"]["workflowId"], "child");
    let finished = world.event(run, "ChildFinished", "each[0]/sub");
    assert_eq!(finished["data"]["status"], "Failed");
    let shown = world.json(run, &all());
    let id = shown["nodes"]["each[0]/sub"]["child"]
        .as_str()
        .expect("a child");
    assert_eq!(finished["data"]["executionId"], id);
    let child: RunId = id.parse().expect("an id");
    let shown = world.json(child, &Options::default());
    assert_eq!(
        shown["parent"],
        json!({ "executionId": run.to_string(), "node": "each[0]/sub" })
    );
    assert_eq!(world.verify(run).0, None);
    assert_eq!(world.verify(child).0, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn undoing_is_shown_for_the_run_and_for_each_node() {
    let world = World::new();
    let text = r#"{"id":"saga","nodes":[
        {"id":"each","forEach":{"items":[1,2],"parallel":false,"body":{"nodes":[
            {"id":"book","actionType":"core.echo","parameters":{"n":"{{ item }}"},
             "compensate":{"actionType":"core.echo","parameters":{"undo":"{{ output.n }}"}}}]}}},
        {"id":"pay","dependsOn":["each"],"actionType":"core.echo",
         "compensate":{"actionType":"core.fail","parameters":{"code":"NO_REFUND"}}},
        {"id":"ship","dependsOn":["pay"],"actionType":"core.fail"}]}"#;
    let (run, status) = world.run(text).await;
    assert_eq!(status, RunStatus::Failed);
    let kinds: Vec<String> = world.kinds(run);
    let undo: Vec<&str> = kinds
        .iter()
        .map(String::as_str)
        .filter(|kind| kind.starts_with("Comp"))
        .collect();
    assert_eq!(
        undo,
        [
            "CompensationStarted",
            "CompensationStarted pay 1",
            "CompensationFailed pay 1",
            "CompensationStarted each[1]/book 1",
            "CompensationSucceeded each[1]/book 1",
            "CompensationStarted each[0]/book 1",
            "CompensationSucceeded each[0]/book 1",
        ]
    );
    let shown = world.json(run, &all());
    assert_eq!(shown["compensation"], "incomplete");
    let nodes = &shown["nodes"];
    assert_eq!(nodes["pay"]["compensation"]["status"], "Failed");
    assert_eq!(nodes["pay"]["compensation"]["error"]["code"], "NO_REFUND");
    assert_eq!(
        nodes["each[0]/book"]["compensation"],
        json!({ "status": "Succeeded", "attempts": 1, "error": null })
    );
    assert!(nodes["ship"].get("compensation").is_none());
    let attempts = shown["actions"].as_array().expect("attempts").iter();
    let mut undo = attempts.filter(|attempt| attempt["compensation"] == true);
    let first = undo.next().expect("an attempt to undo");
    assert_eq!(
        (&first["node"], &first["idempotencyKey"]),
        (&json!("pay"), &json!(format!("{run}/pay/compensate")))
    );
    assert_eq!(undo.count(), 2);
    assert_eq!(world.verify(run), (None, 5));
    world
        .command(
            run,
            RunCommand::SkipCompensation {
                nodes: vec!["pay".to_owned()],
            }
            .by(actor("refunded")),
        )
        .await;
    world.engine.wait(run).await.expect("ended");
    let skipped = world.event(run, "CompensationSkipped", "pay");
    assert_eq!(skipped["data"]["reason"], "refunded");
    let shown = world.json(run, &all());
    assert_eq!(shown["compensation"], "complete");
    assert_eq!(shown["nodes"]["pay"]["compensation"]["status"], "Skipped");
}

#[tokio::test(flavor = "multi_thread")]
async fn results_by_hand_and_reused_ones_are_marked() {
    let world = World::new();
    let text = r#"{"id":"hands","nodes":[
        {"id":"a","actionType":"core.echo","parameters":{"n":1}},
        {"id":"b","dependsOn":["a"],"actionType":"core.fail"},
        {"id":"c","dependsOn":["b"],"actionType":"core.echo"}]}"#;
    let (run, _) = world.run(text).await;
    let set = RunCommand::SetResult {
        node: "b".to_owned(),
    }
    .by(actor("it was done"))
    .with("{\"ok\":1}");
    world.command(run, set).await;
    assert_eq!(
        world.engine.wait(run).await.expect("ended"),
        RunStatus::Succeeded
    );
    let set = world.event(run, "NodeSetByHand", "b");
    assert_eq!(set["data"]["kind"], "result");
    assert_eq!(set["attempt"], 2);
    let shown = world.json(run, &all());
    let b = &shown["nodes"]["b"];
    assert_eq!(b["output"], json!({ "ok": 1 }));
    assert_eq!(
        b["byHand"],
        json!({ "kind": "result", "by": "ada", "reason": "it was done" })
    );
    assert_eq!(world.verify(run), (None, 4));

    let node = |id: &str| &shown["nodes"][id];
    let reused = |id: &str| ReusedNode {
        node: id.into(),
        attempt: node(id)["attempts"].as_u64().unwrap_or(1) as u32,
        output: Some(Payload::new(node(id)["output"].to_string()).stored()),
        ancestry: node(id)["ancestryHash"]
            .as_str()
            .and_then(|hash| hash.parse().ok()),
        files: Vec::new(),
        taken: None,
    };
    let mut request = world.publish(text).await;
    request.reused = vec![reused("a"), reused("b")];
    request.origin = Some(ForkOrigin {
        execution_id: run,
        nodes: vec!["c".into()],
        actor: Actor {
            by: Some("ada".into()),
            reason: Some("c was wrong".into()),
            request: None,
        },
    });
    let fork = world.engine.start(&request).await.expect("started").run;
    assert_eq!(
        world.engine.wait(fork).await.expect("ended"),
        RunStatus::Succeeded
    );
    let shown = world.json(fork, &all());
    assert_eq!(
        shown["origin"],
        json!({ "executionId": run.to_string(), "nodes": ["c"], "by": "ada", "reason": "c was wrong" })
    );
    assert_eq!(shown["nodes"]["a"]["reused"], true);
    assert_eq!(shown["nodes"]["a"]["output"], json!({ "n": 1 }));
    assert!(shown["nodes"]["c"].get("reused").is_none());
    assert_eq!(
        world.event(fork, "NodeSucceeded", "a")["data"],
        json!({ "reused": true })
    );
    assert_eq!(world.verify(fork), (None, 3));
    // A result that was not the other run's does not fit the chain.
    request.reused[1].output = Some(Payload::new("{\"ok\":2}").stored());
    assert!(matches!(request.reused[1].output, Some(Stored::Inline(_))));
    let fork = world.engine.start(&request).await.expect("started").run;
    world.engine.wait(fork).await.expect("ended");
    let misfit = world.verify(fork).0.expect("a misfit");
    assert_eq!(misfit.node.as_deref(), Some("b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_that_changed_is_followed() {
    let world = World::new();
    let first = r#"{"id":"heal","inFlight":"healing","nodes":[
        {"id":"a","actionType":"core.echo"},
        {"id":"gone","waitForSignal":{"name":"never"}},
        {"id":"wait","dependsOn":["a"],"waitForSignal":{"name":"go"}},
        {"id":"z","dependsOn":["wait"],"actionType":"core.echo"}]}"#;
    let run = world.start(first).await;
    world.until(run, "NodeWaiting", "wait").await;
    let second = r#"{"id":"heal","inFlight":"healing","nodes":[
        {"id":"new","dependsOn":["a"],"actionType":"core.echo","parameters":{"new":1}},
        {"id":"wait","dependsOn":["a"],"waitForSignal":{"name":"go"}},
        {"id":"a","actionType":"core.echo"},
        {"id":"z","dependsOn":["wait","new"],"actionType":"core.echo"}]}"#;
    world.publish(second).await;
    let healed = world.engine.heal_all(None, "heal").await;
    assert_eq!(healed.expect("the catalogue is read"), 1);
    let signal = RunCommand::Signal { name: "go".into() }
        .by(Actor::default())
        .with("null");
    world.command(run, signal).await;
    assert_eq!(
        world.engine.wait(run).await.expect("ended"),
        RunStatus::Succeeded
    );
    let shown = world.json(run, &all());
    assert_eq!(
        (&shown["graph"], &shown["version"]),
        (&json!("healing"), &json!(2))
    );
    let nodes = shown["nodes"].as_object().expect("nodes");
    assert_eq!(nodes.len(), 4);
    assert_eq!(nodes["new"]["output"], json!({ "new": 1 }));
    assert_eq!(nodes["a"]["status"], "Succeeded");
    let healed = world.events(run);
    assert!(
        healed
            .iter()
            .any(|event| event["kind"] == "GraphHealed" && event["data"]["version"] == 2)
    );
    let cancelled = world.event(run, "NodeCancelled", "gone");
    assert_eq!(cancelled["data"]["cause"], "removed");
    assert_eq!(world.verify(run), (None, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_graph_is_a_value_and_is_checked() {
    let world = World::new();
    let text = r#"{"id":"own","nodes":[{"id":"a","actionType":"core.echo"}]}"#;
    let mut request = world.publish(text).await;
    let definition = windlass_core::Digest::of(text.as_bytes());
    request.definition = definition;
    request.version = 0;
    request.frozen = Some(Arc::from(text));
    let run = world.engine.start(&request).await.expect("started").run;
    assert_eq!(
        world.engine.wait(run).await.expect("ended"),
        RunStatus::Succeeded
    );
    assert_eq!(world.json(run, &all())["graph"], "frozen");
    assert_eq!(world.verify(run), (None, 1));
}
