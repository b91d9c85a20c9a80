//! The actions, called through an engine on the in-memory store, against a server on
//! loopback that answers as each test says.

use crate::one_node::{answer, run_node, run_with_secret, server};
use serde_json::json;

#[tokio::test]
async fn a_json_answer_is_parsed_and_the_request_carries_a_key() {
    let reply = answer(
        "200 OK",
        "content-type: application/json\r\n",
        r#"{"a":[1]}"#,
    );
    let (url, mut questions) = server(reply).await;
    let parameters =
        json!({ "url": url, "method": "post", "body": { "x": 1 }, "query": { "q": 2 } });
    let node = run_node("http.request", parameters, &["127.0.0.1"]).await;
    assert_eq!(node["status"], "Succeeded", "{node}");
    assert_eq!(node["output"]["status"], 200);
    assert_eq!(node["output"]["body"], json!({ "a": [1] }));
    let question = questions.recv().await.unwrap().to_lowercase();
    assert!(question.starts_with("post /?q=2 "), "{question}");
    assert!(question.contains("idempotency-key: "), "{question}");
    assert!(question.ends_with(r#"{"x":1}"#), "{question}");
}

#[tokio::test]
async fn statuses_decide_what_can_be_retried() {
    for (status, code, retriable) in [
        ("503 Unavailable", "HTTP_503", true),
        ("429 Slow down", "HTTP_429", true),
        ("404 Not Found", "HTTP_404", false),
    ] {
        let (url, _questions) = server(answer(status, "", "why")).await;
        let node = run_node("http.request", json!({ "url": url }), &["127.0.0.1"]).await;
        assert_eq!(node["error"]["code"], code);
        assert_eq!(node["error"]["retriable"], retriable);
        assert_eq!(node["error"]["details"]["body"], "why");
    }
}

#[tokio::test]
async fn failing_until_an_attempt_is_retriable_unless_told_otherwise() {
    for (parameters, retriable) in [
        (json!({}), false),
        (json!({ "retriable": true }), true),
        (json!({ "untilAttempt": 3 }), true),
        (json!({ "untilAttempt": 3, "retriable": false }), false),
    ] {
        let node = run_node("core.fail", parameters.clone(), &[]).await;
        assert_eq!(node["error"]["retriable"], retriable, "{parameters}");
    }
}

#[tokio::test]
async fn private_addresses_are_refused_as_literals_by_name_and_by_redirect() {
    let (url, mut questions) = server(answer("200 OK", "", "")).await;
    let port = url.rsplit(':').next().unwrap().to_owned();
    for address in [url.clone(), format!("http://localhost:{port}/")] {
        let node = run_node("http.request", json!({ "url": address }), &[]).await;
        assert_eq!(node["error"]["code"], "HTTP_ADDRESS_REFUSED", "{node}");
    }
    assert!(questions.try_recv().is_err(), "nothing was reached");
    let redirect = answer("302 Found", "location: http://[::1]:9/\r\n", "");
    let (url, _questions) = server(redirect).await;
    let node = run_node("http.request", json!({ "url": url }), &["127.0.0.1"]).await;
    assert_eq!(node["error"]["code"], "HTTP_ADDRESS_REFUSED", "{node}");
}

#[tokio::test]
async fn an_answer_past_the_limit_fails_the_node() {
    let (url, _questions) = server(answer("200 OK", "", &"x".repeat(10 * 1024 * 1024 + 1))).await;
    let node = run_node("http.request", json!({ "url": url }), &["127.0.0.1"]).await;
    assert_eq!(node["error"]["code"], "OUTPUT_LIMIT", "{node}");
}

#[tokio::test]
async fn bad_parameters_are_named() {
    for (parameters, part) in [
        (json!({ "url": "ftp://example.com" }), "only http and https"),
        (json!({ "url": "no" }), "not a usable address"),
        (
            json!({ "url": "http://example.com", "methd": "GET" }),
            "methd",
        ),
        (
            json!({ "url": "http://example.com", "headers": { "a b": "c" } }),
            "header name",
        ),
    ] {
        let node = run_node("http.request", parameters, &[]).await;
        assert_eq!(node["error"]["code"], "PARAMETERS_INVALID", "{node}");
        assert!(
            node["error"]["message"].as_str().unwrap().contains(part),
            "{node}"
        );
    }
}

#[tokio::test]
async fn a_program_runs_with_its_input_and_environment() {
    let parameters = json!({
        "program": "sh", "args": ["-c", "cat; printf \"$X $WINDLASS_NODE\" >&2"],
        "stdin": { "a": 1 }, "env": { "X": "y" },
    });
    let node = run_node("core.exec", parameters, &[]).await;
    let expected = json!({ "exitCode": 0, "stdout": "{\"a\":1}", "stderr": "y n" });
    assert_eq!(node["output"], expected, "{node}");
}

#[tokio::test]
async fn a_program_that_fails_is_missing_or_slow_says_so() {
    for (parameters, code, part) in [
        (
            json!({ "program": "sh", "args": ["-c", "echo bad >&2; exit 3"] }),
            "EXEC_FAILED",
            "bad",
        ),
        (
            json!({ "program": "no-such-program" }),
            "EXEC_NOT_STARTED",
            "no-such-program",
        ),
        (
            json!({ "program": "sleep", "args": ["9"], "timeoutMs": 20 }),
            "TIMEOUT",
            "sleep",
        ),
    ] {
        let node = run_node("core.exec", parameters, &[]).await;
        assert_eq!(node["error"]["code"], code, "{node}");
        assert!(
            node["error"]["message"].as_str().unwrap().contains(part),
            "{node}"
        );
    }
}

#[tokio::test]
async fn script_outputs_the_value_of_a_bare_expression() {
    let parameters = json!({ "expression": "[1, 2, 3].map(n => ({ n })).filter(x => x.n > 1)" });
    let node = run_node("core.script", parameters, &[]).await;
    assert_eq!(node["output"], json!([{ "n": 2 }, { "n": 3 }]), "{node}");
}

#[tokio::test]
async fn secrets_are_used_and_never_recorded() {
    let secret = "pa\"ss\\wörd-7";
    for (action, parameters, status) in [
        (
            "core.echo",
            json!({ "a": "{{ secrets.X }}", "b": "x {{ secrets.X }}" }),
            "Succeeded",
        ),
        (
            "core.echo",
            json!({ "a": "{{ secrets.X.split('-')[1].padStart(3) }}" }),
            "Succeeded",
        ),
        (
            "core.echo",
            json!({ "a": "{{ duration(secrets.X) }}" }),
            "Failed",
        ),
        (
            "core.fail",
            json!({ "code": "{{ secrets.X }}", "message": "{{ secrets.X }}" }),
            "Failed",
        ),
        (
            "core.exec",
            json!({ "program": "cat", "stdin": { "s": "{{ secrets.X }}" } }),
            "Succeeded",
        ),
    ] {
        let (node, recorded) = run_with_secret(action, parameters, &[], secret).await;
        assert_eq!(node["status"], status, "{node}");
        for form in ["wörd-7", "w\\u00f6rd-7", "ss\\\\w"] {
            assert!(!recorded.contains(form), "{form} in {recorded}");
        }
    }
}

#[tokio::test]
async fn what_is_cleaned_of_secrets_stays_json() {
    let parameters = json!({ "port": "{{ secrets.X }}", "5432": 5432, "other": 15432 });
    let (node, _) = run_with_secret("core.echo", parameters, &[], "5432").await;
    let expected = json!({ "port": "[redacted]", "5432": "[redacted]", "other": 15432 });
    assert_eq!(node["output"], expected);
}

#[tokio::test]
async fn a_program_does_not_outlive_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let line = format!("(sleep 1; touch {}) & wait", mark.display());
    let parameters = json!({ "program": "sh", "args": ["-c", line], "timeoutMs": 100 });
    let node = run_node("core.exec", parameters, &[]).await;
    assert_eq!(node["error"]["code"], "TIMEOUT", "{node}");
    // Long enough for a process that was left behind to have done its work.
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert!(!mark.exists());
}
