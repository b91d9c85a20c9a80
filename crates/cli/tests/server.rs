//! The server from outside: starting runs, watching them, finding them again.

use serde_json::{Value, json};
use windlass_test_support::process::{Client, ECHO, FAIL, ServerProcess, WAIT, World, serving};

fn started() -> (World, ServerProcess, Client) {
    serving(&[ECHO, WAIT, FAIL])
}

/// Many clients write null for what they leave out.
#[test]
fn what_a_start_leaves_out_may_be_null() {
    let (_world, server, client) = started();
    let body = json!({ "requestId": null, "priority": null, "labels": null, "vars": null,
                       "correlationId": null, "tenantId": null, "version": null });
    let run = client.execute("echo", &body);
    assert_eq!(client.ended(&run)["labels"], json!({}));
    server.stop();
}

#[test]
fn a_run_is_published_started_watched_and_read() {
    let (_world, server, client) = started();
    let body = json!({ "trigger": { "say": "hello" }, "priority": 7, "labels": { "team": "a" },
                       "correlationId": "c-1" });
    let answer = client.post("/api/v1/workflows/echo/execute", &body);
    let started = answer.expect(202);
    let run = started.text("executionId");
    let place = format!("/api/v1/executions/{run}");
    assert_eq!(started.header("location"), Some(place.as_str()));
    let started = started.json();
    assert_eq!(started["statusUrl"], place);
    assert_eq!(started["existing"], false);
    let events: Vec<_> = client.events(&run, &[]).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    let expected = [
        "RunQueued",
        "RunStarted",
        "NodeStarted",
        "NodeSucceeded",
        "RunFinished",
    ];
    assert_eq!(kinds[..expected.len()], expected, "{kinds:?}");
    assert_eq!(kinds.last(), Some(&"end"));
    for event in events.iter().filter(|event| event.kind != "end") {
        assert_eq!(event.data["v"], 1, "{event:?}");
        assert_eq!(event.data["kind"], event.kind.as_str());
        assert_eq!(event.data["position"], json!(event.id));
    }
    let shown = client.get(&place).expect(200).json();
    assert_eq!(shown["status"], "Succeeded");
    assert_eq!(shown["priority"], 7);
    assert_eq!(shown["labels"], json!({ "team": "a" }));
    assert_eq!(shown["correlationId"], "c-1");
    assert_eq!(shown["nodes"]["say"]["output"], json!({ "said": "hello" }));
    let node = client.get(&format!("{place}/nodes/say")).expect(200).json();
    assert_eq!(node["actions"][0]["status"], "Succeeded", "{node}");
    let all = client.get(&format!("{place}?include=actions,resources,events"));
    let all = all.expect(200).json();
    for key in ["actions", "resources", "events"] {
        assert!(all[key].is_array(), "{key}: {all}");
    }
    for part in [
        "graph",
        "why",
        "export",
        "verify",
        "log",
        "graph?format=svg",
    ] {
        client.get(&format!("{place}/{part}")).expect(200);
    }
    server.stop();
}

#[test]
fn a_request_id_starts_one_run() {
    let (_world, _server, client) = started();
    let path = "/api/v1/workflows/wait/execute";
    let body = json!({ "requestId": "r-1", "trigger": { "n": 1 } });
    let first = client.post(path, &body).expect(202).json();
    let again = client.post(path, &body).expect(202).json();
    assert_eq!(again["executionId"], first["executionId"]);
    assert_eq!(again["existing"], true);
    let other = json!({ "requestId": "r-1", "trigger": { "n": 2 } });
    client.post(path, &other).refused(409, "REQUEST_ID_REUSED");
    // The header counts where the body says nothing.
    let trigger = json!({ "trigger": { "n": 1 } }).to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "r-1"),
    ];
    let by_header = client.send("POST", path, &headers, Some(trigger.as_bytes()));
    assert_eq!(
        by_header.expect(202).json()["executionId"],
        first["executionId"]
    );
    let headers = [
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "r-2"),
    ];
    let by_body = client.send("POST", path, &headers, Some(body.to_string().as_bytes()));
    assert_eq!(
        by_body.expect(202).json()["executionId"],
        first["executionId"]
    );
    // Another workflow has request ids of its own.
    let body = json!({ "requestId": "r-1", "trigger": { "n": 1 } });
    let elsewhere = client.post("/api/v1/workflows/echo/execute", &body);
    assert_ne!(
        elsewhere.expect(202).json()["executionId"],
        first["executionId"]
    );
}

#[test]
fn many_clients_with_one_request_id_start_one_run() {
    let (_world, _server, client) = started();
    let asking: Vec<_> = (0..16)
        .map(|_| {
            let client = client.clone();
            let body = json!({ "requestId": "same", "trigger": { "say": 1 } });
            std::thread::spawn(move || client.execute("echo", &body))
        })
        .collect();
    let mut runs: Vec<String> = asking.into_iter().map(|it| it.join().unwrap()).collect();
    runs.dedup();
    assert_eq!(runs.len(), 1, "{runs:?}");
}

#[test]
fn a_watcher_goes_on_where_it_stopped() {
    let (_world, server, client) = started();
    let run = client.execute("wait", &json!({}));
    let mut stream = client.events(&run, &[]);
    let seen: Vec<_> = stream
        .by_ref()
        .take_while(|it| it.kind != "NodeWaiting")
        .collect();
    drop(stream);
    let last = seen.last().and_then(|event| event.id).expect("a position");
    let signal = json!({ "name": "go", "payload": 5 });
    let path = format!("/api/v1/executions/{run}/signal");
    client.post(&path, &signal).expect(200);
    let id = last.to_string();
    let rest: Vec<_> = client
        .events(&run, &[("Last-Event-ID", id.as_str())])
        .collect();
    assert_eq!(rest[0].kind, "NodeWaiting", "{rest:?}");
    assert_eq!(rest.last().map(|event| event.kind.as_str()), Some("end"));
    let ids: Vec<u64> = rest.iter().filter_map(|event| event.id).collect();
    assert_eq!(ids[0], last + 1);
    assert!(ids.is_sorted_by(|a, b| a + 1 == *b), "{ids:?}");
    let wrong = client.send(
        "GET",
        &format!("/api/v1/executions/{run}/events"),
        &[("Accept", "text/event-stream"), ("Last-Event-ID", "x")],
        None,
    );
    wrong.refused(400, "HEADER_INVALID");
    // The same, page by page.
    let mut paged = Vec::new();
    let mut next = String::new();
    loop {
        let path = format!("/api/v1/executions/{run}/events?limit=2{next}");
        let page = client.get(&path).expect(200).json();
        let items = page["items"].as_array().expect("items").clone();
        assert!(items.len() <= 2);
        paged.extend(items);
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => break,
        }
    }
    let positions: Vec<u64> = paged
        .iter()
        .filter_map(|it| it["position"].as_u64())
        .collect();
    assert_eq!(positions, (1..=ids[ids.len() - 1]).collect::<Vec<_>>());
    server.stop();
}

#[test]
fn streams_end_when_the_server_does() {
    let (_world, server, client) = started();
    let run = client.execute("wait", &json!({}));
    let mut stream = client.events(&run, &[]);
    assert!(stream.any(|event| event.kind == "NodeWaiting"));
    server.ask_to_stop();
    let rest: Vec<String> = stream.map(|event| event.kind).collect();
    assert_eq!(rest, ["draining"]);
    assert_eq!(server.ended(), Some(0));
}

/// All items of a list, page by page.
fn all(client: &Client, path: &str) -> Vec<Value> {
    let (mut items, mut next) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{path}{next}")).expect(200).json();
        items.extend(page["items"].as_array().expect("items").iter().cloned());
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => return items,
        }
    }
}

#[test]
fn lists_have_pages_filters_and_labels() {
    let (_world, _server, client) = started();
    let mut runs = Vec::new();
    for number in 0..23 {
        let parity = ["even", "odd"][number % 2];
        let labels = json!({ "parity": parity, "third": (number % 3).to_string() });
        let workflow = ["echo", "fail"][number % 2];
        runs.push(client.execute(workflow, &json!({ "labels": labels })));
    }
    for run in &runs {
        client.ended(run);
    }
    let ids = |path: &str| -> Vec<String> {
        let items = all(&client, path);
        let id = |item: &Value| item["executionId"].as_str().expect("an id").to_owned();
        items.iter().map(id).collect()
    };
    let expected = |keep: &dyn Fn(usize) -> bool| -> Vec<String> {
        let kept = (0..runs.len()).rev().filter(|number| keep(*number));
        kept.map(|number| runs[number].clone()).collect()
    };
    let list = "/api/v1/executions?limit=4";
    assert_eq!(ids(list), expected(&|_| true));
    assert_eq!(
        ids(&format!("{list}&workflow=fail")),
        expected(&|n| n % 2 == 1)
    );
    assert_eq!(
        ids(&format!("{list}&status=Failed")),
        expected(&|n| n % 2 == 1)
    );
    assert_eq!(
        ids(&format!("{list}&label=parity%3Deven")),
        expected(&|n| n % 2 == 0)
    );
    let both = format!("{list}&label=parity%3Deven&label=third%3D0");
    assert_eq!(ids(&both), expected(&|n| n % 6 == 0));
    assert_eq!(ids(&format!("{list}&from=1h")).len(), runs.len());
    assert_eq!(ids(&format!("{list}&workflow=gone")), [""; 0]);
    let prefix = client.get(&format!("/api/v1/executions?prefix={}", runs[0]));
    assert_eq!(
        prefix.expect(200).json()["items"][0]["executionId"],
        runs[0].as_str()
    );
    for (query, code) in [
        ("status=Sad", "STATUS_UNKNOWN"),
        ("cursor=xyz", "CURSOR_INVALID"),
        ("label=x", "LABEL_INVALID"),
        ("from=yesterday", "TIME_INVALID"),
        ("colour=red", "QUERY_INVALID"),
        ("limit=-1", "QUERY_INVALID"),
        ("limit=0", "QUERY_INVALID"),
        ("limit=1001", "QUERY_INVALID"),
    ] {
        let answer = client.get(&format!("/api/v1/executions?{query}"));
        answer.refused(400, code);
    }
    assert_eq!(all(&client, "/api/v1/workflows?limit=2").len(), 3);
}

#[test]
fn workflows_are_checked_compared_planned_and_disabled() {
    let (_world, _server, client) = started();
    let wrong = ECHO
        .replace("core.echo", "core.ecko")
        .replace("\"id\": \"say\"", "\"id\": \"s y\"");
    let checked = client.post_text("/api/v1/workflows/validate", &wrong);
    let checked = checked.expect(200).json();
    assert_eq!(checked["valid"], false);
    assert!(checked["problems"][0]["code"].is_string(), "{checked}");
    let refused = client.post_text("/api/v1/workflows", &wrong);
    let refused = refused.refused(422, "DEFINITION_INVALID");
    assert!(
        refused["error"]["details"][0]["line"].is_number(),
        "{refused}"
    );
    let changed = WAIT.replace("\"after\"", "\"then\"");
    let run = client.execute("wait", &json!({}));
    client.wait_for(&run, "NodeWaiting");
    let plan = client.post_text("/api/v1/workflows/wait/plan", &changed);
    let plan = plan.expect(200).json();
    assert_eq!(plan["runs"].as_array().map(Vec::len), Some(1), "{plan}");
    let other = client.post_text("/api/v1/workflows/echo/plan", &changed);
    other.refused(422, "ID_MISMATCH");
    let published = client.post_text("/api/v1/workflows", &changed).expect(201);
    let place = published.header("location").expect("a place").to_owned();
    assert_eq!(published.json()["version"], 2);
    let text = client.get(&place).expect(200).body;
    assert_eq!(String::from_utf8(text).expect("text"), changed);
    client.post_text("/api/v1/workflows", &changed).expect(200);
    let difference = client.get("/api/v1/workflows/wait/diff?from=1&to=2");
    assert!(difference.expect(200).json()["nodes"].is_object());
    let versions = client
        .get("/api/v1/workflows/wait/versions")
        .expect(200)
        .json();
    assert_eq!(versions["items"].as_array().map(Vec::len), Some(2));
    client
        .get("/api/v1/workflows/wait?version=9")
        .refused(404, "VERSION_NOT_FOUND");
    client
        .get("/api/v1/workflows/gone")
        .refused(404, "WORKFLOW_NOT_FOUND");
    client.delete("/api/v1/workflows/wait").expect(200);
    let execute = "/api/v1/workflows/wait/execute";
    client
        .post(execute, &json!({}))
        .refused(409, "WORKFLOW_DISABLED");
    client
        .post("/api/v1/workflows/wait/enable", &json!({}))
        .expect(200);
    client.post(execute, &json!({ "version": 1 })).expect(202);
}
