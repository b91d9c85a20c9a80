//! Every example runs as it is, and does what it says.

mod act_world;

use act_world::{Ended, World};
use serde_json::json;

fn example(name: &str, arguments: &[&str]) -> Ended {
    let world = World::new();
    let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut all = vec!["run", path.as_str(), "--json", "--quiet"];
    all.extend(arguments);
    world.run(&all)
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
        "branching.json",
        "diamond.json",
        "fan-out.json",
        "linear.json",
        "retry.json",
        "shell.json",
        "switch.yaml",
    ];
    assert_eq!(names, tested);
}

#[test]
fn linear() {
    let run = example("linear.json", &[]).expect(0).json();
    assert_eq!(
        run["output"]["message"],
        "Found 2 items in progress on projects."
    );
    let run = example("linear.json", &["--trigger", r##"{"board":"sales"}"##]);
    let message = &run.expect(0).json()["output"]["message"];
    assert_eq!(message, "Found 2 items in progress on sales.");
}

#[test]
fn branching() {
    let run = example("branching.json", &[]).expect(0).json();
    assert_eq!(run["nodes"]["create-page"]["status"], "Succeeded");
    assert_eq!(run["nodes"]["notify-not-approved"]["status"], "Skipped");
    assert_eq!(run["nodes"]["notify-error"]["status"], "Skipped");
    let run = example("branching.json", &["--set", "trigger.status=Rejected"]).expect(0);
    assert_eq!(run.json()["nodes"]["create-page"]["status"], "Skipped");
    let run = example("branching.json", &["--set", "trigger.broken=true"]);
    let run = run.expect(0).json();
    assert_eq!(run["nodes"]["get-project-item"]["handled"], true);
    assert_eq!(
        run["nodes"]["notify-error"]["output"]["message"],
        "Onboarding failed at get-project-item: BOARD_UNREACHABLE."
    );
}

#[test]
fn diamond() {
    let run = example("diamond.json", &[]).expect(1).json();
    assert_eq!(run["status"], "Failed");
    assert_eq!(run["error"]["nodes"], json!(["right"]));
    assert_eq!(run["nodes"]["left"]["status"], "Succeeded");
    assert_eq!(run["nodes"]["join"]["blockedBy"], json!(["right"]));
    assert_eq!(run["nodes"]["cleanup"]["status"], "Succeeded");
}

#[test]
fn retry() {
    let run = example("retry.json", &[]).expect(0).json();
    assert_eq!(run["nodes"]["flaky"]["attempts"], 3);
    assert_eq!(run["output"]["attempt"], 3);
}

#[test]
fn switch() {
    let run = example("switch.yaml", &["--set", "trigger.size=large"]);
    let run = run.expect(0).json();
    assert_eq!(run["nodes"]["truck"]["status"], "Succeeded");
    assert_eq!(run["nodes"]["mail"]["status"], "Skipped");
    let run = example("switch.yaml", &["--set", "trigger.size=odd"]);
    assert_eq!(run.expect(0).json()["nodes"]["ask"]["status"], "Succeeded");
}

#[test]
fn fan_out() {
    let run = example("fan-out.json", &[]).expect(0).json();
    assert_eq!(run["counts"]["succeeded"], 202);
    assert_eq!(run["output"], 200);
}

#[test]
fn shell() {
    let run = example("shell.json", &[]).expect(0).json();
    assert_eq!(run["output"], "3");
}
