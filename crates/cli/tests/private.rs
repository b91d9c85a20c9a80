//! What a data directory holds is for its owner alone.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;
use windlass_test_support::process::{ECHO, World};

/// Everything below a path that others could open, with its rights.
fn open_to_others(path: &Path) -> Vec<String> {
    let metadata = fs::symlink_metadata(path).expect("it is there");
    let mode = metadata.permissions().mode() & 0o7777;
    let mut found = Vec::new();
    if mode & 0o077 != 0 {
        found.push(format!("{} {mode:o}", path.display()));
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path).expect("a directory").flatten() {
            found.extend(open_to_others(&entry.path()));
        }
    }
    found
}

/// Fills a data directory with everything that it can hold.
fn fill(world: &World) {
    let server = world.serve();
    let client = server.client();
    client.publish(ECHO);
    let large = json!({ "trigger": { "say": "x".repeat(400 << 10) } });
    let run = client.execute("echo", &large);
    client.ended(&run);
    assert_eq!(open_to_others(&world.path().join(".windlass")), [""; 0]);
    server.stop();
    let value = world.path().join("value");
    fs::write(&value, "hush").expect("a file");
    let mut set = world.command(&["secrets", "set", "KEY"]);
    set.stdin(fs::File::open(&value).expect("a file"));
    assert!(set.output().expect("the binary runs").status.success());
}

#[test]
fn a_data_directory_and_its_backups_are_their_owners_alone() {
    let world = World::new();
    fill(&world);
    let data = world.path().join(".windlass");
    assert_eq!(open_to_others(&data), [""; 0]);
    world.run(&["backup", "copy"]).expect(0);
    let copy = world.path().join("copy");
    assert_eq!(open_to_others(&copy), [""; 0]);
    world
        .run(&["--data-dir", "restored", "restore", "copy"])
        .expect(0);
    assert_eq!(open_to_others(&world.path().join("restored")), [""; 0]);
    // Over HTTP as well.
    let server = world.serve();
    let url = format!("http://{}", server.address());
    world
        .run(&["--server", &url, "backup", "over-http"])
        .expect(0);
    assert_eq!(open_to_others(&world.path().join("over-http")), [""; 0]);
    assert_eq!(open_to_others(&data), [""; 0]);
    server.stop();
}

#[test]
fn a_directory_that_others_could_read_is_closed_to_them() {
    let world = World::new();
    fill(&world);
    let data = world.path().join(".windlass");
    for entry in fs::read_dir(&data).expect("a directory").flatten() {
        let mode = if entry.path().is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode)).expect("set");
    }
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).expect("set");
    let doctor = world.run(&["doctor", "--json"]).json();
    let findings = doctor["findings"].as_array().expect("a list");
    let warned = findings.iter().any(|finding| {
        finding["status"] == "warn"
            && finding["message"]
                .as_str()
                .is_some_and(|text| text.contains("755"))
    });
    assert!(warned, "{doctor}");
    world.run(&["run", "--help"]).expect(0);
    world.serve().stop();
    assert_eq!(open_to_others(&data), [""; 0]);
}

/// Windlass does not restrict the permissions of a directory that also holds other files.
#[test]
fn a_directory_with_other_things_keeps_its_rights() {
    let world = World::new();
    let shared = world.path().join("shared");
    fs::create_dir(&shared).expect("a directory");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).expect("set");
    fs::write(shared.join("README"), "not Windlass's").expect("a file");
    world.serve_with(&["--data-dir", "shared"], &[]).stop();
    let mode = fs::metadata(&shared)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
    let database = fs::metadata(shared.join("windlass.db")).expect("a database");
    assert_eq!(database.permissions().mode() & 0o777, 0o600);
}
