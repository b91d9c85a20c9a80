//! A holder ends while it owes an answer. The answer is held back on purpose, until the
//! command has done its work and the holder has nothing else left to do.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use windlass_test_support::process::{Background, World};

/// Holds answers back for much longer than a holder takes to end otherwise.
const LATE: (&str, &str) = ("WINDLASS_ANSWER_LATE_MS", "2000");

/// Holds answers back for ever, as far as the test goes.
const NEVER: (&str, &str) = ("WINDLASS_ANSWER_LATE_MS", "600000");

const SLEEP: &str = r#"{
  "id": "sleep",
  "nodes": [{ "id": "a", "actionType": "core.sleep", "parameters": { "ms": 60000 } }]
}"#;

const ECHO: &str = r#"{ "id": "echo", "nodes": [{ "id": "a", "actionType": "core.echo" }] }"#;

/// A holder that answers late.
fn holder(world: &World, late: (&str, &str)) -> (Background, String) {
    world.definition("sleep.json", SLEEP);
    let mut holder = world.start_with(&["run", "sleep.json"], &[late]);
    let run = holder.run_id();
    (holder, run)
}

#[test]
fn the_command_that_ends_the_holder_is_answered() {
    let world = World::new();
    let (holder, run) = holder(&world, LATE);
    let mut socket =
        UnixStream::connect(world.path().join(".windlass/control.sock")).expect("it listens");
    // One that asks for nothing does not keep the holder.
    let silent =
        UnixStream::connect(world.path().join(".windlass/control.sock")).expect("it listens");
    write!(
        socket,
        "POST /api/v1/executions/{run}/cancel HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
    )
    .expect("it reads");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
    assert!(
        answer.contains(&format!("\"executionId\":\"{run}\"")),
        "{answer:?}"
    );
    holder.end().expect(8);
    drop(silent);
}

#[test]
fn a_holder_that_is_killed_before_it_answers_is_not_missed() {
    let world = World::new();
    let (holder, run) = holder(&world, NEVER);
    let cancel = world.start(&["cancel", &run]);
    let is_cancelled = || {
        let shown = world.run(&["show", &run, "--json"]).expect(0).json();
        shown["status"] == "Cancelled"
    };
    assert!((0..1000).any(|_| is_cancelled()), "it is not cancelled");
    holder.kill();
    let ended = cancel.end().expect(0);
    assert!(ended.stdout.contains("cancelled"), "{}", ended.stdout);
}

#[test]
fn a_fork_whose_holder_is_killed_is_started_once_and_from_the_same_run() {
    let world = World::new();
    world.definition("echo.json", ECHO);
    let (first, sleeping) = holder(&world, LATE);
    first.kill();
    let origin = world.run(&["run", "echo.json", "--json"]).expect(0).json();
    let mut holder = world.start_with(&["resume", &sleeping], &[NEVER]);
    assert_eq!(holder.run_id(), sleeping);
    let fork = world.start(&["fork", "@last", "--from", "a", "--json"]);
    let runs = || {
        let listed = world.run(&["runs", "--json"]).expect(0).json();
        listed["items"].as_array().map(Vec::len)
    };
    assert!((0..1000).any(|_| runs() == Some(3)), "it is not started");
    // The new run is `@last` now.
    holder.kill();
    let forked = fork.end().expect(0).json();
    assert_eq!(forked["origin"]["executionId"], origin["executionId"]);
    assert_eq!(runs(), Some(3));
}
