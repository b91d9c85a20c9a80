//! What is logged of an engine's runs, and that nothing says a secret.

#![allow(
    clippy::unwrap_used,
    reason = "a test has nothing better to do than to stop"
)]

mod world;

use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;
use windlass_core::{RunId, RunStatus};
use windlass_telemetry::{Format, HttpExchange, LogOptions, LogSink, Telemetry, TelemetryOptions};
use windlass_test_support::collector::HttpCollector;
use world::{SECRET, World};

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A program has one log; all tests here share it.
fn logs() -> &'static (Telemetry, Written) {
    static LOGS: OnceLock<(Telemetry, Written)> = OnceLock::new();
    LOGS.get_or_init(|| {
        let written = Written::default();
        let options = LogOptions {
            format: Format::Json,
            sink: LogSink::Writer(Box::new(written.clone())),
            ..LogOptions::with_level("trace").unwrap()
        };
        let telemetry = world::started(TelemetryOptions {
            logs: Some(options),
            ..TelemetryOptions::default()
        });
        (telemetry, written)
    })
}

async fn all_text() -> String {
    let (telemetry, written) = logs();
    telemetry.shutdown().await;
    String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
}

async fn lines_of(run: RunId) -> Vec<Value> {
    let run = run.to_string();
    all_text()
        .await
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a JSON object a line"))
        .filter(|line| line["executionId"] == run.as_str())
        .collect()
}

const SHAKY: &str = r#"{ "id": "shaky", "nodes": [
    { "id": "n", "actionType": "core.fail",
      "parameters": { "retriable": true, "code": "SHAKEN", "message": "it shook" },
      "policies": { "retry": { "maxAttempts": 2, "baseDelayMs": 1, "jitter": false } } } ] }"#;

#[tokio::test]
async fn a_line_says_what_it_is_about() {
    let world = World::new(logs().0.clone());
    let mut request = world.publish(SHAKY).await;
    request.request.correlation_id = Some("order-17".into());
    let run = world.start(&request).await;
    assert_eq!(world.engine.wait(run).await.unwrap(), RunStatus::Failed);
    let lines = lines_of(run).await;
    let messages: Vec<_> = lines
        .iter()
        .map(|line| {
            (
                line["level"].as_str().unwrap(),
                line["message"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("INFO", "run began"),
        ("WARN", "attempt failed, another follows"),
        ("WARN", "attempt failed"),
        ("WARN", "run finished"),
    ];
    assert_eq!(messages, expected);
    for line in &lines {
        assert_eq!(line["correlationId"], "order-17");
        assert_eq!(line["workflowId"], "shaky");
        assert_eq!(line["version"], 1);
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }
    assert!(lines[0].get("nodeId").is_none(), "absent keys are left out");
    assert!(lines[0].get("code").is_none());
    let second = &lines[2];
    assert_eq!(second["nodeId"], "n");
    assert_eq!(second["actionType"], "core.fail");
    assert_eq!(second["attempt"], 2);
    assert_eq!(second["code"], "SHAKEN");
    assert_eq!(second["error"], "it shook");
    assert_eq!(lines[3]["status"], "Failed");
    assert_eq!(lines[3]["code"], "NODE_FAILED");
}

#[tokio::test]
async fn requests_are_logged_by_how_they_went() {
    let (telemetry, _) = logs();
    for status in [200, 404, 500] {
        telemetry.http(&HttpExchange {
            route: "/api/v1/things",
            method: "GET",
            status,
            took: std::time::Duration::from_micros(1500),
            correlation_id: Some("request-9"),
        });
    }
    let text = all_text().await;
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["correlationId"] == "request-9");
    let levels: Vec<_> = lines
        .map(|line| {
            (
                line["level"].clone(),
                line["status"].clone(),
                line["durationUs"].clone(),
            )
        })
        .collect();
    let expected = [("DEBUG", 200), ("INFO", 404), ("ERROR", 500)];
    let expected = expected.map(|(level, status)| (level.into(), status.into(), 1500.into()));
    assert_eq!(levels, expected);
}

/// Every form in which a text could have been printed.
fn forms(secret: &str) -> Vec<String> {
    let quoted = Value::String(secret.to_owned()).to_string();
    let inside = quoted[1..quoted.len() - 1].to_owned();
    vec![secret.to_owned(), inside, "hunter2".to_owned()]
}

#[tokio::test]
async fn no_secret_reaches_a_log_a_trace_or_a_metric() {
    logs();
    let collector = HttpCollector::start(&[]);
    let world = World::new(world::sends_to(&collector));
    let closed = "http://127.0.0.1:9/{{ secrets.key }}";
    let text = r#"{ "id": "secretive", "nodes": [
        { "id": "fails", "actionType": "core.fail",
          "parameters": { "code": "{{ secrets.key }}", "message": "it was {{ secrets.key }}" } },
        { "id": "calls", "actionType": "http.request",
          "parameters": { "url": "CLOSED", "headers": { "authorization": "{{ secrets.key }}" } } },
        { "id": "echoes", "actionType": "core.echo", "parameters": { "s": "{{ secrets.key }}" } } ] }"#;
    let (run, status) = world.run(&text.replace("CLOSED", closed)).await;
    assert_eq!(status, RunStatus::Failed);
    world.telemetry.shutdown().await;
    let lines = lines_of(run).await;
    let failed: Vec<_> = lines
        .iter()
        .filter(|line| line["nodeId"] == "fails")
        .collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["error"], "it was [redacted]");
    let spans = collector.spans();
    assert_eq!(spans.len(), 4, "{spans:#?}");
    let bodies = collector.requests().into_iter();
    let sent: Vec<u8> = bodies.flat_map(|request| request.body).collect();
    // Protobuf has texts as they are, between bytes that are none.
    let sent = String::from_utf8_lossy(&sent);
    assert!(sent.contains("[redacted]"));
    let (logged, page) = (all_text().await, world.telemetry.render());
    for form in forms(SECRET) {
        assert!(!logged.contains(&form), "in the log: {form}");
        assert!(!sent.contains(&form), "in a trace: {form}");
        assert!(!page.contains(&form), "in the metrics: {form}");
    }
}
