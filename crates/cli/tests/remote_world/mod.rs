//! A server on a data directory, and commands against it.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crate::act_world::{Background, Ended, World};

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

/// A server on the world's data directory; it is told to stop at the end.
pub(crate) struct Serving {
    process: Option<Background>,
    pub(crate) url: String,
}

impl Serving {
    pub(crate) fn new(world: &World, more: &[&str]) -> Self {
        Self::at(world, "127.0.0.1:0", more)
    }

    pub(crate) fn at(world: &World, address: &str, more: &[&str]) -> Self {
        let mut arguments = vec!["serve", "--listen", address];
        arguments.extend(more);
        let mut process = world.start(&arguments);
        let line = process.wait_for("/api/docs");
        let url = line.split(' ').find(|word| word.starts_with("http"));
        let url = url.expect("an address").replace("/api/docs", "");
        Self {
            process: Some(process),
            url,
        }
    }

    pub(crate) fn stop(mut self) {
        let process = self.process.take().expect("it was started");
        process.interrupt();
        process.end().expect(0);
    }

    /// Runs a command against the server.
    pub(crate) fn run(&self, world: &World, arguments: &[&str]) -> Ended {
        let mut all = vec!["--server", &self.url];
        all.extend(arguments);
        world.run(&all)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            process.interrupt();
        }
    }
}

/// A directory with definitions.
pub(crate) fn world() -> World {
    let world = World::new();
    for (name, text) in [
        ("echo.json", ECHO),
        ("more.json", ECHO_MORE),
        ("loop.json", LOOP),
        ("fail.json", FAIL),
        ("once.json", ONCE),
        ("wait.json", WAIT),
    ] {
        world.definition(name, text);
    }
    world
}

/// The run that an answer is about.
pub(crate) fn id(ended: &Ended) -> String {
    ended.json()["executionId"]
        .as_str()
        .expect("an id")
        .to_owned()
}
