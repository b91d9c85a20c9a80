//! What programs read: whether a request found its run.

mod act_world;

use act_world::World;

const ECHO: &str = r#"{
  "id": "echo",
  "triggerSchema": { "type": "object", "properties": { "n": { "type": "number" } } },
  "nodes": [{ "id": "a", "actionType": "core.echo", "parameters": { "n": 1 } }]
}"#;

const SLEEP: &str = r#"{
  "id": "sleep",
  "nodes": [{ "id": "a", "actionType": "core.sleep", "parameters": { "ms": 60000 } }]
}"#;

fn world() -> World {
    let world = World::new();
    world.definition("echo.json", ECHO);
    world.definition("sleep.json", SLEEP);
    world
}

#[test]
fn a_request_says_whether_it_found_its_run() {
    let world = world();
    let run = |arguments: &[&str]| world.run(&[&["run", "echo.json"], arguments].concat());
    let id = ["--request-id", "r1"];
    assert_eq!(run(&["--json"]).expect(0).json()["existing"], false);
    let first = run(&[&id[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(first["existing"], false);
    for detach in [&["--json"][..], &["--json", "--detach"]] {
        let again = run(&[&id[..], detach].concat()).expect(0).json();
        assert_eq!(again["existing"], true, "{detach:?}");
        assert_eq!(again["executionId"], first["executionId"]);
        assert_eq!(again["status"], "Succeeded");
    }
    for detach in [&[][..], &["--detach"]] {
        let again = run(&[&id[..], detach].concat()).expect(0);
        assert!(
            again.stderr.contains("not started again"),
            "{}",
            again.stderr
        );
    }
    let queued = ["--request-id", "r2", "--json", "--detach"];
    assert_eq!(run(&queued).expect(0).json()["existing"], false);
    assert_eq!(run(&queued).expect(0).json()["existing"], true);
    let shown = world.run(&["show", "@last", "--json"]).expect(0).json();
    assert!(
        shown.get("existing").is_none(),
        "it is the answer's, not the run's"
    );
}

#[test]
fn a_request_through_the_holder_says_so_too() {
    let world = world();
    let mut holder = world.start(&["run", "sleep.json"]);
    let holding = holder.run_id();
    let run =
        |arguments: &[&str]| world.run(&[&["run", "echo.json", "--json"], arguments].concat());
    assert_eq!(run(&[]).expect(0).json()["existing"], false);
    let id = ["--request-id", "r1"];
    assert_eq!(run(&id).expect(0).json()["existing"], false);
    assert_eq!(run(&id).expect(0).json()["existing"], true);
    let detached = run(&[&id[..], &["--detach"]].concat()).expect(0).json();
    assert_eq!(detached["existing"], true);
    assert_eq!(detached["status"], "Succeeded");
    world.run(&["cancel", &holding]).expect(0);
    holder.end().expect(8);
}
