//! One damaged row in the database: it is named, and everything else goes on.

use serde_json::{Value, json};
use windlass_test_support::process::{ECHO, WAIT, World};

/// Changes the database behind the server's back.
fn change(world: &World, sql: &str) {
    let path = world.path().join(".windlass/windlass.db");
    let database = rusqlite::Connection::open(path).expect("a database");
    assert_eq!(database.execute(sql, []).expect("a change"), 1, "{sql}");
}

#[test]
fn a_damaged_schedule_is_named_and_the_others_fire() {
    let world = World::new();
    std::fs::write(world.path().join("echo.json"), ECHO).expect("a file");
    world.run(&["publish", "echo.json"]).expect(0);
    for id in ["bad", "good"] {
        let set = [
            "schedules",
            "set",
            id,
            "--workflow",
            "echo",
            "--every-ms",
            "1000",
        ];
        world.run(&set).expect(0);
    }
    change(
        &world,
        "UPDATE schedule SET payload = '[1]' WHERE id = 'bad'",
    );
    let server = world.serve();
    let client = server.client();
    let fired = |answer: &Value| answer["items"].as_array().is_some_and(|it| it.len() >= 2);
    let runs = client.until("/api/v1/executions?workflow=echo", |_, answer| {
        fired(answer)
    });
    for run in runs["items"].as_array().expect("a list") {
        let by = run["requestId"].as_str().expect("an id");
        assert!(by.starts_with("schedule:good:"), "{by}");
    }
    let listed = client.get("/api/v1/schedules").expect(200).json();
    let items = listed["items"].as_array().expect("a list");
    assert_eq!(
        (&items[0]["id"], &items[1]["id"]),
        (&json!("bad"), &json!("good"))
    );
    let damage = items[0]["damage"].as_str().expect("it is told");
    assert!(damage.contains("damaged"), "{damage}");
    assert!(items[1].get("damage").is_none());
    let table = world.run(&["schedules", "list"]).expect(0).stdout;
    assert!(table.contains("damaged"), "{table}");
    let told = server.log();
    let told = told
        .lines()
        .filter(|line| line.contains("stored data is damaged"));
    assert_eq!(told.filter(|line| line.contains("'bad'")).count(), 1);
    // It can be set anew, and fires then.
    let body = json!({ "id": "bad", "workflowId": "echo", "everyMs": 1000 });
    client.post("/api/v1/schedules", &body).expect(200);
    let is_bad = |run: &Value| {
        run["requestId"]
            .as_str()
            .is_some_and(|id| id.contains(":bad:"))
    };
    client.until("/api/v1/executions?workflow=echo", |_, answer| {
        answer["items"]
            .as_array()
            .is_some_and(|runs| runs.iter().any(is_bad))
    });
}

#[test]
fn a_damaged_row_of_a_run_is_made_anew_and_the_run_goes_on() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(WAIT);
    let run = client.execute("wait", &json!({}));
    let other = client.execute("wait", &json!({}));
    for run in [&run, &other] {
        client.wait_for(run, "NodeWaiting");
    }
    server.kill();
    // As a row that is awake, so that the next server recovers it at once.
    let id = run.replace('-', "");
    change(
        &world,
        &format!("UPDATE run SET priority = 'high', asleep = 0 WHERE run = x'{id}'"),
    );
    let server = world.serve();
    let client = server.client();
    for run in [&run, &other] {
        let path = format!("/api/v1/executions/{run}/signal");
        client.post(&path, &json!({ "name": "go" })).expect(200);
        assert_eq!(client.ended(run)["status"], "Succeeded");
    }
    let log = server.log();
    assert!(log.contains("it was made anew from the log"), "{log}");
    server.stop();
    world.run(&["doctor"]).expect(0);
}
