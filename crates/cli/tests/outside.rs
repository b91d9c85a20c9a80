//! What the outside is promised, word for word: bodies, headers and lists of the server.

mod server_world;

use std::io::Write as _;

use serde_json::{Value, json};
use server_world::{Answer, Client, ECHO, Server, World};

const EXECUTE: &str = "/api/v1/workflows/echo/execute";

fn started() -> (World, Server, Client) {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(ECHO);
    (world, server, client)
}

fn read(client: &Client, started: &Answer) -> Value {
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
            Some("120"),
            "{answer:?}"
        );
        // Without tokens nobody is counted.
        assert_eq!(answer.header("x-ratelimit-remaining"), Some("120"));
    }
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
    Answer::read(stream).unwrap().expect(202);
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
