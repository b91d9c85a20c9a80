//! What the web page is made of, from outside: layouts and statuses, time travel, statistics,
//! and the HTML that is readable without a script.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass_test_support::process::{Client, ECHO, FAIL, ServerProcess, WAIT, World, serving};

const ORDERS: &str = r#"{"id":"orders","displayName":"Orders","nodes":[
 {"id":"load","actionType":"core.echo","parameters":{"list":[1,2,3]}},
 {"id":"each","dependsOn":["load"],"forEach":{"items":"{{ context.data.load.list }}",
  "parallel":false,"onItemFailure":"collect","body":{"nodes":[
   {"id":"pick","actionType":"core.echo","parameters":{"n":"{{ item }}"}},
   {"id":"pack","dependsOn":["pick"],"actionType":"core.fail",
    "parameters":{"untilAttempt":"{{ item == 2 ? 9 : 1 }}","code":"TORN"}}]}}},
 {"id":"ask","dependsOn":["each"],"edges":[{"targetNode":"ship"}],
  "waitForSignal":{"name":"go"}},
 {"id":"sorry","actionType":"core.echo"},
 {"id":"flaky","dependsOn":["load"],"onFailure":"sorry","actionType":"core.fail",
  "parameters":{"code":"NO","retriable":true},"policies":{"retry":{"maxAttempts":2,"baseDelayMs":1,"strategy":"fixed","jitter":false}}},
 {"id":"ship","actionType":"core.echo","parameters":{"sent":true}}]}"#;

fn with_orders() -> (World, ServerProcess, Client) {
    serving(&[ORDERS, ECHO, FAIL, WAIT])
}

fn get(client: &Client, path: &str) -> Value {
    client.get(path).expect(200).json()
}

/// A run of the orders that waits for its signal.
fn asking(client: &Client) -> String {
    let run = client.execute("orders", &json!({}));
    client.wait_for(&run, "NodeWaiting");
    // The failing node beside it has ended too, and its route.
    client.until(&format!("/api/v1/executions/{run}"), |_, run| {
        run["nodes"]["sorry"]["status"] == "Succeeded"
    });
    run
}

fn numbers(list: &Value) -> Vec<i64> {
    let list = list.as_array().expect("a list").iter();
    list.map(|it| it.as_i64().expect("a number")).collect()
}

#[test]
fn a_layout_is_kept_by_its_tag_and_fits_the_statuses() {
    let (_world, _server, client) = with_orders();
    let run = asking(&client);
    let first = client.get("/api/v1/workflows/orders/layout").expect(200);
    let tag = first.header("etag").expect("a tag").to_owned();
    assert_eq!(first.header("cache-control"), Some("private, no-cache"));
    let layout = first.json();
    let ids: Vec<&str> = layout["nodes"]["id"]
        .as_array()
        .expect("ids")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(ids, ["load", "each", "ask", "sorry", "flaky", "ship"]);
    for key in ["x", "y", "w", "h", "frame", "kind", "index", "count"] {
        assert_eq!(numbers(&layout["nodes"][key]).len(), 6, "{key}");
    }
    let of_run = client.get(&format!("/api/v1/executions/{run}/layout"));
    assert_eq!(of_run.header("etag"), Some(tag.as_str()));
    let again = client.send(
        "GET",
        &format!("/api/v1/executions/{run}/layout"),
        &[("If-None-Match", &tag)],
        None,
    );
    assert_eq!(again.status, 304);
    let statuses = get(&client, &format!("/api/v1/executions/{run}/statuses"));
    assert_eq!(statuses["definition"], layout["definition"]);
    // flaky failed, and its failure was handled.
    assert_eq!(statuses["nodes"], "SSWSfP");
    let edges = numbers(&layout["edges"]["index"]);
    let letters = statuses["edges"].as_str().expect("letters");
    assert_eq!(letters.len(), edges.len());
    assert_eq!(statuses["attempts"], json!({ "4": 2 }));
    assert_eq!(statuses["loops"]["1"]["items"], 3);
    assert_eq!(statuses["loops"]["1"]["failed"], json!([1]));
    let counts = &statuses["loops"]["1"]["counts"];
    assert_eq!(
        (&counts["succeeded"], &counts["failed"]),
        (&json!(5), &json!(1))
    );
    assert_eq!(numbers(&statuses["took"])[2], -1);
    assert!(numbers(&statuses["started"])[2] >= 0);
    let opened = get(
        &client,
        "/api/v1/workflows/orders/layout?open=each&ids=true",
    );
    assert_eq!(opened["frames"][0]["node"], 1);
    assert_eq!(opened["ids"][7], "each/pack");
    let bodies = get(
        &client,
        &format!("/api/v1/executions/{run}/statuses?expand=true"),
    );
    let expected = json!({ "6": { "Succeeded": 3 }, "7": { "Succeeded": 2, "Failed": 1 } });
    assert_eq!(bodies["bodies"], expected);
}

#[test]
fn a_wide_run_is_one_box_and_thirty_bytes_a_node() {
    const WIDTH: usize = 1500;
    let (_world, _server, client) = serving(&[]);
    let work: Vec<Value> = (0..WIDTH)
        .map(|index| {
            json!({ "id": format!("work-{index}"), "actionType": "core.echo",
                    "dependsOn": ["split"], "edges": [{ "targetNode": "join" }] })
        })
        .collect();
    let mut nodes = vec![json!({ "id": "split", "actionType": "core.echo" })];
    nodes.extend(work);
    nodes.push(json!({ "id": "join", "actionType": "core.echo" }));
    client.publish(&json!({ "id": "wide", "nodes": nodes }).to_string());
    let run = client.execute("wide", &json!({}));
    client.ended(&run);
    let layout = client
        .get(&format!("/api/v1/executions/{run}/layout"))
        .expect(200);
    assert!(layout.body.len() < 2000, "{} bytes", layout.body.len());
    assert_eq!(layout.json()["nodes"]["count"], json!([1, WIDTH, 1]));
    let statuses = client
        .get(&format!("/api/v1/executions/{run}/statuses"))
        .expect(200);
    let letters = "S".repeat(WIDTH + 2);
    assert_eq!(statuses.json()["nodes"], letters.as_str());
    assert!(
        statuses.body.len() <= 30 * (WIDTH + 2),
        "{} bytes",
        statuses.body.len()
    );
    let all = client
        .get("/api/v1/workflows/wide/layout?collapse=none")
        .expect(200);
    assert_eq!(numbers(&all.json()["nodes"]["x"]).len(), WIDTH + 2);
}

#[test]
fn events_continue_the_statuses() {
    let (_world, _server, client) = with_orders();
    let run = asking(&client);
    let place = format!("/api/v1/executions/{run}");
    let before = get(&client, &format!("{place}/statuses"));
    let sequence = before["sequence"].as_u64().expect("a position");
    let events = get(&client, &format!("{place}/events?limit=10000"));
    let last = events["items"]
        .as_array()
        .and_then(|list| list.last().cloned());
    assert_eq!(last.expect("events")["position"], sequence);
    client
        .post(&format!("{place}/signal"), &json!({ "name": "go" }))
        .expect(200);
    client.ended(&run);
    let id = sequence.to_string();
    let rest: Vec<_> = client.events(&run, &[("Last-Event-ID", &id)]).collect();
    assert_eq!(rest[0].id, Some(sequence + 1));
    // Read further, not from the beginning, and the same as one who reads it all.
    let after = get(&client, &format!("{place}/statuses"));
    assert_eq!(after["nodes"], "SSSSfS");
    assert_eq!(
        after["sequence"],
        rest.iter().filter_map(|it| it.id).max().unwrap()
    );
    let at = get(&client, &format!("{place}/statuses?at={sequence}"));
    assert_eq!(at, before);
}

/// What a run showed at a moment, by the position of its last event.
#[test]
fn the_last_events_are_the_same_from_memory_and_from_the_log() {
    let each = r#"{"id":"each","nodes":[{"id":"each","forEach":{"items":"{{ trigger }}",
        "body":{"nodes":[{"id":"work","actionType":"core.echo"}]}}}]}"#;
    let (_world, _server, client) = serving(&[each]);
    let items: Vec<u32> = (0..200).collect();
    let run = client.execute("each", &json!({ "trigger": items }));
    client.wait_for(&run, "RunFinished");
    let place = format!("/api/v1/executions/{run}");
    let pages = |limit: usize| {
        let whole = get(&client, &format!("{place}/events?limit=10000"));
        let last = whole["items"].as_array().expect("events").len();
        assert!(last > 600, "more than are kept in memory: {last}");
        let after = [0, 1, last - 513, last - 512, last - 3, last, last + 9];
        let page = |at| get(&client, &format!("{place}/events?after={at}&limit={limit}"));
        after.map(page)
    };
    // Nothing has looked at the run yet: these are read from the log.
    let from_log = (pages(2), pages(1000));
    get(&client, &format!("{place}/statuses"));
    assert_eq!((pages(2), pages(1000)), from_log);
}

#[test]
fn a_run_can_be_read_without_its_nodes() {
    let (_world, _server, client) = with_orders();
    let run = asking(&client);
    let whole = get(&client, &format!("/api/v1/executions/{run}"));
    let mut bare = get(&client, &format!("/api/v1/executions/{run}?nodes=none"));
    assert_eq!(bare["nodes"], json!({}));
    bare["nodes"] = whole["nodes"].clone();
    assert_eq!(bare, whole);
}

/// Readers share what one of them has read; an answer with large values is written from the log.
#[test]
fn readers_at_the_same_time_see_the_same_run() {
    let echo = r#"{"id":"echo","nodes":[{"id":"a","actionType":"core.script",
        "parameters":{"expression":"trigger.length"}}]}"#;
    let (_world, server, client) = serving(&[echo]);
    for length in [5, 5 * 1024 * 1024] {
        let run = client.execute("echo", &json!({ "trigger": "x".repeat(length) }));
        client.wait_for(&run, "RunFinished");
        let place = format!("/api/v1/executions/{run}");
        let mut whole = get(&client, &place);
        whole["nodes"] = json!({});
        std::thread::scope(|scope| {
            let read = || {
                let client = server.client();
                let bare = get(&client, &format!("{place}?nodes=none"));
                let statuses = get(&client, &format!("{place}/statuses"));
                (bare, statuses["sequence"].as_u64())
            };
            let readers: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
            for reader in readers {
                let (bare, last) = reader.join().expect("an answer");
                assert_eq!(bare["trigger"].as_str().map(str::len), Some(length));
                assert_eq!(bare, whole);
                assert_eq!(last, Some(5));
            }
        });
    }
}

fn shown(client: &Client, place: &str) -> (u64, String) {
    let position = get(client, &format!("{place}/statuses"))["sequence"].as_u64();
    let whole = client.get(&format!("{place}?include=actions,events&nodes=all"));
    let text = String::from_utf8(whole.expect(200).body).expect("text");
    (position.expect("a position"), text)
}

/// Afterwards, each moment is shown as it was.
fn same_afterwards(client: &Client, place: &str, seen: &BTreeMap<u64, String>) {
    for (position, expected) in seen {
        let path = format!("{place}?at={position}&include=actions,events&nodes=all");
        let then = client.get(&path).expect(200).body;
        let then = String::from_utf8(then).expect("text");
        assert_eq!(then, *expected, "at {position}");
    }
}

/// What the engine showed while it ran is what is shown of that moment afterwards.
#[test]
fn a_run_is_shown_as_it_was_after_each_event() {
    let (_world, _server, client) = with_orders();
    let run = asking(&client);
    let place = format!("/api/v1/executions/{run}");
    let mut seen: BTreeMap<u64, String> = BTreeMap::from([shown(&client, &place)]);
    for command in ["pause", "resume"] {
        let path = format!("{place}/{command}");
        client.post(&path, &json!({})).expect(200);
        seen.extend([shown(&client, &place)]);
    }
    let signal = json!({ "name": "go" });
    client.post(&format!("{place}/signal"), &signal).expect(200);
    client.ended(&run);
    seen.extend([shown(&client, &place)]);
    assert_eq!(seen.len(), 4, "{:?}", seen.keys());
    same_afterwards(&client, &place, &seen);
    // After each event, each node that an event named stands as its last event says.
    let events = get(&client, &format!("{place}/events?limit=10000"));
    let events = events["items"].as_array().expect("events");
    for event in events {
        let position = event["position"].as_u64().expect("a position");
        let then = get(&client, &format!("{place}?at={position}&nodes=all"));
        let (kind, node) = (event["kind"].as_str(), event["node"].as_str());
        let expected = match kind {
            Some("NodeSucceeded") => "Succeeded",
            Some("NodeFailed") => "Failed",
            Some("NodeRetryScheduled" | "NodeWaiting") => "Waiting",
            _ => continue,
        };
        let status = &then["nodes"][node.expect("a node")]["status"];
        assert_eq!(status, expected, "after {event}");
    }
    let now = get(&client, &place);
    assert_eq!(get(&client, &format!("{place}?at=1000000")), now);
    client
        .get(&format!("{place}?at=0"))
        .refused(400, "QUERY_INVALID");
    client
        .get(&format!("{place}?at=x"))
        .refused(400, "QUERY_INVALID");
    assert_eq!(
        client
            .get(&format!("{place}?at=3&include=resources"))
            .status,
        400
    );
}

/// A command opens the run again: the log goes on, and what was before stays as it was.
#[test]
fn a_run_that_was_opened_again_is_shown_as_it_was_before() {
    let (_world, _server, client) = with_orders();
    let run = client.execute("fail", &json!({}));
    client.ended(&run);
    let place = format!("/api/v1/executions/{run}");
    let mut seen: BTreeMap<u64, String> = BTreeMap::from([shown(&client, &place)]);
    let set = json!({ "node": "bad", "output": {} });
    client
        .post(&format!("{place}/set-result"), &set)
        .expect(200);
    assert_eq!(client.ended(&run)["status"], "Succeeded");
    seen.extend([shown(&client, &place)]);
    assert_eq!(seen.len(), 2, "{:?}", seen.keys());
    same_afterwards(&client, &place, &seen);
}

/// The attempts that ended by then, and the values that the log had by then.
#[test]
fn a_node_is_shown_as_it_was_after_each_event() {
    let (_world, _server, client) = with_orders();
    let run = asking(&client);
    let place = format!("/api/v1/executions/{run}");
    let events = get(&client, &format!("{place}/events?limit=10000"));
    let events = events["items"].as_array().expect("events").clone();
    for event in &events {
        let position = event["position"].as_u64().expect("a position");
        let then = get(&client, &format!("{place}/nodes/flaky?at={position}"));
        let whole = format!("{place}?at={position}&include=actions&nodes=flaky");
        let whole = get(&client, &whole);
        let state = &whole["nodes"]["flaky"];
        for key in [
            "status",
            "input",
            "output",
            "error",
            "attempts",
            "startedAt",
        ] {
            assert_eq!(then[key], state[key], "{key} after {event}");
        }
        let attempts = whole["actions"].as_array().expect("attempts").iter();
        let attempts: Vec<&Value> = attempts.filter(|it| it["node"] == "flaky").collect();
        assert_eq!(then["actions"], json!(attempts), "after {event}");
        assert_eq!(then["runStatus"], whole["status"], "after {event}");
        if (&event["kind"], &event["node"]) == (&json!("NodeRetryScheduled"), &json!("flaky")) {
            let one = then["actions"].as_array().expect("attempts");
            assert_eq!(one.len(), 1, "{then}");
            assert_eq!(one[0]["parameters"]["code"], "NO");
            assert_eq!(
                (&then["commands"], &then["why"]),
                (&Value::Null, &Value::Null)
            );
        }
    }
    let now = get(&client, &format!("{place}/nodes/flaky"));
    let past_the_end = get(&client, &format!("{place}/nodes/flaky?at=1000000"));
    assert_eq!(past_the_end["actions"], now["actions"]);
    assert_eq!(now["actions"].as_array().map(Vec::len), Some(2));
    let early = client.get(&format!("{place}/nodes/each[0]/pick?at=1"));
    early.refused(404, "NODE_NOT_FOUND");
    let none = client.get(&format!("{place}/nodes/flaky?at=0"));
    none.refused(400, "QUERY_INVALID");
}

#[test]
fn the_runs_of_a_version_are_listed_and_acted_on() {
    let (world, server, client) = serving(&[WAIT]);
    let old = [(); 2].map(|()| client.execute("wait", &json!({})));
    client.publish(&WAIT.replace("\"nodes\"", "\"description\": \"new\", \"nodes\""));
    let new = client.execute("wait", &json!({}));
    let listed = |query: &str| {
        let page = get(&client, &format!("/api/v1/executions?{query}"));
        let items = page["items"].as_array().expect("runs").iter();
        let ids = items.map(|item| item["executionId"].as_str().expect("an id").to_owned());
        ids.collect::<BTreeSet<_>>()
    };
    assert_eq!(listed("workflow=wait&version=2"), [new.clone()].into());
    let first = old[0].clone();
    assert_eq!(listed("workflow=wait&version=1"), old.into());
    assert!(listed("workflow=wait&version=3").is_empty());
    assert!(listed("workflow=other&version=1").is_empty());
    let alone = client.get("/api/v1/executions?version=1");
    alone.refused(400, "USAGE");
    let html = client.get("/?workflow=wait&version=2").expect(200).body;
    let html = String::from_utf8(html).expect("text");
    assert!(html.contains(&new) && !html.contains(&first), "{html}");
    let cancel = |filter: Value| json!({ "action": "cancel", "filter": filter });
    let alone = client.post("/api/v1/bulk", &cancel(json!({ "version": 2 })));
    alone.refused(400, "USAGE");
    let filter = json!({ "workflow": "wait", "version": 2 });
    let job = client.post("/api/v1/bulk", &cancel(filter)).expect(202);
    assert_eq!(client.finished(&job.text("id"))["done"], 1);
    assert_eq!(client.ended(&new)["status"], "Cancelled");
    let run = get(&client, &format!("/api/v1/executions/{first}"));
    assert_ne!(run["status"], "Cancelled");
    // The command line means the same runs.
    let of_version = ["--filter", "workflow=wait", "--filter", "version=1"];
    let many = [&["cancel", "--dry-run"], &of_version[..]].concat();
    let many = server.run(&world, &many).expect(0);
    assert!(many.stdout.contains(&first[..13]), "{}", many.stdout);
    server.run(&world, &["runs", "--version", "1"]).expect(2);
}

#[test]
fn one_workflow_is_found_in_the_catalogue_with_how_it_stands() {
    let (_world, _server, client) = serving(&[ECHO, WAIT]);
    let place = "/api/v1/workflows?workflow=wait";
    let found = |enabled: bool| {
        let page = get(&client, place);
        let items = page["items"].as_array().expect("workflows");
        assert_eq!(items.len(), 1, "{page}");
        assert_eq!(items[0]["workflowId"], "wait");
        assert_eq!(items[0]["enabled"], enabled, "{page}");
    };
    found(true);
    client.delete("/api/v1/workflows/wait").expect(200);
    found(false);
    let none = get(&client, "/api/v1/workflows?workflow=wai");
    assert_eq!(none["items"], json!([]));
}

#[test]
fn statistics_are_bounded_and_say_so() {
    let (_world, _server, client) = with_orders();
    for _ in 0..3 {
        let run = asking(&client);
        let place = format!("/api/v1/executions/{run}/signal");
        client.post(&place, &json!({ "name": "go" })).expect(200);
        client.ended(&run);
    }
    let place = "/api/v1/workflows/orders/statistics";
    let all = get(&client, place);
    assert_eq!(all["runs"]["examined"], 3);
    assert_eq!(all["runs"]["complete"], true);
    let flaky = &all["nodes"]["flaky"];
    assert_eq!((&flaky["runs"], &flaky["failures"]), (&json!(3), &json!(3)));
    assert_eq!(flaky["retries"], 3);
    let pack = &all["nodes"]["each/pack"];
    assert_eq!((&pack["runs"], &pack["failures"]), (&json!(9), &json!(3)));
    assert!(pack["p95Ms"].as_u64() >= pack["p50Ms"].as_u64());
    let two = get(&client, &format!("{place}?runs=2"));
    assert_eq!(two["runs"]["examined"], 2);
    assert_eq!(two["runs"]["complete"], false);
    assert_eq!(
        get(&client, &format!("{place}?version=7"))["runs"]["examined"],
        0
    );
    client
        .get(&format!("{place}?runs=0"))
        .refused(400, "QUERY_INVALID");
    client
        .get(&format!("{place}?from=1h&to=2h"))
        .refused(400, "TIME_INVALID");
    client
        .get("/api/v1/workflows/none/statistics")
        .refused(404, "WORKFLOW_NOT_FOUND");
    client.execute("wait", &json!({}));
    let over_time = get(&client, "/api/v1/statistics?from=1h&buckets=12");
    let sum = |status: &str| numbers(&over_time["counts"][status]).iter().sum::<i64>();
    assert_eq!(over_time["begins"].as_array().map(Vec::len), Some(12));
    assert_eq!(sum("Running") + sum("Pending"), 1);
    assert_eq!(sum("Succeeded") + sum("Failed"), 3);
    let past = get(&client, "/api/v1/statistics?from=2h&to=1h");
    let past = past["counts"].as_object().expect("counts").values();
    assert!(past.flat_map(numbers).all(|count| count == 0));
    client
        .get("/api/v1/statistics?buckets=501")
        .refused(400, "QUERY_INVALID");
}

#[test]
fn the_first_html_has_the_data_in_it_as_text() {
    let (_world, _server, client) = with_orders();
    let hostile = r#"{"id":"hostile","displayName":"<img src=x onerror=alert(1)>","nodes":[
        {"id":"a","actionType":"core.fail","parameters":
         {"code":"BAD","message":"</main><script>alert(1)</script>\u202ereversed\u200bhidden"}}]}"#;
    client.publish(hostile);
    let body = json!({ "labels": { "who": "\"><b>me</b>" } });
    let run = client.execute("hostile", &body);
    client.ended(&run);
    let page = |path: &str, status: u16| {
        let answer = client.get(path).expect(status);
        assert_eq!(
            answer.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        let policy = answer.header("content-security-policy").unwrap_or_default();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        String::from_utf8(answer.body).expect("text")
    };
    for (path, parts) in [
        ("/".to_owned(), vec![run.as_str(), "Failed", "BAD"]),
        ("/?status=Failed&selected=x".to_owned(), vec![run.as_str()]),
        (
            format!("/runs/{run}"),
            vec!["Why it failed", "BAD", "hidden"],
        ),
        ("/workflows".to_owned(), vec!["orders", "hostile"]),
        ("/workflows/hostile".to_owned(), vec!["v1", run.as_str()]),
        ("/operations".to_owned(), vec!["Operations"]),
        ("/editor".to_owned(), vec!["Editor"]),
    ] {
        let text = page(&path, 200);
        for part in parts {
            assert!(text.contains(part), "{path}: {part} is missing in {text}");
        }
        for bad in ["<img", "alert(1)</script>", "<b>me", "\u{202e}", "\u{200b}"] {
            assert!(!text.contains(bad), "{path}: {bad} in {text}");
        }
    }
    assert!(!page("/?status=Succeeded", 200).contains(&run));
    assert!(page("/?status=Wrong", 200).contains("is not a status"));
    assert!(page("/runs/0192", 404).contains("RUN_NOT_FOUND"));
    assert!(page("/workflows/none", 404).contains("WORKFLOW_NOT_FOUND"));
    client
        .get("/assets/none.js")
        .refused(404, "ROUTE_NOT_FOUND");
}

#[test]
fn a_server_with_tokens_serves_the_page_without_data() {
    let world = World::new();
    let token = world.token(
        "a",
        None,
        "workflows:read,workflows:manage,workflows:execute",
    );
    let server = world.serve_with(&["--auth-keys", "keys.json"], &[]);
    let client = server.client_with(&token);
    client.publish(ECHO);
    let run = client.execute("echo", &json!({}));
    let visitor = server.client();
    for path in [
        "/".to_owned(),
        format!("/runs/{run}"),
        "/workflows/echo".to_owned(),
    ] {
        let text = String::from_utf8(visitor.get(&path).expect(200).body).expect("text");
        assert!(!text.contains(&run), "{text}");
    }
    visitor
        .get("/api/v1/statistics")
        .refused(401, "UNAUTHENTICATED");
    visitor
        .get(&format!("/api/v1/executions/{run}/statuses"))
        .refused(401, "UNAUTHENTICATED");
}

#[test]
fn tenants_see_no_figures_of_others() {
    let world = World::new();
    let scopes = "workflows:read,workflows:manage,workflows:execute";
    let (one, two) = (
        world.token("a", Some("one"), scopes),
        world.token("b", Some("two"), scopes),
    );
    let server = world.serve_with(&["--auth-keys", "keys.json"], &[]);
    let (one, two) = (server.client_with(&one), server.client_with(&two));
    one.publish(ECHO);
    let run = one.execute("echo", &json!({}));
    one.ended(&run);
    let sum = |client: &Client| {
        let counts = get(client, "/api/v1/statistics");
        let counts = counts["counts"].as_object().expect("counts").clone();
        counts.values().flat_map(numbers).sum::<i64>()
    };
    assert_eq!((sum(&one), sum(&two)), (1, 0));
    two.get("/api/v1/workflows/echo/statistics")
        .refused(404, "WORKFLOW_NOT_FOUND");
    two.get("/api/v1/workflows/echo/layout")
        .refused(404, "WORKFLOW_NOT_FOUND");
    for part in ["layout", "statuses"] {
        let path = format!("/api/v1/executions/{run}/{part}");
        assert_eq!(get(&one, &path)["v"], 1);
        two.get(&path).refused(404, "RUN_NOT_FOUND");
    }
}

#[test]
fn dev_prints_its_address_and_starts_runs_to_explore() {
    let world = World::new();
    let arguments = ["dev", "--demo", "--no-open", "--listen", "127.0.0.1:0"];
    let mut process = world.start(&arguments);
    let line = process.wait_for("the page is at ");
    let address = line.rsplit("http://").next().expect("an address");
    let address = address.trim().trim_end_matches('/');
    let client = Client::new(address, None);
    let newest = |workflow: &str| {
        let path = format!("/api/v1/executions?workflow={workflow}");
        let runs = get(&client, &path);
        runs["items"][0]["executionId"]
            .as_str()
            .expect("a run")
            .to_owned()
    };
    assert_eq!(
        client.ended(&newest("demo-greeting"))["status"],
        "Succeeded"
    );
    let failed = client.ended(&newest("demo-orders"));
    assert_eq!(failed["status"], "Failed");
    let cause = &failed["error"]["causes"][0];
    assert_eq!(cause["code"], "CARD_DECLINED", "{failed}");
    assert_ne!(cause["executionId"], failed["executionId"]);
    client.wait_for(&newest("demo-approval"), "NodeWaiting");
    client.wait_for(&newest("demo-import"), "LoopExpanded");
    let running = get(
        &client,
        &format!("/api/v1/executions/{}", newest("demo-import")),
    );
    assert_eq!(running["status"], "Running");
    let text = String::from_utf8(client.get("/").expect(200).body).expect("text");
    assert!(text.contains("demo-orders"), "{text}");
    process.interrupt();
    assert_eq!(process.end().code, 0);
}
