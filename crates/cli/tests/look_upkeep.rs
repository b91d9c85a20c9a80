//! The catalogue, explanations, checks and copies, on the real binary.

use serde_json::{Value, json};

use crate::stored_runs::World;

const TWO: &str = r#"{"id":"two","nodes":[
  {"id":"a","actionType":"core.echo","edges":[{"targetNode":"b"}]},
  {"id":"b","actionType":"core.fail","parameters":{"message":"no"},
   "edges":[{"targetNode":"c"},{"targetNode":"d","when":"always"}]},
  {"id":"c","actionType":"core.echo"},
  {"id":"d","actionType":"core.echo"}]}"#;

#[test]
fn problems_are_printed_as_a_compiler_does() {
    let world = World::new();
    let good = world.file("good.json", TWO);
    let bad = world.file(
        "bad.json",
        "{\"id\":\"bad\",\n \"nodes\":[{\"id\":\"a\",\"actionType\":\"core.echo\",\n  \"dependsOn\":[\"nope\"]}]}",
    );
    let answer = world.windlass(&["validate", &good]).expect(0);
    assert_eq!(answer.stderr, "1 file checked, no problems\n");
    assert_eq!(answer.stdout, "");
    let answer = world.windlass(&["validate", &good, &bad]);
    assert_eq!(answer.code, 3);
    assert_eq!(answer.stdout, "");
    assert!(
        answer.stderr.ends_with("\n2 files checked, 1 problem\n"),
        "{}",
        answer.stderr
    );
    assert!(
        answer.stderr.contains("--> bad.json:3:"),
        "{}",
        answer.stderr
    );
    let answer = world.windlass(&["validate", &bad, "--json"]);
    assert_eq!(answer.code, 3);
    let report = answer.json();
    assert_eq!(report["valid"], false);
    let problem = report["problems"][0].as_object().expect("a problem");
    let keys: Vec<&str> = problem.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "file",
            "line",
            "column",
            "length",
            "code",
            "severity",
            "message",
            "pointer",
            "suggestion"
        ]
    );
    assert_eq!(problem["line"], 3);
    world
        .windlass(&["validate", "missing.json"])
        .failed(4, "FILE_NOT_FOUND");
    let unsupported = world.file(
        "later.json",
        r#"{"id":"later","nodes":[{"id":"w","delay":{"ms":5}}]}"#,
    );
    let answer = world.windlass(&["validate", &unsupported, "--json"]);
    if answer.code == 3 {
        let report = answer.json();
        assert_eq!(report["problems"][0]["code"], "UNSUPPORTED");
        assert_eq!(report["problems"][0]["pointer"], "/nodes/0/delay");
    }
}

#[test]
fn the_catalogue_keeps_versions_apart() {
    let world = World::new();
    let file = world.file("two.json", TWO);
    let answer = world.windlass(&["publish", &file]).expect(0);
    assert_eq!(answer.stdout, "published two version 1\n");
    let answer = world.windlass(&["publish", &file]).expect(0);
    assert_eq!(answer.stdout, "unchanged: two version 1 is the same\n");
    let newer = TWO
        .replace(r#"{"message":"no"}"#, r#"{"message":"never"}"#)
        .replace(r#"{"targetNode":"c"},"#, "")
        .replace(
            r#"{"id":"c","actionType":"core.echo"}"#,
            r#"{"id":"e","actionType":"core.echo","dependsOn":["a"]}"#,
        )
        .replace(r#""id":"two","#, r#""id":"two","description":"new","#);
    let file = world.file("newer.json", &newer);
    let published = world
        .windlass(&["publish", &file, "--json"])
        .expect(0)
        .json();
    assert_eq!(
        published,
        json!({ "workflowId": "two", "version": 2, "created": true })
    );
    let diff = world
        .windlass(&["diff", "two", "v1", "2", "--json"])
        .expect(0)
        .json();
    assert_eq!(diff["nodes"]["added"], json!(["e"]));
    assert_eq!(diff["nodes"]["removed"], json!(["c"]));
    assert_eq!(diff["nodes"]["changed"], json!({ "b": ["parameters"] }));
    assert_eq!(diff["edges"]["added"], json!(["a → e"]));
    assert_eq!(diff["edges"]["removed"], json!(["b → c"]));
    assert_eq!(diff["keys"], json!(["description"]));
    let text = world.windlass(&["diff", "two", "1", "1"]).expect(0).stdout;
    assert_eq!(text, "no difference\n");
    world
        .windlass(&["diff", "two", "1", "9"])
        .failed(4, "VERSION_NOT_FOUND");
    world.windlass(&["workflows", "disable", "two"]).expect(0);
    let list = world.windlass(&["workflows", "--json"]).expect(0).json();
    let item = &list["items"][0];
    assert_eq!(item["enabled"], false);
    assert_eq!(item["description"], "new");
    let (created, updated) = (item["createdAt"].as_str(), item["updatedAt"].as_str());
    assert!(created.is_some() && created <= updated, "{item}");
    world.windlass(&["workflows", "enable", "two"]).expect(0);
    world
        .windlass(&["workflows", "disable", "nope"])
        .failed(4, "WORKFLOW_NOT_FOUND");
    let shown = world
        .windlass(&["workflows", "show", "two", "--version", "1"])
        .expect(0);
    assert_eq!(shown.json()["nodes"][0]["id"], "a");
    let versions = world
        .windlass(&["workflows", "versions", "two", "--json"])
        .expect(0)
        .json();
    assert_eq!(versions["items"][0]["version"], 2);
}

#[test]
fn why_answers_in_sentences() {
    let world = World::new();
    let run = world.run(TWO, "{}");
    let text = world.windlass(&["why", &run]).expect(0).stdout;
    assert_eq!(
        text.lines().next(),
        Some("The run failed: NODE_FAILED: b failed: FAILED: no.")
    );
    let ask = |node: &str| world.windlass(&["why", &run, node]).expect(0).stdout;
    assert!(ask("b").contains("b failed"), "{}", ask("b"));
    assert!(
        ask("b").contains("FAILED: no, and nothing handles it"),
        "{}",
        ask("b")
    );
    assert_eq!(ask("c"), "⊘ c is blocked by b.\n");
    assert!(ask("d").contains("d succeeded"));
    world
        .windlass(&["why", &run, "z"])
        .failed(4, "NODE_NOT_FOUND");
    let queued = world.queue(TWO, "{}");
    let text = world.windlass(&["why", &queued]).expect(0).stdout;
    assert!(
        text.contains("no process executes it: windlass resume"),
        "{text}"
    );
    let answer = world.windlass(&["why", &queued, "--json"]).expect(0).json();
    assert_eq!(answer["nodes"][0]["status"], "Pending");
}

#[test]
fn a_run_is_exported_verified_and_drawn() {
    let world = World::new();
    let run = world.run(TWO, "{}");
    let exported = world.windlass(&["export", &run]).expect(0).json();
    assert_eq!(exported["version"], 1);
    assert_eq!(exported["signature"].as_str().map(str::len), Some(64));
    assert_eq!(exported["nodes"]["b"]["dependsOn"], json!(["a"]));
    assert_eq!(exported["nodes"]["b"]["name"], Value::Null);
    assert_eq!(exported["nodes"]["a"]["parameters"], json!({}));
    assert_eq!(exported["nodes"]["b"]["edges"][0]["targetNode"], "d");
    let answer = world.windlass(&["verify", &run]).expect(0);
    assert!(answer.stdout.starts_with("verified: "), "{}", answer.stdout);
    let verified = world.windlass(&["verify", &run, "--json"]).expect(0).json();
    assert_eq!(verified["valid"], true);
    assert_eq!(verified["hashes"], 3);
    let drawn = world.windlass(&["graph", &run]).expect(0).stdout;
    assert!(drawn.contains('✗') && drawn.contains('⊘'), "{drawn}");
    let drawn = world.windlass(&["graph", &run, "--json"]).expect(0).json();
    assert_eq!(drawn["edges"][1]["state"], "lost");
    let file = world.file("two.json", TWO);
    let drawn = world
        .windlass(&["graph", &file, "--format", "mermaid"])
        .expect(0)
        .stdout;
    assert!(drawn.contains("flowchart"), "{drawn}");
    world
        .windlass(&["graph", "missing.json"])
        .failed(4, "FILE_NOT_FOUND");
}

#[test]
fn what_derives_from_the_log_is_rebuilt_and_copied() {
    let world = World::new();
    let run = world.run(TWO, "{}");
    let before = world.windlass(&["runs", "--json"]).expect(0).json();
    let rebuilt = world.windlass(&["rebuild", "--json"]).expect(0).json();
    assert_eq!(rebuilt, json!({ "rebuilt": 1, "quarantined": [] }));
    assert_eq!(world.windlass(&["runs", "--json"]).expect(0).json(), before);
    world.windlass(&["backup", "copy.backup"]).expect(0);
    world
        .windlass(&["backup", "copy.backup"])
        .failed(6, "FILE_EXISTS");
    world
        .windlass(&["restore", "copy.backup"])
        .failed(6, "DATA_DIR_NOT_EMPTY");
    world
        .windlass(&["restore", "nope"])
        .failed(4, "FILE_NOT_FOUND");
    world
        .windlass(&["restore", "copy.backup", "--data-dir", "again"])
        .expect(0);
    let copied = world
        .windlass(&["show", &run, "--json", "--data-dir", "again"])
        .expect(0)
        .stdout;
    assert_eq!(
        copied,
        world.windlass(&["show", &run, "--json"]).expect(0).stdout
    );
}

#[test]
fn the_doctor_finds_a_sound_installation_and_a_damaged_one() {
    let world = World::new();
    let answer = world.windlass(&["doctor"]).expect(0);
    assert!(
        answer.stdout.contains("! data directory"),
        "{}",
        answer.stdout
    );
    world.run(TWO, "{}");
    let report = world.windlass(&["doctor", "--json"]).expect(0).json();
    assert_eq!(report["status"], "ok", "{report:#}");
    let database = world.path().join(".windlass/windlass.db");
    std::fs::write(&database, b"not a database").expect("a file");
    let answer = world.windlass(&["doctor"]);
    assert_eq!(answer.code, 74, "{}{}", answer.stdout, answer.stderr);
    assert!(answer.stdout.contains('✗'), "{}", answer.stdout);
}

#[test]
fn actions_and_the_schema_are_described() {
    let world = World::new();
    let schema = world.windlass(&["schema"]).expect(0).json();
    assert_eq!(schema["title"], "Windlass workflow definition");
    let table = world.windlass(&["actions"]).expect(0).stdout;
    assert!(
        table.contains("core.echo") && table.contains("core.fail"),
        "{table}"
    );
    let one = world.windlass(&["actions", "core.fail"]).expect(0).stdout;
    assert!(one.contains("untilAttempt"), "{one}");
    let all = world.windlass(&["actions", "--json"]).expect(0).json();
    assert!(all[0]["parameters"].is_object() && all[0]["output"].is_object());
    world
        .windlass(&["actions", "nope"])
        .failed(4, "ACTION_NOT_FOUND");
}
