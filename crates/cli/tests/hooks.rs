//! Hooks: a request that is signed starts a run, once; any other starts nothing.

use std::time::{SystemTime, UNIX_EPOCH};

use ring::hmac;
use serde_json::{Value, json};
use windlass_test_support::process::{Client, HttpAnswer, World};

const ECHO: &str = r#"{ "id": "echo", "nodes": [{ "id": "a", "actionType": "core.echo",
  "parameters": { "got": "{{ trigger.body.n }}" } }] }"#;

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_secs()
}

fn signature(secret: &str, time: u64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let code = hmac::sign(&key, format!("{time}.{body}").as_bytes());
    let hex: String = code.as_ref().iter().map(|it| format!("{it:02x}")).collect();
    format!("t={time},v1={hex}")
}

fn call(
    client: &Client,
    path: &str,
    signature: &str,
    more: &[(&str, &str)],
    body: &str,
) -> HttpAnswer {
    let mut headers = vec![
        ("Content-Type", "application/json"),
        ("X-Windlass-Signature", signature),
    ];
    headers.extend(more);
    client.send("POST", path, &headers, Some(body.as_bytes()))
}

fn make(client: &Client, id: &str) -> (String, String) {
    let body = json!({ "id": id, "workflowId": "echo" });
    let made = client.post("/api/v1/hooks", &body).expect(200);
    (made.text("path"), made.text("secret"))
}

fn count(client: &Client) -> usize {
    let runs = client.get("/api/v1/executions").expect(200).json();
    runs["items"].as_array().expect("items").len()
}

#[test]
fn a_signed_request_starts_a_run_once() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(ECHO);
    let (path, secret) = make(&client, "orders");
    let listed = client.get("/api/v1/hooks").expect(200);
    assert_eq!(listed.json()["items"][0]["id"], "orders");
    let text = String::from_utf8_lossy(&listed.body).into_owned();
    assert!(!text.contains(&secret), "the secret is told once");

    let body = r#"{"n": 7}"#;
    let good = signature(&secret, now(), body);
    let event = [("X-Event", "push"), ("X-Api-Key", "hidden")];
    let started = call(&client, &path, &good, &event, body).expect(200);
    assert_eq!(started.json()["existing"], false);
    let run = client.ended(&started.text("executionId"));
    assert_eq!(run["status"], "Succeeded");
    assert_eq!(run["nodes"]["a"]["output"]["got"], 7);
    assert_eq!(run["trigger"]["headers"]["x-event"], "push");
    assert_eq!(run["trigger"]["headers"]["x-api-key"], Value::Null);
    assert_eq!(
        run["trigger"]["headers"]["x-windlass-signature"],
        Value::Null
    );

    // The same delivery again, also with other headers.
    let again = call(&client, &path, &good, &[], body).expect(200).json();
    assert_eq!(again["existing"], true);
    assert_eq!(again["executionId"], started.json()["executionId"]);
    // However its signature is written.
    let (time, code) = good.split_once("v1=").expect("a code");
    let other = format!("{time}v1={}", code.to_uppercase());
    let again = call(&client, &path, &other, &[], body).expect(200).json();
    assert_eq!(again["executionId"], started.json()["executionId"]);
    // Signed anew, but with the same key.
    let key = [("Idempotency-Key", "k1")];
    let first = call(&client, &path, &good, &key, body).expect(200).json();
    let later = signature(&secret, now() - 60, body);
    let second = call(&client, &path, &later, &key, body).expect(200).json();
    assert_eq!(second["executionId"], first["executionId"]);
    assert_eq!(second["existing"], true);
    let key = [("Idempotency-Key", "k1"), ("X-Delivery", "3")];
    let third = call(&client, &path, &later, &key, body).expect(200).json();
    assert_eq!(third["executionId"], first["executionId"]);
    let spaced = r#"{ "n": 8 }"#;
    let later = signature(&secret, now(), spaced);
    call(&client, &path, &later, &key, spaced).refused(409, "REQUEST_ID_REUSED");
    assert_eq!(count(&client), 2);

    // Nothing else is let in.
    let wrong = "HOOK_SIGNATURE_INVALID";
    call(&client, &path, &good, &[], r#"{"n": 8}"#).refused(401, wrong);
    call(&client, &path, "", &[], body).refused(401, wrong);
    let old = signature(&secret, now() - 400, body);
    call(&client, &path, &old, &[], body).refused(401, wrong);
    let other = signature("other", now(), body);
    call(&client, &path, &other, &[], body).refused(401, wrong);
    call(&client, "/hooks/none", &good, &[], body).refused(404, "HOOK_NOT_FOUND");
    let text = signature(&secret, now(), "no JSON");
    call(&client, &path, &text, &[], "no JSON").refused(400, "BODY_MALFORMED");
    assert_eq!(count(&client), 2);

    // Made again it has another address; removed it has none.
    let (new_path, new_secret) = make(&client, "orders");
    call(&client, &path, &good, &[], body).refused(404, "HOOK_NOT_FOUND");
    client.delete("/api/v1/hooks/orders").expect(200);
    let good = signature(&new_secret, now(), body);
    call(&client, &new_path, &good, &[], body).refused(404, "HOOK_NOT_FOUND");
    client
        .delete("/api/v1/hooks/orders")
        .refused(404, "HOOK_NOT_FOUND");
    server.stop();
}

#[test]
fn a_hook_starts_its_own_tenants_workflow() {
    let world = World::new();
    let scopes = "workflows:read,workflows:execute,workflows:manage";
    let tokens = ["acme", "beta"].map(|tenant| world.token("user", Some(tenant), scopes));
    let server = world.serve_with(&["--auth-keys", "keys.json"], &[]);
    let [acme, beta] = tokens.map(|token| server.client_with(&token));
    acme.publish(ECHO);
    let (path, secret) = make(&acme, "orders");
    // A hook needs a workflow of its own tenant.
    let hook = json!({ "id": "orders", "workflowId": "echo" });
    let refused = beta.post("/api/v1/hooks", &hook);
    refused.refused(404, "WORKFLOW_NOT_FOUND");
    beta.publish(ECHO);
    let (other_path, other_secret) = make(&beta, "orders");
    let body = r#"{"n": 1}"#;
    let open = server.client();
    let good = signature(&secret, now(), body);
    let started = call(&open, &path, &good, &[], body).expect(200);
    acme.ended(&started.text("executionId"));
    let crossed = signature(&secret, now(), body);
    call(&open, &other_path, &crossed, &[], body).refused(401, "HOOK_SIGNATURE_INVALID");
    let own = signature(&other_secret, now(), body);
    let started = call(&open, &other_path, &own, &[], body).expect(200);
    beta.ended(&started.text("executionId"));
    assert_eq!((count(&acme), count(&beta)), (1, 1));
    let hooks = beta.get("/api/v1/hooks").expect(200).json();
    assert_eq!(hooks["items"].as_array().expect("items").len(), 1);
    open.get("/api/v1/hooks").expect(401);
    server.stop();
}

/// Made and removed by the command, beside the data directory and over HTTP; a new key for
/// what is sealed does not change what a hook is signed with.
#[test]
fn the_command_makes_lists_and_removes_hooks() {
    let world = World::new();
    std::fs::write(world.path().join("echo.json"), ECHO).expect("a file");
    world.run(&["publish", "echo.json"]).expect(0);
    let set = ["hooks", "set", "beside", "--workflow", "echo", "--json"];
    let beside = world.run(&set).expect(0).json();
    let server = world.serve();
    let client = server.client();
    let url = format!("http://{}", server.address());
    let remote = |arguments: &[&str]| {
        let mut all = vec!["--server", &*url];
        all.extend(arguments);
        world.run(&all)
    };
    let set = ["hooks", "set", "remote", "--workflow", "echo", "--json"];
    let over_http = remote(&set).expect(0).json();
    let signed = |made: &Value, body: &str| {
        let text = |key: &str| made[key].as_str().expect("text").to_owned();
        let good = signature(&text("secret"), now(), body);
        call(&client, &text("path"), &good, &[], body)
    };
    for made in [&beside, &over_http] {
        signed(made, r#"{"n":1}"#).expect(200);
    }
    let database = std::fs::read(world.path().join(".windlass/windlass.db")).expect("a file");
    let log = std::fs::read(world.path().join(".windlass/windlass.db-wal")).expect("a file");
    for made in [&beside, &over_http] {
        let secret = made["secret"].as_str().expect("text").as_bytes();
        for bytes in [&database, &log] {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret));
        }
    }
    let rotated = remote(&["secrets", "rotate", "--json"]).expect(0).json();
    assert_eq!(rotated, json!({ "secrets": 0, "hooks": 2 }));
    for made in [&beside, &over_http] {
        signed(made, r#"{"n":2}"#).expect(200);
    }
    for listed in [remote(&["hooks"]), world.run(&["hooks", "list"])] {
        let table = listed.expect(0).stdout;
        assert!(
            table.contains("beside") && table.contains("remote"),
            "{table}"
        );
    }
    remote(&["hooks", "remove", "remote"]).expect(0);
    remote(&["hooks", "remove", "remote"]).expect(4);
    signed(&over_http, r#"{"n":3}"#).refused(404, "HOOK_NOT_FOUND");
    server.stop();
    let rotated = world.run(&["secrets", "rotate", "--json"]).expect(0).json();
    assert_eq!(rotated["hooks"], 1);
    world.run(&["hooks", "remove", "beside"]).expect(0);
    let listed = world.run(&["hooks", "--json"]).expect(0).json();
    assert_eq!(listed["items"], json!([]));
}
