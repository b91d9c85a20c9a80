//! `windlass cluster`: the processes, which partitions each owns, and what waits for workers.

use serde_json::{Value, json};

use crate::access::{self, Access};
use crate::exit::{Exit, Failure};
use crate::moment::{ago, now, since};
use crate::paint::{DIM, YELLOW};
use crate::remote;
use crate::session::Settings;
use crate::table::{Cell, Table};

/// Shows the cluster of a server, or the process that holds the data directory.
pub(crate) fn run(settings: &Settings) -> Result<Exit, Failure> {
    let cluster = access::act(settings, false, |access| match access {
        Access::Server(_, server) => remote::cluster(server),
        // This command holds the directory itself for a moment: no process works on it.
        Access::Held(_) => Ok(json!({
            "sessions": [],
            "partitions": [{ "partition": 0, "owner": null }],
            "queue": [],
            "projectorLagMs": 0,
        })),
    })?;
    if settings.output.json {
        settings.output.json(&cluster)?;
        return Ok(Exit::Done);
    }
    let sessions = list(&cluster, "sessions");
    if sessions.is_empty() {
        let text = "No process works on the data directory. `windlass serve` starts one.";
        settings.output.say(text);
        return Ok(Exit::Done);
    }
    settings
        .output
        .data(&processes(sessions, list(&cluster, "partitions")).render(&settings.output))?;
    let free = list(&cluster, "partitions").iter();
    let free = free.filter(|it| it["owner"].is_null()).count();
    if free > 0 {
        let line = format!("{free} partitions have no owner: their runs wait for an orchestrator");
        settings.output.say(&line);
    }
    let queue = list(&cluster, "queue");
    if !queue.is_empty() {
        settings.output.data("\n")?;
        settings
            .output
            .data(&waiting(queue).render(&settings.output))?;
    }
    let lag = cluster["projectorLagMs"].as_u64().unwrap_or_default();
    if lag > 0 {
        settings
            .output
            .say(&format!("tables for reading are {lag} ms behind the log"));
    }
    Ok(Exit::Done)
}

fn list<'a>(cluster: &'a Value, name: &str) -> &'a [Value] {
    cluster[name]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn words(value: &Value) -> String {
    let words = value.as_array().into_iter().flatten();
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    words.join(",")
}

/// How many partitions a session owns, and which: `17 (0-15,33)`.
fn owned(partitions: &[Value], session: &Value) -> String {
    let owned = partitions.iter().filter(|it| it["owner"] == *session);
    let numbers: Vec<u64> = owned.filter_map(|it| it["partition"].as_u64()).collect();
    match numbers.len() {
        0 => "0".to_owned(),
        count => format!("{count} ({})", ranges(numbers)),
    }
}

/// Numbers in order, those that follow each other as ranges.
fn ranges(mut numbers: Vec<u64>) -> String {
    numbers.sort_unstable();
    let ranges = numbers.chunk_by(|one, next| one + 1 == *next);
    let ranges = ranges.filter_map(|range| match range {
        [] => None,
        [one] => Some(one.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    ranges.collect::<Vec<_>>().join(",")
}

fn processes(sessions: &[Value], partitions: &[Value]) -> Table {
    let columns = [
        "SESSION",
        "PROCESS",
        "ROLES",
        "LABELS",
        ">SLOTS",
        "SINCE",
        "PARTITIONS",
    ];
    let mut table = Table::new(&columns);
    let now = now();
    for session in sessions {
        let since = since(text(&session["since"]), now);
        let since = since.map_or_else(|_| String::new(), |since| ago(since, now));
        let id = text(&session["id"]).trim_start_matches('0').to_owned();
        table.row([
            Cell::styled(&id, DIM),
            text(&session["name"]).into(),
            words(&session["roles"]).into(),
            words(&session["labels"]).into(),
            session["slots"].to_string().into(),
            since.into(),
            owned(partitions, &session["id"]).into(),
        ]);
    }
    table
}

fn waiting(queue: &[Value]) -> Table {
    let mut table = Table::new(&["ACTION", "REQUIRES", ">WAITING", ">WITH WORKERS"]);
    for kind in queue {
        let waiting = kind["waiting"].to_string();
        table.row([
            text(&kind["actionType"]).into(),
            words(&kind["requires"]).into(),
            match kind["waiting"].as_u64() {
                Some(1..) => Cell::styled(&waiting, YELLOW),
                _ => waiting.into(),
            },
            kind["leased"].to_string().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_shown_as_ranges() {
        for (numbers, text) in [
            (vec![], ""),
            (vec![7], "7"),
            ((0..16).chain([33]).collect(), "0-15,33"),
            (vec![3, 1, 0, 2, 5], "0-3,5"),
            (vec![1, 3, 5], "1,3,5"),
        ] {
            assert_eq!(ranges(numbers), text);
        }
        let partitions = [
            json!({ "partition": 0, "owner": "a" }),
            json!({ "partition": 1, "owner": "a" }),
            json!({ "partition": 2, "owner": null }),
        ];
        assert_eq!(owned(&partitions, &json!("a")), "2 (0-1)");
        assert_eq!(owned(&partitions, &json!("b")), "0");
    }
}
