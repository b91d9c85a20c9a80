//! Commands that need the data directory, while another process holds it; and what a dry
//! run says.

use windlass_test_support::process::{Background, World};

const SLEEP: &str = r#"{
  "id": "sleep",
  "nodes": [{ "id": "a", "actionType": "core.sleep", "parameters": { "ms": 60000 } }]
}"#;

const ECHO: &str = r#"{ "id": "echo", "nodes": [{ "id": "a", "actionType": "core.echo" }] }"#;

const FAIL: &str = r#"{
  "id": "fail",
  "nodes": [
    { "id": "bad", "actionType": "core.fail" },
    { "id": "good", "actionType": "core.echo" }
  ]
}"#;

/// A world whose data directory is held by a run that sleeps.
fn held() -> (World, Background, String) {
    let world = World::new();
    world.definition("sleep.json", SLEEP);
    world.definition("echo.json", ECHO);
    let mut holder = world.start(&["run", "sleep.json"]);
    let run = holder.run_id();
    (world, holder, run)
}

#[test]
fn definitions_are_published_through_the_holder() {
    let (world, holder, run) = held();
    let published = world.run(&["publish", "echo.json"]).expect(0);
    assert_eq!(published.stdout, "published echo version 1\n");
    let same = world
        .run(&["publish", "echo.json", "--json"])
        .expect(0)
        .json();
    assert_eq!(same["created"], false);
    assert_eq!(same["version"], 1);
    world.definition("echo.json", &ECHO.replace("\"a\"", "\"b\""));
    let next = world
        .run(&["publish", "echo.json", "--json"])
        .expect(0)
        .json();
    assert_eq!(next["version"], 2);
    world.definition("echo.json", &ECHO.replace("nodes", "noods"));
    world.run(&["publish", "echo.json"]).expect(3);
    world.run(&["cancel", &run]).expect(0);
    holder.end().expect(8);
    let versions = world.run(&["workflows", "versions", "echo", "--json"]);
    let versions = versions.expect(0).json();
    assert_eq!(versions["items"].as_array().map(Vec::len), Some(2));
}

#[test]
fn workflows_are_disabled_and_enabled_through_the_holder() {
    let (world, holder, run) = held();
    world.run(&["publish", "echo.json"]).expect(0);
    world.run(&["workflows", "disable", "echo"]).expect(0);
    let refused = world.run(&["run", "echo.json"]).expect(6);
    assert!(
        refused.stderr.contains("WORKFLOW_DISABLED"),
        "{}",
        refused.stderr
    );
    let enabled = world
        .run(&["workflows", "enable", "echo", "--json"])
        .expect(0);
    assert_eq!(enabled.json()["enabled"], true);
    world.run(&["run", "echo.json"]).expect(0);
    let unknown = world.run(&["workflows", "disable", "ehco"]).expect(4);
    assert!(
        unknown.stderr.contains("WORKFLOW_NOT_FOUND"),
        "{}",
        unknown.stderr
    );
    world.run(&["cancel", &run]).expect(0);
    holder.end().expect(8);
}

#[test]
fn the_holder_rebuilds_while_its_run_goes_on() {
    let (world, holder, run) = held();
    for _ in 0..3 {
        world.run(&["run", "echo.json"]).expect(0);
    }
    let rebuilt = world.run(&["rebuild", "--json"]).expect(0).json();
    assert_eq!(rebuilt["rebuilt"], 4);
    assert_eq!(rebuilt["quarantined"].as_array().map(Vec::len), Some(0));
    let shown = world.run(&["show", &run, "--json"]).expect(0).json();
    assert_eq!(shown["status"], "Running");
    world.run(&["cancel", &run]).expect(0);
    holder.end().expect(8);
    let listed = world.run(&["runs", "--status", "cancelled", "--json"]);
    assert_eq!(
        listed.expect(0).json()["items"][0]["executionId"],
        run.as_str()
    );
}

#[test]
fn a_dry_run_says_what_would_be_refused() {
    let world = World::new();
    world.definition("echo.json", ECHO);
    world.definition("fail.json", FAIL);
    world.run(&["run", "echo.json"]).expect(0);
    for command in ["cancel", "pause", "resume", "reattempt"] {
        let said = world.run(&[command, "@last", "--dry-run"]).expect(6);
        let expected = format!("would refuse to {command} it; it is Succeeded");
        assert!(said.stdout.contains(&expected), "{}", said.stdout);
        let said = world.run(&[command, "@last", "--dry-run", "--json"]);
        let said = said.expect(6).json();
        assert!(said["would"].is_null(), "{said}");
        assert!(said["error"]["code"].is_string(), "{said}");
        // What the command itself says.
        let done = world.run(&[command, "@last", "--json"]).expect(6);
        let code = said["error"]["code"].as_str().expect("a code");
        assert!(done.stderr.contains(code), "{code}: {}", done.stderr);
    }
    world.run(&["run", "fail.json"]).expect(1);
    let said = world.run(&["reattempt", "@last", "--dry-run"]).expect(0);
    assert!(said.stdout.contains("would reattempt"), "{}", said.stdout);
    let said = world
        .run(&["reattempt", "@last", "good", "--dry-run"])
        .expect(6);
    assert!(said.stdout.contains(": good"), "{}", said.stdout);
    world
        .run(&["reattempt", "@last", "gone", "--dry-run"])
        .expect(4);
    let all = ["cancel", "--filter", "status=Failed", "--dry-run"];
    let said = world.run(&all).expect(6);
    assert!(said.stdout.contains("would refuse"), "{}", said.stdout);
    // None of these commands changed anything.
    let shown = world.run(&["show", "@last", "--json"]).expect(0).json();
    assert_eq!(shown["nodes"]["bad"]["attempts"], 1);
}
