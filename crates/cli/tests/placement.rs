//! `requires`: a node goes only to workers that have its labels, waits for them as long as
//! it takes, and says so.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

const FLOW: &str = r#"{"id":"flow","executionMode":"sequential","nodes":[
    {"id":"draw","actionType":"core.echo","requires":["gpu","big"]},
    {"id":"plain","actionType":"core.echo"},
    {"id":"show","dependsOn":["draw"],"actionType":"core.echo"},
    {"id":"each","forEach":{"items":[1,2],"body":{"nodes":[
        {"id":"part","actionType":"core.echo","requires":["gpu"]}]}}}]}"#;

fn windlass(folder: &Path, labels: &str, arguments: &[&str]) -> Command {
    let mut command = windlass_test_support::process::windlass();
    command
        .args(arguments)
        .env("WINDLASS_WORKER_LABELS", labels)
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

fn ask(folder: &Path, arguments: &[&str]) -> Output {
    windlass(folder, "", arguments).output().unwrap()
}

fn statuses(folder: &Path) -> Vec<(String, String)> {
    let output = ask(folder, &["show", "@last", "--json", "--nodes", "all"]);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let nodes = shown["nodes"].as_object().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let status = |(path, node): (&String, &Value)| (path.clone(), text(&node["status"]));
    nodes.iter().map(status).collect()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("flow.json"), FLOW).unwrap();
    folder
}

/// Waits until a node has a status.
fn until(folder: &Path, node: &str, status: &str) {
    for _ in 0..1_000 {
        if statuses(folder).contains(&(node.to_owned(), status.to_owned())) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{node} is not {status}: {:?}", statuses(folder));
}

#[test]
fn a_node_waits_for_a_worker_with_its_labels_and_others_go_on() {
    let folder = folder();
    let folder = folder.path();
    let mut child = windlass(folder, "big", &["run", "flow.json"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until(folder, "plain", "Succeeded");
    until(folder, "draw", "Queued");
    let why = ask(folder, &["why", "@last", "draw"]);
    let why = String::from_utf8_lossy(&why.stdout).into_owned();
    assert!(why.contains("labels gpu, big"), "{why}");
    child.kill().unwrap();
    let said = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("the label 'gpu'"), "{said}");
    let ended = windlass(folder, "gpu,big", &["resume", "@last"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{said}");
    for (path, status) in statuses(folder) {
        assert_eq!(status, "Succeeded", "{path}");
    }
}

#[test]
fn a_run_that_waits_for_a_worker_can_be_cancelled() {
    let folder = folder();
    let folder = folder.path();
    let child = windlass(folder, "", &["run", "flow.json"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(folder, "plain", "Succeeded");
    assert_eq!(ask(folder, &["cancel", "@last"]).status.code(), Some(0));
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(8));
    let statuses = statuses(folder);
    assert!(
        statuses.contains(&("draw".to_owned(), "Cancelled".to_owned())),
        "{statuses:?}"
    );
}
