//! How long definitions of the promised sizes take to be accepted. Times depend
//! on the machine and the build, so this is run by hand:
//! `cargo test --release -p windlass-core --test definition_speed -- --ignored --nocapture`

#![expect(clippy::disallowed_methods, reason = "a measurement needs a clock")]

use std::fmt::Write as _;
use std::time::Instant;

use windlass_core::definition::{DefinitionSource, Options, parse};

/// Nodes as people write them: parameters with templates, retries, conditions.
fn definition(count: usize) -> String {
    let mut text = String::from("{\"id\":\"flow\",\"nodes\":[");
    for at in 0..count {
        let comma = if at == 0 { "" } else { "," };
        let parent = at.saturating_sub(1 + at % 10);
        let value = match at {
            0 => "trigger".to_owned(),
            _ => format!("context.data['node-{parent}']"),
        };
        let _ = write!(
            text,
            r#"{comma}
  {{
    "id": "node-{at}",
    "name": "Step {at}",
    "actionType": "http.request",
    "parameters": {{ "url": "https://example.com/{{{{ trigger.id }}}}/{at}", "body": {{ "value": "{{{{ {value}.value + 1 }}}}" }} }},
    "policies": {{ "timeoutMs": 30000, "retry": {{ "maxAttempts": 3, "baseDelayMs": 300 }} }},
    "edges": [ {{ "targetNode": "sink-{at}", "condition": "output.status === 'ok'" }} ]"#
        );
        if at > 0 {
            let _ = write!(text, r#", "dependsOn": [ "node-{parent}" ]"#);
        }
        let _ = write!(
            text,
            r#" }},
  {{ "id": "sink-{at}", "actionType": "core.echo" }}"#
        );
    }
    text.push_str("]}");
    text
}

#[test]
#[ignore = "measures time"]
fn accepted_in_time() {
    for (count, promised) in [(1_000, 10), (10_000, 100), (100_000, 1_000)] {
        let text = definition(count / 2);
        let best = (0..5)
            .map(|_| {
                let started = Instant::now();
                let source = DefinitionSource::new("flow.json", text.as_bytes());
                let parsed = parse(&source, &Options::default());
                let time = started.elapsed();
                assert!(parsed.is_ok_and(|parsed| parsed.warnings.is_empty()));
                time
            })
            .min()
            .expect("some runs");
        println!(
            "{count} nodes, {} KiB: {:.1} ms (promised {promised} ms)",
            text.len() / 1024,
            best.as_secs_f64() * 1000.0
        );
        assert!(best.as_millis() < promised);
    }
    let text = definition(5_000);
    let started = Instant::now();
    let parsed = parse(
        &DefinitionSource::new("flow.yaml", text.as_bytes()),
        &Options::default(),
    );
    assert!(parsed.is_ok());
    println!(
        "10000 nodes as YAML: {:.1} ms",
        started.elapsed().as_secs_f64() * 1000.0
    );
}
