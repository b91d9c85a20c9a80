//! Secrets stay secret: what was set is used by runs, and is nowhere to be found.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use windlass_test_support::process::{Ended, World};

/// What must be nowhere.
const VALUE: &str = "hunter2-correct-horse";
const OTHER: &str = "tr0ub4dor-of-beta";

const SECRETS: &str = "/api/v1/secrets";

/// A node that hands the secret on, and one that fails with it.
const SPY: &str = r#"{
  "id": "spy",
  "nodes": [
    { "id": "say", "actionType": "core.echo", "parameters": { "said": "<{{ secrets.API }}>" } },
    { "id": "fail", "actionType": "core.fail", "dependsOn": ["say"],
      "parameters": { "message": "no {{ secrets.API }}" } }
  ]
}"#;

const ADMIN: &str = "workflows:read,workflows:execute,workflows:manage,admin";

/// Runs a command that gets this on stdin.
fn told(world: &World, arguments: &[&str], input: &[u8]) -> Ended {
    let mut child = world
        .command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // It may have ended without reading all.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    let output = child.wait_with_output().expect("it ends");
    Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Every file below a folder whose bytes contain the text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if let Ok(bytes) = fs::read(&path) {
            let needle = text.as_bytes();
            if bytes.windows(needle.len()).any(|part| part == needle) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[track_caller]
fn clean(what: &str, text: &str) {
    for value in [VALUE, OTHER] {
        assert!(!text.contains(value), "{what}: {text}");
    }
}

#[test]
fn a_stored_secret_is_used_and_found_nowhere() {
    let world = World::new();
    let set = told(
        &world,
        &["secrets", "set", "API"],
        format!("{VALUE}\n").as_bytes(),
    )
    .expect(0);
    clean("set", &(set.stdout + &set.stderr));
    fs::write(world.path().join("spy.json"), SPY).expect("a file");
    let run = world.run(&["run", "spy.json", "--json"]).expect(1);
    clean("run", &(run.stdout + &run.stderr));
    for arguments in [
        &["events", "@last", "--json"][..],
        &["show", "@last", "--json", "--include", "actions"],
        &["export", "@last"],
        &["secrets", "list", "--json"],
        &["secrets", "list"],
    ] {
        let ended = world.run(arguments).expect(0);
        clean(&arguments.join(" "), &(ended.stdout + &ended.stderr));
    }
    let shown = world
        .run(&["show", "@last", "--json", "--include", "actions"])
        .stdout;
    assert!(
        shown.contains("<[redacted]>"),
        "the secret was used: {shown}"
    );
    assert!(
        shown.contains("no [redacted]"),
        "the secret was used: {shown}"
    );
    world.run(&["backup", "copy.backup"]).expect(0);
    let none: [String; 0] = [];
    assert_eq!(files_with(world.path(), VALUE), none);
    // The key is in its file and nowhere else, least of all in the copy.
    let key = fs::read_to_string(world.path().join(".windlass/secrets.key")).expect("a key");
    assert_eq!(files_with(world.path(), key.trim()).len(), 1);
}

#[test]
fn values_come_from_files_and_variables_within_limits() {
    let world = World::new();
    let file = world.path().join("value");
    let limit = 64 * 1024;
    fs::write(&file, format!("{}\n", "v".repeat(limit))).expect("a file");
    let set = ["secrets", "set", "BIG", "--value-file", "value"];
    world.run(&set).expect(0);
    fs::write(&file, "v".repeat(limit + 1)).expect("a file");
    let refused = world.run(&set).expect(3);
    assert!(
        refused.stderr.contains("SECRET_TOO_LARGE"),
        "{}",
        refused.stderr
    );
    let output = world
        .command(&["secrets", "set", "ENV", "--from-env", "MY_VALUE"])
        .env("MY_VALUE", VALUE)
        .output()
        .expect("the binary runs");
    assert!(output.status.success());
    world
        .run(&["secrets", "set", "ENV", "--from-env", "NO_SUCH"])
        .expect(2);
    told(&world, &["secrets", "set", "EMPTY"], b"\n").expect(3);
    let name = "n".repeat(128);
    told(&world, &["secrets", "set", &name], b"v").expect(0);
    told(&world, &["secrets", "set", &format!("{name}n")], b"v").expect(3);
    let listed = world.run(&["secrets", "list", "--json"]).expect(0).json();
    assert_eq!(names(&listed), ["BIG", "ENV", &name]);
    world.run(&["secrets", "remove", "BIG"]).expect(0);
    world.run(&["secrets", "remove", "BIG"]).expect(4);
}

fn names(page: &Value) -> Vec<&str> {
    let items = page["items"].as_array().expect("items");
    items
        .iter()
        .filter_map(|item| item["name"].as_str())
        .collect()
}

#[test]
fn the_sealing_key_is_no_secret_of_runs_and_a_wrong_one_is_told() {
    let world = World::new();
    let key = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=";
    fs::write(
        world.path().join("key.json"),
        r#"{ "id": "key", "nodes": [{ "id": "say", "actionType": "core.echo",
             "parameters": { "said": "{{ secrets.KEY }}" } }] }"#,
    )
    .expect("a file");
    let run = |file: &str, key: &str| {
        let output = world
            .command(&["run", file, "--json"])
            .env("WINDLASS_SEALING_KEY", key)
            .output()
            .expect("the binary runs");
        String::from_utf8(output.stdout).expect("text")
            + &String::from_utf8(output.stderr).expect("text")
    };
    let said = run("key.json", key);
    assert!(said.contains("SECRET_NOT_FOUND"), "{said}");
    assert!(!said.contains(key), "{said}");
    told(&world, &["secrets", "set", "API"], VALUE.as_bytes()).expect(0);
    fs::write(world.path().join("spy.json"), SPY).expect("a file");
    let said = run("spy.json", key);
    assert!(said.contains("SECRET_UNREADABLE"), "{said}");
    clean("a wrong key", &said);
    let said = run("spy.json", "no key");
    assert!(said.contains("SECRET_KEY_UNUSABLE"), "{said}");
    assert!(!said.contains("no key\""), "it is not repeated: {said}");
}

#[test]
fn tenants_set_their_own_over_http_and_nothing_comes_out() {
    let world = World::new();
    let acme = world.token("ann", Some("acme"), ADMIN);
    let beta = world.token("ben", Some("beta"), ADMIN);
    let weak = world.token("wim", Some("acme"), "workflows:manage");
    let variables = [
        ("WINDLASS_RATE_PER_MINUTE", "0"),
        ("WINDLASS_LOG", "debug"),
        ("WINDLASS_SECRET_API", "of-the-operator"),
    ];
    let server = world.serve_with(&["--auth-keys", "keys.json"], &variables);
    let [acme, beta, weak] = [acme, beta, weak].map(|token| server.client_with(&token));
    let body = json!({ "name": "API", "value": VALUE });
    weak.post(SECRETS, &body).refused(403, "FORBIDDEN");
    weak.get(SECRETS).refused(403, "FORBIDDEN");
    // A tenant without the secret does not get the operator's.
    beta.publish(SPY);
    let run = beta.execute("spy", &json!({}));
    let shown = beta.ended(&run);
    assert!(shown.to_string().contains("SECRET_NOT_FOUND"), "{shown}");
    assert_eq!(
        acme.post(SECRETS, &body).expect(200).json()["created"],
        true
    );
    assert_eq!(
        acme.post(SECRETS, &body).expect(200).json()["created"],
        false
    );
    let other = json!({ "name": "API", "value": OTHER });
    beta.post(SECRETS, &other).expect(200);
    beta.post(SECRETS, &json!({ "name": "B", "value": OTHER }))
        .expect(200);
    let (ours, theirs) = (acme.get(SECRETS).expect(200), beta.get(SECRETS).expect(200));
    assert_eq!(names(&ours.json()), ["API"]);
    assert_eq!(names(&theirs.json()), ["API", "B"]);
    acme.delete("/api/v1/secrets/B")
        .refused(404, "SECRET_NOT_FOUND");
    acme.delete("/api/v1/secrets?name=B")
        .refused(404, "SECRET_NOT_FOUND");
    // The error says what is wrong without repeating the value.
    for bad in [
        json!({ "name": "A", "value": [VALUE] }),
        json!({ "name": "A", "value": { VALUE: 1 } }),
        json!({ "name": VALUE, VALUE: VALUE }),
        json!(VALUE),
        json!({ "name": format!("{VALUE} "), "value": "v" }),
    ] {
        let answer = acme.post(SECRETS, &bad);
        assert!((400..500).contains(&answer.status), "{answer:?}");
        clean("a refusal", &String::from_utf8_lossy(&answer.body));
    }
    let large = json!({ "name": "A", "value": "v".repeat(64 * 1024 + 1) });
    acme.post(SECRETS, &large).refused(413, "SECRET_TOO_LARGE");
    acme.publish(SPY);
    let run = acme.execute("spy", &json!({}));
    let shown = acme.ended(&run).to_string();
    assert!(
        shown.contains("no [redacted]"),
        "the secret was used: {shown}"
    );
    clean("the run", &shown);
    for part in ["", "/events", "/log", "/export", "/nodes"] {
        let answer = acme.get(&format!("/api/v1/executions/{run}{part}"));
        clean(part, &String::from_utf8_lossy(&answer.body));
    }
    let audit = acme.get("/api/v1/audit").expect(200);
    clean("the audit", &String::from_utf8_lossy(&audit.body));
    let audit = audit.json().to_string();
    assert!(audit.contains("secrets.set"), "{audit}");
    beta.delete("/api/v1/secrets/B").expect(200);
    beta.delete("/api/v1/secrets?name=API").expect(200);
    assert!(names(&beta.get(SECRETS).expect(200).json()).is_empty());
    assert_eq!(names(&acme.get(SECRETS).expect(200).json()), ["API"]);
    clean("the log", &server.log());
    server.stop();
    let none: [String; 0] = [];
    assert_eq!(files_with(world.path(), VALUE), none);
    assert_eq!(files_with(world.path(), OTHER), none);
}

#[test]
fn commands_set_secrets_of_a_server_through_it() {
    let world = World::new();
    let server = world.serve();
    let url = format!("http://{}", server.client().address());
    // Without an address, through the socket of the data directory.
    told(&world, &["secrets", "set", "API"], OTHER.as_bytes()).expect(0);
    let told = |rest: &[&str], input: &[u8]| {
        let arguments = [&["--server", &*url, "secrets"][..], rest].concat();
        told(&world, &arguments, input)
    };
    told(&["set", "API"], VALUE.as_bytes()).expect(0);
    let listed = told(&["list", "--json"], b"").expect(0).json();
    assert_eq!(names(&listed), ["API"]);
    let here = world.run(&["secrets", "list", "--json"]).expect(0).json();
    assert_eq!(names(&here), ["API"]);
    let client = server.client();
    client.publish(SPY);
    let run = client.execute("spy", &json!({}));
    let shown = client.ended(&run).to_string();
    assert!(
        shown.contains("no [redacted]"),
        "the secret was used: {shown}"
    );
    // A new key, while the server runs: it goes on with it, and the old one opens nothing.
    let rotated = told(&["rotate", "--json"], b"").expect(0).json();
    assert_eq!(rotated["secrets"], 1);
    let run = client.execute("spy", &json!({}));
    let shown = client.ended(&run).to_string();
    assert!(shown.contains("no [redacted]"), "{shown}");
    told(&["remove", "API"], b"").expect(0);
    told(&["remove", "API"], b"").expect(4);
    server.stop();
}

/// What an expression makes of a secret is redacted where it stands, and nothing else is: a
/// compensation gets the other parameters as they were.
#[test]
fn a_compensation_gets_the_parameters_beside_those_made_of_secrets() {
    const CONFIGURATION: &str = r#"{"url":"https://live.example/hidden","mode":"live"}"#;
    let saga = r#"{ "id": "saga", "nodes": [
        { "id": "charge", "actionType": "core.echo", "parameters": {
            "url": "{{ JSON.parse(secrets.CFG).url }}",
            "size": "{{ secrets.CFG.length }}",
            "order": "{{ trigger.id }}" },
          "compensate": { "actionType": "core.echo", "parameters": {
            "refund": "{{ parameters.order }}", "size": "{{ parameters.size }}" } },
          "edges": [{ "targetNode": "fail" }] },
        { "id": "fail", "actionType": "core.fail" }] }"#;
    let world = World::with_files(&[("saga.json", saga)]);
    told(&world, &["secrets", "set", "CFG"], CONFIGURATION.as_bytes()).expect(0);
    let run = [
        "run",
        "saga.json",
        "--trigger",
        r#"{"id":17}"#,
        "--json",
        "-q",
    ];
    let ended = world.run(&run).expect(1).json();
    assert_eq!(ended["compensation"], "complete", "{ended}");
    let redacted = json!("[redacted]");
    let expected = json!({ "url": redacted, "size": redacted, "order": 17 });
    assert_eq!(ended["nodes"]["charge"]["input"], expected, "{ended}");
    // The action received all of it, and said so.
    let output = &ended["nodes"]["charge"]["output"];
    assert_eq!(
        (&output["url"], &output["order"]),
        (&redacted, &json!(17)),
        "{ended}"
    );
    assert!(files_with(world.path(), "live.example/hidden").is_empty());
}
