//! The stored form of every event: what is written can be read, and reads as it was
//! written. A change to one of these lines is a change to stored logs.

use windlass_core::event::Event;

/// Reads the line, writes it again, and expects the same text.
fn check(text: &str) {
    let event: Event = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let written = serde_json::to_string(&event).expect("events serialise");
    assert_eq!(written, text);
}

const DIGEST: &str = "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b";

#[test]
fn runs_begin_stop_and_end() {
    let queued = r#"{"rules":1,"workflow":"w","version":2,"definition":"DIGEST","requestId":"r","tenant":"t","correlationId":"c","priority":9,"labels":{"team":"x"},"trigger":{"inline":{"a":[1, 2]}},"vars":{"big":{"blob":{"digest":"DIGEST","size":5000}}},"parent":{"executionId":"00000000-0000-7000-8000-000000000001","node":"n"}}"#;
    check(&format!("{{\"Queued\":{queued}}}").replace("DIGEST", DIGEST));
    let small = r#"{"Queued":{"rules":1,"workflow":"w","version":1,"definition":"DIGEST","requestId":"r","correlationId":"c","priority":0,"trigger":{"inline":null}}}"#;
    check(&small.replace("DIGEST", DIGEST));
    check(r#"{"Started":{}}"#);
    check(r#"{"Stopping":{"cause":"failFast","running":["a","b"],"deadline":10000}}"#);
    check(r#"{"Stopping":{"cause":"cancel","running":[],"deadline":1,"by":"me","reason":"why"}}"#);
    check(r#"{"Stopping":{"cause":"timeout","running":[],"deadline":-1}}"#);
    check(r#"{"GraceEnded":{}}"#);
    check(r#"{"Paused":{"by":"me"}}"#);
    check(r#"{"Resumed":{}}"#);
    check(r#"{"Recovered":{}}"#);
    check(r#"{"Recovered":{"after":"stop"}}"#);
    check(r#"{"Recovered":{"after":"requeue"}}"#);
    check(r#"{"Recovered":{"grace":{"nodes":["a"],"deadline":7}}}"#);
    check(r#"{"Finished":{"status":"Succeeded","output":{"inline":{"x": 1.0}}}}"#);
    check(r#"{"Finished":{"status":"Failed","error":{"code":"C","message":"m","nodes":["a"]}}}"#);
    check(r#"{"Finished":{"status":"Cancelled"}}"#);
}

#[test]
fn attempts_end() {
    let started = r#"{"AttemptStarted":{"node":"n","attempt":1,"started":5,"worker":"w"}}"#;
    check(started);
    let results = [
        r#"{"succeeded":{"inline":{"text": "as it came"}}}"#,
        r#"{"succeeded":{"blob":{"digest":"DIGEST","size":4097}}}"#,
        r#"{"failed":{"inline":{"code":"C","message":"m","retriable":false}}}"#,
        r#"{"retrying":{"error":{"inline":{}},"due":77}}"#,
        r#"{"skipped":{}}"#,
        r#"{"stopped":{}}"#,
    ];
    let rest = [
        "",
        r#","ancestry":"DIGEST""#,
        r#","parameters":{"inline":{"a":1}},"meta":{"cost": 1e2},"resources":[{"system":"s","type":"t","id":"i"},{"system":"s","type":"t","id":"j","url":"u"}],"vars":{"x":{"inline":[1 ,2]}}"#,
        r#","lease":"l","completed":true"#,
    ];
    for result in results {
        for rest in rest {
            let text = format!(
                r#"{{"AttemptEnded":{{"node":"n","attempt":3,"started":1,"ended":2,"worker":"w","result":{result},"digest":"DIGEST"{rest}}}}}"#
            );
            check(&text.replace("DIGEST", DIGEST));
        }
    }
}

#[test]
fn people_and_conditions_decide() {
    check(r#"{"Routed":{"node":"n","taken":[0,2]}}"#);
    check(r#"{"Reattempted":{"nodes":["a","b"],"by":"me","reason":"again"}}"#);
    check(r#"{"Reattempted":{"nodes":["a"]}}"#);
    check(r#"{"Warning":{"node":"n","code":"C","message":"m"}}"#);
    check(r#"{"Warning":{"code":"C","message":"m"}}"#);
}
