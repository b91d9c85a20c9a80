//! History, views and the ancestry check on runs that an engine made in memory.

use serde_json::Value;
use windlass_core::RunStatus;
use windlass_core::command::RunCommand;
use windlass_core::event::Actor;
use windlass_engine::verify::verify;
use windlass_engine::{derive, view};
use windlass_store::{Partition, Queries as _, RunRow, Wait as _};

use crate::forged_log::forge;
use windlass_test_support::in_memory::World;

const FAILING: &str = r#"{"id":"failing","nodes":[
    {"id":"a","actionType":"core.fail","parameters":{"untilAttempt":2},
     "edges":[{"targetNode":"b"},{"targetNode":"c","when":"always"}]},
    {"id":"b","actionType":"core.echo","parameters":{"n":1}},
    {"id":"c","actionType":"core.echo"}]}"#;

/// A migration puts rows into partitions of the target; the log is a copy.
#[tokio::test(flavor = "multi_thread")]
async fn a_moved_run_keeps_its_partition_when_its_row_is_made_anew() {
    let world = World::new();
    let (run, _) = world.run(FAILING).await;
    let row = world.store.run(run).wait().expect("readable");
    let moved = RunRow {
        partition: Partition(7),
        ..row.expect("a row")
    };
    let replacing = world.store.replace_rows(vec![(moved.clone(), Vec::new())]);
    replacing.wait().expect("stored");
    assert_eq!(world.verify(run).0, None);
    let derived = derive(&**world.engine.store(), world.engine.plans(), run);
    let (_, (derived, _)) = derived.expect("readable");
    assert_eq!(derived, moved);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reattempt_goes_on_where_the_failure_was() {
    let world = World::new();
    let (run, status) = world.run(FAILING).await;
    assert_eq!(status, RunStatus::Failed);
    let first = world.kinds(run);
    assert_eq!(
        first,
        [
            "RunQueued",
            "RunStarted",
            "NodeStarted a 1",
            "NodeFailed a 1",
            "NodeBlocked b",
            "NodeStarted c 1",
            "NodeSucceeded c 1",
            "RunFinished",
        ]
    );
    world
        .engine
        .command(
            run,
            RunCommand::Reattempt { nodes: Vec::new() }.by(Actor::default()),
        )
        .await
        .expect("reattempted");
    assert_eq!(
        world.engine.wait(run).await.expect("ended"),
        RunStatus::Succeeded
    );
    let all = world.kinds(run);
    assert_eq!(all[..first.len()], first[..], "positions never change");
    assert_eq!(
        all[first.len()..first.len() + 3],
        [
            "NodeReattempted a 2",
            "NodeStarted a 2",
            "NodeSucceeded a 2"
        ]
    );
    assert_eq!(all.last().map(String::as_str), Some("RunFinished"));
    let options = view::Options {
        actions: view::AttemptFilter::All,
        ..view::Options::default()
    };
    let shown = world.json(run, &options);
    assert_eq!(shown["counts"]["succeeded"], 3);
    assert_eq!(shown["nodes"]["c"]["attempts"], 2);
    assert_eq!(shown["error"], Value::Null);
    let keys: Vec<&str> = shown["actions"]
        .as_array()
        .expect("attempts")
        .iter()
        .filter(|attempt| attempt["node"] == "a")
        .filter_map(|attempt| attempt["idempotencyKey"].as_str())
        .collect();
    assert_eq!(keys, [format!("{run}/a"), format!("{run}/a/2")]);
    let verified = verify(&**world.engine.store(), world.engine.plans(), run).expect("readable");
    assert_eq!(verified.misfit, None);
    assert_eq!(verified.hashes, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_runs_have_a_line_a_node_and_every_node_once() {
    let world = World::new();
    let big = "x".repeat(10_000);
    let nodes: Vec<String> = (0..300)
        .map(|n| {
            format!(
                r#"{{"id":"n{n}","actionType":"core.echo","parameters":{{"n":{n},"big":"{big}"}}}}"#
            )
        })
        .collect();
    let text = format!(
        r#"{{"id":"wide","output":1,"nodes":[{}]}}"#,
        nodes.join(",")
    );
    let (run, status) = world.run(&text).await;
    assert_eq!(status, RunStatus::Succeeded);
    let mut out = Vec::new();
    let (store, plans) = (&**world.engine.store(), world.engine.plans());
    view::write(store, plans, run, &view::Options::default(), &mut out).expect("written");
    let text = String::from_utf8(out).expect("text");
    assert_eq!(
        text.lines().filter(|line| line.starts_with("\"n")).count(),
        300
    );
    let shown: Value = serde_json::from_str(&text).expect("valid JSON");
    assert_eq!(
        shown["nodes"].as_object().map(|nodes| nodes.len()),
        Some(300)
    );
    assert_eq!(shown["nodes"]["n17"]["output"]["n"], 17);
    assert_eq!(shown["nodes"]["n17"]["output"]["big"], big);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_ancestry_is_named() {
    let world = World::new();
    let (run, _) = world.run(FAILING).await;
    let (forged, second) = forge(&world, run, FAILING, "c").await;
    let verified = verify(&forged, world.engine.plans(), run).expect("readable");
    let misfit = verified.misfit.expect("a misfit");
    assert_eq!(misfit.record, second);
    assert_eq!(misfit.node.as_deref(), Some("c"));
}
