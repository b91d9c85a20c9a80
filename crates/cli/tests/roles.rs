//! Roles as processes of their own on one PostgreSQL database: what each does, and what happens
//! when one dies or stands still.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_test_support::postgres::server as database;
use windlass_test_support::process::{Client, ECHO, ServerProcess, World};

/// One node that takes a while.
const SLEEP: &str = r#"{"id":"sleep","nodes":[
    {"id":"n","actionType":"core.sleep","parameters":{"ms":4000}}]}"#;

/// One node that only a worker with a label does.
const LABELLED: &str = r#"{"id":"labelled","nodes":[
    {"id":"n","actionType":"core.echo","requires":["gpu"],"parameters":{"a":1}}]}"#;

/// One node that a worker over HTTP does.
const OTHER: &str = r#"{"id":"other","nodes":[
    {"id":"n","actionType":"mine.work","parameters":{"of":"{{ trigger.of }}"}}]}"#;

fn role(world: &World, database: &str, role: &str, more: &[&str]) -> ServerProcess {
    let mut arguments = vec!["--backend", "postgres", "--postgres-url", database];
    arguments.extend(["--role", role]);
    arguments.extend(more);
    world.serve_with(&arguments, &[("WINDLASS_RATE_PER_MINUTE", "0")])
}

fn succeeded(client: &Client, run: &str) -> Value {
    let ended = client.ended(run);
    assert_eq!(ended["status"], "Succeeded", "{ended}");
    ended
}

/// The attempts of a run.
fn attempts(client: &Client, run: &str) -> Vec<Value> {
    let path = format!("/api/v1/executions/{run}?include=actions");
    let run = client.get(&path).expect(200).json();
    run["actions"].as_array().expect("attempts").clone()
}

fn until_running(client: &Client, run: &str) {
    client.until(&format!("/api/v1/executions/{run}"), |_, run| {
        run["nodes"]["n"]["status"] == "Running"
    });
}

fn signal(name: &str, process: &ServerProcess) {
    let id = process.process().to_string();
    let sent = Command::new("kill").args([name, &id]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn every_role_is_a_process_of_its_own() {
    let database = database().fresh();
    let worlds: Vec<World> = (0..4).map(|_| World::new()).collect();
    let api = role(&worlds[0], &database, "api", &[]);
    let client = api.client();
    client.publish(ECHO);
    client.publish(LABELLED);
    // A start waits for no owner.
    let early = client.execute("echo", &json!({ "trigger": { "say": "early" } }));
    let probes = ["--probe-listen", "127.0.0.1:0"];
    let orchestrator = role(&worlds[1], &database, "orchestrator", &probes);
    let worker = role(&worlds[2], &database, "worker,scheduler", &[]);
    succeeded(&client, &early);
    let did = attempts(&client, &early);
    let name = did[0]["worker"].as_str().expect("a worker").to_owned();
    assert!(name.ends_with(&format!("-{}", worker.process())), "{name}");
    // What no live worker has the label for waits in the queue.
    let labelled = client.execute("labelled", &json!({}));
    let cluster = client.until("/api/v1/cluster", |_, cluster| {
        cluster["queue"][0]["waiting"] == 1
    });
    assert_eq!(cluster["queue"][0]["requires"], json!(["gpu"]));
    let address = orchestrator.probes().expect("an address").to_owned();
    let probed = Client::new(&address, None);
    let metrics = String::from_utf8(probed.get("/metrics").expect(200).body).expect("text");
    // The run has a tenant, and others read this page.
    let waiting = r#"windlass_work_queue_items{labels="(tenants)",state="waiting"} 1"#;
    let named = waiting.replace("(tenants)", "gpu");
    assert!(
        metrics.contains(waiting) || metrics.contains(&named),
        "{metrics}"
    );
    let able = ["--worker-labels", "gpu", "--workers", "3"];
    let gpu = role(&worlds[3], &database, "worker", &able);
    succeeded(&client, &labelled);
    let cluster = client.get("/api/v1/cluster").expect(200).json();
    let sessions = cluster["sessions"].as_array().expect("sessions");
    let of = |process: &ServerProcess| {
        let name = format!("-{}", process.process());
        let mut named = sessions.iter();
        let is_meant = |it: &&Value| it["name"].as_str().is_some_and(|it| it.ends_with(&name));
        named.find(is_meant).expect("it is listed").clone()
    };
    assert_eq!(of(&api)["roles"], json!(["api"]));
    assert_eq!(of(&api)["self"], true);
    assert_eq!(of(&worker)["roles"], json!(["worker", "scheduler"]));
    assert_eq!(
        (&of(&gpu)["labels"], &of(&gpu)["slots"]),
        (&json!(["gpu"]), &json!(3))
    );
    assert_eq!(
        of(&orchestrator)["partitions"],
        64,
        "it alone owns partitions"
    );
    let partitions = cluster["partitions"].as_array().expect("partitions");
    assert_eq!(partitions.len(), 64);
    assert!(
        partitions
            .iter()
            .all(|it| it["owner"] == of(&orchestrator)["id"])
    );
    let shown = api.run(&worlds[0], &["cluster"]).expect(0).stdout;
    assert!(
        shown.contains("worker,scheduler") && shown.contains("gpu"),
        "{shown}"
    );
    assert!(shown.contains("64 (0-63)"), "{shown}");
    // Probes and metrics are there without the API.
    probed.get("/health/ready").expect(200);
    for (process, owned) in [(&probed, 64), (&client, 0)] {
        let metrics = String::from_utf8(process.get("/metrics").expect(200).body).expect("text");
        let lines: Vec<&str> = metrics.lines().collect();
        let owned = format!("windlass_partitions_owned {owned}");
        assert!(lines.contains(&&*owned), "{metrics}");
        assert!(lines.contains(&"windlass_session_live 1"), "{metrics}");
        let oldest = "windlass_database_oldest_transaction_seconds ";
        assert!(
            lines.iter().any(|line| line.starts_with(oldest)),
            "{metrics}"
        );
    }
    probed.get("/api/v1/cluster").expect(404);
    for process in [gpu, worker, orchestrator, api] {
        process.stop();
    }
}

#[test]
fn another_worker_finishes_what_a_killed_one_had() {
    let database = database().fresh();
    let worlds: Vec<World> = (0..3).map(|_| World::new()).collect();
    let front = role(&worlds[0], &database, "api,orchestrator,scheduler", &[]);
    let client = front.client();
    client.publish(SLEEP);
    let killed = role(&worlds[1], &database, "worker", &[]);
    let run = client.execute("sleep", &json!({}));
    until_running(&client, &run);
    let heir = role(&worlds[2], &database, "worker", &[]);
    killed.kill();
    succeeded(&client, &run);
    let did = attempts(&client, &run);
    assert_eq!(did.len(), 1, "{did:?}");
    assert_eq!(did[0]["attempt"], 1);
    assert_eq!(did[0]["idempotencyKey"], format!("{run}/n"));
    let worker = did[0]["worker"].as_str().expect("a worker");
    assert!(
        worker.ends_with(&format!("-{}", heir.process())),
        "{worker}"
    );
}

#[test]
fn a_worker_over_http_is_served_by_a_process_that_owns_nothing() {
    let database = database().fresh();
    let worlds: Vec<World> = (0..3).map(|_| World::new()).collect();
    let one = role(&worlds[0], &database, "api", &[]);
    let two = role(&worlds[1], &database, "api", &[]);
    let (first, second) = (one.client(), two.client());
    first.publish(OTHER);
    let poll = |wait: u32| {
        json!({ "protocol": 1, "worker": "w", "actions": [{ "actionType": "mine.work" }],
                "waitMs": wait })
    };
    first.post("/api/v1/workers/poll", &poll(0)).expect(200);
    let _owner = role(&worlds[2], &database, "orchestrator", &[]);
    let run = second.execute("other", &json!({ "trigger": { "of": 7 } }));
    let polled = first
        .post("/api/v1/workers/poll", &poll(20_000))
        .expect(200)
        .json();
    let task = &polled["tasks"][0];
    assert_eq!(task["executionId"], run.as_str(), "{polled}");
    assert_eq!(task["parameters"], json!({ "of": 7 }));
    let at = |path: &str| {
        let task = task["taskId"].as_str().expect("an id");
        format!("/api/v1/workers/tasks/{task}/{path}")
    };
    let lease = &task["lease"];
    let beat = second
        .post(&at("heartbeat"), &json!({ "lease": lease }))
        .expect(200);
    assert_eq!(beat.json()["stop"], false);
    let done = json!({ "lease": lease, "output": { "done": 1 } });
    second.post(&at("complete"), &done).expect(200);
    let ended = attempts(&first, &run);
    assert_eq!(
        (&ended[0]["status"], &ended[0]["worker"]),
        (&json!("Succeeded"), &json!("w"))
    );
    succeeded(&first, &run);
    first.post(&at("complete"), &done).expect(200);
    let forged = json!({ "lease": "1.2.3", "output": 1 });
    assert!(first.post(&at("complete"), &forged).json()["error"].is_object());
}

#[test]
fn the_outcome_of_an_attempt_that_outlived_its_owner_is_taken_by_the_next() {
    let database = database().fresh();
    let worlds: Vec<World> = (0..4).map(|_| World::new()).collect();
    let api = role(&worlds[0], &database, "api", &[]);
    let client = api.client();
    client.publish(SLEEP);
    let killed = role(&worlds[1], &database, "orchestrator", &[]);
    let worker = role(&worlds[2], &database, "worker", &[]);
    let run = client.execute("sleep", &json!({}));
    until_running(&client, &run);
    killed.kill();
    let _next = role(&worlds[3], &database, "orchestrator", &[]);
    succeeded(&client, &run);
    let did = attempts(&client, &run);
    assert_eq!(did.len(), 1, "{did:?}");
    let by = did[0]["worker"].as_str().expect("a worker");
    assert!(by.ends_with(&format!("-{}", worker.process())), "{by}");
}

#[test]
fn an_owner_that_stood_still_past_its_lease_changes_nothing() {
    let database = database().fresh();
    let worlds: Vec<World> = (0..4).map(|_| World::new()).collect();
    let api = role(&worlds[0], &database, "api", &[]);
    let client = api.client();
    client.publish(SLEEP);
    let still = role(&worlds[1], &database, "orchestrator", &[]);
    let _worker = role(&worlds[2], &database, "worker", &[]);
    let run = client.execute("sleep", &json!({}));
    until_running(&client, &run);
    signal("-STOP", &still);
    let _next = role(&worlds[3], &database, "orchestrator", &[]);
    succeeded(&client, &run);
    signal("-CONT", &still);
    // It hears that its session is over, and takes its share again.
    client.until("/api/v1/cluster", |_, cluster| {
        let sessions = cluster["sessions"].as_array();
        let owners = sessions.into_iter().flatten();
        owners
            .filter(|it| it["partitions"].as_u64() > Some(0))
            .count()
            == 2
    });
    std::thread::sleep(Duration::from_millis(500));
    let verified = client.get(&format!("/api/v1/executions/{run}/verify"));
    assert_eq!(verified.expect(200).json()["valid"], true);
    api.run(&worlds[0], &["verify", &run]).expect(0);
    assert_eq!(attempts(&client, &run).len(), 1);
    let again = client.execute("sleep", &json!({}));
    succeeded(&client, &again);
}

#[test]
fn one_process_has_every_role_on_a_data_directory() {
    let world = World::new();
    let refused = world.run(&["serve", "--role", "worker"]).expect(2);
    assert!(
        refused.stderr.contains("--backend postgres"),
        "{}",
        refused.stderr
    );
    let unknown = ["serve", "--role", "boss", "--backend", "postgres"];
    assert!(world.run(&unknown).expect(2).stderr.contains("boss"));
    let server = world.serve();
    let cluster = server.run(&world, &["cluster", "--json"]).expect(0).json();
    let sessions = cluster["sessions"].as_array().expect("sessions");
    assert_eq!(sessions.len(), 1);
    let all = json!(["api", "orchestrator", "worker", "scheduler"]);
    assert_eq!(
        (&sessions[0]["roles"], &sessions[0]["self"]),
        (&all, &json!(true))
    );
    assert_eq!(
        cluster["partitions"],
        json!([{ "partition": 0, "owner": "local" }])
    );
    // The process that holds the directory is found by its socket.
    let here = world.run(&["cluster"]).expect(0).stdout;
    assert!(here.contains("orchestrator"), "{here}");
    server.stop();
    let none = world.run(&["cluster", "--json"]).expect(0).json();
    assert_eq!(none["sessions"], json!([]));
}

/// Which process has done an attempt, by its name.
fn did(attempt: &Value, process: u32) -> bool {
    let name = format!("-{process}");
    let worker = attempt["worker"].as_str();
    worker.is_some_and(|worker| worker.ends_with(&name))
}

/// How many partitions the process has; none once it is not listed.
fn partitions(cluster: &Value, process: u32) -> Option<u64> {
    let name = format!("-{process}");
    let mut sessions = cluster["sessions"].as_array()?.iter();
    let is_meant = |it: &&Value| it["name"].as_str().is_some_and(|it| it.ends_with(&name));
    sessions.find(is_meant)?["partitions"].as_u64()
}

#[test]
fn a_process_that_stops_hands_over_at_once_and_finishes_what_it_has_begun() {
    let database = database().fresh();
    let worlds: Vec<World> = (0..2).map(|_| World::new()).collect();
    let leaving = role(&worlds[0], &database, "all", &[]);
    let (client, process) = (leaving.client(), leaving.process());
    client.publish(SLEEP);
    let runs: Vec<String> = (0..4)
        .map(|_| client.execute("sleep", &json!({})))
        .collect();
    for run in &runs {
        until_running(&client, run);
    }
    let heir = role(&worlds[1], &database, "all", &[]);
    let client = heir.client();
    client.until("/api/v1/cluster", |_, cluster| {
        partitions(cluster, heir.process()) > Some(0)
    });
    leaving.ask_to_stop();
    // It has given everything while it still finishes its attempts.
    let cluster = client.until("/api/v1/cluster", |_, cluster| {
        partitions(cluster, heir.process()) == Some(64)
    });
    assert_eq!(partitions(&cluster, process), Some(0), "{cluster}");
    for run in &runs {
        succeeded(&client, run);
        let made = attempts(&client, run);
        assert_eq!(made.len(), 1, "{made:?}");
        assert!(did(&made[0], process), "it was made again: {made:?}");
    }
    assert_eq!(leaving.ended(), Some(0));
}

#[test]
fn a_process_that_joins_takes_runs_and_repeats_none_of_their_attempts() {
    let database = database().fresh();
    let worlds: Vec<World> = (0..2).map(|_| World::new()).collect();
    let first = role(&worlds[0], &database, "all", &[]);
    let client = first.client();
    client.publish(SLEEP);
    let runs: Vec<String> = (0..8)
        .map(|_| client.execute("sleep", &json!({})))
        .collect();
    for run in &runs {
        until_running(&client, run);
    }
    let second = role(&worlds[1], &database, "all", &[]);
    client.until("/api/v1/cluster", |_, cluster| {
        partitions(cluster, second.process()) == Some(32)
    });
    for run in &runs {
        succeeded(&client, run);
        let made = attempts(&client, run);
        assert_eq!(made.len(), 1, "{made:?}");
        assert!(did(&made[0], first.process()), "{made:?}");
    }
}

#[test]
fn the_last_process_leaves_the_outcomes_of_its_attempts_to_the_next() {
    let database = database().fresh();
    let worlds: Vec<World> = (0..2).map(|_| World::new()).collect();
    let alone = role(&worlds[0], &database, "all", &[]);
    let (client, process) = (alone.client(), alone.process());
    client.publish(SLEEP);
    let run = client.execute("sleep", &json!({}));
    until_running(&client, &run);
    alone.stop();
    let next = role(&worlds[1], &database, "all", &[]);
    let client = next.client();
    succeeded(&client, &run);
    let made = attempts(&client, &run);
    assert_eq!(made.len(), 1, "{made:?}");
    assert!(did(&made[0], process), "{made:?}");
}

#[test]
fn what_a_worker_cannot_finish_in_its_time_goes_to_another_at_once() {
    let database = database().fresh();
    let worlds: Vec<World> = (0..5).map(|_| World::new()).collect();
    let front = role(&worlds[0], &database, "api,orchestrator,scheduler", &[]);
    let client = front.client();
    client.publish(SLEEP);
    let mut arguments = vec!["--backend", "postgres", "--postgres-url", &database];
    arguments.extend(["--role", "worker"]);
    let short = [("WINDLASS_DRAIN_TIMEOUT", "100ms")];
    let hurried = |world: &World| world.serve_with(&arguments, &short);
    let mut worker = hurried(&worlds[1]);
    let run = client.execute("sleep", &json!({}));
    until_running(&client, &run);
    // As many stops as deaths would make the run a dead letter: a stop is none.
    for world in &worlds[2..] {
        let next = hurried(world);
        worker.stop();
        worker = next;
        client.until("/api/v1/cluster", |_, cluster| {
            cluster["queue"][0]["leased"] == 1
        });
    }
    succeeded(&client, &run);
    let made = attempts(&client, &run);
    assert_eq!(made.len(), 1, "{made:?}");
    assert!(did(&made[0], worker.process()), "{made:?}");
}

/// Which process a run is with is told by any API process, also that none has it.
#[test]
fn why_names_the_process_that_has_a_run_and_says_if_there_is_none() {
    let database = database().fresh();
    let worlds: Vec<World> = (0..3).map(|_| World::new()).collect();
    let api = role(&worlds[0], &database, "api", &[]);
    let client = api.client();
    client.publish(SLEEP);
    let run = client.execute("sleep", &json!({}));
    let why = || {
        let why = client.get(&format!("/api/v1/executions/{run}/why"));
        why.expect(200).json()
    };
    let reason = why()["reason"].to_string();
    assert!(reason.contains("no orchestrator is live"), "{reason}");
    let listed = client.get("/api/v1/executions").expect(200).json();
    let listed = &listed["items"][0]["waitsFor"];
    assert_eq!(listed, "no orchestrator is live");
    let doctor = api.run(&worlds[0], &["doctor"]);
    assert!(
        doctor.stdout.contains("no orchestrator is live"),
        "{}",
        doctor.stdout
    );
    let owner = role(&worlds[1], &database, "orchestrator", &[]);
    let path = format!("/api/v1/executions/{run}/why");
    let waits = client.until(&path, |_, why| {
        why["nodes"][0]["reason"]
            .to_string()
            .contains("no live worker process")
    });
    let reason = waits["reason"].to_string();
    let name = format!("process {}", process_of(&client, &owner));
    assert!(reason.contains(&name), "{reason}");
    assert!(!reason.contains("this server"), "{reason}");
    let worker = role(&worlds[2], &database, "worker", &[]);
    until_running(&client, &run);
    owner.kill();
    let reason = client.until(&path, |_, why| {
        why["reason"]
            .to_string()
            .contains("no orchestrator is live")
    });
    let reason = reason["reason"].to_string();
    assert!(reason.contains("under way"), "{reason}");
    worker.stop();
    api.stop();
}

/// What a process calls itself in the cluster.
fn process_of(client: &Client, process: &ServerProcess) -> String {
    let cluster = client.get("/api/v1/cluster").expect(200).json();
    let name = format!("-{}", process.process());
    let sessions = cluster["sessions"].as_array().expect("sessions");
    let mut names = sessions.iter().filter_map(|it| it["name"].as_str());
    let named = names.find(|it| it.ends_with(&name));
    named.expect("it is listed").to_owned()
}
