//! Pools: named limits on attempts. What makes, changes and removes them, what publishing asks of
//! them, and how one is shown.

use serde_json::{Value, json};
use windlass_core::definition::{Definition, Pool};
use windlass_core::name::is_key_name;
use windlass_core::plan::Plan;
use windlass_engine::Backend;
use windlass_store::{PoolKey, PoolRow, PoolUse, SlotRequest, TenantFilter};

use crate::failure::{Failure, FailureKind};
use crate::overrides::nearest;

/// How many attempts that hold slots, and that wait, are named.
pub const NAMED: usize = 100;

/// How many pools are read together.
const PAGE: usize = 1000;

/// Whether a pool may be called so, and have so many slots.
///
/// # Errors
/// It may not.
pub fn check(name: &str, slots: Option<u32>) -> Result<(), Failure> {
    if !is_key_name(name) {
        let message = "a pool's name has 1 to 128 characters: letters, digits and ._/:- after the \
                       first, which is a letter or a digit";
        return Err(Failure::new(FailureKind::PoolInvalid, message));
    }
    let most = Pool::MOST_SLOTS;
    if slots.is_some_and(|slots| slots == 0 || slots > most) {
        let message = format!("a pool has 1 to {most} slots");
        return Err(Failure::new(FailureKind::PoolInvalid, message));
    }
    Ok(())
}

/// Refuses a graph with a node whose pool does not exist, or is too small for it.
///
/// # Errors
/// There is such a node, or the store failed.
pub async fn check_pools(
    store: &dyn Backend,
    tenant: Option<&str>,
    plan: &Plan,
) -> Result<(), Failure> {
    let mut details = Vec::new();
    let mut known: Option<Vec<PoolRow>> = None;
    for (node, pool) in plan.pooled_nodes() {
        let known = match &mut known {
            Some(known) => known,
            empty => empty.insert(all(store, tenant).await?),
        };
        let (id, name, wants) = (plan.id(node), &*pool.name, pool.slots);
        let row = known.iter().find(|row| *row.pool.name == *name);
        let (message, suggestion) = match row {
            Some(row) if row.slots >= wants => continue,
            Some(row) => (
                format!(
                    "node '{id}' wants {wants} slots of the pool '{name}', which has {}",
                    row.slots
                ),
                format!("lower its slots, or: windlass pools set {name} {wants}"),
            ),
            None => {
                let near = nearest(name, known.iter().map(|row| &*row.pool.name));
                let make = format!("windlass pools set {name} {}", wants.max(1));
                (
                    format!("node '{id}' wants slots of the pool '{name}', which does not exist"),
                    near.map_or(format!("make it: {make}"), |near| {
                        format!("{near} Otherwise make it: {make}")
                    }),
                )
            }
        };
        details.push(json!({
            "code": "POOL_UNKNOWN", "severity": "error", "node": id, "pool": name,
            "message": message, "suggestion": suggestion,
        }));
        if details.len() == NAMED {
            break;
        }
    }
    let Some(first) = details.first() else {
        return Ok(());
    };
    let text = |key: &str| first[key].as_str().unwrap_or_default().to_owned();
    let failure = Failure::new(FailureKind::PoolUnknown, text("message"));
    Err(failure.hint(text("suggestion")).details(details))
}

/// Every pool of a tenant, or of none.
async fn all(store: &dyn Backend, tenant: Option<&str>) -> Result<Vec<PoolRow>, Failure> {
    let only = TenantFilter::Only(tenant.map(Into::into));
    let mut rows: Vec<PoolRow> = Vec::new();
    loop {
        let after = rows.last().map(|row| row.pool.clone());
        let page = store.pools(&only, after.as_ref(), PAGE).await?;
        if page.is_empty() {
            return Ok(rows);
        }
        rows.extend(page);
    }
}

/// A pool, for programs.
pub fn item(row: &PoolRow, usage: &PoolUse) -> Value {
    let each = |rows: &[SlotRequest]| rows.iter().map(attempt).collect::<Vec<Value>>();
    json!({
        "name": row.pool.name,
        "tenantId": row.pool.tenant,
        "slots": row.slots,
        "used": usage.used,
        "waiting": usage.waiting,
        "updatedAt": row.updated_at.to_string(),
        "holders": each(&usage.holders),
        "waiters": each(&usage.waiters),
    })
}

/// An attempt that holds slots or waits for them, for programs.
pub fn attempt(request: &SlotRequest) -> Value {
    json!({
        "executionId": request.attempt.run.to_string(),
        "node": request.node,
        "attempt": request.attempt.attempt,
        "slots": request.slots,
        "priority": request.priority,
        "since": request.since.to_string(),
    })
}

/// There is no such pool.
pub fn unknown(name: &str) -> Failure {
    let message = format!("there is no pool '{name}'");
    Failure::new(FailureKind::PoolNotFound, message).hint("`windlass pools` lists them")
}

/// The pool cannot be removed: attempts hold slots of it, or wait.
pub fn in_use(name: &str) -> Failure {
    let message = format!("attempts hold slots of the pool '{name}', or wait for them");
    Failure::new(FailureKind::PoolInUse, message)
        .hint("`windlass pools` names them; it can be removed once they have ended")
}

/// Refuses to remove a pool that the newest version of a workflow names.
///
/// # Errors
/// One does, or the store failed.
pub async fn refuse_named(store: &dyn Backend, pool: &PoolKey) -> Result<(), Failure> {
    let tenant = pool.tenant.as_deref();
    let only = TenantFilter::Only(pool.tenant.clone());
    for workflow in store.workflows(&only).await? {
        let newest = store.definition(tenant, &workflow.workflow, None).await?;
        if newest.is_some_and(|row| names_pool(&row.text, &pool.name)) {
            let (name, workflow) = (&pool.name, &workflow.workflow);
            let message = format!("the workflow '{workflow}' has a node with the pool '{name}'");
            let hint = "publish a version without it first";
            return Err(Failure::new(FailureKind::PoolInUse, message).hint(hint));
        }
    }
    Ok(())
}

fn names_pool(text: &[u8], name: &str) -> bool {
    // Most definitions name no pool at all, and are not parsed.
    let has_pools = text.windows(6).any(|part| part == b"\"pool\"");
    let definition = || serde_json::from_slice::<Definition>(text).ok();
    let plan = has_pools.then(definition).flatten();
    let plan = plan.and_then(|definition| Plan::build(definition).ok());
    plan.is_some_and(|plan| plan.pooled_nodes().any(|(_, pool)| *pool.name == *name))
}
