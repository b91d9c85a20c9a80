//! Rows of lists, for programs; those of runs are in `run_item`.

use serde_json::{Value, json};
use windlass_engine::{Backend, DeclaredAction};
use windlass_store::{DeadLetter, DefinitionRow, Error, Wait as _, WorkflowRow};

/// Says of a row in a list that it is damaged, if it is.
pub fn tell_damage(item: &mut Value, damage: Option<&str>) {
    if let Some(damage) = damage {
        item["damage"] = json!(damage);
    }
}

/// A workflow as lists give it to programs.
pub fn workflow_item(row: &WorkflowRow) -> Value {
    let mut item = json!({
        "workflowId": row.workflow,
        "displayName": row.display_name,
        "version": row.version,
        "enabled": row.enabled,
        "updatedAt": row.updated_at.to_string(),
    });
    tell_damage(&mut item, row.damage.as_deref());
    item
}

/// The whole row: what [`workflow_item`] has, and whose it is.
pub fn workflow_row(row: &WorkflowRow) -> Value {
    let mut item = workflow_item(row);
    item["tenantId"] = json!(row.tenant);
    item
}

/// Definitions larger than this are not read for a list.
const DESCRIBED_BYTES: usize = 1024 * 1024;

/// The row with what its definition says of itself, and when its first version was published.
///
/// # Errors
/// The store cannot be read.
pub fn workflow_described(store: &dyn Backend, row: &WorkflowRow) -> Result<Value, Error> {
    #[derive(serde::Deserialize)]
    struct Described {
        description: Option<String>,
    }
    let mut item = workflow_row(row);
    let tenant = row.tenant.as_deref();
    let version = |number| store.definition(tenant, &row.workflow, Some(number)).wait();
    let newest = match row.damage {
        None => version(row.version)?,
        Some(_) => None,
    };
    let text = newest.as_ref().map(|newest| newest.text.as_slice());
    let text = text.filter(|text| text.len() <= DESCRIBED_BYTES);
    let described = text.and_then(|text| serde_json::from_slice::<Described>(text).ok());
    item["description"] = json!(described.and_then(|described| described.description));
    let first = match row.version {
        1 => newest,
        _ if row.damage.is_some() => None,
        _ => version(1)?,
    };
    item["createdAt"] = json!(first.map(|first| first.at.to_string()));
    Ok(item)
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

/// An action type that workers have declared, in the same form.
pub fn declared_action(action: &DeclaredAction) -> Value {
    let schema = action.parameters.as_deref();
    let parameters: Value = schema
        .and_then(|schema| serde_json::from_str(schema).ok())
        .unwrap_or(Value::Bool(true));
    json!({
        "name": action.action,
        "description": action.description.as_deref().unwrap_or_default(),
        "parameters": parameters,
        "output": true,
        "declaredByWorkers": true,
        "lastSeenAt": action.last_seen.to_string(),
    })
}

/// A dead letter as lists give it to programs.
pub fn letter_item(letter: &DeadLetter) -> Value {
    let payload: Value = serde_json::from_slice(&letter.payload)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&letter.payload).into_owned()));
    let mut item = json!({
        "executionId": letter.run.to_string(),
        "workflowId": letter.workflow,
        "tenantId": letter.tenant,
        "reason": letter.reason,
        "deliveries": letter.deliveries,
        "at": letter.at.to_string(),
        "payload": payload,
    });
    tell_damage(&mut item, letter.damage.as_deref());
    item
}
