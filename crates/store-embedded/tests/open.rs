//! Which process may open a data directory, and with which words others are refused.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::{Command, Stdio};
use std::{fs, io::Read as _, io::Write as _};

use common::{extend, length, open, open_fast, some_run, try_open};
use windlass_store::conformance::{append_one, record};
use windlass_store::{AppendError, Error, Head, Log as _, Queries, Wait as _};
use windlass_store_embedded::{EmbeddedStore, Options};

#[test]
fn what_was_written_is_there_when_opened_again() {
    let root = tempfile::tempdir().unwrap();
    let head = extend(&open(root.path()), some_run(), 5);
    for _ in 0..3 {
        let store = open(root.path());
        assert_eq!(store.head(some_run()).wait().unwrap(), head);
        assert_eq!(length(&store, some_run()).unwrap(), 5);
    }
}

#[test]
fn who_asked_is_told_of_every_commit() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let told = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&told);
    store.on_commit(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    extend(&store, some_run(), 5);
    // The observer hears of the last commit after it was answered; closing waits for the writer.
    drop(store);
    assert_eq!(told.load(Ordering::Relaxed), 5);
}

#[test]
fn a_second_opening_reads_and_names_the_holder() {
    let root = tempfile::tempdir().unwrap();
    let first = open(root.path());
    let head = extend(&first, some_run(), 2);
    assert!(first.is_holder() && first.holder().is_none());
    let second = open(root.path());
    assert!(!second.is_holder());
    assert_eq!(second.holder().unwrap().pid, std::process::id());
    assert_eq!(length(&second, some_run()).unwrap(), 2);
    let Err(AppendError::Failed(Error::Unavailable(text))) =
        append_one(&second, record(some_run(), head, 9, b"no"))
    else {
        panic!("a reader must not write");
    };
    let expected = format!(
        "the data directory is in use by process {} (",
        std::process::id()
    );
    assert!(text.starts_with(&expected), "{text}");
    // It follows what the holder goes on writing.
    extend(&first, some_run(), 1);
    assert_eq!(length(&second, some_run()).unwrap(), 3);
    drop(first);
    assert!(
        open(root.path()).is_holder(),
        "the lock ends with its holder"
    );
}

#[test]
fn values_that_a_kill_left_unfinished_are_removed_by_the_next_holder() {
    let root = tempfile::tempdir().unwrap();
    let first = open(root.path());
    let folder = root.path().join("blobs/new");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("1.0"), b"half of a val").unwrap();
    let reader = open(root.path());
    assert!(!reader.is_holder());
    assert!(
        folder.join("1.0").exists(),
        "the holder may be writing it still"
    );
    drop((first, reader));
    let next = open(root.path());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    drop(next);
}

/// Runs this test binary as another process that holds the directory until asked to stop.
#[test]
fn another_process_holds_the_lock() {
    if let Some(directory) = std::env::var_os("WINDLASS_TEST_HOLD") {
        let store = open_fast(directory.as_ref());
        extend(&store, some_run(), 1);
        println!("holding");
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["another_process_holds_the_lock", "--exact", "--nocapture"])
        .env("WINDLASS_TEST_HOLD", root.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut out = child.stdout.take().unwrap();
    while !said.contains("holding") {
        let mut byte = [0];
        assert_eq!(out.read(&mut byte).unwrap(), 1, "{said}");
        said.push(byte[0].into());
    }
    let store = open(root.path());
    let holder = store.holder().unwrap();
    assert_eq!(holder.pid, child.id());
    assert!(holder.command.starts_with("open-"), "{holder}");
    assert_eq!(length(&store, some_run()).unwrap(), 1);
    child.stdin.take().unwrap().write_all(b".").unwrap();
    child.wait().unwrap();
    assert!(open(root.path()).is_holder());
}

#[test]
fn reading_only_leaves_the_lock() {
    let root = tempfile::tempdir().unwrap();
    extend(&open(root.path()), some_run(), 1);
    let options = Options {
        exclusive: false,
        ..Options::default()
    };
    let reader = EmbeddedStore::open(root.path(), options).unwrap().store;
    assert!(!reader.is_holder() && reader.holder().is_none());
    let writer = open(root.path());
    assert!(writer.is_holder());
    extend(&writer, some_run(), 1);
    assert_eq!(length(&reader, some_run()).unwrap(), 2);
    let refused = append_one(&reader, record(some_run(), Head::NONE, 1, b""));
    assert!(matches!(
        refused,
        Err(AppendError::Failed(Error::Unavailable(_)))
    ));
}

#[test]
fn what_is_missing_is_made_only_if_asked() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("a/b");
    let options = Options {
        create: false,
        ..Options::default()
    };
    let missing = EmbeddedStore::open(&directory, options);
    assert!(matches!(missing, Err(Error::NotFound(_))));
    assert!(!directory.exists());
    let empty = EmbeddedStore::open(root.path(), options);
    assert!(matches!(empty, Err(Error::NotFound(_))));
    let opened = EmbeddedStore::open(&directory, Options::default()).unwrap();
    assert!(opened.created);
    drop(opened);
    assert!(!EmbeddedStore::open(&directory, options).unwrap().created);
}

#[test]
fn a_file_in_the_directorys_place_is_named() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    fs::write(&path, b"not a directory").unwrap();
    let Err(Error::Unavailable(text)) = try_open(&path) else {
        panic!("a file is not a data directory");
    };
    assert!(text.contains("is not a directory"), "{text}");
    assert_eq!(fs::read(&path).unwrap(), b"not a directory");
}

#[test]
fn a_newer_schema_is_refused_and_untouched() {
    let root = tempfile::tempdir().unwrap();
    extend(&open_fast(root.path()), some_run(), 1);
    let database = root.path().join("windlass.db");
    let mut bytes = fs::read(&database).unwrap();
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    fs::write(&database, &bytes).unwrap();
    let log = fs::read(root.path().join("windlass.db-wal")).unwrap();
    let Err(Error::TooNew(text)) = try_open(root.path()) else {
        panic!("a newer schema must be refused");
    };
    assert!(text.contains("99"), "{text}");
    assert_eq!(fs::read(&database).unwrap(), bytes);
    assert_eq!(fs::read(root.path().join("windlass.db-wal")).unwrap(), log);
}

#[test]
fn a_log_without_its_database_is_refused() {
    let root = tempfile::tempdir().unwrap();
    extend(&open_fast(root.path()), some_run(), 1);
    fs::remove_file(root.path().join("windlass.db")).unwrap();
    assert!(matches!(try_open(root.path()), Err(Error::Damaged(_))));
}

#[test]
fn health_names_what_is_worth_knowing() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    let facts = store.health().wait().unwrap().facts;
    for name in ["sqlite", "schema", "bytes", "journal", "writable"] {
        assert!(facts.iter().any(|(fact, _)| fact == name), "{name}");
    }
}

#[test]
fn free_pages_of_a_new_database_can_be_given_back() {
    let root = tempfile::tempdir().unwrap();
    extend(&open_fast(root.path()), some_run(), 1);
    let database = rusqlite::Connection::open(root.path().join("windlass.db")).unwrap();
    let mode: i64 = database
        .query_row("PRAGMA auto_vacuum", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, 2, "incremental");
}
