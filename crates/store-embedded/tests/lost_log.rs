//! A write-ahead log that is missing, cut or replaced is damage, or nothing acknowledged was
//! in it; whatever a crash or a power failure leaves opens by itself.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{extend, length, open_fast, some_run, try_open};
use windlass_store::{Error, Retention as _, block_on};
use windlass_store_embedded::{EmbeddedStore, Options, accept_loss, restore};

const LOG: &str = "windlass.db-wal";
const MARK: &str = "windlass.tail";
const HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

/// A directory as a kill leaves it at a moment, and what was acknowledged then.
struct State {
    name: String,
    directory: PathBuf,
    acknowledged: u64,
}

/// Everything that a process which is killed now leaves: its writes are in the page cache.
fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in ["windlass.db", LOG, MARK] {
        if from.join(name).exists() {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

/// Every state that differs in what log, mark and database say, in the order in which one
/// directory passes through them.
fn states(root: &Path) -> Vec<State> {
    let live = root.join("live");
    let mut states = Vec::new();
    let mut keep = |name: &str, acknowledged: u64| {
        let directory = root.join(format!("{:02} {name}", states.len()));
        copy_all(&live, &directory);
        states.push(State {
            name: name.to_owned(),
            directory,
            acknowledged,
        });
    };
    let copy = |store: &EmbeddedStore| block_on(store.vacuum()).unwrap();
    let mut store = open_fast(&live);
    let mut there = 0;
    for round in 0..3 {
        for _ in 0..3 {
            there = extend(&store, some_run(), 1).sequence;
            keep(&format!("killed in round {round}"), there);
        }
        copy(&store);
        keep("killed after a checkpoint", there);
        there = extend(&store, some_run(), 2).sequence;
        keep("killed after the log began anew", there);
        drop(store);
        keep("closed", there);
        store = open_fast(&live);
        keep("killed after opening", there);
        there = extend(&store, some_run(), 1).sequence;
        keep("killed after opening and one commit", there);
        drop(store);
        keep("closed again", there);
        store = open_fast(&live);
    }
    copy(&store);
    drop(store);
    keep("closed after a checkpoint", there);
    states
}

/// What can happen to a log: its content afterwards, `None` if it is deleted.
fn mutilations(log: &[u8], older: &[(String, Vec<u8>)]) -> Vec<(String, Option<Vec<u8>>)> {
    let mut all = vec![
        ("deleted".to_owned(), None),
        ("zeros".to_owned(), Some(vec![0; log.len()])),
    ];
    let frames = (log.len().saturating_sub(HEADER)) / FRAME;
    let mut cuts = vec![0, 1, HEADER - 1, HEADER, HEADER + 1];
    for frame in 0..frames {
        let begin = HEADER + frame * FRAME;
        cuts.extend([begin, begin + 10, begin + 24, begin + FRAME / 2]);
    }
    for cut in cuts.into_iter().filter(|cut| *cut < log.len()) {
        all.push((format!("cut at {cut}"), Some(log[..cut].to_vec())));
    }
    for (name, bytes) in older.iter().filter(|(_, bytes)| bytes != log) {
        all.push((format!("replaced by that of {name}"), Some(bytes.clone())));
    }
    all
}

fn reading() -> Options {
    Options {
        create: false,
        exclusive: false,
        ..Options::default()
    }
}

#[test]
fn a_mutilated_log_is_damage_or_nothing_is_lost() {
    let root = tempfile::tempdir().unwrap();
    let states = states(root.path());
    let mut older = Vec::new();
    let (mut refused, mut harmless) = (0, 0);
    for state in &states {
        let log = fs::read(state.directory.join(LOG)).unwrap();
        for (what, bytes) in mutilations(&log, &older) {
            let copy = tempfile::tempdir().unwrap();
            copy_all(&state.directory, copy.path());
            let path = copy.path().join(LOG);
            match &bytes {
                Some(bytes) => fs::write(&path, bytes).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let context = format!("{}, {what}", state.name);
            let mark = fs::read(copy.path().join(MARK)).ok();
            match EmbeddedStore::open(copy.path(), Options::default()) {
                Ok(opened) => {
                    let there = length(&opened.store, some_run()).unwrap();
                    assert_eq!(there, state.acknowledged, "{context}");
                    assert_eq!(opened.store.check(None).unwrap(), [], "{context}");
                    harmless += 1;
                }
                Err(Error::Damaged(damage)) => {
                    assert_eq!(damage.place, LOG, "{context}");
                    assert_eq!(fs::read(&path).ok(), bytes, "{context}: left untouched");
                    assert_eq!(fs::read(copy.path().join(MARK)).ok(), mark, "{context}");
                    let read = EmbeddedStore::open(copy.path(), reading());
                    assert!(matches!(read, Err(Error::Damaged(_))), "{context}");
                    refused += 1;
                }
                Err(other) => panic!("{context}: {other}"),
            }
        }
        older.push((state.name.clone(), log));
    }
    println!("figure lost-logs {}", refused + harmless);
    assert!(refused > 300 && harmless > 3, "{refused} and {harmless}");
}

/// Marks are not synced: after a power failure an older one may be there, or none, or one
/// that was half written.
#[test]
fn every_older_mark_agrees_with_a_newer_log() {
    let root = tempfile::tempdir().unwrap();
    let states = states(root.path());
    let marks: Vec<Option<Vec<u8>>> = states
        .iter()
        .map(|state| fs::read(state.directory.join(MARK)).ok())
        .collect();
    for (at, state) in states.iter().enumerate() {
        let half = marks[at]
            .as_ref()
            .map(|mark| mark[..mark.len() / 2].to_vec());
        let older = marks[..=at].iter().cloned();
        for mark in older.chain([None, Some(Vec::new()), half]) {
            let copy = tempfile::tempdir().unwrap();
            copy_all(&state.directory, copy.path());
            match mark {
                Some(mark) => fs::write(copy.path().join(MARK), mark).unwrap(),
                None => drop(fs::remove_file(copy.path().join(MARK))),
            }
            let store = try_open(copy.path()).unwrap();
            let there = length(&store, some_run()).unwrap();
            assert_eq!(there, state.acknowledged, "{}", state.name);
            // What follows is marked again.
            extend(&store, some_run(), 1);
            drop(store);
            fs::remove_file(copy.path().join(LOG)).unwrap();
            let opened = try_open(copy.path());
            assert!(matches!(opened, Err(Error::Damaged(_))), "{}", state.name);
        }
    }
}

/// Another SQLite program copies the log when it closes, and removes it.
#[test]
fn a_visit_of_another_sqlite_program_is_no_damage() {
    let root = tempfile::tempdir().unwrap();
    for state in states(root.path()) {
        for edit in [
            None,
            Some("REPLACE INTO fact (name, value) VALUES ('visit', 1)"),
        ] {
            let copy = tempfile::tempdir().unwrap();
            copy_all(&state.directory, copy.path());
            let visit = rusqlite::Connection::open(copy.path().join("windlass.db")).unwrap();
            let count: i64 = visit
                .query_row("SELECT count(*) FROM record", [], |row| row.get(0))
                .unwrap();
            assert_eq!(count, state.acknowledged as i64);
            if let Some(edit) = edit {
                visit.execute_batch(edit).unwrap();
            }
            drop(visit);
            assert!(!copy.path().join(LOG).exists(), "{}", state.name);
            for _ in 0..2 {
                let store = try_open(copy.path())
                    .unwrap_or_else(|error| panic!("{}, {edit:?}: {error}", state.name));
                assert_eq!(length(&store, some_run()).unwrap(), state.acknowledged);
            }
        }
    }
}

#[test]
fn a_restored_backup_has_no_log_to_miss() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(&root.path().join("data"));
    extend(&store, some_run(), 5);
    let file = root.path().join("backup");
    store.backup(&file, &mut |_, _| {}).unwrap();
    drop(store);
    let restored = root.path().join("restored");
    restore(&file, &restored).unwrap();
    let store = try_open(&restored).unwrap();
    assert_eq!(length(&store, some_run()).unwrap(), 5);
}

#[test]
fn what_is_missing_is_told() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    extend(&store, some_run(), 6);
    drop(store);
    let log = fs::read(root.path().join(LOG)).unwrap();
    fs::write(root.path().join(LOG), &log[..log.len() - FRAME]).unwrap();
    let Err(Error::Damaged(damage)) = try_open(root.path()) else {
        panic!("a cut log is damage");
    };
    assert!(
        damage.reason.contains("1 of 6 commits are missing"),
        "{damage}"
    );
    fs::remove_file(root.path().join(LOG)).unwrap();
    let Err(Error::Damaged(damage)) = try_open(root.path()) else {
        panic!("a missing log is damage");
    };
    assert!(damage.reason.starts_with("the log is missing"), "{damage}");
    assert!(damage.reason.contains("in 6 commits"), "{damage}");
}

#[test]
fn a_database_that_is_missing_with_its_log_is_damage() {
    let root = tempfile::tempdir().unwrap();
    extend(&open_fast(root.path()), some_run(), 1);
    fs::remove_file(root.path().join(LOG)).unwrap();
    fs::remove_file(root.path().join("windlass.db")).unwrap();
    assert!(matches!(try_open(root.path()), Err(Error::Damaged(_))));
}

#[test]
fn an_accepted_loss_opens_with_what_is_left_and_keeps_the_rest() {
    let root = tempfile::tempdir().unwrap();
    for state in states(root.path()) {
        let log = fs::read(state.directory.join(LOG)).unwrap();
        for (what, bytes) in mutilations(&log, &[]) {
            let copy = tempfile::tempdir().unwrap();
            copy_all(&state.directory, copy.path());
            let path = copy.path().join(LOG);
            match &bytes {
                Some(bytes) => fs::write(&path, bytes).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let context = format!("{}, {what}", state.name);
            let was_refused = try_open(copy.path()).is_err();
            let accepted = accept_loss(copy.path()).unwrap();
            assert_eq!(accepted.is_some(), was_refused, "{context}");
            let Some(accepted) = accepted else { continue };
            let kept = accepted.kept.map(|path| fs::read(path).unwrap());
            assert_eq!(kept, bytes, "{context}");
            let store = try_open(copy.path()).unwrap();
            assert_eq!(store.check(None).unwrap(), [], "{context}");
            let left = length(&store, some_run()).unwrap();
            assert!(left <= state.acknowledged, "{context}");
            extend(&store, some_run(), 1);
            drop(store);
            assert!(accept_loss(copy.path()).unwrap().is_none(), "{context}");
        }
    }
}
