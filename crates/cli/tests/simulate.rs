//! `windlass simulate` on the real binary: what it finds, and what it refuses.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use windlass_test_support::process::World;

/// A file of its own, removed at the end.
struct File(PathBuf);

impl File {
    fn new(definition: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("windlass-simulate-{}-{number}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, definition).expect("a file can be written");
        Self(path)
    }

    fn simulate(&self, options: &[&str]) -> (i32, String, String) {
        let output = windlass_test_support::process::windlass()
            .arg("simulate")
            .arg(&self.0)
            .args(options)
            .output()
            .expect("the binary runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().unwrap_or(-1);
        (code, text(output.stdout), text(output.stderr))
    }

    fn json(&self, options: &[&str]) -> Value {
        let mut all = vec!["--json"];
        all.extend(options);
        let (code, stdout, stderr) = self.simulate(&all);
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str(&stdout).expect("JSON")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // A file that is left in the temporary folder does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A rehearsal does not wait for hardware.
#[test]
fn what_requires_labels_runs() {
    let file = File::new(
        r#"{"id":"draws","nodes":[{"id":"draw","actionType":"core.echo","requires":["gpu"]}]}"#,
    );
    let report = file.json(&["--seeds", "20"]).to_string();
    assert!(report.contains("Succeeded"), "{report}");
}

const ORDER: &str = r#"{ "id": "order", "nodes": [
  { "id": "check", "actionType": "core.echo", "parameters": { "amount": "{{ trigger.amount ?? 1 }}" },
    "edges": [ { "targetNode": "approve", "condition": "output.amount > 100" },
               { "targetNode": "charge" } ] },
  { "id": "approve", "waitForSignal": { "name": "approved" } },
  { "id": "charge", "actionType": "http.request",
    "parameters": { "url": "https://example.org/" },
    "policies": { "retry": { "maxAttempts": 2, "baseDelayMs": 1000, "jitter": false } },
    "edges": [ { "targetNode": "ship" } ] },
  { "id": "ship", "subworkflow": { "workflowId": "shipping", "input": { "n": 1 } } } ] }"#;

fn ending<'a>(report: &'a Value, name: &str) -> &'a Value {
    let endings = report["endings"].as_array().expect("a list");
    let found = endings.iter().find(|ending| ending["ending"] == name);
    found.unwrap_or_else(|| panic!("no ending {name}: {report}"))
}

#[test]
fn without_options_every_action_succeeds_and_no_time_passes() {
    let report = File::new(ORDER).json(&["--seeds", "20"]);
    assert_eq!(ending(&report, "Succeeded")["runs"], 20);
    assert_eq!(report["durationMs"]["max"], 0);
    assert_eq!(report["neverRan"], serde_json::json!(["approve"]));
    assert_eq!(report["conditions"][0]["asked"], 20);
    assert_eq!(report["conditions"][0]["taken"], 0);
}

#[test]
fn failures_and_delays_are_as_told() {
    let file = File::new(ORDER);
    let options = [
        "--seeds",
        "300",
        "--fail",
        "charge=50%:DECLINED",
        "--delay",
        "charge=200..300",
        "--no-crashes",
    ];
    let report = file.json(&options);
    let failed = ending(&report, "Failed");
    // A quarter fails twice; the bounds are far beyond chance.
    let runs = failed["runs"].as_u64().expect("a number");
    assert!((30..150).contains(&runs), "{runs}");
    assert_eq!(failed["nodes"], serde_json::json!(["charge"]));
    assert_eq!(report["failures"][0]["code"], "DECLINED");
    let (min, max) = (&report["durationMs"]["min"], &report["durationMs"]["max"]);
    assert!(
        min.as_u64() >= Some(200) && max.as_u64() <= Some(1600),
        "{report}"
    );
}

#[test]
fn the_seed_of_an_ending_repeats_it() {
    let file = File::new(ORDER);
    let report = file.json(&["--seeds", "100", "--fail", "charge=0.5"]);
    let failed = ending(&report, "Failed");
    let seed = failed["seed"].to_string();
    let one = file.json(&["--fail", "charge=0.5", "--seed", &seed]);
    assert_eq!(one["ending"], "Failed");
    assert_eq!(one["nodes"], failed["nodes"]);
    let again = file.json(&["--fail", "charge=0.5", "--seed", &seed]);
    assert_eq!(one, again);
    assert!(
        one["events"]
            .as_array()
            .is_some_and(|events| events.len() > 3)
    );
}

#[test]
fn a_signal_that_is_never_sent_is_a_problem() {
    let file = File::new(ORDER);
    let trigger = ["--trigger", r#"{"amount":200}"#, "--seeds", "5"];
    let report = file.json(&trigger);
    assert_eq!(
        ending(&report, "Stuck")["signals"],
        serde_json::json!(["approved"])
    );
    let problem = report["problems"][0].as_str().expect("text");
    assert!(problem.contains("--signal approved"), "{problem}");
    let mut options = trigger.to_vec();
    options.extend([
        "--signal",
        r#"approved={"by":"me"}"#,
        "--delay",
        "approve=5000",
    ]);
    let report = file.json(&options);
    assert_eq!(ending(&report, "Succeeded")["runs"], 5);
    assert_eq!(report["durationMs"]["max"], 5000);
}

#[test]
fn what_a_node_returns_decides() {
    let report = File::new(ORDER).json(&["--returns", r#"check={"amount":500}"#, "--seeds", "3"]);
    assert_eq!(report["conditions"][0]["taken"], 3);
}

#[test]
fn loops_without_end_are_given_up() {
    let file = File::new(
        r#"{ "id": "for-ever", "nodes": [ { "id": "loop", "while": { "condition": "true",
           "maxIterations": 1000000, "body": { "nodes": [ { "id": "a", "actionType": "x" } ] } } } ] }"#,
    );
    let report = file.json(&["--seeds", "2", "--max-steps", "2000"]);
    assert_eq!(ending(&report, "TooManySteps")["runs"], 2);
    let file = File::new(
        r#"{ "id": "late", "nodes": [ { "id": "d", "delay": { "ms": 94608000000 } },
             { "id": "e", "delay": { "ms": 1 }, "dependsOn": ["d"] } ] }"#,
    );
    let report = file.json(&["--seeds", "2"]);
    assert_eq!(ending(&report, "TooLong")["runs"], 2);
}

#[test]
fn the_report_is_readable() {
    let file = File::new(ORDER);
    let (code, stdout, _) = file.simulate(&["--seeds", "50", "--fail", "ship=1", "--no-crashes"]);
    assert_eq!(code, 0);
    for part in [
        "order: 50 simulated runs\n",
        "100.0 %    50     0  ✗ Failed NODE_FAILED: ship",
        "never ran: approve",
        "condition never true: check → approve (success, asked 50 times)",
        "--fail ship=1 --no-crashes --seed 0",
    ] {
        assert!(stdout.contains(part), "{part} is not in\n{stdout}");
    }
}

#[test]
fn unknown_names_and_invalid_definitions_are_refused() {
    let file = File::new(ORDER);
    let (code, stdout, stderr) = file.simulate(&["--fail", "chrage=1"]);
    assert_eq!((code, stdout.as_str()), (3, ""), "{stderr}");
    assert!(stderr.contains("UNKNOWN_NODE") && stderr.contains("did you mean 'charge'?"));
    let (code, _, stderr) = file.simulate(&["--signal", "aproved"]);
    assert_eq!(code, 3);
    assert!(stderr.contains("UNKNOWN_SIGNAL"), "{stderr}");
    let (code, ..) = file.simulate(&["--fail", "charge=often"]);
    assert_eq!(code, 2);
    let (code, ..) = File::new(r#"{ "id": "x", "nodes": [ { "id": "a" } ] }"#).simulate(&[]);
    assert_eq!(code, 3);
}

/// The server answers what the command prints.
#[test]
fn a_server_simulates_a_definition_like_the_command() {
    let query = "/api/v1/workflows/simulate?seeds=60&fail=charge%3D50%25:DECLINED";
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let answer = client.post_text(query, ORDER).expect(200).json();
    let file = File::new(ORDER);
    let printed = file.json(&["--seeds", "60", "--fail", "charge=50%:DECLINED"]);
    assert_eq!(answer, printed);

    let seed = answer["endings"][0]["seed"].as_u64().expect("a seed");
    let path = format!("/api/v1/workflows/simulate?seed={seed}&fail=charge%3D50%25:DECLINED");
    let one = client.post_text(&path, ORDER).expect(200).json();
    assert_eq!(one["runs"], 1, "{one}");
    assert_eq!(one["endings"][0]["ending"], answer["endings"][0]["ending"]);
    assert!(one["events"].as_array().is_some_and(|it| it.len() > 2));
    let runs = client.get("/api/v1/executions").expect(200).json();
    assert_eq!(runs["items"], serde_json::json!([]), "nothing is stored");
}

#[test]
fn a_simulation_over_http_is_bounded_and_checked() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let of = |query: &str, definition: &str| {
        let path = format!("/api/v1/workflows/simulate{query}");
        let answer = client.post_text(&path, definition);
        let body = answer.json();
        (answer.status, body)
    };
    let (status, body) = of("?fail=chrge%3D1", ORDER);
    assert_eq!(status, 422, "{body}");
    assert_eq!(body["error"]["code"], "UNKNOWN_NODE");
    assert_eq!(body["error"]["hint"], "did you mean 'charge'?");
    assert_eq!(of("?signal=go", ORDER).1["error"]["code"], "UNKNOWN_SIGNAL");
    assert_eq!(of("?fail=charge%3D2", ORDER).1["error"]["code"], "USAGE");
    assert_eq!(of("?seeds=1001", ORDER).0, 400);
    let (status, body) = of("", r#"{"id":"x","nodes":[]}"#);
    assert_eq!(
        (status, &body["error"]["code"]),
        (422, &"DEFINITION_INVALID".into())
    );

    // A thousand runs of this take minutes: the answer has what was simulated in time.
    let loops = r#"{ "id": "loops", "nodes": [{ "id": "all", "while": { "condition": "true",
        "maxIterations": 1000000,
        "body": { "nodes": [{ "id": "a", "actionType": "core.echo" }] } } }] }"#;
    let (status, body) = of("?seeds=1000", loops);
    assert_eq!(status, 200, "{body}");
    let runs = body["runs"].as_u64().expect("a number");
    assert!(runs < 1000, "{runs}");
    let problems = body["problems"].to_string();
    assert!(problems.contains("of 1000 runs"), "{problems}");
    // The next one has its turn.
    assert_eq!(of("?seeds=5", ORDER).0, 200);
}
