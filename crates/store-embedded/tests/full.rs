//! A full disk is an error that names itself, costs nothing that was acknowledged, and ends
//! when there is room again.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{length, open, some_run};
use windlass_store::conformance::{append_one, record};
use windlass_store::{AppendError, Error, Log as _, Queries as _, Wait as _};

/// How long the child waits between two looks at the store's health.
const BETWEEN_LOOKS: std::time::Duration = std::time::Duration::from_millis(20);

/// The child: writes until refused, waits for room, and goes on.
fn write_past_the_limit(directory: &Path) {
    let store = open(directory);
    let mut head = store.head(some_run()).wait().unwrap();
    let mut refusals = 0;
    let mut after = 0;
    while after < 20 {
        let append = record(some_run(), head, head.sequence + 1, &[7; 3000]);
        match append_one(&store, append) {
            Ok(appended) => {
                head = appended.head;
                after += u64::from(refusals > 0);
            }
            Err(AppendError::Failed(Error::Full(text))) => {
                refusals += 1;
                println!("refused {} {text}", head.sequence);
                // As long as writes fail, the store says so.
                assert!(matches!(store.health().wait(), Err(Error::Full(_))));
                // A reader sees what was acknowledged, no more and no less.
                assert_eq!(length(&store, some_run()).unwrap(), head.sequence);
                if refusals == 3 {
                    println!("waiting");
                    std::io::stdin().read_line(&mut String::new()).unwrap();
                    // It notices by itself that there is room, without a write of a caller.
                    let tries = std::iter::repeat_with(|| store.health().wait());
                    let paused = tries.inspect(|_| std::thread::sleep(BETWEEN_LOOKS));
                    assert!(paused.take(200).any(|health| health.is_ok()));
                }
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    println!("done {}", head.sequence);
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    if let Some(directory) = std::env::var_os("WINDLASS_TEST_FULL") {
        return write_past_the_limit(directory.as_ref());
    }
    if Command::new("prlimit").arg("--version").output().is_err() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    drop(open(root.path()));
    // A limit on the size of files stands for the size of the disk: 300 KiB.
    let script = "trap '' XFSZ; ulimit -S -f 600; exec \"$0\" \"$@\"";
    let mut child = Command::new("bash")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["a_full_disk_refuses_and_recovers", "--exact", "--nocapture"])
        .env("WINDLASS_TEST_FULL", root.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut refused = None;
    let mut done = None;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let number = |word: &str| {
            let rest = line.split_once(word)?.1;
            rest.split(' ').find(|part| !part.is_empty())?.parse().ok()
        };
        refused = refused.or(number("refused"));
        done = done.or(number("done"));
        if line.contains("waiting") {
            let pid = child.id().to_string();
            let raise = ["--pid", &pid, "--fsize=unlimited"];
            assert!(
                Command::new("prlimit")
                    .args(raise)
                    .status()
                    .unwrap()
                    .success()
            );
            child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        }
    }
    assert!(child.wait().unwrap().success());
    let (refused, done): (u64, u64) = (refused.unwrap(), done.unwrap());
    assert_eq!(done, refused + 20);
    let store = open(root.path());
    assert_eq!(length(&store, some_run()).unwrap(), done);
    assert_eq!(store.check(None).unwrap(), []);
}
