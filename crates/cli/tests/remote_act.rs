//! Acting on a server: the same lines and exit codes as on a data directory.

use crate::remote_definitions::world;
use serde_json::Value;

#[test]
fn runs_are_started_and_followed() {
    let world = world();
    let serving = world.serve_with(&[], &[]);
    let arguments = ["run", "echo.json", "--trigger", r#"{"n": 7}"#];
    let ended = serving.run(&world, &arguments).expect(0);
    assert_eq!(ended.json()["n"], 7, "{}", ended.stdout);
    let progress: Vec<&str> = ended.stderr.lines().collect();
    let last = progress.last().expect("a line");
    assert!(
        last.starts_with("echo ") && last.contains(" Succeeded in "),
        "{last}"
    );
    assert_eq!(progress[0], "published echo version 1");
    assert!(progress[1].ends_with(": 1 node"), "{}", ended.stderr);
    assert!(
        progress[2].starts_with("  a: Succeeded in "),
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
    let run = queued.run_id();
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
    let serving = world.serve_with(&[], &[]);
    let failed = serving
        .run(&world, &["run", "once.json", "--json"])
        .expect(1);
    let run = failed.run_id();
    let again = serving
        .run(&world, &["reattempt", &run, "--reason", "why not"])
        .expect(0);
    assert!(again.stderr.contains(" Succeeded in "), "{}", again.stderr);
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
        "--reason",
        "another number",
        "--json",
    ];
    let forked = serving.run(&world, &fork).expect(0).json();
    assert_eq!(forked["nodes"]["other"]["output"]["n"], 3);
    assert_eq!(forked["origin"]["executionId"], run.as_str());
    assert_eq!(forked["origin"]["reason"], "another number");

    let compensated = serving
        .run(&world, &["run", "fail.json", "--json"])
        .expect(1);
    let compensated = compensated.run_id();
    let undone = serving.run(&world, &["compensate", &compensated]).expect(0);
    assert!(
        undone.stderr.contains("compensation: complete"),
        "{}",
        undone.stderr
    );

    serving.stop();
}

#[test]
fn waiting_runs_are_acted_on() {
    let world = world();
    let serving = world.serve_with(&[], &[]);
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
    let serving = world.serve_with(&[], &[]);
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
    let refused = run(&["restore", "copy.bak"], 2);
    assert!(
        refused.stderr.contains("SERVER_UNSUPPORTED"),
        "{}",
        refused.stderr
    );
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
    // No process listens on a port that was free just now.
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
    // The more specific setting wins: a flag for the data directory beats a variable for the
    // server.
    world.run(&["run", "echo.json", "-q"]).expect(0);
    let with = |arguments: &[&str]| {
        let mut command = world.command(arguments);
        command.env("WINDLASS_SERVER", &address);
        windlass_test_support::process::ended(command)
    };
    with(&["runs"]).expect(9);
    with(&["--data-dir", ".windlass", "runs"]).expect(0);
    let both = ["--server", &*address, "--data-dir", ".windlass", "runs"];
    world.run(&both).expect(2);
    let wrong = world.run(&["--server", "ftp://x", "runs"]).expect(2);
    assert!(wrong.stderr.contains("SETTING_INVALID"), "{}", wrong.stderr);

    let scopes = ["--scope", "workflows:read", "--subject", "kim"];
    let mut mint = vec!["token", "--key", "keys.json"];
    mint.extend(scopes);
    let token = world.run(&mint).expect(0).stdout.trim().to_owned();
    let serving = world.serve_with(&["--auth-keys", "keys.json"], &[]);
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
    let serving = world.serve_with(&[], &[]);
    let queued = serving
        .run(&world, &["run", "wait.json", "--detach"])
        .expect(0);
    let run = queued.stdout.trim().to_owned();
    let mut watching = world.start(&["--server", &serving.url, "watch", &run]);
    watching.wait_for("2 nodes");
    let address = serving.url.trim_start_matches("http://").to_owned();
    serving.stop();
    watching.wait_for("trying again");
    let again = world.serve_at(&address, &[], &[]);
    again.run(&world, &["signal", &run, "go", "1"]).expect(0);
    let watched = watching.end().expect(0);
    assert!(watched.stdout.contains("\"said\": 1"), "{}", watched.stdout);
    again.stop();
}

#[test]
fn whoever_stops_watching_leaves_the_run_to_the_server() {
    let world = world();
    let serving = world.serve_with(&[], &[]);
    let mut running = world.start(&["--server", &serving.url, "run", "wait.json"]);
    let run = running.run_id();
    running.wait_for("waiting for signal 'go'");
    running.interrupt();
    let left = running.end().expect(130);
    assert!(left.stderr.contains("goes on at"), "{}", left.stderr);
    let shown = serving.run(&world, &["show", &run, "--json"]).expect(0);
    assert_eq!(shown.json()["status"], "Running");
    serving.stop();
}

/// Against a rate limit the client slows down, and no request is lost.
#[test]
fn questions_that_come_too_soon_are_asked_again() {
    let world = world();
    let token = world.run(&["token", "--key", "keys.json"]).expect(0);
    let token = token.stdout.trim().to_owned();
    world.definition(
        "windlass.toml",
        "rate_per_minute = 600\nrate_burst = 2\nauth_keys = \"keys.json\"\n",
    );
    let serving = world.serve_with(&[], &[]);
    let run = |arguments: &[&str], code| {
        let mut all = vec!["--token", &token];
        all.extend(arguments);
        serving.run(&world, &all).expect(code)
    };
    let ended = run(&["run", "fail.json", "--json"], 1).json();
    assert_eq!(ended["status"], "Failed");
    let undone = run(&["compensate", "@last"], 0);
    assert!(
        undone.stderr.contains("compensation: complete"),
        "{}",
        undone.stderr
    );
    serving.stop();
}
