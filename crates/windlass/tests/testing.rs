//! The test kit: virtual time, mocks, faults, assertions. No test here sleeps.

use std::time::Duration;

use serde_json::{Value, json};
use windlass::testing::TestEngine;
use windlass::{ActionError, Context, Graph, NodeStatus, Retry, RunStatus, Workflow};

fn retrying() -> Workflow {
    Workflow::builder("retrying")
        .step("charge", "core.echo")
        .parameters(json!({ "amount": 3 }))
        .retry(
            Retry::attempts(4)
                .base(Duration::from_secs(3600))
                .without_jitter(),
        )
        .timeout(Duration::from_secs(60))
        .step("ship", "core.echo")
        .build()
        .expect("built")
}

#[test]
fn retries_take_virtual_hours() {
    let workflow = retrying();
    let engine = TestEngine::builder()
        .workflow(&workflow)
        .fail("charge", 1, "OFFLINE")
        .fail("charge", 2, "OFFLINE")
        .open();
    let begun = engine.now();
    let run = engine.run(&workflow, ());
    run.assert_succeeded()
        .assert_attempts("charge", 3)
        .assert_node("ship", "Succeeded")
        .assert_before("charge", "ship");
    // The longest delay is five minutes, whatever the base.
    assert_eq!(engine.now().0 - begun.0, 600_000);
    let codes: Vec<_> = run
        .history("charge")
        .into_iter()
        .map(|attempt| attempt.error.map(|error| error.code))
        .collect();
    assert_eq!(
        codes,
        [Some("OFFLINE".to_owned()), Some("OFFLINE".to_owned()), None]
    );
}

/// A rehearsal does not wait for hardware.
#[test]
fn workers_of_a_test_have_every_label() {
    let workflow = Workflow::builder("draws")
        .step("draw", "core.echo")
        .requires(["gpu"])
        .build()
        .expect("built");
    let engine = TestEngine::builder().workflow(&workflow).open();
    engine.run(&workflow, ()).assert_succeeded();
}

#[test]
fn a_failure_for_good_is_not_repeated() {
    let workflow = retrying();
    let engine = TestEngine::builder()
        .workflow(&workflow)
        .fail_for_good("charge", 1, "CARD_DECLINED")
        .open();
    engine
        .run(&workflow, ())
        .assert_failed()
        .assert_attempts("charge", 1)
        .assert_error("charge", "CARD_DECLINED")
        .assert_node("ship", "Blocked");
}

#[test]
fn timeouts_are_jumped_over() {
    let workflow = retrying();
    let engine = TestEngine::builder()
        .workflow(&workflow)
        .hang("charge", 1)
        .open();
    let run = engine.run(&workflow, ());
    run.assert_succeeded().assert_attempts("charge", 2);
    let error = run.history("charge")[0].error.clone();
    assert_eq!(error.expect("an error").code, "TIMEOUT");
}

#[test]
fn time_passes_as_far_as_it_is_told() {
    let workflow = Workflow::builder("slow")
        .step("sleep", "core.sleep")
        .parameters(json!({ "ms": 10_000 }))
        .step("done", "core.echo")
        .build()
        .expect("built");
    let engine = TestEngine::with([&workflow]);
    let run = engine.start(&workflow, ());
    engine.advance(Duration::from_millis(9_999));
    assert_eq!(run.status(), RunStatus::Running);
    run.assert_node("done", "Pending");
    engine.advance(Duration::from_millis(2));
    run.assert_succeeded();
}

#[test]
fn actions_are_mocked_by_name() {
    async fn charge(_: Context, amount: u32) -> Result<u32, ActionError> {
        Ok(amount)
    }
    let workflow = Workflow::builder("mocked")
        .step("fetch", "http.request")
        .parameters(json!({ "url": "https://shop.example/{{ trigger.id }}" }))
        .step("charge", charge)
        .parameters("{{ context.data['fetch'].body.price }}")
        .build()
        .expect("built");
    let own = workflow.action_of("charge").expect("an action").to_owned();
    let engine = TestEngine::builder()
        .workflow(&workflow)
        .mock("http.request", |_| Ok(json!({ "body": { "price": 5 } })))
        .mock(own.as_str(), |amount| match amount {
            Value::Number(_) => Ok(json!("charged")),
            other => Err(ActionError::failed("NO_NUMBER", other.to_string())),
        })
        .fail("charge", 1, "OFFLINE")
        .open();
    let run = engine.run(&workflow, json!({ "id": 7 }));
    run.assert_failed().assert_error("charge", "OFFLINE");
    run.reattempt(["charge"]).expect("again");
    run.wait();
    run.assert_succeeded().assert_output(json!("charged"));
    let calls = engine.calls("http.request");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].node, "fetch");
    assert_eq!(calls[0].parameters["url"], "https://shop.example/7");
    let calls = engine.calls(&own);
    assert_eq!(
        (calls.len(), calls[0].attempt),
        (1, 2),
        "the fault came before the mock"
    );
}

#[test]
fn graphs_run_on_mocks() {
    let mut graph = Graph::builder();
    let a = graph
        .node("a", "ledger.post", json!({ "n": 1 }))
        .retry(2)
        .id();
    graph.node("b", "ledger.post", json!({ "n": 2 }));
    let graph = graph.freeze().expect("frozen");
    let engine = TestEngine::builder()
        .mock("ledger.post", Ok)
        .fail(a.as_str(), 1, "LOCKED")
        .open();
    engine
        .run(&graph, ())
        .assert_succeeded()
        .assert_attempts("a", 2)
        .assert_output(json!({ "n": 2 }));
}

#[test]
fn every_test_sees_the_same_ids() {
    let workflow = retrying();
    let id = || {
        TestEngine::with([&workflow])
            .run(&workflow, ())
            .handle()
            .id()
    };
    assert_eq!(id(), id());
}

#[test]
fn runs_are_paused_resumed_and_cancelled() {
    let workflow = retrying();
    let engine = TestEngine::builder()
        .workflow(&workflow)
        .hang("charge", 1)
        .open();
    let run = engine.start(&workflow, ());
    run.pause().expect("paused");
    engine.advance(Duration::from_secs(120));
    run.assert_node("ship", "Pending");
    run.resume().expect("resumed");
    run.cancel().expect("cancelled");
    assert_eq!(run.wait(), RunStatus::Cancelled);
    assert_eq!(
        run.nodes_with_state(NodeStatus::Cancelled),
        ["charge", "ship"]
    );
}

#[test]
#[should_panic(
    expected = "the run is Failed, not Succeeded:\n  charge: Failed, 1 attempts, BROKEN"
)]
fn assertions_show_every_node() {
    let workflow = retrying();
    let engine = TestEngine::builder()
        .workflow(&workflow)
        .fail_for_good("charge", 1, "BROKEN")
        .open();
    engine.run(&workflow, ()).assert_succeeded();
}

#[tokio::test]
#[should_panic(expected = "use it in a plain `#[test]` function")]
async fn a_test_engine_in_a_runtime_says_what_to_do() {
    let _ = TestEngine::builder().open();
}

#[test]
#[should_panic(expected = "the run does not end by itself:\n  charge: ")]
fn a_run_that_waits_for_ever_is_shown() {
    let workflow = retrying();
    let engine = TestEngine::builder()
        .workflow(&workflow)
        .hang("charge", 1)
        .open();
    let run = engine.start(&workflow, ());
    run.pause().expect("paused");
    run.wait();
}

#[test]
fn something_can_be_awaited_on_the_engines_time() {
    let workflow = retrying();
    let engine = TestEngine::with([&workflow]);
    let output = engine.block_on(engine.engine().run(&workflow, ()));
    assert_eq!(output.expect("ran"), json!({}));
}
