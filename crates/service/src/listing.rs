//! Rows of lists, for programs.

use serde_json::{Value, json};
use windlass_store::{DeadLetter, DefinitionRow, RunRow, WorkflowRow};

/// A run as lists give it to programs.
pub fn run_item(row: &RunRow) -> Value {
    json!({
        "executionId": row.run.to_string(),
        "workflowId": row.workflow,
        "version": row.version,
        "status": row.status.as_str(),
        "error": row.error_code.as_ref().map(|code| json!({ "code": code })),
        "requestId": row.request_id,
        "tenantId": row.tenant,
        "priority": row.priority,
        "labels": row.labels,
        "parent": row.parent.map(|parent| parent.to_string()),
        "createdAt": row.created_at.to_string(),
        "startedAt": row.started_at.map(|at| at.to_string()),
        "endedAt": row.ended_at.map(|at| at.to_string()),
    })
}

/// A workflow as lists give it to programs.
pub fn workflow_item(row: &WorkflowRow) -> Value {
    json!({
        "workflowId": row.workflow,
        "displayName": row.display_name,
        "version": row.version,
        "enabled": row.enabled,
        "updatedAt": row.updated_at.to_string(),
    })
}

/// A version as lists give it to programs.
pub fn version_item(row: &DefinitionRow) -> Value {
    json!({
        "workflowId": row.workflow,
        "version": row.version,
        "digest": row.digest,
        "signature": row.signature,
        "publishedAt": row.at.to_string(),
    })
}

/// The actions that always exist, for programs; programs may be run if that is allowed.
pub fn actions(registry: &windlass_engine::Registry) -> Vec<Value> {
    let describe = |action: &windlass_engine::action::Description| {
        json!({
            "name": action.name,
            "description": action.description,
            "parameters": action.parameters,
            "output": action.output,
        })
    };
    registry.describe().iter().map(describe).collect()
}

/// A dead letter as lists give it to programs.
pub fn letter_item(letter: &DeadLetter) -> Value {
    let payload: Value = serde_json::from_slice(&letter.payload)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&letter.payload).into_owned()));
    json!({
        "executionId": letter.run.to_string(),
        "workflowId": letter.workflow,
        "tenantId": letter.tenant,
        "reason": letter.reason,
        "deliveries": letter.deliveries,
        "at": letter.at.to_string(),
        "payload": payload,
    })
}
