//! A data directory that a version before wrote opens, and goes on.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{extend, length, open, open_fast, try_open};
use rusqlite::Connection;
use windlass_core::{Digest, Millis, RunStatus};
use windlass_store::conformance::{self, must_append, record, row, run_id};
use windlass_store::{
    Admission, Append, Audit, AuditEntry, Blob, Blobs as _, Catalogue, Checkpoint, Claim,
    DeadLetter, DeadLetters, Error, Head, Inbox as _, Log as _, NewDefinition, Partitions, Queries,
    ResourceRow, RunFilter, RunRow, TenantFilter, Wait as _, block_on,
};
use windlass_store_embedded::{EmbeddedStore, Options};

/// The tables as the versions before made them, from version 1 on.
const OLD_SCHEMAS: [&str; 2] = [
    include_str!("common/schema-1.sql"),
    include_str!("common/schema-2.sql"),
];

/// The tables that version 1 has, and those that version 2 added.
const TABLES: [&str; 9] = [
    "run",
    "label",
    "record",
    "claim",
    "inbox",
    "blob",
    "resource",
    "workflow",
    "definition",
];
const SECOND_TABLES: [&str; 2] = ["segment", "checkpoint"];

/// A definition whose text is kept as a file.
static LARGE: [u8; 300 << 10] = [b'x'; 300 << 10];

fn definition(workflow: &str, text: &[u8]) -> NewDefinition {
    NewDefinition {
        tenant: None,
        workflow: workflow.into(),
        display_name: Some("The sample".into()),
        digest: Digest::of(text),
        text: text.into(),
        signature: Digest::of(b"signature"),
        at: Millis(7),
    }
}

/// Everything that version 2 could store beside what the first could.
fn fill_second(store: &EmbeddedStore) {
    let run = run_id(60);
    let sleeping = RunRow {
        asleep: true,
        wake_at: Some(Millis(70)),
        ..row(run)
    };
    let head = must_append(
        store,
        Append {
            row: Some(sleeping),
            ..record(run, Head::NONE, 1, b"to bed")
        },
    );
    let checkpoint = Checkpoint {
        head,
        bytes: b"state".to_vec(),
    };
    block_on(store.put_checkpoint(run, checkpoint)).unwrap();
    block_on(store.compact(run_id(2), 5)).unwrap();
}

/// Everything that the first version could store.
fn fill(store: &EmbeddedStore) {
    for (workflow, text) in [("sample", &b"one"[..]), ("sample", &LARGE), ("other", b"o")] {
        block_on(store.publish(definition(workflow, text))).unwrap();
    }
    block_on(store.set_enabled(None, "sample", false)).unwrap();
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
        resources: vec![ResourceRow {
            tenant: Some("acme".into()),
            system: "jira".into(),
            kind: "issue".into(),
            id: "1".into(),
            url: None,
            run: run_id(50),
            node: "n".into(),
        }],
        ..record(run_id(50), Head::NONE, 1, b"laden")
    };
    must_append(store, laden);
    assert!(conformance::inbox::offer(store, run_id(50), "signal", b"s"));
}

/// A directory of a version before with the content of one of the present version.
fn old_directory(root: &Path, version: usize) -> std::path::PathBuf {
    let present = root.join("present");
    let store = open_fast(&present);
    fill(&store);
    let mut tables = TABLES.to_vec();
    if version > 1 {
        fill_second(&store);
        tables.extend(SECOND_TABLES);
    }
    drop(store);
    let directory = root.join("old");
    fs::create_dir(&directory).unwrap();
    fs::rename(present.join("blobs"), directory.join("blobs")).unwrap();
    let database = Connection::open(directory.join("windlass.db")).unwrap();
    database
        .execute_batch(&format!(
            "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; BEGIN; {}
             PRAGMA application_id = {}; PRAGMA user_version = {version}; COMMIT;",
            OLD_SCHEMAS[version - 1],
            0x576e_646c
        ))
        .unwrap();
    let attach = format!("ATTACH '{}/windlass.db' AS present", present.display());
    database.execute_batch(&attach).unwrap();
    for table in tables {
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
    assert!(!names.contains(&"gate".to_owned()));
    names.join(", ")
}

/// The earliest time at which a sleeping run wants to be woken.
fn earliest(store: &EmbeddedStore) -> Option<Millis> {
    let due = store.due(&Partitions::All, None, Millis(i64::MAX), 1);
    due.wait().unwrap().first().map(|(_, at)| *at)
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
        assert_eq!(store.run(run_id(n)).wait().unwrap(), Some(row(run_id(n))));
    }
    let laden = store.run(run_id(50)).wait().unwrap().unwrap();
    assert!(!laden.asleep);
    assert_eq!(
        store.children(run_id(3)).wait().unwrap(),
        std::slice::from_ref(&laden)
    );
    let paused = RunFilter {
        statuses: vec![RunStatus::Paused],
        ..RunFilter::default()
    };
    assert_eq!(
        store.runs(&paused).wait().unwrap().rows,
        std::slice::from_ref(&laden)
    );
    assert_eq!(store.awake(None, 100).wait().unwrap().len(), 21);
    let sleeps = store.run(run_id(60)).wait().unwrap().map(|_| Millis(70));
    let unfinished = 21 + usize::from(sleeps.is_some());
    assert_eq!(
        store.unfinished(None, 100).wait().unwrap().len(),
        unfinished
    );
    assert_eq!(earliest(store), sleeps, "only one that said so");
    if sleeps.is_some() {
        let checkpoint = store.checkpoint(run_id(60)).wait().unwrap().unwrap();
        assert_eq!(checkpoint.bytes, b"state");
    }
    let link = store
        .resource(Some("acme"), "jira", "issue", "1")
        .wait()
        .unwrap();
    assert_eq!(link.unwrap().run, run_id(50));
    workflows_are_there(store);
    assert_eq!(
        store.offered(&Partitions::All, None, 10).wait().unwrap(),
        [run_id(50)]
    );
    assert_eq!(
        store.claimed("request", "k").wait().unwrap().unwrap(),
        b"mine"
    );
    assert_eq!(
        store.blob(&Digest::of(b"value")).wait().unwrap().unwrap(),
        b"value"
    );
}

/// Workflows stay without a tenant; a tenant that had runs of one has a copy, and can go on.
fn workflows_are_there(store: &EmbeddedStore) {
    for tenant in [None, Some("acme")] {
        let texts = [(Some(1), &b"one"[..]), (Some(2), &LARGE), (None, &LARGE)];
        for (version, text) in texts {
            let row = store
                .definition(tenant, "sample", version)
                .wait()
                .unwrap()
                .unwrap();
            assert!(row.text == text, "version {version:?} of {tenant:?}");
            assert_eq!((row.tenant.as_deref(), row.at), (tenant, Millis(7)));
        }
        let row = store.workflow(tenant, "sample").wait().unwrap().unwrap();
        assert_eq!((row.version, row.enabled), (2, false));
        assert_eq!(row.display_name.as_deref(), Some("The sample"));
    }
    assert_eq!(store.workflows(&TenantFilter::Any).wait().unwrap().len(), 3);
    assert!(
        store
            .workflow(Some("acme"), "other")
            .wait()
            .unwrap()
            .is_none()
    );
}

fn newest_things_work(store: &EmbeddedStore) {
    let pending = RunRow {
        status: RunStatus::Pending,
        tenant: Some("acme".into()),
        gate: Some("sample\nkey".into()),
        limit: 1,
        ..row(run_id(70))
    };
    must_append(
        store,
        Append {
            row: Some(pending.clone()),
            ..record(run_id(70), Head::NONE, 1, b"asked for")
        },
    );
    assert_eq!(
        store
            .waiting(&Partitions::All, Some("acme"), 9)
            .wait()
            .unwrap(),
        [pending]
    );
    let letter = DeadLetter {
        run: run_id(5),
        tenant: None,
        workflow: "sample".into(),
        reason: "it would not go".into(),
        payload: b"{}".to_vec(),
        deliveries: 3,
        at: Millis(1),
        damage: None,
    };
    block_on(store.add_dead_letter(letter)).unwrap();
    assert!(store.run(run_id(5)).wait().unwrap().unwrap().dead);
    let entry = AuditEntry {
        at: Millis(1),
        tenant: None,
        by: "me".into(),
        from: "here".into(),
        what: "runs.bury".into(),
        target: "run".into(),
        detail: "{}".into(),
        damage: None,
    };
    block_on(store.note(vec![entry])).unwrap();
    assert_eq!(
        store
            .audit(&TenantFilter::Any, None, 9)
            .wait()
            .unwrap()
            .len(),
        1
    );
}

fn new_things_work(store: &EmbeddedStore) {
    newest_things_work(store);
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
    assert_eq!(earliest(store), Some(Millis(9)));
    assert_eq!(block_on(store.compact(run_id(1), 7)).unwrap().records, 7);
    let checkpoint = Checkpoint {
        head,
        bytes: b"state".to_vec(),
    };
    block_on(store.put_checkpoint(run_id(1), checkpoint.clone())).unwrap();
    assert_eq!(
        store.checkpoint(run_id(1)).wait().unwrap(),
        Some(checkpoint)
    );
    assert_eq!(length(store, run_id(1)).unwrap(), 7);
    assert_eq!(store.check(None).unwrap(), []);
}

/// Calls a test with a directory of each version before.
fn each_version(test: impl Fn(&Path, usize)) {
    for version in [1, 2] {
        let root = tempfile::tempdir().unwrap();
        test(&old_directory(root.path(), version), version);
    }
}

#[test]
fn an_old_directory_opens_and_works() {
    each_version(|directory, number| {
        assert_eq!(version(directory), number as i64);
        let store = open(directory);
        works(&store);
        drop(store);
        assert_eq!(version(directory), 8);
        let store = open(directory);
        works(&store);
        new_things_work(&store);
    });
}

#[test]
fn an_old_directory_is_read_too() {
    each_version(|directory, _| {
        let options = Options {
            exclusive: false,
            ..Options::default()
        };
        let reader = EmbeddedStore::open(directory, options).unwrap().store;
        assert!(!reader.is_holder());
        works(&reader);
        let writer = open(directory);
        assert!(writer.is_holder(), "the lock was taken only for a moment");
        new_things_work(&writer);
    });
}

#[test]
fn an_old_directory_in_use_by_an_old_program_is_refused() {
    each_version(|directory, number| {
        let lock = fs::File::create(directory.join("lock")).unwrap();
        lock.try_lock().unwrap();
        let Err(Error::Unavailable(text)) = try_open(directory) else {
            panic!("tables that are not there cannot be read");
        };
        assert!(text.contains(&format!("schema version {number}")), "{text}");
        assert_eq!(version(directory), number as i64, "and are not made");
        drop(lock);
        works(&open(directory));
    });
}

#[test]
fn a_backup_of_an_old_directory_is_restored() {
    each_version(|directory, _| {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("backup");
        open(directory).backup(&file, &mut |_, _| {}).unwrap();
        windlass_store_embedded::restore(&file, &root.path().join("restored")).unwrap();
        let restored = open(&root.path().join("restored"));
        let checkpoint = restored.checkpoint(run_id(60)).wait().unwrap();
        assert_eq!(
            checkpoint.is_some(),
            restored.run(run_id(60)).wait().unwrap().is_some()
        );
        works(&restored);
        new_things_work(&restored);
    });
}
