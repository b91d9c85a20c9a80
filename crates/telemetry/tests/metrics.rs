//! What is counted of an engine's runs, and the dashboard that shows it.

#![allow(
    clippy::unwrap_used,
    reason = "a test has nothing better to do than to stop"
)]

mod world;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use windlass_core::RunStatus;
use windlass_core::run::RunSummary;
use windlass_engine::{EngineEvent, FinishedAttempt, Observer};
use windlass_telemetry::{Gauge, HttpExchange, TelemetryOptions};
use windlass_test_support::promtool;
use world::{World, metrics_alone, sample, started};

const DASHBOARD: &str = include_str!("../../../deploy/grafana/windlass.json");

const BUSY: &str = r#"{ "id": "busy", "nodes": [
    { "id": "a", "actionType": "core.echo" },
    { "id": "b", "actionType": "core.fail", "parameters": { "retriable": true, "untilAttempt": 3 },
      "dependsOn": ["a"],
      "policies": { "retry": { "maxAttempts": 3, "baseDelayMs": 1, "jitter": false } } },
    { "id": "c", "actionType": "core.echo", "dependsOn": ["a"] } ] }"#;

const FAILS: &str = r#"{ "id": "fails", "nodes": [{ "id": "n", "actionType": "core.fail" }] }"#;

async fn busy_world() -> World {
    let telemetry = metrics_alone();
    telemetry.gauge(Gauge::QueueDepth, || 7);
    telemetry.http(&HttpExchange {
        route: "/api/v1/executions/{id}",
        method: "GET",
        status: 200,
        took: Duration::from_millis(3),
        correlation_id: None,
    });
    telemetry.commits()(Duration::from_millis(2));
    let world = World::new(telemetry);
    assert_eq!(world.run(BUSY).await.1, RunStatus::Succeeded);
    assert_eq!(world.run(FAILS).await.1, RunStatus::Failed);
    world
}

#[tokio::test]
async fn runs_and_attempts_are_counted() {
    let world = busy_world().await;
    let page = world.telemetry.render();
    for (series, expected) in [
        ("windlass_workflow_started_total{workflowId=\"busy\"}", 1.0),
        ("workflow_success_total{workflowId=\"busy\"}", 1.0),
        ("workflow_failure_total{workflowId=\"busy\"}", 0.0),
        ("workflow_failure_total{workflowId=\"fails\"}", 1.0),
        (
            "workflow_duration_seconds_count{workflowId=\"busy\",status=\"Succeeded\"}",
            1.0,
        ),
        (
            "workflow_duration_seconds_bucket{le=\"+Inf\",workflowId=\"fails\",status=\"Failed\"}",
            1.0,
        ),
        (
            "windlass_action_executed_total{actionType=\"core.echo\"}",
            2.0,
        ),
        (
            "windlass_action_executed_total{actionType=\"core.fail\"}",
            4.0,
        ),
        (
            "windlass_action_failed_total{actionType=\"core.fail\"}",
            3.0,
        ),
        (
            "windlass_action_failed_total{actionType=\"core.echo\"}",
            0.0,
        ),
        ("action_retry_total{actionType=\"core.fail\"}", 2.0),
        (
            "action_duration_seconds_count{actionType=\"core.fail\"}",
            4.0,
        ),
        ("windlass_dag_levels_executed_total", 3.0),
        ("queue_depth", 7.0),
        ("windlass_parallel_actions", 0.0),
        ("dead_letters", 0.0),
        ("windlass_store_commit_seconds_count", 1.0),
        ("windlass_store_commit_seconds_bucket{le=\"0.0025\"}", 1.0),
        (
            "windlass_http_requests_total{route=\"/api/v1/executions/{id}\",method=\"GET\",status=\"200\"}",
            1.0,
        ),
        (
            "windlass_http_request_duration_seconds_count{route=\"/api/v1/executions/{id}\"}",
            1.0,
        ),
    ] {
        assert_eq!(sample(&page, series), Some(expected), "{series}\n{page}");
    }
    assert!(sample(&page, "windlass_store_append_seconds_count").unwrap() > 0.0);
}

#[tokio::test]
async fn labels_are_bounded_and_name_no_tenant() {
    // An option decides whether the page names the workflows of tenants.
    for (name_tenants, series, count) in [(true, "other", 3.0), (false, "(tenants)", 5.0)] {
        let page = page_of_tenants(name_tenants).await;
        let series = format!("windlass_workflow_started_total{{workflowId=\"{series}\"}}");
        assert_eq!(sample(&page, &series), Some(count), "{page}");
        assert!(!page.contains("tenant-"), "{page}");
        assert_eq!(page.contains("\"w0\""), name_tenants, "{page}");
    }
}

/// The page after runs of five workflows, each of a tenant of its own.
async fn page_of_tenants(name_tenants: bool) -> String {
    let telemetry = started(TelemetryOptions {
        label_limit: 2,
        name_tenants,
        ..TelemetryOptions::default()
    });
    let world = World::new(telemetry);
    for number in 0..5 {
        let text = format!(
            r#"{{ "id": "w{number}", "nodes": [{{ "id": "n", "actionType": "core.echo" }}] }}"#
        );
        let mut request = world.publish(&text).await;
        request.request.tenant = Some(format!("tenant-{number}").into());
        let run = world.start(&request).await;
        world.engine.wait(run).await.unwrap();
    }
    world.telemetry.render()
}

#[tokio::test]
async fn promtool_finds_nothing_wrong_with_the_page() {
    let page = busy_world().await.telemetry.render();
    // The labels `workflowId` and `actionType` are named as in the API.
    let findings = promtool::findings(&page);
    let named = |finding: &&String| !finding.ends_with("'camelCase'");
    assert_eq!(
        findings.iter().filter(named).collect::<Vec<_>>(),
        [] as [&String; 0]
    );
    // It sees what is wrong: a counter without its suffix.
    let wrong = "# HELP wrong Things.\n# TYPE wrong counter\nwrong 1\n";
    assert!(!promtool::findings(wrong).is_empty());
}

/// Keeps the last attempt and run that an engine tells of.
#[derive(Default)]
struct RecordingObserver {
    attempt: Mutex<Option<FinishedAttempt>>,
    about: Mutex<Option<RunSummary>>,
}

impl Observer for RecordingObserver {
    fn observe(&self, event: &EngineEvent<'_>) {
        match event {
            EngineEvent::Ended { attempt } => {
                *self.attempt.lock().unwrap() = Some((*attempt).clone());
            }
            EngineEvent::Finished { about, .. } => {
                *self.about.lock().unwrap() = Some((*about).clone())
            }
            _ => {}
        }
    }
}

/// An attempt and a run as an engine tells of them.
async fn told() -> (FinishedAttempt, RunSummary) {
    let told = Arc::new(RecordingObserver::default());
    let world = World::watched(metrics_alone(), told.clone());
    world.run(BUSY).await;
    let attempt = told.attempt.lock().unwrap().clone().expect("an attempt");
    let about = told.about.lock().unwrap().clone().expect("a run");
    (attempt, about)
}

/// Names of 128 bytes, as long as a name may be, and all different.
fn long_name(number: usize) -> String {
    format!("n{number:0>127}")
}

#[tokio::test]
async fn a_hundred_thousand_names_make_a_page_of_bounded_size() {
    let telemetry = started(TelemetryOptions {
        name_tenants: true,
        actions: Some(["core.echo".into()].into()),
        ..TelemetryOptions::default()
    });
    let observer = telemetry.observer();
    let (attempt, about) = told().await;
    for number in 0..100_000 {
        let name = long_name(number);
        let mut attempt = attempt.clone();
        attempt.action = name.as_str().into();
        observer.observe(&EngineEvent::Ended { attempt: &attempt });
        let mut about = about.clone();
        let mut queued = (*about.queued).clone();
        queued.workflow = name.as_str().into();
        queued.tenant = Some(name.as_str().into());
        about.queued = queued.into();
        let recovered = false;
        observer.observe(&EngineEvent::Began {
            about: &about,
            recovered,
        });
        for status in [
            RunStatus::Succeeded,
            RunStatus::Failed,
            RunStatus::Cancelled,
        ] {
            let (run, about) = (about.run, &about);
            observer.observe(&EngineEvent::Finished { run, status, about });
        }
        telemetry.http(&HttpExchange {
            route: &name,
            method: &name,
            status: (number % 65_536) as u16,
            took: Duration::from_millis(3),
            correlation_id: Some(&name),
        });
    }
    let mut attempt = attempt;
    attempt.action = "core.echo".into();
    observer.observe(&EngineEvent::Ended { attempt: &attempt });
    let page = telemetry.render();
    assert!(page.len() < 2 * 1024 * 1024, "{} bytes", page.len());
    let series = "windlass_action_executed_total{actionType=\"core.echo\"}";
    assert!(
        sample(&page, series) >= Some(1.0),
        "the registry keeps its place"
    );
    let series = "windlass_action_executed_total{actionType=\"other\"}";
    assert_eq!(sample(&page, series), Some(100_000.0));
}

/// Names of metrics in an expression: what looks like one and is not a function or label.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    let name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    expression
        .split(|letter| !name(letter))
        .filter(|word| {
            let prefixes = [
                "workflow_",
                "action_",
                "queue_",
                "dead_letters",
                "windlass_",
            ];
            prefixes.iter().any(|prefix| word.starts_with(prefix))
        })
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn the_dashboard_and_the_page_know_the_same_metrics() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut shown = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            shown.extend(metrics_in(target["expr"].as_str().expect("an expression")));
        }
    }
    let page = busy_world().await.telemetry.render();
    let samples: BTreeSet<&str> = page
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    for metric in &shown {
        assert!(
            samples.contains(metric.as_str()),
            "{metric} is not on the page"
        );
    }
    let families = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for family in families.filter_map(|line| line.split(' ').next()) {
        let is_shown = shown.iter().any(|metric| metric.starts_with(family));
        assert!(is_shown, "{family} is not on the dashboard");
    }
}
