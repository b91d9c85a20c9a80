//! Everything acknowledged was synced, and after a failed sync the store accepts nothing.
//! Needs `strace`, which `cargo xtask test` installs.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{length, open, some_run};
use windlass_store::conformance::{append_one, record};
use windlass_store::{AppendError, Error, Log as _, Wait as _};

/// The child: appends, and says how each ended.
fn append_and_tell(directory: &Path) {
    let store = open(directory);
    println!("opened");
    for _ in 0..10 {
        let head = store.head(some_run()).wait().unwrap();
        match append_one(
            &store,
            record(some_run(), head, head.sequence + 1, &[7; 300]),
        ) {
            Ok(_) => println!("stored"),
            Err(AppendError::Unknown {
                error: Error::Fatal(_),
                ..
            }) => println!("unknown"),
            Err(AppendError::Failed(Error::Fatal(_))) => println!("refused"),
            Err(other) => println!("{other:?}"),
        }
    }
}

/// Runs the child under `strace`; its words and the trace.
fn traced(test: &str, directory: &Path, options: &[&str]) -> (Vec<String>, String) {
    let trace = directory.with_extension("trace");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&trace)
        .args(options)
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("WINDLASS_TEST_SYNC", directory)
        .output()
        .expect("strace is installed");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let known = |line: &&str| ["opened", "stored", "unknown", "refused"].contains(line);
    let words: Vec<String> = said.lines().filter(known).map(Into::into).collect();
    // Where tracing is forbidden, strace says so and ends at once.
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!words.is_empty(), "nothing could be traced: {complaint}");
    (words, std::fs::read_to_string(trace).unwrap_or_default())
}

#[test]
fn every_commit_is_synced_once() {
    if let Some(directory) = std::env::var_os("WINDLASS_TEST_SYNC") {
        return append_and_tell(directory.as_ref());
    }
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("data");
    drop(open(&directory));
    let calls = ["-e", "trace=fsync,fdatasync,write"];
    let (words, trace) = traced("every_commit_is_synced_once", &directory, &calls);
    assert_eq!(words.len(), 11);
    let mut synced = 0;
    let mut acknowledged = 0;
    let begun = trace.split_once("opened").unwrap().1;
    for line in begun.lines() {
        if line.contains("fdatasync(") {
            synced += 1;
        }
        if line.contains("\"stored") {
            acknowledged += 1;
            assert!(
                synced >= acknowledged,
                "acknowledged before the sync:\n{trace}"
            );
        }
    }
    assert_eq!(acknowledged, 10);
    // One more for the header of a new log, whose directory entry is the only fsync.
    assert!((10..=12).contains(&synced), "{synced} syncs:\n{trace}");
    assert!(begun.matches("fsync(").count() <= 1, "{trace}");
}

#[test]
fn a_failed_sync_is_the_end() {
    if let Some(directory) = std::env::var_os("WINDLASS_TEST_SYNC") {
        return append_and_tell(directory.as_ref());
    }
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("data");
    drop(open(&directory));
    let fault = ["-e", "inject=fdatasync:error=EIO:when=5"];
    let (words, _) = traced("a_failed_sync_is_the_end", &directory, &fault);
    let unknown = words.iter().position(|word| word == "unknown").unwrap();
    assert!(words[1..unknown].iter().all(|word| word == "stored"));
    assert!(words[unknown + 1..].iter().all(|word| word == "refused"));
    assert!(unknown + 1 < words.len());
    // The next opening finds all that was acknowledged, and perhaps the unknown append.
    let store = open(&directory);
    let there = length(&store, some_run()).unwrap() as usize;
    assert!(
        (unknown - 1..=unknown).contains(&there),
        "{there} of {unknown}"
    );
}
