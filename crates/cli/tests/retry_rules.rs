//! Retry strategies and compensations as definitions write them, with the real binary.

use serde_json::Value;
use windlass_test_support::process::World;

fn events(world: &World, kind: &str) -> Vec<Value> {
    let text = world.run(&["events", "@last", "--json"]).expect(0).stdout;
    let events = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("an event"));
    events
        .filter(|event: &Value| event["kind"] == kind)
        .collect()
}

#[test]
fn a_linear_delay_grows_by_its_base() {
    let world = World::with_files(&[(
        "linear.json",
        r#"{"id":"linear","nodes":[{"id":"a","actionType":"core.fail",
      "parameters":{"untilAttempt":4},"policies":{"retry":{"maxAttempts":4,
      "strategy":"linear","baseDelayMs":20,"backoffFactor":1,"jitter":false}}}]}"#,
    )]);
    let ended = world.run(&["run", "linear.json", "--json", "-q"]).expect(0);
    assert_eq!(ended.json()["nodes"]["a"]["attempts"], 4);
    let scheduled = events(&world, "NodeRetryScheduled");
    assert_eq!(scheduled.len(), 3);
    for (event, least) in scheduled.iter().zip([20, 40, 60]) {
        let moment = |value: &Value| {
            let text = value.as_str().expect("a moment");
            windlass_service::moment::since(text, windlass_core::Millis(0)).expect("a moment")
        };
        let delay = moment(&event["data"]["due"]).0 - moment(&event["at"]).0;
        assert!(delay >= least, "{event}");
    }
}

#[test]
fn a_factor_below_one_is_refused() {
    let world = World::with_files(&[(
        "factor.json",
        r#"{"id":"factor","nodes":[{"id":"a","actionType":"core.echo",
      "policies":{"retry":{"maxAttempts":2,"backoffFactor":0.5}}}]}"#,
    )]);
    let refused = world.run(&["validate", "factor.json", "--json"]).expect(3);
    let pointer = refused.json()["problems"][0]["pointer"].clone();
    assert_eq!(pointer, "/nodes/0/policies/retry/backoffFactor");
}

#[test]
fn a_failed_compensation_stops_the_others_where_the_definition_says_so() {
    let saga = |on_error: &str| {
        format!(
            r#"{{"id":"saga","compensation":{{"when":"onFailure","onError":"{on_error}"}},"nodes":[
      {{"id":"a","actionType":"core.echo","compensate":{{"actionType":"core.echo"}}}},
      {{"id":"b","actionType":"core.echo","dependsOn":["a"],
        "compensate":{{"actionType":"core.fail"}}}},
      {{"id":"c","actionType":"core.fail","dependsOn":["b"]}}]}}"#
        )
    };
    let world = World::with_files(&[
        ("stop.json", &saga("stop")),
        ("continue.json", &saga("continue")),
    ]);
    world.run(&["run", "stop.json", "-q"]).expect(1);
    assert!(events(&world, "CompensationSucceeded").is_empty());
    assert_eq!(events(&world, "CompensationFailed").len(), 1);
    world.run(&["run", "continue.json", "-q"]).expect(1);
    assert_eq!(events(&world, "CompensationSucceeded").len(), 1);
}
