//! Why a run failed, as the output for people and programs says: a failure in a child of a child
//! inside a loop is named on the first line, wherever a run is shown.

use serde_json::{Value, json};
use windlass_test_support::process::{Ended, World};

/// Two levels below the run that is looked at: fails for every item but the first.
const PAYMENT: &str = r#"{"id":"payment","nodes":[
 {"id":"charge","actionType":"core.fail","parameters":{
  "code":"HTTP_503","message":"no capacity for {{ trigger.item }}",
  "untilAttempt":"{{ trigger.item == 1 ? 1 : 9 }}"}}]}"#;

const ORDER: &str = r#"{"id":"order","nodes":[
 {"id":"pay","subworkflow":{"workflowId":"payment","input":{"item":"{{ trigger.item }}"}}}]}"#;

const BATCH: &str = r#"{"id":"batch","nodes":[
 {"id":"again","forEach":{"items":[1,2],"parallel":false,"body":{"nodes":[
  {"id":"order","subworkflow":{"workflowId":"order","input":{"item":"{{ item }}"}}}]}}},
 {"id":"after","dependsOn":["again"],"actionType":"core.echo"}]}"#;

/// The way from the batch to the charge, through the loop and two children.
const MESSAGE: &str = "again[1]/order › pay › charge failed: HTTP_503: no capacity for 2";

fn world() -> World {
    let world = World::with_files(&[
        ("payment.json", PAYMENT),
        ("order.json", ORDER),
        ("batch.json", BATCH),
    ]);
    for name in ["payment.json", "order.json"] {
        world.run(&["publish", name]).expect(0);
    }
    world
}

/// The cause must be that of the deepest run, and name it.
fn check(shown: &Value, payment: &str) {
    let error = &shown["error"];
    assert_eq!(error["code"], "NODE_FAILED");
    assert_eq!(error["message"], MESSAGE);
    assert_eq!(error["nodes"], json!(["again"]));
    let cause = |path: &[&str]| {
        json!([{
            "executionId": payment,
            "node": "charge",
            "path": path,
            "code": "HTTP_503",
            "message": "no capacity for 2",
        }])
    };
    assert_eq!(error["causes"], cause(&["again[1]/order", "pay", "charge"]));
    let node = &shown["nodes"]["again[1]/order"];
    assert_eq!(node["error"]["details"]["causes"], error["causes"]);
}

/// The newest run of a workflow, as lists have it.
fn newest(world: &World, workflow: &str) -> Value {
    let listed = world.run(&["runs", "--workflow", workflow, "--json"]);
    listed.expect(0).json()["items"][0].clone()
}

#[test]
fn a_failure_two_child_runs_below_a_loop_is_the_first_line_everywhere() {
    let world = world();
    let Ended { stdout, stderr, .. } = world.run(&["run", "batch.json"]).expect(1);
    assert_eq!(stdout, "", "a run that failed has no data");
    let mut end = stderr
        .lines()
        .skip_while(|line| !line.contains(" Failed in "));
    let error = end.nth(1).unwrap_or_default();
    let first_line = format!("NODE_FAILED: {MESSAGE}");
    assert_eq!(error.trim(), first_line, "{stderr}");
    let payment = newest(&world, "payment")["executionId"].clone();
    let payment = payment.as_str().expect("an id");
    let cause = format!("› charge of run {payment}: HTTP_503: no capacity for 2");
    assert!(stderr.contains(&cause), "{stderr}");
    // What happened on the way there, node by node.
    for line in [
        "  again[1]/order: Failed: NODE_FAILED: pay › charge failed: HTTP_503: no capacity for 2",
        "  again: Failed: ITEM_FAILED: item 1 failed",
    ] {
        assert!(stderr.contains(line), "{line} is missing:\n{stderr}");
    }
    let shown = world.run(&["show", "@last:batch"]).expect(0).stdout;
    assert!(shown.contains(&first_line), "{shown}");
    assert!(
        shown.contains(&format!("charge of run {payment}")),
        "{shown}"
    );
    let why = world.run(&["why", "@last:batch"]).expect(0).stdout;
    let first = format!("The run failed: {first_line}.");
    assert_eq!(why.lines().next(), Some(&*first));
    let runs = world.run(&["runs", "--children"]).expect(0).stdout;
    // The run, its child and its grandchild, each from where it is.
    for way in ["again[1]/order › pay › charge", "pay › charge", "charge"] {
        let told = format!(" NODE_FAILED: {way} failed: HTTP_503: no capacity for 2");
        let told = runs.lines().filter(|line| line.contains(&told));
        assert_eq!(told.count(), 1, "{way}: {runs}");
    }
    let result = world.run(&["result", "@last:batch"]).expect(1);
    assert!(result.stderr.contains(MESSAGE), "{}", result.stderr);
    let json = world.run(&["show", "@last:batch", "--json"]);
    check(&json.expect(0).json(), payment);
    assert_eq!(
        newest(&world, "batch")["error"],
        json!({ "code": "NODE_FAILED", "message": MESSAGE })
    );
}

#[test]
fn the_api_tells_root_causes_in_runs_and_in_lists() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for definition in [PAYMENT, ORDER, BATCH] {
        client.publish(definition);
    }
    let run = client.execute("batch", &json!({}));
    let shown = client.ended(&run);
    let listed = |workflow: &str| {
        let path = format!("/api/v1/executions?workflow={workflow}");
        client.get(&path).expect(200).json()["items"][0].clone()
    };
    let payment = listed("payment")["executionId"].clone();
    check(&shown, payment.as_str().expect("an id"));
    assert_eq!(listed("batch")["error"]["message"], MESSAGE);
    let path = format!("/api/v1/executions/{run}/events");
    let events = client.get(&path).expect(200).json();
    let items = events["items"].as_array().expect("a list");
    let end = items.iter().find(|event| event["kind"] == "RunFinished");
    let causes = &end.expect("an end")["data"]["error"]["causes"];
    assert_eq!(causes, &shown["error"]["causes"]);
}

#[test]
fn every_node_that_fails_is_told_with_its_error_while_the_run_goes() {
    let world = World::new();
    let definition = r#"{"id":"kinds","vars":{"x":1},"nodes":[
 {"id":"sets","actionType":"core.echo","setVars":{"x":"{{ output.no.such }}"}},
 {"id":"waits","waitForSignal":{"name":"go","timeoutMs":1}},
 {"id":"loops","while":{"condition":"true","maxIterations":1,"body":{"nodes":[
   {"id":"turn","actionType":"core.echo"}]}}},
 {"id":"round","retryUntil":{"maxAttempts":2,"body":{"nodes":[
   {"id":"child","subworkflow":{"workflowId":"nowhere","input":{}}}]}}},
 {"id":"made","actionType":"core.echo","compensate":{"actionType":"core.fail",
   "parameters":{"code":"STUCK"}}}]}"#;
    std::fs::write(world.path().join("kinds.json"), definition).expect("a file");
    let Ended { stderr, .. } = world.run(&["run", "kinds.json"]).expect(1);
    for line in [
        "  sets: Failed: EXPRESSION_ERROR: setVars 'x'",
        "  waits: Failed: SIGNAL_TIMEOUT: ",
        "  loops: Failed: LOOP_LIMIT: ",
        "  round[0]/child: Failed: WORKFLOW_NOT_FOUND: ",
        "  round[1]/child: Failed: WORKFLOW_NOT_FOUND: ",
        "  round: Failed: RETRY_EXHAUSTED: ",
        "  compensation of made: Failed: STUCK: ",
    ] {
        assert!(stderr.contains(line), "{line} is missing:\n{stderr}");
    }
}
