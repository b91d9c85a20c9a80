//! The workflow: a chain, a fan and its join, retries, failures with a way out, a branch
//! that is not taken, and outputs in the record, in the table and in a file.

use serde_json::{Value, json};

/// Each action first appends a line to the effects: what it is, in one write.
const APPEND: &str =
    r#"echo "$WINDLASS_NODE $WINDLASS_ATTEMPT $WINDLASS_IDEMPOTENCY_KEY" >> effects"#;

pub(super) fn definition() -> Value {
    let mut nodes =
        vec![
        step("begin", &[], "echo begun"),
        step("flaky", &["chain-4"], r#"test "$WINDLASS_ATTEMPT" -ge 3"#)
            .with("policies", retry(4)),
        step("after-flaky", &["flaky"], "true"),
        step("breaks", &["chain-1"], "echo broken >&2; exit 3").with("onFailure", json!("repair")),
        step("repair", &[], "echo repaired"),
        step("mend", &["repair", "chain-2"], "true"),
        step("hopeless", &["fan-1"], "exit 4")
            .with("policies", retry(2))
            .with("onFailure", json!("excuse")),
        step("excuse", &[], "true"),
        step("page", &["gather"], "head -c 6000 /dev/zero | tr '\\0' p"),
        step("book", &["page"], "head -c 300000 /dev/zero | tr '\\0' b").with(
            "edges",
            json!([
                { "targetNode": "measure", "condition": "context.data.book.stdout.length > 1000" },
                { "targetNode": "never", "condition": "context.data.book.stdout.length < 1000" },
            ]),
        ),
        step(
            "measure",
            &[],
            "echo {{ context.data.book.stdout.length + context.data.page.stdout.length }}",
        ),
        step("never", &[], "true"),
        step("end", &["measure", "after-flaky", "mend", "excuse"], "echo over"),
    ];
    for n in 1..=4 {
        let before = match n {
            1 => "begin".to_owned(),
            n => format!("chain-{}", n - 1),
        };
        nodes.push(step(
            &format!("chain-{n}"),
            &[&before],
            &format!("echo {n}"),
        ));
    }
    let fans: Vec<String> = (1..=8).map(|n| format!("fan-{n}")).collect();
    for fan in &fans {
        nodes.push(step(fan, &["begin"], "true"));
    }
    let fans: Vec<&str> = fans.iter().map(String::as_str).collect();
    nodes.push(step("gather", &fans, "true"));
    let nodes: Vec<Value> = nodes.into_iter().map(|Node(value)| value).collect();
    json!({
        "id": "crash",
        "nodes": nodes,
        "output": {
            "characters": "{{ context.data.measure.stdout }}",
            "last": "{{ context.data.end.stdout }}",
        },
    })
}

/// The nodes that a node waits for.
pub(super) fn parents(node: &str) -> Vec<String> {
    let definition = definition();
    let nodes = definition["nodes"].as_array().into_iter().flatten();
    let leads_here = |parent: &Value| {
        let edges = parent["edges"].as_array().into_iter().flatten();
        parent["onFailure"] == node || edges.into_iter().any(|edge| edge["targetNode"] == node)
    };
    let mut parents: Vec<String> = nodes
        .clone()
        .filter(|parent| leads_here(parent))
        .filter_map(|parent| Some(parent["id"].as_str()?.to_owned()))
        .collect();
    let own = nodes.filter(|own| own["id"] == node);
    let before = own.flat_map(|own| own["dependsOn"].as_array().into_iter().flatten());
    parents.extend(before.filter_map(|id| Some(id.as_str()?.to_owned())));
    parents
}

struct Node(Value);

impl Node {
    fn with(mut self, key: &str, value: Value) -> Self {
        self.0[key] = value;
        self
    }
}

fn step(id: &str, after: &[&str], script: &str) -> Node {
    let mut node = json!({
        "id": id,
        "actionType": "core.exec",
        "parameters": { "program": "sh", "args": ["-c", format!("{APPEND}; {script}")] },
    });
    if !after.is_empty() {
        node["dependsOn"] = json!(after);
    }
    Node(node)
}

fn retry(attempts: u32) -> Value {
    json!({ "retry": { "maxAttempts": attempts, "baseDelayMs": 2, "jitter": false } })
}
