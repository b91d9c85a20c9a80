//! Recorded histories (`crates/core/tests/histories`): logs as they were stored, each with the
//! state that it replayed to when it was recorded. They replay to the same states for ever:
//! a failure here means that a stored run would change its course, and is never mended by
//! changing a history.

#![allow(
    clippy::unwrap_used,
    reason = "a test has nothing better to do than to stop"
)]

#[path = "histories/cover.rs"]
mod cover;

use std::collections::BTreeSet;

use windlass_core::run::Run;
use windlass_orchestrator::codec::{RECORD_VERSION, RecordBuilder};
use windlass_store::{Envelope, EnvelopeKind};

use windlass_test_support::histories::file::{self, RecordedHistory};
use windlass_test_support::histories::record;
use windlass_test_support::histories::replay::{Graphs, decoded};
use windlass_test_support::histories::state::state;

#[test]
fn recorded_histories_replay_to_their_recorded_states() {
    for recorded in file::all() {
        let name = recorded.name.clone();
        let text = recorded.write();
        let replayed = record::complete(RecordedHistory::read(&name, &text)).write();
        let mut lines = text.lines().zip(replayed.lines()).enumerate();
        let other = lines.find(|(_, (recorded, replayed))| recorded != replayed);
        if let Some((number, (recorded, replayed))) = other {
            let line = number + 1;
            panic!("{name}.txt, line {line}:\n  recorded: {recorded}\n  replayed: {replayed}");
        }
        assert_eq!(text, replayed, "{name}.txt ends differently");
    }
}

#[test]
fn every_source_has_its_history_and_none_is_lost() {
    let list = std::fs::read_to_string(file::folder().join("sources.list")).unwrap();
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.filter_map(|line| line.split_once(" | "));
    let sources: BTreeSet<String> = lines.map(|(name, _)| name.to_owned()).collect();
    let names: BTreeSet<String> = file::all().into_iter().map(|it| it.name).collect();
    assert_eq!(names, sources, "each line of sources.list names a file");
    // Histories are only ever added: raise the number with them.
    assert!(names.len() >= 147, "{} histories", names.len());
}

#[test]
fn histories_are_written_as_they_are_read() {
    for history in file::all() {
        let path = file::folder().join(&history.name).with_extension("txt");
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(history.write(), text, "{}.txt", history.name);
    }
}

#[test]
fn a_checkpoint_after_any_record_of_a_history_stands_for_it() {
    for history in file::all() {
        let graphs = Graphs::of(&history);
        let (mut whole, mut resumed): (Option<Run>, Option<Run>) = (None, None);
        for (number, record) in decoded(&history).iter().enumerate() {
            let place = format!("{}, record {}", history.name, number + 1);
            let run = graphs.fold(&history, whole.take(), record);
            // One goes on from the checkpoint after every record, the other from none.
            let mut again = graphs.fold(&history, resumed.take(), record);
            assert_eq!(state(&run), state(&again), "{place}");
            let restored = graphs.through_checkpoint(&mut again);
            assert!(restored.is_same(&again), "{place}");
            assert_eq!(state(&restored), state(&run), "{place}");
            (whole, resumed) = (Some(run), Some(restored));
        }
    }
}

#[test]
fn records_of_histories_are_stored_as_they_were() {
    for history in file::all() {
        for (record, transition) in history.records.iter().zip(decoded(&history)) {
            let mut builder = RecordBuilder::default();
            for event in &transition.events {
                builder.push(event, transition.at);
            }
            // Versions differ in what may stand in a record, not in how it stands there.
            let body = record.body.as_bytes();
            let stored = Envelope::encode(EnvelopeKind::Record, RECORD_VERSION, body);
            assert_eq!(builder.finish(), stored, "{}", history.name);
        }
    }
}

#[test]
fn histories_cover_every_event_and_every_version_of_the_rules() {
    let covered: BTreeSet<String> = file::all().iter().flat_map(cover::covers).collect();
    let required = cover::required();
    let missing: Vec<&String> = required.difference(&covered).collect();
    assert!(
        missing.is_empty(),
        "no recorded history has {missing:?}; CONTRIBUTING.md says how to record one"
    );
}
