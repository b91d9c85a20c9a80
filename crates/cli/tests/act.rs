//! Acting on runs with the real binary: exit codes, crashes, Ctrl-C, and two processes
//! on one data directory.

use serde_json::json;
use windlass_test_support::process::{Background, World};

/// Three steps; the middle one takes as long as the trigger says.
const STEPS: &str = r#"{
  "id": "steps",
  "vars": { "greeting": "hello" },
  "output": "{{ vars.greeting + ' ' + context.data['last'].n }}",
  "nodes": [
    { "id": "first", "actionType": "core.echo", "parameters": { "n": 1 },
      "edges": [{ "targetNode": "middle" }] },
    { "id": "middle", "actionType": "core.sleep", "parameters": { "ms": "{{ trigger.ms ?? 1 }}" },
      "edges": [{ "targetNode": "last" }] },
    { "id": "last", "actionType": "core.echo", "parameters": { "n": 3 } }
  ]
}"#;

/// Fails at its second node until it is tried again.
const FLAKY: &str = r#"{
  "id": "flaky",
  "nodes": [
    { "id": "first", "actionType": "core.echo", "parameters": {}, "edges": [{ "targetNode": "second" }] },
    { "id": "second", "actionType": "core.fail", "parameters": { "code": "NO", "untilAttempt": 2 },
      "edges": [{ "targetNode": "third" }] },
    { "id": "third", "actionType": "core.echo", "parameters": {} }
  ]
}"#;

fn world(name: &str, text: &str) -> World {
    World::with_files(&[(name, text)])
}

/// A run of the steps whose middle one is under way.
fn under_way(world: &World, ms: u32) -> (Background, String) {
    let trigger = format!(r#"{{"ms":{ms}}}"#);
    let mut running = world.start(&["run", "steps.json", "--trigger", &trigger]);
    let run = running.run_id();
    running.wait_for("first: Succeeded");
    (running, run)
}

#[test]
fn a_run_ends_well() {
    let world = world("steps.json", STEPS);
    let ended = world.run(&["run", "steps.json"]).expect(0);
    assert!(ended.stderr.contains(" Succeeded in "), "{}", ended.stderr);
    // The output alone is data: a program can read it.
    assert!(ended.json().to_string().contains("hello 3"));
    assert!(!ended.stdout.contains('\x1b') && !ended.stderr.contains('\x1b'));
    assert!(
        ended.stderr.contains("middle: Succeeded"),
        "{}",
        ended.stderr
    );
    let run = world.run(&["run", "steps.json", "--json"]).expect(0).json();
    assert_eq!(run["status"], "Succeeded");
    assert_eq!(run["version"], 1);
    let quiet = world.run(&["run", "steps.json", "--quiet"]).expect(0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn what_is_wrong_has_its_own_exit_code() {
    let world = world("steps.json", STEPS);
    world.definition(
        "broken.json",
        r#"{"id":"b","nodes":[{"id":"a","actionTyp":"x"}]}"#,
    );
    world.definition(
        "loop.json",
        r#"{"id":"l","nodes":[{"id":"a","forEach":{"items":"[]","body":{"nodes":[{"id":"b","actionType":"core.echo"}]}}}]}"#,
    );
    let usage = world.run(&["run"]).expect(2);
    assert!(usage.stderr.contains("FILE"), "{}", usage.stderr);
    let broken = world.run(&["run", "broken.json"]).expect(3);
    assert!(
        broken.stderr.contains("--> broken.json:1:"),
        "{}",
        broken.stderr
    );
    world.run(&["run", "absent.json"]).expect(4);
    world.run(&["resume", "0123"]).expect(4);
    let trigger = world
        .run(&["run", "steps.json", "--trigger", "{"])
        .expect(3);
    assert!(
        trigger.stderr.contains("TRIGGER_NOT_JSON"),
        "{}",
        trigger.stderr
    );
    world.run(&["resume", "0123"]).expect(4);
    let set = world
        .run(&["run", "steps.json", "--set", "nods.x=1"])
        .expect(2);
    assert!(set.stderr.contains("vars.NAME"), "{}", set.stderr);
    world
        .run(&["run", "steps.json", "--set", "vars.gretting=x"])
        .expect(2);
    world
        .run(&["run", "steps.json", "--set", "nodes.frist.parameters.n=1"])
        .expect(2);
    let failed = world.definition("flaky.json", FLAKY);
    let failed = world
        .run(&["run", failed.to_str().expect("text")])
        .expect(1);
    assert!(
        failed.stderr.contains("failed second: NO"),
        "{}",
        failed.stderr
    );
}

#[test]
fn set_changes_what_runs() {
    let world = world("steps.json", STEPS);
    let sets = [
        "--set",
        "vars.greeting=bye",
        "--set",
        "nodes.last.parameters.n=7",
    ];
    let mut arguments = vec!["run", "steps.json", "--json"];
    arguments.extend(sets);
    let run = world.run(&arguments).expect(0).json();
    assert_eq!(run["output"], "bye 7");
    assert_eq!(run["vars"]["greeting"], "bye");
    // No other run follows a change that was made for one run.
    assert_eq!(run["graph"], "frozen");
    let original = world.run(&["run", "steps.json", "--json"]).expect(0).json();
    assert_eq!(original["output"], "hello 3");
    assert_eq!(original["version"], 1);
    world.run(&arguments).expect(0);
    let versions = world.run(&["workflows", "versions", "steps", "--json"]);
    let versions = versions.expect(0).json();
    let versions = versions["items"].as_array().expect("a list");
    assert_eq!(versions.len(), 1, "{versions:?}");
}

#[test]
fn a_request_id_starts_once() {
    let world = world("steps.json", STEPS);
    let arguments = ["run", "steps.json", "--request-id", "r1", "--json"];
    let first = world.run(&arguments).expect(0);
    let second = world.run(&arguments).expect(0);
    assert_eq!(first.json()["executionId"], second.json()["executionId"]);
    assert!(
        second.stderr.contains("not started again"),
        "{}",
        second.stderr
    );
    let reused = [&arguments[..], &["--trigger", r#"{"ms":2}"#]].concat();
    let reused = world.run(&reused).expect(6);
    assert!(
        reused.stderr.contains("REQUEST_ID_REUSED"),
        "{}",
        reused.stderr
    );
}

#[test]
fn triggers_that_are_equal_as_values_are_the_same_request() {
    let world = world("steps.json", STEPS);
    let run = |trigger: &str| {
        let request = ["run", "steps.json", "--request-id", "r1", "--json"];
        world.run(&[&request[..], &["--trigger", trigger]].concat())
    };
    let first = run(r#"{"ms":1,"a":[{"x":"é"}]}"#).expect(0).json();
    for same in [
        r#"{"ms":1.0,"a":[{"x":"\u00e9"}]}"#,
        r#" { "a" : [ { "x" : "é" } ], "ms" : 10e-1 } "#,
    ] {
        let second = run(same).expect(0).json();
        assert_eq!(first["executionId"], second["executionId"], "{same}");
    }
    // Numbers that a float would confuse stay apart.
    let mut large = ["run", "steps.json", "--request-id", "r2", "--trigger", ""];
    large[5] = r#"{"n":9007199254740993}"#;
    world.run(&large).expect(0);
    large[5] = r#"{"n":9007199254740992}"#;
    world.run(&large).expect(6);
}

#[test]
fn integers_that_no_expression_touches_keep_their_digits() {
    let world = world(
        "numbers.json",
        r#"{ "id": "numbers", "nodes": [{ "id": "a", "actionType": "core.echo", "parameters": {
             "long": 123456789012345678901234567890, "id": "{{ trigger.id }}" } }] }"#,
    );
    let trigger = r#"{"id":9007199254740993,"long":123456789012345678901234567891}"#;
    let run = ["run", "numbers.json", "--trigger", trigger];
    let shown = world.run(&run).expect(0).stdout;
    let json = world
        .run(&[&run[..], &["--json"]].concat())
        .expect(0)
        .stdout;
    for text in [&shown, &json] {
        assert!(text.contains("\"id\": 9007199254740993"), "{text}");
        assert!(
            text.contains("\"long\": 123456789012345678901234567890"),
            "{text}"
        );
    }
    assert!(
        json.contains("\"long\": 123456789012345678901234567891"),
        "{json}"
    );
}

#[test]
fn a_key_that_a_trigger_has_twice_is_refused_by_name() {
    let world = world("steps.json", STEPS);
    let twice = [
        "run",
        "steps.json",
        "--trigger",
        r#"{"a":{"key":1,"key":1}}"#,
    ];
    let refused = world.run(&twice).expect(3);
    assert!(
        refused.stderr.contains("TRIGGER_INVALID"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("'key' twice, at /a"),
        "{}",
        refused.stderr
    );
    let hidden = [&twice[..], &["--set", "trigger.ms=1"]].concat();
    let refused = world.run(&hidden).expect(3);
    assert!(refused.stderr.contains("'key' twice"), "{}", refused.stderr);
    world.run(&["show", "@last"]).expect(4);
}

#[test]
fn a_killed_run_is_resumed() {
    let world = world("steps.json", STEPS);
    let (running, run) = under_way(&world, 1500);
    running.kill();
    let ended = world.run(&["resume", &run, "--json"]).expect(0).json();
    assert_eq!(ended["status"], "Succeeded");
    assert_eq!(ended["output"], "hello 3");
    assert_eq!(ended["nodes"]["first"]["attempts"], 1);
    assert_eq!(ended["nodes"]["middle"]["attempts"], 1);
    let again = world.run(&["resume", &run]).expect(6);
    assert!(again.stderr.contains("RUN_ENDED"), "{}", again.stderr);
}

#[test]
fn an_interrupted_run_is_resumed() {
    let world = world("steps.json", STEPS);
    let (running, run) = under_way(&world, 1500);
    running.interrupt();
    let ended = running.end().expect(130);
    let hint = format!("windlass resume {run}");
    assert!(ended.stderr.contains(&hint), "{}", ended.stderr);
    world.run(&["resume", &run[..18]]).expect(0);
}

#[test]
fn waiting_has_an_end() {
    let world = world("steps.json", STEPS);
    let slow = [
        "run",
        "steps.json",
        "--trigger",
        r#"{"ms":1000}"#,
        "--wait",
        "0.2",
    ];
    let ended = world.run(&slow).expect(7);
    assert!(ended.stderr.contains("windlass resume"), "{}", ended.stderr);
    world.run(&["resume", "@last"]).expect(0);
}

#[test]
fn a_queued_run_is_carried_on_by_the_next() {
    let world = world("steps.json", STEPS);
    let queued = world
        .run(&["run", "steps.json", "--detach", "--json"])
        .expect(0);
    let queued = queued.json();
    assert_eq!(queued["status"], "Pending");
    assert_eq!(queued["existing"], false);
    let id = queued["executionId"].as_str().expect("an id").to_owned();
    world.run(&["run", "steps.json"]).expect(0);
    let shown = world.run(&["show", &id, "--json"]).expect(0).json();
    assert_eq!(shown["status"], "Succeeded");
    let other = world.run(&["run", "steps.json", "--detach"]).expect(0);
    let ended = world
        .run(&["resume", other.stdout.trim(), "--json"])
        .expect(0);
    assert_eq!(ended.json()["status"], "Succeeded");
}

#[test]
fn a_second_process_cancels() {
    let world = world("steps.json", STEPS);
    let (running, run) = under_way(&world, 60_000);
    world.run(&["cancel", &run, "--reason", "enough"]).expect(0);
    let ended = running.end().expect(8);
    assert!(ended.stderr.contains(" Cancelled in "), "{}", ended.stderr);
    world.run(&["cancel", &run]).expect(6);
}

#[test]
fn a_run_without_an_owner_is_cancelled_at_once() {
    let world = world("steps.json", STEPS);
    let (running, run) = under_way(&world, 60_000);
    running.kill();
    let ended = world.run(&["cancel", &run]).expect(0);
    assert!(ended.stdout.contains("cancelled"), "{}", ended.stdout);
    let shown = world.run(&["show", &run, "--json"]).expect(0).json();
    assert_eq!(shown["status"], "Cancelled");
    assert_eq!(shown["nodes"]["middle"]["status"], "Cancelled");
    let queued = world.run(&["run", "steps.json", "--detach"]).expect(0);
    world.run(&["cancel", queued.stdout.trim()]).expect(0);
}

#[test]
fn pausing_and_resuming_across_processes() {
    let world = world("steps.json", STEPS);
    let (mut running, run) = under_way(&world, 300);
    world.run(&["pause", &run]).expect(0);
    running.wait_for("paused");
    running.wait_for("middle: Succeeded");
    let shown = world.run(&["show", &run, "--json"]).expect(0).json();
    assert_eq!(shown["status"], "Paused");
    world.run(&["pause", &run]).expect(6);
    let resumed = world.run(&["resume", &run, "--json"]).expect(0).json();
    assert_eq!(resumed["status"], "Succeeded");
    running.end().expect(0);
}

#[test]
fn a_paused_run_outlives_its_process() {
    let world = world("steps.json", STEPS);
    let (mut running, run) = under_way(&world, 60_000);
    world.run(&["pause", &run]).expect(0);
    running.wait_for("paused");
    running.kill();
    let kept = world.run(&["run", "steps.json"]).expect(0);
    assert!(kept.stderr.contains("1 unfinished run"), "{}", kept.stderr);
    world.run(&["cancel", &run]).expect(0);
}

#[test]
fn a_second_process_submits_and_watches() {
    let world = world("steps.json", STEPS);
    let (running, _) = under_way(&world, 60_000);
    let second = world.run(&["run", "steps.json", "--json"]).expect(0).json();
    assert_eq!(second["output"], "hello 3");
    let detached = [
        "run",
        "steps.json",
        "--detach",
        "--trigger",
        r#"{"ms":60000}"#,
    ];
    let detached = world.run(&detached).expect(0);
    let id = detached.stdout.trim();
    let watched = world.run(&["watch", id, "--wait", "0.3"]).expect(7);
    assert!(
        watched.stderr.contains("goes on in process"),
        "{}",
        watched.stderr
    );
    world
        .run(&["cancel", "--filter", "workflow=steps"])
        .expect(0);
    let first = running.end().expect(8);
    assert!(first.stderr.contains(" Cancelled in "), "{}", first.stderr);
    world.run(&["watch", id]).expect(8);
}

#[test]
fn a_watcher_takes_over() {
    let world = world("steps.json", STEPS);
    let (holder, _) = under_way(&world, 60_000);
    let mut second = world.start(&["run", "steps.json", "--json", "--trigger", r#"{"ms":2000}"#]);
    second.run_id();
    holder.kill();
    second.wait_for("taking over");
    let ended = second.end().expect(0).json();
    assert_eq!(ended["output"], "hello 3");
}

#[test]
fn a_watcher_takes_over_from_an_interrupted_holder() {
    let world = world("steps.json", STEPS);
    let (holder, _) = under_way(&world, 60_000);
    let mut second = world.start(&["run", "steps.json", "--trigger", r#"{"ms":2000}"#]);
    second.run_id();
    holder.interrupt();
    holder.end().expect(130);
    second.wait_for("taking over");
    let ended = second.end().expect(0);
    assert!(ended.stdout.contains("hello 3"), "{}", ended.stdout);
}

#[test]
fn failed_nodes_are_tried_again() {
    let world = world("flaky.json", FLAKY);
    world.run(&["run", "flaky.json"]).expect(1);
    let unknown = world.run(&["reattempt", "@last", "secnd"]).expect(4);
    assert!(
        unknown.stderr.contains("did you mean 'second'"),
        "{}",
        unknown.stderr
    );
    let refused = world.run(&["reattempt", "@last", "first"]).expect(6);
    assert!(
        refused.stderr.contains("REATTEMPT_REFUSED"),
        "{}",
        refused.stderr
    );
    let dry = world.run(&["reattempt", "@last", "--dry-run"]).expect(0);
    assert!(dry.stdout.contains("would reattempt"), "{}", dry.stdout);
    let ended = world
        .run(&["reattempt", "@last:flaky", "--json"])
        .expect(0)
        .json();
    assert_eq!(ended["nodes"]["second"]["attempts"], 2);
    assert_eq!(ended["nodes"]["third"]["status"], "Succeeded");
}

#[test]
fn filters_act_on_many() {
    let world = world("flaky.json", FLAKY);
    for _ in 0..3 {
        world
            .run(&["run", "flaky.json", "--label", "team=x"])
            .expect(1);
    }
    let none = world
        .run(&["reattempt", "--filter", "label.team=y"])
        .expect(0);
    assert!(none.stderr.contains("no run fits"), "{}", none.stderr);
    let reattempt = |more: &[&str]| {
        let arguments = [&["reattempt", "--json", "--filter"], more].concat();
        world.run(&arguments).expect(0).json()
    };
    assert_eq!(reattempt(&["label.team=y", "--dry-run"]), json!([]));
    let foreseen = reattempt(&["label.team=x", "--dry-run"]);
    assert_eq!(foreseen.as_array().map(Vec::len), Some(3));
    assert_eq!(foreseen[2]["would"], "reattempt");
    let all = reattempt(&["label.team=x"]);
    assert_eq!(all.as_array().map(Vec::len), Some(3));
    assert_eq!(all[0]["status"], "Succeeded");
    world.run(&["cancel", "--filter", "stat=Failed"]).expect(2);
}

#[test]
fn a_holder_that_does_not_listen_is_named() {
    let world = world("steps.json", STEPS);
    let (running, run) = under_way(&world, 60_000);
    std::fs::remove_file(world.path().join(".windlass/control.sock")).expect("a socket");
    let refused = world.run(&["cancel", &run]).expect(6);
    assert!(
        refused.stderr.contains("DATA_DIR_IN_USE"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("windlass run"),
        "{}",
        refused.stderr
    );
    running.kill();
}

#[test]
fn a_deep_data_directory_has_its_socket_elsewhere() {
    let world = world("steps.json", STEPS);
    let deep = "d".repeat(120);
    let mut running = world.start(&[
        "run",
        "steps.json",
        "--data-dir",
        &deep,
        "--trigger",
        r#"{"ms":60000}"#,
    ]);
    let run = running.run_id();
    running.wait_for("first: Succeeded");
    world.run(&["cancel", &run, "--data-dir", &deep]).expect(0);
    running.end().expect(8);
}

#[test]
fn settings_come_from_four_places() {
    let world = World::new();
    world.definition("windlass.toml", "data_dir = \"kept\"\nmax_parallel = 7\n");
    let mut command = world.command(&["config", "--json"]);
    command.env("WINDLASS_MAX_PARALLEL", "9");
    let config = windlass_test_support::process::ended(command)
        .expect(0)
        .json();
    assert_eq!(
        config["data_dir"],
        json!({ "value": "kept", "from": "windlass.toml" })
    );
    assert_eq!(config["max_parallel"]["from"], "WINDLASS_MAX_PARALLEL");
    assert_eq!(config["output"]["from"], "flag");
    assert_eq!(config["workers"]["from"], "default");
    world.definition("windlass.toml", "data_dri = \"kept\"\n");
    let wrong = world.run(&["config"]).expect(3);
    assert!(
        wrong.stderr.contains("did you mean 'data_dir'"),
        "{}",
        wrong.stderr
    );
    std::fs::remove_file(world.path().join("windlass.toml")).expect("a file");
    let script = world.run(&["completions", "bash"]).expect(0);
    assert!(script.stdout.contains("windlass"));
}

#[test]
fn a_disabled_workflow_is_not_started() {
    let world = world("steps.json", STEPS);
    world.run(&["run", "steps.json"]).expect(0);
    world.run(&["workflows", "disable", "steps"]).expect(0);
    let refused = world.run(&["run", "steps.json"]).expect(6);
    assert!(
        refused.stderr.contains("WORKFLOW_DISABLED"),
        "{}",
        refused.stderr
    );
    world.run(&["workflows", "enable", "steps"]).expect(0);
    world.run(&["run", "steps.json"]).expect(0);
}

#[test]
fn secrets_come_from_the_environment_and_stay_there() {
    let world = World::new();
    world.definition(
        "secret.json",
        r#"{"id":"secret","nodes":[{"id":"a","actionType":"core.echo",
            "parameters":{"key":"{{ secrets.API_KEY }}"}}]}"#,
    );
    let mut command = world.command(&["run", "secret.json", "--json"]);
    command.env("WINDLASS_SECRET_API_KEY", "do-not-tell");
    let ended = windlass_test_support::process::ended(command).expect(0);
    assert!(!ended.stdout.contains("do-not-tell"), "{}", ended.stdout);
    let missing = world.run(&["run", "secret.json"]).expect(1);
    assert!(
        missing.stderr.contains("failed a: SECRET_NOT_FOUND"),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_trigger_in_a_file_that_is_too_large_is_named_as_one() {
    let world = World::new();
    world.definition(
        "one.json",
        r#"{"id":"one","nodes":[{"id":"a","actionType":"core.echo"}]}"#,
    );
    let large = format!("\"{}\"", "x".repeat(10 * 1024 * 1024 - 1));
    world.definition("large.json", &large);
    let refused = world.run(&["run", "one.json", "--trigger", "@large.json", "--json"]);
    let refused = refused.expect(3).stderr;
    assert!(refused.contains("\"TRIGGER_TOO_LARGE\""), "{refused}");
}
