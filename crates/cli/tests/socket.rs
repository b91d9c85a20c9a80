//! The socket of a data directory: the HTTP API of the process that holds it, for its owner.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use windlass_test_support::process::{ECHO, WAIT, World};

const SLEEP: &str = r#"{
  "id": "sleep",
  "nodes": [{ "id": "a", "actionType": "core.sleep", "parameters": { "ms": 60000 } }]
}"#;

fn socket(world: &World) -> PathBuf {
    world.path().join(".windlass/control.sock")
}

/// Asks at the socket, and gives the status and the body of the answer.
fn ask(world: &World, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(socket(world)).expect("it listens");
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let body = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
    (status.expect("a status"), body)
}

/// The newest run that is Running.
fn running(world: &World) -> Option<String> {
    let (_, listed) = ask(world, "GET", "/api/v1/executions?status=Running", "");
    let run = listed["items"][0]["executionId"].as_str();
    run.map(str::to_owned)
}

fn write(world: &World, name: &str, definition: &str) {
    std::fs::write(world.path().join(name), definition).expect("a file");
}

/// A process that holds the data directory; dropping it kills it.
struct Holder(Child);

impl Holder {
    fn ended(mut self) -> Option<i32> {
        self.0.wait().expect("it ends").code()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that holds the data directory with a run of the definition, which has begun.
/// The socket answers before the run is stored.
fn holder(world: &World, definition: &str) -> Holder {
    write(world, "held.json", definition);
    let holder = world
        .command(&["run", "held.json"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    while UnixStream::connect(socket(world)).is_err() {
        std::thread::yield_now();
    }
    while running(world).is_none() {
        std::thread::yield_now();
    }
    Holder(holder)
}

#[test]
fn a_holder_serves_the_api_to_its_owner_alone() {
    let world = World::new();
    let holder = holder(&world, SLEEP);
    let mode = std::fs::metadata(socket(&world)).expect("a socket");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    let (status, hello) = ask(&world, "GET", "/holder", "");
    assert_eq!((status, &hello["pid"]), (200, &json!(holder.0.id())));
    let run = running(&world).expect("a run");
    let (_, carried) = ask(&world, "GET", &format!("/holder/runs/{run}"), "");
    assert_eq!(carried, json!({ "status": "Running", "carried": true }));
    // What is started here goes on here: nothing else would begin it.
    let (status, _) = ask(&world, "POST", "/api/v1/workflows", ECHO);
    assert_eq!(status, 201);
    let (status, started) = ask(&world, "POST", "/api/v1/workflows/echo/execute", "{}");
    assert_eq!(status, 202, "{started}");
    let id = started["executionId"].as_str().expect("a run");
    let (_, ended) = ask(&world, "GET", &format!("/holder/runs/{id}/end"), "");
    assert_eq!(ended, json!({ "status": "Succeeded" }));
    let cancel = format!("/api/v1/executions/{run}/cancel");
    let (status, _) = ask(&world, "POST", &cancel, r#"{"reason": "enough"}"#);
    assert_eq!(status, 200);
    assert_eq!(holder.ended(), Some(8));
    let server = world.serve();
    let audit = server.client().get("/api/v1/audit").expect(200).json();
    let items = audit["items"].as_array().expect("a list");
    let from: Vec<&str> = items.iter().filter_map(|it| it["from"].as_str()).collect();
    assert_eq!(from, ["terminal"; 3], "{audit}");
    assert_eq!(items[0]["what"], "executions.cancel");
    assert_eq!(items[0]["detail"]["reason"], "enough");
}

#[test]
fn a_foreground_run_waits_for_what_others_started_through_it() {
    let world = World::new();
    write(&world, "wait.json", WAIT);
    let holder = holder(&world, WAIT);
    let own = running(&world).expect("a run");
    let detached = world.run(&["run", "wait.json", "--detach"]).expect(0);
    let run = detached.stdout.trim().to_owned();
    // Its own run ends; the other one ends when its signal comes, at this process.
    world.run(&["signal", &own, "go", "-1"]).expect(0);
    let ended = ["runs", "--status", "succeeded", "--json"];
    while world.run(&ended).expect(0).json()["items"] == json!([]) {}
    let (_, hello) = ask(&world, "GET", "/holder", "");
    assert_eq!(hello["pid"], holder.0.id());
    world.run(&["signal", &run, "go", "7"]).expect(0);
    assert_eq!(holder.ended(), Some(0));
    let shown = world.run(&["show", &run, "--json"]).expect(0).json();
    assert_eq!(shown["status"], "Succeeded");
    assert!(!socket(&world).exists());
}

#[test]
fn commands_beside_a_server_need_no_token_and_its_address_does() {
    let world = World::new();
    world.run(&["token", "--key", "keys.json"]).expect(0);
    let server = world.serve_with(&["--auth-keys", "keys.json"], &[]);
    server.client().get("/api/v1/executions").expect(401);
    write(&world, "echo.json", ECHO);
    let ran = world.run(&["run", "echo.json", "--json"]).expect(0).json();
    assert_eq!(ran["status"], "Succeeded");
    let (status, _) = ask(&world, "GET", "/api/v1/executions", "");
    assert_eq!(status, 200);
    server.stop();
    assert!(!socket(&world).exists());
}

#[test]
fn a_holder_of_another_version_is_named() {
    let world = World::new();
    let holder = holder(&world, SLEEP);
    std::fs::remove_file(socket(&world)).expect("a socket");
    let other = UnixListener::bind(socket(&world)).expect("a socket");
    let answers = [
        "{\"answer\":\"refused\",\"exit\":2,\"code\":\"CONTROL_UNREADABLE\"}\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{\"protocol\":99}",
    ];
    let said = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = other.accept().expect("a process asks");
            let mut question = [0; 16];
            stream.read_exact(&mut question).expect("a question");
            stream.write_all(answer.as_bytes()).expect("it reads");
        }
    });
    for _ in answers {
        let refused = world.run(&["cancel", "@last"]).expect(6);
        assert!(
            refused.stderr.contains("CONTROL_VERSION"),
            "{}",
            refused.stderr
        );
    }
    said.join().expect("it answered");
    drop(holder);
}
