//! Records histories: `cargo run -p windlass-sim --example record_histories`.
//!
//! Goes through `crates/core/tests/histories/sources.list` and records what has no file yet,
//! from a fixture's case or from the world of a seed. A history that is there is never
//! written again, whatever its source has become: histories are for ever.
//! `record_histories survey KIND SEEDS` says what the runs of worlds have, to choose from.

mod survey;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;

use windlass_core::Digest;
use windlass_core::event::Event;
use windlass_core::value::Stored;
use windlass_orchestrator::codec::RECORD_VERSION;
use windlass_sim::recorded::{RunLog, record_seed};
use windlass_sim::{Options, WorkloadKind};
use windlass_store::Envelope;
use windlass_test_support::fixture::{self, script::ScriptedRun};
use windlass_test_support::histories::file::{self, HistoryRecord, RecordedHistory};
use windlass_test_support::histories::record;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, kind, seeds] = &arguments[..]
        && verb == "survey"
    {
        return survey::print(self::kind(kind), seeds.parse().expect("a number"));
    }
    let list = file::folder().join("sources.list");
    let list = fs::read_to_string(list).expect("the list of sources");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    for line in lines.filter(|line| !line.is_empty()) {
        let mut parts = line.splitn(3, " | ").map(str::trim);
        let mut part = || parts.next().expect("NAME | SOURCE | CASE");
        let (name, source, case) = (part(), part(), part());
        record_missing(name, source, case);
    }
}

/// Records a history, unless its file is there.
fn record_missing(name: &str, source: &str, case: &str) {
    let path = file::folder().join(name).with_extension("txt");
    if path.exists() {
        println!("{name}: left as it is");
        return;
    }
    let mut history = match source.split_once(' ') {
        Some(("seed", world)) => of_world(world, case),
        _ => of_fixture(source, case),
    };
    history.name = name.to_owned();
    history.comments = vec![case.to_owned(), format!("Recorded from {source}.")];
    let text = record::complete(history).write();
    // `create_new` refuses to touch a file that came meanwhile.
    let created = File::create_new(&path);
    let written = created.and_then(|mut file| file.write_all(text.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    println!("{name}: {} bytes", text.len());
}

/// The log of a fixture's case: `fixtures/FILE.txt`, and the case's title.
fn of_fixture(source: &str, case: &str) -> RecordedHistory {
    let name = source
        .strip_prefix("fixtures/")
        .and_then(|name| name.strip_suffix(".txt"));
    let cases = fixture::cases(name.expect("fixtures/FILE.txt"));
    let mut cases = cases.iter().filter(|known| known.title == case);
    let case = cases.next();
    let case = case.unwrap_or_else(|| panic!("{source} has no such case"));
    let mut script = ScriptedRun::new(case.setup());
    for step in &case.steps {
        script.command(&step.command);
    }
    let harness = script.harness;
    // Runs of the first rules ended before records named checkpoints.
    let version = match harness.run.queued().rules {
        1 => 1,
        _ => RECORD_VERSION,
    };
    let mut blobs = BTreeMap::new();
    for value in harness
        .log
        .iter()
        .flat_map(|record| &record.events)
        .flat_map(Event::values)
    {
        if let Stored::Blob { digest, .. } = value {
            blobs.insert(*digest, harness.values[digest].text().to_string());
        }
    }
    let records = harness.log.iter().map(|transition| HistoryRecord {
        version,
        body: serde_json::to_string(transition).expect("events serialise"),
        changes: Vec::new(),
    });
    let graphs = harness.definitions.iter();
    RecordedHistory {
        name: String::new(),
        comments: Vec::new(),
        run: harness.run.id(),
        graphs: graphs
            .map(|text| (Digest::of(text.as_bytes()), text.clone()))
            .collect(),
        blobs,
        records: records.collect(),
        end: Vec::new(),
    }
}

/// A log of a world: `KIND SEED`, and which of its runs, counted from 1.
fn of_world(world: &str, case: &str) -> RecordedHistory {
    let (kind, seed) = world.split_once(' ').expect("seed KIND NUMBER");
    let seed = seed.parse().expect("a seed");
    let options = Options {
        kind: self::kind(kind),
        ..Options::default()
    };
    let number = case
        .strip_prefix("run ")
        .and_then(|number| number.split(':').next());
    let number: usize = number
        .and_then(|number| number.parse().ok())
        .expect("run N: …");
    stored(record_seed(seed, options).swap_remove(number - 1))
}

fn stored(log: RunLog) -> RecordedHistory {
    let own = |(digest, text): (Digest, std::sync::Arc<str>)| (digest, text.to_string());
    let records = log.records.iter().map(|bytes| {
        let (_, version, body) = Envelope::decode(bytes).expect("a stored record");
        let body = std::str::from_utf8(body)
            .expect("records are JSON")
            .to_owned();
        HistoryRecord {
            version,
            body,
            changes: Vec::new(),
        }
    });
    RecordedHistory {
        name: String::new(),
        comments: Vec::new(),
        run: log.run,
        records: records.collect(),
        graphs: log.graphs.into_iter().map(own).collect(),
        blobs: log.blobs.into_iter().map(own).collect(),
        end: Vec::new(),
    }
}

fn kind(word: &str) -> WorkloadKind {
    match word {
        "plain" => WorkloadKind::Plain,
        "structured" => WorkloadKind::Structured,
        _ => panic!("plain or structured, not {word}"),
    }
}
