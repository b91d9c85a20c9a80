//! Graphs that change under a run, with the real binary: healing, `publish --plan`,
//! `export`, `import`, and graphs that belong to one run alone.

use std::fs;

use serde_json::{Value, json};
use windlass_test_support::process::World;

const FIRST: &str = r#"{"id":"w","inFlight":"healing","nodes":[
  {"id":"a","actionType":"core.echo"},
  {"id":"wait","waitForSignal":{"name":"go"},"dependsOn":["a"]}]}"#;

const SECOND: &str = r#"{"id":"w","inFlight":"healing","nodes":[
  {"id":"a","actionType":"core.echo"},
  {"id":"b","actionType":"core.echo","dependsOn":["a"]},
  {"id":"wait","waitForSignal":{"name":"go"},"dependsOn":["a"]},
  {"id":"after","actionType":"core.echo","dependsOn":["wait"]}]}"#;

/// What has completed is gone.
const THIRD: &str = r#"{"id":"w","inFlight":"healing","nodes":[
  {"id":"wait","waitForSignal":{"name":"go"}}]}"#;

fn world() -> World {
    World::with_files(&[
        ("first.json", FIRST),
        ("second.json", SECOND),
        ("third.json", THIRD),
    ])
}

fn left(world: &World, file: &str) {
    world.run(&["run", file, "--wait", "0.5", "-q"]).expect(7);
}

fn node_names(run: &Value) -> Vec<&str> {
    let nodes = run["nodes"].as_object().expect("nodes");
    nodes.keys().map(String::as_str).collect()
}

#[test]
fn a_run_follows_the_newest_version_when_it_is_picked_up() {
    let world = world();
    left(&world, "first.json");
    world.run(&["publish", "second.json"]).expect(0);
    let ended = world
        .run(&["signal", "@last", "go", "--json"])
        .expect(0)
        .json();
    assert_eq!(ended["counts"]["succeeded"], 4);
    let listed = world.run(&["runs", "--json"]).expect(0).json();
    assert_eq!(listed["items"][0]["version"], 2);
}

#[test]
fn a_run_follows_the_newest_version_when_it_is_published() {
    let world = world();
    let mut holder = world.start(&["run", "first.json", "--json"]);
    let run = holder.run_id();
    holder.wait_for("a: Succeeded");
    world.run(&["publish", "second.json"]).expect(0);
    let listed = world.run(&["runs", "--json"]).expect(0).json();
    assert_eq!(listed["items"][0]["version"], 2);
    world.run(&["signal", &run, "go"]).expect(0);
    assert_eq!(holder.end().expect(0).json()["counts"]["succeeded"], 4);
}

#[test]
fn a_plan_says_what_would_happen_to_each_run() {
    let world = world();
    world.definition("pinned.json", &FIRST.replace("healing", "pinned"));
    left(&world, "pinned.json");
    left(&world, "first.json");
    let plan = |file: &str| {
        let answer = world.run(&["publish", file, "--plan", "--json"]).expect(0);
        answer.json()["runs"].clone()
    };
    let second = plan("second.json");
    assert_eq!(second[0]["effect"], "adopts");
    assert_eq!(second[0]["added"], json!(["after", "b"]));
    assert_eq!(second[0]["ready"], json!(["b"]));
    assert_eq!(second[1]["effect"], "unaffected");
    let third = plan("third.json");
    assert_eq!(third[0]["effect"], "needsDecision");
    assert_eq!(third[0]["warnings"][0]["code"], "NODE_REMOVED");
    let same = plan("first.json");
    assert_eq!(same[0]["effect"], "unaffected");
    let table = world.run(&["publish", "second.json", "--plan"]).expect(0);
    assert!(
        table.stdout.contains("adds after, b; starts b"),
        "{}",
        table.stdout
    );
    let versions = world
        .run(&["workflows", "versions", "w", "--json"])
        .expect(0);
    assert!(
        !versions.stdout.contains("\"version\": 3"),
        "{}",
        versions.stdout
    );
}

#[test]
fn a_graph_is_exported_changed_and_imported() {
    let world = world();
    left(&world, "first.json");
    let file = world.definition("graph.json", "");
    let export = || {
        let text = world.run(&["export", "@last"]).expect(0).stdout;
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    let mut graph = export();
    assert_eq!(graph["version"], 1);
    assert!(graph["frozenAt"].is_string() && graph["signature"].is_string());
    graph["nodes"]["more"] = json!({"actionType": "core.echo", "dependsOn": ["a"]});
    fs::write(&file, graph.to_string()).expect("a file");
    let running = world.run(&["import", "@last", "graph.json"]).expect(6);
    assert!(
        running.stderr.contains("pause it first"),
        "{}",
        running.stderr
    );
    world.run(&["pause", "@last"]).expect(0);
    world.definition("other.json", &FIRST.replace(r#""id":"w""#, r#""id":"x""#));
    let other = world.run(&["import", "@last", "other.json"]).expect(6);
    assert!(other.stderr.contains("INCOMPATIBLE"), "{}", other.stderr);
    world.definition(
        "broken.json",
        r#"{"version":1,"signature":"x","nodes":{"a":{"actionTyp":1}}}"#,
    );
    let broken = world.run(&["import", "@last", "broken.json"]).expect(3);
    assert!(
        broken.stderr.contains("IMPORT_INVALID"),
        "{}",
        broken.stderr
    );
    world
        .run(&["import", "@last", "graph.json", "--dry-run"])
        .expect(0);
    assert!(export()["nodes"]["more"].is_null());
    world
        .run(&["import", "@last", "graph.json", "--reason", "surgery"])
        .expect(0);
    assert!(export()["nodes"]["more"].is_object());
    // The run has a graph of its own now: newly published versions do not affect it.
    world.run(&["publish", "second.json"]).expect(0);
    world.run(&["signal", "@last", "go"]).expect(0);
    let ended = world.run(&["resume", "@last", "--json"]).expect(0).json();
    assert_eq!(ended["counts"]["succeeded"], 3);
}

#[test]
fn a_frozen_graph_runs_and_says_when_its_action_is_gone() {
    let world = world();
    world.definition(
        "plain.json",
        r#"{"id":"plain","nodes":[
      {"id":"z","actionType":"core.echo","parameters":{"n":1}},
      {"id":"a","actionType":"core.echo","dependsOn":["z"]}]}"#,
    );
    world.run(&["run", "plain.json", "-q"]).expect(0);
    let text = world.run(&["export", "@last"]).expect(0).stdout;
    let graph: Value = serde_json::from_str(&text).expect("JSON");
    world.definition("frozen.json", &text);
    let ended = world
        .run(&["run", "frozen.json", "--json"])
        .expect(0)
        .json();
    let names = node_names(&ended);
    assert_eq!(names, ["z", "a"], "in the order of the text");
    assert_eq!(ended["nodes"]["z"]["output"]["n"], 1);
    let versions = world
        .run(&["workflows", "versions", "plain", "--json"])
        .expect(0);
    assert!(
        !versions.stdout.contains("\"version\": 2"),
        "{}",
        versions.stdout
    );
    let mut changed = graph.clone();
    changed["nodes"]["b"] = json!({"actionType": "core.echo"});
    world.definition("changed.json", &changed.to_string());
    let refused = world.run(&["run", "changed.json"]).expect(3);
    assert!(
        refused.stderr.contains("SIGNATURE_MISMATCH"),
        "{}",
        refused.stderr
    );
    let mut gone = graph.clone();
    gone["nodes"]["a"]["actionType"] = json!("core.gone");
    world.definition("gone.json", &gone.to_string());
    let failed = world
        .run(&["run", "gone.json", "--json", "-q"])
        .expect(1)
        .json();
    let error = &failed["nodes"]["a"]["error"];
    assert_eq!(error["code"], "UNKNOWN_ACTION");
    let message = error["message"].as_str().expect("text");
    let frozen_at = graph["frozenAt"].as_str().expect("a moment");
    assert!(
        message.contains(frozen_at) && message.contains("skip"),
        "{message}"
    );
    world.run(&["skip", "@last", "a", "-q"]).expect(0);
}

#[test]
fn an_exported_graph_is_checked_and_drawn_as_a_definition_is() {
    let world = world();
    left(&world, "first.json");
    let text = world.run(&["export", "@last"]).expect(0).stdout;
    let mut graph: Value = serde_json::from_str(&text).expect("JSON");
    world.definition("graph.json", &text);
    world.run(&["validate", "graph.json"]).expect(0);
    let drawn = world.run(&["graph", "graph.json", "--json"]).expect(0);
    assert_eq!(drawn.json()["edges"][0]["to"], "wait");
    graph["nodes"]["wait"]["dependsOn"] = json!(["nobody"]);
    world.definition("wrong.json", &graph.to_string());
    let wrong = world.run(&["validate", "wrong.json", "--json"]).expect(3);
    assert_eq!(wrong.json()["problems"][0]["code"], "UNKNOWN_NODE");
}
