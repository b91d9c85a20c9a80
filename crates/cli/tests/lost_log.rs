//! A server that was killed, and whose write-ahead log was then deleted or cut: it does not
//! start again as if nothing were missing, and says what to do.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use windlass_test_support::process::{ECHO, Ended, World};

fn data(world: &World) -> PathBuf {
    world.path().join(".windlass")
}

fn log(world: &World) -> PathBuf {
    data(world).join("windlass.db-wal")
}

/// A data directory as `kill -9` leaves it after some runs; their ids.
fn killed(world: &World) -> Vec<String> {
    let server = world.serve();
    let client = server.client();
    client.publish(ECHO);
    let start = |n: u32| client.execute("echo", &json!({ "trigger": { "say": n } }));
    let runs: Vec<String> = (0..5).map(start).collect();
    server.kill();
    runs
}

fn refused(ended: &Ended) {
    assert_eq!(ended.code, 74, "{}{}", ended.stdout, ended.stderr);
    for part in [
        "STORE_DAMAGED",
        "windlass.db-wal",
        "acknowledged",
        "--accept-loss",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
        }
    }
}

#[test]
fn a_killed_server_starts_again_by_itself() {
    let world = World::new();
    let runs = killed(&world);
    let shown = world.run(&["runs", "--json"]).expect(0).json();
    assert_eq!(shown["items"].as_array().expect("a list").len(), runs.len());
    let server = world.serve();
    for run in &runs {
        server
            .client()
            .get(&format!("/api/v1/executions/{run}"))
            .expect(200);
    }
    server.stop();
}

#[test]
fn a_log_that_was_deleted_or_cut_after_a_kill_is_damage() {
    let world = World::new();
    killed(&world);
    let whole = world.path().join("whole");
    copy(&data(&world), &whole);
    let length = fs::metadata(log(&world)).expect("a log").len();
    for left in [None, Some(0), Some(32), Some(32 + 4120), Some(length / 3)] {
        fs::remove_dir_all(data(&world)).expect("removed");
        copy(&whole, &data(&world));
        match left {
            None => fs::remove_file(log(&world)).expect("removed"),
            Some(left) => {
                let file = fs::File::options().write(true).open(log(&world));
                file.expect("a log").set_len(left).expect("cut");
            }
        }
        refused(&world.run(&["runs"]));
        refused(&world.run(&["serve", "--listen", "127.0.0.1:0"]));
        let doctor = world.run(&["doctor"]).expect(74);
        assert!(doctor.stdout.contains("STORE_DAMAGED"), "{}", doctor.stdout);
        assert!(doctor.stdout.contains("--accept-loss"), "{}", doctor.stdout);
    }
    // The file comes back, and with it everything.
    fs::copy(whole.join("windlass.db-wal"), log(&world)).expect("copied");
    let shown = world.run(&["runs", "--json"]).expect(0).json();
    assert_eq!(shown["items"].as_array().expect("a list").len(), 5);
}

#[test]
fn an_operator_can_accept_the_loss() {
    let world = World::new();
    killed(&world);
    fs::remove_file(log(&world)).expect("removed");
    refused(&world.run(&["runs"]));
    let doctor = world.run(&["doctor", "--accept-loss"]).expect(0);
    assert!(doctor.stdout.contains("accepted loss"), "{}", doctor.stdout);
    world.run(&["runs"]).expect(0);
    let again = world.run(&["doctor", "--accept-loss"]).expect(0);
    assert!(again.stdout.contains("nothing is lost"), "{}", again.stdout);
    let server = world.serve();
    server.client().publish(ECHO);
    server.stop();
}
