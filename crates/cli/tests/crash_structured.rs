//! `kill -9` in every waiting and compensating state: loops, a delay, a child run, a loop
//! that tries again, and the undoing of it all end as if nothing had happened.

#![cfg(unix)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::LazyLock;

use crate::crash_world::{Kill, World};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

/// Where a process dies, and for the how-manieth time that it passes there.
const KILLS: &[(&str, u64)] = &[
    ("after-commit", 26),
    ("before-commit", 26),
    ("before-dispatch", 9),
    ("after-action", 9),
    ("at-finish", 2),
];

fn exec(id: &str, after: &[&str]) -> Value {
    let line = r#"echo "$WINDLASS_IDEMPOTENCY_KEY" >> effects"#;
    let call = json!({ "program": "sh", "args": ["-c", line] });
    json!({
        "id": id, "dependsOn": after, "actionType": "core.exec", "parameters": call,
        "compensate": { "actionType": "core.exec", "parameters": call },
    })
}

fn parent() -> Value {
    json!({ "id": "deep", "nodes": [
        { "id": "each", "forEach": { "items": [0, 1, 2], "parallel": false,
            "body": { "nodes": [exec("charge", &[])] } } },
        { "id": "nap", "dependsOn": ["each"], "delay": { "ms": 20 } },
        { "id": "sub", "dependsOn": ["nap"], "subworkflow": {
            "workflowId": "inner", "input": {}, "isolation": "transactional" } },
        { "id": "again", "dependsOn": ["sub"], "retryUntil": { "maxAttempts": 3,
            "until": "iteration >= 1", "backoff": { "baseDelayMs": 5 },
            "body": { "nodes": [exec("try", &[])] } } },
        { "id": "bad", "dependsOn": ["again"], "actionType": "core.fail" },
    ] })
}

fn child() -> Value {
    json!({ "id": "inner", "nodes": [
        { "id": "pause", "delay": { "ms": 5 } }, exec("book", &["pause"]) ] })
}

/// What can be seen of the run when it is over, without ids and times.
#[derive(Clone, Debug, PartialEq)]
struct End {
    status: String,
    compensation: String,
    nodes: BTreeMap<String, (String, u64)>,
    /// What was done, by key; each once.
    effects: BTreeSet<String>,
    /// What was undone, each once, in the order in which it was first.
    undone: Vec<String>,
}

static UNDISTURBED: LazyLock<End> = LazyLock::new(|| play(&[]).expect("an undisturbed run").0);

fn play(kills: &[Kill]) -> Result<(End, usize)> {
    let world = World::new()?;
    for (name, definition) in [("deep.json", parent()), ("inner.json", child())] {
        fs::write(world.path(name), serde_json::to_vec(&definition)?)?;
    }
    let published = world.windlass(&["publish", "inner.json"], None)?;
    ensure!(published.code == Some(0), "{}", published.stderr);
    let start = ["run", "deep.json", "--request-id", "only"];
    let mut died = 0;
    for kill in kills.iter().copied().map(Some).chain([None]) {
        let arguments: Vec<&str> = match deep(&world)? {
            None => start.to_vec(),
            Some(run) if run["status"] == "Failed" => break,
            Some(_) => vec!["resume", "@last:deep"],
        };
        let ended = world.windlass(&arguments, kill)?;
        died += usize::from(ended.was_killed());
        let fine = ended.was_killed() || ended.code == Some(1);
        ensure!(fine, "{arguments:?}: {:?} {}", ended.code, ended.stderr);
    }
    let verified = world.windlass(&["verify", "@last:deep"], None)?;
    ensure!(verified.code == Some(0), "{}", verified.stderr);
    Ok((end(&world, died)?, died))
}

/// The parent as it is now; none if it was never durable.
fn deep(world: &World) -> Result<Option<Value>> {
    let shown = world.windlass(&["show", "@last:deep", "--json"], None)?;
    match shown.code {
        Some(0) => Ok(Some(serde_json::from_str(&shown.stdout)?)),
        Some(4) => Ok(None),
        code => anyhow::bail!("show: {code:?} {}", shown.stderr),
    }
}

fn end(world: &World, died: usize) -> Result<End> {
    let run = deep(world)?.context("the run is lost")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes = run["nodes"].as_object().context("nodes")?;
    let node = |(path, node): (&String, &Value)| {
        let attempts = node["attempts"].as_u64().unwrap_or_default();
        (path.clone(), (text(&node["status"]), attempts))
    };
    let listed = world.windlass(&["runs", "--children", "--json"], None)?;
    let listed: Value = serde_json::from_str(&listed.stdout)?;
    let runs = listed["items"].as_array().context("runs")?;
    ensure!(runs.len() == 2, "one request made {} runs", runs.len());
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut undone = Vec::new();
    for line in fs::read_to_string(world.path("effects"))?.lines() {
        // Ids differ from run to run; what follows them does not.
        let (_, key) = line.split_once('/').context("a key without a run")?;
        if key.ends_with("/compensate") && !counts.contains_key(key) {
            undone.push(key.to_owned());
        }
        *counts.entry(key.to_owned()).or_default() += 1;
    }
    for (key, count) in &counts {
        ensure!(
            *count <= died + 1,
            "{key} was carried out {count} times after {died} kills"
        );
    }
    Ok(End {
        status: text(&run["status"]),
        compensation: text(&run["compensation"]),
        nodes: nodes.iter().map(node).collect(),
        effects: counts.into_keys().collect(),
        undone,
    })
}

#[test]
fn an_undisturbed_run_undoes_everything_in_reverse() {
    let end = &*UNDISTURBED;
    assert_eq!((&*end.status, &*end.compensation), ("Failed", "complete"));
    let expected = [
        "again[1]/try/compensate",
        "again[0]/try/compensate",
        "book/compensate",
        "each[2]/charge/compensate",
        "each[1]/charge/compensate",
        "each[0]/charge/compensate",
    ];
    assert_eq!(end.undone, expected);
    assert_eq!(end.effects.len(), 12);
}

#[test]
fn killed_in_every_state_it_ends_as_if_nothing_had_happened() {
    let mut struck = BTreeMap::new();
    for &(point, times) in KILLS {
        for count in 1..=times {
            // The second kill strikes while it recovers from the first.
            let kills = [
                Kill::At(point, count),
                Kill::At("after-commit", 1 + count % 4),
            ];
            let (end, died) = play(&kills)
                .with_context(|| format!("{point}:{count}"))
                .unwrap();
            assert_eq!(end, *UNDISTURBED, "{point}:{count}");
            *struck.entry(point).or_insert(0) += died;
        }
    }
    println!("{struck:?}");
    for (point, _) in KILLS {
        assert!(struck[point] > 0, "nothing was killed at {point}");
    }
}
