//! Every command against a server prints what it prints on the data directory.

mod act_world;

use act_world::{Background, Ended, World};
use serde_json::Value;

const ECHO: &str = r#"{ "id": "echo", "displayName": "An echo", "vars": { "region": "eu" },
  "nodes": [{ "id": "a", "actionType": "core.echo", "parameters": {
    "n": "{{ trigger.n ?? 1 }}", "region": "{{ vars.region }}" } }] }"#;

const ECHO_MORE: &str = r#"{ "id": "echo", "vars": { "region": "eu" }, "nodes": [
  { "id": "a", "actionType": "core.echo", "edges": [{ "targetNode": "b" }] },
  { "id": "b", "actionType": "core.echo" }] }"#;

const LOOP: &str = r#"{ "id": "loop", "nodes": [
  { "id": "each", "forEach": { "items": [1, 2, 3], "body": { "nodes": [
      { "id": "one", "actionType": "core.echo", "parameters": { "n": "{{ item }}" } }] } },
    "edges": [{ "targetNode": "child" }] },
  { "id": "child", "subworkflow": { "workflowId": "echo", "input": { "n": 5 } } }] }"#;

const FAIL: &str = r#"{ "id": "fail", "nodes": [
  { "id": "made", "actionType": "core.echo", "compensate": { "actionType": "core.echo" },
    "edges": [{ "targetNode": "bad" }] },
  { "id": "bad", "actionType": "core.fail", "parameters": { "message": "no", "retriable": true },
    "policies": { "retry": { "maxAttempts": 2, "baseDelayMs": 1 } } }],
  "compensation": "manual" }"#;

/// Fails once, then goes on.
const ONCE: &str = r#"{ "id": "once", "nodes": [
  { "id": "first", "actionType": "core.fail", "parameters": { "untilAttempt": 2 } },
  { "id": "other", "actionType": "core.echo" }] }"#;

const WAIT: &str = r#"{ "id": "wait", "nodes": [
  { "id": "ask", "waitForSignal": { "name": "go" }, "edges": [{ "targetNode": "after" }] },
  { "id": "after", "actionType": "core.echo", "parameters": { "said": "{{ context.data.ask }}" } }] }"#;

/// A server on the world's data directory; it is told to stop at the end.
struct Serving {
    process: Option<Background>,
    url: String,
}

impl Serving {
    fn new(world: &World, more: &[&str]) -> Self {
        Self::at(world, "127.0.0.1:0", more)
    }

    fn at(world: &World, address: &str, more: &[&str]) -> Self {
        let mut arguments = vec!["serve", "--listen", address];
        arguments.extend(more);
        let mut process = world.start(&arguments);
        let line = process.wait_for("/api/docs");
        let url = line.split(' ').find(|word| word.starts_with("http"));
        let url = url.expect("an address").replace("/api/docs", "");
        Self {
            process: Some(process),
            url,
        }
    }

    fn stop(mut self) {
        let process = self.process.take().expect("it was started");
        process.interrupt();
        process.end().expect(0);
    }

    /// Runs a command against the server.
    fn run(&self, world: &World, arguments: &[&str]) -> Ended {
        let mut all = vec!["--server", &self.url];
        all.extend(arguments);
        world.run(&all)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            process.interrupt();
        }
    }
}

fn world() -> World {
    let world = World::new();
    for (name, text) in [
        ("echo.json", ECHO),
        ("more.json", ECHO_MORE),
        ("loop.json", LOOP),
        ("fail.json", FAIL),
        ("once.json", ONCE),
        ("wait.json", WAIT),
    ] {
        world.definition(name, text);
    }
    world
}

/// What changes from one look to the next: how long ago something was, and now.
fn steady(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.contains("\"frozenAt\"")) {
        let line = line.replace("(", "( ").replace("`", "");
        let mut parts: Vec<&str> = line.split(' ').filter(|part| !part.is_empty()).collect();
        for at in (1..parts.len()).rev() {
            if parts[at].trim_end_matches([')', ':', ',']) == "ago" {
                parts[at - 1] = "…";
                // A run that goes on has taken longer by now.
                if line.contains('◐') && at + 1 < parts.len() {
                    parts[at + 1] = "…";
                }
            }
        }
        words.push(parts.join(" "));
    }
    words.join("\n")
}

fn id(ended: &Ended) -> String {
    ended.json()["executionId"]
        .as_str()
        .expect("an id")
        .to_owned()
}

#[test]
fn looking_prints_the_same() {
    let world = world();
    let big = format!(r#"{{"n": "{}"}}"#, "x".repeat(100_000));
    world.definition("big.json", &big);
    let run = |arguments: &[&str], code| id(&world.run(arguments).expect(code));
    let echo = run(&["run", "echo.json", "--json", "--label", "team=a b"], 0);
    run(&["run", "echo.json", "--json", "--trigger", "@big.json"], 0);
    world.run(&["publish", "more.json"]).expect(0);
    let looped = run(&["run", "loop.json", "--json"], 0);
    let failed = run(&["run", "fail.json", "--json"], 1);
    let export = world.run(&["export", &looped]).expect(0);
    world.definition("graph.json", &export.stdout);
    let frozen = run(&["run", "graph.json", "--json"], 0);
    world.run(&["run", "wait.json", "--wait", "0.2"]).expect(7);
    let newest = world.run(&["runs", "--limit", "1", "--json"]).expect(0);
    let newest = newest.json()["items"][0]["executionId"].clone();
    let waiting = newest.as_str().expect("an id").to_owned();
    let short = &echo[..20];
    let commands: Vec<Vec<&str>> = vec![
        vec!["runs"],
        vec!["runs", "--json"],
        vec!["runs", "--limit", "2"],
        vec!["runs", "--limit", "2", "--json"],
        vec!["runs", "--cursor", &failed, "--json"],
        vec!["runs", "--status", "failed,Succeeded", "--workflow", "echo"],
        vec!["runs", "--label", "team=a b", "--since", "1h"],
        vec!["runs", "--parent", &looped, "--json"],
        vec!["runs", "--status", "lost"],
        vec!["show", &echo],
        vec!["show", short, "--json"],
        vec![
            "show",
            "@last:echo",
            "--include",
            "actions,resources,events",
        ],
        vec!["show", &looped, "--expand"],
        vec!["show", &looped, "--nodes", "each[1]", "--json"],
        vec!["show", &looped, "--nodes", "eech"],
        vec![
            "show",
            &failed,
            "--json",
            "--include",
            "actions,resources,events",
        ],
        vec!["show", &frozen],
        vec!["show", &waiting, "--json"],
        vec!["show", "0192"],
        vec!["show", "@last:nothing"],
        vec!["result", &echo],
        vec!["result", &failed],
        vec!["result", &waiting],
        vec!["events", &looped],
        vec!["events", "@last:echo", "--json", "--after", "2"],
        vec!["why", &failed],
        vec!["why", &failed, "bad", "--json"],
        vec!["graph", &looped],
        vec!["graph", &looped, "--expand", "--format", "dot"],
        vec!["graph", "wait.json"],
        vec!["workflows"],
        vec!["workflows", "--json"],
        vec!["workflows", "show", "echo"],
        vec!["workflows", "show", "echo", "--version", "1"],
        vec!["workflows", "show", "echo", "--version", "9"],
        vec!["workflows", "show", "ehco"],
        vec!["workflows", "versions", "echo"],
        vec!["workflows", "versions", "echo", "--json"],
        vec!["diff", "echo", "1", "v2"],
        vec!["diff", "echo", "1", "2", "--json"],
        vec!["export", &looped],
        vec!["export", &frozen],
        vec!["verify", &looped],
        vec!["verify", &frozen, "--json"],
        vec!["verify", "@last:echo"],
        vec!["verify", &waiting],
        vec!["compensate", &failed, "--preview"],
        vec!["fork", &failed, "--from", "bad", "--dry-run"],
        vec!["fork", &failed, "--from", "bda", "--dry-run", "--json"],
        vec!["publish", "echo.json", "--plan", "--json"],
        vec!["cancel", &failed, "--dry-run"],
        vec![
            "reattempt",
            "--filter",
            "workflow=fail",
            "--dry-run",
            "--json",
        ],
        vec!["signal", &waiting, "go", "1", "--dry-run"],
        vec!["resume", &echo, "--dry-run"],
        vec!["watch", &failed],
        vec!["validate", "echo.json"],
        vec!["schema"],
    ];
    let serving = Serving::new(&world, &[]);
    let seen: Vec<Ended> = commands.iter().map(|it| serving.run(&world, it)).collect();
    serving.stop();
    for (command, remote) in commands.iter().zip(seen) {
        let local = world.run(command);
        match local.stdout.contains(" ago") || local.stdout.contains("frozenAt") {
            true => assert_eq!(steady(&remote.stdout), steady(&local.stdout), "{command:?}"),
            false => assert_eq!(remote.stdout, local.stdout, "{command:?}"),
        }
        assert_eq!(remote.code, local.code, "{command:?}\n{}", remote.stderr);
        let (here, there) = (steady(&local.stderr), steady(&remote.stderr));
        // Who carries a run on is another matter.
        if !command.contains(&waiting.as_str()) {
            assert_eq!(there, here, "{command:?}");
        }
    }
}

#[test]
fn runs_are_started_and_followed() {
    let world = world();
    let serving = Serving::new(&world, &[]);
    let arguments = ["run", "echo.json", "--trigger", r#"{"n": 7}"#];
    let ended = serving.run(&world, &arguments).expect(0);
    let mut lines = ended.stdout.lines();
    let first = lines.next().expect("a line");
    assert!(
        first.starts_with("echo ") && first.contains(" Succeeded in "),
        "{first}"
    );
    assert!(ended.stdout.contains("\"n\": 7"), "{}", ended.stdout);
    let progress: Vec<&str> = ended.stderr.lines().collect();
    assert!(progress[0].ends_with(": 1 node"), "{}", ended.stderr);
    assert!(
        progress[1].starts_with("  a: Succeeded in "),
        "{}",
        ended.stderr
    );

    // The variables, the request id and the labels arrive.
    let asked = [
        "run",
        "echo.json",
        "--set",
        "vars.region=us",
        "--request-id",
        "r1",
        "--label",
    ];
    let asked: Vec<&str> = asked.iter().copied().chain(["team=x", "--json"]).collect();
    let started = serving.run(&world, &asked).expect(0).json();
    assert_eq!(started["nodes"]["a"]["output"]["region"], "us");
    assert_eq!(started["labels"]["team"], "x");
    assert_eq!(started["existing"], false);
    let again = serving.run(&world, &asked).expect(0).json();
    assert_eq!(again["executionId"], started["executionId"]);
    assert_eq!(again["existing"], true);
    assert_eq!(again["version"], 1);
    let other = [
        "run",
        "echo.json",
        "--request-id",
        "r1",
        "--trigger",
        "{\"n\":2}",
    ];
    let refused = serving.run(&world, &other).expect(6);
    assert!(
        refused.stderr.contains("REQUEST_ID_REUSED"),
        "{}",
        refused.stderr
    );

    // A run that fails, and one that is only queued.
    let failed = serving.run(&world, &["run", "fail.json"]).expect(1);
    assert!(
        failed.stderr.contains("bad: Failed: FAILED: no"),
        "{}",
        failed.stderr
    );
    assert!(
        failed.stderr.contains("(to be tried again)"),
        "{}",
        failed.stderr
    );
    let queued = serving
        .run(&world, &["run", "wait.json", "--detach", "--json"])
        .expect(0);
    assert_eq!(queued.json()["existing"], false);
    let run = id(&queued);
    let left = serving
        .run(&world, &["watch", &run, "--wait", "0.3"])
        .expect(7);
    assert!(
        left.stderr.contains(&format!("goes on at {}", serving.url)),
        "{}",
        left.stderr
    );
    let mut watching = world.start(&["--server", &serving.url, "watch", &run]);
    watching.wait_for("2 nodes");
    let told = serving
        .run(&world, &["signal", &run, "go", r#"{"by": "kim"}"#])
        .expect(0);
    assert!(
        told.stdout.contains("has the signal 'go'"),
        "{}",
        told.stdout
    );
    let watched = watching.end().expect(0);
    assert!(
        watched.stdout.contains("\"by\": \"kim\""),
        "{}",
        watched.stdout
    );
    assert!(
        watched.stderr.contains("after: Succeeded"),
        "{}",
        watched.stderr
    );
    serving.stop();
}

#[test]
fn runs_are_acted_on() {
    let world = world();
    let serving = Serving::new(&world, &[]);
    let failed = serving
        .run(&world, &["run", "once.json", "--json"])
        .expect(1);
    let run = id(&failed);
    let again = serving
        .run(&world, &["reattempt", &run, "--reason", "why not"])
        .expect(0);
    assert!(again.stdout.contains(" Succeeded "), "{}", again.stdout);
    let events = serving.run(&world, &["events", &run]).expect(0);
    assert!(
        events.stdout.contains("because: why not"),
        "{}",
        events.stdout
    );
    let refused = serving.run(&world, &["reattempt", &run]).expect(6);
    assert!(
        refused.stderr.contains("REATTEMPT_REFUSED"),
        "{}",
        refused.stderr
    );
    let ended = serving.run(&world, &["resume", &run]).expect(6);
    assert!(
        ended.stderr.contains("hint: `windlass show"),
        "{}",
        ended.stderr
    );
    let unknown = serving.run(&world, &["skip", &run, "otehr"]).expect(4);
    assert!(
        unknown.stderr.contains("did you mean 'other'?"),
        "{}",
        unknown.stderr
    );

    let fork = [
        "fork",
        &run,
        "--from",
        "other",
        "--set",
        "nodes.other.parameters.n=3",
        "--json",
    ];
    let forked = serving.run(&world, &fork).expect(0).json();
    assert_eq!(forked["nodes"]["other"]["output"]["n"], 3);
    assert_eq!(forked["origin"]["executionId"], run.as_str());

    let compensated = serving
        .run(&world, &["run", "fail.json", "--json"])
        .expect(1);
    let compensated = id(&compensated);
    let undone = serving.run(&world, &["compensate", &compensated]).expect(0);
    assert!(
        undone.stderr.contains("compensation: complete"),
        "{}",
        undone.stderr
    );

    let queue = ["run", "wait.json", "--detach"];
    let first = serving
        .run(&world, &queue)
        .expect(0)
        .stdout
        .trim()
        .to_owned();
    let second = serving
        .run(&world, &queue)
        .expect(0)
        .stdout
        .trim()
        .to_owned();
    let paused = serving.run(&world, &["pause", &first]).expect(0);
    assert_eq!(
        paused.stdout,
        format!("{first} wait: paused: nothing more starts until `windlass resume`\n")
    );
    let graph = serving.run(&world, &["export", &first]).expect(0).stdout;
    world.definition("graph.json", &graph.replace("\"go\"", "\"started\""));
    let imported = serving
        .run(&world, &["import", &first, "graph.json"])
        .expect(0);
    assert!(
        imported.stdout.contains("has the new graph"),
        "{}",
        imported.stdout
    );
    let result = serving
        .run(&world, &["set-result", &second, "ask", "{\"a\":"])
        .expect(3);
    assert!(
        result.stderr.contains("RESULT_INVALID"),
        "{}",
        result.stderr
    );
    let result = serving
        .run(&world, &["set-result", &second, "ask", "1", "--json"])
        .expect(0);
    assert_eq!(result.json()["executionId"], second.as_str());
    serving.run(&world, &["watch", &second]).expect(0);
    let all = ["cancel", "--filter", "workflow=wait", "--json"];
    let cancelled = serving.run(&world, &all).expect(0).json();
    assert_eq!(cancelled[0]["executionId"], first.as_str());
    assert_eq!(cancelled.as_array().map(Vec::len), Some(1));
    serving.run(&world, &["watch", &first]).expect(8);
    serving.stop();
}

#[test]
fn the_catalogue_and_the_store_are_kept() {
    let world = world();
    let serving = Serving::new(&world, &[]);
    let run = |arguments: &[&str], code| serving.run(&world, arguments).expect(code);
    assert_eq!(
        run(&["publish", "echo.json"], 0).stdout,
        "published echo version 1\n"
    );
    let same = run(&["publish", "echo.json"], 0);
    assert_eq!(same.stdout, "unchanged: echo version 1 is the same\n");
    let disabled = run(&["workflows", "disable", "echo"], 0);
    assert_eq!(disabled.stdout, "echo is disabled: new runs are refused\n");
    let refused = run(&["run", "echo.json"], 6);
    assert!(
        refused.stderr.contains("WORKFLOW_DISABLED"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        run(&["workflows", "enable", "echo"], 0).stdout,
        "echo is enabled\n"
    );
    run(&["workflows", "disable", "ehco"], 4);
    run(&["run", "echo.json", "-q"], 0);
    assert_eq!(run(&["rebuild"], 0).stdout, "rebuilt 1 run\n");
    let backup = run(&["backup", "copy.bak"], 0);
    assert!(backup.stdout.starts_with("backed up "), "{}", backup.stdout);
    let exists = run(&["backup", "copy.bak"], 6);
    assert!(exists.stderr.contains("FILE_EXISTS"), "{}", exists.stderr);
    assert_eq!(
        run(&["dead-letters", "--json"], 0).json()["items"],
        Value::Array(vec![])
    );
    run(&["dead-letters", "requeue", "@last"], 4);
    let actions = run(&["actions", "core.echo", "--json"], 0).json();
    assert_eq!(
        actions,
        world
            .run(&["actions", "core.echo", "--json"])
            .expect(0)
            .json()
    );
    for command in [vec!["restore", "copy.bak"], vec!["doctor"]] {
        let refused = run(&command, 2);
        assert!(
            refused.stderr.contains("SERVER_UNSUPPORTED"),
            "{}",
            refused.stderr
        );
    }
    serving.stop();
    // The copy is whole.
    world
        .run(&["--data-dir", "other", "restore", "copy.bak"])
        .expect(0);
    let restored = world
        .run(&["--data-dir", "other", "runs", "--json"])
        .expect(0);
    let here = world.run(&["runs", "--json"]).expect(0);
    assert_eq!(restored.stdout, here.stdout);
}

#[test]
fn a_server_that_is_away_or_refuses_is_named() {
    let world = world();
    // Nobody listens on a port that was free just now.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address").to_string();
    drop(free);
    for command in [
        &["runs"][..],
        &["run", "echo.json"],
        &["cancel", "@last"],
        &["watch", "@last"],
    ] {
        let mut all = vec!["--server", &*address, "--json"];
        all.extend(command);
        let ended = world.run(&all).expect(9);
        assert!(
            ended.stderr.contains("SERVER_UNREACHABLE"),
            "{}",
            ended.stderr
        );
        assert!(
            ended.stderr.contains(&format!("http://{address}")),
            "{}",
            ended.stderr
        );
    }
    let wrong = world.run(&["--server", "ftp://x", "runs"]).expect(2);
    assert!(wrong.stderr.contains("SETTING_INVALID"), "{}", wrong.stderr);

    let scopes = ["--scope", "workflows:read", "--subject", "kim"];
    let mut mint = vec!["token", "--key", "keys.json"];
    mint.extend(scopes);
    let token = world.run(&mint).expect(0).stdout.trim().to_owned();
    let serving = Serving::new(&world, &["--auth-keys", "keys.json"]);
    let none = serving.run(&world, &["runs"]).expect(5);
    assert!(none.stderr.contains("UNAUTHENTICATED"), "{}", none.stderr);
    let bad = serving.run(&world, &["--token", "x.y.z", "runs"]).expect(5);
    assert!(
        bad.stderr.contains("error[UNAUTHENTICATED]"),
        "{}",
        bad.stderr
    );
    serving.run(&world, &["--token", &token, "runs"]).expect(0);
    let lacking = serving
        .run(&world, &["--token", &token, "publish", "echo.json"])
        .expect(5);
    assert!(lacking.stderr.contains("FORBIDDEN"), "{}", lacking.stderr);
    serving.stop();
}

#[test]
fn a_watcher_outlives_its_server() {
    let world = world();
    let serving = Serving::new(&world, &[]);
    let queued = serving
        .run(&world, &["run", "wait.json", "--detach"])
        .expect(0);
    let run = queued.stdout.trim().to_owned();
    let mut watching = world.start(&["--server", &serving.url, "watch", &run]);
    watching.wait_for("2 nodes");
    let address = serving.url.trim_start_matches("http://").to_owned();
    serving.stop();
    watching.wait_for("trying again");
    let again = Serving::at(&world, &address, &[]);
    again.run(&world, &["signal", &run, "go", "1"]).expect(0);
    let watched = watching.end().expect(0);
    assert!(watched.stdout.contains("\"said\": 1"), "{}", watched.stdout);
    again.stop();
}
