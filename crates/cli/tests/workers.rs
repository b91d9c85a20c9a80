//! Workers in any language, over HTTP, against the real server: who gets what, what a worker
//! may report, and what becomes of one that lies, is silent, or comes late.

use std::thread;

use serde_json::{Value, json};
use windlass_test_support::process::{Client, HttpAnswer, ServerProcess, World};

/// One node that a worker outside the server does.
const ADD: &str = r#"{
  "id": "add",
  "nodes": [{ "id": "sum", "actionType": "py.add",
              "parameters": { "a": "{{ trigger.a }}", "b": 2 } }]
}"#;

fn poll_body(worker: &str, actions: &[&str], wait_ms: u32) -> Value {
    let actions: Vec<Value> = actions
        .iter()
        .map(|action| json!({ "actionType": action }))
        .collect();
    json!({ "protocol": 1, "worker": worker, "actions": actions, "waitMs": wait_ms })
}

#[track_caller]
fn tasks(client: &Client, body: &Value) -> Vec<Value> {
    let answer = client.post("/api/v1/workers/poll", body).expect(200).json();
    answer["tasks"].as_array().expect("a list").clone()
}

/// The one task that comes for a worker.
#[track_caller]
fn task(client: &Client, worker: &str, action: &str) -> Value {
    let mut tasks = tasks(client, &poll_body(worker, &[action], 30_000));
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    tasks.remove(0)
}

#[track_caller]
fn say(client: &Client, task: &Value, what: &str, body: Value) -> HttpAnswer {
    let id = task["taskId"].as_str().expect("an id");
    let mut body = body;
    if body.get("lease").is_none() {
        body["lease"] = task["lease"].clone();
    }
    client.post(&format!("/api/v1/workers/tasks/{id}/{what}"), &body)
}

#[track_caller]
fn complete(client: &Client, task: &Value, output: Value) -> HttpAnswer {
    say(client, task, "complete", json!({ "output": output }))
}

#[track_caller]
fn refused(answer: HttpAnswer, status: u16, code: &str) {
    let error = answer.expect(status).json();
    assert_eq!(error["error"]["code"], code, "{error}");
}

/// The ends of attempts that a run's log has.
fn ends(client: &Client, run: &str) -> Vec<Value> {
    let path = format!("/api/v1/executions/{run}?include=events");
    let shown = client.get(&path).expect(200).json();
    let events = shown["events"].as_array().expect("a list").clone();
    let kinds = [
        "NodeSucceeded",
        "NodeFailed",
        "NodeSkipped",
        "NodeRetryScheduled",
    ];
    let ends = |event: &Value| kinds.contains(&event["kind"].as_str().unwrap_or_default());
    events.into_iter().filter(ends).collect()
}

fn started(definition: &str, trigger: Value) -> (World, ServerProcess, Client, String) {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let id = client.publish(definition)["workflowId"].clone();
    let run = client.execute(id.as_str().expect("an id"), &json!({ "trigger": trigger }));
    (world, server, client, run)
}

#[test]
fn a_node_is_done_by_a_worker_that_waits_for_it() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(ADD);
    let waiting = {
        let client = client.clone();
        thread::spawn(move || task(&client, "w-1", "py.add"))
    };
    let run = client.execute("add", &json!({ "trigger": { "a": 40 } }));
    let task = waiting.join().expect("a task");
    assert_eq!(task["executionId"], run.as_str());
    assert_eq!(task["workflowId"], "add");
    assert_eq!((&task["version"], &task["attempt"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&task["node"], &task["actionType"]),
        (&json!("sum"), &json!("py.add"))
    );
    assert_eq!(task["parameters"], json!({ "a": 40, "b": 2 }));
    assert_eq!(task["idempotencyKey"], format!("{run}/sum"));
    assert_eq!(task["heartbeatMs"], 3000);
    let left = task["timeoutMs"].as_u64().expect("a number");
    assert!((1..=300_000).contains(&left), "{left}");
    assert!(
        task["deadline"]
            .as_str()
            .is_some_and(|it| it.ends_with('Z'))
    );
    let beat = say(
        &client,
        &task,
        "heartbeat",
        json!({ "details": { "at": 1 } }),
    );
    assert_eq!(beat.expect(200).json(), json!({ "stop": false }));
    let workers = client.get("/api/v1/workers").expect(200).json();
    assert_eq!(workers["items"][0]["worker"], "w-1");
    assert_eq!(workers["items"][0]["tasks"], 1);
    complete(&client, &task, json!({ "sum": 42 })).expect(200);
    let ended = client.ended(&run);
    assert_eq!(ended["status"], "Succeeded");
    assert_eq!(ended["nodes"]["sum"]["output"], json!({ "sum": 42 }));
    let shown = client.get(&format!("/api/v1/executions/{run}?include=actions"));
    let shown = shown.expect(200).json();
    assert_eq!(shown["actions"][0]["worker"], "w-1", "{}", shown["actions"]);
    assert_eq!(
        shown["actions"][0]["parameters"],
        json!({ "a": 40, "b": 2 })
    );
    server.stop();
}

#[test]
fn a_repeated_report_gets_the_first_answer_and_a_contradicting_one_none() {
    let (world, server, client, run) = started(ADD, json!({ "a": 1 }));
    let task = task(&client, "w", "py.add");
    let first = complete(&client, &task, json!("first")).expect(200).json();
    // In memory, after the run has ended, and from the log after a restart.
    assert_eq!(
        complete(&client, &task, json!("second")).expect(200).json(),
        first
    );
    client.ended(&run);
    assert_eq!(
        complete(&client, &task, json!("third")).expect(200).json(),
        first
    );
    let failed = json!({ "code": "NO", "message": "no" });
    say(&client, &task, "fail", failed.clone()).refused(409, "TASK_ENDED");
    server.kill();
    let server = world.serve();
    let client = server.client();
    say(&client, &task, "fail", failed).refused(409, "TASK_ENDED");
    say(&client, &task, "skip", json!({})).refused(409, "TASK_ENDED");
    complete(&client, &task, json!("fourth")).expect(200);
    let shown = client.ended(&run);
    assert_eq!(shown["nodes"]["sum"]["output"], "first");
    assert_eq!(ends(&client, &run).len(), 1);
    let beat = say(&client, &task, "heartbeat", json!({}));
    assert_eq!(
        beat.expect(200).json(),
        json!({ "stop": true }),
        "it has ended"
    );
}

#[test]
fn reports_at_the_same_time_are_one_report() {
    let (_world, _server, client, run) = started(ADD, json!({ "a": 1 }));
    let task = task(&client, "w", "py.add");
    let answers: Vec<_> = (0..16)
        .map(|n| {
            let (client, task) = (client.clone(), task.clone());
            thread::spawn(move || complete(&client, &task, json!(n)).status)
        })
        .collect();
    for answer in answers {
        assert_eq!(answer.join().expect("an answer"), 200);
    }
    client.ended(&run);
    assert_eq!(ends(&client, &run).len(), 1);
}

#[test]
fn what_a_worker_makes_up_is_refused_by_name() {
    let (_world, _server, client, run) = started(ADD, json!({ "a": 1 }));
    let mine = task(&client, "w", "py.add");
    let with = |field: &str, text: &str| {
        let mut task = mine.clone();
        task[field] = json!(text);
        complete(&client, &task, json!("a lie"))
    };
    let id = mine["taskId"].as_str().expect("an id");
    let lease = mine["lease"].as_str().expect("a lease");
    let last = if lease.ends_with('0') { "1" } else { "0" };
    let forged = format!("{}{last}", &lease[..lease.len() - 1]);
    refused(with("lease", "made up"), 409, "LEASE_LOST");
    refused(with("lease", ""), 409, "LEASE_LOST");
    refused(with("lease", &forged), 409, "LEASE_LOST");
    let other_attempt = format!("{}.2", id.rsplit_once('.').expect("an attempt").0);
    let other_node = format!("{run}.77.1");
    let other_run = id.replacen(&run, "01920000-0000-7000-8000-000000000001", 1);
    for unknown in [
        &*other_attempt,
        &other_node,
        &other_run,
        "x",
        "a.b.c",
        "%2e%2e",
    ] {
        refused(with("taskId", unknown), 404, "TASK_NOT_FOUND");
    }
    for what in ["heartbeat", "fail", "skip"] {
        let body = json!({ "lease": forged, "code": "X", "message": "x" });
        let body = match what {
            "fail" => body,
            _ => json!({ "lease": forged }),
        };
        refused(say(&client, &mine, what, body), 409, "LEASE_LOST");
    }
    let nested = format!(
        "{{\"lease\":\"{lease}\",\"output\":{}1{}}}",
        "[".repeat(200),
        "]".repeat(200)
    );
    let path = format!("/api/v1/workers/tasks/{id}/complete");
    client.post_text(&path, nested).expect(200);
    let shown = client.ended(&run);
    assert_eq!(shown["nodes"]["sum"]["error"]["code"], "NESTING_LIMIT");
    assert_eq!(ends(&client, &run).len(), 1);
}

#[test]
fn nothing_is_known_of_another_tenants_tasks() {
    let world = World::new();
    let scopes = "workflows:read,workflows:execute,workflows:manage,workflows:work";
    let tokens = [
        world.token("a", Some("first"), scopes),
        world.token("b", Some("second"), scopes),
        world.token("c", None, scopes),
        world.token("d", Some("first"), "workflows:read,workflows:execute"),
    ];
    let variables = [("WINDLASS_RATE_PER_MINUTE", "0")];
    let server = world.serve_with(&["--auth-keys", "keys.json"], &variables);
    let [first, second, none, reader] = tokens.map(|token| server.client_with(&token));
    first.publish(ADD);
    let run = first.execute("add", &json!({ "trigger": { "a": 1 } }));
    for other in [&second, &none] {
        assert!(tasks(other, &poll_body("o", &["py.add"], 0)).is_empty());
    }
    let mine = task(&first, "w", "py.add");
    for other in [&second, &none] {
        refused(complete(other, &mine, json!(1)), 404, "TASK_NOT_FOUND");
        let beat = say(other, &mine, "heartbeat", json!({}));
        refused(beat, 404, "TASK_NOT_FOUND");
        let workers = other.get("/api/v1/workers").expect(200).json();
        let names: Vec<_> = workers["items"]
            .as_array()
            .expect("a list")
            .iter()
            .collect();
        assert!(names.iter().all(|it| it["worker"] == "o"), "{workers}");
    }
    refused(complete(&reader, &mine, json!(1)), 403, "FORBIDDEN");
    let polled = reader.post("/api/v1/workers/poll", &poll_body("r", &["py.add"], 0));
    refused(polled, 403, "FORBIDDEN");
    complete(&first, &mine, json!(1)).expect(200);
    assert_eq!(first.ended(&run)["status"], "Succeeded");
    for other in [&second, &none] {
        refused(complete(other, &mine, json!(1)), 404, "TASK_NOT_FOUND");
    }
}

#[test]
fn an_attempt_that_fails_is_retried_under_the_same_key_or_ends_the_node() {
    let definition = r#"{
      "id": "tries",
      "nodes": [
        { "id": "again", "actionType": "py.try",
          "policies": { "retry": { "maxAttempts": 5, "baseDelayMs": 1 } } },
        { "id": "none", "actionType": "py.skip" }
      ]
    }"#;
    let (_world, _server, client, run) = started(definition, json!({}));
    let first = task(&client, "w", "py.try");
    let error = json!({ "code": "BUSY", "message": "try again", "retriable": true,
                        "retryAfterMs": 1, "details": { "queue": 3 } });
    say(&client, &first, "fail", error.clone()).expect(200);
    let second = task(&client, "w", "py.try");
    assert_eq!(
        (&first["attempt"], &second["attempt"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(first["idempotencyKey"], second["idempotencyKey"]);
    assert_ne!(first["taskId"], second["taskId"]);
    // The first attempt has its answer, whatever became of the node.
    say(&client, &first, "fail", error).expect(200);
    let last = json!({ "code": "not a code!", "message": "for good" });
    say(&client, &second, "fail", last).expect(200);
    let skipped = task(&client, "w", "py.skip");
    say(&client, &skipped, "skip", json!({})).expect(200);
    let ended = client.ended(&run);
    assert_eq!(ended["nodes"]["again"]["attempts"], 2);
    assert_eq!(
        ended["nodes"]["again"]["error"]["code"],
        "ERROR_CODE_INVALID"
    );
    assert_eq!(ended["nodes"]["none"]["status"], "Skipped");
}

#[test]
fn an_attempt_that_runs_out_of_time_is_told_to_stop() {
    let definition = r#"{
      "id": "slow",
      "nodes": [{ "id": "n", "actionType": "py.slow", "policies": { "timeoutMs": 300 } }]
    }"#;
    let (_world, _server, client, run) = started(definition, json!({}));
    let slow = task(&client, "w", "py.slow");
    assert!(slow["timeoutMs"].as_u64().is_some_and(|left| left <= 300));
    assert_eq!(client.ended(&run)["nodes"]["n"]["error"]["code"], "TIMEOUT");
    let beat = say(&client, &slow, "heartbeat", json!({}));
    assert_eq!(beat.expect(200).json(), json!({ "stop": true }));
    refused(complete(&client, &slow, json!(1)), 409, "TASK_ENDED");
    assert_eq!(ends(&client, &run).len(), 1);
}

#[test]
fn a_cancelled_attempt_is_told_to_stop_and_may_still_report() {
    let (_world, _server, client, run) = started(ADD, json!({ "a": 1 }));
    let mine = task(&client, "w", "py.add");
    client
        .post(&format!("/api/v1/executions/{run}/cancel"), &json!({}))
        .expect(200);
    let beat = say(&client, &mine, "heartbeat", json!({}));
    assert_eq!(beat.expect(200).json(), json!({ "stop": true }));
    let stopped = json!({ "code": "STOPPED", "message": "asked to" });
    say(&client, &mine, "fail", stopped).expect(200);
    let ended = client.ended(&run);
    assert_eq!(ended["status"], "Cancelled");
    assert_eq!(ended["nodes"]["sum"]["status"], "Cancelled");
}

#[test]
fn what_waits_for_a_worker_is_cancelled_at_once() {
    let (_world, _server, client, run) = started(ADD, json!({ "a": 1 }));
    client.wait_for(&run, "RunStarted");
    client
        .post(&format!("/api/v1/executions/{run}/cancel"), &json!({}))
        .expect(200);
    assert_eq!(client.ended(&run)["status"], "Cancelled");
    assert!(tasks(&client, &poll_body("w", &["py.add"], 0)).is_empty());
}

#[test]
fn a_silent_workers_task_goes_to_another_under_the_same_attempt() {
    let (_world, _server, client, run) = started(ADD, json!({ "a": 1 }));
    let lost = task(&client, "silent", "py.add");
    let found = task(&client, "other", "py.add");
    for same in [
        "taskId",
        "attempt",
        "idempotencyKey",
        "parameters",
        "deadline",
    ] {
        assert_eq!(lost[same], found[same], "{same}");
    }
    assert_ne!(lost["lease"], found["lease"]);
    assert!(
        found["timeoutMs"].as_u64() < lost["timeoutMs"].as_u64(),
        "what remains"
    );
    refused(complete(&client, &lost, json!("late")), 409, "LEASE_LOST");
    refused(
        say(&client, &lost, "heartbeat", json!({})),
        409,
        "LEASE_LOST",
    );
    complete(&client, &found, json!("in time")).expect(200);
    refused(complete(&client, &lost, json!("later")), 409, "LEASE_LOST");
    assert_eq!(client.ended(&run)["nodes"]["sum"]["output"], "in time");
    assert_eq!(ends(&client, &run).len(), 1);
}

#[test]
fn a_task_that_was_lost_with_its_answer_comes_again() {
    let (_world, _server, client, run) = started(ADD, json!({ "a": 1 }));
    let lost = task(&client, "w", "py.add");
    let mut body = poll_body("w", &["py.add"], 0);
    body["holding"] = json!([lost["taskId"]]);
    assert!(tasks(&client, &body).is_empty(), "it is held");
    body["holding"] = json!(["nonsense"]);
    let again = tasks(&client, &body).remove(0);
    assert_eq!(again["taskId"], lost["taskId"]);
    refused(complete(&client, &lost, json!(1)), 409, "LEASE_LOST");
    complete(&client, &again, json!(2)).expect(200);
    assert_eq!(client.ended(&run)["nodes"]["sum"]["output"], 2);
}

#[test]
fn a_worker_goes_on_over_a_restart_until_another_has_its_task() {
    let (world, server, client, run) = started(ADD, json!({ "a": 1 }));
    let other_run = client.execute("add", &json!({ "trigger": { "a": 2 } }));
    let (mine, lost) = (task(&client, "w", "py.add"), task(&client, "w", "py.add"));
    server.kill();
    let server = world.serve();
    let client = server.client();
    let beat = say(&client, &mine, "heartbeat", json!({}));
    assert_eq!(beat.expect(200).json(), json!({ "stop": false }));
    // The heartbeats keep the task from others; the other one is free after a lease.
    let found = loop {
        let found = tasks(&client, &poll_body("new", &["py.add"], 2_000));
        let beat = say(&client, &mine, "heartbeat", json!({}));
        assert_eq!(beat.expect(200).json(), json!({ "stop": false }));
        if let Some(found) = found.into_iter().next() {
            break found;
        }
    };
    assert_eq!(found["taskId"], lost["taskId"]);
    assert!(tasks(&client, &poll_body("new", &["py.add"], 0)).is_empty());
    refused(complete(&client, &lost, json!("late")), 409, "LEASE_LOST");
    complete(&client, &mine, json!("mine")).expect(200);
    complete(&client, &found, json!("found")).expect(200);
    assert_eq!(client.ended(&run)["nodes"]["sum"]["output"], "mine");
    assert_eq!(client.ended(&other_run)["nodes"]["sum"]["output"], "found");
}

#[test]
fn a_report_under_an_old_lease_counts_if_no_other_was_given() {
    let (world, server, client, run) = started(ADD, json!({ "a": 1 }));
    let mine = task(&client, "w", "py.add");
    server.kill();
    let server = world.serve();
    let client = server.client();
    refused(
        say(&client, &mine, "complete", json!({ "lease": "made up" })),
        409,
        "LEASE_LOST",
    );
    complete(&client, &mine, json!("done")).expect(200);
    assert_eq!(client.ended(&run)["nodes"]["sum"]["output"], "done");
}

#[test]
fn a_run_outlives_any_number_of_crashes_while_a_worker_has_its_task() {
    let (world, mut server, client, run) = started(ADD, json!({ "a": 1 }));
    let mine = task(&client, "w", "py.add");
    for _ in 0..5 {
        server.kill();
        server = world.serve();
        let beat = say(&server.client(), &mine, "heartbeat", json!({}));
        assert_eq!(beat.expect(200).json(), json!({ "stop": false }));
    }
    let client = server.client();
    complete(&client, &mine, json!("done")).expect(200);
    assert_eq!(client.ended(&run)["status"], "Succeeded");
}

#[test]
fn an_output_past_the_limit_fails_the_node() {
    let (_world, _server, client, run) = started(ADD, json!({ "a": 1 }));
    let mine = task(&client, "w", "py.add");
    let large = "x".repeat(11 * 1024 * 1024);
    complete(&client, &mine, json!(large)).expect(200);
    let ended = client.ended(&run);
    assert_eq!(ended["nodes"]["sum"]["error"]["code"], "OUTPUT_LIMIT");
    let huge = "x".repeat(32 * 1024 * 1024);
    let path = format!(
        "/api/v1/workers/tasks/{}/complete",
        mine["taskId"].as_str().expect("an id")
    );
    let body = json!({ "lease": mine["lease"], "output": huge }).to_string();
    let headers = [("Content-Type", "application/json")];
    let again = client.try_send("POST", &path, &headers, Some(body.as_bytes()));
    let again = again.expect("the answer can be read");
    assert_eq!(again.status, 200, "the same answer");
}

#[test]
fn declarations_are_checked_and_remembered() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let declared = |actions: Value| {
        let body = json!({ "protocol": 1, "worker": "w", "actions": actions });
        client.post("/api/v1/workers/poll", &body)
    };
    // The server has no core.exec unless it is allowed; the name is the server's all the same.
    for own in ["http.request", "core.exec", "core.unknown"] {
        let answer = declared(json!([{ "actionType": own }]));
        refused(answer, 403, "ACTION_RESERVED");
    }
    let many: Vec<Value> = (0..1001)
        .map(|n| json!({ "actionType": format!("t.{n}") }))
        .collect();
    refused(declared(json!(many)), 409, "TOO_MANY_ACTIONS");
    let mut defs = serde_json::Map::new();
    for n in 0..40 {
        let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
        defs.insert(
            format!("d{n}"),
            json!({ "allOf": [next, next, next, next] }),
        );
    }
    defs.insert("d40".to_owned(), json!({}));
    let refs = json!({ "$ref": "#/$defs/d0", "$defs": defs });
    for schema in [refs, json!({ "description": "x".repeat(70_000) })] {
        let answer = declared(json!([{ "actionType": "t.bomb", "parametersSchema": schema }]));
        refused(answer, 422, "SCHEMA_LIMIT");
    }
    let wrong = json!({ "type": "nothing" });
    let answer = declared(json!([{ "actionType": "t.wrong", "parametersSchema": wrong }]));
    refused(answer, 422, "SCHEMA_INVALID");
    let schema = json!({ "type": "object", "properties": { "a": { "type": "number" } } });
    let add = json!([{ "actionType": "py.add", "parametersSchema": schema,
                       "description": "Adds two numbers" }]);
    declared(add).expect(200);
    for bad in [
        json!({}),
        json!({ "protocol": 1, "worker": "w", "actions": [] }),
    ] {
        let status = client.post("/api/v1/workers/poll", &bad).status;
        assert!(matches!(status, 400 | 422), "{status}");
    }
    let other = json!({ "protocol": 2, "worker": "w", "actions": [{ "actionType": "a" }] });
    refused(
        client.post("/api/v1/workers/poll", &other),
        400,
        "PROTOCOL_UNSUPPORTED",
    );
    server.kill();
    let server = world.serve();
    let listed = world.run(&[
        "--server",
        &format!("http://{}", server.address()),
        "--json",
        "actions",
    ]);
    let listed = listed.expect(0).json();
    let names: Vec<&str> = listed
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    assert!(
        names.contains(&"py.add") && !names.iter().any(|it| it.starts_with("t.")),
        "{names:?}"
    );
    let beside = world.run(&["actions", "py.add"]).expect(0).stdout;
    assert!(beside.contains("Adds two numbers"), "{beside}");
    // Parameters that do not fit fail their node before a worker sees them.
    let client = server.client();
    client.publish(ADD);
    let run = client.execute("add", &json!({ "trigger": { "a": "text" } }));
    client.wait_for(&run, "RunStarted");
    assert!(tasks(&client, &poll_body_with(&schema)).is_empty());
    let error = client.ended(&run)["nodes"]["sum"]["error"].clone();
    assert_eq!(error["code"], "PARAMETERS_INVALID", "{error}");
}

fn poll_body_with(schema: &Value) -> Value {
    json!({ "protocol": 1, "worker": "w", "waitMs": 2000,
            "actions": [{ "actionType": "py.add", "parametersSchema": schema,
                          "description": "Adds two numbers" }] })
}

#[test]
fn an_undeclared_action_fails_after_a_while_and_a_declared_one_waits() {
    let world = World::new();
    let variables = [("WINDLASS_UNKNOWN_ACTION_WAIT", "300ms")];
    let server = world.serve_with(&[], &variables);
    let client = server.client();
    client.publish(ADD);
    let run = client.execute("add", &json!({ "trigger": { "a": 1 } }));
    let ended = client.ended(&run);
    assert_eq!(ended["nodes"]["sum"]["error"]["code"], "UNKNOWN_ACTION");
    assert!(tasks(&client, &poll_body("w", &["py.add"], 0)).is_empty());
    let run = client.execute("add", &json!({ "trigger": { "a": 1 } }));
    client.wait_for(&run, "RunStarted");
    server.kill();
    let server = world.serve_with(&[], &variables);
    let why = world.run(&[
        "--server",
        &format!("http://{}", server.address()),
        "--json",
        "why",
        &run,
    ]);
    let why = why.expect(0).json();
    let node = &why["nodes"][0];
    let reason = node["reason"].as_str().expect("a sentence");
    assert!(
        reason.contains("no worker polls for py.add; last seen "),
        "{reason}"
    );
    assert!(reason.contains("ago"), "{reason}");
    assert_eq!(node["work"]["actionType"], "py.add");
    assert!(node["work"]["lastSeenAt"].is_string());
    let beside = world.run(&["why", &run]).expect(0).stdout;
    assert!(beside.contains("no worker polls for py.add"), "{beside}");
    let client = server.client();
    complete(&client, &task(&client, "w", "py.add"), json!(3)).expect(200);
    assert_eq!(client.ended(&run)["status"], "Succeeded");
}

#[test]
fn a_worker_that_starts_second_is_in_time() {
    let (_world, _server, client, run) = started(ADD, json!({ "a": 1 }));
    client.wait_for(&run, "RunStarted");
    complete(&client, &task(&client, "w", "py.add"), json!(3)).expect(200);
    assert_eq!(client.ended(&run)["status"], "Succeeded");
}

#[test]
fn labels_slots_and_priorities_decide_who_gets_what() {
    let definition = r#"{
      "id": "labelled",
      "nodes": [{ "id": "n", "actionType": "py.act", "requires": ["gpu"] }]
    }"#;
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(definition);
    client.publish(&ADD.replace("py.add", "py.act"));
    let labelled = client.execute("labelled", &json!({}));
    let runs: Vec<String> = [1, 9, 5]
        .iter()
        .map(|priority| {
            let run = client.execute(
                "add",
                &json!({ "priority": priority, "trigger": { "a": 1 } }),
            );
            client.wait_for(&run, "RunStarted");
            run
        })
        .collect();
    let mut body = poll_body("w", &["py.act"], 5000);
    body["slots"] = json!(2);
    let got = tasks(&client, &body);
    let of = |task: &Value| task["executionId"].as_str().expect("a run").to_owned();
    assert_eq!(
        got.iter().map(of).collect::<Vec<_>>(),
        [runs[1].clone(), runs[2].clone()]
    );
    body["slots"] = json!(10);
    let rest = tasks(&client, &body);
    assert_eq!(rest.iter().map(of).collect::<Vec<_>>(), [runs[0].clone()]);
    let why = world.run(&["why", &labelled]).expect(0).stdout;
    assert!(
        why.contains("no worker with the label gpu polls for py.act"),
        "{why}"
    );
    body["labels"] = json!(["gpu", "eu"]);
    let able = tasks(&client, &body);
    assert_eq!(able.iter().map(of).collect::<Vec<_>>(), [labelled]);
}

#[test]
fn secrets_reach_the_worker_alone() {
    let definition = r#"{
      "id": "secret",
      "nodes": [{ "id": "n", "actionType": "py.use",
                  "parameters": { "key": "{{ secrets.TOKEN }}" } }]
    }"#;
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let secret = json!({ "name": "TOKEN", "value": "hush-hush-4711" });
    client.post("/api/v1/secrets", &secret).expect(200);
    client.publish(definition);
    let hidden = |client: &Client, run: &str| {
        client.ended(run);
        let path = format!("/api/v1/executions/{run}?include=actions,events");
        let shown = client.get(&path).expect(200);
        let text = String::from_utf8(shown.body).expect("text");
        assert!(
            text.contains("said") && !text.contains("hush-hush"),
            "{text}"
        );
    };
    let said = json!({ "said": "hush-hush-4711" });
    let run = client.execute("secret", &json!({}));
    let mine = task(&client, "w", "py.use");
    assert_eq!(mine["parameters"]["key"], "hush-hush-4711");
    complete(&client, &mine, said.clone()).expect(200);
    hidden(&client, &run);
    // A server that did not give it out knows what it must not record, too.
    let run = client.execute("secret", &json!({}));
    let mine = task(&client, "w", "py.use");
    server.kill();
    let server = world.serve();
    let client = server.client();
    complete(&client, &mine, said).expect(200);
    hidden(&client, &run);
}

#[test]
fn nothing_of_a_paused_run_is_given_out() {
    let (_world, _server, client, run) = started(ADD, json!({ "a": 1 }));
    client.wait_for(&run, "RunStarted");
    let act = |what: &str| client.post(&format!("/api/v1/executions/{run}/{what}"), &json!({}));
    act("pause").expect(200);
    assert!(tasks(&client, &poll_body("w", &["py.add"], 300)).is_empty());
    act("resume").expect(200);
    let mine = task(&client, "w", "py.add");
    act("pause").expect(200);
    // Running work ends.
    complete(&client, &mine, json!(1)).expect(200);
    assert_eq!(client.ended(&run)["status"], "Succeeded");
}

#[test]
fn a_report_for_a_run_that_was_paused_before_a_restart_counts() {
    let (world, server, client, run) = started(ADD, json!({ "a": 1 }));
    let mine = task(&client, "w", "py.add");
    client
        .post(&format!("/api/v1/executions/{run}/pause"), &json!({}))
        .expect(200);
    server.kill();
    let server = world.serve();
    let client = server.client();
    assert!(tasks(&client, &poll_body("v", &["py.add"], 300)).is_empty());
    let beat = say(&client, &mine, "heartbeat", json!({}));
    assert_eq!(beat.expect(200).json(), json!({ "stop": false }));
    complete(&client, &mine, json!("done")).expect(200);
    complete(&client, &mine, json!("again")).expect(200);
    let shown = client.ended(&run);
    assert_eq!(shown["nodes"]["sum"]["output"], "done");
    assert_eq!(ends(&client, &run).len(), 1);
}

#[test]
fn a_server_that_stops_lets_waiting_workers_go() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let waiting = {
        let client = client.clone();
        thread::spawn(move || tasks(&client, &poll_body("w", &["py.add"], 30_000)))
    };
    while client.get("/api/v1/workers").expect(200).json()["items"]
        .as_array()
        .is_none_or(Vec::is_empty)
    {
        thread::yield_now();
    }
    server.stop();
    assert!(waiting.join().expect("an answer").is_empty());
}

/// The worker of docs/workers.md, as it stands there.
fn shell_worker() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/workers.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, rest) = page.split_once("```sh worker\n").expect("the worker");
    rest.split_once("```").expect("its end").0.to_owned()
}

#[test]
fn the_worker_of_the_documentation_works() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(ADD);
    std::fs::write(world.path().join("worker.sh"), shell_worker()).expect("a file");
    let mut worker = std::process::Command::new("sh")
        .arg("worker.sh")
        .current_dir(world.path())
        .env("WINDLASS_URL", format!("http://{}", server.address()))
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("sh runs");
    let sums = [40, 1].map(|a| {
        let run = client.execute("add", &json!({ "trigger": { "a": a } }));
        client.ended(&run)["nodes"]["sum"]["output"]["sum"].clone()
    });
    worker.kill().expect("it lives");
    worker.wait().expect("it ends");
    assert_eq!(sums, [json!(42), json!(3)]);
}
