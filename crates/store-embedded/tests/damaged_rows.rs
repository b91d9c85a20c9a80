//! One damaged row among many: it is found and named, and the other rows are still listed.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::open_fast;
use windlass_core::{Digest, Millis, RunId, RunStatus};
use windlass_store::conformance::{must_append, record, row, run_id};
use windlass_store::{
    Admission, Append, Audit, AuditEntry, Blob, Blobs as _, Catalogue, DeadLetter, DeadLetters,
    Error, Head, Hook, Hooks, NewDefinition, Partitions, Queries, Retention, RunFilter, RunRow,
    Schedule, Schedules, Secrets, TenantFilter, Wait as _, block_on,
};
use windlass_store_embedded::EmbeddedStore;

const ANY: TenantFilter = TenantFilter::Any;

/// Changes the database behind the store's back.
fn change(directory: &Path, sql: &str) {
    let database = rusqlite::Connection::open(directory.join("windlass.db")).unwrap();
    assert_eq!(database.execute(sql, []).unwrap(), 1, "{sql}");
}

fn schedule(id: &str, next_at: i64) -> Schedule {
    Schedule {
        id: id.into(),
        tenant: None,
        workflow: "w".into(),
        cron: None,
        every_ms: Some(1000),
        timezone: "UTC".into(),
        trigger: "{}".into(),
        labels: Default::default(),
        priority: 5,
        enabled: true,
        catch_up: Default::default(),
        overlap: Default::default(),
        changed_at: Millis(1),
        next_at: Some(Millis(next_at)),
        last_at: None,
        last_run: None,
        last_error: None,
        revision: 0,
        damage: None,
    }
}

#[test]
fn values_and_definitions_of_a_newer_form_are_refused_by_name_and_kept() {
    let (small, large) = (b"small".to_vec(), vec![b'x'; 300 << 10]);
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    for bytes in [&small, &large] {
        let blob = Blob {
            digest: Digest::of(bytes),
            bytes: bytes[..].into(),
        };
        block_on(store.put_blob(blob)).unwrap();
        let definition = NewDefinition {
            tenant: None,
            workflow: "w".into(),
            display_name: None,
            digest: Digest::of(bytes),
            text: bytes[..].into(),
            signature: Digest::of(b""),
            at: Millis(1),
        };
        block_on(store.publish(definition)).unwrap();
    }
    drop(store);
    let set = |table: &str, envelope: u16| {
        let database = rusqlite::Connection::open(root.path().join("windlass.db")).unwrap();
        let sql = format!("UPDATE {table} SET envelope = ?");
        assert_eq!(database.execute(&sql, [envelope]).unwrap(), 2);
    };
    let too_new = |error: Error| {
        let Error::TooNew(text) = error else {
            panic!("not {error}");
        };
        assert!(text.contains("envelope version 2"), "{text}");
    };
    set("blob", 2);
    let store = open_fast(root.path());
    for bytes in [&small, &large] {
        too_new(store.blob(&Digest::of(bytes)).wait().unwrap_err());
    }
    let found = store.check(None).unwrap();
    assert!(found.iter().any(|it| it.reason.contains("newer version")));
    drop(store);
    set("blob", 1);
    set("definition", 2);
    let store = open_fast(root.path());
    for version in [Some(1), Some(2), None] {
        too_new(store.definition(None, "w", version).wait().unwrap_err());
    }
    assert_eq!(store.versions(None, "w").wait().unwrap().len(), 2);
    drop(store);
    set("definition", 0);
    let store = open_fast(root.path());
    let unknown = store.definition(None, "w", None).wait().unwrap_err();
    assert!(matches!(unknown, Error::Damaged(_)), "{unknown}");
    drop(store);
    set("definition", 1);
    let store = open_fast(root.path());
    assert_eq!(store.check(None).unwrap(), []);
    for (bytes, version) in [(&small, 1), (&large, 2)] {
        let value = store.blob(&Digest::of(bytes)).wait().unwrap().unwrap();
        assert!(value == **bytes);
        let row = store.definition(None, "w", Some(version)).wait().unwrap();
        assert!(row.unwrap().text == **bytes);
    }
}

#[test]
fn a_damaged_schedule_is_named_and_the_others_are_due() {
    for damage in [
        "UPDATE schedule SET payload = '[]' WHERE id = 'a'",
        "UPDATE schedule SET catch_up = 'sometimes' WHERE id = 'a'",
        "UPDATE schedule SET labels = 'nonsense' WHERE id = 'a'",
        "UPDATE schedule SET priority = 'high' WHERE id = 'a'",
        "UPDATE schedule SET revision = x'00' WHERE id = 'a'",
    ] {
        let root = tempfile::tempdir().unwrap();
        let store = open_fast(root.path());
        for (id, at) in [("a", 10), ("b", 20), ("c", 30)] {
            assert!(block_on(store.put_schedule(schedule(id, at), 9)).unwrap());
        }
        drop(store);
        change(root.path(), damage);
        let store = open_fast(root.path());
        let ids = |found: Vec<Schedule>| found.into_iter().map(|it| it.id).collect::<Vec<_>>();
        let all = store.schedules(&ANY, None, 9).wait().unwrap();
        assert!(all[0].damage.is_some(), "{damage}");
        assert!(all[0].workflow.is_empty(), "nothing of it is told");
        assert!(all[1..].iter().all(|it| it.damage.is_none()));
        assert_eq!(ids(all), ["a".into(), "b".into(), "c".into()]);
        // The damaged schedule takes no other one's place, and is not waited for.
        assert_eq!(
            ids(store.due_schedules(Millis(99), 1).wait().unwrap()),
            ["b".into()]
        );
        assert_eq!(store.next_schedule().wait().unwrap(), Some(Millis(20)));
        assert!(store.schedule(None, "a").wait().is_err());
        // It can be replaced, or removed.
        assert!(block_on(store.put_schedule(schedule("a", 15), 3)).unwrap());
        assert_eq!(store.next_schedule().wait().unwrap(), Some(Millis(15)));
        assert_eq!(store.check(None).unwrap(), []);
    }
}

/// Two hooks, secrets, letters, entries and workflows.
fn fill(store: &EmbeddedStore) {
    for (n, id) in (1..).zip(["a", "b"]) {
        let hook = Hook {
            id: id.into(),
            tenant: None,
            workflow: "w".into(),
            token: Digest::of(id.as_bytes()),
            secret: "secret".into(),
            created_at: Millis(1),
            damage: None,
        };
        assert!(block_on(store.put_hook(hook, 9)).unwrap());
        block_on(store.put_secret(None, id, b"sealed".to_vec(), Millis(1))).unwrap();
        let letter = DeadLetter {
            run: run_id(n),
            tenant: None,
            workflow: "w".into(),
            reason: "it would not go".into(),
            payload: b"{}".to_vec(),
            deliveries: 3,
            at: Millis(1),
            damage: None,
        };
        block_on(store.add_dead_letter(letter)).unwrap();
        let entry = AuditEntry {
            at: Millis(1),
            tenant: None,
            by: "me".into(),
            from: "here".into(),
            what: "test".into(),
            target: id.into(),
            detail: "{}".into(),
            damage: None,
        };
        block_on(store.note(vec![entry])).unwrap();
        let definition = NewDefinition {
            tenant: None,
            workflow: id.into(),
            display_name: None,
            digest: Digest::of(id.as_bytes()),
            text: id.as_bytes().into(),
            signature: Digest::of(b"s"),
            at: Millis(1),
        };
        block_on(store.publish(definition)).unwrap();
    }
}

#[test]
fn damaged_hooks_secrets_letters_workflows_and_entries_are_named_among_the_others() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    fill(&store);
    drop(store);
    change(
        root.path(),
        "UPDATE hook SET secret = 'other' WHERE id = 'a'",
    );
    change(
        root.path(),
        "UPDATE secret SET sealed = x'00' WHERE name = 'a'",
    );
    let first = run_id(1)
        .as_bytes()
        .map(|byte| format!("{byte:02x}"))
        .concat();
    change(
        root.path(),
        &format!("UPDATE dead_letter SET reason = 7 WHERE run = x'{first}'"),
    );
    change(
        root.path(),
        "UPDATE audit SET actor = 'you' WHERE number = 1",
    );
    change(
        root.path(),
        "UPDATE workflow SET version = 9 WHERE workflow = 'a'",
    );
    let store = open_fast(root.path());
    let damaged: Vec<Vec<bool>> = vec![
        store
            .hooks(&ANY, None, 9)
            .wait()
            .unwrap()
            .iter()
            .map(|it| it.damage.is_some())
            .collect(),
        store
            .secrets(&ANY, None, 99)
            .wait()
            .unwrap()
            .iter()
            .map(|it| it.damage.is_some())
            .collect(),
        // These two come with the newest first.
        store
            .dead_letters(&ANY, None, 9)
            .wait()
            .unwrap()
            .iter()
            .rev()
            .map(|it| it.damage.is_some())
            .collect(),
        store
            .audit(&ANY, None, 9)
            .wait()
            .unwrap()
            .iter()
            .rev()
            .map(|(_, it)| it.damage.is_some())
            .collect(),
        store
            .workflows(&ANY)
            .wait()
            .unwrap()
            .iter()
            .map(|it| it.damage.is_some())
            .collect(),
    ];
    for (at, list) in damaged.iter().enumerate() {
        assert_eq!(list, &[true, false], "list {at}");
    }
    let hooks = store.hooks(&ANY, None, 9).wait().unwrap();
    assert_eq!((&*hooks[0].id, &*hooks[0].secret), ("a", ""));
    assert!(store.hook_of(&Digest::of(b"b")).wait().unwrap().is_some());
    assert!(store.hook_of(&Digest::of(b"a")).wait().is_err());
}

/// Three runs of a status at a gate, of which the middle one is damaged.
fn runs(directory: &Path, change_row: &dyn Fn(RunRow) -> RunRow, sql: &str) {
    let store = open_fast(directory);
    for n in 1..=3 {
        let append = Append {
            row: Some(change_row(row(run_id(n)))),
            ..record(run_id(n), Head::NONE, n, b"x")
        };
        must_append(&store, append);
    }
    drop(store);
    let middle = run_id(2)
        .as_bytes()
        .map(|byte| format!("{byte:02x}"))
        .concat();
    change(
        directory,
        &format!("UPDATE run SET {sql} WHERE run = x'{middle}'"),
    );
}

fn ids(rows: Vec<RunRow>) -> Vec<RunId> {
    let mut ids: Vec<RunId> = rows.into_iter().map(|row| row.run).collect();
    ids.sort();
    ids
}

#[test]
fn a_damaged_row_of_a_run_is_left_out_once_named_and_can_be_made_anew() {
    type List = fn(&EmbeddedStore) -> Vec<RunRow>;
    let lists: [(RunStatus, List); 6] = [
        (RunStatus::Pending, |store| {
            store.waiting(&Partitions::All, None, 2).wait().unwrap()
        }),
        (RunStatus::Running, |store| {
            store.begun(&Partitions::All, None, 2).wait().unwrap()
        }),
        (RunStatus::Running, |store| {
            store.awake(None, 2).wait().unwrap()
        }),
        (RunStatus::Running, |store| {
            store.unfinished(None, 2).wait().unwrap()
        }),
        (RunStatus::Succeeded, |store| {
            store.ended(Millis(i64::MAX), 2).wait().unwrap()
        }),
        (RunStatus::Failed, |store| {
            store.runs(&RunFilter::default()).wait().unwrap().rows
        }),
    ];
    for (status, list) in lists {
        for sql in [
            "version = 77",
            "workflow = x'ff'",
            "labels = '{'",
            "priority = 'high'",
        ] {
            let root = tempfile::tempdir().unwrap();
            let with = |row: RunRow| RunRow {
                status,
                ended_at: status.is_final().then_some(Millis(5)),
                ..row
            };
            runs(root.path(), &with, sql);
            let store = open_fast(root.path());
            assert_eq!(ids(list(&store)), [run_id(1), run_id(3)], "{status} {sql}");
            let named: Vec<_> = store.damaged_rows().into_iter().map(|it| it.run).collect();
            assert_eq!(named, [Some(run_id(2))], "{status} {sql}");
            assert!(store.damaged_rows().is_empty());
            let anew = (with(row(run_id(2))), Vec::new());
            block_on(store.replace_rows(vec![anew])).unwrap();
            assert!(ids(list(&store)).contains(&run_id(2)) || list(&store).len() == 2);
            assert_eq!(store.check(None).unwrap(), [], "{status} {sql}");
        }
    }
}
