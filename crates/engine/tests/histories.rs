//! The public events of recorded histories (`crates/core/tests/histories`, the files `.events`):
//! the same log gives the same events at the same positions for ever. What an event says of
//! itself may grow, and nothing that it said may change or go.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::ops::ControlFlow;

use serde_json::Value;
use windlass_core::event::Event;
use windlass_engine::Plans;
use windlass_engine::history::for_each_event;
use windlass_orchestrator::{codec, queued_row};
use windlass_store::{Append, Blob, Head, Log as _, MemoryStore, WriterId, block_on};

use windlass_test_support::histories::file::{self, RecordedHistory, folder};

#[test]
fn recorded_histories_give_their_recorded_public_events() {
    for history in file::all() {
        let path = folder().join(&history.name).with_extension("events");
        let text = std::fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}.events: {error}", history.name));
        let recorded = text.lines().map(|line| {
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        });
        let recorded: Vec<Value> = recorded.collect();
        let derived = events(&history);
        for (recorded, derived) in recorded.iter().zip(&derived) {
            assert!(
                says_all(recorded, derived),
                "{}.events:\n  recorded: {recorded}\n  derived:  {derived}",
                history.name
            );
        }
        assert_eq!(recorded.len(), derived.len(), "{}.events", history.name);
    }
}

/// A kind of event that is new needs a recorded history, by which later versions are held to its
/// stored form.
#[test]
fn every_kind_of_event_is_in_a_recorded_history() {
    let unknown = serde_json::from_str::<Event>(r#"{"?":{}}"#);
    let known = unknown.expect_err("there is no such event").to_string();
    // It names all that there are, in backquotes after the unknown one.
    let known: BTreeSet<&str> = known.split('`').skip(3).step_by(2).collect();
    assert!(known.contains("Queued") && known.contains("Finished"));
    let mut recorded: BTreeSet<String> = BTreeSet::new();
    for history in file::all() {
        for record in &history.records {
            let transition = codec::decode(&record.bytes()).expect("a stored record");
            recorded.extend(transition.events.iter().map(|event| {
                let value = serde_json::to_value(event).expect("JSON");
                let kinds = value.as_object().and_then(|it| it.keys().next().cloned());
                kinds.expect("an event has its kind")
            }));
        }
    }
    let missing: Vec<_> = known.iter().filter(|it| !recorded.contains(**it)).collect();
    assert!(missing.is_empty(), "no recorded history has {missing:?}");
}

#[test]
fn events_may_say_more_than_they_did_and_not_less() {
    let recorded = serde_json::json!({"kind": "NodeFailed", "data": {"error": {"code": "C"}}});
    let mut derived = recorded.clone();
    assert!(says_all(&recorded, &derived));
    derived["data"]["more"] = 1.into();
    assert!(says_all(&recorded, &derived));
    derived["data"]["error"]["code"] = "D".into();
    assert!(!says_all(&recorded, &derived));
    assert!(!says_all(
        &recorded,
        &serde_json::json!({"kind": "NodeFailed"})
    ));
}

/// Records the events of histories that have no such file yet; one that is there is left as
/// it is.
#[test]
#[ignore = "writes files: run it by name after a history was recorded"]
fn record_missing_public_events() {
    for history in file::all() {
        let path = folder().join(&history.name).with_extension("events");
        if path.exists() {
            continue;
        }
        let lines = events(&history)
            .into_iter()
            .map(|event| format!("{event}\n"));
        let text: String = lines.collect();
        let created = File::create_new(&path);
        let written = created.and_then(|mut file| file.write_all(text.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// Whether everything that was said is still said: objects may have more keys.
fn says_all(recorded: &Value, derived: &Value) -> bool {
    match (recorded, derived) {
        (Value::Object(recorded), Value::Object(derived)) => recorded.iter().all(|(key, said)| {
            derived
                .get(key)
                .is_some_and(|derived| says_all(said, derived))
        }),
        (recorded, derived) => recorded == derived,
    }
}

/// The public events of a history, as they are derived today.
fn events(history: &RecordedHistory) -> Vec<Value> {
    let store = stored(history);
    let plans = Plans::new(usize::MAX);
    for (&digest, text) in &history.graphs {
        plans.plan(digest, text.as_bytes()).expect("a plan");
    }
    let mut events = Vec::new();
    let derived = for_each_event(&store, &plans, history.run, |event| {
        events.push(serde_json::to_value(&event).expect("JSON"));
        ControlFlow::Continue(())
    });
    derived.unwrap_or_else(|error| panic!("{}: {error}", history.name));
    events
}

/// A store that holds the log of a history.
fn stored(history: &RecordedHistory) -> MemoryStore {
    let store = MemoryStore::new();
    let mut head = Head::NONE;
    for (number, record) in history.records.iter().enumerate() {
        let bytes = record.bytes();
        let transition = codec::decode(&bytes).expect("a stored record");
        let row = match transition.events.first() {
            Some(Event::Queued(queued)) => Some(queued_row(history.run, queued, transition.at)),
            _ => None,
        };
        let blobs = history.blobs.iter().filter(|_| number == 0);
        let blobs = blobs.map(|(&digest, text)| Blob {
            digest,
            bytes: text.as_bytes().into(),
        });
        let append = Append {
            row,
            blobs: blobs.collect(),
            ..Append::of_record(history.run, head, (WriterId(1), number as u64 + 1), bytes)
        };
        let answer = block_on(store.append(vec![append])).pop();
        head = answer.expect("an answer").expect("appended").head;
    }
    store
}
