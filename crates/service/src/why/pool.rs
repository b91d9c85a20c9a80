//! What a node waits for whose pool has no slots for it.

use serde_json::{Value, json};
use windlass_core::NodeStatus;
use windlass_core::run::{Instance, Run};
use windlass_store::{PoolKey, SlotRequest, Wait as _, WorkKey};

use crate::failure::Failure;
use crate::pools;
use crate::run_queries::RunQueries;

/// How many of those that hold slots a sentence names.
const TOLD: usize = 3;

/// A sentence and the same for programs; nothing if the node does not wait for slots.
///
/// # Errors
/// The store failed.
pub(super) fn pool(
    queries: &RunQueries,
    run: &Run,
    (node, path): (Instance, &str),
) -> Result<Option<(String, Value)>, Failure> {
    let Some(wanted) = run.pool(node) else {
        return Ok(None);
    };
    if run.is_structural(node) || run.node_status(node) != NodeStatus::Queued {
        return Ok(None);
    }
    let key = PoolKey::new(run.queued().tenant.as_deref(), &wanted.name);
    let (name, wants) = (&*wanted.name, wanted.slots);
    let Some(row) = queries.store.pool(&key).wait()? else {
        let json = json!({ "name": name, "wants": wants, "slots": null });
        let reason = format!(
            "{path} is ready and waits for the pool '{name}', which does not exist: windlass \
             pools set {name} {wants}"
        );
        return Ok(Some((reason, json)));
    };
    let usage = queries.store.pool_use(&key, pools::NAMED).wait()?;
    let attempt = WorkKey {
        run: run.id(),
        instance: node,
        attempt: run.attempt(node),
    };
    let is_it = |it: &SlotRequest| it.attempt == attempt;
    if usage.holders.iter().any(is_it) || usage.waiting == 0 {
        return Ok(None);
    }
    let ahead = usage.waiters.iter().position(is_it);
    let mut json = pools::item(&row, &usage);
    json["wants"] = json!(wants);
    json["ahead"] = json!(ahead);
    let (size, used) = (row.slots, usage.used);
    if wants > size {
        let reason = format!(
            "{path} is ready and waits for the pool '{name}': it wants {wants} slots, and the pool \
             has {size}: windlass pools set {name} {wants}"
        );
        return Ok(Some((reason, json)));
    }
    let held = |it: &SlotRequest| format!("{} of {} ({})", it.node, it.attempt.run, it.slots);
    let mut holders: Vec<String> = usage.holders.iter().take(TOLD).map(held).collect();
    if usage.holders.len() > TOLD {
        holders.push(format!("{} more", usage.holders.len() - TOLD));
    }
    let holders = match holders.is_empty() {
        true => String::new(),
        false => format!(", held by {}", holders.join(", ")),
    };
    let ahead = match ahead {
        Some(0) => "; it is next".to_owned(),
        Some(ahead) => format!("; {ahead} go before it"),
        None => String::new(),
    };
    let reason = format!(
        "{path} is ready and waits for {wants} of the {size} slots of the pool '{name}': {used} are \
         in use{holders}{ahead}."
    );
    Ok(Some((reason, json)))
}
