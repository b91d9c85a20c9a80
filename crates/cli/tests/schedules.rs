//! Schedules from the command line: the same on a data directory and on a server, and
//! a server starts what they say.

use crate::remote_definitions::world;
use serde_json::Value;
use windlass_test_support::process::{Ended, World};

const SET: [&str; 8] = [
    "schedules",
    "set",
    "nightly",
    "--workflow",
    "echo",
    "--cron",
    "0 2 1 1 *",
    "--timezone",
];

/// Goes through all commands; what is printed must not depend on where.
fn walk(run: &dyn Fn(&[&str]) -> Ended) -> Vec<String> {
    let mut said = Vec::new();
    let mut say = |arguments: &[&str], code: i32| {
        let ended = run(arguments).expect(code);
        said.push(ended.stdout);
    };
    let mut set = SET.to_vec();
    set.extend(["Europe/Zurich", "--trigger", r#"{"n": 3}"#]);
    say(&set, 0);
    say(&["schedules"], 0);
    say(&["schedules", "list"], 0);
    say(&["schedules", "next", "nightly"], 0);
    say(&["schedules", "pause", "nightly"], 0);
    say(&["schedules"], 0);
    say(&["schedules", "next", "nightly"], 0);
    say(&["schedules", "resume", "nightly"], 0);
    say(&["schedules", "remove", "nightly"], 0);
    say(&["schedules", "remove", "nightly"], 4);
    say(&["schedules", "pause", "nightly"], 4);
    say(&["schedules", "next", "nightly"], 4);
    let mut wrong = SET.to_vec();
    wrong.push("Mars/Olympus");
    say(&wrong, 3);
    let mut wrong = SET.to_vec();
    wrong.extend(["UTC", "--trigger", "{n: 3}", "--json"]);
    let refused = run(&wrong).expect(3).stderr;
    assert!(
        refused.contains(r#""code":"TRIGGER_NOT_JSON""#),
        "{refused}"
    );
    said.push(refused);
    said
}

fn published() -> World {
    let world = world();
    world.run(&["publish", "echo.json"]).expect(0);
    world
}

#[test]
fn they_are_the_same_on_a_directory_and_on_a_server() {
    let world = published();
    let here = walk(&|arguments| world.run(arguments));
    assert!(
        here[0].starts_with("nightly starts echo next at "),
        "{here:?}"
    );
    assert!(here[1].contains("0 2 1 1 * (Europe/Zurich)"), "{here:?}");
    assert_eq!(here[3].lines().count(), 10, "{here:?}");
    assert!(
        here[3]
            .lines()
            .all(|line| line.ends_with("-01-01 01:00:00 UTC"))
    );
    assert_eq!(here[4], "nightly is paused\n");
    let serving = world.serve_with(&[], &[]);
    let there = walk(&|arguments| serving.run(&world, arguments));
    assert_eq!(there, here);
}

#[test]
fn a_server_starts_what_is_due() {
    let world = published();
    let serving = world.serve_with(&[], &[]);
    let set = [
        "schedules",
        "set",
        "often",
        "--workflow",
        "echo",
        "--every-ms",
        "1000",
        "--json",
    ];
    let kept = serving.run(&world, &set).expect(0).json();
    assert_eq!(kept["everyMs"], 1000);
    let run = loop {
        let runs = serving.run(&world, &["runs", "--json"]).expect(0).json();
        match runs["items"].as_array().and_then(|items| items.last()) {
            Some(run) => break run.clone(),
            None => std::thread::sleep(std::time::Duration::from_millis(50)),
        }
    };
    let request = run["requestId"].as_str().expect("a request id");
    assert_eq!(request, format!("schedule:often:{}", text(&kept["nextAt"])));
    serving.stop();
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}
