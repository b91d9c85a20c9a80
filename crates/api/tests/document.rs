//! The OpenAPI document: every operation has its scope, its codes and its schemas.

use crate::common;

use std::collections::BTreeSet;

use crate::common::Setup;
use serde_json::Value;
use windlass_api::auth::Auth;
use windlass_api::route::{GateOptions, RequestGate};

fn document() -> Value {
    common::routes(RequestGate::new(Auth::off(), GateOptions::default())).document()
}

/// What is missing in an operation.
fn missing(operation: &Value) -> Vec<&'static str> {
    let mut missing = Vec::new();
    let scope = operation["x-scope"].as_str().unwrap_or_default();
    let security = match scope {
        "" => Value::Null,
        "public" => serde_json::json!([]),
        scope => serde_json::json!([{"bearer": [scope]}]),
    };
    if security.is_null() || operation["security"] != security {
        missing.push("security");
    }
    if operation["x-error-codes"]
        .as_array()
        .is_none_or(Vec::is_empty)
    {
        missing.push("error codes");
    }
    if operation["summary"].as_str().is_none_or(str::is_empty) {
        missing.push("summary");
    }
    let has_schemas = |content: &Value| {
        let types = content.as_object();
        types.is_some_and(|types| {
            !types.is_empty() && types.values().all(|media| !media["schema"].is_null())
        })
    };
    let answers = operation["responses"].as_object().unwrap();
    let good = answers.iter().filter(|(status, _)| status.starts_with('2'));
    for (status, answer) in good.clone() {
        if status != "204" && !has_schemas(&answer["content"]) {
            missing.push("schema of the answer");
        }
    }
    if good.count() == 0 {
        missing.push("answer");
    }
    if let Some(body) = operation.get("requestBody")
        && !has_schemas(&body["content"])
    {
        missing.push("schema of the body");
    }
    missing
}

#[test]
fn every_operation_is_complete() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    let mut names = BTreeSet::new();
    let mut count = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert_eq!(missing(operation), [""; 0], "{method} {path}");
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} twice");
            count += 1;
            for part in path.split('/').filter(|part| part.starts_with('{')) {
                let name = part.trim_matches(['{', '}']);
                let parameters = operation["parameters"].as_array().unwrap();
                let named = |p: &Value| p["name"] == name && p["in"] == "path";
                assert!(parameters.iter().any(named), "{method} {path}: {name}");
            }
        }
    }
    assert!(count >= 10, "{count}");
}

#[test]
fn an_incomplete_operation_is_seen() {
    let document = document();
    let whole = &document["paths"]["/api/v1/things/{id}"]["post"];
    for (field, expected) in [
        ("security", "security"),
        ("x-scope", "security"),
        ("x-error-codes", "error codes"),
        ("summary", "summary"),
    ] {
        let mut operation = whole.clone();
        operation.as_object_mut().unwrap().remove(field);
        assert_eq!(missing(&operation), [expected]);
    }
    let mut operation = whole.clone();
    operation["requestBody"]["content"] = serde_json::json!({});
    assert_eq!(missing(&operation), ["schema of the body"]);
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(value: &Value, document: &Value) {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        match value {
            Value::Object(members) => members.values().for_each(|value| walk(value, document)),
            Value::Array(values) => values.iter().for_each(|value| walk(value, document)),
            _ => {}
        }
    }
    let document = document();
    walk(&document, &document);
    assert!(document["components"]["schemas"]["Thing"].is_object());
}

#[test]
fn the_declaration_is_in_the_document() {
    let document = document();
    let make = &document["paths"]["/api/v1/things/{id}"]["post"];
    assert_eq!(make["x-body-limit"], 1000);
    assert_eq!(make["x-rate"], "Workflow");
    assert_eq!(make["operationId"], "common.make");
    let codes = make["x-error-codes"].to_string();
    for code in [
        "BODY_TOO_LARGE",
        "FORBIDDEN",
        "RATE_LIMITED",
        "PATH_INVALID",
    ] {
        assert!(codes.contains(code), "{codes}");
    }
    assert!(make["responses"]["202"].is_object());
    let list = &document["paths"]["/api/v1/things"]["get"];
    let names: Vec<_> = list["parameters"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names[0]["description"], "How many.");
    assert_eq!(names[0]["required"], false);
}

/// The routes that answer are those of the document.
#[tokio::test]
async fn the_document_is_served_and_true() {
    let server = Setup::default().start().await;
    let document = server.get("/api/openapi.json").await.json();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path.replace("{id}", "a");
        let answer = server.ask(&format!("PATCH {path}"), "", "").await;
        assert_eq!(answer.status, 405, "{path}");
        let allowed = answer.header("allow").unwrap();
        for method in methods.as_object().unwrap().keys() {
            assert!(
                allowed.contains(&method.to_uppercase()),
                "{path}: {allowed}"
            );
        }
    }
}

/// The page loads nothing but the document, and what it holds is what its policy names.
#[tokio::test]
async fn the_page_needs_no_network() {
    let server = Setup::default().start().await;
    let answer = server.get("/api/docs").await;
    assert_eq!(answer.status, 200);
    let page = String::from_utf8(answer.body.clone()).unwrap();
    for word in ["http:", "https:", "src=", "@import", "innerHTML", "eval("] {
        assert!(!page.contains(word), "{word}");
    }
    assert_eq!(page.matches("<script>").count(), 1);
    assert_eq!(page.matches("<style>").count(), 1);
    assert!(!page.contains(" style=") && !page.contains(" onclick="));
    let policy = answer.header("content-security-policy").unwrap();
    assert_eq!(policy.matches("'sha256-").count(), 2, "{policy}");
}

#[tokio::test]
async fn probes_answer() {
    let server = Setup::default().start().await;
    assert_eq!(server.get("/health/live").await.json()["status"], "live");
    assert_eq!(server.get("/health/ready").await.json()["status"], "ready");
    let unready = &server.unready;
    unready.store(true, std::sync::atomic::Ordering::Relaxed);
    let answer = server.get("/health/ready").await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (503, "UNAVAILABLE")
    );
    assert_eq!(answer.json()["error"]["details"][0]["pointer"], "/store");
    assert_eq!(server.get("/health/live").await.status, 200);
    let answer = server.get("/metrics").await;
    assert_eq!(answer.body, b"up 1\n");
    let limits = server.get("/api/v1/limits").await.json();
    assert_eq!(limits["tokenBytes"], 8192);
    assert_eq!(limits["connections"], 10_000);
}

#[test]
fn every_code_is_on_the_page_of_errors() {
    let page = include_str!("../../../docs/errors.md");
    let all = windlass_api::code::ALL.iter();
    for code in all.chain(windlass_api::failures::ALL) {
        let row = format!("| `{}` | {} |", code.code, code.status);
        assert!(page.contains(&row), "docs/errors.md lacks {row}");
    }
}
