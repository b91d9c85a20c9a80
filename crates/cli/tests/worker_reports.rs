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
