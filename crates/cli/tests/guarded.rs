//! What must not get out, and what must not get in: secrets, and triggers and schemas
//! that nothing could use.

use std::process::Output;

use serde_json::Value;

/// Runs a definition in a directory of its own, with a secret in the environment.
fn run(definition: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("flow.json");
    std::fs::write(&file, definition).expect("a file");
    windlass_test_support::process::windlass()
        .args(["run", "flow.json", "--json", "--quiet"])
        .args(arguments)
        .env("WINDLASS_SECRET_KEY", "never-to-be-seen")
        .env(
            "WINDLASS_POSTGRES_URL",
            "postgres://windlass:never-to-be-seen@localhost/windlass",
        )
        .env(
            "WINDLASS_SEALING_KEY",
            "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=",
        )
        .current_dir(folder.path())
        .output()
        .expect("the binary runs")
}

#[track_caller]
fn refused(definition: &str, arguments: &[&str], code: &str) {
    let output = run(definition, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains(code), "{stderr}");
}

const ECHO: &str = r#"{"id":"flow","nodes":[{"id":"a","actionType":"core.echo"}]}"#;

#[test]
fn a_program_does_not_inherit_secrets() {
    let definition = r#"{"id":"flow","nodes":[
        {"id":"a","actionType":"core.exec","parameters":{"program":"env"}}]}"#;
    let output = run(definition, &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("WINDLASS_NODE=a"), "{text}");
    assert!(!text.contains("WINDLASS_SEALING_KEY"), "{text}");
    assert!(!text.contains("never-to-be-seen"), "{text}");
}

#[test]
fn a_trigger_that_no_expression_could_read_is_refused() {
    refused(ECHO, &["--trigger", r#"{"n":1e400}"#], "TRIGGER_NOT_JSON");
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    refused(ECHO, &["--trigger", &nested(65)], "NESTING_LIMIT");
    assert_eq!(
        run(ECHO, &["--trigger", &nested(64)]).status.code(),
        Some(0)
    );
}

#[test]
fn an_unusable_schema_and_a_broken_script_are_found_before_anything_runs() {
    let schema = r#"{"id":"flow","triggerSchema":{"type":"nope"},"nodes":[
        {"id":"a","actionType":"core.echo"}]}"#;
    refused(schema, &[], "INVALID_SCHEMA");
    let script = r#"{"id":"flow","nodes":[
        {"id":"a","actionType":"core.script","parameters":{"expression":"new Date()"}}]}"#;
    refused(script, &[], "EXPRESSION_NOT_ALLOWED");
}

#[test]
fn an_output_nested_past_the_limit_fails_its_node() {
    let definition = r#"{"id":"flow","nodes":[
        {"id":"a","actionType":"core.echo","parameters":["{{ trigger }}"]}]}"#;
    let trigger = format!("{}{}", "[".repeat(64), "]".repeat(64));
    let output = run(definition, &["--trigger", &trigger]);
    let execution: Value = serde_json::from_slice(&output.stdout).expect("an execution");
    assert_eq!(execution["nodes"]["a"]["error"]["code"], "NESTING_LIMIT");
}

#[test]
fn the_dollar_is_the_trigger() {
    // In parameters, where a worker reads each name on its own.
    let definition = r#"{"id":"flow","nodes":[
        {"id":"a","actionType":"core.script","parameters":{"expression":"$ === trigger"}}]}"#;
    let output = run(definition, &["--trigger", "{}"]);
    let execution: Value = serde_json::from_slice(&output.stdout).expect("an execution");
    assert_eq!(execution["output"], true);
}
