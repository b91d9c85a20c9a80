//! What a person on call sees: the cause at the top, how runs stand, one node with all of it, and
//! commands that say what is true.

use serde_json::{Value, json};
use windlass_test_support::process::{ECHO, Ended, FAIL, ServerProcess, WAIT, World, serving};

/// Charges every line of an order; an account that is empty fails.
const CHARGE: &str = r#"{"id":"charge","nodes":[
 {"id":"lines","forEach":{"items":"{{ trigger.lines }}","body":{"nodes":[
  {"id":"pay","actionType":"core.fail","parameters":{"code":"NO_FUNDS",
   "message":"account {{ item }} is empty","retriable":false,
   "untilAttempt":"{{ item > 10 ? 2 : 1 }}"}}]}}}]}"#;

/// Charges every order of a batch in a child run.
const BATCH: &str = r#"{"id":"batch","nodes":[
 {"id":"prepare","actionType":"core.echo","parameters":{"n":"{{ trigger.orders.length }}"},
  "edges":[{"targetNode":"orders"}]},
 {"id":"orders","forEach":{"items":"{{ trigger.orders }}","body":{"nodes":[
  {"id":"order","subworkflow":{"workflowId":"charge","input":{"lines":"{{ item }}"}}}]}}}]}"#;

const SLEEP: &str = r#"{"id":"sleep","nodes":[
 {"id":"nap","actionType":"core.sleep","parameters":{"ms":60000}}]}"#;

const ONE_AT_A_TIME: &str = r#"{"id":"single","concurrency":{"limit":1},"nodes":[
 {"id":"gate","waitForSignal":{"name":"go"}}]}"#;

fn items(listed: &Value) -> Vec<&Value> {
    let items = listed["items"].as_array().map(|items| items.iter());
    items.into_iter().flatten().collect()
}

fn ids(listed: &Value) -> Vec<String> {
    let id = |item: &&Value| item["executionId"].as_str().unwrap_or_default().to_owned();
    items(listed).iter().map(id).collect()
}

/// A server with the batch, of which one run failed inside a child.
fn failed_batch() -> (World, ServerProcess, String) {
    let (world, server, client) = serving(&[CHARGE, BATCH]);
    let trigger = json!({ "trigger": { "orders": [[1, 2], [3, 40]] } });
    let run = client.execute("batch", &trigger);
    assert_eq!(client.ended(&run)["status"], "Failed");
    (world, server, run)
}

#[test]
fn the_root_cause_is_in_the_list_and_in_the_log() {
    let (_world, server, run) = failed_batch();
    let listed = server.client().get("/api/v1/executions?children=false");
    let listed = listed.expect(200).json();
    assert_eq!(ids(&listed), [run.as_str()]);
    let error = &listed["items"][0]["error"];
    let message = "orders[1]/order › lines[1]/pay failed: NO_FUNDS: account 40 is empty";
    assert_eq!(error, &json!({ "code": "NODE_FAILED", "message": message }));
    let log = server.log();
    for line in log.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
    }
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let is_end = |line: &Value| line["message"] == "run finished" && line["executionId"] == *run;
    let end: Value = lines.into_iter().find(is_end).expect("its end is logged");
    assert_eq!(end["error"], message, "{end}");
    assert_eq!(end["causeNode"], "lines[1]/pay", "{end}");
    assert_eq!(end["causeCode"], "NO_FUNDS", "{end}");
    assert_eq!(end["causeMessage"], "account 40 is empty", "{end}");
    server.stop();
}

#[test]
fn children_are_folded_under_their_parents_and_are_never_the_last_run() {
    let (world, server, run) = failed_batch();
    let listed = server.run(&world, &["runs", "--json"]).expect(0).json();
    assert_eq!(ids(&listed), [run.as_str()], "{listed}");
    assert_eq!(listed["items"][0]["children"], 2);
    let table = server.run(&world, &["runs"]).expect(0).stdout;
    assert!(table.contains("2 child runs"), "{table}");
    assert!(table.contains("NO_FUNDS: account 40 is empty"), "{table}");
    let all = server.run(&world, &["runs", "--children", "--json"]);
    assert_eq!(items(&all.expect(0).json()).len(), 3);
    let children = server.run(&world, &["runs", "--parent", &run, "--json"]);
    assert_eq!(items(&children.expect(0).json()).len(), 2);
    let of_parent = format!("parent={run}");
    let many = ["fork", "--filter", &of_parent, "--from", "lines"];
    let many = [&many[..], &["--dry-run"]].concat();
    let many = server.run(&world, &many).expect(0).stdout;
    assert_eq!(many.matches("would be forked").count(), 2, "{many}");
    let last = server.run(&world, &["show", "@last", "--json"]).expect(0);
    assert_eq!(last.run_id(), run);
    server.stop();
    let last = world.run(&["show", "@last", "--json"]).expect(0);
    assert_eq!(last.run_id(), run);
}

#[test]
fn runs_are_found_by_the_code_of_a_root_cause_and_forks_mark_their_origin() {
    let (world, server, run) = failed_batch();
    let found = |arguments: &[&str]| {
        let arguments = [&["runs", "--json"], arguments].concat();
        ids(&server.run(&world, &arguments).expect(0).json())
    };
    assert_eq!(found(&["--error", "NO_FUNDS"]), [run.as_str()]);
    assert_eq!(found(&["--error", "NODE_FAILED"]), [run.as_str()]);
    assert!(found(&["--error", "NO_FUND"]).is_empty());
    let unresolved = ["--status", "failed", "--unresolved"];
    assert_eq!(found(&unresolved), [run.as_str()]);
    let fork = [
        "fork",
        "--filter",
        "error=NO_FUNDS",
        "--from",
        "orders",
        "--set",
        "trigger.orders=[[1]]",
        "--json",
    ];
    let forked = server.run(&world, &fork).expect(0).json();
    let fork = forked[0]["executionId"].as_str().expect("a run").to_owned();
    assert_eq!(forked.as_array().map(Vec::len), Some(1), "{forked}");
    assert_eq!(server.client().ended(&fork)["status"], "Succeeded");
    assert!(found(&unresolved).is_empty());
    assert_eq!(found(&["--status", "failed"]), [run.as_str()]);
    let shown = server.run(&world, &["show", &run]).expect(0).stdout;
    assert!(shown.contains(&format!("forked as {fork}")), "{shown}");
    let table = server.run(&world, &["runs", "--status", "failed"]);
    assert!(table.expect(0).stdout.contains("forked as "));
    server.stop();
    let table = world.run(&["runs", "--status", "failed"]).expect(0).stdout;
    assert!(table.contains("forked as "), "{table}");
}

#[test]
fn waiting_queued_and_running_runs_are_told_apart() {
    let (world, server, client) = serving(&[WAIT, SLEEP, ONE_AT_A_TIME]);
    let waiting = client.execute("wait", &json!({ "labels": { "team": "blue" } }));
    let running = client.execute("sleep", &json!({}));
    let first = client.execute("single", &json!({}));
    for run in [&waiting, &first] {
        client.wait_for(run, "NodeWaiting");
    }
    client.wait_for(&running, "NodeStarted");
    let queued = client.execute("single", &json!({}));
    let listed = client.get("/api/v1/executions").expect(200).json();
    let item = |run: &str| {
        let found = items(&listed)
            .into_iter()
            .find(|item| item["executionId"] == *run);
        found.unwrap_or_else(|| panic!("{run} in {listed}")).clone()
    };
    assert_eq!(item(&waiting)["state"], "waiting");
    assert_eq!(item(&waiting)["waitsFor"], "for signal 'go' (gate)");
    let shown = client.get(&format!("/api/v1/executions/{waiting}"));
    let changed = &shown.expect(200).json()["updatedAt"];
    assert!(changed.is_string(), "{changed}");
    assert_eq!(&item(&waiting)["updatedAt"], changed);
    assert_eq!(item(&running)["state"], "running");
    assert_eq!(item(&queued)["state"], "queued");
    let behind = item(&queued)["waitsFor"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(
        behind.starts_with(&format!("behind {}", &first[..13])),
        "{behind}"
    );
    let found = server.run(&world, &["runs", "--waiting", "--json"]);
    assert_eq!(ids(&found.expect(0).json()), [first, waiting.clone()]);
    let table = server.run(&world, &["runs"]).expect(0).stdout;
    for part in [
        "Waiting",
        "for signal 'go' (gate)",
        "Queued",
        "behind ",
        "Running",
        "team=blue",
    ] {
        assert!(table.contains(part), "no {part} in\n{table}");
    }
    // Commands on many know the same conditions.
    let signal = [
        "signal",
        "--filter",
        "waiting",
        "--filter",
        "workflow=wait",
        "go",
        "--json",
    ];
    let signalled = server.run(&world, &signal).expect(0).json();
    assert_eq!(signalled[0]["executionId"], waiting.as_str(), "{signalled}");
    assert_eq!(client.ended(&waiting)["status"], "Succeeded");
    let body = json!({ "action": "cancel", "filter": { "waiting": true } });
    let job = client.post("/api/v1/bulk", &body).expect(202);
    assert_eq!(client.finished(&job.text("id"))["done"], 1);
    server.kill();
}

#[test]
fn a_run_whose_process_was_killed_is_orphaned() {
    let world = World::with_files(&[("sleep.json", SLEEP), ("echo.json", ECHO)]);
    let mut process = world.start(&["run", "sleep.json"]);
    let run = process.run_id();
    let listed = world.run(&["runs", "--json"]).expect(0).json();
    assert_eq!(listed["items"][0]["state"], "running", "{listed}");
    process.kill();
    world.run(&["run", "echo.json", "-q"]).expect(0);
    let orphaned = world
        .run(&["runs", "--orphaned", "--json"])
        .expect(0)
        .json();
    assert_eq!(ids(&orphaned), [run.as_str()]);
    assert_eq!(orphaned["items"][0]["state"], "orphaned");
    let table = world.run(&["runs"]).expect(0).stdout;
    assert!(table.contains("Orphaned"), "{table}");
    let shown = world.run(&["show", &run]).expect(0).stdout;
    assert!(shown.contains("Orphaned"), "{shown}");
    let cancelled = world.run(&["cancel", "--filter", "orphaned", "--json"]);
    assert_eq!(cancelled.expect(0).json()[0]["executionId"], run.as_str());
    let none = world
        .run(&["runs", "--orphaned", "--json"])
        .expect(0)
        .json();
    assert!(ids(&none).is_empty(), "{none}");
}

#[test]
fn a_node_is_shown_with_all_that_is_known_of_it() {
    let (world, server, run) = failed_batch();
    let shown = server.run(&world, &["show", &run, "prepare"]).expect(0);
    for part in [
        "prepare",
        "Succeeded",
        "parameters",
        r#"{"n":2}"#,
        "attempt",
    ] {
        assert!(
            shown.stdout.contains(part),
            "no {part} in\n{}",
            shown.stdout
        );
    }
    let node = server.run(&world, &["show", &run, "orders[1]/order", "--json"]);
    let node = node.expect(0).json();
    assert_eq!(node["node"], "orders[1]/order");
    assert_eq!(node["error"]["details"]["causes"][0]["code"], "NO_FUNDS");
    assert_eq!(node["input"], json!({ "lines": [3, 40] }));
    // A loop names what failed in a child of one of its rounds, too.
    for path in ["orders[1]/order", "orders"] {
        let shown = server.run(&world, &["show", &run, path]).expect(0).stdout;
        let cause = shown.lines().find(|line| line.contains("  cause "));
        let cause = cause.unwrap_or_else(|| panic!("no cause in\n{shown}"));
        assert!(cause.contains("lines[1]/pay of run "), "{cause}");
        assert!(cause.contains("NO_FUNDS: account 40 is empty"), "{cause}");
    }
    let commands = node["commands"].to_string();
    for command in ["windlass reattempt", "windlass skip", "windlass fork"] {
        assert!(commands.contains(command), "no {command} in {commands}");
    }
    // A name that several instances have names none of them.
    let several = server.run(&world, &["show", &run, "order"]).expect(4);
    assert!(
        several.stderr.contains("orders[0]/order"),
        "{}",
        several.stderr
    );
    let child = node["child"].as_str().expect("a child");
    let pay = server.run(&world, &["show", child, "lines[1]/pay"]);
    let pay = pay.expect(0).stdout;
    for part in ["NO_FUNDS: account 40 is empty", "can", "attempt"] {
        assert!(pay.contains(part), "no {part} in\n{pay}");
    }
    server.stop();
    let local = world.run(&["show", &run, "prepare"]).expect(0).stdout;
    assert_eq!(local, shown.stdout);
    world.run(&["show", &run, "nothing"]).expect(4);
}

#[test]
fn a_waiting_node_names_its_signal_and_large_values_are_previewed() {
    let (world, server, client) = serving(&[WAIT, ECHO]);
    let run = client.execute("wait", &json!({}));
    client.wait_for(&run, "NodeWaiting");
    let gate = server
        .run(&world, &["show", "@last", "gate"])
        .expect(0)
        .stdout;
    assert!(
        gate.contains(&format!("windlass signal {run} go JSON")),
        "{gate}"
    );
    assert!(gate.contains("signal 'go'"), "{gate}");
    let long = "x".repeat(5000);
    let run = client.execute("echo", &json!({ "trigger": { "say": long } }));
    client.ended(&run);
    let say = server.run(&world, &["show", &run, "say"]).expect(0).stdout;
    assert!(say.len() < 5000 && say.contains("--output json"), "{say}");
    let whole = server.run(&world, &["show", &run, "say", "--json"]);
    assert_eq!(whole.expect(0).json()["output"]["said"], long.as_str());
    server.kill();
}

/// How many requests for runs the server has answered.
fn requests(server: &ServerProcess) -> u64 {
    let metrics = server.client().get("/metrics").expect(200);
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let lines = metrics.lines().filter(|line| {
        line.starts_with("windlass_http_requests_total") && line.contains("/api/v1/")
    });
    let count = |line: &str| {
        line.rsplit(' ')
            .next()
            .and_then(|it| it.parse::<f64>().ok())
    };
    lines.filter_map(count).sum::<f64>() as u64
}

#[test]
fn show_and_why_take_one_request_each() {
    let (world, server, run) = failed_batch();
    for command in [
        &["show", &*run][..],
        &["show", "@last"],
        &["show", "@last", "--json"],
        &["show", &run, "prepare"],
        &["why", "@last"],
        &["why", &run, "orders"],
        &["why", &run[..13]],
    ] {
        let before = requests(&server);
        server.run(&world, command).expect(0);
        assert_eq!(requests(&server) - before, 1, "{command:?}");
    }
    server.stop();
}

#[test]
fn reads_have_a_budget_and_a_client_says_that_it_waits() {
    let world = World::new();
    let token = world.token("ann", None, "workflows:read");
    let variables = [
        ("WINDLASS_READ_RATE_PER_MINUTE", "60"),
        ("WINDLASS_READ_RATE_BURST", "1"),
        ("WINDLASS_RATE_PER_MINUTE", "1"),
    ];
    let server = world.serve_with(&["--auth-keys", "keys.json"], &variables);
    let runs = ["--token", &token, "runs", "--json"];
    server.run(&world, &runs).expect(0);
    let waited = server.run(&world, &runs).expect(0);
    let said = "rate limited, retrying in 1 s";
    assert!(waited.stderr.contains(said), "{}", waited.stderr);
    let limits = server.client_with(&token).get("/api/v1/limits");
    if limits.status == 200 {
        assert_eq!(limits.json()["readsPerMinutePerToken"], 60);
    }
    server.kill();
}

#[test]
fn a_dead_letter_says_so_wherever_it_is_looked_at() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(SLEEP);
    let body = json!({ "correlationId": "call-7" });
    let run = client.execute("sleep", &body);
    client.wait_for(&run, "NodeStarted");
    server.kill();
    let server = world.serve_with(&[], &[("WINDLASS_MAX_POISON_RETRIES", "1")]);
    let client = server.client();
    client.until("/api/v1/executions?dead=true", |_, listed| {
        ids(listed) == [run.as_str()]
    });
    let logged = server.log();
    let logged = logged
        .lines()
        .find(|line| line.contains("became a dead letter"));
    let logged: Value = serde_json::from_str(logged.expect("a line")).expect("JSON");
    assert_eq!(logged["workflowId"], "sleep", "{logged}");
    assert_eq!(logged["correlationId"], "call-7", "{logged}");
    let metrics = client.get("/metrics").expect(200);
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(metrics.contains("\ndead_letters 1"), "{metrics}");
    let said = |arguments: &[&str], exit: i32| {
        let ended = server.run(&world, arguments).expect(exit);
        format!("{}{}", ended.stdout, ended.stderr)
    };
    for (arguments, exit) in [
        (&["runs"][..], 0),
        (&["runs", "--dead"], 0),
        (&["show", &run], 0),
        (&["why", &run], 0),
        (&["watch", &run], 7),
    ] {
        let said = said(arguments, exit).to_lowercase();
        assert!(said.contains("dead letter"), "{arguments:?}: {said}");
        assert!(said.contains("crashed"), "{arguments:?}: {said}");
    }
    assert!(said(&["doctor"], 0).contains("dead letters"));
    server.stop();
    let doctor = world.run(&["doctor", "--json"]);
    assert!(doctor.stdout.contains("dead letters"), "{}", doctor.stdout);
    let why = world.run(&["why", &run]).expect(0).stdout;
    assert!(why.contains("dead letters"), "{why}");
    // Beside a server or not, the directory's own commands act on it.
    let server = world.serve();
    world.run(&["dead-letters", "requeue", &run]).expect(0);
    server.client().wait_for(&run, "RunRecovered");
    server.kill();
}

#[test]
fn a_dead_letter_that_is_cancelled_is_none_any_more() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(SLEEP);
    let run = client.execute("sleep", &json!({}));
    client.wait_for(&run, "NodeStarted");
    server.kill();
    let server = world.serve_with(&[], &[("WINDLASS_MAX_POISON_RETRIES", "1")]);
    let client = server.client();
    client.until("/api/v1/executions?dead=true", |_, listed| {
        ids(listed) == [run.as_str()]
    });
    let cancel = format!("/api/v1/executions/{run}/cancel");
    client.post(&cancel, &json!({})).expect(200);
    assert_eq!(client.ended(&run)["status"], "Cancelled");
    client.until("/api/v1/dead-letters", |_, listed| items(listed).is_empty());
    let reattempt = format!("/api/v1/executions/{run}/reattempt");
    client.post(&reattempt, &json!({})).expect(200);
    client.wait_for(&run, "NodeReattempted");
    server.kill();
}

#[test]
fn a_child_that_its_parent_does_not_wait_for_is_not_tried_again() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(FAIL);
    client.publish(
        r#"{"id":"parent","nodes":[
            {"id":"call","subworkflow":{"workflowId":"fail","input":{}}},
            {"id":"gate","waitForSignal":{"name":"go"}}]}"#,
    );
    let run = client.execute("parent", &json!({}));
    client.wait_for(&run, "NodeFailed");
    let children = client.get(&format!("/api/v1/executions?parent={run}"));
    let child = ids(&children.expect(200).json()).remove(0);
    for body in [json!({}), json!({ "dryRun": true })] {
        let path = format!("/api/v1/executions/{child}/reattempt");
        client.post(&path, &body).refused(409, "REATTEMPT_REFUSED");
    }
    server.kill();
}

#[test]
fn a_child_whose_parent_has_ended_is_not_tried_again() {
    let (world, server, run) = failed_batch();
    let children = server.run(
        &world,
        &["runs", "--parent", &run, "--status", "failed", "--json"],
    );
    let child = ids(&children.expect(0).json()).remove(0);
    for dry in [&[][..], &["--dry-run"]] {
        let arguments = [&["reattempt", &*child], dry].concat();
        let refused = server.run(&world, &arguments).expect(6);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains(&run), "{said}");
        assert!(
            said.contains("parent") || said.contains("child of"),
            "{said}"
        );
    }
    let refused = server.run(&world, &["reattempt", &child]).expect(6);
    assert!(
        refused.stderr.contains("REATTEMPT_REFUSED"),
        "{}",
        refused.stderr
    );
    assert!(
        refused
            .stderr
            .contains(&format!("windlass reattempt {run}")),
        "{}",
        refused.stderr
    );
    server.stop();
}

#[test]
fn skips_are_refused_in_their_own_words() {
    let world = World::with_files(&[("echo.json", ECHO)]);
    world.run(&["run", "echo.json", "-q"]).expect(0);
    let fails = r#"{"id":"fails","nodes":[{"id":"call","actionType":"core.fail"}]}"#;
    world.definition("fails.json", fails);
    world.run(&["run", "fails.json"]).expect(1);
    let skipped = world.run(&["skip", "@last", "call"]).expect(0).stderr;
    assert!(skipped.contains("  call: Succeeded\n"), "{skipped}");
    assert!(!skipped.contains("Cancelled"), "{skipped}");
    world.run(&["run", "echo.json", "-q"]).expect(0);
    let skip = world.run(&["skip", "@last", "say"]).expect(6);
    assert!(skip.stderr.contains("SKIP_REFUSED"), "{}", skip.stderr);
    assert!(skip.stderr.contains("can be skipped"), "{}", skip.stderr);
    let undo = world
        .run(&["compensate", "@last", "--skip", "say"])
        .expect(6);
    assert!(
        undo.stderr.contains("COMPENSATION_SKIP_REFUSED"),
        "{}",
        undo.stderr
    );
}

#[test]
fn a_published_workflow_is_started_by_its_name() {
    let world = World::with_files(&[("echo.json", ECHO)]);
    let first = world.run(&["run", "echo.json"]).expect(0);
    assert!(
        first.stderr.contains("published echo version 1"),
        "{}",
        first.stderr
    );
    let again = world.run(&["run", "echo.json"]).expect(0);
    assert!(!again.stderr.contains("published"), "{}", again.stderr);
    let trigger = r#"{"say":"hello"}"#;
    let waited = [
        "start",
        "echo",
        "--trigger",
        trigger,
        "--label",
        "a=b",
        "--priority",
        "7",
        "--wait",
        "--json",
    ];
    let run = world.run(&waited).expect(0).json();
    assert_eq!(run["status"], "Succeeded");
    assert_eq!(run["priority"], 7);
    assert_eq!(run["nodes"]["say"]["output"], json!({ "said": "hello" }));
    assert_eq!(run["labels"], json!({ "a": "b" }));
    let queued = world
        .run(&["start", "echo", "--request-id", "r1"])
        .expect(0);
    let same = world
        .run(&["start", "echo", "--request-id", "r1"])
        .expect(0);
    assert_eq!(queued.stdout, same.stdout);
    let meant = "did you mean 'echo'?";
    let unknown = world.run(&["start", "ecoh"]).expect(4).stderr;
    assert!(unknown.contains(meant), "{unknown}");
    let unknown = world.run(&["start", "nothing"]).expect(4).stderr;
    assert!(unknown.contains("`windlass workflows` lists"), "{unknown}");
    let missing = ["start", "echo", "--version", "9"];
    let unknown = world.run(&missing).expect(4).stderr;
    assert!(unknown.contains("has no version 9"), "{unknown}");
    let unknown = world
        .run(&["workflows", "versions", "ech"])
        .expect(4)
        .stderr;
    assert!(unknown.contains(meant), "{unknown}");
    let unknown = world.run(&["show", "@last:ehco"]).expect(4).stderr;
    assert!(unknown.contains(meant), "{unknown}");
    let empty = world.run(&["runs", "--workflow", "ehco"]).expect(0).stderr;
    assert!(empty.contains(meant), "{empty}");
    let server = world.serve();
    let unknown = server.run(&world, &["start", "ecoh"]).expect(4).stderr;
    assert!(unknown.contains(meant), "{unknown}");
    let missing = ["start", "eho", "--version", "9"];
    let unknown = server.run(&world, &missing).expect(4).stderr;
    assert!(unknown.contains(meant), "{unknown}");
    let run = server.run(&world, &["start", "echo"]).expect(0).stdout;
    assert_eq!(server.client().ended(run.trim())["status"], "Succeeded");
    let waited = server.run(&world, &["start", "echo", "--wait", "--json"]);
    assert_eq!(waited.expect(0).json()["status"], "Succeeded");
    let urgent = ["start", "echo", "--priority", "9"];
    let run = server.run(&world, &urgent).expect(0).stdout;
    assert_eq!(server.client().ended(run.trim())["priority"], 9);
    world.run(&["start", "echo", "--priority", "10"]).expect(2);
    // Through the socket of the server, too.
    let run = world.run(&["start", "echo"]).expect(0).stdout;
    assert_eq!(server.client().ended(run.trim())["status"], "Succeeded");
    server.stop();
}

#[test]
fn changing_commands_work_beside_a_running_server() {
    let (world, server, client) = serving(&[ECHO]);
    for command in [
        &[
            "schedules",
            "set",
            "s",
            "--workflow",
            "echo",
            "--every-ms",
            "3600000",
        ][..],
        &["schedules", "pause", "s"],
        &["schedules", "resume", "s"],
        &["schedules", "remove", "s"],
        &["hooks", "set", "h", "--workflow", "echo"],
        &["hooks", "remove", "h"],
        &["workflows", "disable", "echo"],
        &["workflows", "enable", "echo"],
        &["dead-letters", "requeue", "--all"],
        &["pools", "set", "p", "1"],
        &["pools", "remove", "p"],
        &["secrets", "set", "KEY", "--from-env", "PATH"],
        &["secrets", "rotate"],
        &["secrets", "remove", "KEY"],
        &["rebuild"],
        &["backup", "copy.windlass"],
    ] {
        let ended = world.run(command);
        assert_eq!(ended.code, 0, "{command:?}: {}", ended.stderr);
    }
    let hooks = client.get("/api/v1/hooks").expect(200).json();
    assert!(items(&hooks).is_empty(), "{hooks}");
    server.stop();
}

#[test]
fn a_tenant_without_tokens_is_refused_by_name() {
    let (_world, server, client) = serving(&[ECHO]);
    let body = json!({ "tenantId": "acme" });
    let path = "/api/v1/workflows/echo/execute";
    let error = client.post(path, &body).refused(403, "TENANT_MISMATCH");
    assert!(error.to_string().contains("acme"), "{error}");
    assert!(error.to_string().contains("tokens"), "{error}");
    server.stop();
}

#[test]
fn items_that_are_a_bare_expression_are_refused_with_the_remedy() {
    let world = World::with_files(&[(
        "seed.json",
        r#"{"id":"seed","nodes":[{"id":"each","forEach":{"items":"$.items","body":{"nodes":[
          {"id":"a","actionType":"core.echo"}]}}}]}"#,
    )]);
    for command in [["validate", "seed.json"], ["publish", "seed.json"]] {
        let refused = world.run(&command).expect(3);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains("ITEMS_NOT_A_LIST"), "{said}");
        assert!(said.contains("{{ trigger.items }}"), "{said}");
    }
}

/// A booking that cannot be undone, and a signal that never comes.
const SAGA: &str = r#"{"id":"saga","compensation":{"when":"onFailure"},"nodes":[
 {"id":"book","actionType":"core.echo","compensate":{"actionType":"core.fail",
  "parameters":{"code":"UNDO_FAILED","message":"no answer","retriable":false}}},
 {"id":"wait","dependsOn":["book"],"waitForSignal":{"name":"never","timeoutMs":50}},
 {"id":"after","dependsOn":["wait"],"actionType":"core.echo"}]}"#;

#[test]
fn failures_in_pipes_are_told_in_the_order_of_the_log() {
    let world = World::with_files(&[("saga.json", SAGA)]);
    let expected = [
        "  book: Succeeded",
        "  wait: Failed: SIGNAL_TIMEOUT: ",
        "  after: Blocked",
        "  compensation of book: Failed: UNDO_FAILED: no answer",
    ];
    let check = |said: &str| {
        let places =
            expected.map(|line| said.find(line).unwrap_or_else(|| panic!("{line}: {said}")));
        assert!(places.is_sorted(), "{said}");
    };
    check(&world.run(&["run", "saga.json"]).expect(1).stderr);
    let server = world.serve();
    check(&server.run(&world, &["run", "saga.json"]).expect(1).stderr);
    server.stop();
}

/// The log tells of a start after a while; the process that executes the run knows at once.
#[test]
fn a_node_is_running_as_soon_as_a_worker_has_it() {
    let (world, server, client) = serving(&[SLEEP]);
    let mut is_before_the_log = false;
    for _ in 0..100 {
        let run = client.execute("sleep", &json!({}));
        let path = format!("/api/v1/executions/{run}/statuses");
        let begun = client.until(&path, |code, statuses| {
            code == 200 && statuses["nodes"] == "R"
        });
        assert!(begun["started"][0].as_i64() >= Some(0), "{begun}");
        let events = client.get(&format!("/api/v1/executions/{run}/events"));
        let events = events.expect(200).json();
        let is_told = |event: &&Value| event["kind"] == "NodeStarted";
        is_before_the_log |= items(&events).iter().all(|event| !is_told(event));
        for ended in [
            server.run(&world, &["show", &run]),
            world.run(&["show", &run]),
        ] {
            let shown = ended.expect(0).stdout;
            let node = shown.lines().find(|line| line.contains("core.sleep"));
            assert!(node.is_some_and(|it| it.contains("Running")), "{shown}");
        }
        let shown = world.run(&["show", &run, "--json"]).expect(0).json();
        assert_eq!(shown["nodes"]["nap"]["status"], "Running");
        client.post(&format!("/api/v1/executions/{run}/cancel"), &json!({}));
        if is_before_the_log {
            break;
        }
    }
    assert!(is_before_the_log, "memory never knew before the log");
    server.kill();
}

/// A node that fails again is told on stderr, however soon: by the process itself, and by one that
/// asks the server beside it.
#[test]
fn a_failure_after_a_command_is_told_in_pipes() {
    let refused = r#"{"id":"refused","nodes":[
     {"id":"charge","actionType":"core.fail","parameters":{"code":"NO_MONEY"}}]}"#;
    let world = World::with_files(&[("refused.json", refused)]);
    let run = world.run(&["run", "refused.json"]).expect(1);
    let check = |ended: Ended, how: &str| {
        let said = ended.expect(1).stderr;
        assert!(
            said.contains("1 node\n  charge: Failed: NO_MONEY"),
            "{how}: {said}"
        );
    };
    check(run, "run");
    check(world.run(&["reattempt", "@last"]), "reattempt");
    let server = world.serve();
    check(
        server.run(&world, &["reattempt", "@last"]),
        "through a server",
    );
    check(
        world.run(&["reattempt", "@last"]),
        "beside a server, through its socket",
    );
    check(
        world.run(&["run", "refused.json"]),
        "a new run through the socket",
    );
    server.stop();
}

/// Thirty batches, some of which fail inside children in loops: found, understood, repaired and
/// seen to succeed, in fewer than eight commands.
#[test]
fn thirty_runs_are_repaired_in_fewer_than_eight_commands() {
    let (world, server, client) = serving(&[CHARGE, BATCH]);
    let runs: Vec<String> = (0..30)
        .map(|n| {
            let account = if n % 5 == 0 { 40 } else { 4 };
            let trigger = json!({ "orders": [[1, 2], [3, account]] });
            client.execute("batch", &json!({ "trigger": trigger }))
        })
        .collect();
    let ended = runs
        .iter()
        .map(|run| client.ended(run)["status"] == "Failed");
    assert_eq!(ended.filter(|failed| *failed).count(), 6);
    let windlass = |arguments: &[&str]| server.run(&world, arguments).expect(0).stdout;
    // 1: what is broken, and why, on the first line of each.
    let failed = windlass(&["runs", "--status", "failed", "--unresolved"]);
    assert_eq!(
        failed.matches("NO_FUNDS: account 40 is empty").count(),
        6,
        "{failed}"
    );
    // 2 and 3: one of them, and why.
    let one = windlass(&["runs", "--error", "NO_FUNDS", "--limit", "1", "--json"]);
    let one: Value = serde_json::from_str(&one).expect("JSON");
    let why = windlass(&["why", &ids(&one)[0]]);
    assert!(why.contains("NO_FUNDS: account 40 is empty"), "{why}");
    // 4: what a fork with the right account would do.
    let fork = |more: &[&str]| {
        let fork = [
            "fork",
            "--filter",
            "error=NO_FUNDS",
            "--filter",
            "unresolved",
        ];
        let set = ["--from", "orders", "--set", "trigger.orders=[[1,2],[3,4]]"];
        windlass(&[&fork[..], &set, more].concat())
    };
    let foreseen = fork(&["--dry-run"]);
    assert_eq!(foreseen.matches("would be forked").count(), 6, "{foreseen}");
    // 5: all of them, at once.
    let forked = fork(&["--reason", "wrong account", "--json"]);
    let forked: Value = serde_json::from_str(&forked).expect("JSON");
    let forked: Vec<&str> = forked
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|fork| fork["executionId"].as_str())
        .collect();
    assert_eq!(forked.len(), 6);
    // 6: one is seen to succeed, and then nothing is left.
    windlass(&["watch", forked[0]]);
    for run in forked {
        assert_eq!(client.ended(run)["status"], "Succeeded");
    }
    // 7: the list of what is broken is empty.
    let left = windlass(&["runs", "--status", "failed", "--unresolved", "--json"]);
    let left: Value = serde_json::from_str(&left).expect("JSON");
    assert!(ids(&left).is_empty(), "{left}");
    server.stop();
}
