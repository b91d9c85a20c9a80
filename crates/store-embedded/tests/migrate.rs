//! A data directory that the version before wrote opens, and goes on.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{extend, length, open, open_fast, try_open};
use rusqlite::Connection;
use windlass_core::{Digest, Millis, RunStatus};
use windlass_store::conformance::{must_append, record, row, run_id};
use windlass_store::{
    Append, Blob, Checkpoint, Claim, Error, Head, Queries, RunFilter, RunRow, Store, block_on,
};
use windlass_store_embedded::{EmbeddedStore, Options};

/// The tables as the first version made them.
const OLD_SCHEMA: &str = include_str!("common/schema-1.sql");

/// Everything that the first version could store.
fn fill(store: &EmbeddedStore) {
    for n in 0..20 {
        extend(store, run_id(n), 5);
    }
    let laden = Append {
        row: Some(RunRow {
            status: RunStatus::Paused,
            tenant: Some("acme".into()),
            labels: [("env".into(), "prod".into())].into(),
            wake_at: Some(Millis(5)),
            parent: Some(run_id(3)),
            ..row(run_id(50))
        }),
        claims: vec![Claim {
            namespace: "request",
            key: "k".into(),
            value: b"mine".to_vec(),
        }],
        blobs: vec![Blob {
            digest: Digest::of(b"value"),
            bytes: b"value"[..].into(),
        }],
        ..record(run_id(50), Head::NONE, 1, b"laden")
    };
    must_append(store, laden);
    block_on(store.offer(run_id(50), "signal", b"s")).unwrap();
}

/// A directory of the first version with the content of one of the present version.
fn old_directory(root: &Path) -> std::path::PathBuf {
    let present = root.join("present");
    fill(&open_fast(&present));
    let directory = root.join("old");
    fs::create_dir(&directory).unwrap();
    let database = Connection::open(directory.join("windlass.db")).unwrap();
    database
        .execute_batch(&format!(
            "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; BEGIN; {OLD_SCHEMA}
             PRAGMA application_id = {}; PRAGMA user_version = 1; COMMIT;",
            0x576e_646c
        ))
        .unwrap();
    let attach = format!("ATTACH '{}/windlass.db' AS present", present.display());
    database.execute_batch(&attach).unwrap();
    for table in ["run", "label", "record", "claim", "inbox", "blob"] {
        let columns = columns(&database, table);
        let copy = format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM present.{table}");
        assert!(database.execute(&copy, []).unwrap() > 0, "{table}");
    }
    database.execute_batch("DETACH present").unwrap();
    directory
}

/// The columns of a table in the old schema.
fn columns(database: &Connection, table: &str) -> String {
    let mut statement = database
        .prepare("SELECT name FROM pragma_table_info(?) ORDER BY cid")
        .unwrap();
    let names = statement.query_map([table], |row| row.get::<_, String>(0));
    let names: Vec<_> = names.unwrap().map(Result::unwrap).collect();
    assert!(!names.contains(&"asleep".to_owned()));
    names.join(", ")
}

fn version(directory: &Path) -> i64 {
    let database = Connection::open(directory.join("windlass.db")).unwrap();
    let version = database.query_row("PRAGMA user_version", [], |row| row.get(0));
    version.unwrap()
}

/// Everything is there, and everything new works on it.
fn works(store: &EmbeddedStore) {
    assert_eq!(store.check(None).unwrap(), []);
    for n in 0..20 {
        assert_eq!(length(store, run_id(n)).unwrap(), 5);
        assert_eq!(store.run(run_id(n)).unwrap(), Some(row(run_id(n))));
    }
    let laden = store.run(run_id(50)).unwrap().unwrap();
    assert!(!laden.asleep);
    assert_eq!(
        store.children(run_id(3)).unwrap(),
        std::slice::from_ref(&laden)
    );
    let paused = RunFilter {
        statuses: vec![RunStatus::Paused],
        ..RunFilter::default()
    };
    assert_eq!(
        store.runs(&paused).unwrap().rows,
        std::slice::from_ref(&laden)
    );
    assert_eq!(store.awake(None, 100).unwrap().len(), 21);
    assert_eq!(store.unfinished(None, 100).unwrap().len(), 21);
    assert_eq!(store.next_wake().unwrap(), None, "it did not say it sleeps");
    assert_eq!(store.offered(None, 10).unwrap(), [run_id(50)]);
    assert_eq!(store.claimed("request", "k").unwrap().unwrap(), b"mine");
    assert_eq!(
        store.blob(&Digest::of(b"value")).unwrap().unwrap(),
        b"value"
    );
}

fn new_things_work(store: &EmbeddedStore) {
    let head = extend(store, run_id(1), 1);
    let sleeping = RunRow {
        asleep: true,
        wake_at: Some(Millis(9)),
        ..row(run_id(1))
    };
    let head = must_append(
        store,
        Append {
            row: Some(sleeping),
            ..record(run_id(1), head, 90, b"to bed")
        },
    );
    assert_eq!(store.next_wake().unwrap(), Some(Millis(9)));
    assert_eq!(block_on(store.compact(run_id(1), 7)).unwrap().records, 7);
    let checkpoint = Checkpoint {
        head,
        bytes: b"state".to_vec(),
    };
    block_on(store.put_checkpoint(run_id(1), checkpoint.clone())).unwrap();
    assert_eq!(store.checkpoint(run_id(1)).unwrap(), Some(checkpoint));
    assert_eq!(length(store, run_id(1)).unwrap(), 7);
    assert_eq!(store.check(None).unwrap(), []);
}

#[test]
fn an_old_directory_opens_and_works() {
    let root = tempfile::tempdir().unwrap();
    let directory = old_directory(root.path());
    assert_eq!(version(&directory), 1);
    let store = open(&directory);
    works(&store);
    drop(store);
    assert_eq!(version(&directory), 3);
    let store = open(&directory);
    works(&store);
    new_things_work(&store);
}

#[test]
fn an_old_directory_is_read_too() {
    let root = tempfile::tempdir().unwrap();
    let directory = old_directory(root.path());
    let options = Options {
        exclusive: false,
        ..Options::default()
    };
    let reader = EmbeddedStore::open(&directory, options).unwrap().store;
    assert!(!reader.is_holder());
    works(&reader);
    let writer = open(&directory);
    assert!(writer.is_holder(), "the lock was taken only for a moment");
    new_things_work(&writer);
}

#[test]
fn an_old_directory_in_use_by_an_old_program_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let directory = old_directory(root.path());
    let lock = fs::File::create(directory.join("lock")).unwrap();
    lock.try_lock().unwrap();
    let Err(Error::Unavailable(text)) = try_open(&directory) else {
        panic!("tables that are not there cannot be read");
    };
    assert!(text.contains("schema version 1"), "{text}");
    assert_eq!(version(&directory), 1, "and are not made");
    drop(lock);
    works(&open(&directory));
}

#[test]
fn a_backup_of_an_old_directory_is_restored() {
    let root = tempfile::tempdir().unwrap();
    let directory = old_directory(root.path());
    let file = root.path().join("backup");
    open(&directory).backup(&file, &mut |_, _| {}).unwrap();
    windlass_store_embedded::restore(&file, &root.path().join("restored")).unwrap();
    let restored = open(&root.path().join("restored"));
    works(&restored);
    new_things_work(&restored);
}
