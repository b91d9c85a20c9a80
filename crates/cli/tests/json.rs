//! What programs read: failures as JSON, and whether a request found its run.

use serde_json::Value;
use windlass_test_support::process::{Ended, World};

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
    World::with_files(&[("echo.json", ECHO), ("sleep.json", SLEEP)])
}

/// The failure on the last line of stderr.
#[track_caller]
fn failure(ended: &Ended) -> Value {
    assert_eq!(ended.stdout, "", "{}", ended.stderr);
    let line = ended.stderr.lines().last().expect("a line");
    let mut value: Value =
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}\n{}", ended.stderr));
    let error = value["error"].take();
    assert!(error["message"].is_string(), "{line}");
    assert!(error["details"].is_array(), "{line}");
    error
}

#[test]
fn failures_are_json_where_json_is_asked_for() {
    let world = world();
    world.definition(
        "broken.json",
        r#"{"id":"b","nodes":[{"id":"a","actionTyp":"x"}]}"#,
    );
    let cases: [(&[&str], i32, &str); 11] = [
        (&["show", "0123"], 4, "NO_DATA_DIR"),
        (&["run"], 2, "USAGE"),
        (&["nonsense"], 2, "USAGE"),
        (&["run", "echo.json", "--set", "x=1"], 2, "USAGE"),
        (&["run", "broken.json"], 3, "DEFINITION_INVALID"),
        (&["run", "absent.json"], 4, "FILE_NOT_FOUND"),
        (&["run", "."], 3, "FILE_UNREADABLE"),
        (&["validate", "."], 3, "FILE_UNREADABLE"),
        (&["publish", "."], 3, "FILE_UNREADABLE"),
        (
            &["run", "echo.json", "--trigger", "{"],
            3,
            "TRIGGER_NOT_JSON",
        ),
        (&["show", "0123"], 4, "RUN_NOT_FOUND"),
    ];
    for (arguments, exit, code) in cases {
        for asking in [&["--json"][..], &["--output", "json"], &["--output=json"]] {
            let ended = world.run(&[arguments, asking].concat()).expect(exit);
            assert_eq!(failure(&ended)["code"], code, "{arguments:?} {asking:?}");
        }
        let table = world.run(arguments).expect(exit);
        assert!(!table.stderr.contains("{\"error\""), "{}", table.stderr);
        assert!(table.stderr.contains("error"), "{}", table.stderr);
    }
    // What is not said on the command line counts as well.
    let mut command = world.command(&["nonsense"]);
    command.env("WINDLASS_OUTPUT", "json");
    assert_eq!(
        failure(&windlass_test_support::process::ended(command))["code"],
        "USAGE"
    );
    world.definition("windlass.toml", "output = 'json'\n");
    assert_eq!(
        failure(&world.run(&["show", "0123"]))["code"],
        "RUN_NOT_FOUND"
    );
    world.definition("windlass.toml", "outptu = 'json'\n");
    let ended = world.run(&["runs", "--json"]).expect(3);
    assert_eq!(failure(&ended)["code"], "CONFIG_INVALID");
}

#[test]
fn details_say_where() {
    let world = world();
    world.definition(
        "broken.json",
        r#"{"id":"b","nodes":[{"id":"a","actionTyp":"x"}]}"#,
    );
    for command in ["run", "publish"] {
        let ended = world.run(&[command, "broken.json", "--json"]).expect(3);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        let details = failure(&ended)["details"].take();
        assert_eq!(details[0]["pointer"], "/nodes/0/actionTyp", "{details}");
        assert_eq!(details[0]["code"], "UNKNOWN_KEY");
        assert_eq!(details[0]["line"], 1);
        let table = world.run(&[command, "broken.json"]).expect(3);
        assert!(
            table.stderr.contains("--> broken.json:1:"),
            "{}",
            table.stderr
        );
        assert!(
            table.stderr.contains("broken.json has "),
            "{}",
            table.stderr
        );
    }
    for (trigger, pointer) in [(r#"{"n":"x"}"#, "/n"), (r#"{"m":[{"k":1,"k":2}]}"#, "/m/0")] {
        let run = ["run", "echo.json", "--json", "--trigger", trigger];
        let error = failure(&world.run(&run).expect(3));
        assert_eq!(error["code"], "TRIGGER_INVALID");
        assert_eq!(error["details"][0]["pointer"], pointer, "{error}");
    }
}

#[test]
fn a_run_that_was_left_is_a_failure_for_programs() {
    let world = world();
    let left = ["run", "sleep.json", "--json", "--wait", "0.1"];
    let ended = world.run(&left).expect(7);
    assert_eq!(failure(&ended)["code"], "RUN_NOT_ENDED");
    world.run(&["cancel", "@last"]).expect(0);
    let ended = world.run(&["result", "@last", "--json"]).expect(8);
    assert_eq!(failure(&ended)["code"], "RUN_CANCELLED");
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
