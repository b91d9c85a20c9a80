//! What worlds with several processes are asked to do. In half of them what becomes of a run
//! depends on nothing but its definition and what its actions do: no race is decided by time,
//! and no user interferes, so it must end as it would in a world without faults.

use serde_json::{Value, json};

use crate::catalogue::WorkflowCatalogue;
use crate::random::Random;
use crate::structured;
use crate::workload::{self, Workload};

/// Draws the work of one world, over `horizon` milliseconds.
pub(crate) fn workload(random: &mut Random, horizon: u64, determinate: bool) -> Workload {
    if determinate {
        return determinate_workload(random, horizon);
    }
    let mut workload = structured::workload(random, horizon);
    // Faults happen at any time, so runs do too.
    for request in &mut workload.requests {
        let later = random.below(horizon / 2);
        let starts = request.starts.iter_mut();
        let user_actions = request.user_actions.iter_mut().map(|(at, _)| at);
        starts.chain(user_actions).for_each(|at| *at += later);
    }
    workload
}

fn determinate_workload(random: &mut Random, horizon: u64) -> Workload {
    limited_workload(random, horizon, &mut |_, _| {})
}

/// A change of a definition.
type Change<'a> = &'a mut dyn FnMut(&mut Random, &mut Value);

/// A determinate world, each of whose definitions is changed.
pub(crate) fn limited_workload(random: &mut Random, horizon: u64, change: Change<'_>) -> Workload {
    let mut catalogue = WorkflowCatalogue::default();
    let mut child = definition(random, 0, false);
    child["id"] = json!("child");
    change(random, &mut child);
    catalogue.add(&child.to_string());
    let mut requests = Vec::new();
    for index in 0..random.between(2, 4) {
        let name = format!("w{index}");
        let mut definition = definition(random, index, true);
        change(random, &mut definition);
        catalogue.add(&definition.to_string());
        let mut request = workload::request(random, &name, horizon, false);
        request.user_actions.clear();
        let later = random.below(horizon * 3 / 4);
        request.starts.iter_mut().for_each(|at| *at += later);
        requests.push(request);
    }
    Workload {
        catalogue,
        requests,
        publications: Vec::new(),
    }
}

/// A graph of actions, delays and children without what depends on who is first.
fn definition(random: &mut Random, index: u64, children: bool) -> Value {
    let mut definition = workload::definition(random, index);
    if let Some(definition) = definition.as_object_mut() {
        definition.remove("failurePolicy");
        definition.remove("timeoutMs");
    }
    let nodes = definition["nodes"].as_array_mut();
    for node in nodes.into_iter().flatten() {
        let kind = random.below(100);
        let Some(node) = node.as_object_mut() else {
            continue;
        };
        node.remove("setVars");
        let edges = node.get_mut("edges").and_then(Value::as_array_mut);
        for edge in edges.into_iter().flatten().filter_map(Value::as_object_mut) {
            let condition = edge.get("condition").and_then(Value::as_str);
            // Whether another branch has ended by then is a matter of time.
            if condition.is_some_and(|text| text.contains("context.data")) {
                edge.remove("condition");
            }
        }
        if kind < 25 {
            for key in ["actionType", "policies", "parameters"] {
                node.remove(key);
            }
        }
        match kind {
            0..=9 if children => {
                let child = json!({ "workflowId": "child", "input": { "n": 1 } });
                node.insert("subworkflow".to_owned(), child);
            }
            0..=24 => {
                let delay = json!({ "ms": random.between(1, 9_000) });
                node.insert("delay".to_owned(), delay);
            }
            _ => {}
        }
    }
    definition
}
