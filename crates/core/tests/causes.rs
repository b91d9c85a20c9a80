//! Root causes (semantics §4.6) where a text fixture cannot say it: how many there are, how
//! large they are, and what they are read from. The rules are in `fixtures/causes.txt`.

use serde_json::value::RawValue;
use windlass_core::event::{Cause, RunFailure};
use windlass_core::run::{ChildEnd, Failure, Input, Outcome};
use windlass_core::value::Payload;
use windlass_core::{RunId, RunStatus};

use windlass_test_support::fixture::notation;
use windlass_test_support::harness::{Harness, digest, failure};

fn started(graph: &[&str]) -> Harness {
    let mut harness = Harness::new(&notation::definition(graph), "null");
    harness.give(&Input::Begin).expect("a run that can begin");
    harness
}

fn error(harness: &Harness) -> &RunFailure {
    let finished = harness.run.finished().expect("the run ended");
    finished.error.as_ref().expect("it failed")
}

fn nodes(harness: &Harness) -> Vec<&str> {
    let causes = error(harness).causes.iter();
    causes.map(|cause| &*cause.node).collect()
}

/// Ends the child of a node Failed with these causes.
fn fail_child(harness: &mut Harness, path: &str, causes: Vec<Cause>) {
    let node = harness.index(path);
    let error = RunFailure {
        code: "NODE_FAILED".into(),
        message: "deep failed".into(),
        nodes: vec!["deep".into()],
        causes,
    };
    let end = ChildEnd {
        child: harness.run.child(node).expect("it has a child"),
        status: RunStatus::Failed,
        output: Payload::null(),
        error: Some(error),
        vars: Default::default(),
        compensation: None,
    };
    let input = Input::ChildEnded {
        node,
        attempt: harness.run.attempt(node),
        end: Box::new(end),
    };
    harness.give(&input).expect("the child was open");
}

fn cause(node: usize) -> Cause {
    Cause {
        execution_id: RunId::from_bytes([9; 16]),
        node: format!("deep-{node}").into(),
        path: Vec::new(),
        name: None,
        code: "DEEP".into(),
        message: "it failed".into(),
    }
}

#[test]
fn causes_are_the_first_ten_and_the_message_counts_the_others() {
    let each = r#"each {"forEach": {"items": "{{ Array.from({length: 25}) }}", "body": {"nodes": ["a"]}}}"#;
    let mut harness = started(&[each]);
    // From the last to the first: the order of the definition is another one.
    for item in (0..25).rev() {
        let path = format!("each[{item}]/a");
        harness
            .end(&path, failure("BOOM"))
            .expect("an open attempt");
    }
    let expected: Vec<String> = (15..25)
        .rev()
        .map(|item| format!("each[{item}]/a"))
        .collect();
    assert_eq!(nodes(&harness), expected);
    let message = &*error(&harness).message;
    assert_eq!(message, "each[24]/a failed: BOOM: it failed (and 24 more)");
}

#[test]
fn children_bring_ten_causes_together_at_most() {
    let child =
        |id: &str| format!(r#"{id} {{"subworkflow": {{"workflowId": "other", "input": null}}}}"#);
    let mut harness = started(&[&child("a"), &child("b")]);
    fail_child(&mut harness, "b", (0..7).map(cause).collect());
    fail_child(&mut harness, "a", (7..14).map(cause).collect());
    let expected: Vec<String> = (0..10).map(|node| format!("deep-{node}")).collect();
    assert_eq!(nodes(&harness), expected);
    assert!(error(&harness).message.ends_with("(and 13 more)"));
}

#[test]
fn a_cause_in_a_child_says_how_the_run_leads_to_it() {
    let each = r#"each {"forEach": {"items": "{{ [1] }}", "body": {"nodes": [
        {"id": "c", "subworkflow": {"workflowId": "other", "input": null}}]}}}"#;
    let paths = |below: &[&str]| {
        let mut harness = started(&[each]);
        let path = below.iter().map(|&node| node.into()).collect();
        fail_child(&mut harness, "each[0]/c", vec![Cause { path, ..cause(0) }]);
        let error = error(&harness);
        (error.causes[0].path.join(" "), error.message.to_string())
    };
    let (path, message) = paths(&[]);
    assert_eq!(path, "each[0]/c deep-0");
    assert_eq!(message, "each[0]/c › deep-0 failed: DEEP: it failed");
    let (path, message) = paths(&["b[7]/child", "deep-0"]);
    assert_eq!(path, "each[0]/c b[7]/child deep-0");
    assert!(message.starts_with("each[0]/c › b[7]/child › deep-0 failed: "));
    // However deep: what is kept of it is bounded, and has both ends.
    let long = "x".repeat(1024);
    let (path, _) = paths(&["a", &long, "b", "deep-0"]);
    assert_eq!(path, "each[0]/c … deep-0");
}

/// The details that earlier versions recorded have the way to a cause from the child.
#[test]
fn a_cause_that_an_earlier_version_recorded_is_led_to_from_the_run() {
    let child = r#"c {"subworkflow": {"workflowId": "other", "input": null}}"#;
    for (way, led) in [
        ("", r#"["c","deep"]"#),
        (r#""path": ["x", "deep"],"#, r#"["c","x","deep"]"#),
        (r#""path": ["c", "x", "deep"],"#, r#"["c","x","deep"]"#),
    ] {
        let mut harness = started(&[child]);
        let id = "00000000-0000-7000-8000-000000000000";
        let details = format!(
            r#"{{"executionId": "{id}", "causes": [
                {{"executionId": "{id}", "node": "deep", {way} "code": "X", "message": "x"}}]}}"#,
        );
        let node = harness.index("c");
        let input = Input::ChildFailed {
            node,
            attempt: harness.run.attempt(node),
            failure: Box::new(Failure {
                details: RawValue::from_string(details).ok(),
                ..Failure::permanent("NODE_FAILED", "deep failed")
            }),
        };
        harness.give(&input).expect("the child was open");
        let path = serde_json::to_string(&error(&harness).causes[0].path).expect("JSON");
        assert_eq!(path, led, "{way}");
    }
}

#[test]
fn a_long_message_is_cut_between_two_characters() {
    let mut harness = started(&["nodes a"]);
    let message = "é".repeat(100_000);
    let failure = Failure::permanent("BOOM", &*message);
    harness
        .end("a", Outcome::Failed(failure))
        .expect("an open attempt");
    let error = error(&harness);
    let cut = &*error.causes[0].message;
    assert!(cut.len() <= 512 && cut.len() > 500, "{} bytes", cut.len());
    assert!(cut.ends_with("é…"), "{cut}");
    assert!(error.message.len() < 600, "{} bytes", error.message.len());
    // The node's own error keeps it whole.
    let value = harness.run.value(harness.index("a")).expect("an error");
    assert!(harness.values[&value.digest].text().len() > message.len());
}

#[test]
fn the_order_of_failures_survives_a_checkpoint() {
    let mut harness = started(&["nodes a b c"]);
    harness.end("c", failure("FIRST")).expect("an open attempt");
    harness
        .end("b", failure("SECOND"))
        .expect("an open attempt");
    harness.run = harness.replayed();
    harness.end("a", failure("THIRD")).expect("an open attempt");
    assert_eq!(nodes(&harness), ["c", "b", "a"]);
    assert_eq!(digest(&harness.replayed()), digest(&harness.run));
}

#[test]
fn details_that_an_action_reports_are_not_taken_for_the_causes_of_a_child() {
    let mut harness = started(&["nodes a"]);
    let details = r#"{"executionId": "00000000-0000-7000-8000-000000000000", "causes": [
        {"executionId": "00000000-0000-7000-8000-000000000000", "node": "other", "code": "X", "message": "x"}]}"#;
    let failure = Failure {
        details: RawValue::from_string(details.to_owned()).ok(),
        ..Failure::permanent("NODE_FAILED", "mine")
    };
    harness
        .end("a", Outcome::Failed(failure))
        .expect("an open attempt");
    assert_eq!(nodes(&harness), ["a"]);
    assert_eq!(error(&harness).causes[0].execution_id, harness.run.id());
}
