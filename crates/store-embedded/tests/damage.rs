//! Damage is found and located, or harmless; nothing acknowledged is dropped in silence.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{copy_closed, copy_directory, extend, length, open_fast, some_run, try_open};
use windlass_core::{Digest, Millis};
use windlass_store::conformance::{self, append_one, must_append, record, run_id};
use windlass_store::{
    Append, Audit, AuditEntry, Blob, Blobs as _, Claim, DeadLetter, DeadLetters, Error, Head, Hook,
    Hooks, Inbox as _, Log as _, Queries, Schedule, Schedules, Secrets, Wait as _, block_on,
};
use windlass_store_embedded::{EmbeddedStore, Options};

const HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

fn log_of(directory: &Path) -> Vec<u8> {
    fs::read(directory.join("windlass.db-wal")).unwrap()
}

/// A store whose log holds a number of commits, one record each.
fn logged(directory: &Path, commits: u64) -> Vec<u8> {
    extend(&open_fast(directory), some_run(), commits);
    log_of(directory)
}

/// Opens a copy with this log as a crash leaves it; the records that are left, or where it
/// is damaged.
fn outcome(from: &Path, log: &[u8]) -> Result<u64, Option<u64>> {
    outcome_of(from, log, copy_directory)
}

fn outcome_of(from: &Path, log: &[u8], copied: fn(&Path, &Path)) -> Result<u64, Option<u64>> {
    let copy = tempfile::tempdir().unwrap();
    copied(from, copy.path());
    let path = copy.path().join("windlass.db-wal");
    fs::write(&path, log).unwrap();
    match try_open(copy.path()) {
        Ok(store) => Ok(length(&store, some_run()).unwrap()),
        Err(Error::Damaged(damage)) => {
            assert_eq!(
                fs::read(&path).unwrap(),
                log,
                "a damaged log is left untouched"
            );
            assert_eq!(damage.place, "windlass.db-wal");
            Err(damage.offset)
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_log_cut_anywhere_opens_with_whole_commits() {
    let root = tempfile::tempdir().unwrap();
    let log = logged(root.path(), 6);
    assert_eq!(outcome(root.path(), &log), Ok(6));
    let mut last = 6;
    for cut in (0..log.len()).rev().step_by(131) {
        let left = outcome(root.path(), &log[..cut]).unwrap();
        assert!(
            left <= last && left + 1 >= last.min(6),
            "{left} after {last}"
        );
        last = left;
    }
    assert_eq!(last, 0);
}

#[test]
fn a_flipped_bit_loses_only_the_last_commit_or_is_located() {
    let root = tempfile::tempdir().unwrap();
    let log = logged(root.path(), 6);
    let commits = commits(&log);
    assert_eq!(commits.len(), 6);
    // Every byte of the headers, and some of the pages.
    let bytes =
        (0..log.len()).filter(|at| *at < HEADER || (*at - HEADER) % FRAME < 24 || at % 509 == 0);
    for at in bytes {
        let mut flipped = log.clone();
        flipped[at] ^= 1 << (at % 8);
        let frame = at.saturating_sub(HEADER) / FRAME;
        match outcome(root.path(), &flipped) {
            // All is there, or what is missing looks like a torn last commit.
            Ok(left) => assert!(left == 6 || left == 5, "byte {at}: {left}"),
            Err(offset) if at < HEADER => assert!(offset.unwrap() < HEADER as u64),
            Err(offset) => {
                assert_eq!(offset, Some((HEADER + frame * FRAME) as u64), "byte {at}");
            }
        }
    }
}

/// A store that was closed in good order knows how much was acknowledged.
#[test]
fn a_flipped_bit_in_a_closed_log_is_located_or_harmless() {
    let root = tempfile::tempdir().unwrap();
    let log = logged(root.path(), 6);
    let bytes =
        (0..log.len()).filter(|at| *at < HEADER || (*at - HEADER) % FRAME < 24 || at % 509 == 0);
    let mut located = 0;
    for at in bytes {
        let mut flipped = log.clone();
        flipped[at] ^= 1 << (at % 8);
        let frame = at.saturating_sub(HEADER) / FRAME;
        match outcome_of(root.path(), &flipped, copy_closed) {
            Ok(left) => assert_eq!(left, 6, "byte {at}"),
            Err(offset) if at < HEADER => assert!(offset.unwrap() < HEADER as u64),
            Err(offset) => {
                assert_eq!(offset, Some((HEADER + frame * FRAME) as u64), "byte {at}");
                located += 1;
            }
        }
    }
    assert!(located > 100);
}

#[test]
fn a_closed_log_that_was_cut_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let log = logged(root.path(), 6);
    assert_eq!(outcome_of(root.path(), &log, copy_closed), Ok(6));
    // Without its header it is not known which log it was.
    for cut in (HEADER + FRAME..log.len()).step_by(1013) {
        assert!(
            outcome_of(root.path(), &log[..cut], copy_closed).is_err(),
            "{cut}"
        );
    }
}

#[test]
fn a_torn_tail_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let log = logged(root.path(), 6);
    let store = try_open(root.path()).unwrap();
    assert_eq!(store.torn_tail(), None);
    drop(store);
    let copy = tempfile::tempdir().unwrap();
    copy_directory(root.path(), copy.path());
    let last = commits(&log)[4] + 1;
    let mut torn = log.clone();
    torn[HEADER + last * FRAME + 1000] ^= 0xff;
    fs::write(copy.path().join("windlass.db-wal"), torn).unwrap();
    let options = Options {
        exclusive: false,
        ..Options::default()
    };
    let reader = EmbeddedStore::open(copy.path(), options).unwrap().store;
    let tail = reader.torn_tail().expect("a torn tail");
    assert_eq!(tail.offset, (HEADER + last * FRAME) as u64);
    assert!(tail.bytes >= FRAME as u64);
    drop(reader);
    let store = try_open(copy.path()).unwrap();
    assert_eq!(store.torn_tail(), Some(tail));
    assert_eq!(length(&store, some_run()).unwrap(), 5);
}

/// The frames that end a commit.
fn commits(log: &[u8]) -> Vec<usize> {
    let frames = log[HEADER..].chunks_exact(FRAME).enumerate();
    frames
        .filter(|(_, frame)| frame[4..8] != [0; 4])
        .map(|(number, _)| number)
        .collect()
}

#[test]
fn a_log_written_over_is_not_damaged() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    // Enough to grow the log, copy it into the database and begin it again.
    let mut head = Head::NONE;
    for n in 0..700u64 {
        head = must_append(&store, record(some_run(), head, n, &[7; 40_000]));
    }
    drop(store);
    let log = log_of(root.path());
    let salts = |frame: &[u8]| frame[8..16].to_vec();
    let frames: Vec<_> = log[HEADER..].chunks_exact(FRAME).map(salts).collect();
    let current = log[16..24].to_vec();
    assert!(
        frames.iter().any(|salts| *salts != current),
        "the log was begun again"
    );
    for _ in 0..2 {
        let store = try_open(root.path()).unwrap();
        assert_eq!(length(&store, some_run()).unwrap(), 700);
        assert_eq!(store.check(None).unwrap(), []);
    }
}

/// A store whose content is all in the database file, none in the log.
fn settled(directory: &Path) -> Vec<u8> {
    let store = open_fast(directory);
    for n in 0..40 {
        extend(&store, run_id(n), 3);
    }
    let laden = Append {
        claims: vec![Claim {
            namespace: "request",
            key: "k".into(),
            value: vec![3; 200],
        }],
        blobs: vec![Blob {
            digest: Digest::of(&[5; 9000]),
            bytes: [5; 9000][..].into(),
        }],
        ..record(run_id(50), Head::NONE, 1, &[1; 2000])
    };
    must_append(&store, laden);
    assert!(conformance::inbox::offer(
        &store,
        run_id(50),
        "signal",
        &[4; 300]
    ));
    let whole = directory.join("whole");
    store.backup(&whole, &mut |_, _| {}).unwrap();
    drop(store);
    windlass_store_embedded::restore(&whole, &directory.join("settled")).unwrap();
    fs::read(directory.join("settled/windlass.db")).unwrap()
}

/// Whether opening, the check or reading finds something.
fn found(directory: &Path) -> bool {
    match try_open(directory) {
        Err(Error::Damaged(_) | Error::TooNew(_)) => true,
        Err(other) => panic!("{other}"),
        Ok(store) => match store.check(None) {
            Ok(damage) => !damage.is_empty(),
            Err(error) => panic!("{error}"),
        },
    }
}

fn with_database(bytes: &[u8]) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    fs::write(copy.path().join("windlass.db"), bytes).unwrap();
    copy
}

#[test]
fn a_flipped_bit_in_the_database_is_found_or_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let database = settled(root.path());
    assert!(!found(with_database(&database).path()));
    let expected = content(&try_open(with_database(&database).path()).unwrap());
    for at in (0..database.len()).step_by(database.len() / 400) {
        let mut flipped = database.clone();
        flipped[at] ^= 1 << (at % 8);
        let copy = with_database(&flipped);
        if !found(copy.path()) {
            // Free space, or a counter that means nothing to what is stored.
            let store = try_open(copy.path()).unwrap();
            assert_eq!(content(&store), expected, "byte {at}");
        }
    }
}

/// A dead run, a letter, an audit entry and a secret, in the database file.
fn with_dead_letter(directory: &Path) -> EmbeddedStore {
    extend(&open_fast(directory), run_id(1), 1);
    add_dead_letter(directory)
}

fn add_dead_letter(directory: &Path) -> EmbeddedStore {
    let store = open_fast(directory);
    let letter = DeadLetter {
        run: run_id(1),
        tenant: Some("acme".into()),
        workflow: "sample".into(),
        reason: "it would not go".into(),
        payload: b"{\"trigger\":1}".to_vec(),
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
        what: "runs.bury".into(),
        target: "run".into(),
        detail: "{}".into(),
        damage: None,
    };
    block_on(store.note(vec![entry])).unwrap();
    let sealed = b"sealed".to_vec();
    block_on(store.put_secret(None, "KEY", sealed, Millis(1))).unwrap();
    let schedule = Schedule {
        id: "nightly".into(),
        tenant: None,
        workflow: "w".into(),
        cron: Some("0 2 * * *".into()),
        every_ms: None,
        timezone: "UTC".into(),
        trigger: "{}".into(),
        labels: Default::default(),
        priority: 5,
        enabled: true,
        catch_up: Default::default(),
        overlap: Default::default(),
        changed_at: Millis(1),
        next_at: Some(Millis(2)),
        last_at: None,
        last_run: None,
        last_error: None,
        revision: 0,
        damage: None,
    };
    assert!(block_on(store.put_schedule(schedule, 9)).unwrap());
    let hook = Hook {
        id: "orders".into(),
        tenant: None,
        workflow: "w".into(),
        token: Digest::of(b"token"),
        secret: "secret".into(),
        created_at: Millis(1),
        damage: None,
    };
    assert!(block_on(store.put_hook(hook, 9)).unwrap());
    store
}

#[test]
fn changed_columns_of_the_newer_tables_are_found() {
    let changes = [
        "UPDATE run SET dead = 0",
        "UPDATE run SET gate_limit = 4",
        "UPDATE run SET gate = 'x'",
        "UPDATE dead_letter SET tenant = NULL",
        "UPDATE dead_letter SET reason = 'another'",
        "UPDATE dead_letter SET payload = x'00'",
        "UPDATE dead_letter SET deliveries = 4",
        "UPDATE audit SET actor = 'you'",
        "UPDATE audit SET tenant = 'acme'",
        "UPDATE audit SET detail = ''",
        "UPDATE secret SET tenant = 'acme'",
        "UPDATE secret SET name = 'KEE'",
        "UPDATE secret SET sealed = x'00'",
        "UPDATE schedule SET next_at = 3",
        "UPDATE schedule SET payload = '[]'",
        "UPDATE schedule SET tenant = 'acme'",
        "UPDATE schedule SET enabled = 0",
        "UPDATE hook SET tenant = 'acme'",
        "UPDATE hook SET secret = 'other'",
    ];
    for change in changes {
        let root = tempfile::tempdir().unwrap();
        let store = with_dead_letter(root.path());
        assert_eq!(store.check(None).unwrap(), []);
        drop(store);
        let database = rusqlite::Connection::open(root.path().join("windlass.db")).unwrap();
        assert_eq!(database.execute(change, []).unwrap(), 1, "{change}");
        drop(database);
        assert!(found(root.path()), "{change}");
    }
}

#[test]
fn a_run_whose_row_is_damaged_can_be_buried() {
    let root = tempfile::tempdir().unwrap();
    extend(&open_fast(root.path()), run_id(1), 1);
    let database = rusqlite::Connection::open(root.path().join("windlass.db")).unwrap();
    let change = "UPDATE run SET priority = 9";
    assert_eq!(database.execute(change, []).unwrap(), 1);
    drop(database);
    let store = add_dead_letter(root.path());
    assert!(store.dead_letter(run_id(1)).wait().unwrap().is_some());
    assert!(
        store.run(run_id(1)).wait().is_err(),
        "it is not made good by it"
    );
}

/// Everything that can be asked for, as text.
fn content(store: &EmbeddedStore) -> String {
    let runs: Vec<_> = store.logged_runs(None, 1000).wait().unwrap();
    let logs: Vec<_> = runs
        .iter()
        .map(|run| {
            (
                store.read(*run, 1, usize::MAX).wait().unwrap(),
                store.run(*run).wait().unwrap(),
                store.inbox(*run).wait().unwrap(),
            )
        })
        .collect();
    let claimed = store.claimed("request", "k").wait().unwrap();
    let blob = store.blob(&Digest::of(&[5; 9000])).wait().unwrap();
    format!("{runs:?}{logs:?}{claimed:?}{blob:?}")
}

#[test]
fn a_changed_record_names_its_run_and_place_and_spares_the_others() {
    let root = tempfile::tempdir().unwrap();
    let mut database = settled(root.path());
    let text = format!("record 2 of {}", run_id(7));
    for at in find(&database, text.as_bytes()) {
        database[at] ^= 1;
    }
    let copy = with_database(&database);
    let store = try_open(copy.path()).unwrap();
    let Err(Error::Damaged(damage)) = store.read(run_id(7), 1, usize::MAX).wait() else {
        panic!("a changed record must be found");
    };
    assert_eq!((damage.run, damage.sequence), (Some(run_id(7)), Some(2)));
    let all = store.check(None).unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0], *damage);
    assert_eq!(store.check(Some(run_id(7))).unwrap(), all);
    assert_eq!(store.check(Some(run_id(8))).unwrap(), []);
    extend(&store, run_id(8), 1);
    assert_eq!(length(&store, run_id(8)).unwrap(), 4);
}

/// Where a text stands; free space may hold more copies of it.
fn find(bytes: &[u8], text: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(text.len()).enumerate();
    let found = windows.filter(|(_, window)| *window == text);
    found.map(|(at, _)| at).collect()
}

#[test]
fn a_missing_tail_is_found() {
    let root = tempfile::tempdir().unwrap();
    let head = extend(&open_fast(root.path()), some_run(), 5);
    let connection = rusqlite::Connection::open(root.path().join("windlass.db")).unwrap();
    let removed = "DELETE FROM record WHERE id & 0xffffffff = 5";
    assert_eq!(connection.execute(removed, []).unwrap(), 1);
    drop(connection);
    let store = try_open(root.path()).unwrap();
    let Err(Error::Damaged(damage)) = store.read(some_run(), 1, usize::MAX).wait() else {
        panic!("a missing tail must be found");
    };
    assert_eq!((damage.run, damage.sequence), (Some(some_run()), Some(5)));
    // The fence still holds: the log goes on only behind its head.
    assert_eq!(store.head(some_run()).wait().unwrap(), head);
}

#[test]
fn a_cut_or_foreign_database_is_damage() {
    let root = tempfile::tempdir().unwrap();
    let database = settled(root.path());
    let mut foreign = database.clone();
    foreign[..16].copy_from_slice(b"something else!!");
    let mut other_program = database.clone();
    other_program[68] ^= 1;
    let cut = database[..database.len() - 4096].to_vec();
    let torn = database[..database.len() - 100].to_vec();
    for bytes in [Vec::new(), vec![0; 10], foreign, other_program, cut, torn] {
        let copy = with_database(&bytes);
        let Err(Error::Damaged(damage)) = try_open(copy.path()) else {
            panic!("{} bytes must be refused", bytes.len());
        };
        assert_eq!(damage.place, "windlass.db");
        let after = fs::read(copy.path().join("windlass.db")).unwrap();
        assert!(after == bytes, "left untouched");
    }
}

#[test]
fn a_damaged_value_is_found() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    let bytes = vec![9; 300_000];
    let digest = Digest::of(&bytes);
    let blob = Blob {
        digest,
        bytes: bytes.into(),
    };
    block_on(store.put_blob(blob)).unwrap();
    let name = digest.to_string();
    let file = root.path().join("blobs").join(&name[..2]).join(&name[2..]);
    fs::write(&file, vec![8; 300_000]).unwrap();
    assert!(matches!(store.blob(&digest).wait(), Err(Error::Damaged(_))));
    fs::remove_file(&file).unwrap();
    let damage = store.check(None).unwrap();
    assert_eq!(damage.len(), 1);
    assert!(damage[0].reason.contains("missing"));
    // The rest goes on.
    append_one(&store, record(some_run(), Head::NONE, 1, b"x")).unwrap();
}
