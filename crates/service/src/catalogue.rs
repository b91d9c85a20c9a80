//! What commands do to the catalogue and to what derives from the logs, in the process that
//! holds the data directory, for its own user or for another process.

use serde::{Deserialize, Serialize};
use windlass_core::RunId;
use windlass_engine::{Backend, Plans, StartError, derive};
use windlass_store::{NewDefinition, Published, TenantFilter, Wait as _, block_on};

use crate::failure::{Failure, FailureKind};
use crate::moment::now;
use crate::overrides::nearest;
use crate::pools::check_pools;
use crate::source::PreparedDefinition;

/// Runs whose rows are replaced in one commit.
const BATCH: usize = 256;

/// How often a run whose log grows meanwhile is looked at again.
const LOOKS: usize = 20;

/// Runs that are named one by one when they could not be rebuilt.
const NAMED: usize = 1000;

/// Publishes a definition.
pub fn publish(
    store: &dyn Backend,
    tenant: Option<&str>,
    definition: PreparedDefinition,
) -> Result<Published, Failure> {
    block_on(check_pools(store, tenant, &definition.plan))?;
    Ok(block_on(store.publish(NewDefinition {
        tenant: tenant.map(Into::into),
        workflow: definition.plan.workflow().into(),
        display_name: definition.display_name,
        digest: definition.digest,
        text: definition.text,
        signature: definition.signature,
        at: now(),
    }))?)
}

/// Allows or refuses new runs of a workflow.
pub fn set_enabled(
    store: &dyn Backend,
    tenant: Option<&str>,
    workflow: &str,
    enabled: bool,
) -> Result<(), Failure> {
    if block_on(store.set_enabled(tenant, workflow, enabled))? {
        Ok(())
    } else {
        Err(block_on(unknown(store, tenant, workflow)))
    }
}

/// There is no such workflow; the hint names the one with the nearest name.
pub async fn unknown(store: &dyn Backend, tenant: Option<&str>, workflow: &str) -> Failure {
    let message = format!("there is no workflow '{workflow}'");
    let meant = meant(store, tenant, workflow).await;
    let hint = "`windlass workflows` lists them; `windlass publish FILE` adds one";
    Failure::new(FailureKind::WorkflowNotFound, message).hint(meant.as_deref().unwrap_or(hint))
}

/// The sentence that suggests the workflow with the nearest name, if one is near and none has it.
pub async fn meant(store: &dyn Backend, tenant: Option<&str>, workflow: &str) -> Option<String> {
    let filter = TenantFilter::Only(tenant.map(Into::into));
    // A suggestion is worth no second failure.
    let rows = store.workflows(&filter).await.ok()?;
    let is_known = rows.iter().any(|row| &*row.workflow == workflow);
    let names = rows.iter().map(|row| &*row.workflow);
    nearest(workflow, names).filter(|_| !is_known)
}

/// The sentence that says that no workflow has this id, with the one that was probably meant;
/// nothing if one has it, or if that cannot be asked.
pub async fn absent(store: &dyn Backend, tenant: Option<&str>, workflow: &str) -> Option<String> {
    let filter = TenantFilter::Only(tenant.map(Into::into));
    let rows = store.workflows(&filter).await.ok()?;
    if rows.iter().any(|row| &*row.workflow == workflow) {
        return None;
    }
    let meant = nearest(workflow, rows.iter().map(|row| &*row.workflow));
    let meant = meant.unwrap_or_else(|| "`windlass workflows` lists them".to_owned());
    Some(format!("no workflow has the id '{workflow}'; {meant}"))
}

/// Why a run was not started, with the workflow that was probably meant where there is none of
/// that name.
pub async fn not_started(store: &dyn Backend, tenant: Option<&str>, error: StartError) -> Failure {
    let StartError::UnknownWorkflow { workflow, .. } = &error else {
        return error.into();
    };
    match store.workflow(tenant, workflow).await {
        Ok(None) => unknown(store, tenant, workflow).await,
        _ => {
            let hint = format!("`windlass workflows versions {workflow}` lists its versions");
            Failure::from(error).hint(hint)
        }
    }
}

/// Refuses what would start a workflow that the catalogue lacks.
///
/// # Errors
/// It lacks it, or the store failed.
pub async fn must_have(
    store: &dyn Backend,
    tenant: Option<&str>,
    workflow: &str,
) -> Result<(), Failure> {
    match store.workflow(tenant, workflow).await? {
        Some(_) => Ok(()),
        None => Err(unknown(store, tenant, workflow).await),
    }
}

/// What became of a rebuilding.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Rebuilt {
    /// Runs whose rows were made anew.
    pub rebuilt: usize,
    /// Runs that were left as they are, and why; the first of them.
    pub quarantined: Vec<(RunId, String)>,
    /// How many were left as they are.
    pub left: usize,
}

/// Makes the rows of every run anew from its log. Runs may go on meanwhile.
pub fn rebuild(
    store: &dyn Backend,
    plans: &Plans,
    mut progress: impl FnMut(usize),
) -> Result<Rebuilt, Failure> {
    let mut done = Rebuilt::default();
    let mut after = None;
    loop {
        let mut page = store.logged_runs(after, BATCH).wait()?;
        let Some(&last) = page.last() else {
            return Ok(done);
        };
        after = Some(last);
        for _ in 0..LOOKS {
            page = replace(store, plans, page, &mut done)?;
            if page.is_empty() {
                break;
            }
        }
        for run in page {
            // Each of its own records brings the row up to date.
            done.leave(run, "its log grows too fast to be read".to_owned());
        }
        progress(done.rebuilt);
    }
}

/// Replaces the rows of runs; gives those that have gone on meanwhile. If a log has grown
/// meanwhile, the row from it may be older than the one of that append.
fn replace(
    store: &dyn Backend,
    plans: &Plans,
    runs: Vec<RunId>,
    done: &mut Rebuilt,
) -> Result<Vec<RunId>, Failure> {
    let mut rows = Vec::with_capacity(runs.len());
    let mut heads = Vec::with_capacity(runs.len());
    for run in runs {
        match derive(store, plans, run) {
            Ok((head, derived)) => {
                rows.push(derived);
                heads.push((run, head));
            }
            Err(error) => done.leave(run, error.to_string()),
        }
    }
    block_on(store.replace_rows(rows))?;
    let mut again = Vec::new();
    for (run, head) in heads {
        if store.head(run).wait()?.sequence == head {
            done.rebuilt += 1;
        } else {
            again.push(run);
        }
    }
    Ok(again)
}

impl Rebuilt {
    fn leave(&mut self, run: RunId, reason: String) {
        self.left += 1;
        if self.quarantined.len() < NAMED {
            self.quarantined.push((run, reason));
        }
    }
}
