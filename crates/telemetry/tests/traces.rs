//! What a collector gets of an engine's runs.

#![allow(
    clippy::unwrap_used,
    reason = "a test has nothing better to do than to stop"
)]

mod world;

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::command::RunCommand;
use windlass_core::event::Actor;
use windlass_core::trace::{SpanId, TraceParent};
use windlass_core::{RunId, RunStatus};
use windlass_telemetry::{Protocol, TelemetryOptions, TraceOptions};
use windlass_test_support::collector::{CollectedSpan, GrpcCollector, HttpCollector};
use world::{World, metrics_alone, sample, sends_to, started, traces_to};

const ASKED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const RETRIED: &str = r#"{ "id": "retried", "nodes": [
    { "id": "shaky", "actionType": "core.fail", "parameters": { "retriable": true, "untilAttempt": 2 },
      "policies": { "retry": { "maxAttempts": 3, "baseDelayMs": 1, "jitter": false } } },
    { "id": "then", "actionType": "core.echo", "dependsOn": ["shaky"] } ] }"#;

fn by_node(spans: &[CollectedSpan]) -> BTreeMap<(String, String), CollectedSpan> {
    let key = |span: &CollectedSpan| {
        let tag = |name: &str| span.tags.get(name).cloned().unwrap_or_default();
        (tag("nodeId"), tag("attempt"))
    };
    spans.iter().map(|span| (key(span), span.clone())).collect()
}

#[tokio::test]
async fn a_run_and_its_attempts_are_one_tree_in_the_trace_of_the_request() {
    let collector = HttpCollector::start(&[]);
    let world = World::new(sends_to(&collector));
    let mut request = world.publish(RETRIED).await;
    request.request.traceparent = Some(ASKED.into());
    let run = world.start(&request).await;
    assert_eq!(world.engine.wait(run).await.unwrap(), RunStatus::Succeeded);
    world.telemetry.shutdown().await;

    let spans = collector.spans();
    assert_eq!(spans.len(), 4, "{spans:#?}");
    let spans = by_node(&spans);
    let get = |node: &str, attempt: &str| &spans[&(node.to_owned(), attempt.to_owned())];
    let of_run = get("", "");
    assert_eq!(of_run.parent.as_deref(), Some("b7ad6b7169203331"));
    assert_eq!(of_run.id, SpanId::of_run(run).to_string());
    assert_eq!(of_run.name, "run retried");
    assert_eq!(of_run.tags["status"], "Succeeded");
    assert_eq!(of_run.tags["executionId"], run.to_string());
    for span in spans.values() {
        assert_eq!(span.trace, "0af7651916cd43dd8448eb211c80319c");
        assert!(span.start <= span.end && span.start >= of_run.start);
        assert_eq!(span.tags["workflowId"], "retried");
    }
    let (first, second, then) = (get("shaky", "1"), get("shaky", "2"), get("then", "1"));
    let all = [first, second, then];
    assert!(
        all.iter()
            .all(|span| span.parent == Some(of_run.id.clone()))
    );
    assert!(all.iter().all(|span| span.end <= of_run.end));
    let id = SpanId::of_attempt(run, "shaky", 2, false).to_string();
    assert_eq!(second.id, id);
    let tags = |span: &CollectedSpan| {
        let tag = |name: &str| span.tags[name].clone();
        (tag("retry"), tag("willRetry"), tag("status"), span.failed)
    };
    let expected = |retry: &str, again: &str, status: &str, failed| {
        (
            retry.to_owned(),
            again.to_owned(),
            status.to_owned(),
            failed,
        )
    };
    assert_eq!(tags(first), expected("false", "true", "Failed", true));
    assert_eq!(tags(second), expected("true", "false", "Succeeded", false));
    assert_eq!(then.name, "core.echo");
    assert_eq!(then.tags["actionType"], "core.echo");
}

const WAITS: &str = r#"{ "id": "waits", "nodes": [
    { "id": "first", "actionType": "core.echo" },
    { "id": "gate", "waitForSignal": { "name": "go" }, "dependsOn": ["first"] },
    { "id": "last", "actionType": "core.echo", "dependsOn": ["gate"] } ] }"#;

async fn signal(world: &World, run: RunId) {
    let command = RunCommand::Signal { name: "go".into() }
        .by(Actor::default())
        .with("null");
    world.engine.command(run, command).await.expect("taken");
}

#[tokio::test]
async fn a_restart_makes_no_span_twice_and_the_parts_fit() {
    let collector = HttpCollector::start(&[]);
    let world = World::new(sends_to(&collector));
    let request = world.publish(WAITS).await;
    let run = world.start(&request).await;
    // Until it waits for its signal it cannot be in the store as one that does.
    while world.engine.load(run).unwrap().run.status() == RunStatus::Pending
        || world.engine.held().await > 0
    {
        tokio::task::yield_now().await;
    }
    world.engine.shutdown().await;
    world.telemetry.shutdown().await;

    let world = World::on(world.store, sends_to(&collector));
    world.engine.recover_all().await.unwrap();
    signal(&world, run).await;
    assert_eq!(world.engine.wait(run).await.unwrap(), RunStatus::Succeeded);
    world.telemetry.shutdown().await;

    let spans = collector.spans();
    let ids: BTreeSet<_> = spans.iter().map(|span| span.id.clone()).collect();
    assert_eq!((spans.len(), ids.len()), (3, 3), "{spans:#?}");
    let trace = TraceParent::of_run(run, None).trace.to_string();
    assert!(spans.iter().all(|span| span.trace == trace));
    let root: Vec<_> = spans.iter().filter(|span| span.parent.is_none()).collect();
    assert_eq!(root.len(), 1);
    let others = spans.iter().filter(|span| span.parent.is_some());
    assert!(
        others
            .clone()
            .all(|span| span.parent == Some(root[0].id.clone()))
    );
    let nodes: BTreeSet<_> = others.map(|span| span.tags["nodeId"].as_str()).collect();
    assert_eq!(nodes, BTreeSet::from(["first", "last"]));
}

#[tokio::test]
async fn a_run_that_is_opened_again_gets_a_span_below_its_first() {
    let collector = HttpCollector::start(&[]);
    let world = World::new(sends_to(&collector));
    let (run, status) = world
        .run(r#"{ "id": "fails", "nodes": [{ "id": "n", "actionType": "core.fail" }] }"#)
        .await;
    assert_eq!(status, RunStatus::Failed);
    let again = RunCommand::Reattempt { nodes: Vec::new() }.by(Actor::default());
    world.engine.command(run, again).await.expect("opened");
    world.engine.wait(run).await.expect("ended again");
    world.telemetry.shutdown().await;
    let spans = collector.spans();
    let ids: BTreeSet<_> = spans.iter().map(|span| span.id.clone()).collect();
    assert_eq!((spans.len(), ids.len()), (4, 4), "{spans:#?}");
    let runs: Vec<_> = spans
        .iter()
        .filter(|span| span.name == "run fails")
        .collect();
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().all(|span| span.failed));
    assert_eq!(runs[0].parent, None);
    assert_eq!(runs[1].parent, Some(runs[0].id.clone()));
    let page = world.telemetry.render();
    assert_eq!(
        sample(&page, "windlass_dag_levels_executed_total"),
        Some(1.0)
    );
}

#[tokio::test]
async fn a_child_run_stays_in_the_trace_of_its_parent() {
    let collector = HttpCollector::start(&[]);
    let world = World::new(sends_to(&collector));
    world
        .publish(r#"{ "id": "child", "nodes": [{ "id": "n", "actionType": "core.echo" }] }"#)
        .await;
    let (run, status) = world
        .run(r#"{ "id": "parent", "nodes": [{ "id": "c", "subworkflow": { "workflowId": "child", "input": {} } }] }"#)
        .await;
    assert_eq!(status, RunStatus::Succeeded);
    world.telemetry.shutdown().await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 3, "{spans:#?}");
    let trace = TraceParent::of_run(run, None).trace.to_string();
    assert!(spans.iter().all(|span| span.trace == trace));
    let child = spans.iter().find(|span| span.name == "run child").unwrap();
    assert_eq!(child.parent, Some(SpanId::of_run(run).to_string()));
}

fn calls(address: &str, headers: &str) -> String {
    format!(
        r#"{{ "id": "calls", "nodes": [{{ "id": "call", "actionType": "http.request",
            "parameters": {{ "url": "{address}/called", "headers": {headers} }} }}] }}"#
    )
}

/// The `traceparent` that an action sent, if it sent one.
fn sent(collector: &HttpCollector) -> Option<String> {
    let mut requests = collector.requests().into_iter();
    let request = requests.find(|request| request.path.starts_with("/called"))?;
    request.headers.get("traceparent").cloned()
}

#[tokio::test]
async fn actions_hand_the_attempt_on() {
    let (collector, called) = (HttpCollector::start(&[]), HttpCollector::start(&[]));
    let world = World::new(sends_to(&collector));
    let (run, _) = world.run(&calls(&called.address, "{}")).await;
    let place = TraceParent::of_run(run, None).at(SpanId::of_attempt(run, "call", 1, false));
    assert_eq!(sent(&called), Some(place.to_string()));

    // What the definition says wins.
    let called = HttpCollector::start(&[]);
    let own = r#"{ "TraceParent": "mine" }"#;
    world.run(&calls(&called.address, own)).await;
    assert_eq!(sent(&called).as_deref(), Some("mine"));
}

#[tokio::test]
async fn without_spans_actions_hand_on_what_the_request_said() {
    let called = HttpCollector::start(&[]);
    let world = World::new(metrics_alone());
    let text = calls(&called.address, "{}");
    world.run(&text).await;
    assert_eq!(called.requests().len(), 1);
    assert_eq!(sent(&called), None);

    let called = HttpCollector::start(&[]);
    let mut request = world.publish(&calls(&called.address, "{}")).await;
    request.request.traceparent = Some(ASKED.into());
    let run = world.start(&request).await;
    world.engine.wait(run).await.unwrap();
    assert_eq!(sent(&called).as_deref(), Some(ASKED));
}

#[tokio::test]
async fn a_request_that_is_not_sampled_makes_no_spans() {
    let collector = HttpCollector::start(&[]);
    let world = World::new(sends_to(&collector));
    let mut request = world.publish(RETRIED).await;
    request.request.traceparent = Some(format!("{}00", &ASKED[..53]).into());
    let run = world.start(&request).await;
    world.engine.wait(run).await.unwrap();
    world.telemetry.shutdown().await;
    assert_eq!(collector.spans().len(), 0);
}

const ONE: &str = r#"{ "id": "one", "nodes": [{ "id": "n", "actionType": "core.echo" }] }"#;

#[tokio::test]
async fn a_collector_that_is_busy_is_asked_again() {
    let collector = HttpCollector::start(&[503, 200]);
    let world = World::new(sends_to(&collector));
    world.run(ONE).await;
    world.telemetry.shutdown().await;
    let requests = collector.requests().into_iter();
    let requests = requests.map(|it| (it.method, it.path, it.headers, it.body));
    let requests: BTreeSet<_> = requests.collect();
    assert_eq!(collector.requests().len(), 2);
    assert_eq!(requests.len(), 1, "the same request twice");
    let page = world.telemetry.render();
    assert_eq!(
        sample(&page, "windlass_telemetry_dropped_total{kind=\"span\"}"),
        Some(0.0)
    );
}

#[tokio::test]
async fn what_a_collector_refuses_is_dropped_and_counted() {
    let collector = HttpCollector::start(&[400]);
    let world = World::new(sends_to(&collector));
    let (_, status) = world.run(ONE).await;
    assert_eq!(status, RunStatus::Succeeded);
    world.telemetry.shutdown().await;
    assert_eq!(collector.requests().len(), 1);
    let page = world.telemetry.render();
    assert_eq!(
        sample(&page, "windlass_telemetry_dropped_total{kind=\"span\"}"),
        Some(2.0)
    );
}

#[tokio::test]
async fn a_full_queue_drops_spans_and_delays_no_run() {
    let collector = HttpCollector::start(&[]);
    let mut traces = traces_to(&collector);
    traces.queue = 2;
    let telemetry = started(TelemetryOptions {
        traces: Some(traces),
        ..TelemetryOptions::default()
    });
    let world = World::new(telemetry);
    let nodes: Vec<String> = (0..100)
        .map(|node| format!(r#"{{ "id": "n{node}", "actionType": "core.echo" }}"#))
        .collect();
    let text = format!(r#"{{ "id": "wide", "nodes": [{}] }}"#, nodes.join(","));
    let (_, status) = world.run(&text).await;
    assert_eq!(status, RunStatus::Succeeded);
    world.telemetry.shutdown().await;
    let page = world.telemetry.render();
    let dropped = sample(&page, "windlass_telemetry_dropped_total{kind=\"span\"}").unwrap();
    assert!(dropped > 0.0);
    assert_eq!(dropped + collector.spans().len() as f64, 101.0);
}

#[tokio::test]
async fn grpc_collectors_decode_the_same_spans() {
    let collector = GrpcCollector::start();
    let mut traces = TraceOptions::new(Some(collector.address.parse().unwrap()));
    traces.protocol = Protocol::Grpc;
    let world = World::new(started(TelemetryOptions {
        traces: Some(traces),
        ..TelemetryOptions::default()
    }));
    let (run, status) = world.run(RETRIED).await;
    assert_eq!(status, RunStatus::Succeeded);
    world.telemetry.shutdown().await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 4, "{spans:#?}");
    let spans = by_node(&spans);
    let of_run = &spans[&(String::new(), String::new())];
    assert_eq!(of_run.id, SpanId::of_run(run).to_string());
    assert_eq!(of_run.resource["service.name"], "windlass");
    assert_eq!(
        of_run.resource["service.version"],
        env!("CARGO_PKG_VERSION")
    );
    let second = &spans[&("shaky".to_owned(), "2".to_owned())];
    let id = SpanId::of_attempt(run, "shaky", 2, false).to_string();
    assert_eq!(
        (second.id.clone(), second.parent.clone()),
        (id, Some(of_run.id.clone()))
    );
    let page = world.telemetry.render();
    let dropped = "windlass_telemetry_dropped_total{kind=\"span\"}";
    assert_eq!(sample(&page, dropped), Some(0.0));
}

#[tokio::test]
async fn an_unreachable_grpc_collector_costs_spans_and_no_run() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let mut traces = TraceOptions::new(Some(address.parse().unwrap()));
    traces.protocol = Protocol::Grpc;
    let world = World::new(started(TelemetryOptions {
        traces: Some(traces),
        ..TelemetryOptions::default()
    }));
    let (_, status) = world.run(ONE).await;
    assert_eq!(status, RunStatus::Succeeded);
    world.telemetry.shutdown().await;
    let page = world.telemetry.render();
    let dropped = "windlass_telemetry_dropped_total{kind=\"span\"}";
    assert_eq!(sample(&page, dropped), Some(2.0));
}
