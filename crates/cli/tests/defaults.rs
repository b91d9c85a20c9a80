//! Timeouts and a retry from the configuration, for definitions that name none (semantics §5):
//! written into a run when it starts, whatever the configuration says later.

use std::fs;

use serde_json::Value;
use windlass_test_support::process::{Ended, World};

/// Succeeds with its second attempt.
const TWICE: &str = r#"{ "id": "twice", "nodes": [
  { "id": "a", "actionType": "core.fail", "parameters": { "untilAttempt": 2 } }] }"#;

/// The same, with a retry that allows no second attempt.
const ONCE: &str = r#"{ "id": "once", "nodes": [
  { "id": "a", "actionType": "core.fail", "parameters": { "untilAttempt": 2 },
    "policies": { "retry": { "maxAttempts": 1 } } }] }"#;

const SLEEPS: &str = r#"{ "id": "sleeps", "nodes": [
  { "id": "a", "actionType": "core.sleep", "parameters": { "ms": 600000 } }] }"#;

/// Waits for a signal before it fails once.
const LATER: &str = r#"{ "id": "later", "nodes": [
  { "id": "gate", "waitForSignal": { "name": "go" } },
  { "id": "a", "dependsOn": ["gate"], "actionType": "core.fail",
    "parameters": { "untilAttempt": 2 } }] }"#;

const RETRY: &str = r#"{"maxAttempts": 2, "strategy": "fixed", "baseDelayMs": 1, "jitter": false}"#;

fn world() -> World {
    World::with_files(&[
        ("twice.json", TWICE),
        ("once.json", ONCE),
        ("sleeps.json", SLEEPS),
        ("later.json", LATER),
    ])
}

/// Runs a command with these variables to its end.
fn run_with(world: &World, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = world.command(arguments);
    command.envs(variables.iter().copied());
    windlass_test_support::process::ended(command)
}

#[test]
fn a_default_retry_holds_where_the_definition_has_none() {
    let world = world();
    world.run(&["run", "twice.json"]).expect(1);
    let variables = [("WINDLASS_DEFAULTS_RETRY", RETRY)];
    run_with(&world, &["run", "twice.json"], &variables).expect(0);
    run_with(&world, &["run", "once.json"], &variables).expect(1);
    let file = "[defaults]\nretry = { maxAttempts = 2, strategy = \"fixed\", baseDelayMs = 1 }\n";
    fs::write(world.path().join("windlass.toml"), file).expect("a file");
    world.run(&["run", "twice.json"]).expect(0);
}

/// The newest run's status, and the code of its error.
fn last(world: &World) -> (String, String) {
    let shown = world.run(&["show", "@last", "--json"]).expect(0);
    let shown: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&shown["status"]), text(&shown["error"]["code"]))
}

#[test]
fn default_timeouts_end_attempts_and_runs_that_have_none() {
    let world = world();
    let by_action = [("WINDLASS_DEFAULTS_ACTION_TIMEOUT", "20ms")];
    let ended = run_with(&world, &["run", "sleeps.json"], &by_action).expect(1);
    assert!(ended.stderr.contains("TIMEOUT"), "{}", ended.stderr);
    assert_eq!(last(&world), ("Failed".into(), "NODE_FAILED".into()));
    let by_run = [("WINDLASS_DEFAULTS_RUN_TIMEOUT", "20ms")];
    run_with(&world, &["run", "sleeps.json"], &by_run).expect(1);
    assert_eq!(last(&world), ("Failed".into(), "RUN_TIMEOUT".into()));
}

#[test]
fn a_run_keeps_the_defaults_that_it_started_with() {
    let world = world();
    let variables = [("WINDLASS_DEFAULTS_RETRY", RETRY)];
    run_with(&world, &["run", "later.json", "--detach"], &variables).expect(0);
    // The process that sends the signal executes the run, without the setting.
    world.run(&["signal", "@last", "go"]);
    assert_eq!(last(&world).0, "Succeeded");
    world.run(&["run", "later.json", "--detach"]).expect(0);
    run_with(&world, &["signal", "@last", "go"], &variables);
    assert_eq!(last(&world).0, "Failed");
}

#[test]
fn a_default_that_a_definition_could_not_have_is_refused() {
    let world = world();
    let wrong = [
        ("WINDLASS_DEFAULTS_RETRY", "3"),
        (
            "WINDLASS_DEFAULTS_RETRY",
            r#"{"maxAttempts": 2, "backoffFactor": 0.5}"#,
        ),
        (
            "WINDLASS_DEFAULTS_RETRY",
            r#"{"maxAttempts": 2, "delay": 5}"#,
        ),
        ("WINDLASS_DEFAULTS_ACTION_TIMEOUT", "0s"),
        ("WINDLASS_DEFAULTS_ACTION_TIMEOUT", "off"),
        ("WINDLASS_DEFAULTS_RUN_TIMEOUT", "40000d"),
    ];
    for (variable, value) in wrong {
        let ended = run_with(&world, &["run", "twice.json"], &[(variable, value)]);
        assert_ne!(ended.code, 0, "{variable}={value}");
        assert!(ended.stderr.contains(variable), "{}", ended.stderr);
    }
}

#[test]
fn a_simulation_retries_as_the_configuration_says() {
    let world = world();
    let arguments = [
        "simulate",
        "twice.json",
        "--no-crashes",
        "--fail",
        "a=50%",
        "--json",
    ];
    let without = world.run(&arguments).expect(0);
    let with = run_with(&world, &arguments, &[("WINDLASS_DEFAULTS_RETRY", RETRY)]).expect(0);
    assert_ne!(without.stdout, with.stdout);
}
