//! Killed at random moments, the store keeps everything that it acknowledged.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{length, open};
use windlass_core::{Digest, RunId};
use windlass_store::conformance::{record, row, run_id};
use windlass_store::{Append, Blob, Checkpoint, Head, Log as _, Wait as _, block_on};
use windlass_store_embedded::EmbeddedStore;

const WRITERS: u64 = 4;

/// After so many kills a new store begins: reading all of one that only grows takes longer
/// every time.
const FRESH_AFTER: u64 = 100;

/// How often it is killed; `WINDLASS_KILLS` says otherwise.
fn kills() -> u64 {
    let given = std::env::var("WINDLASS_KILLS").ok();
    given.map_or(50, |text| text.parse().expect("WINDLASS_KILLS is a number"))
}

/// The child: writers that report each append after its `Ok`.
fn write_until_killed(directory: &std::path::Path) {
    let store = open(directory);
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let store = store.clone();
            thread::spawn(move || {
                let run = run_id(n);
                let mut head = store.head(run).wait().unwrap();
                loop {
                    let id = head.sequence + 1;
                    let mut append = record(run, head, id, &vec![n as u8; id as usize % 3000]);
                    if id.is_multiple_of(3) {
                        append.row = Some(row(run));
                    }
                    if id.is_multiple_of(40) {
                        let bytes = vec![id as u8; 260 << 10];
                        append = Append {
                            blobs: vec![Blob {
                                digest: Digest::of(&bytes),
                                bytes: bytes.into(),
                            }],
                            ..append
                        };
                    }
                    let answer = block_on(store.append(vec![append])).remove(0);
                    head = answer.unwrap().head;
                    println!("ack {n} {}", head.sequence);
                    if id.is_multiple_of(30) {
                        tidy_up(&store, run, head);
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        let _ = writer.join();
    }
}

/// What an engine does with a long log: a checkpoint, then packing what it covers.
fn tidy_up(store: &EmbeddedStore, run: RunId, head: Head) {
    let size = if head.sequence.is_multiple_of(20) {
        270_000
    } else {
        900
    };
    let checkpoint = state(run, head, size);
    block_on(store.put_checkpoint(run, checkpoint)).unwrap();
    block_on(store.compact(run, head.sequence - 7)).unwrap();
}

fn state(run: RunId, head: Head, size: usize) -> Checkpoint {
    let mut bytes = run.as_bytes().to_vec();
    bytes.resize(size, head.sequence as u8);
    Checkpoint { head, bytes }
}

#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    if let Some(directory) = std::env::var_os("WINDLASS_TEST_WRITE") {
        return write_until_killed(directory.as_ref());
    }
    let mut root = tempfile::tempdir().unwrap();
    let mut acknowledged = [0u64; WRITERS as usize];
    let mut checkpoints = 0;
    let mut random = 0x2545_f491_4f6c_dd1du64;
    for kill in 0..kills() {
        if kill > 0 && kill.is_multiple_of(FRESH_AFTER) {
            assert!(acknowledged.iter().sum::<u64>() > 100, "{acknowledged:?}");
            acknowledged = [0; WRITERS as usize];
            root = tempfile::tempdir().unwrap();
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "nothing_acknowledged_is_lost_by_a_kill",
                "--exact",
                "--nocapture",
            ])
            .env("WINDLASS_TEST_WRITE", root.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let reader = thread::spawn(move || {
            let mut seen = [0u64; WRITERS as usize];
            for line in out.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                // A line that the kill cut short does not parse, or is smaller.
                let mut words = line.split(' ').skip_while(|word| *word != "ack").skip(1);
                let numbers = (words.next(), words.next());
                if let (Some(writer), Some(sequence)) = numbers
                    && let (Ok(writer), Ok(sequence)) =
                        (writer.parse::<usize>(), sequence.parse::<u64>())
                {
                    seen[writer] = seen[writer].max(sequence);
                }
            }
            seen
        });
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        thread::sleep(Duration::from_millis(15 + random % 120));
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = reader.join().unwrap();
        let store = open(root.path());
        for (n, acknowledged) in acknowledged.iter_mut().enumerate() {
            *acknowledged = (*acknowledged).max(seen[n]);
            let there = length(&store, run_id(n as u64)).unwrap();
            assert!(
                there >= *acknowledged,
                "kill {kill}: run {n} has {there} records, {acknowledged} were acknowledged"
            );
            let run = run_id(n as u64);
            if let Some(found) = store.checkpoint(run).wait().unwrap() {
                assert!(found == state(run, found.head, found.bytes.len()));
                checkpoints += 1;
            }
        }
        if kill % 10 == 9 {
            assert_eq!(store.check(None).unwrap(), []);
        }
    }
    assert!(acknowledged.iter().sum::<u64>() > 100, "{acknowledged:?}");
    assert!(checkpoints > 0);
    println!("figure kills {}", kills());
}
