//! The definitions that are measured.

use std::fmt::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_engine::{Action, ActionError, Context, Reply};

/// A chain of nodes.
pub(crate) fn chain(id: &str, count: usize, action: &str) -> String {
    let mut text = format!(r#"{{"id":"{id}","nodes":["#);
    for node in 0..count {
        let comma = if node == 0 { "" } else { "," };
        let _ = write!(
            text,
            r#"{comma}{{"id":"n{node}","actionType":"{action}","parameters":{{"n":{node}}}"#
        );
        if node > 0 {
            let _ = write!(text, r#","dependsOn":["n{}"]"#, node - 1);
        }
        text.push('}');
    }
    text.push_str("]}");
    text
}

/// One node, many after it, and a join after those.
pub(crate) fn fan_out(id: &str, count: usize, action: &str) -> String {
    let mut text = format!(
        r#"{{"id":"{id}","nodes":[{{"id":"root","actionType":"core.echo","parameters":{{}}}}"#
    );
    for node in 0..count {
        let _ = write!(
            text,
            r#",{{"id":"n{node}","actionType":"{action}","parameters":{{"n":{node}}},"dependsOn":["root"],"edges":[{{"targetNode":"join"}}]}}"#
        );
    }
    text.push_str(r#",{"id":"join","actionType":"core.echo","parameters":{"done":true}}]}"#);
    text
}

/// An action that takes 50 µs asynchronously.
pub(crate) struct Pause50;

/// Any parameters.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Parameters {
    #[expect(dead_code, reason = "the graphs give every node the same parameters")]
    n: Option<u64>,
}

/// Nothing.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {}

impl Action for Pause50 {
    type Parameters = Parameters;
    type Output = Output;

    fn name(&self) -> &str {
        "bench.pause"
    }

    fn description(&self) -> &str {
        "Takes 50 µs asynchronously."
    }

    async fn run(
        &self,
        _context: Context,
        _parameters: Parameters,
    ) -> Result<Reply<Output>, ActionError> {
        // Timers tick in milliseconds; yielding until the time has passed is as
        // asynchronous, and exact.
        let until = std::time::Instant::now() + Duration::from_micros(50);
        while std::time::Instant::now() < until {
            tokio::task::yield_now().await;
        }
        Ok(Reply::new(Output {}))
    }
}

/// One loop over the items of the trigger.
pub(crate) fn for_each(id: &str) -> String {
    json!({ "id": id, "output": "{{ context.data['each'].length }}", "nodes": [
        { "id": "each", "forEach": { "items": "{{ trigger }}", "body": { "nodes": [
            { "id": "item", "actionType": "core.echo", "parameters": { "n": "{{ item }}" } } ] } } } ] })
    .to_string()
}

/// So many numbers.
pub(crate) fn items(count: usize) -> String {
    let numbers: Vec<usize> = (0..count).collect();
    json!(numbers).to_string()
}

/// A loop that goes round so many times.
pub(crate) fn rounds(id: &str, count: usize) -> String {
    json!({ "id": id, "nodes": [
        { "id": "again", "while": { "condition": format!("iteration < {count}"),
            "maxIterations": count, "body": { "nodes": [
            { "id": "round", "actionType": "core.echo", "parameters": { "n": "{{ iteration }}" } } ] } } } ] })
    .to_string()
}
