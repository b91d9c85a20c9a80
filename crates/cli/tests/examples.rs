//! Every example runs as it is, and does what it says.

use serde_json::{Value, json};

/// Runs an example in a directory of its own, and reads the execution.
#[track_caller]
fn example(name: &str, arguments: &[&str], code: i32) -> Value {
    let folder = tempfile::tempdir().expect("a directory");
    let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
    let output = windlass_test_support::process::windlass()
        .args(["run", &path, "--json", "--quiet"])
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_eq!(stderr, "");
    serde_json::from_slice(&output.stdout).expect("an execution")
}

#[test]
fn every_example_is_tested() {
    let folder = format!("{}/../../examples", env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .expect("examples")
        .map(|entry| {
            entry
                .expect("a file")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    let tested = [
        "approval.json",
        "branching.json",
        // In documented_commands.rs.
        "checkout.json",
        "diamond.json",
        "fan-out.json",
        "for-each.json",
        "linear.json",
        // In connectors.rs, against servers that speak the services' wire format.
        "onboarding.json",
        "order.yaml",
        "patient.json",
        "poll.json",
        "race.json",
        "retry.json",
        "saga.json",
        "shell.json",
        // In connectors.rs as well.
        "status-report.json",
        "switch.yaml",
        // By `cargo xtask clients`: its actions are written in Python and TypeScript.
        "workers",
    ];
    assert_eq!(names, tested);
}

#[test]
fn patient() {
    let nodes = ["fetch", "check", "pack", "label", "hand-over"];
    let set = nodes.map(|node| format!("nodes.{node}.parameters.ms=1"));
    let arguments: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let run = example("patient.json", &arguments, 0);
    assert_eq!(run["counts"]["succeeded"], 5);
}

#[test]
fn linear() {
    let run = example("linear.json", &[], 0);
    assert_eq!(
        run["output"]["message"],
        "Found 2 items in progress on projects."
    );
    let run = example("linear.json", &["--trigger", r#"{"board":"sales"}"#], 0);
    let message = &run["output"]["message"];
    assert_eq!(message, "Found 2 items in progress on sales.");
}

#[test]
fn branching() {
    let run = example("branching.json", &[], 0);
    assert_eq!(run["nodes"]["create-page"]["status"], "Succeeded");
    assert_eq!(run["nodes"]["notify-not-approved"]["status"], "Skipped");
    assert_eq!(run["nodes"]["notify-error"]["status"], "Skipped");
    let run = example("branching.json", &["--set", "trigger.status=Rejected"], 0);
    assert_eq!(run["nodes"]["create-page"]["status"], "Skipped");
    let run = example("branching.json", &["--set", "trigger.broken=true"], 0);
    assert_eq!(run["nodes"]["get-project-item"]["handled"], true);
    assert_eq!(
        run["nodes"]["notify-error"]["output"]["message"],
        "Onboarding failed at get-project-item: BOARD_UNREACHABLE."
    );
}

#[test]
fn diamond() {
    let run = example("diamond.json", &[], 1);
    assert_eq!(run["status"], "Failed");
    assert_eq!(run["error"]["nodes"], json!(["right"]));
    assert_eq!(run["nodes"]["left"]["status"], "Succeeded");
    assert_eq!(run["nodes"]["join"]["blockedBy"], json!(["right"]));
    assert_eq!(run["nodes"]["cleanup"]["status"], "Succeeded");
}

#[test]
fn retry() {
    let run = example("retry.json", &[], 0);
    assert_eq!(run["nodes"]["flaky"]["attempts"], 3);
    assert_eq!(run["output"]["attempt"], 3);
}

#[test]
fn switch() {
    let run = example("switch.yaml", &["--set", "trigger.size=large"], 0);
    assert_eq!(run["nodes"]["truck"]["status"], "Succeeded");
    assert_eq!(run["nodes"]["mail"]["status"], "Skipped");
    let run = example("switch.yaml", &["--set", "trigger.size=odd"], 0);
    assert_eq!(run["nodes"]["ask"]["status"], "Succeeded");
}

#[test]
fn fan_out() {
    let run = example("fan-out.json", &[], 0);
    assert_eq!(run["counts"]["succeeded"], 202);
    assert_eq!(run["output"], 200);
}

#[test]
fn shell() {
    let run = example("shell.json", &[], 0);
    assert_eq!(run["output"], "3");
}

#[test]
fn for_each() {
    let run = example("for-each.json", &[], 0);
    assert_eq!(run["output"]["charged"], 3);
    assert_eq!(run["output"]["refused"], json!(["c4"]));
}

#[test]
fn poll() {
    let run = example("poll.json", &[], 0);
    assert_eq!(run["output"], json!({ "asked": 3, "tried": 2 }));
}

/// Queues the example, then answers in the place of a person.
#[test]
fn approval() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = format!(
        "{}/../../examples/approval.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let windlass = |arguments: &[&str]| {
        let output = windlass_test_support::process::windlass()
            .args(arguments)
            .args(["--json", "--quiet"])
            .current_dir(folder.path())
            .output()
            .expect("the binary runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
    };
    windlass(&["run", &path, "--detach"]);
    windlass(&["signal", "@last", "approval", r#"{"by": "me"}"#]);
}

#[test]
fn race() {
    let run = example("race.json", &[], 0);
    assert_eq!(run["output"], "fast");
    assert_eq!(run["nodes"]["slow"]["status"], "Cancelled");
}

#[test]
fn saga() {
    let run = example("saga.json", &[], 1);
    assert_eq!(run["error"]["nodes"], json!(["pay"]));
    assert_eq!(run["compensation"], "complete");
    let run = example("saga.json", &["--set", "trigger.broke=false"], 0);
    assert_eq!(run["compensation"], Value::Null);
}

#[test]
fn order() {
    let run = example("order.yaml", &[], 0);
    assert_eq!(run["output"]["parcels"], json!([["a1", "a2"], ["b1"]]));
}
