//! Names that become keys, metric labels or index entries have a pattern and a maximum length,
//! and schemas have a bound on what they expand to: a server refuses the rest on every route,
//! before it costs anything.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use windlass_test_support::process::{Client, ECHO, World};

const EXECUTE: &str = "/api/v1/workflows/echo/execute";

/// Texts that no name may be.
fn hostile() -> Vec<String> {
    vec![
        "a\u{1b}[2Jb".to_owned(),
        "a\nb".to_owned(),
        "a\u{0}b".to_owned(),
        "x".repeat(257),
        "x".repeat(1 << 20),
    ]
}

fn check_refused(client: &Client, path: &str, body: &Value) {
    let answer = client.post(path, body);
    let shown = &body.to_string()[..body.to_string().len().min(100)];
    assert!(
        matches!(answer.status, 400 | 409 | 413 | 422),
        "{path} {shown}: {}",
        answer.status
    );
    assert!(
        answer.json().to_string().len() < 4096,
        "{path} {shown}: the answer repeats it"
    );
}

#[test]
fn names_that_cannot_be_any_are_refused_wherever_they_come_in() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(ECHO);
    client.publish(r#"{"id":"waits","nodes":[{"id":"w","waitForSignal":{"name":"go"}}]}"#);
    let waiting = client.execute("waits", &json!({}));
    for name in hostile() {
        check_refused(&client, EXECUTE, &json!({ "requestId": name }));
        check_refused(&client, EXECUTE, &json!({ "correlationId": name }));
        check_refused(&client, EXECUTE, &json!({ "labels": { &name: "v" } }));
        check_refused(&client, EXECUTE, &json!({ "labels": { "k": name } }));
        let signal = format!("/api/v1/executions/{waiting}/signal");
        check_refused(&client, &signal, &json!({ "name": name }));
        let schedule = json!({ "id": name, "workflowId": "echo", "everyMs": 60_000 });
        check_refused(&client, "/api/v1/schedules", &schedule);
        let labels = json!({ &name: "v" });
        let schedule =
            json!({ "id": "s", "workflowId": "echo", "everyMs": 60_000, "labels": labels });
        check_refused(&client, "/api/v1/schedules", &schedule);
        check_refused(
            &client,
            "/api/v1/hooks",
            &json!({ "id": name, "workflowId": "echo" }),
        );
        check_refused(
            &client,
            "/api/v1/secrets",
            &json!({ "name": name, "value": "v" }),
        );
        for node in [
            json!({ "id": "n", "actionType": name }),
            json!({ "id": "n", "waitForSignal": { "name": name } }),
            json!({ "id": "n", "actionType": "core.echo", "requires": [name] }),
            json!({ "id": "n", "actionType": "core.echo", "name": name }),
            json!({ "id": "n", "actionType": "core.echo", "setVars": { &name: "1" } }),
            json!({ "id": "n", "actionType": "core.echo", "compensate": { "actionType": name } }),
        ] {
            let definition = json!({ "id": "named", "nodes": [node] });
            check_refused(&client, "/api/v1/workflows", &definition);
        }
        let node = json!([{ "id": "n", "actionType": "core.echo" }]);
        for (key, value) in [
            ("displayName", json!(name)),
            ("tags", json!([name])),
            ("labels", json!({ &name: "v" })),
            ("labels", json!({ "k": name })),
            ("vars", json!({ &name: 1 })),
        ] {
            let definition = json!({ "id": "named", "nodes": node, key: value });
            check_refused(&client, "/api/v1/workflows", &definition);
        }
    }
    // At the limit they work.
    let longest = "x".repeat(256);
    let labels = json!({ "k".repeat(128): longest });
    let body = json!({ "requestId": longest, "correlationId": longest, "labels": labels });
    client.post(EXECUTE, &body).expect(202);
    server.stop();
}

#[test]
fn an_error_code_that_is_no_name_is_replaced_and_kept_in_the_details() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(
        r#"{"id":"fails","nodes":[{"id":"n","actionType":"core.fail",
            "parameters":{"code":"{{ trigger.code }}","message":"no"}}]}"#,
    );
    for code in ["no code", "x\u{1b}[2J", &"C".repeat(100_000)] {
        let run = client.execute("fails", &json!({ "trigger": { "code": code } }));
        let error = client.ended(&run)["nodes"]["n"]["error"].clone();
        assert_eq!(error["code"], "ERROR_CODE_INVALID", "{error}");
        let kept = error["details"]["code"]
            .as_str()
            .expect("the beginning of it");
        assert!(code.starts_with(kept) && kept.len() <= 256);
    }
    server.stop();
}

#[test]
fn a_schema_that_doubles_at_each_level_is_refused_and_the_server_stops_at_once() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let mut definitions = Map::new();
    for level in 0..40 {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        definitions.insert(format!("d{level}"), json!({ "allOf": [next, next] }));
    }
    definitions.insert("d40".to_owned(), json!({ "type": "object" }));
    let schema = json!({ "$ref": "#/$defs/d0", "$defs": definitions });
    let node = json!([{ "id": "n", "actionType": "core.echo" }]);
    let waits = json!([{ "id": "n", "waitForSignal": { "name": "go", "schema": schema } }]);
    for definition in [
        json!({ "id": "doubles", "triggerSchema": schema, "nodes": node }),
        json!({ "id": "doubles", "nodes": waits }),
    ] {
        let refused = client
            .post("/api/v1/workflows", &definition)
            .refused(422, "DEFINITION_INVALID");
        assert!(refused.to_string().contains("SCHEMA_LIMIT"), "{refused}");
    }
    // Little by itself, and more with each level of the value.
    let doubling =
        json!({ "properties": { "a": { "allOf": [{ "$ref": "#" }, { "$ref": "#" }] } } });
    let definition = json!({ "id": "deep", "triggerSchema": doubling, "nodes": node });
    client.publish(&definition.to_string());
    let mut value = json!({});
    for _ in 0..50 {
        value = json!({ "a": value });
    }
    let path = "/api/v1/workflows/deep/execute";
    client
        .post(path, &json!({ "trigger": value }))
        .refused(422, "SCHEMA_LIMIT");
    client
        .post(path, &json!({ "trigger": { "a": { "a": {} } } }))
        .expect(202);
    server.stop();
}

#[test]
fn a_server_that_stops_does_not_wait_for_a_definition_that_is_checked() {
    let world = World::new();
    let server = world.serve();
    let patterns: Map<String, Value> = (0..20)
        .map(|n| (format!("^(a|b|c{n}){{1,200}}[x-z]+$"), json!({})))
        .collect();
    let nodes: Vec<Value> = (0..3000)
        .map(|n| {
            let schema = json!({ "title": n, "patternProperties": patterns });
            json!({ "id": format!("n{n}"), "waitForSignal": { "name": "go", "schema": schema } })
        })
        .collect();
    let definition = json!({ "id": "slow", "nodes": nodes });
    let client = server.client();
    let checking = std::thread::spawn(move || client.post("/api/v1/workflows", &definition));
    let probe = server.client();
    let is_checked = || {
        let metrics = String::from_utf8(probe.get("/metrics").expect(200).body).expect("text");
        !metrics.contains("\nwindlass_http_body_memory_bytes 0\n")
    };
    while !is_checked() {
        std::thread::yield_now();
    }
    server.ask_to_stop();
    let answer = checking.join().expect("an answer");
    answer.refused(503, "UNAVAILABLE");
    assert_eq!(server.ended(), Some(0));
}

#[test]
fn metrics_name_no_action_that_the_server_does_not_have() {
    let world = World::new();
    let server = world.serve_with(&[], &[("WINDLASS_UNKNOWN_ACTION_WAIT", "100ms")]);
    let client = server.client();
    let nodes: Vec<Value> = (0..300)
        .map(|n| json!({ "id": format!("n{n}"), "actionType": format!("made.up{n}") }))
        .chain([json!({ "id": "echo", "actionType": "core.echo" })])
        .collect();
    client.publish(&json!({ "id": "many", "nodes": nodes }).to_string());
    let run = client.execute("many", &json!({}));
    client.ended(&run);
    let page = String::from_utf8(client.get("/metrics").expect(200).body.clone()).expect("text");
    assert!(!page.contains("made.up"));
    assert!(
        page.contains("windlass_action_executed_total{actionType=\"other\"} 300"),
        "{page}"
    );
    assert!(page.contains("windlass_action_executed_total{actionType=\"core.echo\"} 1"));
    server.stop();
}

/// Texts in bodies that have another bound: values of any kind, expressions, what is only
/// compared with what is stored and bounded by the size of the body, and what a worker reports,
/// which is recorded like an action's own report: a code that cannot be one is replaced, a link
/// that cannot be stored fails the node, and the body is bounded.
const FREE: &[&str] = &[
    "/complete/resources/",
    "/fail/code/",
    "/fail/message/",
    "/filter/",
    "/value",
    "/trigger",
    "/vars/",
    "/set",
    "/output",
    "/payload",
    "/condition/",
    "/switch/on/",
    "/until/",
];

/// Looks for texts without a bound. What is referred to is looked at once.
struct Search<'d> {
    document: &'d Value,
    seen: BTreeSet<&'d str>,
    found: Vec<String>,
}

impl<'d> Search<'d> {
    fn look(&mut self, schema: &'d Value, place: &str) {
        if FREE.iter().any(|free| format!("{place}/").contains(free)) {
            return;
        }
        if let Some(target) = schema["$ref"].as_str() {
            if self.seen.insert(target) {
                let pointer = target.trim_start_matches('#');
                self.look(self.document.pointer(pointer).expect("a schema"), place);
            }
            return;
        }
        let kinds = schema["type"].as_array();
        let is_text =
            schema["type"] == "string" || kinds.is_some_and(|it| it.contains(&json!("string")));
        let bounds = ["maxLength", "pattern", "enum", "const"];
        if is_text && bounds.iter().all(|bound| schema[*bound].is_null()) {
            self.found.push(place.to_owned());
        }
        for (name, part) in schema["properties"].as_object().into_iter().flatten() {
            self.look(part, &format!("{place}/{name}"));
        }
        for part in ["items", "additionalProperties"] {
            if schema[part].is_object() {
                self.look(&schema[part], &format!("{place}/{part}"));
            }
        }
        for branch in ["anyOf", "oneOf", "allOf"] {
            for part in schema[branch].as_array().into_iter().flatten() {
                self.look(part, place);
            }
        }
    }
}

#[test]
fn every_text_that_a_body_may_have_is_bounded_in_the_document() {
    let world = World::new();
    let server = world.serve();
    let document = server.client().get("/api/openapi.json").expect(200).json();
    let mut search = Search {
        document: &document,
        seen: BTreeSet::new(),
        found: Vec::new(),
    };
    let mut bodies = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            bodies += usize::from(!schema.is_null());
            search.look(schema, &format!("{method} {path}"));
        }
    }
    assert!(bodies > 10, "{bodies} bodies");
    assert_eq!(search.found, Vec::<String>::new());
    server.stop();
}
