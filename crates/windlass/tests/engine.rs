//! The engine from outside: workflows in code, graphs, handles, errors that say what to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;
use windlass::schemars::JsonSchema;
use windlass::{
    ActionError, CommandError, Context, Engine, Graph, NodeSpec, NodeStatus, OpenError, ReadError,
    Reply, RunError, RunStatus, StartError, Workflow, action,
};
use windlass_store::Wait as _;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Charge {
    amount: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Receipt {
    charged: u32,
    attempt: u32,
}

/// Charges a card.
#[action("payments.charge")]
async fn charge(context: Context, parameters: Charge) -> Result<Receipt, ActionError> {
    Ok(Receipt {
        charged: parameters.amount,
        attempt: context.attempt,
    })
}

#[action("payments.skip")]
async fn skip(_context: Context) -> Result<Reply<()>, ActionError> {
    Ok(Reply::skipped())
}

fn doubling() -> Workflow {
    Workflow::builder("doubling")
        .step(
            "double",
            |_: Context, number: u32| async move { Ok(number * 2) },
        )
        .step(
            "again",
            |_: Context, number: u32| async move { Ok(number * 2) },
        )
        .parameters("{{ context.data['double'] }}")
        .build()
        .expect("built")
}

#[tokio::test]
async fn functions_run_in_their_order_with_typed_values() {
    let workflow = doubling();
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    assert_eq!(engine.run(&workflow, 5).await.expect("ran"), json!(20));
    assert_eq!(engine.run("doubling", 6).await.expect("ran"), json!(24));
    let run = engine.start(&workflow, 7).await.expect("started");
    assert_eq!(run.result_as::<u32>().await.expect("a number"), 28);
    assert_eq!(run.status().wait().expect("read"), RunStatus::Succeeded);
    let found = engine.find(run.id()).wait().expect("found");
    let nodes = found.nodes().await.expect("read");
    assert_eq!(nodes.len(), 2);
    assert_eq!(nodes[0].id, "double");
    assert_eq!(nodes[0].output, json!(14));
    engine.shutdown().await;
}

#[tokio::test]
async fn actions_are_used_by_value_and_by_name() {
    let workflow = Workflow::builder("paying")
        .step("first", charge)
        .parameters(json!({ "amount": 3 }))
        .step("second", "payments.charge")
        .parameters(json!({ "amount": "{{ context.data['first'].charged + 1 }}" }))
        .step("third", skip)
        .build()
        .expect("built");
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    let run = engine.start(&workflow, ()).await.expect("started");
    assert_eq!(run.wait().await.expect("ended"), RunStatus::Succeeded);
    let second = run.node("second").await.expect("the node");
    assert_eq!(second.output, json!({ "charged": 4, "attempt": 1 }));
    assert_eq!(
        run.node("third").await.expect("the node").status,
        NodeStatus::Skipped
    );
    let described = engine
        .actions()
        .iter()
        .find(|known| known.name == "payments.charge");
    let described = described.expect("described");
    assert_eq!(described.description, "Charges a card.");
    let schema = serde_json::to_value(&described.parameters).expect("JSON");
    assert_eq!(schema["required"], json!(["amount"]));
}

#[tokio::test]
async fn parameters_that_do_not_fit_fail_the_node() {
    let workflow = Workflow::builder("paying")
        .step("charge", charge)
        .parameters(json!({ "amuont": 3 }))
        .build()
        .expect("built");
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    let error = engine.run(&workflow, ()).await.expect_err("failed");
    let RunError::Failed(failure) = &error else {
        panic!("{error}");
    };
    assert_eq!(failure.code, "NODE_FAILED");
    assert_eq!(failure.nodes[0].node, "charge");
    assert_eq!(failure.nodes[0].error.code, "PARAMETERS_INVALID");
    let [cause] = &failure.causes[..] else {
        panic!("{failure:?}");
    };
    assert_eq!((&*cause.node, cause.execution_id), ("charge", failure.run));
    assert!(error.to_string().contains("amuont"), "{error}");
}

#[tokio::test]
async fn graphs_run_on_registered_actions() {
    let mut graph = Graph::builder();
    let ids = graph.fan_out(1..=20_u32, |amount| {
        NodeSpec::new(
            format!("charge_{amount}"),
            "payments.charge",
            json!({ "amount": amount }),
        )
    });
    graph.node("done", "core.script", json!({ "expression": "'done'" }));
    let graph = graph.freeze().expect("frozen").with_workflow_id("charges");
    let engine = Engine::in_memory()
        .action(charge)
        .open()
        .await
        .expect("open");
    let run = engine.start(&graph, ()).await.expect("started");
    assert_eq!(run.result().await.expect("ran"), json!("done"));
    assert_eq!(
        run.nodes_with_state(NodeStatus::Succeeded)
            .await
            .expect("read")
            .len(),
        21
    );
    let third = run.node("charge_3").await.expect("by name");
    assert_eq!(third.id, ids[2].as_str());
    assert_eq!(third.output["charged"], 3);
    let execution = run.execution().await.expect("read");
    assert_eq!(execution.json["workflowId"], "charges");
    let engine = Engine::in_memory().open().await.expect("open");
    let error = engine.start(&graph, ()).await.expect_err("refused");
    assert!(matches!(&error, StartError::UnknownAction { .. }));
    assert!(error.to_string().contains("call `.action(…)`"), "{error}");
}

#[tokio::test]
async fn failures_are_seen_and_tried_again_by_hand() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let workflow = Workflow::builder("flaky")
        .step("flaky", move |_: Context| {
            let call = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                if call == 0 {
                    return Err(ActionError::failed("OFFLINE", "not there"));
                }
                Ok(call)
            }
        })
        .step("after", "core.echo")
        .build()
        .expect("built");
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    let run = engine.start(&workflow, ()).await.expect("started");
    assert_eq!(run.wait().await.expect("ended"), RunStatus::Failed);
    let failed = run
        .nodes_with_state(NodeStatus::Failed)
        .await
        .expect("read");
    assert_eq!(failed[0].id, "flaky");
    assert_eq!(failed[0].error.as_ref().expect("an error").code, "OFFLINE");
    let blocked = run.node("after").await.expect("the node");
    assert_eq!(blocked.status, NodeStatus::Blocked);
    assert_eq!(blocked.blocked_by, Some(vec!["flaky".to_owned()]));
    let operator = run.clone().by("operator").because("it is there again");
    operator.reattempt(["flaky"]).await.expect("again");
    assert_eq!(run.wait().await.expect("ended"), RunStatus::Succeeded);
    let history = run.history("flaky").await.expect("read");
    let statuses: Vec<_> = history
        .iter()
        .map(|attempt| (attempt.attempt, attempt.status))
        .collect();
    assert_eq!(
        statuses,
        [(1, NodeStatus::Failed), (2, NodeStatus::Succeeded)]
    );
    assert_eq!(history[0].error.as_ref().expect("an error").code, "OFFLINE");
    let refused = run.reattempt(["flaky"]).await.expect_err("refused");
    assert!(matches!(refused, CommandError::Refused { .. }));
    let unknown = run.reattempt(["nobody"]).await.expect_err("refused");
    assert!(matches!(unknown, CommandError::UnknownNode(_)));
}

#[tokio::test]
async fn runs_are_paused_resumed_and_cancelled() {
    let reached = Arc::new(Notify::new());
    let go_on = Arc::new(Notify::new());
    let (reach, wait) = (Arc::clone(&reached), Arc::clone(&go_on));
    let workflow = Workflow::builder("held")
        .step("hold", move |context: Context| {
            let (reach, wait) = (Arc::clone(&reach), Arc::clone(&wait));
            async move {
                reach.notify_one();
                tokio::select! {
                    () = wait.notified() => Ok(()),
                    () = context.stop_asked() => Err(ActionError::stopped()),
                }
            }
        })
        .step("after", "core.echo")
        .build()
        .expect("built");
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    let run = engine.start(&workflow, ()).await.expect("started");
    reached.notified().await;
    run.pause().await.expect("paused");
    go_on.notify_one();
    run.resume().await.expect("resumed");
    assert_eq!(run.wait().await.expect("ended"), RunStatus::Succeeded);

    let run = engine.start(&workflow, ()).await.expect("started");
    reached.notified().await;
    run.cancel().await.expect("cancelled");
    let error = run.result().await.expect_err("no result");
    assert!(matches!(error, RunError::Cancelled(id) if id == run.id()));
    assert_eq!(
        run.nodes_with_state(NodeStatus::Cancelled)
            .await
            .expect("read")
            .len(),
        2
    );
}

#[tokio::test]
async fn a_request_says_more_than_a_trigger() {
    let workflow = doubling();
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    let ask = |trigger: u32| {
        let request = engine
            .request(&workflow)
            .trigger(trigger)
            .request_id("order-7");
        request
            .label("team", "x")
            .priority(9)
            .correlation_id("c")
            .start()
    };
    let first = ask(1).await.expect("started");
    let second = ask(1).await.expect("the same");
    assert!(!first.is_existing() && second.is_existing());
    assert_eq!(first.id(), second.id());
    let error = ask(2).await.expect_err("refused");
    assert!(error.to_string().contains("use another id"), "{error}");
    let json = first.execution().await.expect("read").json;
    assert_eq!(json["labels"], json!({ "team": "x" }));
    assert_eq!(json["priority"], 9);
    assert_eq!(json["correlationId"], "c");
}

#[tokio::test]
async fn what_is_not_there_is_answered_with_what_is() {
    let workflow = doubling();
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    let error = engine.start("doublin", 1).await.expect_err("refused");
    assert!(
        error.to_string().contains("did you mean 'doubling'?"),
        "{error}"
    );
    let other = Workflow::builder("doubling")
        .step("x", "core.echo")
        .build()
        .expect("built");
    let error = engine.start(&other, 1).await.expect_err("refused");
    assert!(matches!(error, StartError::Different { .. }));
    let run = engine.start(&workflow, 1).await.expect("started");
    run.wait().await.expect("ended");
    let error = run.node("duoble").await.expect_err("refused");
    assert!(
        error.to_string().contains("did you mean 'double'?"),
        "{error}"
    );
    let error = run
        .output_of::<String>("double")
        .await
        .expect_err("no text");
    assert!(matches!(error, ReadError::Unfit { .. }), "{error}");
    let nobody = "00000000-0000-7000-8000-000000000000"
        .parse()
        .expect("an id");
    assert!(matches!(
        engine.find(nobody).await,
        Err(ReadError::NotFound(_))
    ));
}

#[tokio::test]
async fn an_engine_does_not_open_with_actions_that_nobody_registered() {
    let workflow = Workflow::builder("typo")
        .step("a", "core.ehco")
        .build()
        .expect("built");
    let error = Engine::in_memory()
        .workflow(&workflow)
        .open()
        .await
        .err()
        .expect("refused");
    assert!(
        error.to_string().contains("did you mean 'core.echo'?"),
        "{error}"
    );
    let workflow = doubling();
    let twice = Engine::in_memory().workflow(&workflow).workflow(&workflow);
    let error = twice.open().await.err().expect("refused");
    assert!(matches!(error, OpenError::WorkflowTwice(_)));
}

#[tokio::test]
async fn a_trigger_of_a_type_is_checked() {
    let workflow = Workflow::builder("typed")
        .trigger::<u32>()
        .step("a", "core.echo")
        .build()
        .expect("built");
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    let error = engine.start(&workflow, "seven").await.expect_err("refused");
    assert!(matches!(&error, StartError::Refused(_)));
    assert!(error.to_string().contains("triggerSchema"), "{error}");
    engine.run(&workflow, 7).await.expect("ran");
}

#[tokio::test]
async fn a_disabled_workflow_starts_no_runs() {
    let workflow = doubling();
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    let store = engine.inner().store();
    store
        .set_enabled(None, "doubling", false)
        .await
        .expect("stored");
    let error = engine.start(&workflow, 1).await.expect_err("refused");
    assert!(matches!(error, StartError::Disabled { .. }), "{error}");
    store
        .set_enabled(None, "doubling", true)
        .await
        .expect("stored");
    engine.run(&workflow, 1).await.expect("ran");
}

#[tokio::test]
async fn runs_can_be_started_from_any_task() {
    let workflow = doubling();
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    let runs = (0..10_u32).map(|number| {
        let (engine, workflow) = (engine.clone(), workflow.clone());
        tokio::spawn(async move { engine.run(&workflow, number).await })
    });
    for (number, run) in runs.collect::<Vec<_>>().into_iter().enumerate() {
        let output = run.await.expect("no panic").expect("ran");
        assert_eq!(output, json!(number * 4));
    }
}

#[test]
fn an_action_goes_into_any_registry() {
    let mut registry = windlass::Registry::new();
    registry.register(charge).register(skip);
    let names: Vec<&str> = registry.names().collect();
    assert_eq!(names, ["payments.charge", "payments.skip"]);
}

#[tokio::test]
async fn a_null_trigger_is_a_trigger() {
    let workflow = Workflow::builder("echo")
        .step("a", |_: Context, trigger: Value| async move { Ok(trigger) })
        .build()
        .expect("built");
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    assert_eq!(engine.run(&workflow, ()).await.expect("ran"), Value::Null);
    let started = engine.request(&workflow).start().await.expect("started");
    assert_eq!(started.result().await.expect("ran"), json!({}));
}

#[tokio::test]
async fn a_tenants_runs_and_their_children_walk_workflows_of_the_tenant() {
    let child = doubling();
    let call = windlass::nodes::subworkflow("doubling", 5).expect("JSON");
    let parent = Workflow::builder("parent")
        .step("call", call)
        .build()
        .expect("built");
    let engine = Engine::in_memory()
        .workflow(&child)
        .workflow(&parent)
        .open()
        .await
        .expect("open");
    let store = engine.inner().store();
    let in_tenant = || {
        store
            .workflow(Some("acme"), "doubling")
            .wait()
            .expect("read")
    };
    assert!(in_tenant().is_none(), "nobody asked for it yet");
    for _ in 0..2 {
        let request = engine.request(&parent).tenant("acme");
        let run = request.start().await.expect("started");
        assert_eq!(run.result().await.expect("ran"), json!(20));
        let [row] = &*store.children(run.id()).wait().expect("a list") else {
            panic!("one child");
        };
        assert_eq!(row.tenant.as_deref(), Some("acme"));
        for id in [run.id(), row.run] {
            let plans = engine.inner().plans();
            let verified = windlass_engine::verify::verify(&**store, plans, id).expect("read");
            assert!(verified.misfit.is_none(), "{:?}", verified.misfit);
        }
    }
    assert_eq!(in_tenant().expect("published").version, 1);
    store
        .set_enabled(Some("acme"), "parent", false)
        .await
        .expect("stored");
    let refused = engine.request(&parent).tenant("acme").start().await;
    assert!(matches!(refused, Err(StartError::Disabled { .. })));
    engine.run(&parent, ()).await.expect("ours is enabled");
}
