//! What a server tells of itself: spans to a collector, as OpenTelemetry's standard variables
//! say, and a metrics page that Prometheus' own tool accepts.

use serde_json::json;
use windlass_test_support::collector::{CollectedSpan, GrpcCollector, HttpCollector};
use windlass_test_support::process::World;
use windlass_test_support::promtool;

const ECHO: &str = r#"{ "id": "echo", "nodes": [{ "id": "say", "actionType": "core.echo" }] }"#;

/// Runs a workflow on a server with these variables, until the server has stopped; gives the
/// run.
fn served(variables: &[(&str, &str)]) -> String {
    let world = World::new();
    let server = world.serve_with(&[], variables);
    let client = server.client();
    client.publish(ECHO);
    let run = client.execute("echo", &json!({}));
    client.ended(&run);
    server.stop();
    run
}

/// The variables of both tests below: a name that wins, attributes and headers.
fn with_common<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let common = [
        ("OTEL_SERVICE_NAME", "orders"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=other,deployment.environment.name=test",
        ),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=one%20two"),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
    ];
    common.iter().chain(more).copied().collect()
}

#[track_caller]
fn assert_spans(spans: &[CollectedSpan], run: &str) {
    assert_eq!(spans.len(), 2, "{spans:#?}");
    for span in spans {
        assert_eq!(span.tags["executionId"], run);
        assert_eq!(span.resource["service.name"], "orders");
        assert_eq!(span.resource["deployment.environment.name"], "test");
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(span.resource["service.version"], version);
    }
    let names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["core.echo", "run echo"]);
}

#[test]
fn standard_variables_send_spans_over_http() {
    let collector = HttpCollector::start(&[]);
    let run = served(&with_common(&[(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        &collector.address,
    )]));
    assert_spans(&collector.spans(), &run);
    for request in collector.requests() {
        assert_eq!(request.path, "/v1/traces");
        assert_eq!(request.header("x-key"), "one two");
    }
}

#[test]
fn standard_variables_send_spans_over_grpc() {
    let collector = GrpcCollector::start();
    let run = served(&with_common(&[
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &collector.address),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
    ]));
    assert_spans(&collector.spans(), &run);
    for metadata in collector.metadata() {
        assert_eq!(metadata["x-key"], "one two");
    }
}

#[test]
fn spans_go_over_tls_to_a_grpc_collector_that_is_trusted_and_to_no_other() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let collector = GrpcCollector::start_tls(&certificate, &key);
    let folder = tempfile::tempdir().expect("a folder");
    let trusted = folder.path().join("trusted.pem");
    std::fs::write(&trusted, certificate).expect("a file");
    let trusted = trusted.to_str().expect("text");
    let variables = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &*collector.address),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "500"),
    ];
    // Without the certificate among the trusted ones, no span and no key leaves; the run ends.
    served(&with_common(&variables));
    assert!(collector.spans().is_empty() && collector.metadata().is_empty());
    let trusting = [&variables[..2], &[("SSL_CERT_FILE", trusted)]].concat();
    let run = served(&with_common(&trusting));
    assert_spans(&collector.spans(), &run);
    for metadata in collector.metadata() {
        assert_eq!(metadata["x-key"], "one two");
    }
}

#[test]
fn the_setting_wins_over_the_variables_and_a_variable_turns_traces_off() {
    let (named, other) = (HttpCollector::start(&[]), HttpCollector::start(&[]));
    let both = [
        ("WINDLASS_OTLP_ENDPOINT", &*named.address),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*other.address),
    ];
    served(&both);
    assert_eq!((named.spans().len(), other.requests().len()), (2, 0));
    served(&[both[0], both[1], ("OTEL_SDK_DISABLED", "true")]);
    assert_eq!((named.spans().len(), other.requests().len()), (2, 0));
}

#[test]
fn a_server_refuses_variables_that_it_cannot_use() {
    let world = World::new();
    for (variable, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "no address"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
    ] {
        let mut command = world.command(&["serve", "--listen", "127.0.0.1:0"]);
        command
            .env("OTEL_TRACES_EXPORTER", "otlp")
            .env(variable, value);
        let ended = windlass_test_support::process::ended(command);
        ended.failed(2, "SETTING_INVALID");
        assert!(ended.stderr.contains(variable), "{}", ended.stderr);
    }
}

#[test]
fn promtool_finds_nothing_wrong_with_the_page_of_a_server() {
    let world = World::new();
    world.token("user", None, "admin");
    let server = world.serve_with(&["--auth-keys", "keys.json"], &[]);
    let client = server.client();
    let page = client.get("/metrics").expect(200);
    let page = String::from_utf8(page.body).expect("text");
    for metric in [
        "# HELP windlass_http_connections ",
        "# HELP windlass_http_bodies_refused_total ",
        "# HELP windlass_auth_keys_age_seconds ",
        "# HELP queue_depth ",
    ] {
        assert!(page.contains(metric), "{metric}\n{page}");
    }
    // The labels `workflowId` and `actionType` are named as in the API.
    let findings = promtool::findings(&page);
    let others = findings.iter().filter(|it| !it.ends_with("'camelCase'"));
    assert_eq!(others.collect::<Vec<_>>(), [] as [&String; 0]);
    server.stop();
}
