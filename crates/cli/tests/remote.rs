//! Looking at a server prints what looking at its data directory prints.

use crate::remote_definitions::world;
use windlass_test_support::process::Ended;

/// What is looked at, and how; the names in capitals stand for runs.
const COMMANDS: &str = "\
runs
runs --json
runs --limit 2
runs --limit 2 --json
runs --cursor FAILED --json
runs --status failed,Succeeded --workflow echo
runs --label team=a --since 1h
runs --parent LOOPED --json
runs --status lost
runs --workflow nothing
show ECHOED
show SHORT --json
show @last:echo --include actions,resources,events
show LOOPED --expand
show LOOPED --nodes each[1] --json
show LOOPED --nodes eech
show FAILED --json --include actions,resources,events
show FROZEN
show WAITING --json
show 0192
show @last:nothing
result ECHOED
result FAILED
result WAITING
events LOOPED
events @last:echo --json --after 2
why FAILED
why FAILED bad --json
graph LOOPED
graph LOOPED --expand --format dot
graph wait.json
workflows
workflows --json
runs --workflow echo --version 1 --json
runs --workflow echo --version 2
workflows show echo
workflows show echo --version 1
workflows show echo --version 9
workflows show ehco
workflows versions echo
workflows versions echo --json
diff echo 1 v2
diff echo 1 2 --json
diff echo 1 7
export LOOPED
export FROZEN
verify LOOPED
verify FROZEN --json
verify @last:echo
verify WAITING
compensate FAILED --preview
fork FAILED --from bad --dry-run
fork FAILED --from bda --dry-run --json
publish echo.json --plan --json
publish wait.json --plan
cancel FAILED --dry-run
reattempt --filter workflow=fail --dry-run --json
signal WAITING go 1 --dry-run
resume ECHOED --dry-run
watch FAILED
validate echo.json
schema";

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

#[test]
fn looking_prints_the_same() {
    let world = world();
    let big = format!(r#"{{"n": "{}"}}"#, "x".repeat(100_000));
    world.definition("big.json", &big);
    let run = |arguments: &[&str], code| world.run(arguments).expect(code).run_id();
    let echoed = run(&["run", "echo.json", "--json", "--label", "team=a"], 0);
    run(&["run", "echo.json", "--json", "--trigger", "@big.json"], 0);
    world.run(&["publish", "more.json"]).expect(0);
    let looped = run(&["run", "loop.json", "--json"], 0);
    let failed = run(&["run", "fail.json", "--json"], 1);
    let export = world.run(&["export", &looped]).expect(0);
    world.definition("graph.json", &export.stdout);
    let frozen = run(&["run", "graph.json", "--json"], 0);
    world.run(&["run", "wait.json", "--wait", "3"]).expect(7);
    let newest = world.run(&["runs", "--limit", "1", "--json"]).expect(0);
    let newest = newest.json()["items"][0]["executionId"].clone();
    let waiting = newest.as_str().expect("an id").to_owned();
    let commands = COMMANDS
        .replace("ECHOED", &echoed)
        .replace("SHORT", &echoed[..20])
        .replace("LOOPED", &looped)
        .replace("FAILED", &failed)
        .replace("FROZEN", &frozen)
        .replace("WAITING", &waiting);
    let commands = commands.lines().map(|line| line.split(' ').collect());
    let commands: Vec<Vec<&str>> = commands.collect();
    let serving = world.serve_with(&[], &[]);
    let seen: Vec<Ended> = commands.iter().map(|it| serving.run(&world, it)).collect();
    serving.stop();
    for (command, remote) in commands.iter().zip(seen) {
        let local = world.run(command);
        match local.stdout.contains(" ago") || local.stdout.contains("frozenAt") {
            true => assert_eq!(steady(&remote.stdout), steady(&local.stdout), "{command:?}"),
            false => assert_eq!(remote.stdout, local.stdout, "{command:?}"),
        }
        assert_eq!(remote.code, local.code, "{command:?}\n{}", remote.stderr);
        // The line about the process that executes the run differs.
        if !command.contains(&waiting.as_str()) {
            assert_eq!(steady(&remote.stderr), steady(&local.stderr), "{command:?}");
        }
    }
}
