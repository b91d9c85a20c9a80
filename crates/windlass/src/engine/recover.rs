//! What an engine does on opening with runs that have not ended: it recovers those whose actions it
//! knows, and leaves the others to an engine that knows theirs.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::definition::Definition;
use windlass_core::{RunId, RunStatus};
use windlass_store::{Error, RunRow};

use super::publish::{Published, each_action};

/// How many runs are looked at together.
const PAGE: usize = 256;

/// What was found unfinished when an engine was opened.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Runs that this engine executes.
    pub recovered: Vec<RunId>,
    /// Runs that are paused, and stay so until they are resumed.
    pub paused: Vec<RunId>,
    /// Runs that are left alone, each with its reason: they cannot be read, or call
    /// actions that are not registered here; those that sleep are among them.
    pub left: Vec<(RunId, String)>,
}

pub(super) async fn recover(
    engine: &windlass_engine::Engine,
    registered: &BTreeMap<Box<str>, Published>,
    actions: &BTreeSet<Box<str>>,
) -> Result<Recovery, Error> {
    let mut recovery = Recovery::default();
    let mut known = RegisteredActions {
        engine,
        registered,
        actions,
        seen: BTreeMap::new(),
    };
    let mut after = None;
    loop {
        let page = engine.store().unfinished(after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(recovery);
        };
        after = Some(last.run);
        for row in page {
            if let Some(reason) = known.missing(&row).await? {
                recovery.left.push((row.run, reason));
                continue;
            }
            // What sleeps is woken when its time or its signal comes.
            if row.asleep {
                continue;
            }
            match engine.recover(row.run).await {
                Ok(()) if row.status == RunStatus::Paused => recovery.paused.push(row.run),
                Ok(()) => recovery.recovered.push(row.run),
                Err(error) => recovery.left.push((row.run, error.to_string())),
            }
        }
    }
}

/// Works on the share of the runs that leases give.
pub(super) async fn serve(engine: &windlass_engine::Engine) -> Result<Recovery, Error> {
    let serving = windlass_engine::Serving::default();
    let found = engine.serve(serving).await?;
    let left = found.quarantined.into_iter().chain(found.dead_lettered);
    Ok(Recovery {
        recovered: found.recovered,
        paused: found.paused,
        left: left.collect(),
    })
}

/// A version of a workflow: its tenant, its id and its number.
type Version = (Option<Box<str>>, Box<str>, u32);

/// Which definitions' actions are all registered.
struct RegisteredActions<'a> {
    engine: &'a windlass_engine::Engine,
    registered: &'a BTreeMap<Box<str>, Published>,
    actions: &'a BTreeSet<Box<str>>,
    seen: BTreeMap<Version, Option<String>>,
}

impl RegisteredActions<'_> {
    /// Why a run would fail here for want of an action. A run of a registered workflow goes on
    /// in any case: its code is here, and must register the actions that it calls.
    async fn missing(&mut self, row: &RunRow) -> Result<Option<String>, Error> {
        if self.registered.contains_key(&row.workflow) {
            return Ok(None);
        }
        let key = (row.tenant.clone(), row.workflow.clone(), row.version);
        if let Some(reason) = self.seen.get(&key) {
            return Ok(reason.clone());
        }
        let reason = self.queries(row).await?;
        self.seen.insert(key, reason.clone());
        Ok(reason)
    }

    async fn queries(&self, row: &RunRow) -> Result<Option<String>, Error> {
        let store = self.engine.store();
        let tenant = row.tenant.as_deref();
        let stored = store
            .definition(tenant, &row.workflow, Some(row.version))
            .await?;
        let definition = stored.and_then(|stored| serde_json::from_slice(&stored.text).ok());
        let Some::<Definition>(definition) = definition else {
            // The engine says why, if it cannot recover the run.
            return Ok(None);
        };
        let mut missing = None;
        each_action(&definition.nodes, &mut |node, action| {
            if missing.is_none() && !self.actions.contains(action) {
                missing = Some(format!(
                    "its node '{node}' calls '{action}', which is not registered here; register \
                     it, or the workflow '{}', and open the engine again",
                    row.workflow
                ));
            }
        });
        Ok(missing)
    }
}
