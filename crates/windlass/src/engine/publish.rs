//! Workflows on their way into the catalogue: published if their content is new, with the
//! plan that their runs walk.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::definition::{Definition, InFlight, Node};
use windlass_core::plan::{BuildError, Plan};
use windlass_core::{Digest, Millis};
use windlass_store::NewDefinition;

use super::error::PublishError;
use crate::workflow::Workflow;

/// A workflow that runs can be started of.
#[derive(Clone)]
pub(super) struct Published {
    /// What the builder made.
    pub(super) source: Digest,
    pub(super) plan: Arc<Plan>,
    pub(super) version: u32,
    pub(super) digest: Digest,
}

/// Publishes a workflow, unless its newest version is the same.
pub(super) async fn publish(
    engine: &windlass_engine::Engine,
    workflow: &Workflow,
    now: Millis,
) -> Result<Published, PublishError> {
    let (definition, text) = runnable(workflow);
    let digest = Digest::of(&text);
    let size = text.len();
    let display_name = definition.display_name.clone();
    let plan = match engine.plans().get(&digest) {
        Some(plan) => plan,
        None => Arc::new(
            Plan::build(definition).map_err(|error| PublishError::Unsupported {
                workflow: workflow.id().into(),
                reason: error.to_string(),
            })?,
        ),
    };
    let published = engine.store().publish(NewDefinition {
        workflow: workflow.id().into(),
        display_name,
        digest,
        text,
        signature: workflow.signature(),
        at: now,
    });
    let version = published.await.map_err(PublishError::Store)?.version;
    engine.plans().insert(digest, &plan, size);
    Ok(Published {
        source: source(workflow),
        plan,
        version,
        digest,
    })
}

/// Tells one workflow of an id from another.
pub(super) fn source(workflow: &Workflow) -> Digest {
    Digest::of(workflow.json().as_bytes())
}

/// The definition as this engine runs it. Where the engine does not heal runs, they stay
/// on the graph that they started on; where it does, the definition is what was built.
fn runnable(workflow: &Workflow) -> (Definition, Arc<[u8]>) {
    let definition = workflow.definition().clone();
    let heals = match Plan::check_support(&definition) {
        Err(BuildError::Unsupported(missing)) => missing.feature != HEALING,
        _ => true,
    };
    if heals {
        return (definition, workflow.text());
    }
    let pinned = Definition {
        in_flight: InFlight::Pinned,
        ..definition
    };
    let text = serde_json::to_vec(&pinned).expect("a definition is JSON");
    (pinned, text.into())
}

/// What the plan calls healing when it does not know it.
const HEALING: &str = "inFlight: healing";

/// Refuses a workflow with an action that nobody registered.
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
