//! What a worker has survives the server: `kill -9` and a restart between hand-out and report.
//! The lease that was given last counts, a worker that lives keeps its task, and one that was asked
//! to stop hears of it again.

#![cfg(unix)]

use serde_json::{Value, json};
use windlass_test_support::process::{Client, HttpAnswer, ServerProcess, World};

const ONE: &str = r#"{ "id": "one", "nodes": [{ "id": "n", "actionType": "py.one" }] }"#;

/// A lease ends this long after the last heartbeat, in a server of these tests: three times.
const QUICK: &[(&str, &str)] = &[("WINDLASS_WORKER_HEARTBEAT", "500ms")];

/// Long enough that no lease ends while a test runs.
const SLOW: &[(&str, &str)] = &[("WINDLASS_WORKER_HEARTBEAT", "60s")];

struct Place {
    world: World,
    server: Option<ServerProcess>,
    variables: &'static [(&'static str, &'static str)],
}

impl Place {
    fn new(variables: &'static [(&'static str, &'static str)]) -> Self {
        let world = World::new();
        let server = world.serve_with(&[], variables);
        server.client().publish(ONE);
        let server = Some(server);
        Self {
            world,
            server,
            variables,
        }
    }

    fn client(&self) -> Client {
        self.server.as_ref().expect("a server").client()
    }

    fn restart(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
        self.server = Some(self.world.serve_with(&[], self.variables));
    }

    fn start(&self) -> String {
        self.client().execute("one", &json!({}))
    }

    fn tasks(&self, worker: &str, wait_ms: u32, holding: Option<&[&Value]>) -> Vec<Value> {
        let mut body = json!({ "protocol": 1, "worker": worker, "waitMs": wait_ms,
                               "actions": [{ "actionType": "py.one" }] });
        if let Some(holding) = holding {
            let named: Vec<&Value> = holding.iter().map(|task| &task["taskId"]).collect();
            body["holding"] = json!(named);
        }
        let answer = self.client().post("/api/v1/workers/poll", &body);
        let answer = answer.expect(200).json();
        answer["tasks"].as_array().expect("a list").clone()
    }

    fn task(&self, worker: &str) -> Value {
        let mut tasks = self.tasks(worker, 30_000, None);
        assert_eq!(tasks.len(), 1, "{tasks:?}");
        tasks.remove(0)
    }

    fn say(&self, task: &Value, what: &str, mut body: Value) -> HttpAnswer {
        let id = task["taskId"].as_str().expect("an id");
        body["lease"] = task["lease"].clone();
        let path = format!("/api/v1/workers/tasks/{id}/{what}");
        self.client().post(&path, &body)
    }

    fn heartbeat(&self, task: &Value) -> bool {
        let answer = self.say(task, "heartbeat", json!({})).expect(200).json();
        answer["stop"].as_bool().expect("a boolean")
    }

    fn why(&self, run: &str) -> Value {
        let path = format!("/api/v1/executions/{run}/why");
        self.client().get(&path).expect(200).json()["nodes"][0].clone()
    }

    fn node(&self, run: &str) -> Value {
        let path = format!("/api/v1/executions/{run}/nodes/n");
        self.client().get(&path).expect(200).json()
    }

    fn cancel(&self, run: &str) {
        let path = format!("/api/v1/executions/{run}/cancel");
        self.client().post(&path, &json!({})).expect(200);
    }

    fn stop(mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

#[test]
fn the_lease_that_was_given_last_counts_after_a_restart() {
    let mut place = Place::new(QUICK);
    let run = place.start();
    let first = place.task("a");
    // The first worker is silent until the second one has the task.
    let second = place.task("b");
    assert_eq!(first["taskId"], second["taskId"]);
    let output = |by: &str| json!({ "output": by });
    place.restart();
    for what in ["heartbeat", "complete", "skip"] {
        place
            .say(&first, what, json!({}))
            .refused(409, "LEASE_LOST");
    }
    assert!(!place.heartbeat(&second));
    place.restart();
    place
        .say(&first, "complete", output("a"))
        .refused(409, "LEASE_LOST");
    place.say(&second, "complete", output("b")).expect(200);
    assert_eq!(place.client().ended(&run)["output"], "b");
    place.restart();
    place
        .say(&first, "complete", output("a"))
        .refused(409, "LEASE_LOST");
    place.say(&second, "complete", output("c")).expect(200);
    assert_eq!(place.client().ended(&run)["output"], "b");
    place.stop();
}

#[test]
fn a_task_that_was_sent_again_to_its_worker_counts_under_the_second_lease() {
    let mut place = Place::new(SLOW);
    let run = place.start();
    let first = place.task("h");
    let second = place.tasks("h", 0, Some(&[])).remove(0);
    assert_eq!(first["taskId"], second["taskId"]);
    place.restart();
    place
        .say(&first, "complete", json!({}))
        .refused(409, "LEASE_LOST");
    place
        .say(&second, "complete", json!({ "output": 2 }))
        .expect(200);
    assert_eq!(place.client().ended(&run)["output"], 2);
    place.stop();
}

#[test]
fn a_restart_takes_no_task_from_a_worker_that_lives() {
    let mut place = Place::new(QUICK);
    let run = place.start();
    let task = place.task("a");
    place.restart();
    // Nothing of it is given to another worker before the first one had time to come back.
    assert!(place.tasks("b", 0, None).is_empty());
    let why = place.why(&run);
    assert!(why["work"]["heldUntil"].is_string(), "{why}");
    assert!(!place.heartbeat(&task));
    assert!(place.tasks("b", 0, None).is_empty());
    let why = place.why(&run);
    assert_eq!(why["work"]["worker"], "a", "{why}");
    // It comes back by a report as well.
    place.restart();
    place
        .say(&task, "complete", json!({ "output": "a" }))
        .expect(200);
    assert_eq!(place.client().ended(&run)["output"], "a");
    place.stop();
}

#[test]
fn a_worker_that_did_not_survive_loses_its_task_after_a_lease() {
    let mut place = Place::new(QUICK);
    let run = place.start();
    let first = place.task("a");
    place.restart();
    let second = place.task("b");
    assert_eq!(first["taskId"], second["taskId"]);
    assert_eq!(first["idempotencyKey"], second["idempotencyKey"]);
    place
        .say(&first, "complete", json!({}))
        .refused(409, "LEASE_LOST");
    // Also over one more restart.
    place.restart();
    place
        .say(&first, "heartbeat", json!({}))
        .refused(409, "LEASE_LOST");
    place
        .say(&second, "complete", json!({ "output": "b" }))
        .expect(200);
    assert_eq!(place.client().ended(&run)["output"], "b");
    place.stop();
}

#[test]
fn a_worker_that_says_it_lost_a_task_gets_it_at_once_after_a_restart() {
    let mut place = Place::new(SLOW);
    let run = place.start();
    let first = place.task("h");
    let second = place.tasks("h", 0, Some(&[])).remove(0);
    place.restart();
    // Named, it is held back; not named, it comes again.
    assert!(place.tasks("h", 0, Some(&[&second])).is_empty());
    assert!(place.tasks("other", 0, Some(&[])).is_empty());
    let third = place.tasks("h", 10_000, Some(&[])).remove(0);
    assert_eq!(third["taskId"], first["taskId"]);
    place
        .say(&second, "complete", json!({}))
        .refused(409, "LEASE_LOST");
    place
        .say(&third, "complete", json!({ "output": 3 }))
        .expect(200);
    assert_eq!(place.client().ended(&run)["output"], 3);
    place.stop();
}

#[test]
fn a_task_of_a_type_that_no_worker_had_waits_for_nothing_after_a_restart() {
    let mut place = Place::new(SLOW);
    let run = place.start();
    place.restart();
    let task = place.task("a");
    place
        .say(&task, "complete", json!({ "output": 1 }))
        .expect(200);
    assert_eq!(place.client().ended(&run)["output"], 1);
    place.stop();
}

#[test]
fn the_workers_name_and_time_survive_a_restart() {
    let mut place = Place::new(SLOW);
    let run = place.start();
    let task = place.task("billing-7");
    let deadline = task["deadline"].as_str().expect("a time").to_owned();
    place.restart();
    place.heartbeat(&task);
    let why = place.why(&run);
    assert_eq!(why["work"]["worker"], "billing-7", "{why}");
    let workers = place.client().get("/api/v1/workers").expect(200).json();
    assert_eq!(workers["items"][0]["worker"], "billing-7", "{workers}");
    assert_eq!(workers["items"][0]["tasks"], 1, "{workers}");
    place.say(&task, "complete", json!({})).expect(200);
    place.client().ended(&run);
    let node = place.node(&run);
    let action = &node["actions"][0];
    assert_eq!(action["worker"], "billing-7", "{node}");
    // The attempt's time goes on: it began when the deadline says so.
    let begun = action["startedAt"].as_str().expect("a time");
    let deadline_minute = deadline.split(':').nth(2).expect("seconds");
    assert_eq!(begun.split(':').nth(2), Some(deadline_minute), "{node}");
    place.stop();
}

#[test]
fn a_report_alone_names_its_worker_after_a_restart() {
    let mut place = Place::new(SLOW);
    let run = place.start();
    let task = place.task("billing-8");
    place.restart();
    place.say(&task, "complete", json!({})).expect(200);
    place.client().ended(&run);
    let node = place.node(&run);
    assert_eq!(node["actions"][0]["worker"], "billing-8", "{node}");
    place.stop();
}

#[test]
fn a_cancelled_attempt_keeps_its_grace_over_a_restart() {
    let mut place = Place::new(SLOW);
    let reported = place.start();
    let task = place.task("a");
    place.cancel(&reported);
    place.restart();
    assert!(place.heartbeat(&task), "the worker hears of the stop again");
    let why = place.why(&reported);
    assert_eq!(why["work"]["stop"], true, "{why}");
    assert!(why["work"]["stopsUntil"].is_string(), "{why}");
    assert!(place.tasks("b", 0, None).is_empty(), "no other gets it");
    place
        .say(&task, "complete", json!({ "output": 7 }))
        .expect(200);
    let shown = place.client().ended(&reported);
    assert_eq!(shown["status"], "Cancelled", "{shown}");
    assert_eq!(shown["nodes"]["n"]["output"], 7, "{shown}");

    // Reported as the first thing after the restart.
    let at_once = place.start();
    let task = place.task("a");
    place.cancel(&at_once);
    place.restart();
    place
        .say(&task, "complete", json!({ "output": 8 }))
        .expect(200);
    assert_eq!(place.client().ended(&at_once)["nodes"]["n"]["output"], 8);

    // A worker that never comes does not keep the run.
    let silent = place.start();
    let task = place.task("a");
    place.cancel(&silent);
    place.restart();
    let shown = place.client().ended(&silent);
    assert_eq!(shown["status"], "Cancelled", "{shown}");
    assert_eq!(shown["nodes"]["n"]["status"], "Cancelled", "{shown}");
    place
        .say(&task, "complete", json!({}))
        .refused(409, "TASK_ENDED");
    assert!(place.heartbeat(&task));
    place.stop();
}
