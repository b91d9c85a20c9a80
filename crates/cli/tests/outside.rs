//! What the outside is promised, word for word: bodies, headers and lists of the server.

use std::io::Write as _;

use serde_json::{Value, json};
use windlass_test_support::process::{Client, ECHO, HttpAnswer, ServerProcess, World, serving};

const EXECUTE: &str = "/api/v1/workflows/echo/execute";

fn started() -> (World, ServerProcess, Client) {
    serving(&[ECHO])
}

fn read(client: &Client, started: &HttpAnswer) -> Value {
    let path = format!("/api/v1/executions/{}", started.text("executionId"));
    client.get(&path).expect(200).json()
}

#[test]
fn every_list_is_a_page() {
    let (_world, _server, client) = started();
    for list in [
        "workflows",
        "workflows/echo/versions",
        "executions",
        "actions",
        "schedules",
        "hooks",
        "dead-letters",
        "secrets",
        "audit",
    ] {
        let page = client.get(&format!("/api/v1/{list}")).expect(200).json();
        assert!(page["items"].is_array(), "{list}: {page}");
        assert!(page.get("next").is_some(), "{list}: {page}");
    }
    let document = client.get("/api/openapi.json").expect(200).json();
    let answer = &document["paths"]["/api/v1/actions"]["get"]["responses"]["200"];
    assert!(answer.to_string().contains("Page"), "{answer}");
}

#[test]
fn every_answer_says_what_may_be_asked_for() {
    let (_world, _server, client) = started();
    for path in ["/api/v1/workflows", "/api/v1/executions/nothing"] {
        let answer = client.get(path);
        assert_eq!(
            answer.header("x-ratelimit-limit"),
            Some("600"),
            "{answer:?}"
        );
        // Without tokens no client is counted.
        assert_eq!(answer.header("x-ratelimit-remaining"), Some("600"));
    }
    let poll = json!({ "protocol": 1, "worker": "w", "waitMs": 0,
                       "actions": [{ "actionType": "py.one" }] });
    for answer in [
        client.get("/api/v1/nothing"),
        client.get("/api/v1/workers"),
        client.post("/api/v1/workers/poll", &poll).expect(200),
        client.post("/api/v1/workers", &json!({})).expect(405),
    ] {
        let limit = answer.header("x-ratelimit-limit");
        assert!(limit.is_some_and(|it| it != "0"), "{answer:?}");
        assert_eq!(answer.header("x-ratelimit-remaining"), limit);
    }
    // Probes are asked by machines that count nothing.
    let live = client.get("/health/live").expect(200);
    assert_eq!(live.header("x-ratelimit-limit"), None);
}

#[test]
fn publishing_answers_with_warnings() {
    let (_world, _server, client) = started();
    let slip = json!({ "id": "slip", "vars": { "region": "eu" }, "nodes": [
        { "id": "a", "actionType": "core.echo", "parameters": { "to": "{{ vars.regoin }}" } }] });
    for status in [201, 200] {
        let answer = client
            .post("/api/v1/workflows", &slip)
            .expect(status)
            .json();
        let warnings = answer["warnings"].as_array().expect("a list");
        assert_eq!(warnings.len(), 1, "{answer}");
        assert_eq!(warnings[0]["code"], "UNKNOWN_VARIABLE");
        assert_eq!(warnings[0]["pointer"], "/nodes/0/parameters/to");
        let message = warnings[0]["message"].as_str().expect("a message");
        assert!(message.contains("regoin"), "{answer}");
    }
    let sound = json!({ "id": "sound", "nodes": [{ "id": "a", "actionType": "core.echo" }] });
    let sound = client.post("/api/v1/workflows", &sound).expect(201).json();
    assert_eq!(sound["warnings"], json!([]));
}

#[test]
fn a_list_of_runs_of_an_unknown_workflow_says_so() {
    let (world, server, client) = started();
    client.ended(&client.execute("echo", &json!({})));
    let listed = |workflow: &str| {
        let list = ["runs", "--server", &server.url, "--workflow", workflow];
        world.run(&list).expect(0).stderr
    };
    let meant = listed("ecoh");
    assert!(
        meant.contains("no workflow has the id 'ecoh'; did you mean 'echo'?"),
        "{meant}"
    );
    let unlike = listed("invoices");
    assert!(
        unlike.contains("no workflow has the id 'invoices'"),
        "{unlike}"
    );
    let none = [
        "runs",
        "--server",
        &server.url,
        "--workflow",
        "echo",
        "--status",
        "failed",
    ];
    let none = world.run(&none).expect(0).stderr;
    assert!(!none.contains("no workflow"), "{none}");
}

#[test]
fn a_trigger_of_null_is_a_trigger() {
    let (world, server, client) = started();
    let null = client
        .post(EXECUTE, &json!({ "trigger": null }))
        .expect(202);
    assert_eq!(read(&client, &null)["trigger"], Value::Null);
    let none = client.post(EXECUTE, &json!({})).expect(202);
    assert_eq!(read(&client, &none)["trigger"], json!({}));
    std::fs::write(world.path().join("echo.json"), ECHO).unwrap();
    let url = format!("http://{}", client.address());
    let run = ["run", "echo.json", "--trigger", "null", "--json"];
    let remote = world.run(&[&run[..], &["--server", &url]].concat());
    let own = world.run(&[&run[..], &["--data-dir", "own"]].concat());
    // `trigger.say` of null is an error, as in JavaScript.
    assert_eq!(remote.expect(1).json()["trigger"], Value::Null);
    assert_eq!(own.expect(1).json()["trigger"], Value::Null);
    server.stop();
}

#[test]
fn a_body_that_may_be_left_out_may_be_empty() {
    let (_world, _server, client) = started();
    let mut stream = client.connect();
    let head = client.head("POST", EXECUTE);
    let rest = "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    write!(stream, "{head}{rest}").unwrap();
    HttpAnswer::read(stream).unwrap().expect(202);
    // Something in it needs a type.
    let answer = client.send("POST", EXECUTE, &[], Some(b"{}"));
    answer.refused(415, "MEDIA_TYPE_UNSUPPORTED");
}

#[test]
fn a_packed_body_is_refused_as_such() {
    let (_world, _server, client) = started();
    let gzip = [
        ("Content-Type", "application/json"),
        ("Content-Encoding", "gzip"),
    ];
    for path in [EXECUTE, "/api/v1/workflows", "/api/v1/bulk"] {
        let answer = client.send("POST", path, &gzip, Some(b"\x1f\x8b\x08"));
        answer.refused(415, "MEDIA_TYPE_UNSUPPORTED");
    }
    let plain = [gzip[0], ("Content-Encoding", "identity")];
    client
        .send("POST", EXECUTE, &plain, Some(b"{}"))
        .expect(202);
}

#[test]
fn a_filter_of_one_status_needs_no_list() {
    let (_world, _server, client) = started();
    for status in [json!("Failed"), json!(["Failed"])] {
        let body = json!({ "action": "reattempt", "filter": { "status": status }, "dryRun": true });
        client.post("/api/v1/bulk", &body).expect(202);
    }
}

#[test]
fn a_filter_that_would_choose_nothing_is_refused() {
    let (_world, _server, client) = started();
    for filter in [
        json!({ "prefix": ["01"] }),
        json!({ "limit": 1 }),
        json!({ "before": "01a1e304-2046-701b-a766-fe31348915be" }),
        json!({ "cursor": "AaHi9vMXebWdwelVfg2hpg", "workflow": "echo" }),
    ] {
        let body = json!({ "action": "cancel", "filter": filter });
        client
            .post("/api/v1/bulk", &body)
            .refused(400, "BODY_INVALID");
    }
}

#[test]
fn limits_are_refused_and_not_corrected() {
    let (_world, _server, client) = started();
    for list in [
        "workflows",
        "executions",
        "schedules",
        "hooks",
        "dead-letters",
        "audit",
    ] {
        for limit in ["0", "1001", "x"] {
            let answer = client.get(&format!("/api/v1/{list}?limit={limit}"));
            answer.refused(400, "QUERY_INVALID");
        }
    }
}

/// More digits than any number of a machine has.
const DIGITS: &str = "123456789012345678901234567890";

#[test]
fn what_passes_through_keeps_its_digits() {
    let world = World::new();
    let definition = format!(
        r#"{{"id": "digits", "vars": {{"v": {DIGITS}}}, "nodes": [
             {{"id": "a", "actionType": "core.echo", "parameters": {{"n": {DIGITS}}}}}]}}"#
    );
    std::fs::write(world.path().join("digits.json"), &definition).unwrap();
    let exact = |what: &str, text: &str, times: usize| {
        assert_eq!(text.matches(DIGITS).count(), times, "{what}: {text}");
    };
    world.run(&["run", "digits.json", "-q"]).expect(0);
    let export = world.run(&["export", "@last"]).expect(0).stdout;
    exact("export", &export, 2);
    std::fs::write(world.path().join("graph.json"), &export).unwrap();
    let again = world.run(&["run", "graph.json", "--json"]).expect(0);
    exact("a frozen graph", &again.stdout, 4);
    let trigger = format!(r#"{{"t": {DIGITS}}}"#);
    let set = [
        "schedules",
        "set",
        "s",
        "--workflow",
        "digits",
        "--every-ms",
        "3600000",
    ];
    let set = [&set[..], &["--trigger", &trigger, "--json"]].concat();
    exact("schedules set", &world.run(&set).expect(0).stdout, 1);
    let listed = world.run(&["schedules", "--json"]).expect(0);
    exact("schedules", &listed.stdout, 1);

    let server = world.serve();
    let client = server.client();
    let run = client.execute("digits", &json!({}));
    client.ended(&run);
    let text = |path: &str| {
        let answer = client.get(path).expect(200);
        String::from_utf8_lossy(&answer.body).into_owned()
    };
    let execution = format!("/api/v1/executions/{run}");
    exact("a node", &text(&format!("{execution}/nodes/a")), 4);
    exact("an export", &text(&format!("{execution}/export")), 2);
    exact("a list", &text("/api/v1/schedules"), 1);
    exact("one", &text("/api/v1/schedules/s"), 1);
}

#[test]
fn what_names_a_request_is_bounded_alike_everywhere() {
    let (world, _server, client) = started();
    std::fs::write(world.path().join("echo.json"), ECHO).unwrap();
    let url = format!("http://{}", client.address());
    let (id, most) = ("r".repeat(257), "r".repeat(256));
    let (label, reason) = (format!("k={}", "v".repeat(257)), "w".repeat(4097));
    for place in [["--data-dir", "own"], ["--server", &url]] {
        let code = |arguments: &[&str]| world.run(&[arguments, &place].concat()).code;
        assert_eq!(code(&["run", "echo.json", "--request-id", &most]), 0);
        assert_eq!(code(&["run", "echo.json", "--request-id", &id]), 2);
        assert_eq!(code(&["run", "echo.json", "--request-id", ""]), 2);
        assert_eq!(code(&["run", "echo.json", "--label", &label]), 2);
        assert_eq!(code(&["cancel", "@last", "--reason", &reason]), 2);
        assert_eq!(code(&["cancel", "@last", "--reason", &reason[1..]]), 6);
    }
    let run = client.execute("echo", &json!({}));
    client.ended(&run);
    let fork = json!({ "from": ["say"], "requestId": id });
    let answer = client.post(&format!("/api/v1/executions/{run}/fork"), &fork);
    answer.refused(400, "BODY_INVALID");
}

#[test]
fn pages_of_other_origins_change_nothing() {
    let (_world, _server, client) = started();
    let own = format!("http://{}", client.address());
    let send = |method: &str, path: &str, origin: &str| {
        let headers = [("Origin", origin)];
        client.send(method, path, &headers, None)
    };
    for origin in ["https://other.example", "null", "http://localhost:1"] {
        send("POST", EXECUTE, origin).refused(403, "FORBIDDEN");
        send("DELETE", "/api/v1/workflows/echo", origin).refused(403, "FORBIDDEN");
        send("GET", "/api/v1/workflows", origin).expect(200);
    }
    // The head of these requests says that the host is `localhost`.
    send("POST", EXECUTE, "http://localhost").expect(202);
    send("POST", EXECUTE, &own).refused(403, "FORBIDDEN");
}
