//! What a run that has not begun waits for, in a sentence.

use serde_json::{Value, json};
use windlass_test_support::process::World;

const GATED: &str = r#"{ "id": "gated", "concurrency": { "key": "{{ trigger.who }}", "limit": 1 },
  "nodes": [{ "id": "hold", "waitForSignal": { "name": "go" } }] }"#;

const NARROW: &str = r#"{ "id": "narrow", "concurrency": { "limit": 2 },
  "nodes": [{ "id": "hold", "waitForSignal": { "name": "go" } }] }"#;

#[test]
fn a_queued_run_names_its_gate_and_who_holds_it() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(GATED);
    client.publish(NARROW);
    let body = json!({ "trigger": { "who": "acme" } });
    let first = client.execute("gated", &body);
    client.wait_for(&first, "NodeWaiting");
    let second = client.execute("gated", &body);
    let why = |run: &str| -> String {
        let answer = client
            .get(&format!("/api/v1/executions/{run}/why"))
            .expect(200);
        answer.text("reason")
    };
    let reason = why(&second);
    assert!(
        reason.contains("its concurrency key 'acme' lets 1 run go"),
        "{reason}"
    );
    assert!(reason.contains(&first[..13]), "{reason}");
    // The same over the command, asked of the server and beside it.
    let url = format!("http://{}", server.address());
    for arguments in [
        vec!["--server", &*url, "why", &*second],
        vec!["why", &*second],
    ] {
        let said = world.run(&arguments).expect(0).stdout;
        assert_eq!(said.trim(), reason, "{arguments:?}");
    }
    let wide: Vec<String> = (0..3)
        .map(|_| client.execute("narrow", &json!({})))
        .collect();
    for run in &wide[..2] {
        client.wait_for(run, "NodeWaiting");
    }
    let reason = why(&wide[2]);
    assert!(
        reason.contains("the workflow 'narrow' lets 2 runs go"),
        "{reason}"
    );
    for run in &wide[..2] {
        assert!(reason.contains(&run[..13]), "{reason}");
    }
    let path = format!("/api/v1/executions/{first}/signal");
    client.post(&path, &json!({ "name": "go" })).expect(200);
    client.wait_for(&second, "NodeWaiting");
    let reason: String = why(&second);
    assert!(!reason.contains("queued"), "{reason}");
    let ended: Value = client.ended(&first);
    assert_eq!(ended["status"], "Succeeded");
}
