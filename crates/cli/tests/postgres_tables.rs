//! The tables of a database as people read them with SQL, and what SQL may ask for.

use serde_json::{Value, json};
use windlass_test_support::postgres::server as database;
use windlass_test_support::process::{Client, ECHO, FAIL, ServerProcess, World};

fn serve(world: &World, url: &str) -> (ServerProcess, Client) {
    let arguments = ["--backend", "postgres", "--postgres-url", url];
    let server = world.serve_with(&arguments, &[("WINDLASS_RATE_PER_MINUTE", "0")]);
    let client = server.client();
    (server, client)
}

/// The rows of a statement, through `windlass query`.
fn rows(world: &World, url: &str, sql: &str) -> Vec<Value> {
    let answer = world
        .run(&["query", sql, "--postgres-url", url, "--json"])
        .expect(0)
        .json();
    answer["rows"].as_array().expect("a list").clone()
}

/// Asks until a statement has these rows: tables behind the log follow soon.
#[track_caller]
fn until(world: &World, url: &str, sql: &str, expected: &Value) {
    for _ in 0..600 {
        if Value::Array(rows(world, url, sql)) == *expected {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{sql} gives {:?}, not {expected}", rows(world, url, sql));
}

/// The first row of a statement that may write, as text.
fn first_row(url: &str, sql: &str) -> Result<Vec<String>, String> {
    let (plain, schema) = url.split_once("?schema=").expect("a schema");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let connected = tokio_postgres::connect(plain, tokio_postgres::NoTls).await;
        let (client, connection) = connected.expect("a connection");
        tokio::spawn(connection);
        let path = format!("set search_path to {schema}");
        client.batch_execute(&path).await.expect("a schema");
        let messages = client.simple_query(sql).await;
        let messages = messages.map_err(|error| format!("{error:?}"))?;
        let row = messages.into_iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let row = row.expect("a row");
        let values = (0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned());
        Ok(values.collect())
    })
}

#[test]
fn attempts_events_and_plans_are_read_with_sql() {
    let world = World::new();
    let url = database().fresh();
    let (_server, client) = serve(&world, &url);
    client.publish(ECHO);
    client.publish(FAIL);
    let large = "x".repeat(10_000);
    let echo = client.execute("echo", &json!({ "trigger": { "say": large } }));
    let odd = client.execute("echo", &json!({ "trigger": { "say": "a\u{0}b" } }));
    let failed = client.execute("fail", &json!({ "correlationId": "c-1" }));
    for run in [&echo, &odd, &failed] {
        client.ended(run);
    }
    until(
        &world,
        &url,
        &format!(
            "select node_id, action_type, status, attempt, retry_count from action_executions \
             where execution = '{failed}' order by start_time, node_id"
        ),
        &json!([
            { "node_id": "good", "action_type": "core.echo", "status": "Succeeded",
              "attempt": 1, "retry_count": 0 },
            { "node_id": "bad", "action_type": "core.fail", "status": "Failed",
              "attempt": 1, "retry_count": 0 },
        ]),
    );
    // The same events as the API has, each once.
    for run in [&echo, &odd, &failed] {
        let shown = client.get(&format!("/api/v1/executions/{run}?include=events"));
        let shown = shown.expect(200).json();
        let events = shown["events"].as_array().expect("events");
        let kinds = events.iter().map(|event| {
            json!({ "kind": event["kind"], "level": event["level"],
                    "category": event["category"], "position": event["position"] })
        });
        until(
            &world,
            &url,
            &format!(
                "select data->>'kind' as kind, level, category, position from execution_events \
                 where execution = '{run}' order by position"
            ),
            &kinds.collect(),
        );
    }
    // What does not fit a column is named there, and can be read.
    for (run, said) in [(&echo, &*large), (&odd, "a\u{0}b")] {
        let row = &rows(
            &world,
            &url,
            &format!(
                "select outputs_json ? '$reference' as named, value_text(outputs_json) as output \
                 from action_executions where execution = '{run}'"
            ),
        )[0];
        assert_eq!(row["named"], true, "{row}");
        let output: Value =
            serde_json::from_str(row["output"].as_str().expect("text")).expect("JSON");
        assert_eq!(output["said"], *said);
    }
    let row = &rows(
        &world,
        &url,
        &format!(
            "select trigger_payload_json as trigger, context_snapshot_json as context, \
             correlation_id from workflow_executions where id = '{failed}'"
        ),
    )[0];
    assert_eq!(row["trigger"], json!({}), "{row}");
    assert_eq!(
        row["context"],
        json!({ "vars": {}, "output": null }),
        "{row}"
    );
    assert_eq!(row["correlation_id"], "c-1", "{row}");
    until(
        &world,
        &url,
        "select workflow, jsonb_array_length(plan_json->'nodes') as nodes from workflow_plans \
         order by workflow",
        &json!([{ "workflow": "echo", "nodes": 1 }, { "workflow": "fail", "nodes": 3 }]),
    );
    until(
        &world,
        &url,
        &format!(
            "select node_id, state, outcome, ancestry_hash is not null as hashed \
             from step_executions where execution = '{failed}' order by started_at, node_id"
        ),
        &json!([
            { "node_id": "good", "state": "completed", "outcome": "Succeeded", "hashed": true },
            { "node_id": "bad", "state": "failed", "outcome": "Failed", "hashed": true },
        ]),
    );
    the_lag_is_told(&world, &client, &url);
}

/// By `doctor` and by the metrics.
fn the_lag_is_told(world: &World, client: &Client, url: &str) {
    let report = world.run(&["doctor", "--postgres-url", url, "--json"]);
    let report = report.expect(0).json();
    let findings = report["findings"].as_array().expect("a list");
    assert!(
        findings
            .iter()
            .any(|it| it["check"] == "projection lag (ms)"),
        "{report}"
    );
    let metrics = client.get("/metrics").expect(200);
    let page = String::from_utf8_lossy(&metrics.body);
    assert!(page.contains("windlass_projection_lag_seconds"), "{page}");
}

#[test]
fn a_projector_that_dies_is_followed_by_one_that_leaves_no_gap() {
    let world = World::new();
    let url = database().fresh();
    let (killed, client) = serve(&world, &url);
    client.publish(ECHO);
    let runs: Vec<String> = (0..20)
        .map(|_| client.execute("echo", &json!({})))
        .collect();
    for run in &runs {
        client.ended(run);
    }
    killed.kill();
    // The lease of the dead one is taken when it is over.
    first_row(&url, "update projector set until_ms = 0 returning 1").expect("a row");
    let (_server, client) = serve(&world, &url);
    let run = client.execute("echo", &json!({}));
    client.ended(&run);
    until(
        &world,
        &url,
        "select (select count(*) from action_executions) as attempts, \
         (select count(distinct execution) from execution_events) as runs, \
         (select count(*) from projection_queue) as waiting",
        &json!([{ "attempts": 21, "runs": 21, "waiting": 0 }]),
    );
}

#[test]
fn a_run_that_sql_asks_for_runs_to_its_end_once() {
    let world = World::new();
    let url = database().fresh();
    let (_server, client) = serve(&world, &url);
    client.publish(ECHO);
    let start = "select * from sp_start_workflow_execution('echo', 'r-1', '{\"say\": \"sql\"}')";
    let first = first_row(&url, start).expect("a row");
    let again = first_row(&url, start).expect("a row");
    assert_eq!((&*first[1], &*again[1]), ("f", "t"));
    assert_eq!(first[0], again[0]);
    client.until(
        &format!("/api/v1/executions/{}", first[0]),
        |status, run| {
            status == 200 && run["status"] == "Succeeded" && run["trigger"]["say"] == "sql"
        },
    );
    // The request id is the API's too: the same trigger is the same request.
    let body = json!({ "requestId": "r-1", "trigger": { "say": "sql" } });
    let path = "/api/v1/workflows/echo/execute";
    let answer = client.post(path, &body);
    assert_eq!(answer.json()["executionId"], *first[0], "{answer:?}");
    let body = json!({ "requestId": "r-1", "trigger": { "say": "other" } });
    client.post(path, &body).refused(409, "REQUEST_ID_REUSED");

    let linked = "select sp_link_external_resource(e.id, a.id, 'jira', 'issue', 'J-1', 'http://j') \
                  from workflow_executions e join action_executions a on a.execution = e.id";
    until(
        &world,
        &url,
        "select node_id from action_executions",
        &json!([{ "node_id": "say" }]),
    );
    assert_eq!(first_row(&url, linked).expect("a row"), ["t"]);
    assert_eq!(first_row(&url, linked).expect("a row"), ["f"]);
    let links = rows(
        &world,
        &url,
        "select action, system_name, resource_type, resource_id, external_url \
         from workflow_resource_links",
    );
    assert_eq!(
        links,
        [
            json!({ "action": "say", "system_name": "jira", "resource_type": "issue",
                 "resource_id": "J-1", "external_url": "http://j" })
        ]
    );
    let unknown = "select sp_link_external_resource(gen_random_uuid(), null, 'a', 'b', 'c')";
    let refused = first_row(&url, unknown).expect_err("an error");
    assert!(refused.contains("there is no execution"), "{refused}");
}

#[test]
fn a_request_by_sql_that_cannot_be_started_is_a_dead_letter() {
    let world = World::new();
    let url = database().fresh();
    let (_server, client) = serve(&world, &url);
    let start = "select * from sp_start_workflow_execution('echo', 'r-1')";
    let id = first_row(&url, start).expect("a row")[0].clone();
    let letters = client.until("/api/v1/dead-letters", |status, body| {
        status == 200 && body.to_string().contains(&id)
    });
    assert!(
        letters.to_string().contains("there is no workflow 'echo'"),
        "{letters}"
    );
    // Once the workflow is there, the letter is requeued and the run starts under its id.
    client.publish(ECHO);
    let which = json!({ "executionId": [id] });
    client.post("/api/v1/dead-letters", &which).expect(200);
    client.until(&format!("/api/v1/executions/{id}"), |status, run| {
        status == 200 && run["status"] == "Succeeded"
    });
}

#[test]
fn a_refused_request_by_sql_is_requeued_and_purged_by_commands() {
    let world = World::new();
    let url = database().fresh();
    let (server, client) = serve(&world, &url);
    let refused = |request: &str| {
        let start = format!("select * from sp_start_workflow_execution('echo', '{request}')");
        let id = first_row(&url, &start).expect("a row")[0].clone();
        client.until("/api/v1/dead-letters", |status, body| {
            status == 200 && body.to_string().contains(&id)
        });
        id
    };
    let (whole, cut) = (refused("r-1"), refused("r-2"));
    // By a prefix, as the list shows it, and by the whole id.
    let purged = server.run(&world, &["dead-letters", "purge", &cut[..13]]);
    assert!(purged.expect(0).stdout.contains(&cut));
    client.publish(ECHO);
    let requeued = server.run(&world, &["dead-letters", "requeue", &whole]);
    assert!(requeued.expect(0).stdout.contains(&whole));
    client.until(&format!("/api/v1/executions/{whole}"), |status, run| {
        status == 200 && run["status"] == "Succeeded"
    });
    let gone = server.run(&world, &["dead-letters", "purge", &cut]);
    gone.failed(4, "RUN_NOT_FOUND");
}

#[test]
fn a_start_under_the_request_id_of_a_refused_one_names_its_dead_letter() {
    let world = World::new();
    let url = database().fresh();
    let (_server, client) = serve(&world, &url);
    client.publish(
        r#"{"id":"strict","triggerSchema":{"type":"object","required":["list"]},
            "nodes":[{"id":"n","actionType":"core.echo","parameters":{}}]}"#,
    );
    let start = "select * from sp_start_workflow_execution('strict', 'sql-4', '{}')";
    let id = first_row(&url, start).expect("a row")[0].clone();
    client.until("/api/v1/dead-letters", |status, body| {
        status == 200 && body.to_string().contains(&id)
    });
    let body = json!({ "requestId": "sql-4", "trigger": { "list": [1] } });
    let path = "/api/v1/workflows/strict/execute";
    let refused = client.post(path, &body);
    let said = refused.json().to_string();
    refused.refused(409, "REQUEST_ID_REUSED");
    assert!(said.contains(&id) && said.contains("dead letter"), "{said}");
    // Purging it frees the request id.
    let purge = format!("/api/v1/dead-letters?executionId={id}");
    client.delete(&purge).expect(200);
    client.post(path, &body).expect(202);
}

#[test]
fn a_query_reads_and_does_nothing_else() {
    let world = World::new();
    let url = database().fresh();
    let (_server, client) = serve(&world, &url);
    client.publish(ECHO);
    let table = world
        .run(&[
            "query",
            "select id, is_enabled from workflows",
            "--postgres-url",
            &url,
        ])
        .expect(0);
    assert!(table.stdout.contains("echo"), "{}", table.stdout);
    let refuse = |sql: &str, exit: i32, code: &str| {
        world
            .run(&[
                "query",
                sql,
                "--postgres-url",
                &url,
                "--timeout",
                "1",
                "--json",
            ])
            .failed(exit, code);
    };
    refuse("delete from workflows", 2, "QUERY_REFUSED");
    refuse("copy workflows to stdout", 2, "QUERY_REFUSED");
    refuse("select 1; delete from workflows", 2, "QUERY_REFUSED");
    refuse(
        "with d as (delete from workflows returning 1) select * from d",
        2,
        "QUERY_REFUSED",
    );
    refuse(
        "select * from sp_start_workflow_execution('echo', 'r')",
        2,
        "QUERY_REFUSED",
    );
    refuse("select nothing from nowhere", 3, "QUERY_FAILED");
    refuse("select pg_sleep(30)", 7, "QUERY_TIMEOUT");
    let many = [
        "query",
        "select generate_series(1, 100) as n",
        "--postgres-url",
        &url,
    ];
    let cut = world.run(&[&many[..], &["--limit", "3", "--json"]].concat());
    let cut = cut.expect(0).json();
    assert_eq!(cut["truncated"], true);
    assert_eq!(cut["rows"], json!([{ "n": 1 }, { "n": 2 }, { "n": 3 }]));
    assert_eq!(
        rows(&world, &url, "select count(*) as n from workflows")[0]["n"],
        1
    );
    world.run(&["query", "select 1"]).expect(2);
    let away = "postgres://windlass@127.0.0.1:1/none";
    world
        .run(&["query", "select 1", "--postgres-url", away, "--json"])
        .failed(9, "DATABASE_AWAY");
}
