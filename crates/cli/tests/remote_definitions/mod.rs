//! Definitions that are run on a server, from outside.

use windlass_test_support::process::World;

const ECHO: &str = r#"{ "id": "echo", "displayName": "An echo", "vars": { "region": "eu" },
  "nodes": [{ "id": "a", "actionType": "core.echo", "parameters": {
    "n": "{{ trigger.n ?? 1 }}", "region": "{{ vars.region }}" } }] }"#;

const ECHO_MORE: &str = r#"{ "id": "echo", "vars": { "region": "eu" }, "nodes": [
  { "id": "a", "actionType": "core.echo", "edges": [{ "targetNode": "b" }] },
  { "id": "b", "actionType": "core.echo" }] }"#;

const LOOP: &str = r#"{ "id": "loop", "nodes": [
  { "id": "each", "forEach": { "items": [1, 2, 3], "body": { "nodes": [
      { "id": "one", "actionType": "core.echo", "parameters": { "n": "{{ item }}" } }] } },
    "edges": [{ "targetNode": "child" }] },
  { "id": "child", "subworkflow": { "workflowId": "echo", "input": { "n": 5 } } }] }"#;

const FAIL: &str = r#"{ "id": "fail", "nodes": [
  { "id": "made", "actionType": "core.echo", "compensate": { "actionType": "core.echo" },
    "edges": [{ "targetNode": "bad" }] },
  { "id": "bad", "actionType": "core.fail", "parameters": { "message": "no", "retriable": true },
    "policies": { "retry": { "maxAttempts": 2, "baseDelayMs": 1 } } }],
  "compensation": "manual" }"#;

/// Fails once, then goes on.
const ONCE: &str = r#"{ "id": "once", "nodes": [
  { "id": "first", "actionType": "core.fail", "parameters": { "untilAttempt": 2 } },
  { "id": "other", "actionType": "core.echo" }] }"#;

const WAIT: &str = r#"{ "id": "wait", "nodes": [
  { "id": "ask", "waitForSignal": { "name": "go" }, "edges": [{ "targetNode": "after" }] },
  { "id": "after", "actionType": "core.echo", "parameters": { "said": "{{ context.data.ask }}" } }] }"#;

/// A directory with definitions.
pub(crate) fn world() -> World {
    World::with_files(&[
        ("echo.json", ECHO),
        ("more.json", ECHO_MORE),
        ("loop.json", LOOP),
        ("fail.json", FAIL),
        ("once.json", ONCE),
        ("wait.json", WAIT),
    ])
}
