//! What a newcomer meets: mistakes that are caught before anything runs, simulation that agrees
//! with a run, help, completion, pictures and comparisons.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use windlass_test_support::process::World;

fn world(files: &[(&str, &str)]) -> World {
    World::with_files(files)
}

const WRONG: &str = r#"{ "id": "wrong", "vars": { "region": "eu" }, "nodes": [
  { "id": "call", "actionType": "http.request",
    "parameters": { "metod": "GET", "url": "http://localhost", "timeoutMs": "soon" } },
  { "id": "fine", "actionType": "http.request",
    "parameters": { "url": "{{ trigger.url }}", "timeoutMs": "{{ trigger.time }}" } },
  { "id": "nap", "actionType": "core.sleep" },
  { "id": "own", "actionType": "acme.charge", "parameters": { "anything": true } },
  { "id": "undo", "actionType": "core.echo",
    "compensate": { "actionType": "core.sleep", "parameters": { "ms": "x" } } } ] }"#;

#[test]
fn literal_parameters_are_checked_with_their_place() {
    let world = world(&[("wrong.json", WRONG)]);
    let checked = world.run(&["validate", "wrong.json", "--json"]).expect(3);
    let found: Vec<String> = checked.json()["problems"]
        .as_array()
        .expect("problems")
        .iter()
        .map(|problem| {
            format!(
                "{} {}:{} {}",
                problem["code"].as_str().unwrap_or_default(),
                problem["line"],
                problem["column"],
                problem["pointer"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            "PARAMETERS_INVALID 3:21 /nodes/0/parameters/metod",
            "PARAMETERS_INVALID 3:77 /nodes/0/parameters/timeoutMs",
            "PARAMETERS_INVALID 6:32 /nodes/2/actionType",
            "UNKNOWN_ACTION 7:32 /nodes/3/actionType",
            "PARAMETERS_INVALID 9:71 /nodes/4/compensate/parameters/ms",
        ]
    );
    let text = world.run(&["publish", "wrong.json"]).expect(3).stderr;
    assert!(
        text.contains("http.request has no parameter 'metod'"),
        "{text}"
    );
    assert!(text.contains("did you mean 'method'?"), "{text}");
    assert!(
        text.contains("core.sleep needs the parameter 'ms'"),
        "{text}"
    );
}

#[test]
fn a_parameter_that_does_not_fit_at_run_time_is_named() {
    let text = r#"{"id":"late","nodes":[{"id":"call","actionType":"http.request",
        "parameters":{"url":"http://127.0.0.1:1/","timeoutMs":"{{ 'soon' }}"}}]}"#;
    let world = world(&[("late.json", text)]);
    let run = world
        .run(&["run", "late.json", "--json", "--quiet"])
        .expect(1)
        .json();
    let error = &run["nodes"]["call"]["error"];
    assert_eq!(error["code"], "PARAMETERS_INVALID");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("/timeoutMs: "), "{message}");
    assert!(!message.contains("column"), "{message}");
}

#[test]
fn the_schema_has_the_parameters_of_actions() {
    let world = world(&[]);
    let schema = world.run(&["schema"]).expect(0).json();
    let parameters = &schema["$defs"]["http.request.parameters"];
    assert!(parameters.to_string().contains("timeoutMs"), "{parameters}");
    assert!(
        schema["$defs"]["Node"]["allOf"]
            .as_array()
            .is_some_and(|it| it.len() >= 6)
    );
}

const PARENT: &str = r#"{"id":"parent","nodes":[
  {"id":"child","subworkflow":{"workflowId":"chidl","input":{}}}]}"#;
const CHILD: &str = r#"{"id":"child","nodes":[{"id":"a","actionType":"core.echo"}]}"#;

#[test]
fn a_child_a_schedule_and_a_hook_need_a_published_workflow() {
    let world = world(&[("parent.json", PARENT), ("child.json", CHILD)]);
    world.run(&["publish", "child.json"]).expect(0);
    let warned = world.run(&["validate", "parent.json"]).expect(0).stderr;
    assert!(warned.contains("warning[UNKNOWN_WORKFLOW]"), "{warned}");
    let refused = world.run(&["publish", "parent.json"]).expect(3).stderr;
    assert!(refused.contains("UNKNOWN_WORKFLOW"), "{refused}");
    assert!(refused.contains("did you mean 'child'?"), "{refused}");
    assert!(refused.contains("parent.json:2:"), "{refused}");
    let run = world.run(&["run", "parent.json"]).expect(1).stderr;
    let (warning, progress) = run.split_once("  child: Failed").expect("it ran");
    assert!(warning.contains("warning[UNKNOWN_WORKFLOW]"), "{run}");
    assert!(warning.contains("parent.json:2:"), "{run}");
    assert!(warning.contains("did you mean 'child'?"), "{run}");
    assert!(progress.contains("WORKFLOW_NOT_FOUND"), "{run}");
    let text = std::fs::read(world.path().join("parent.json")).expect("a file");
    let mut piped = world.command(&["run", "-", "--detach"]);
    let piped = piped.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut piped = piped.expect("the binary starts");
    let mut input = piped.stdin.take().expect("a pipe");
    input.write_all(&text).expect("written");
    drop(input);
    let said = piped.wait_with_output().expect("its end").stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("warning[UNKNOWN_WORKFLOW]"), "{said}");
    world
        .run(&["publish", "parent.json", "--allow-unknown"])
        .expect(0);
    let hook = ["hooks", "set", "orders", "--workflow", "none"];
    world.run(&hook).failed(4, "WORKFLOW_NOT_FOUND");
    let schedule = ["schedules", "set", "s", "--workflow", "none", "--cron"];
    let daily = [&schedule[..], &["0 2 * * *"]].concat();
    world.run(&daily).failed(4, "WORKFLOW_NOT_FOUND");
    let late = [&schedule[..], &["0 25 * * *"]].concat();
    let wrong = world.run(&late).expect(3).stderr;
    assert!(wrong.contains("the hour, from 0 to 23"), "{wrong}");
}

const SLIPS: &str = r#"{ "id": "slips", "vars": { "region": "eu" }, "nodes": [
  { "id": "a", "actionType": "core.echo", "parameters": { "to": "{{ vars.regoin }}" },
    "edges": [ { "targetNode": "b", "condition": "{{ output.to > 1 }}" } ] },
  { "id": "b", "actionType": "core.echo", "parameters": { "x": "{{ vars.region and more" } } ] }"#;

#[test]
fn slips_of_expressions_get_their_remedy() {
    let world = world(&[("slips.json", SLIPS)]);
    let text = world.run(&["validate", "slips.json"]).expect(3).stderr;
    for part in [
        "nothing in this definition sets the variable 'regoin'",
        "did you mean 'region'?",
        "this is an expression already: it takes no `{{ }}`",
        "write `output.to > 1`",
        "this `{{` is not closed by `}}`",
        "close it with `}}`",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}

#[test]
fn a_switch_that_matches_nothing_is_recorded_and_explained() {
    let text = r#"{"id":"s","nodes":[{"id":"one","actionType":"core.echo",
        "switch":{"on":"trigger.size","cases":{"small":"two"}}},
        {"id":"two","actionType":"core.echo"}]}"#;
    let world = world(&[("s.json", text)]);
    world
        .run(&["run", "s.json", "--set", "trigger.size=huge"])
        .expect(0);
    let events = world.run(&["events", "@last"]).expect(0).stdout;
    assert!(events.contains("SWITCH_UNMATCHED"), "{events}");
    let why = world.run(&["why", "@last"]).expect(0).stdout;
    assert!(
        why.contains("SWITCH_UNMATCHED") && why.contains("'huge'"),
        "{why}"
    );
    let node = world.run(&["why", "@last", "two"]).expect(0).stdout;
    assert!(node.contains("no case of the switch is 'huge'"), "{node}");
}

/// The status of a run, and for one that failed its code, the nodes that failed in order of their
/// names, and whether everything was undone.
fn ending(status: &Value, error: &Value, compensation: &Value) -> Value {
    let nodes = error["nodes"].as_array().cloned().unwrap_or_default();
    let nodes: BTreeSet<String> = nodes.iter().map(Value::to_string).collect();
    json!([status, error["code"], nodes, compensation])
}

/// How a simulation says that a definition ends.
fn simulated(world: &World, file: &str, more: &[&str]) -> Vec<Value> {
    let arguments = [&["simulate", file, "--json", "--seeds", "20"], more].concat();
    let report = world.run(&arguments).expect(0).json();
    let endings = report["endings"].as_array().expect("endings").iter();
    endings
        .map(|it| ending(&it["ending"], it, &it["compensation"]))
        .collect()
}

/// These ask services that a test does not have; connectors.rs runs them against stand-ins.
const OF_OTHER_SERVICES: [&str; 2] = ["onboarding.json", "status-report.json"];

#[test]
fn a_simulation_of_every_example_ends_as_its_run_does() {
    let folder = format!("{}/../../examples", env!("CARGO_MANIFEST_DIR"));
    let world = World::new();
    let examples = [
        ("approval.json", &["--signal", "approval"][..], "Succeeded"),
        ("branching.json", &[], "Succeeded"),
        ("checkout.json", &[], "Failed"),
        ("diamond.json", &[], "Failed"),
        ("fan-out.json", &[], "Succeeded"),
        ("for-each.json", &[], "Succeeded"),
        ("linear.json", &[], "Succeeded"),
        ("order.yaml", &[], "Succeeded"),
        ("patient.json", &[], "Succeeded"),
        ("poll.json", &[], "Succeeded"),
        ("race.json", &[], "Succeeded"),
        ("retry.json", &[], "Succeeded"),
        ("saga.json", &[], "Failed"),
        ("shell.json", &[], "Succeeded"),
        ("switch.yaml", &[], "Succeeded"),
    ];
    let files = std::fs::read_dir(&folder).expect("examples");
    for file in files.map(|file| file.expect("a file").path()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_listed = examples.iter().any(|it| it.0 == name);
        let is_elsewhere = OF_OTHER_SERVICES.contains(&&*name);
        assert!(
            is_listed || is_elsewhere || file.is_dir(),
            "{name} is not simulated"
        );
    }
    for (name, more, status) in examples {
        let file = format!("{folder}/{name}");
        let endings = simulated(&world, &file, more);
        assert_eq!(endings.len(), 1, "{name}: {endings:?}");
        assert_eq!(endings[0][0], status, "{name}");
        // The slow ones and the one that waits for a person run in examples.rs.
        if !["approval.json", "patient.json"].contains(&name) {
            let run = world.run(&["run", &file, "--json", "--quiet"]).json();
            let ended = ending(&run["status"], &run["error"], &run["compensation"]);
            assert_eq!(ended, endings[0], "{name}");
        }
    }
}

#[test]
fn a_simulation_uses_variables_and_says_what_failed() {
    let text = r#"{"id":"v","vars":{"n":2},"nodes":[{"id":"a","actionType":"core.script",
        "parameters":{"expression":"vars.n * 2"},"edges":[{"targetNode":"b","condition":"output === 4"}]},
        {"id":"b","actionType":"core.fail","parameters":{"code":"NO","message":"n is {{ vars.n }}"}}]}"#;
    let world = world(&[("v.json", text)]);
    let report = world
        .run(&["simulate", "v.json", "--json"])
        .expect(0)
        .json();
    assert_eq!(report["failures"][0]["message"], "n is 2");
    let text = world.run(&["simulate", "v.json"]).expect(0);
    assert!(text.stdout.contains("n is 2"), "{}", text.stdout);
}

#[test]
fn words_are_completed_with_what_there_is() {
    let world = world(&[("child.json", CHILD)]);
    world.run(&["run", "child.json"]).expect(0);
    let complete = |words: &[&str]| {
        let arguments = [&["__complete", "--"], words].concat();
        let lines = world.run(&arguments).expect(0).stdout;
        let values = lines
            .lines()
            .map(|line| line.split('\t').next().unwrap_or_default());
        values.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete(&["pau"]), ["pause"]);
    assert!(complete(&["show", ""]).contains(&"@last".to_owned()));
    assert_eq!(complete(&["show", ""]).len(), 2);
    assert_eq!(complete(&["why", "@last", ""]), ["a"]);
    assert_eq!(complete(&["runs", "--status", "f"]), ["failed"]);
    assert_eq!(complete(&["runs", "--workflow", ""]), ["child"]);
    assert_eq!(complete(&["workflows", "show", ""]), ["child"]);
    assert_eq!(complete(&["graph", "x", "--format", "s"]), ["svg"]);
    assert!(complete(&["runs", "--data"]).contains(&"--data-dir".to_owned()));
    for shell in ["bash", "zsh", "fish"] {
        let script = world.run(&["completions", shell]).expect(0).stdout;
        assert!(script.contains("windlass __complete"), "{script}");
    }
}

#[test]
fn a_wide_graph_is_folded_in_pictures() {
    let folder = format!("{}/../../examples", env!("CARGO_MANIFEST_DIR"));
    let world = World::new();
    let file = format!("{folder}/fan-out.json");
    for format in ["svg", "mermaid"] {
        let folded = world
            .run(&["graph", &file, "--format", format])
            .expect(0)
            .stdout;
        assert!(folded.contains("×200"), "{folded}");
        let all = ["graph", &file, "--format", format, "--expand"];
        let all = world.run(&all).expect(0).stdout;
        assert!(!all.contains("×200") && all.len() > 10 * folded.len());
    }
}

#[test]
fn versions_and_frozen_runs_are_told_apart() {
    let text = |n: u32| {
        format!(
            r#"{{"id":"d","nodes":[{{"id":"a","actionType":"core.echo","parameters":{{"n":{n},"list":[1]}}}}]}}"#
        )
    };
    let world = world(&[("one.json", &text(1)), ("two.json", &text(2))]);
    world.run(&["publish", "one.json"]).expect(0);
    world.run(&["publish", "two.json"]).expect(0);
    let diff = world.run(&["diff", "d", "1", "2"]).expect(0).stdout;
    assert_eq!(diff, "~ node a: parameters\n    parameters.n: 1 → 2\n");
    let json = world
        .run(&["diff", "d", "1", "2", "--json"])
        .expect(0)
        .json();
    assert_eq!(json["values"][0]["pointer"], "/parameters/n");
    assert_eq!(json["values"][0]["to"], 2);
    let versions = world.run(&["workflows", "versions", "d"]).expect(0).stdout;
    let json = world
        .run(&["workflows", "versions", "d", "--json"])
        .expect(0)
        .json();
    let digest = json["items"][0]["digest"]
        .as_str()
        .expect("a digest")
        .to_owned();
    assert!(
        versions.contains("DIGEST") && versions.contains(&digest[..12]),
        "{versions}"
    );
    world
        .run(&["run", "two.json", "--set", "nodes.a.parameters.n=3"])
        .expect(0);
    let runs = world.run(&["runs"]).expect(0).stdout;
    assert!(runs.contains("frozen") && !runs.contains("v0"), "{runs}");
    let events = world.run(&["events", "@last"]).expect(0).stdout;
    assert!(!events.contains("v0"), "{events}");
    let frozen = ["run", "two.json", "--set", "nodes.a.parameters.n=4"];
    world.run(&[&frozen[..], &["--detach"]].concat()).expect(0);
    let plan = world.run(&["publish", "one.json", "--plan"]).expect(0);
    assert!(plan.stdout.starts_with("RUN "), "{}", plan.stdout);
    assert!(
        plan.stdout.contains(" frozen ") && !plan.stdout.contains("v0"),
        "{}",
        plan.stdout
    );
    assert!(plan.stderr.contains("nothing"), "{}", plan.stderr);
}
