//! The library as an application uses it: results by type, shared state, errors, loops with
//! closures, retry strategies in code, and what can be read of a run.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;
use windlass::nodes::{for_each, retry_until, subworkflow, wait_for_signal, while_};
use windlass::schemars::JsonSchema;
use windlass::testing::TestEngine;
use windlass::{
    ActionError, CommandError, Context, Engine, FrozenGraph, Graph, NodeStatus, OrFail as _,
    ResourceLink, Retry, RunFilter, RunStatus, State, Workflow,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Order {
    id: u32,
    cents: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Receipt {
    number: String,
}

struct Bank {
    charged: AtomicU32,
}

async fn charge(_: Context, bank: State<Bank>, order: Order) -> Result<Receipt, ActionError> {
    let number = bank.charged.fetch_add(1, Ordering::SeqCst) + 1;
    let number = format!("{number} of {}", order.cents);
    Ok(Receipt { number })
}

#[tokio::test]
async fn results_flow_by_type_and_state_is_shared() {
    let charged = Workflow::builder("orders").step("charge", charge);
    let receipt = charged.output();
    let workflow = charged
        .step("ship", move |context: Context| {
            let receipt = receipt.clone();
            async move {
                let receipt: Receipt = receipt.read(&context).await?;
                let by_name: Receipt = context.output("charge").await?;
                assert_eq!(receipt, by_name);
                let order: Order = context.trigger().await?;
                let bank = context.state::<Bank>()?;
                let charged = bank.charged.load(Ordering::SeqCst);
                Ok(format!("{} for {}, {charged}", receipt.number, order.id))
            }
        })
        .build()
        .expect("built");
    let bank = Bank {
        charged: AtomicU32::new(0),
    };
    let engine = Engine::in_memory().workflow(&workflow).state(bank);
    let engine = engine.open().await.expect("open");
    let run = engine.start(&workflow, Order { id: 7, cents: 42 }).await;
    let run = run.expect("started");
    assert_eq!(run.result().await.expect("a result"), "1 of 42 for 7, 1");
    let receipt: Receipt = run.output_of("charge").await.expect("a receipt");
    assert_eq!(receipt.number, "1 of 42");
    let node = run.node("charge").await.expect("the node");
    assert_eq!(node.input, json!({ "id": 7, "cents": 42 }));
    assert!(node.duration_ms.is_some() && node.started_at <= node.ended_at);
    let execution = run.execution().await.expect("read");
    assert!(execution.updated_at >= execution.ended_at);
}

#[tokio::test]
async fn what_cannot_be_read_says_so() {
    let workflow = Workflow::builder("wrong")
        .step("text", |_: Context| async move { Ok("a text") })
        .step("number", |context: Context| async move {
            let wrong = context.output::<u32>("text").await.expect_err("a text");
            assert_eq!(&*wrong.code, "VALUE_MISFIT");
            let later = context.output::<u32>("later").await.expect_err("later");
            assert_eq!(&*later.code, "OUTPUT_MISSING");
            let nobody = context.output::<u32>("nobody").await.expect_err("nobody");
            assert_eq!(&*nobody.code, "NODE_NOT_FOUND");
            context.state::<Bank>().map(|_| ())
        })
        .step("later", "core.echo")
        .build()
        .expect("built");
    let engine = Engine::in_memory().workflow(&workflow).open().await;
    let run = engine.expect("open").start(&workflow, ()).await;
    let run = run.expect("started");
    run.wait().await.expect("ended");
    let error = run.node("number").await.expect("read").error;
    assert_eq!(error.expect("an error").code, "STATE_MISSING");
}

#[test]
fn any_error_fails_an_action_and_says_whether_it_is_worth_another_attempt() {
    let workflow = Workflow::builder("errors")
        .step("transient", |context: Context| async move {
            match context.attempt {
                1 => Ok("no number".parse::<u32>()?),
                attempt => Ok(attempt),
            }
        })
        .retry(Retry::attempts(3).every(Duration::ZERO))
        .step("for-good", |_: Context| async move {
            "no number".parse::<u32>().or_fail("NOT_A_NUMBER")
        })
        .retry(Retry::attempts(3).every(Duration::ZERO))
        .build()
        .expect("built");
    let engine = TestEngine::builder().workflow(&workflow).open();
    let run = engine.run(&workflow, ());
    run.assert_failed().assert_attempts("transient", 2);
    run.assert_attempts("for-good", 1);
    let first = run.history("transient")[0].error.clone().expect("an error");
    assert_eq!(
        (first.code.as_str(), first.retriable),
        ("ACTION_FAILED", true)
    );
    assert!(first.message.contains("invalid digit"), "{}", first.message);
    let last = run.node("for-good").error.expect("an error");
    assert_eq!(
        (last.code.as_str(), last.retriable),
        ("NOT_A_NUMBER", false)
    );
}

#[test]
fn a_strategy_in_code_decides_the_delays() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let retry =
        Retry::attempts(4)
            .at_most(Duration::from_secs(60))
            .custom(move |attempt, error| {
                counted.fetch_add(1, Ordering::SeqCst);
                match &*error.code {
                    "BUSY" => Duration::from_secs(10 * u64::from(attempt)),
                    _ => Duration::from_secs(3600),
                }
            });
    let workflow = Workflow::builder("patient")
        .step("call", |context: Context| async move {
            match context.attempt {
                1 | 2 => Err(ActionError::retriable("BUSY", "later")),
                3 => Err(ActionError::retriable("AWAY", "much later")),
                attempt => Ok(attempt),
            }
        })
        .retry(retry)
        .build()
        .expect("built");
    let engine = TestEngine::builder().workflow(&workflow).open();
    let run = engine.run(&workflow, ());
    run.assert_succeeded();
    let attempts = run.history("call");
    let waited: Vec<i64> = attempts
        .windows(2)
        .map(|pair| {
            let (one, next) = (pair[0].ended_at, pair[1].started_at);
            (next.expect("started").0 - one.expect("ended").0) / 1000
        })
        .collect();
    // The longest delay of the policy still holds.
    assert_eq!(waited, [10, 20, 60]);
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    let frozen = {
        let mut graph = Graph::builder();
        let retry = Retry::attempts(2).custom(|_, _| Duration::ZERO);
        graph.node("a", "core.echo", ()).retry(retry);
        graph.freeze().expect_err("a graph has no code")
    };
    assert!(frozen.to_string().contains("retry strategy"), "{frozen}");
}

#[tokio::test]
async fn loops_have_closures_for_bodies() {
    let calls = Arc::new(Mutex::new(Vec::<String>::new()));
    let note = |calls: &Arc<Mutex<Vec<String>>>| {
        let calls = Arc::clone(calls);
        move |context: &Context| {
            let mut calls = calls.lock().expect("no call panics");
            calls.push(context.node.to_string());
        }
    };
    let (doubled, added, asked, turned) = (note(&calls), note(&calls), note(&calls), note(&calls));
    let workflow = Workflow::builder("loops")
        .step(
            "each",
            for_each("{{ trigger.items }}", |body| {
                body.step("double", move |context: Context, item: u32| {
                    doubled(&context);
                    async move { Ok(item * 2) }
                })
                .step("plus", move |context: Context| {
                    added(&context);
                    async move { Ok(context.output::<u32>("double").await? + 1) }
                })
            })
            .max_concurrency(1),
        )
        .step(
            "poll",
            retry_until(3, |body| {
                body.step("ask", move |context: Context| {
                    asked(&context);
                    async move { Ok(context.node.contains("[2]")) }
                })
            })
            .until("last")
            .backoff(Retry::attempts(1).every(Duration::ZERO)),
        )
        .step(
            "count",
            while_("iteration < 2", |body| {
                body.step("turn", move |context: Context| {
                    turned(&context);
                    async move { Ok(context.node.to_string()) }
                })
            }),
        )
        .build()
        .expect("built");
    let engine = Engine::in_memory().workflow(&workflow).open().await;
    let engine = engine.expect("open");
    let run = engine.start(&workflow, json!({ "items": [1, 2, 3] })).await;
    let run = run.expect("started");
    assert_eq!(run.wait().await.expect("ended"), RunStatus::Succeeded);
    let output = async |node: &str| run.output_of::<Value>(node).await.expect("an output");
    assert_eq!(output("each").await, json!([3, 5, 7]));
    assert_eq!(output("poll").await, json!(true));
    let count = output("count").await;
    assert_eq!(count["iterations"], 2);
    assert_eq!(count["last"], "count[1]/turn", "{count}");
    assert_eq!(workflow.action_of("each"), None);
    let calls = calls.lock().expect("no call panics");
    assert_eq!(
        *calls,
        [
            "each[0]/double",
            "each[0]/plus",
            "each[1]/double",
            "each[1]/plus",
            "each[2]/double",
            "each[2]/plus",
            "poll[0]/ask",
            "poll[1]/ask",
            "poll[2]/ask",
            "count[0]/turn",
            "count[1]/turn",
        ]
    );
}

#[tokio::test]
async fn a_child_whose_parent_has_ended_is_not_tried_again() {
    let child = Workflow::builder("charge")
        .step("pay", |_: Context| async move {
            Err::<(), _>(ActionError::failed("NO_FUNDS", "the account is empty"))
        })
        .build()
        .expect("built");
    let parent = Workflow::builder("order")
        .step("call", subworkflow("charge", ()).expect("JSON"))
        .build()
        .expect("built");
    let engine = Engine::in_memory().workflow(&child).workflow(&parent);
    let engine = engine.open().await.expect("open");
    let run = engine.start(&parent, ()).await.expect("started");
    assert_eq!(run.wait().await.expect("ended"), RunStatus::Failed);
    let children = RunFilter {
        parent: Some(run.id()),
        ..RunFilter::default()
    };
    let children = engine.list(&children).await.expect("a list");
    let child = engine.find(children.rows[0].run).await.expect("a child");
    let refused = child.reattempt(["pay"]).await.expect_err("it is refused");
    assert!(
        matches!(refused, CommandError::ParentEnded { parent, .. } if parent == run.id()),
        "{refused}"
    );
    run.reattempt(["call"]).await.expect("the parent may");
}

#[tokio::test]
async fn a_closure_reports_links_metadata_and_that_there_was_nothing_to_do() {
    let workflow = Workflow::builder("reports")
        .step("make", |context: Context| async move {
            context.meta(&json!({ "took": "long" }));
            context.link(ResourceLink {
                system: "shop".into(),
                kind: "order".into(),
                id: "7".into(),
                url: None,
            });
            Ok("made")
        })
        .task("idle", |_: Context| async move {
            Err::<(), _>(ActionError::skipped())
        })
        .build()
        .expect("built");
    let engine = Engine::in_memory().workflow(&workflow).open().await;
    let engine = engine.expect("open");
    let run = engine.start(&workflow, ()).await.expect("started");
    assert_eq!(run.wait().await.expect("ended"), RunStatus::Succeeded);
    let history = run.history("make").await.expect("read");
    assert_eq!(history[0].meta, json!({ "took": "long" }));
    let idle = run.node("idle").await.expect("read").status;
    assert_eq!(idle, NodeStatus::Skipped);
    let options = windlass_engine::view::Options {
        resources: true,
        ..Default::default()
    };
    let mut text = Vec::new();
    let inner = engine.inner();
    windlass_engine::view::write(
        &**inner.store(),
        inner.plans(),
        run.id(),
        &options,
        &mut text,
    )
    .expect("written");
    let json: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(json["resources"][0]["id"], "7");
    assert_eq!(json["resources"][0]["attempt"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_shown_running_as_soon_as_a_worker_has_it() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, waits) = (Arc::clone(&begun), Arc::clone(&go));
    let workflow = Workflow::builder("slow")
        .step("work", move |_: Context| {
            let (told, waits) = (Arc::clone(&told), Arc::clone(&waits));
            async move {
                told.notify_one();
                waits.notified().await;
                Ok(())
            }
        })
        .build()
        .expect("built");
    let engine = Engine::in_memory().workflow(&workflow).open().await;
    let engine = engine.expect("open");
    let run = engine.start(&workflow, ()).await.expect("started");
    begun.notified().await;
    let inner = engine.inner();
    let records = inner.store().head(run.id()).await.expect("a head").sequence;
    let node = run.node("work").await.expect("the node");
    assert_eq!(node.status, NodeStatus::Running);
    assert!(node.started_at.is_some());
    // No record says so, unless the attempt has taken long meanwhile.
    let log = inner.load(run.id()).expect("a log").run;
    let recorded = log.node_status(log.resolve("work").expect("the node"));
    let grown = inner.store().head(run.id()).await.expect("a head").sequence > records;
    assert!(recorded == NodeStatus::Queued || grown || recorded == NodeStatus::Running);
    go.notify_one();
    assert_eq!(run.wait().await.expect("ended"), RunStatus::Succeeded);
}

#[tokio::test]
async fn runs_are_listed_followed_explained_and_forked() {
    let workflow = Workflow::builder("steps")
        .step("first", "core.echo")
        .name("First step")
        .step("second", |_: Context, trigger: Value| async move {
            match trigger["good"].as_bool() {
                Some(true) => Ok("good"),
                _ => Err(ActionError::failed("BAD", "it is not good")),
            }
        })
        .build()
        .expect("built");
    let engine = Engine::in_memory().workflow(&workflow).open().await;
    let engine = engine.expect("open");
    let run = engine.start(&workflow, json!({ "good": false })).await;
    let run = run.expect("started");
    run.wait().await.expect("ended");
    let error = run.result().await.expect_err("it failed");
    assert!(
        error.to_string().contains("second: BAD: it is not good"),
        "{error}"
    );
    let failed = RunFilter {
        statuses: vec![RunStatus::Failed],
        ..RunFilter::default()
    };
    let page = engine.list(&failed).await.expect("a list");
    assert_eq!(page.rows[0].run, run.id());
    let why = run.why(Some("second")).await.expect("an answer");
    assert!(
        why.nodes[0].reason.contains("BAD"),
        "{}",
        why.nodes[0].reason
    );
    let mut kinds = Vec::new();
    let mut events = run.events();
    while let Some(event) = events.next().await {
        let event = event.expect("an event");
        if event.node.as_deref() == Some("first") {
            assert_eq!(event.name.as_deref(), Some("First step"));
        }
        kinds.push(event.kind);
    }
    assert_eq!(kinds.first(), Some(&"RunQueued"));
    assert_eq!(kinds.last(), Some(&"RunFinished"));
    let fork = run.fork(["second"]).set("trigger.good", true).start().await;
    let fork = fork.expect("a fork");
    assert_eq!(fork.result().await.expect("a result"), "good");
    let by_name = run.fork(["First step"]).set("trigger.good", true);
    let by_name = by_name.start().await.expect("a fork");
    assert_eq!(by_name.result().await.expect("a result"), "good");
}

#[tokio::test]
async fn a_graph_is_frozen_exported_changed_and_imported() {
    let mut graph = Graph::builder();
    graph.node("fetch", "core.echo", json!({ "n": 1 }));
    graph.node("post", "core.fail", json!({ "code": "CLOSED" }));
    let at = windlass::Millis(1_700_000_000_000);
    let frozen = graph.freeze_at(at).expect("frozen");
    let engine = Engine::in_memory().open().await.expect("open");
    let run = engine.start(&frozen, ()).await.expect("started");
    assert_eq!(run.wait().await.expect("ended"), RunStatus::Failed);
    let exported = run.export().await.expect("a graph");
    assert_eq!(exported.frozen_at(), at.to_string());
    assert_eq!(exported.signature(), frozen.signature());
    let mut json: Value = serde_json::from_str(&exported.to_json()).expect("JSON");
    let post = exported.ids_of("post")[0].to_owned();
    json["nodes"][&post]["actionType"] = json!("core.echo");
    let changed = FrozenGraph::from_json(&json.to_string()).expect("the signature still fits");
    run.import(&changed).await.expect("imported");
    assert_eq!(run.status().await.expect("read"), RunStatus::Failed);
    run.reattempt(["post"]).await.expect("by name");
    assert_eq!(run.wait().await.expect("ended"), RunStatus::Succeeded);
    json["nodes"][&post]["dependsOn"] = json!([]);
    let wrong = run
        .import_json(&json.to_string())
        .await
        .expect_err("signed");
    assert!(wrong.to_string().contains("was changed"), "{wrong}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_workflows_that_an_engine_lacks_are_left_alone_though_signalled() {
    let folder = tempfile::tempdir().expect("a folder");
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let workflow = Workflow::builder("sleeper")
        .step("wait", wait_for_signal("go", None))
        .step("after", move |_: Context| {
            let calls = counted.fetch_add(1, Ordering::SeqCst);
            async move { Ok(calls) }
        })
        .build()
        .expect("built");
    let engine = Engine::embedded(folder.path()).workflow(&workflow);
    let engine = engine.open().await.expect("open");
    let run = engine.start(&workflow, ()).await.expect("started");
    let id = run.id();
    while run.node("wait").await.expect("read").status != NodeStatus::Waiting {
        tokio::task::yield_now().await;
    }
    engine.shutdown().await;

    // The handles of the first engine still live: the folder is free.
    let other = Engine::embedded(folder.path()).open().await.expect("free");
    let left: Vec<_> = other.recovery().left.iter().map(|left| left.0).collect();
    assert_eq!(left, [id]);
    let there = other.find(id).await.expect("found");
    there.signal("go", ()).await.expect("kept");
    let node = loop {
        let node = there.node("after").await.expect("read");
        if node.status != NodeStatus::Pending {
            break node;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(node.status, NodeStatus::Queued);
    other.shutdown().await;
    assert!(there.pause().await.is_err(), "it has stopped");

    let engine = Engine::embedded(folder.path()).workflow(&workflow);
    let engine = engine.open().await.expect("open");
    let run = engine.find(id).await.expect("found");
    assert_eq!(run.wait().await.expect("ended"), RunStatus::Succeeded);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    engine.shutdown().await;
}
