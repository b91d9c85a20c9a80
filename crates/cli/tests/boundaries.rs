//! Killed by the kernel at a write, a sync, a rename: whatever a command was doing, what
//! it had acknowledged is there, nothing is damaged, and saying the command again ends as
//! if nothing had happened.
//!
//! Every boundary is tried with `WINDLASS_BOUNDARIES=all`, otherwise a sample of them.

#![cfg(target_os = "linux")]

use crate::crash_world;

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::crash_world::{Kill, World};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

/// The calls that change what is stored.
const CALLS: [&str; 8] = [
    "pwrite64",
    "fdatasync",
    "fsync",
    "ftruncate",
    "rename",
    "unlink",
    "mkdir",
    "write",
];

/// A sample leaves out so many calls of a kind between two that it strikes.
const SAMPLE: usize = 29;

type Line = &'static [&'static str];

struct Scenario {
    name: &'static str,
    /// What comes before, undisturbed.
    before: &'static [Line],
    /// What is struck.
    struck: Line,
    /// What a user types who knows that the process died, with the exit codes that may come.
    after: &'static [(Line, &'static [i32])],
}

const DETACHED: Line = &["run", "flow.json", "--detach", "--request-id", "one"];
const FAILED: Line = &["run", "fails.json", "--detach", "--request-id", "one"];

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "a run",
        before: &[],
        struck: &["run", "flow.json", "--request-id", "one"],
        after: &[(&["run", "flow.json", "--request-id", "one"], &[0])],
    },
    Scenario {
        name: "a run that is queued",
        before: &[],
        struck: DETACHED,
        after: &[(DETACHED, &[0]), (&["resume", "@last"], &[0])],
    },
    Scenario {
        name: "a run that is resumed",
        before: &[DETACHED],
        struck: &["resume", "@last"],
        after: &[(&["resume", "@last"], &[0, 6])],
    },
    Scenario {
        name: "a run that is undone",
        before: &[],
        struck: &["run", "saga.json", "--request-id", "one"],
        after: &[(&["run", "saga.json", "--request-id", "one"], &[1])],
    },
    Scenario {
        name: "a definition that is published",
        before: &[],
        struck: &["publish", "flow.json"],
        after: &[(&["publish", "flow.json"], &[0])],
    },
    Scenario {
        name: "a reattempt",
        before: &[FAILED, &["resume", "@last"]],
        struck: &["reattempt", "@last"],
        // Refused where it had been recorded; then the run only has to be resumed.
        after: &[
            (&["reattempt", "@last"], &[0, 6]),
            (&["resume", "@last"], &[0, 6]),
        ],
    },
    Scenario {
        name: "a fork",
        before: &[DETACHED, &["resume", "@last"]],
        struck: &["fork", "@last", "--from", "page"],
        after: &[
            (&["resume", "--filter", "workflow=flow"], &[0]),
            (&["fork", "@last", "--from", "page"], &[0]),
        ],
    },
    Scenario {
        name: "a signal",
        before: &[&["run", "waits.json", "--detach", "--request-id", "one"]],
        struck: &["signal", "@last", "go", r#"{"n": 1}"#],
        after: &[
            (&["signal", "@last", "go", r#"{"n": 1}"#], &[0, 6]),
            (&["resume", "@last"], &[0, 6]),
        ],
    },
    Scenario {
        name: "a cancel",
        before: &[DETACHED],
        struck: &["cancel", "@last"],
        after: &[
            (&["cancel", "@last"], &[0, 6, 8]),
            (&["resume", "@last"], &[0, 6, 8]),
        ],
    },
    Scenario {
        name: "a rebuild",
        before: &[DETACHED, &["resume", "@last"]],
        struck: &["rebuild"],
        after: &[(&["rebuild"], &[0])],
    },
];

fn flow() -> Value {
    json!({ "id": "flow", "nodes": [
        { "id": "begin", "actionType": "core.echo" },
        { "id": "page", "dependsOn": ["begin"], "actionType": "core.script",
          "parameters": { "expression": "'p'.repeat(6000)" } },
        { "id": "book", "dependsOn": ["page"], "actionType": "core.script",
          "parameters": { "expression": "'b'.repeat(300000)" } },
        { "id": "each", "dependsOn": ["begin"], "forEach": {
            "items": [1, 2, 3], "body": { "nodes": [
                { "id": "one", "actionType": "core.echo", "parameters": { "n": "{{ item }}" } } ] } } },
        { "id": "flaky", "dependsOn": ["begin"], "actionType": "core.fail",
          "parameters": { "untilAttempt": 2, "retriable": true },
          "policies": { "retry": { "maxAttempts": 3, "baseDelayMs": 1, "jitter": false } } },
        { "id": "end", "dependsOn": ["book", "each", "flaky"], "actionType": "core.script",
          "parameters": { "expression": "1" } },
    ] })
}

fn saga() -> Value {
    let undo = json!({ "actionType": "core.echo", "parameters": { "undo": true } });
    json!({ "id": "saga", "nodes": [
        { "id": "hotel", "actionType": "core.echo", "compensate": undo },
        { "id": "flight", "dependsOn": ["hotel"], "actionType": "core.echo", "compensate": undo },
        { "id": "pay", "dependsOn": ["flight"], "actionType": "core.fail" },
    ] })
}

fn fails() -> Value {
    json!({ "id": "fails", "nodes": [
        { "id": "first", "actionType": "core.fail", "parameters": { "untilAttempt": 2 } },
        { "id": "second", "dependsOn": ["first"], "actionType": "core.echo" },
    ] })
}

fn waits() -> Value {
    json!({ "id": "waits", "nodes": [
        { "id": "wait", "waitForSignal": { "name": "go" } },
        { "id": "then", "dependsOn": ["wait"], "actionType": "core.echo" },
    ] })
}

impl Scenario {
    fn prepared(&self) -> Result<World> {
        let world = World::new()?;
        for definition in [flow(), saga(), fails(), waits()] {
            let name = format!("{}.json", definition["id"].as_str().unwrap_or_default());
            fs::write(world.path(&name), definition.to_string())?;
        }
        for line in self.before {
            let ended = world.windlass(line, None)?;
            ensure!(
                matches!(ended.code, Some(0 | 1)),
                "{line:?}: {}",
                ended.stderr
            );
        }
        Ok(world)
    }

    /// Goes on as a user would who knows that the process died; returns how every run ended.
    fn settled(&self, world: &World) -> Result<BTreeSet<String>> {
        for (line, codes) in self.after {
            let ended = world.windlass(line, None)?;
            let is_fine = ended.code.is_some_and(|code| codes.contains(&code));
            ensure!(is_fine, "{line:?} gave {:?}: {}", ended.code, ended.stderr);
        }
        let mut ends = BTreeSet::new();
        for run in world.runs()? {
            let verified = world.windlass(&["verify", &run.id], None)?;
            ensure!(verified.code == Some(0), "verify: {}", verified.stderr);
            let mut execution = world.execution(&run.id)?;
            execution.sort_all_objects();
            ends.insert(execution.to_string());
        }
        let listed = world.windlass(&["workflows", "--json"], None)?;
        let listed: Value = serde_json::from_str(&listed.stdout)?;
        let items = listed["items"].as_array().context("workflows")?;
        ends.extend(items.iter().map(|item| format!("{}", item["version"])));
        Ok(ends)
    }

    /// Strikes one call; whether there was such a call.
    fn strike(&self, kill: Kill, end: &BTreeSet<String>) -> Result<bool> {
        let world = self.prepared()?;
        let there = world.runs()?.len();
        let ended = world.windlass(self.struck, Some(kill))?;
        let runs = world.runs()?;
        ensure!(runs.len() >= there, "a run is lost");
        for run in ended.acknowledged().keys() {
            let is_there = runs.iter().any(|row| row.id == *run);
            ensure!(is_there, "{run} was acknowledged and is lost");
        }
        let settled = self.settled(&world)?;
        ensure!(
            settled == *end,
            "it ended otherwise: {}",
            first_difference(end, &settled)
        );
        Ok(ended.was_killed())
    }

    /// Strikes every `step`th call of a kind until there is none; how many it struck.
    fn strike_all(&self, call: &'static str, step: usize, end: &BTreeSet<String>) -> Result<usize> {
        let first = 1 + self.name.len() % step;
        for (index, count) in (first as u64..).step_by(step).enumerate() {
            let kill = Kill::Call(call, count);
            let context = || format!("{}, killed at {kill}", self.name);
            if !self.strike(kill, end).with_context(context)? {
                return Ok(index);
            }
        }
        unreachable!("no process makes calls for ever")
    }
}

fn first_difference(should: &BTreeSet<String>, is: &BTreeSet<String>) -> String {
    let values = |set: &BTreeSet<String>| -> Value {
        let parse = |text: &String| serde_json::from_str::<Value>(text).unwrap_or_default();
        set.iter().map(parse).collect()
    };
    crash_world::difference("", &values(should), &values(is))
}

#[test]
fn killed_at_any_call_a_command_can_be_said_again() {
    let is_all = std::env::var_os("WINDLASS_BOUNDARIES").is_some_and(|value| value == "all");
    let step = if is_all { 1 } else { SAMPLE };
    let pairs: Vec<(&Scenario, &str)> = SCENARIOS
        .iter()
        .flat_map(|scenario| CALLS.map(|call| (scenario, call)))
        .collect();
    let ends: Vec<BTreeSet<String>> = SCENARIOS
        .iter()
        .map(|scenario| {
            let world = scenario.prepared().unwrap();
            scenario
                .settled(&world)
                .with_context(|| scenario.name)
                .unwrap()
        })
        .collect();
    let (next, struck) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((scenario, call)) = pairs.get(index) else {
                return;
            };
            let end = &ends[index / CALLS.len()];
            let count = scenario.strike_all(call, step, end).unwrap();
            struck.fetch_add(count, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    let struck = struck.into_inner();
    println!("figure boundaries {struck}");
    assert!(struck > 20, "only {struck} calls were struck");
}
