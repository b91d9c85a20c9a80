//! Values that do not fit into records, and the limits of outputs (semantics §1).

use windlass_core::event::{AttemptResult, Event};
use windlass_core::run::{Failure, Outcome, ValueLimits};

const OUTPUT_LIMIT_BYTES: usize = ValueLimits::DEFAULT.output_bytes;
use windlass_core::value::{INLINE_BYTES, Stored};
use windlass_core::{Digest, NodeStatus, RunStatus};

use windlass_test_support::fixture::notation;
use windlass_test_support::harness::{Harness, digest, output};

fn started(graph: &[&str]) -> Harness {
    let mut harness = Harness::new(&notation::definition(graph), "null");
    let begin = windlass_core::run::Input::Begin;
    harness.give(&begin).expect("a run that can begin");
    harness
}

/// A JSON string of this many bytes, quotes included.
fn text(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes - 2))
}

#[test]
fn a_large_output_is_a_blob_that_conditions_variables_and_the_result_can_read() {
    let mut harness = started(&[
        "a -if output.length > 4094-> b",
        r#"a setVars {"size": "{{ output.length }}", "copy": "{{ output }}"}"#,
        r#"output {"copy": "{{ vars.copy.length + context.data.a.length }}"}"#,
    ]);
    let large = text(INLINE_BYTES + 1);
    let steps = harness.end("a", output(&large)).expect("an open attempt");
    let Event::AttemptEnded(ended) = &steps[0].0 else {
        panic!("the end of an attempt comes first");
    };
    assert_eq!(ended.digest, Digest::of(large.as_bytes()));
    let value = harness.run.value(harness.index("a")).expect("an output");
    assert!(value.is_blob());
    assert_eq!(value.size as usize, large.len());
    assert!(harness.run.vars()["copy"].blob().is_some());
    assert_eq!(
        harness.run.vars()["size"].text().map(|text| &**text),
        Some("4095")
    );
    harness.end("b", output("1")).expect("b was chosen");
    let finished = harness.run.finished().expect("an ended run");
    let Some(Stored::Inline(result)) = &finished.output else {
        panic!("a small result");
    };
    assert_eq!(result.get(), r#"{"copy":8190}"#);
    assert_eq!(digest(&harness.replayed()), digest(&harness.run));
}

#[test]
fn the_only_sinks_large_output_is_the_result() {
    let mut harness = started(&["nodes a"]);
    let large = text(INLINE_BYTES + 1);
    harness.end("a", output(&large)).expect("an open attempt");
    let finished = harness.run.finished().expect("an ended run");
    let Some(Stored::Blob { digest, size }) = &finished.output else {
        panic!("a large result");
    };
    assert_eq!(*digest, Digest::of(large.as_bytes()));
    assert_eq!(*size as usize, large.len());
}

#[test]
fn an_output_of_exactly_the_inline_size_stands_in_the_record() {
    let mut harness = started(&["nodes a"]);
    let fits = text(INLINE_BYTES);
    harness.end("a", output(&fits)).expect("an open attempt");
    let value = harness.run.value(harness.index("a")).expect("an output");
    assert!(!value.is_blob());
    assert_eq!(u64::from(value.record), harness.run.records());
}

#[test]
fn an_output_over_the_limit_fails_its_node_for_good() {
    let graph = [
        r#"a retry {"maxAttempts": 3}"#,
        "a -failure if error.code == 'OUTPUT_LIMIT' && !error.retriable-> h",
    ];
    let mut harness = started(&graph);
    let fits = harness.end("a", output(&text(OUTPUT_LIMIT_BYTES)));
    fits.expect("an open attempt");
    assert_eq!(harness.run.status(), RunStatus::Succeeded);
    let mut harness = started(&graph);
    let over = harness.end("a", output(&text(OUTPUT_LIMIT_BYTES + 1)));
    over.expect("an open attempt");
    let status = |id| harness.run.node_status(harness.index(id));
    assert_eq!(status("a"), NodeStatus::Failed);
    assert_eq!(status("h"), NodeStatus::Queued);
}

#[test]
fn variables_past_their_limit_together_fail_the_node_that_sets_them() {
    let limit = ValueLimits::DEFAULT.vars_bytes as usize;
    let graph = [
        r#"a setVars {"x": "{{ output }}"}"#,
        r#"b setVars {"y": "{{ output }}"}"#,
        r#"c setVars {"x": "{{ output }}"}"#,
        "b -failure if error.code == 'VARS_LIMIT' && !error.retriable-> h",
        "a -> b",
        "h -> c",
    ];
    let mut harness = started(&graph);
    let half = limit / 2 - 1;
    harness
        .end("a", output(&text(half)))
        .expect("an open attempt");
    harness
        .end("b", output(&text(half + 1)))
        .expect("an open attempt");
    let status = |harness: &Harness, id| harness.run.node_status(harness.index(id));
    assert_eq!(status(&harness, "b"), NodeStatus::Failed);
    assert!(
        !harness.run.vars().contains_key("y"),
        "nothing of it is set"
    );
    harness
        .end("h", output("1"))
        .expect("the failure is handled");
    harness.end("c", output("1")).expect("an open attempt");
    assert_eq!(
        harness.run.status(),
        RunStatus::Succeeded,
        "less is allowed"
    );
    assert_eq!(digest(&harness.replayed()), digest(&harness.run));
    let mut harness = started(&graph);
    harness
        .end("a", output(&text(half)))
        .expect("an open attempt");
    harness
        .end("b", output(&text(half)))
        .expect("an open attempt");
    assert_eq!(status(&harness, "b"), NodeStatus::Succeeded, "at the limit");
}

#[test]
fn what_an_action_asks_to_wait_is_capped() {
    let retry = r#"a retry {"maxAttempts": 2, "baseDelayMs": 1, "jitter": false}"#;
    let longest = ValueLimits::DEFAULT.retry_after_ms;
    for (asked, waited) in [
        (5, 5),
        (longest, longest),
        (longest + 1, longest),
        (u64::MAX, longest),
    ] {
        let mut harness = started(&[retry, "nodes a"]);
        let failure = Failure {
            retriable: true,
            retry_after_ms: Some(asked),
            ..Failure::permanent("BUSY", "later")
        };
        let steps = harness
            .end("a", Outcome::Failed(failure))
            .expect("an open attempt");
        let Event::AttemptEnded(ended) = &steps[0].0 else {
            panic!("the end of an attempt comes first");
        };
        let AttemptResult::Retrying { due, .. } = &ended.result else {
            panic!("another attempt follows");
        };
        let waits = u64::try_from(due.0 - ended.ended.0).expect("later");
        assert_eq!(waits, waited, "{asked}");
    }
}
