//! Rows of lists, for programs.

use serde_json::{Value, json};
use windlass_store::{DefinitionRow, RunRow, WorkflowRow};

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
