//! What a worker reports must be readable by every later node and every program: what is not
//! JSON to them fails the attempt, by name, and nothing of it is kept.

use serde_json::{Value, json};
use windlass_test_support::process::{Client, World};

/// One node that a worker outside the server does.
const ONE: &str = r#"{ "id": "one", "nodes": [{ "id": "a", "actionType": "py.one" }] }"#;

/// Starts a run, and reports its one task with this text after the lease; gives the node.
fn reported(client: &Client, what: &str, rest: &str) -> Value {
    let run = client.execute("one", &json!({}));
    let poll = json!({ "protocol": 1, "worker": "w", "waitMs": 30_000,
                       "actions": [{ "actionType": "py.one" }] });
    let answer = client.post("/api/v1/workers/poll", &poll).expect(200);
    let task = answer.json()["tasks"][0].clone();
    let id = task["taskId"].as_str().expect("an id");
    let path = format!("/api/v1/workers/tasks/{id}/{what}");
    let body = format!(r#"{{"lease":{},{rest}}}"#, task["lease"]);
    let headers = [("Content-Type", "application/json")];
    let answer = client.send("POST", &path, &headers, Some(body.as_bytes()));
    answer.expect(200);
    client.ended(&run);
    let path = format!("/api/v1/executions/{run}/nodes/a");
    client.get(&path).expect(200).json()
}

#[test]
fn a_report_that_no_program_could_read_fails_the_attempt() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(ONE);
    for value in [r#""\ud800""#, "1e400", r#"{"k":1,"k":2}"#] {
        for key in ["output", "meta"] {
            let node = reported(&client, "complete", &format!(r#""{key}":{value}"#));
            assert_eq!(node["status"], "Failed", "{key} {value}: {node}");
            assert_eq!(node["error"]["code"], "OUTPUT_NOT_JSON", "{node}");
        }
        // A failure stands, without what cannot be read.
        let rest = format!(r#""code":"BUSY","message":"no","details":{value}"#);
        let node = reported(&client, "fail", &rest);
        assert_eq!(node["error"]["code"], "BUSY", "{node}");
        assert_eq!(node["error"]["details"], json!({}), "{node}");
    }
    let node = reported(&client, "complete", r#""output":{"k":"\ud83d\ude00"}"#);
    assert_eq!(node["status"], "Succeeded", "{node}");
    server.stop();
}

/// Starts a run; gives it, its one task, and where the task is reported.
fn handed(client: &Client, what: &str) -> (String, Value, String) {
    let run = client.execute("one", &json!({}));
    let poll = json!({ "protocol": 1, "worker": "w", "waitMs": 30_000,
                       "actions": [{ "actionType": "py.one" }] });
    let answer = client.post("/api/v1/workers/poll", &poll).expect(200);
    let task = answer.json()["tasks"][0].clone();
    let id = task["taskId"].as_str().expect("an id");
    let path = format!("/api/v1/workers/tasks/{id}/{what}");
    (run, task, path)
}

#[test]
fn a_report_that_contradicts_the_recorded_one_is_refused() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(ONE);
    let mut later = Vec::new();
    for first in ["complete", "fail", "skip"] {
        let (run, task, path) = handed(&client, first);
        let body = json!({ "lease": task["lease"], "code": "BUSY", "message": "no" });
        let said = |what: &str| {
            let mut body = body.clone();
            if what != "fail" {
                body = json!({ "lease": task["lease"] });
            }
            (
                path.replace(&format!("/{first}"), &format!("/{what}")),
                body,
            )
        };
        for _ in 0..2 {
            let (path, body) = said(first);
            client.post(&path, &body).expect(200);
        }
        client.ended(&run);
        for what in ["complete", "fail", "skip"] {
            let (path, body) = said(what);
            let answer = client.post(&path, &body);
            if what == first {
                answer.expect(200);
            } else {
                answer.refused(409, "TASK_ENDED");
            }
            later.push((path, body, what == first));
        }
    }
    // The next process reads it in the log.
    server.stop();
    let server = world.serve();
    let client = server.client();
    for (path, body, same) in later {
        let answer = client.post(&path, &body);
        if same {
            answer.expect(200);
        } else {
            answer.refused(409, "TASK_ENDED");
        }
    }
    server.stop();
}

/// Larger than any body that a report may have.
fn huge() -> String {
    "x".repeat(30 * 1024 * 1024)
}

#[test]
fn a_report_larger_than_a_body_may_be_ends_the_attempt() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(ONE);
    let (run, task, path) = handed(&client, "complete");
    let lease = &task["lease"];
    let huge = huge();
    let text = format!(r#"{{"lease":{lease},"output":"{huge}"}}"#);
    let forged = format!(r#"{{"lease":"made.up","output":"{huge}"}}"#);
    client.post_text(&path, &forged).refused(409, "LEASE_LOST");
    client.post_text(&path, &text).expect(200);
    client.post_text(&path, &text).expect(200);
    let shown = client.ended(&run);
    assert_eq!(shown["nodes"]["a"]["error"]["code"], "OUTPUT_LIMIT");

    // A failure stands with its code, whatever its size.
    let (run, task, path) = handed(&client, "fail");
    let lease = &task["lease"];
    let text = format!(r#"{{"lease":{lease},"code":"BUSY","message":"{huge}"}}"#);
    client.post_text(&path, &text).expect(200);
    let shown = client.ended(&run);
    assert_eq!(shown["nodes"]["a"]["error"]["code"], "BUSY");

    // Without the lease at hand, the answer says what the worker must do, and it can do it.
    let (run, task, path) = handed(&client, "complete");
    let lease = &task["lease"];
    let text = format!(r#"{{"output":"{huge}","lease":{lease}}}"#);
    let refused = client.post_text(&path, &text);
    let refused = refused.refused(413, "BODY_TOO_LARGE");
    let hint = refused["error"]["hint"].as_str().expect("a hint");
    assert!(hint.contains("OUTPUT_LIMIT"), "{refused}");
    let path = path.replace("/complete", "/fail");
    let said = json!({ "lease": lease, "code": "OUTPUT_LIMIT", "message": "too large" });
    client.post(&path, &said).expect(200);
    let shown = client.ended(&run);
    assert_eq!(shown["nodes"]["a"]["error"]["code"], "OUTPUT_LIMIT");
    server.stop();
}

#[test]
fn what_a_report_may_not_have_fails_the_node_and_leaves_nothing_open() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(ONE);
    let meta = format!(r#""output":1,"meta":"{}""#, "m".repeat(70_000));
    let node = reported(&client, "complete", &meta);
    assert_eq!(node["error"]["code"], "OUTPUT_LIMIT", "{node}");
    // A long message is cut, and the failure keeps all else that it says.
    let long = format!(
        r#""code":"BUSY","message":"{}","retriable":false,"details":{{"k":1}}"#,
        "m".repeat(3 * 1024 * 1024)
    );
    let node = reported(&client, "fail", &long);
    assert_eq!(node["error"]["code"], "BUSY");
    assert_eq!(node["error"]["details"], json!({ "k": 1 }));
    let message = node["error"]["message"].as_str().expect("a text");
    assert!(
        (1000..100_000).contains(&message.len()),
        "{}",
        message.len()
    );
    server.stop();
}

#[test]
fn a_poll_answers_before_the_time_of_a_request_is_over() {
    let world = World::new();
    let server = world.serve_with(&[], &[("WINDLASS_REQUEST_TIMEOUT", "2s")]);
    let client = server.client();
    let poll = json!({ "protocol": 1, "worker": "w", "waitMs": 30_000,
                       "actions": [{ "actionType": "py.none" }] });
    let answer = client.post("/api/v1/workers/poll", &poll).expect(200);
    assert_eq!(answer.json(), json!({ "tasks": [] }));
    server.stop();
}

#[test]
fn a_poll_that_contradicts_itself_or_hides_its_name_is_refused() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let poll = |worker: &str, actions: Value| {
        let body = json!({ "protocol": 1, "worker": worker, "actions": actions });
        client.post("/api/v1/workers/poll", &body)
    };
    let one = json!({ "actionType": "py.one", "description": "a" });
    let other = json!({ "actionType": "py.one", "description": "b" });
    poll("w", json!([one, one])).expect(200);
    let refused = poll("w", json!([one, other])).refused(400, "USAGE");
    let message = refused["error"]["message"].as_str().expect("a text");
    assert!(message.contains("py.one"), "{message}");
    for hidden in ["a\u{202e}b", "a\u{200b}", "\u{feff}w", "a\u{2066}b"] {
        poll(hidden, json!([one])).refused(400, "USAGE");
    }
    poll("wörker ☃", json!([one])).expect(200);
    let deep = (0..150).fold(json!({}), |inner, _| json!({ "not": inner }));
    let actions = json!([{ "actionType": "py.deep", "parametersSchema": deep }]);
    let refused = poll("w", actions).refused(422, "SCHEMA_LIMIT");
    let message = refused["error"]["message"].as_str().expect("a text");
    assert!(
        message.contains("py.deep") && message.contains("120"),
        "{message}"
    );
    server.stop();
}

#[test]
fn parameters_that_do_not_fit_are_not_quoted_where_they_have_a_secret() {
    let secret = r#"hun"ter\2"#;
    let world = World::new();
    let server = world.serve_with(&[], &[("WINDLASS_SECRET_TOK", secret)]);
    let client = server.client();
    let definition = r#"{ "id": "one", "nodes": [{ "id": "a", "actionType": "py.one",
        "parameters": { "key": "k {{ secrets.TOK }}", "n": "seven" } }] }"#;
    client.publish(definition);
    let run = client.execute("one", &json!({}));
    let schema = json!({ "required": ["zz"], "properties": {
        "key": { "maxLength": 2 }, "n": { "type": "integer" } } });
    let poll = json!({ "protocol": 1, "worker": "w", "waitMs": 500,
        "actions": [{ "actionType": "py.one", "parametersSchema": schema }] });
    let answer = client.post("/api/v1/workers/poll", &poll).expect(200);
    assert_eq!(answer.json(), json!({ "tasks": [] }));
    let shown = client.ended(&run);
    let error = &shown["nodes"]["a"]["error"];
    assert_eq!(error["code"], "PARAMETERS_INVALID", "{error}");
    let message = error["message"].as_str().expect("a text");
    assert!(!message.contains("hun"), "{message}");
    for said in ["zz", "seven", "/key"] {
        assert!(message.contains(said), "{said}: {message}");
    }
    server.stop();
}
