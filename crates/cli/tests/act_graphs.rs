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
    world.run(&["run", file, "--wait", "3", "-q"]).expect(7);
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
    let signed = world.run(&["import", "@last", "graph.json"]).expect(3);
    assert!(
        signed.stderr.contains("SIGNATURE_MISMATCH")
            && signed.stderr.contains("remove `signature`"),
        "{}",
        signed.stderr
    );
    graph.as_object_mut().expect("a graph").remove("signature");
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

#[test]
fn a_failed_run_gets_a_new_graph_and_is_reattempted() {
    let world = world();
    world.definition(
        "failing.json",
        r#"{"id":"failing","nodes":[
      {"id":"first","actionType":"core.echo","parameters":{"n":1}},
      {"id":"bad","actionType":"core.fail","dependsOn":["first"]},
      {"id":"last","actionType":"core.echo","dependsOn":["bad"]}]}"#,
    );
    world.run(&["run", "failing.json", "-q"]).expect(1);
    let text = world.run(&["export", "@last"]).expect(0).stdout;
    let mut graph: Value = serde_json::from_str(&text).expect("JSON");
    graph["nodes"]["bad"]["actionType"] = json!("core.echo");
    graph["nodes"]["beside"] = json!({"actionType": "core.echo", "dependsOn": ["first"]});
    graph.as_object_mut().expect("a graph").remove("signature");
    world.definition("mended.json", &graph.to_string());
    let imported = world.run(&["import", "@last", "mended.json"]).expect(0);
    assert!(
        imported.stderr.contains("reattempt") || imported.stdout.contains("reattempt"),
        "{}{}",
        imported.stdout,
        imported.stderr
    );
    // Nothing of the new graph starts before the run is opened again.
    let failed = world.run(&["show", "@last", "--json"]).expect(0).json();
    assert_eq!(failed["status"], "Failed");
    assert_eq!(failed["graph"], "frozen");
    assert_eq!(failed["nodes"]["beside"]["status"], "Pending");
    let ended = world
        .run(&["reattempt", "@last", "--json"])
        .expect(0)
        .json();
    assert_eq!(ended["status"], "Succeeded");
    assert_eq!(ended["counts"]["succeeded"], 4);
    assert_eq!(ended["nodes"]["bad"]["attempts"], 2);
    assert_eq!(ended["nodes"]["first"]["attempts"], 1);
    let verified = world.run(&["verify", "@last"]).expect(0);
    assert!(!verified.stdout.is_empty() || !verified.stderr.is_empty());
    world.run(&["import", "@last", "mended.json"]).expect(6);
}

/// What had failed is not in the new graph: there is nothing to try again, and the run goes on.
#[test]
fn a_failed_run_goes_on_without_the_node_that_failed() {
    let world = world();
    world.definition(
        "failing.json",
        r#"{"id":"failing","nodes":[
      {"id":"first","actionType":"core.echo"},
      {"id":"bad","actionType":"core.fail","dependsOn":["first"]}]}"#,
    );
    world.run(&["run", "failing.json", "-q"]).expect(1);
    world.definition(
        "without.json",
        r#"{"id":"failing","nodes":[
      {"id":"first","actionType":"core.echo"},
      {"id":"instead","actionType":"core.echo","dependsOn":["first"]}]}"#,
    );
    world.run(&["import", "@last", "without.json"]).expect(0);
    let ended = world
        .run(&["reattempt", "@last", "--json"])
        .expect(0)
        .json();
    assert_eq!(ended["status"], "Succeeded");
    assert_eq!(ended["nodes"]["instead"]["status"], "Succeeded");
}

#[test]
fn validation_refuses_a_wrong_signature_at_its_place_in_the_file() {
    let world = world();
    let text = "{\n  \"version\": 1, \"frozenAt\": \"2026-01-01T00:00:00.000Z\",\n  \
                \"signature\": \"00\",\n  \"nodes\": {\"a\": {\"actionType\": \"core.echo\"}}}";
    world.definition("signed.json", text);
    let refused = world.run(&["validate", "signed.json", "--json"]).expect(3);
    let problem = refused.json()["problems"][0].clone();
    assert_eq!(problem["code"], "SIGNATURE_MISMATCH");
    assert_eq!(problem["pointer"], "/signature");
    assert_eq!(
        (problem["line"].as_u64(), problem["column"].as_u64()),
        (Some(3), Some(16))
    );
    assert_eq!(problem["file"], "signed.json");
    let wrong = text
        .replace("  \"signature\": \"00\",\n", "")
        .replace("actionType", "actionTyp");
    world.definition("wrong.json", &wrong);
    let refused = world.run(&["validate", "wrong.json", "--json"]).expect(3);
    let problem = refused.json()["problems"][0].clone();
    assert_eq!(problem["pointer"], "/nodes/a/actionTyp");
    assert_eq!(
        (problem["line"].as_u64(), problem["column"].as_u64()),
        (Some(3), Some(19))
    );
    world.run(&["run", "signed.json"]).expect(3);
    world.run(&["graph", "signed.json"]).expect(3);
}

const NAMED: &str = r#"{"id":"named","nodes":[
  {"id":"n_1","name":"Charge card","actionType":"core.fail","parameters":{"code":"NO_MONEY"}},
  {"id":"n_2","name":"Tell / twice","actionType":"core.echo","dependsOn":["n_1"]},
  {"id":"n_3","name":"Both","actionType":"core.echo"},
  {"id":"n_4","name":"Both","actionType":"core.echo"}]}"#;

#[test]
fn a_unique_name_is_accepted_wherever_an_id_is() {
    let world = world();
    world.definition("named.json", NAMED);
    let failed = world.run(&["run", "named.json"]).expect(1);
    assert!(
        failed.stderr.contains("n_1 (Charge card)"),
        "{}",
        failed.stderr
    );
    let show = world.run(&["show", "@last", "--json"]).expect(0).json();
    let message = show["error"]["message"].as_str().expect("a message");
    assert!(
        message.starts_with("n_1 (Charge card) failed: NO_MONEY"),
        "{message}"
    );
    assert_eq!(show["error"]["causes"][0]["name"], "Charge card");
    let why = world.run(&["why", "@last", "Tell / twice"]).expect(0);
    assert!(
        why.stdout
            .contains("n_2 (Tell / twice) is blocked by n_1 (Charge card)"),
        "{}",
        why.stdout
    );
    let one = ["show", "@last", "--nodes", "Charge card", "--json"];
    assert!(world.run(&one).expect(0).json()["nodes"]["n_1"].is_object());
    let ambiguous = world.run(&["why", "@last", "Both"]).expect(6);
    assert!(
        ambiguous.stderr.contains("NODE_AMBIGUOUS") && ambiguous.stderr.contains("n_3, n_4"),
        "{}",
        ambiguous.stderr
    );
    world.run(&["skip", "@last", "Both"]).expect(6);
    world
        .run(&["fork", "@last", "--from", "Charge card", "--dry-run"])
        .expect(0);
    let set = "nodes.Charge card.parameters.untilAttempt=1";
    let forked = [
        "fork",
        "@last",
        "--from",
        "Charge card",
        "--set",
        set,
        "--json",
    ];
    let forked = world.run(&forked).expect(0).json();
    assert_eq!(forked["nodes"]["n_1"]["status"], "Succeeded");
    let events = world.run(&["events", "@last", "--json"]).expect(0).stdout;
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an event"));
    let named: Vec<Value> = events.filter(|event| event["node"] == "n_1").collect();
    assert!(!named.is_empty());
    for event in named {
        assert_eq!(event["name"], "Charge card", "{event}");
    }
    let shown = world.run(&["events", "@last"]).expect(0).stdout;
    assert!(shown.contains(" n_1 (Charge card)"), "{shown}");
    let origin = forked["origin"]["executionId"].as_str().expect("an origin");
    let again = world.run(&["reattempt", origin, "Charge card"]).expect(1);
    assert!(
        again.stderr.contains("n_1 (Charge card): Failed: NO_MONEY"),
        "{}",
        again.stderr
    );
    assert!(
        again.stderr.contains("failed n_1 (Charge card): NO_MONEY"),
        "{}",
        again.stderr
    );
    world.run(&["skip", origin, "Charge card", "-q"]).expect(0);
}
