//! The server from outside: acting on runs, one and many, and what is kept of it.

use serde_json::{Value, json};
use windlass_test_support::process::{Client, ECHO, FAIL, ServerProcess, WAIT, World, serving};

const SAGA: &str = r#"{
  "id": "saga",
  "nodes": [
    { "id": "book", "actionType": "core.echo", "compensate": { "actionType": "core.echo" } },
    { "id": "gate", "dependsOn": ["book"], "waitForSignal": { "name": "go" } }
  ]
}"#;

fn started() -> (World, ServerProcess, Client) {
    serving(&[ECHO, WAIT, FAIL, SAGA])
}

#[track_caller]
fn act(client: &Client, run: &str, command: &str, body: &Value) -> Value {
    let path = format!("/api/v1/executions/{run}/{command}");
    client.post(&path, body).expect(200).json()
}

fn status(client: &Client, run: &str) -> Value {
    let shown = client.get(&format!("/api/v1/executions/{run}"));
    shown.expect(200).json()["status"].clone()
}

#[test]
fn a_run_is_paused_resumed_signalled_and_cancelled() {
    let (_world, _server, client) = started();
    let run = client.waiting("wait");
    let dry = act(&client, &run, "pause", &json!({ "dryRun": true }));
    assert_eq!(dry["would"], "pause");
    assert_eq!(status(&client, &run), "Running");
    let path = format!("/api/v1/executions/{run}/pause");
    let long = json!({ "reason": "y".repeat(4097) });
    client.post(&path, &long).refused(400, "BODY_INVALID");
    let paused = act(
        &client,
        &run,
        "pause",
        &json!({ "reason": "y".repeat(4096) }),
    );
    assert_eq!(paused["status"], "Paused");
    assert_eq!(
        act(&client, &run, "resume", &json!({}))["status"],
        "Running"
    );
    let path = format!("/api/v1/executions/{run}/signal");
    client
        .post(&path, &json!({ "name": "stop" }))
        .refused(409, "SIGNAL_UNKNOWN");
    client.post(&path, &json!({})).refused(400, "BODY_INVALID");
    let dry = act(
        &client,
        &run,
        "signal",
        &json!({ "name": "go", "dryRun": true }),
    );
    assert!(dry["would"].is_string(), "{dry}");
    act(
        &client,
        &run,
        "signal",
        &json!({ "name": "go", "payload": { "x": 1 } }),
    );
    let ended = client.ended(&run);
    assert_eq!(
        ended["nodes"]["after"]["output"],
        json!({ "got": { "x": 1 } })
    );
    let path = format!("/api/v1/executions/{run}/cancel");
    client.post(&path, &json!({})).refused(409, "RUN_ENDED");
    let other = client.waiting("wait");
    // A command without arguments needs no body.
    let path = format!("/api/v1/executions/{other}/cancel");
    client.send("POST", &path, &[], None).expect(200);
    assert_eq!(client.ended(&other)["status"], "Cancelled");
    let gone = format!("/api/v1/executions/{}/cancel", "0".repeat(32));
    client.post(&gone, &json!({})).refused(404, "RUN_NOT_FOUND");
}

#[test]
fn a_failed_run_is_tried_again_skipped_set_and_forked() {
    let (_world, _server, client) = started();
    let failed = || {
        let run = client.execute("fail", &json!({}));
        assert_eq!(client.ended(&run)["status"], "Failed");
        run
    };
    let run = failed();
    let dry = act(&client, &run, "reattempt", &json!({ "dryRun": true }));
    assert!(
        dry["again"]
            .as_array()
            .is_some_and(|it| it.contains(&json!("bad"))),
        "{dry}"
    );
    act(
        &client,
        &run,
        "reattempt",
        &json!({ "nodes": ["bad"], "reason": "once more" }),
    );
    assert_eq!(client.ended(&run)["nodes"]["bad"]["attempts"], 2);
    let path = format!("/api/v1/executions/{run}/reattempt");
    let again = client.post(&path, &json!({ "nodes": ["good"] }));
    assert_eq!(again.status, 409, "{again:?}");
    client
        .post(&path, &json!({ "nodes": ["gone"] }))
        .refused(404, "NODE_NOT_FOUND");
    act(
        &client,
        &run,
        "skip",
        &json!({ "node": "bad", "reason": "no matter" }),
    );
    assert_eq!(client.ended(&run)["status"], "Succeeded");
    let run = failed();
    act(
        &client,
        &run,
        "set-result",
        &json!({ "node": "bad", "output": { "by": "hand" } }),
    );
    let ended = client.ended(&run);
    assert_eq!(ended["status"], "Succeeded");
    assert_eq!(ended["nodes"]["bad"]["output"], json!({ "by": "hand" }));
    let path = format!("/api/v1/executions/{run}/fork");
    let dry = client.post(&path, &json!({ "from": ["last"], "dryRun": true }));
    assert_eq!(dry.expect(200).json()["again"], json!(["last"]));
    let body = json!({ "from": ["bad"], "requestId": "f-1",
                       "set": { "nodes.bad.parameters.untilAttempt": 1 } });
    let forked = client.post(&path, &body).expect(202);
    let fork = client.ended(&forked.text("executionId"));
    assert_eq!(fork["status"], "Succeeded", "{fork}");
    assert_eq!(fork["origin"]["executionId"], run.as_str());
    let again = client.post(&path, &body).expect(202).json();
    assert_eq!(again["executionId"], fork["executionId"]);
    assert_eq!(again["existing"], true);
    // The request id stands for that fork alone.
    let other = json!({ "from": ["last"], "requestId": "f-1" });
    client.post(&path, &other).refused(409, "REQUEST_ID_REUSED");
    client.execute("fail", &json!({ "requestId": "f-2" }));
    let other = json!({ "from": ["bad"], "requestId": "f-2" });
    client.post(&path, &other).refused(409, "REQUEST_ID_REUSED");
    client.post(&path, &json!({ "from": [] })).expect(400);
    client.post(&path, &json!({ "from": ["gone"] })).expect(404);
}

#[test]
fn what_was_done_is_undone() {
    let (_world, _server, client) = started();
    let run = client.waiting("saga");
    let dry = act(
        &client,
        &run,
        "cancel",
        &json!({ "compensate": true, "dryRun": true }),
    );
    assert_eq!(dry["undone"], json!(["book"]));
    act(&client, &run, "cancel", &json!({ "compensate": true }));
    assert_eq!(client.ended(&run)["compensation"], "complete");
    let path = format!("/api/v1/executions/{run}/compensate");
    let again = client.post(&path, &json!({}));
    assert_eq!(again.status, 409, "{again:?}");
    client
        .post(&path, &json!({ "retry": ["a"], "skip": ["b"] }))
        .refused(400, "BODY_INVALID");
    let path = format!("/api/v1/executions/{run}/fork");
    let mut body = json!({ "from": ["gate"], "dryRun": true });
    let dry = client.post(&path, &body).expect(200).json();
    assert_eq!(dry["again"], json!(["gate", "book"]), "{dry}");
    assert_eq!(dry["compensated"][0]["reused"], false, "{dry}");
    body["reuseCompensated"] = true.into();
    let dry = client.post(&path, &body).expect(200).json();
    assert_eq!(dry["again"], json!(["gate"]), "{dry}");
    assert_eq!(dry["compensated"][0]["reused"], true, "{dry}");
}

#[test]
fn a_graph_of_its_own_runs_and_is_replaced() {
    let (_world, _server, client) = started();
    let graph = json!({ "id": "own", "nodes": [
        { "id": "a", "actionType": "core.echo" },
        { "id": "gate", "dependsOn": ["a"], "waitForSignal": { "name": "go" } } ] });
    let run = client
        .post("/api/v1/executions", &graph)
        .expect(202)
        .text("executionId");
    client.wait_for(&run, "NodeWaiting");
    let place = format!("/api/v1/executions/{run}");
    let mut exported = client.get(&format!("{place}/export")).expect(200).json();
    // As it was signed, it starts again; with a trigger beside it, too.
    let body = json!({ "graph": exported, "trigger": { "x": 1 }, "requestId": "g-1" });
    let second = client
        .post("/api/v1/executions", &body)
        .expect(202)
        .text("executionId");
    let again = client.post("/api/v1/executions", &body).expect(202);
    assert_eq!(again.text("executionId"), second);
    let other = json!({ "id": "own", "nodes": [{ "id": "b", "actionType": "core.echo" }] });
    let other = json!({ "graph": other, "trigger": { "x": 1 }, "requestId": "g-1" });
    client
        .post("/api/v1/executions", &other)
        .refused(409, "REQUEST_ID_REUSED");
    let shown = client
        .get(&format!("/api/v1/executions/{second}"))
        .expect(200)
        .json();
    assert_eq!(
        (&shown["graph"], &shown["trigger"]),
        (&json!("frozen"), &json!({ "x": 1 }))
    );
    exported["nodes"]["more"] = json!({ "actionType": "core.echo", "dependsOn": ["a"] });
    client
        .post("/api/v1/executions", &exported)
        .refused(422, "SIGNATURE_MISMATCH");
    let import = format!("{place}/import");
    client
        .post(&import, &exported)
        .refused(422, "SIGNATURE_MISMATCH");
    let unsigned = exported.as_object_mut().expect("a graph");
    unsigned.remove("signature");
    let running = client.post(&import, &exported);
    assert_eq!(running.status, 409, "{running:?}");
    act(&client, &run, "pause", &json!({}));
    let dry = client.post(&format!("{import}?dryRun=true"), &exported);
    assert!(dry.expect(200).json()["would"].is_string());
    client
        .post(&format!("{import}?reason=surgery"), &exported)
        .expect(200);
    let broken = json!({ "version": 1, "nodes": { "a": { "actionTyp": 1 } } });
    client.post(&import, &broken).refused(422, "IMPORT_INVALID");
    act(&client, &run, "resume", &json!({}));
    act(&client, &run, "signal", &json!({ "name": "go" }));
    let ended = client.ended(&run);
    assert_eq!(ended["nodes"]["more"]["status"], "Succeeded", "{ended}");
    // A graph of one run is in no catalogue.
    client
        .get("/api/v1/workflows/own")
        .refused(404, "WORKFLOW_NOT_FOUND");
    client
        .post("/api/v1/executions", &json!({ "nodes": 7 }))
        .expect(422);
    client.post("/api/v1/executions", &json!([])).expect(400);
}

#[test]
fn a_graph_without_an_id_starts_one_run_for_a_request_id() {
    let (_world, _server, client) = started();
    let nodes = json!([{ "id": "n_00000001", "actionType": "core.echo" }]);
    let body = json!({ "graph": { "nodes": nodes }, "requestId": "g-2" });
    let first = client.post("/api/v1/executions", &body).expect(202);
    let first = first.text("executionId");
    // The moment when it was frozen is no part of what was asked for.
    std::thread::sleep(std::time::Duration::from_millis(5));
    let again = client.post("/api/v1/executions", &body).expect(202).json();
    assert_eq!(
        (&again["executionId"], &again["existing"]),
        (&json!(first), &json!(true))
    );
    let shown = client.get(&format!("/api/v1/executions/{first}"));
    assert_eq!(shown.expect(200).json()["labels"], json!({}));
}

#[test]
fn a_refused_definition_is_told_by_its_error_and_not_by_a_warning() {
    let (_world, _server, client) = started();
    let definition = json!({ "id": "m", "nodes": [
        { "id": "a", "actionType": "zz.unknown" },
        { "id": "b", "actionType": "core.echo", "bogus": 1 } ] });
    let refused = client.post("/api/v1/workflows", &definition);
    let refused = refused.refused(422, "DEFINITION_INVALID");
    let message = refused["error"]["message"].as_str().expect("a message");
    assert!(message.contains("bogus"), "{message}");
}

#[test]
fn a_label_that_is_asked_for_with_two_values_is_refused() {
    let (_world, _server, client) = started();
    client
        .get("/api/v1/executions?label=a=1&label=a=2")
        .refused(400, "LABEL_INVALID");
    client
        .get("/api/v1/executions?label=a=1&label=b=2")
        .expect(200);
}

#[test]
fn many_runs_are_acted_on_by_a_job() {
    let (_world, _server, client) = started();
    let mut runs = Vec::new();
    for number in 0..7 {
        let labels = json!({ "batch": if number < 5 { "a" } else { "b" } });
        runs.push(client.execute("wait", &json!({ "labels": labels })));
    }
    for run in &runs {
        client.wait_for(run, "NodeWaiting");
    }
    let job = |body: &Value| {
        let job = client.post("/api/v1/bulk", body).expect(202);
        let place = job.header("location").expect("a place").to_owned();
        assert!(place.ends_with(&job.text("id")), "{place}");
        client.finished(&job.text("id"))
    };
    let filter = json!({ "workflow": "wait", "label": ["batch=a"] });
    let dry = job(&json!({ "action": "cancel", "filter": filter, "dryRun": true }));
    assert_eq!(
        (&dry["done"], &dry["failed"]),
        (&json!(5), &json!(0)),
        "{dry}"
    );
    assert_eq!(status(&client, &runs[0]), "Running");
    let body = json!({ "action": "signal", "name": "go", "value": 1, "filter": filter });
    assert_eq!(job(&body)["done"], 5);
    for run in &runs[..5] {
        assert_eq!(client.ended(run)["status"], "Succeeded");
    }
    assert_eq!(status(&client, &runs[5]), "Running");
    // Two of them have no such node; the answer names each of them.
    let body = json!({ "action": "skip", "node": "gone", "filter": { "label": ["batch=b"] } });
    let told = job(&body);
    assert_eq!(
        (&told["done"], &told["failed"]),
        (&json!(0), &json!(2)),
        "{told}"
    );
    assert_eq!(told["failures"][0]["code"], "NODE_NOT_FOUND");
    let body = json!({ "action": "cancel", "filter": {} });
    assert_eq!(job(&body)["done"], 2);
    client
        .post("/api/v1/bulk", &json!({ "action": "skip", "filter": {} }))
        .expect(400);
    client
        .post(
            "/api/v1/bulk",
            &json!({ "action": "explode", "filter": {} }),
        )
        .expect(400);
    client
        .get("/api/v1/bulk/none")
        .refused(404, "JOB_NOT_FOUND");
}

#[test]
fn every_change_is_in_the_audit() {
    let world = World::new();
    let admin = world.token("root@example", None, "admin");
    let server = world.serve_with(
        &["--auth-keys", "keys.json"],
        &[("WINDLASS_RATE_PER_MINUTE", "0")],
    );
    let client = server.client_with(&admin);
    client.publish(WAIT);
    let run = client.waiting("wait");
    for command in ["pause", "resume", "cancel"] {
        act(&client, &run, command, &json!({ "reason": "because" }));
    }
    client.ended(&run);
    let fork = json!({ "from": ["gate"] });
    let path = format!("/api/v1/executions/{run}/fork");
    client.post(&path, &fork).expect(202);
    client
        .post(
            "/api/v1/executions",
            &serde_json::from_str(ECHO).expect("JSON"),
        )
        .expect(202);
    let job = client.post("/api/v1/bulk", &json!({ "action": "cancel", "filter": {} }));
    client.finished(&job.expect(202).text("id"));
    client.delete("/api/v1/workflows/wait").expect(200);
    client
        .post("/api/v1/workflows/wait/enable", &json!({}))
        .expect(200);
    client.send("POST", "/api/v1/backup", &[], None).expect(200);
    let job = client
        .send("POST", "/api/v1/rebuild", &[], None)
        .expect(202);
    client.finished(&job.text("id"));
    let (mut entries, mut next) = (Vec::new(), String::new());
    loop {
        let page = client
            .get(&format!("/api/v1/audit?limit=5{next}"))
            .expect(200)
            .json();
        entries.extend(page["items"].as_array().expect("items").iter().cloned());
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => break,
        }
    }
    let what: Vec<&str> = entries
        .iter()
        .rev()
        .filter_map(|it| it["what"].as_str())
        .collect();
    let expected = [
        "workflows.publish",
        "workflows.execute",
        "executions.pause",
        "executions.resume",
        "executions.cancel",
        "executions.fork",
        "executions.start",
        "bulk",
        "workflows.disable",
        "workflows.enable",
        "backup",
        "rebuild",
    ];
    assert_eq!(what, expected);
    for entry in &entries {
        assert_eq!(entry["by"], "root@example", "{entry}");
        assert_eq!(entry["from"], "127.0.0.1", "{entry}");
    }
    let paused = entries.iter().find(|it| it["what"] == "executions.pause");
    let paused = paused.expect("an entry");
    assert_eq!(paused["target"], run.as_str());
    assert_eq!(paused["detail"]["reason"], "because");
}

#[test]
fn what_is_refused_is_no_change() {
    let (_world, _server, client) = started();
    let before = client.get("/api/v1/audit").expect(200).json();
    client
        .post("/api/v1/workflows/gone/execute", &json!({}))
        .expect(404);
    client.post_text("/api/v1/workflows", "{}").expect(422);
    client.delete("/api/v1/workflows/gone").expect(404);
    assert_eq!(client.get("/api/v1/audit").expect(200).json(), before);
}
