//! A fork as the command line asks for it, in the process that holds the data directory, for
//! its own user or for another process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::definition::Definition;
use windlass_core::event::Actor;
use windlass_core::plan::Plan;
use windlass_core::run::Run;
use windlass_core::{Digest, NodeStatus, RunId};
use windlass_engine::fork::{Ask, CompensatedNode, Fork, ForkGraph, definition_text, fork};
use windlass_engine::{Backend, FROZEN_AT, LoadError, Plans, ValueReader, check_trigger, load_run};
use windlass_store::{Wait as _, block_on};

use crate::catalogue;
use crate::failure::{Failure, FailureKind};
use crate::launch::refuse_disabled;
use crate::moment::now;
use crate::overrides::Overrides;
use crate::source::prepare_text;

/// The request for a fork.
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
    /// Whether results that compensation has undone are reused like others.
    #[serde(default)]
    pub reuse_compensated: bool,
    /// Unique per tenant and workflow.
    pub request_id: Option<Box<str>>,
    /// Who forks, and why.
    #[serde(flatten)]
    pub actor: Actor,
}

impl ForkAsked {
    /// What the caller asks for, apart from who asks and why. A command that is repeated with
    /// its request id may find the fork itself as `@last`: it means the run that was forked.
    fn digest(&self, origin: &Run) -> Digest {
        let queued = origin.queued();
        let is_repeated = self.request_id.as_ref() == Some(&queued.request_id);
        let forked = queued.origin.as_ref().filter(|_| is_repeated);
        let asked = (
            forked.map_or(self.origin, |forked| forked.execution_id),
            (&self.from, &self.set),
            (self.newest, self.version, self.reuse_compensated),
        );
        Digest::of(format!("fork {asked:?}").as_bytes())
    }
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
        reuse_compensated: asked.reuse_compensated,
        actor: asked.actor.clone(),
    };
    if overrides.changes_trigger() {
        let trigger = values.resolve(&origin.queued().trigger).wait()?;
        ask.trigger = Some(overrides.apply_to_trigger(trigger.to_string())?);
    }
    let mut forked = fork(store, plans, values, &ask)?;
    overrides.refuse_reused(&plan, &forked.reused)?;
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
    forked.new_run.request.asked = Some(asked.digest(&origin));
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
    let compensated: Vec<Value> = forked
        .compensated
        .iter()
        .map(|it| {
            let status = it.compensation.as_str();
            json!({ "node": it.node, "status": status, "reused": it.reused })
        })
        .collect();
    let new = &forked.new_run;
    json!({
        "origin": origin, "workflowId": new.plan.workflow(), "version": new.version,
        "graph": if new.frozen.is_some() { "frozen" } else { "version" },
        "again": forked.again, "reused": forked.reused, "rest": rest,
        "compensated": compensated,
    })
}

/// What a fork would do, in the order in which people ask, a line each: what is marked was
/// compensated in the old run.
pub fn to_lines(forked: &Fork) -> Vec<String> {
    let marks: BTreeMap<&str, &str> = forked
        .compensated
        .iter()
        .map(|it| (&*it.node, mark(it.compensation)))
        .collect();
    let listed = |nodes: &[Box<str>]| {
        let marked = nodes.iter().map(|node| match marks.get(&**node) {
            Some(mark) => format!("{node} ({mark})"),
            None => node.to_string(),
        });
        match marked.collect::<Vec<_>>() {
            nodes if nodes.is_empty() => "nothing".to_owned(),
            nodes => nodes.join(", "),
        }
    };
    let mut lines = vec![
        format!("again: {}", listed(&forked.again)),
        format!("reused: {}", listed(&forked.reused)),
    ];
    // What is inside a loop that is reused as a whole, or that runs again, is not named above.
    let named: BTreeSet<&Box<str>> = forked.again.iter().chain(&forked.reused).collect();
    let is_inside = |it: &&CompensatedNode| !named.contains(&it.node);
    let inside = forked.compensated.iter().filter(is_inside);
    let inside: Vec<String> = inside
        .map(|it| {
            let comes = if it.reused { "reused" } else { "again" };
            format!("{} ({}, {comes})", it.node, mark(it.compensation))
        })
        .collect();
    if !inside.is_empty() {
        lines.push(format!("inside those: {}", inside.join(", ")));
    }
    if !forked.rest.is_empty() {
        let rest = forked.rest.iter();
        let rest: Vec<String> = rest
            .map(|(node, status)| format!("{node} (was {status})"))
            .collect();
        lines.push(format!("without a result to reuse: {}", rest.join(", ")));
    }
    lines
}

fn mark(compensation: NodeStatus) -> &'static str {
    match compensation {
        NodeStatus::Succeeded => "compensated",
        NodeStatus::Failed => "its compensation failed",
        _ => "being compensated",
    }
}

/// The graph that the fork walks: the old run's, or that of a version, and with changed
/// parameters one of its own.
fn graph(
    store: &dyn Backend,
    plans: &Plans,
    asked: &ForkAsked,
    overrides: &Overrides,
    origin: &windlass_core::run::Run,
) -> Result<(ForkGraph, Arc<Plan>), Failure> {
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
                None => block_on(catalogue::unknown(store, tenant, workflow)),
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
        None => (ForkGraph::Same, Arc::clone(origin.plan())),
        Some(row) => {
            let plan = plans
                .plan(row.digest, &row.text)
                .map_err(|error| LoadError::Definition(error.to_string()))?;
            let graph = ForkGraph::Version {
                version: row.version,
                definition: row.digest,
                plan: Arc::clone(&plan),
            };
            (graph, plan)
        }
    })
}

/// A graph of the fork's own, with other parameters.
fn changed(text: &str, overrides: &Overrides) -> Result<(ForkGraph, Arc<Plan>), Failure> {
    let unreadable = |error| Failure::new(FailureKind::DefinitionUnreadable, error);
    let mut definition: Definition = serde_json::from_str(text).map_err(unreadable)?;
    overrides.apply_to_nodes(&mut definition)?;
    let labels = &mut definition.labels;
    labels.insert(FROZEN_AT.into(), now().to_string().into());
    let text = serde_json::to_string(&definition).map_err(unreadable)?;
    let prepared = prepare_text(text.as_bytes())?;
    let plan = prepared.plan;
    debug_assert_eq!(prepared.digest, Digest::of(text.as_bytes()));
    let graph = ForkGraph::Frozen {
        text: text.into(),
        plan: Arc::clone(&plan),
    };
    Ok((graph, plan))
}
