//! The commands that look, on runs with loops, waits, child runs and undoing.

use crate::stored_runs::World;

/// A loop with a failing item, then waits of every kind.
const ORDERS: &str = r#"{"id":"orders","nodes":[
 {"id":"charge-all","forEach":{"items":[1,2,3],"parallel":false,"onItemFailure":"collect",
  "body":{"nodes":[
   {"id":"charge","actionType":"core.echo","parameters":{"x":"{{ item }}"}},
   {"id":"check","dependsOn":["charge"],"actionType":"core.fail",
    "parameters":{"untilAttempt":"{{ item == 2 ? 2 : 1 }}","code":"NOT_OK"}},
   {"id":"poll","dependsOn":["check"],"retryUntil":{"maxAttempts":3,"until":"iteration == 1",
    "body":{"nodes":[{"id":"ask","actionType":"core.echo"}]}}}]}}},
 {"id":"nap","dependsOn":["charge-all"],"delay":{"ms":86400000}},
 {"id":"child","dependsOn":["charge-all"],"subworkflow":{"workflowId":"waits","input":{}}},
 {"id":"often","dependsOn":["charge-all"],"retryUntil":{"maxAttempts":3,"until":"false",
  "backoff":{"maxAttempts":3,"baseDelayMs":86400000,"strategy":"fixed","jitter":false},
  "body":{"nodes":[{"id":"once","actionType":"core.echo"}]}}},
 {"id":"asks","dependsOn":["charge-all"],"forEach":{"items":["a","b"],
  "body":{"nodes":[{"id":"ask","waitForSignal":{"name":"approve","timeoutMs":86400000}}]}}},
 {"id":"ship","dependsOn":["nap","child","asks"],"join":{"atLeast":2},"actionType":"core.echo"}]}"#;

const WAITS: &str = r#"{"id":"waits","nodes":[{"id":"w","waitForSignal":{"name":"go"}}]}"#;

fn waiting() -> (World, String) {
    let world = World::new();
    world.publish(WAITS);
    let all = [
        ("NodeWaiting", "asks[1]/ask"),
        ("TimerSet", "often"),
        ("TimerSet", "nap"),
        ("ChildStarted", "child"),
    ];
    let run = world.run_until(ORDERS, &all);
    (world, run)
}

#[test]
fn a_loop_is_a_line_and_opens_on_request() {
    let (world, run) = waiting();
    let shown = world.windlass(&["show", &run]).expect(0).stdout;
    assert!(shown.contains("3 of 3 done, 1 failed"), "{shown}");
    assert!(!shown.contains("charge-all["), "{shown}");
    for part in ["until 2", "iteration 1 at 2", "child 0"] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    let shown = world.windlass(&["show", &run, "--expand"]).expect(0).stdout;
    let rows: Vec<&str> = shown
        .lines()
        .filter(|line| line.contains("charge-all"))
        .collect();
    // Each of three items has three nodes; two of them went round twice.
    assert_eq!(rows.len(), 1 + 3 * 3 + 2 * 2, "{shown}");
    assert!(rows[1].contains("charge-all[0]/charge"), "{shown}");
    assert!(shown.contains("for signal 'approve' until"), "{shown}");
    let one = world
        .windlass(&["show", &run, "--node", "charge-all[1]"])
        .expect(0)
        .stdout;
    let rows = one.lines().filter(|line| line.contains("charge-all"));
    assert_eq!(rows.count(), 3, "{one}");
    assert!(one.contains("NOT_OK: failed, as told"), "{one}");
    world
        .windlass(&["show", &run, "--nodes", "charge-all[3]/charge"])
        .failed(4, "NODE_NOT_FOUND");
    let json = world
        .windlass(&["show", &run, "--json", "--nodes", "charge-all"])
        .expect(0)
        .json();
    let nodes = json["nodes"].as_object().expect("nodes");
    assert_eq!(nodes.len(), 14);
    assert_eq!(
        nodes["charge-all[2]/charge"]["output"],
        serde_json::json!({ "x": 3 })
    );
    assert_eq!(nodes["charge-all"]["counts"]["blocked"], 1);
}

#[test]
fn why_has_a_sentence_for_everything_that_waits() {
    let (world, run) = waiting();
    let why = |node: &str| world.windlass(&["why", &run, node]).expect(0).stdout;
    let check = |node: &str, parts: &[&str]| {
        let said = why(node);
        for part in parts {
            assert!(said.contains(part), "{node}: {part} is missing: {said}");
        }
    };
    check("nap", &["nap waits until 2"]);
    check(
        "asks[0]/ask",
        &[
            "asks[0]/ask has waited for signal 'approve' since",
            ", until 2",
            "windlass signal",
        ],
    );
    check("child", &["has waited for its child run"]);
    // The process may have been killed before the child began.
    let child = why("child");
    let begins = child.contains("(Running)") || child.contains("(Pending)");
    assert!(begins, "{child}");
    check(
        "often",
        &[
            "has gone round 1 time without success",
            "iteration 1 begins at",
        ],
    );
    check(
        "asks",
        &[
            "0 of 2 done, 2 running",
            "under way: asks[0]/ask (Waiting), asks[1]/ask (Waiting)",
        ],
    );
    check(
        "ship",
        &["2 of 3 edges (0 taken so far); still open: nap (Waiting)"],
    );
    check("charge-all[0]/poll[1]/ask", &["succeeded"]);
    check("charge-all[1]/poll", &["is blocked by charge-all[1]/check"]);
    let all = world.windlass(&["why", &run, "--json"]).expect(0).json();
    let nodes: Vec<&str> = all["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .filter_map(|node| node["node"].as_str())
        .collect();
    for node in ["nap", "child", "often", "asks", "asks[1]/ask", "ship"] {
        assert!(nodes.contains(&node), "{node} is missing: {nodes:?}");
    }
    world
        .windlass(&["why", &run, "asks[0]/unknown"])
        .failed(4, "NODE_NOT_FOUND");
}

#[test]
fn undoing_is_shown_in_order() {
    let world = World::new();
    let saga = r#"{"id":"saga","nodes":[
        {"id":"book","actionType":"core.echo","compensate":{"actionType":"core.echo"}},
        {"id":"pay","dependsOn":["book"],"actionType":"core.echo",
         "compensate":{"actionType":"core.fail","parameters":{"code":"NO_REFUND"}}},
        {"id":"ship","dependsOn":["pay"],"actionType":"core.fail"}]}"#;
    let run = world.run(saga, "{}");
    let answer = world.windlass(&["show", &run]).expect(0);
    // What was undone cannot be tried again, so that is not what is offered.
    assert!(
        answer.stderr.contains("windlass compensate"),
        "{}",
        answer.stderr
    );
    assert!(!answer.stderr.contains("reattempt"), "{}", answer.stderr);
    let shown = answer.stdout;
    let place = |part: &str| {
        let found = shown.find(part);
        found.unwrap_or_else(|| panic!("{part} is missing:\n{shown}"))
    };
    assert!(place("undoing   incomplete") < place("UNDONE"));
    let undone = &shown[place("UNDONE")..];
    let (pay, book) = (undone.find("pay"), undone.find("book"));
    assert!(pay < book && pay.is_some(), "{shown}");
    assert!(undone.contains("NO_REFUND"), "{shown}");
    let why = world.windlass(&["why", &run]).expect(0).stdout;
    assert!(why.contains("pay could not be undone"), "{why}");
    let events = world.windlass(&["events", &run]).expect(0).stdout;
    assert!(events.contains("CompensationFailed"), "{events}");
    assert!(
        events.contains("CompensationStarted    2 steps"),
        "{events}"
    );
}

#[test]
fn every_definition_is_drawn_in_every_format() {
    let (world, run) = waiting();
    let file = world.file("orders.json", ORDERS);
    for format in ["ascii", "mermaid", "dot", "svg"] {
        for subject in [&file, &run] {
            let plain = world.windlass(&["graph", subject, "--format", format]);
            let plain = plain.expect(0).stdout;
            let expanded = world.windlass(&["graph", subject, "--format", format, "--expand"]);
            let expanded = expanded.expect(0).stdout;
            assert!(!plain.contains("charge-all/poll"), "{plain}");
            assert!(expanded.len() > plain.len(), "{format}");
        }
    }
    let drawn = world.windlass(&["graph", &run, "--format", "mermaid", "--expand"]);
    let drawn = drawn.expect(0).stdout;
    assert!(drawn.contains("forEach · 3/3 ✗ 1"), "{drawn}");
    assert!(drawn.contains("✓ 2 ✗ 1"), "{drawn}");
    let json = world.windlass(&["graph", &run, "--json", "--expand"]);
    let json = json.expect(0).json();
    assert_eq!(json["nodes"][0]["body"]["nodes"][0]["id"], "charge");
    assert_eq!(json["nodes"][0]["body"]["nodes"][0]["tally"], "✓ 3");
}

#[test]
fn progress_says_what_a_run_waits_for() {
    let world = World::new();
    let file = world.file(
        "ask.json",
        r#"{"id":"ask","nodes":[
            {"id":"each","forEach":{"items":[1,2],"onItemFailure":"collect","body":{"nodes":[
                {"id":"try","actionType":"core.fail","parameters":{"code":"NOT_OK"}}]}}},
            {"id":"ask","dependsOn":["each"],"waitForSignal":{"name":"approve"}}]}"#,
    );
    let answer = world.windlass(&["run", &file, "--wait", "1"]);
    assert_eq!(answer.code, 7, "{}", answer.stderr);
    for part in [
        "each[0]/try: Failed: NOT_OK",
        "each[1]/try: Failed: NOT_OK",
        "each: Succeeded",
        "ask: waiting for signal 'approve'",
    ] {
        assert!(answer.stderr.contains(part), "{part}:\n{}", answer.stderr);
    }
}

#[test]
fn results_of_bodies_are_verified() {
    let (world, run) = waiting();
    let verified = world.windlass(&["verify", &run]).expect(0).stdout;
    assert!(verified.contains("ancestry hashes fit"), "{verified}");
}
