//! Workflows on their way into the catalogue: published if their content is new, with the
//! plan that their runs walk.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::definition::Node;
use windlass_core::plan::Plan;
use windlass_core::{Digest, Millis};
use windlass_store::NewDefinition;

use super::error::PublishError;
use crate::workflow::Workflow;

/// A workflow of which runs can be started.
#[derive(Clone)]
pub(super) struct Published {
    /// What the builder made.
    pub(super) source: Digest,
    pub(super) plan: Arc<Plan>,
    pub(super) version: u32,
    pub(super) digest: Digest,
    /// The text of a graph that belongs to one run alone.
    pub(super) frozen: Option<Arc<str>>,
}

/// Publishes a workflow, unless its newest version is the same.
pub(super) async fn publish(
    engine: &windlass_engine::Engine,
    workflow: &Workflow,
    now: Millis,
) -> Result<Published, PublishError> {
    if let Some(revision) = workflow.own_revision()
        && is_older(engine, workflow.id(), revision).await?
        && let Some(newest) = newest(engine, workflow).await?
    {
        return Ok(newest);
    }
    let text = workflow.text();
    let digest = Digest::of(&text);
    let display_name = workflow.definition().display_name.clone();
    let plan = plan(engine, workflow, digest, text.len())?;
    let published = engine.store().publish(NewDefinition {
        tenant: None,
        workflow: workflow.id().into(),
        display_name,
        digest,
        text,
        signature: workflow.signature(),
        at: now,
    });
    let version = published.await.map_err(PublishError::Store)?.version;
    Ok(Published {
        source: source(workflow),
        plan,
        version,
        digest,
        frozen: None,
    })
}

/// The kind of the notes that say which revision of a workflow was published last.
const REVISION: &str = "revision";

/// Whether a higher revision was published; else this one is noted.
async fn is_older(
    engine: &windlass_engine::Engine,
    workflow: &str,
    revision: u32,
) -> Result<bool, PublishError> {
    let store = engine.store();
    let noted = store.note_at(REVISION, workflow).await;
    let noted = noted.map_err(PublishError::Store)?;
    let noted = noted.and_then(|bytes| String::from_utf8(bytes).ok()?.parse::<u32>().ok());
    match noted {
        Some(newest) if newest > revision => Ok(true),
        Some(newest) if newest == revision => Ok(false),
        _ => {
            let note = revision.to_string().into_bytes();
            let kept = store.keep_note(REVISION, workflow, note).await;
            kept.map_err(PublishError::Store)?;
            Ok(false)
        }
    }
}

/// The newest published version of a workflow, whose runs this process starts though its own code
/// is older.
async fn newest(
    engine: &windlass_engine::Engine,
    workflow: &Workflow,
) -> Result<Option<Published>, PublishError> {
    let row = engine.store().definition(None, workflow.id(), None).await;
    let Some(row) = row.map_err(PublishError::Store)? else {
        return Ok(None);
    };
    let plan = engine.plans().plan(row.digest, &row.text);
    let plan = plan.map_err(|error| PublishError::Unsupported {
        workflow: workflow.id().into(),
        reason: error.to_string(),
    })?;
    Ok(Some(Published {
        source: source(workflow),
        plan,
        version: row.version,
        digest: row.digest,
        frozen: None,
    }))
}

/// A graph that belongs to one run alone: nothing is published.
pub(super) fn freeze(
    engine: &windlass_engine::Engine,
    workflow: &Workflow,
) -> Result<Published, PublishError> {
    let text: Arc<str> = workflow.json().into();
    let digest = Digest::of(text.as_bytes());
    Ok(Published {
        source: source(workflow),
        plan: plan(engine, workflow, digest, text.len())?,
        version: 0,
        digest,
        frozen: Some(text),
    })
}

fn plan(
    engine: &windlass_engine::Engine,
    workflow: &Workflow,
    digest: Digest,
    size: usize,
) -> Result<Arc<Plan>, PublishError> {
    if let Some(plan) = engine.plans().get(&digest) {
        return Ok(plan);
    }
    let plan = Plan::build(workflow.definition().clone());
    let plan = Arc::new(plan.map_err(|error| PublishError::Unsupported {
        workflow: workflow.id().into(),
        reason: error.to_string(),
    })?);
    engine.plans().insert(digest, &plan, size);
    Ok(plan)
}

/// Tells one workflow of an id from another.
pub(super) fn source(workflow: &Workflow) -> Digest {
    Digest::of(workflow.json().as_bytes())
}

/// Refuses a workflow with an action that is not registered.
pub(super) fn check_actions(
    workflow: &Workflow,
    known: &BTreeSet<Box<str>>,
) -> Result<(), PublishError> {
    let mut unknown = None;
    each_action(&workflow.definition().nodes, &mut |node, action| {
        if unknown.is_none() && !known.contains(action) {
            unknown = Some((Box::from(node), Box::from(action)));
        }
    });
    match unknown {
        None => Ok(()),
        Some((node, action)) => Err(PublishError::UnknownAction {
            workflow: workflow.id().into(),
            node,
            action,
            known: known.iter().cloned().collect(),
        }),
    }
}

/// Calls `visit` with every action that nodes call, those of bodies and compensations
/// included.
pub(super) fn each_action(nodes: &[Node], visit: &mut dyn FnMut(&str, &str)) {
    for node in nodes {
        let compensation = node.compensate.as_ref().map(|undo| &undo.action_type);
        for action in node.action_type.iter().chain(compensation) {
            visit(&node.id, action);
        }
        let bodies = [
            node.for_each.as_ref().map(|each| &each.body),
            node.while_loop.as_ref().map(|each| &each.body),
            node.retry_until.as_ref().map(|each| &each.body),
        ];
        for body in bodies.into_iter().flatten() {
            each_action(&body.nodes, visit);
        }
    }
}
