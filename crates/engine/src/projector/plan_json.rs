//! The plan of a definition as readers of the table see it: what runs after what, without
//! parameters.

use serde_json::{Value, json};
use windlass_core::plan::{NodeIndex, Plan};

/// The plan as JSON text.
pub(super) fn plan_json(plan: &Plan) -> String {
    let count = NodeIndex::try_from(plan.total()).unwrap_or(NodeIndex::MAX);
    let nodes: Vec<Value> = (0..count).map(|node| node_json(plan, node)).collect();
    let entries = plan.entries().iter().map(|&node| plan.id(node));
    json!({
        "workflow": plan.workflow(),
        "signature": plan.signature().to_string(),
        "entries": entries.collect::<Vec<_>>(),
        "nodes": nodes,
    })
    .to_string()
}

fn node_json(plan: &Plan, node: NodeIndex) -> Value {
    let before = plan.incoming(node).iter().map(|&edge| {
        let edge = plan.edge(edge);
        plan.static_path(edge.source)
    });
    json!({
        "path": plan.static_path(node),
        "kind": plan.kind(node).as_str(),
        "actionType": plan.action(node),
        "level": plan.level(node),
        "dependsOn": before.collect::<Vec<_>>(),
        "requires": plan.requires(node),
        "timeoutMs": plan.timeout_ms(node),
    })
}
