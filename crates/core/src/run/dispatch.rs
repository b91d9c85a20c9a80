//! What a worker is given: enough to render the parameters and call the action,
//! without the run's state.

use std::sync::Arc;

use windlass_expr::{Reference, Template};

use super::{Held, Run};
use crate::id::{Millis, RunId};
use crate::plan::NodeIndex;
use crate::status::NodeStatus;
use crate::value::ValueRef;

/// One attempt, handed to a worker.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The run.
    pub run: RunId,
    /// The run's workflow.
    pub workflow: Arc<str>,
    /// The node.
    pub node: NodeIndex,
    /// The node instance's path.
    pub path: Box<str>,
    /// The attempt's number.
    pub attempt: u32,
    /// The action to call.
    pub action: Arc<str>,
    /// The attempt's time.
    pub timeout_ms: u64,
    /// The same for automatic retries; a reattempt by hand appends its number.
    pub idempotency_key: String,
    /// What ties the run to the outside.
    pub correlation_id: Arc<str>,
    /// Whose run it is.
    pub tenant: Option<Box<str>>,
    /// The parameters to render, if the node has any.
    pub parameters: Option<Arc<Template>>,
    /// What the template's references stand for, slot by slot.
    pub sources: Vec<Source>,
    /// Whether another node may soon read the output.
    pub keep_output: bool,
    /// Why the parameters cannot be rendered, though publishing checked them.
    pub broken: Option<String>,
}

/// Where a reference's value comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// There is none.
    Undefined,
    /// JSON text at hand.
    Text(Arc<str>),
    /// A stored value.
    Stored(ValueRef),
    /// The stored error of a failed node, to be wrapped as `{error, errorNode}`.
    Error {
        /// Where the error is.
        value: ValueRef,
        /// The node that failed.
        node: Box<str>,
    },
    /// The run's variables.
    Vars(Vec<(Box<str>, Held)>),
    /// A secret, which only the worker knows.
    Secret(Box<str>),
}

impl Run {
    /// The present attempt of a node, for a worker.
    pub fn dispatch(&self, node: NodeIndex, now: Millis) -> Dispatch {
        let (parameters, broken) = match self.plan.parameters(node) {
            Ok(parameters) => (parameters, None),
            Err(message) => (None, Some(message)),
        };
        let sources = parameters
            .iter()
            .flat_map(|template| template.references())
            .map(|reference| self.source(reference, node, now))
            .collect();
        Dispatch {
            run: self.id,
            workflow: Arc::clone(&self.workflow),
            node,
            path: self.plan.id(node).into(),
            attempt: self.attempt(node),
            action: self.plan.shared_action(node),
            timeout_ms: self.plan.timeout_ms(node),
            idempotency_key: self.idempotency_key(node),
            correlation_id: Arc::clone(&self.correlation_id),
            tenant: self.queued.tenant.clone(),
            parameters,
            sources,
            keep_output: self.plan.reads_outputs(),
            broken,
        }
    }

    /// `runId/node`; with the number of the attempt a person began, where one did.
    pub fn idempotency_key(&self, node: NodeIndex) -> String {
        let first = self.state(node).first_attempt;
        let path = self.plan.id(node);
        if first > 1 {
            format!("{}/{path}/{first}", self.id)
        } else {
            format!("{}/{path}", self.id)
        }
    }

    fn source(&self, reference: &Reference, node: NodeIndex, now: Millis) -> Source {
        match reference {
            Reference::Entry { table, key } if &**table == "secrets" => Source::Secret(key.clone()),
            Reference::Entry { key, .. } => self.data_source(key),
            Reference::Value(name) => match &**name {
                "trigger" | "$" => held_source(&self.trigger),
                "vars" => Source::Vars(
                    self.vars
                        .iter()
                        .map(|(name, held)| (name.clone(), held.clone()))
                        .collect(),
                ),
                "run" => Source::Text(self.run_value(Some(node)).to_string().into()),
                "now" => Source::Text(format!("\"{now}\"").into()),
                "uuid" => Source::Text(format!("\"{}\"", self.uuid(Some(node))).into()),
                _ => Source::Undefined,
            },
        }
    }

    fn data_source(&self, key: &str) -> Source {
        let Some(node) = self.plan.index(key) else {
            return Source::Undefined;
        };
        match self.value(node) {
            None => Source::Undefined,
            Some(value) if self.node_status(node) == NodeStatus::Failed => Source::Error {
                value,
                node: key.into(),
            },
            Some(value) => Source::Stored(value),
        }
    }
}

fn held_source(held: &Held) -> Source {
    match (held.text(), held.blob()) {
        (Some(text), _) => Source::Text(Arc::clone(text)),
        (None, Some(blob)) => Source::Stored(blob),
        (None, None) => Source::Undefined,
    }
}
