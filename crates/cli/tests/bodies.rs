//! The server from outside: bodies at their limits and past them, JSON that means harm, and
//! clients that never finish.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;
use windlass_test_support::process::{Client, ECHO, ServerProcess, WAIT, World, serving};

const MIB: usize = 1024 * 1024;

fn started() -> (World, ServerProcess, Client) {
    serving(&[ECHO, WAIT])
}

/// A JSON object of exactly so many bytes.
fn object(bytes: usize) -> String {
    let around = r#"{"x":""}"#.len();
    format!(r#"{{"x":"{}"}}"#, "y".repeat(bytes - around))
}

fn limit(client: &Client, name: &str) -> usize {
    let limits = client.get("/api/v1/limits").expect(200).json();
    let limit = limits[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} in {limits}"));
    usize::try_from(limit).expect("a size")
}

#[test]
fn a_payload_of_ten_mebibytes_works_and_one_byte_more_does_not() {
    let (_world, server, client) = started();
    assert_eq!(limit(&client, "payloadBytes"), 10 * MIB);
    let execute = "/api/v1/workflows/wait/execute";
    let body = |bytes: usize| format!(r#"{{"trigger":{}}}"#, object(bytes));
    let run = client
        .post_text(execute, body(10 * MIB))
        .expect(202)
        .text("executionId");
    client
        .post_text(execute, body(10 * MIB + 1))
        .refused(413, "TRIGGER_TOO_LARGE");
    client.wait_for(&run, "NodeWaiting");
    let signal = format!("/api/v1/executions/{run}/signal");
    let body = |bytes: usize| format!(r#"{{"name":"go","payload":{}}}"#, object(bytes));
    client
        .post_text(&signal, body(10 * MIB + 1))
        .refused(413, "PAYLOAD_TOO_LARGE");
    client.post_text(&signal, body(10 * MIB)).expect(200);
    // Later nodes may fail on such a large payload; only the gate is asserted.
    let ended = client.ended(&run);
    assert_eq!(ended["nodes"]["gate"]["status"], "Succeeded");
    server.stop();
}

/// Says how large the body will be, and sends none of it.
fn announce(client: &Client, path: &str, bytes: usize) -> String {
    let mut stream = client.connect();
    let head = client.head("POST", path);
    let rest = format!("Content-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n");
    stream
        .write_all(format!("{head}{rest}").as_bytes())
        .expect("it is sent");
    let mut answer = vec![0; 4096];
    let read = stream
        .read(&mut answer)
        .expect("an answer without the body");
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

#[test]
fn a_body_past_its_limit_is_refused_unread() {
    let (_world, server, client) = started();
    for (path, limit) in [
        (
            "/api/v1/workflows/echo/execute",
            limit(&client, "valueBodyBytes"),
        ),
        ("/api/v1/workflows", limit(&client, "definitionBodyBytes")),
        (
            "/api/v1/workflows/validate",
            limit(&client, "definitionBodyBytes"),
        ),
        ("/api/v1/executions", limit(&client, "definitionBodyBytes")),
        ("/api/v1/dead-letters", limit(&client, "wordsBodyBytes")),
        ("/api/v1/secrets", limit(&client, "wordsBodyBytes")),
        ("/api/v1/backup", limit(&client, "wordsBodyBytes")),
    ] {
        let answer = announce(&client, path, limit + 1);
        assert!(answer.starts_with("HTTP/1.1 413 "), "{path}: {answer}");
    }
    // One that does not say how large it is, is read so far and no further.
    let path = "/api/v1/dead-letters";
    let mut stream = client.connect();
    let head = client.head("POST", path);
    let rest = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream
        .write_all(format!("{head}{rest}").as_bytes())
        .expect("it is sent");
    let part = format!("{MIB:x}\r\n{}\r\n", " ".repeat(MIB));
    for _ in 0..2 {
        // The server may have hung up by now.
        let _ = stream.write_all(part.as_bytes());
    }
    let mut answer = vec![0; 4096];
    let read = stream.read(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..read]);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    server.stop();
}

#[test]
fn a_definition_past_its_limit_is_refused() {
    let (_world, server, client) = started();
    let most = limit(&client, "definitionBytes");
    let padded = |bytes: usize| {
        let mut text = ECHO.to_owned();
        text.push_str(&" ".repeat(bytes - text.len()));
        text
    };
    client
        .post_text("/api/v1/workflows", padded(most))
        .expect(201);
    let refused = client.post_text("/api/v1/workflows", padded(most + 1));
    assert!(matches!(refused.status, 413 | 422), "{}", refused.head);
    server.stop();
}

#[test]
fn hostile_bodies_are_the_clients_fault() {
    let (_world, server, client) = started();
    let run = client.execute("wait", &json!({}));
    client.wait_for(&run, "NodeWaiting");
    let deep = |inner: &str| format!("{}{}", inner.repeat(200_000), "]".repeat(200_000));
    let texts: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"{".to_vec(),
        b"nul".to_vec(),
        b"[]".to_vec(),
        b"7".to_vec(),
        b"\xff\xfe{}".to_vec(),
        b"{\"trigger\": \"\xc3\x28\"}".to_vec(),
        b"{\"trigger\": \"\\ud800\"}".to_vec(),
        b"{} {}".to_vec(),
        deep("[").into_bytes(),
        format!("{{\"trigger\": {}}}", deep("[")).into_bytes(),
        format!("{{\"payload\": {}, \"name\": \"go\"}}", deep("[")).into_bytes(),
        "{\"a\":".repeat(100_000).into_bytes(),
        br#"{"trigger": 1e999999}"#.to_vec(),
        format!(r#"{{"trigger": {}}}"#, "9".repeat(100_000)).into_bytes(),
        br#"{"priority": 99999999999999999999999}"#.to_vec(),
        br#"{"priority": -1}"#.to_vec(),
        br#"{"trigger": {"a": 1, "a": 2}}"#.to_vec(),
        br#"{"name": "go", "payload": {"a": 1, "a": 2}}"#.to_vec(),
        br#"{"action": "cancel", "filter": []}"#.to_vec(),
        br#"{"requestId": ""}"#.to_vec(),
        br#"{"requestId": "a", "requestId": "b"}"#.to_vec(),
        br#"{"unknown": true}"#.to_vec(),
        br#"{"labels": {"a": {"b": 1}}}"#.to_vec(),
        format!(r#"{{"labels": {{"{}": "x"}}}}"#, "k".repeat(300)).into_bytes(),
        format!(r#"{{"requestId": "{}"}}"#, "r".repeat(600)).into_bytes(),
    ];
    let routes = [
        "/api/v1/workflows/echo/execute".to_owned(),
        "/api/v1/workflows".to_owned(),
        "/api/v1/workflows/validate".to_owned(),
        "/api/v1/workflows/echo/plan".to_owned(),
        "/api/v1/executions".to_owned(),
        "/api/v1/bulk".to_owned(),
        "/api/v1/dead-letters".to_owned(),
        "/api/v1/secrets".to_owned(),
        format!("/api/v1/executions/{run}/signal"),
        format!("/api/v1/executions/{run}/set-result"),
        format!("/api/v1/executions/{run}/fork"),
        format!("/api/v1/executions/{run}/import"),
        format!("/api/v1/executions/{run}/cancel"),
    ];
    for route in &routes {
        for (number, text) in texts.iter().enumerate() {
            // An empty body says nothing, which some routes take for an answer, and
            // validate tells what is wrong with status 200.
            let answer = client.post_text(route, text);
            let shown = String::from_utf8_lossy(&text[..text.len().min(60)]);
            let fine = match answer.status {
                200 => route.ends_with("validate") || number == 0 && route.ends_with("cancel"),
                202 => number == 0 && route.ends_with("execute"),
                status => (400..500).contains(&status),
            };
            assert!(fine, "{route} {shown}: {answer:?}");
        }
    }
    client.get("/health/ready").expect(200);
    server.stop();
}

#[test]
fn hostile_paths_and_headers_are_the_clients_fault() {
    let (_world, server, client) = started();
    for path in [
        "/api/v1/executions/..%2f..%2fetc%2fpasswd",
        "/api/v1/executions/%00",
        "/api/v1/executions/%ff",
        "/api/v1/workflows/%ff",
        "/api/v1/workflows/a%2fb",
        "/api/v1/workflows/%e2%80%ae",
        "/api/v1/executions?limit=99999999999",
        "/api/v1/executions?label=%00%3D%00",
        "/api/v1/executions?from=-9999999999999h",
        "/api/v1/executions?from=99999999999999999999d",
        "/api/v1/executions?prefix=%25",
        "/api/v1/executions?cursor=%00",
        "/api/v1/bulk/%00",
        "/nothing",
    ] {
        let answer = client.get(path);
        assert!((200..500).contains(&answer.status), "{path}: {answer:?}");
        assert!(
            answer.header("x-correlation-id").is_some(),
            "{path}: {answer:?}"
        );
    }
    let long = "x".repeat(100_000);
    let answer = client.get(&format!("/api/v1/workflows/{long}"));
    assert!(matches!(answer.status, 414 | 431), "{}", answer.head);
    for (name, value) in [
        ("X-Correlation-Id", "a b\tc"),
        ("X-Correlation-Id", long.get(..1000).unwrap_or_default()),
        ("traceparent", "00-nonsense"),
        ("Accept", "text/event-stream;q=banana"),
    ] {
        let answer = client.send("GET", "/api/v1/executions", &[(name, value)], None);
        assert!((200..500).contains(&answer.status), "{name}: {answer:?}");
    }
    let long_key = [
        ("Idempotency-Key", &long[..5000]),
        ("Content-Type", "application/json"),
    ];
    // Also where the body has a request id of its own.
    for body in [&b"{}"[..], br#"{"requestId":"own"}"#] {
        let path = "/api/v1/workflows/echo/execute";
        let answer = client.send("POST", path, &long_key, Some(body));
        answer.refused(400, "HEADER_INVALID");
    }
    let answer = client.send("PATCH", "/api/v1/workflows", &[], None);
    assert!(answer.header("allow").is_some(), "{answer:?}");
    answer.refused(405, "METHOD_NOT_ALLOWED");
    let text = [("Content-Type", "text/plain")];
    let answer = client.send("POST", "/api/v1/workflows/echo/execute", &text, Some(b"{}"));
    answer.refused(415, "MEDIA_TYPE_UNSUPPORTED");
    let problem = [("Accept", "application/problem+json")];
    let answer = client
        .send("GET", "/api/v1/workflows/gone", &problem, None)
        .expect(404);
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(answer.json()["code"], "WORKFLOW_NOT_FOUND");
    server.stop();
}

#[test]
fn clients_that_never_finish_do_not_hold_others_up() {
    let world = World::new();
    let variables = [
        ("WINDLASS_HEADER_TIMEOUT", "2s"),
        ("WINDLASS_BODY_TIMEOUT", "2s"),
    ];
    let server = world.serve_with(&[], &variables);
    let client = server.client();
    client.publish(ECHO);
    let half = client.head("POST", "/api/v1/workflows/echo/execute");
    let whole = format!("{half}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{");
    let mut slow: Vec<TcpStream> = Vec::new();
    for number in 0..400 {
        let mut stream = client.connect();
        let text = [half.as_str(), whole.as_str(), ""][number % 3];
        stream.write_all(text.as_bytes()).expect("it is sent");
        slow.push(stream);
    }
    let run = client.execute("echo", &json!({}));
    assert_eq!(client.ended(&run)["status"], "Succeeded");
    // The server closes all of them, with or without an answer.
    for mut stream in slow {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 408 "),
            "{answer}"
        );
    }
    client.get("/health/ready").expect(200);
    server.stop();
}
