//! A fork as the command line asks for it, in the process that holds the data directory,
//! whoever asked.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::definition::Definition;
use windlass_core::event::Hand;
use windlass_core::plan::Plan;
use windlass_core::{Digest, RunId};
use windlass_engine::fork::{Ask, Fork, Graph, definition_text, fork};
use windlass_engine::{Backend, FROZEN_AT, LoadError, Plans, ValueReader, check_trigger, load_run};
use windlass_store::Wait as _;

use crate::catalogue;
use crate::failure::{Failure, FailureKind};
use crate::launch::refuse_disabled;
use crate::moment::now;
use crate::overrides::Overrides;
use crate::source::prepare_text;

/// What a fork is asked for with.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkAsked {
    /// The old run.
    pub origin: RunId,
    /// The new run's id, if there is none for the request id yet.
    pub run: RunId,
    /// The nodes that run again, with all after them.
    pub from: Vec<String>,
    /// Changes, as `--set` has them.
    pub set: Vec<String>,
    /// Whether the newest version is taken.
    pub newest: bool,
    /// The version that is taken instead of the old run's.
    pub version: Option<u32>,
    /// Unique per tenant and workflow.
    pub request_id: Option<Box<str>>,
    /// Who forks, and why.
    #[serde(flatten)]
    pub hand: Hand,
}

/// Makes the request that starts the fork; nothing is written.
pub fn prepare(
    store: &dyn Backend,
    plans: &Plans,
    values: &ValueReader,
    asked: &ForkAsked,
) -> Result<Fork, Failure> {
    let overrides = Overrides::parse(&asked.set)?;
    let origin = load_run(store, plans, asked.origin, |_, _| {})?.run;
    let workflow = &origin.queued().workflow;
    refuse_disabled(store, origin.queued().tenant.as_deref(), workflow).wait()?;
    let (graph, plan) = graph(store, plans, asked, &overrides, &origin)?;
    let mut ask = Ask {
        origin: asked.origin,
        from: asked.from.clone(),
        graph,
        trigger: None,
        vars: Default::default(),
        hand: asked.hand.clone(),
    };
    if overrides.changes_trigger() {
        let trigger = values.resolve(&origin.queued().trigger).wait()?;
        ask.trigger = Some(overrides.apply_to_trigger(trigger.to_string())?);
    }
    let mut forked = fork(store, plans, values, &ask)?;
    let mut known = plan.vars().clone();
    known.extend(forked.new_run.request.vars.clone());
    forked
        .new_run
        .request
        .vars
        .extend(overrides.vars_of(&known)?);
    forked.new_run.run = Some(asked.run);
    forked
        .new_run
        .request
        .request_id
        .clone_from(&asked.request_id);
    check_trigger(&plan, &forked.new_run.request.trigger)?;
    Ok(forked)
}

/// What a fork would do, for programs.
pub fn to_json(origin: RunId, forked: &Fork) -> Value {
    let rest: Vec<Value> = forked
        .rest
        .iter()
        .map(|(node, status)| json!({ "node": node, "status": status.as_str() }))
        .collect();
    let new = &forked.new_run;
    json!({
        "origin": origin, "workflowId": new.plan.workflow(), "version": new.version,
        "graph": if new.frozen.is_some() { "frozen" } else { "version" },
        "again": forked.again, "reused": forked.reused, "rest": rest,
    })
}

/// The graph that the fork walks: the old run's, or that of a version, and with changed
/// parameters one of its own.
fn graph(
    store: &dyn Backend,
    plans: &Plans,
    asked: &ForkAsked,
    overrides: &Overrides,
    origin: &windlass_core::run::Run,
) -> Result<(Graph, Arc<Plan>), Failure> {
    let workflow = &*origin.queued().workflow;
    let row = match (asked.newest, asked.version) {
        (false, None) => None,
        (_, version) => {
            let tenant = origin.queued().tenant.as_deref();
            let row = store.definition(tenant, workflow, version).wait()?;
            Some(row.ok_or_else(|| match version {
                Some(version) => {
                    let message = format!("workflow '{workflow}' has no version {version}");
                    Failure::new(FailureKind::VersionNotFound, message).hint(format!(
                        "`windlass workflows versions {workflow}` lists them"
                    ))
                }
                None => catalogue::unknown(workflow),
            })?)
        }
    };
    if overrides.changes_nodes() {
        let text = match row {
            Some(row) => String::from_utf8_lossy(&row.text).into_owned(),
            None => definition_text(store, origin)?,
        };
        return changed(&text, overrides);
    }
    Ok(match row {
        None => (Graph::Same, Arc::clone(origin.plan())),
        Some(row) => {
            let plan = plans
                .plan(row.digest, &row.text)
                .map_err(|error| LoadError::Definition(error.to_string()))?;
            let graph = Graph::Version {
                version: row.version,
                definition: row.digest,
                plan: Arc::clone(&plan),
            };
            (graph, plan)
        }
    })
}

/// A graph of the fork's own, with other parameters.
fn changed(text: &str, overrides: &Overrides) -> Result<(Graph, Arc<Plan>), Failure> {
    let unreadable = |error| Failure::new(FailureKind::DefinitionUnreadable, error);
    let mut definition: Definition = serde_json::from_str(text).map_err(unreadable)?;
    overrides.apply_to_nodes(&mut definition)?;
    let labels = &mut definition.labels;
    labels.insert(FROZEN_AT.into(), now().to_string().into());
    let text = serde_json::to_string(&definition).map_err(unreadable)?;
    let prepared = prepare_text(text.as_bytes())?;
    let plan = prepared.plan;
    debug_assert_eq!(prepared.digest, Digest::of(text.as_bytes()));
    let graph = Graph::Frozen {
        text: text.into(),
        plan: Arc::clone(&plan),
    };
    Ok((graph, plan))
}
