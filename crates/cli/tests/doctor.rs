//! The doctor asks a server how it is.

use serde_json::Value;
use windlass_test_support::process::{Ended, World};

fn finding<'a>(report: &'a Value, check: &str) -> &'a Value {
    let findings = report["findings"].as_array().expect("a list");
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no {check} in {report}"))
}

fn doctor(world: &World, url: &str, token: Option<&str>) -> Ended {
    let mut arguments = vec!["--server", url, "doctor", "--json"];
    if let Some(token) = token {
        arguments.extend(["--token", token]);
    }
    world.run(&arguments)
}

#[test]
fn a_server_is_checked_from_outside() {
    let world = World::new();
    let server = world.serve();
    let url = format!("http://{}", server.address());
    let report = doctor(&world, &url, None).expect(0).json();
    assert_eq!(report["status"], "ok", "{report}");
    for check in ["server", "ready", "version", "clock", "token", "limits"] {
        assert_eq!(finding(&report, check)["status"], "ok", "{report}");
    }
    let table = world.run(&["--server", &url, "doctor"]).expect(0).stdout;
    assert!(table.contains("answers in"), "{table}");
    server.stop();
    let ended = doctor(&world, &url, None);
    assert_ne!(ended.code, 0);
    assert_eq!(finding(&ended.json(), "server")["status"], "error");
}

#[test]
fn a_token_that_is_not_taken_is_found() {
    let world = World::new();
    let token = world.token("me", None, "workflows:read");
    let server = world.serve_with(&["--auth-keys", "keys.json"], &[]);
    let url = format!("http://{}", server.address());
    let report = doctor(&world, &url, Some(&token)).expect(0).json();
    assert_eq!(finding(&report, "token")["status"], "ok", "{report}");
    for token in [None, Some("none.of.ours")] {
        let ended = doctor(&world, &url, token);
        assert_ne!(ended.code, 0);
        assert_eq!(finding(&ended.json(), "token")["status"], "error");
    }
}
