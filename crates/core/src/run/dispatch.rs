//! What a worker is given: enough to render the parameters and call the action,
//! without the run's state.

use std::sync::Arc;

use windlass_expr::{Reference, Template};

use super::environment::BodyValue;
use super::frame::{FrameKey, Instance};
use super::{Held, Run};
use crate::definition::Pool;
use crate::id::{Millis, RunId};
use crate::plan::DEFAULT_TIMEOUT_MS;
use crate::status::NodeStatus;
use crate::value::ValueRef;

/// One attempt, handed to a worker.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The run that hands the attempt out.
    pub run: RunId,
    /// The run's workflow.
    pub workflow: Arc<str>,
    /// The version of it that the run is on.
    pub version: u32,
    /// The node instance.
    pub node: Instance,
    /// Its path.
    pub path: Box<str>,
    /// The attempt's number.
    pub attempt: u32,
    /// The action to call.
    pub action: Arc<str>,
    /// The attempt's time.
    pub timeout_ms: u64,
    /// The attempt with which the present retry budget began: the first, or one by hand.
    pub first_attempt: u32,
    /// The id that ties the run to other systems.
    pub correlation_id: Arc<str>,
    /// The tenant of the run.
    pub tenant: Option<Box<str>>,
    /// The parameters to render, if the node has any.
    pub parameters: Option<Arc<Template>>,
    /// What the template's references stand for, slot by slot.
    pub sources: Vec<ValueSource>,
    /// Whether another node may soon read the output.
    pub keep_output: bool,
    /// Why the parameters cannot be rendered, though publishing checked them.
    pub broken: Option<String>,
    /// Whether it undoes the node.
    pub undo: bool,
    /// The trace context of the request for the run.
    pub traceparent: Option<Box<str>>,
    /// The labels that a worker needs to get it.
    pub requires: Vec<Box<str>>,
    /// From 0 to 9: which attempt goes first where workers choose.
    pub priority: u8,
    /// The slots that the attempt holds while it is with a worker.
    pub pool: Option<Pool>,
    /// Whether a process before had the attempt open, and may have given it to a worker that
    /// outlived it.
    pub reopened: bool,
}

/// Where a reference's value comes from.
#[derive(Clone, Debug)]
pub enum ValueSource {
    /// There is no value.
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
    /// An item of a stored list.
    Item(ValueRef, u32),
    /// The run's variables.
    Vars(Vec<(Box<str>, Held)>),
    /// A secret, which only the worker knows.
    Secret(Box<str>),
}

impl Dispatch {
    /// The bytes that rendering the parameters reads. An item counts for nothing: it is found
    /// without reading its list.
    pub fn source_bytes(&self) -> usize {
        let bytes = |source: &ValueSource| match source {
            ValueSource::Text(text) => text.len(),
            ValueSource::Stored(value) | ValueSource::Error { value, .. } => value.size as usize,
            ValueSource::Vars(vars) => vars.iter().map(|(_, held)| held.size() as usize).sum(),
            ValueSource::Undefined | ValueSource::Item(..) | ValueSource::Secret(_) => 0,
        };
        self.sources.iter().map(bytes).sum()
    }

    /// The idempotency key, the same for automatic retries; a reattempt by hand appends its
    /// number.
    pub fn idempotency_key(&self) -> String {
        idempotency_key(self.run, &self.path, self.undo, self.first_attempt)
    }
}

impl Run {
    /// The present attempt of a node, for a worker.
    ///
    /// # Panics
    /// The run has no such instance now.
    pub fn dispatch(&self, node: Instance, now: Millis) -> Dispatch {
        let (plan, index) = self.plan_node(node);
        let undoes = self.undone(node).is_some();
        let undo = plan.compensate(index).filter(|_| undoes);
        let parameters = if undoes {
            plan.undo_parameters(index)
        } else {
            plan.parameters(index)
        };
        let (parameters, broken) = match parameters {
            Ok(parameters) => (parameters, None),
            Err(message) => (None, Some(message)),
        };
        let frame = self.key_of(self.undone(node).unwrap_or(node));
        let sources = parameters
            .iter()
            .flat_map(|template| template.references())
            .map(|reference| self.source(reference, node, frame, now))
            .collect();
        let action = self.called_action(node);
        let timeout_ms = match undo {
            Some(undo) => undo.timeout_ms,
            None => plan.timeout_ms(index),
        };
        let default = self.defaults().and_then(|it| it.action_timeout_ms);
        let timeout_ms = timeout_ms.or(default).unwrap_or(DEFAULT_TIMEOUT_MS);
        let path = self.path(node);
        Dispatch {
            run: self.id,
            workflow: Arc::clone(&self.workflow),
            version: self.version,
            node,
            attempt: self.attempt(node),
            action,
            timeout_ms,
            first_attempt: self.state(node).first_attempt,
            path,
            correlation_id: Arc::clone(&self.correlation_id),
            tenant: self.queued.tenant.clone(),
            parameters,
            sources,
            keep_output: plan.reads_outputs(),
            broken,
            undo: undoes,
            traceparent: self.queued.traceparent.clone(),
            requires: plan.requires(index).to_vec(),
            priority: plan.priority(index).unwrap_or(self.queued.priority),
            pool: plan.pool(index).cloned(),
            reopened: self.state(node).deliveries > 0,
        }
    }

    /// The action of a node's present attempt: its own, or the one that undoes it.
    ///
    /// # Panics
    /// The run has no such instance now.
    pub fn called_action(&self, node: Instance) -> Arc<str> {
        let (plan, index) = self.plan_node(node);
        let undo = plan
            .compensate(index)
            .filter(|_| self.undone(node).is_some());
        match undo {
            Some(undo) => plan.action_name(undo.action),
            None => plan.action_name(plan.nodes[index as usize].action),
        }
    }

    /// The labels that a worker must have to be given the node, or what undoes it.
    ///
    /// # Panics
    /// The run has no such instance now.
    pub fn requires(&self, node: Instance) -> &[Box<str>] {
        let (plan, index) = self.plan_node(node);
        plan.requires(index)
    }

    /// The pool that the node's attempts need slots of, and those that undo it.
    ///
    /// # Panics
    /// The run has no such instance now.
    pub fn pool(&self, node: Instance) -> Option<&Pool> {
        let (plan, index) = self.plan_node(node);
        plan.pool(index)
    }

    /// Which node goes first where several are ready: its own priority, else the run's.
    ///
    /// # Panics
    /// The run has no such instance now.
    pub fn priority_of(&self, node: Instance) -> u8 {
        let (plan, index) = self.plan_node(node);
        plan.priority(index).unwrap_or(self.queued.priority)
    }

    /// `runId/node`, followed by the attempt's number if the attempt was begun by hand.
    ///
    /// # Panics
    /// The run has no such instance now.
    pub fn idempotency_key(&self, node: Instance) -> String {
        let undoes = self.undone(node).is_some();
        let first = self.state(node).first_attempt;
        idempotency_key(self.id, &self.path(node), undoes, first)
    }

    fn source(
        &self,
        reference: &Reference,
        node: Instance,
        frame: FrameKey,
        now: Millis,
    ) -> ValueSource {
        match reference {
            Reference::Entry { table, key } if &**table == "secrets" => {
                ValueSource::Secret(key.clone())
            }
            Reference::Entry { key, .. } => self.data_source(frame, key),
            Reference::Value(name) => match &**name {
                "trigger" | "$" => held_source(&self.trigger),
                "vars" => ValueSource::Vars(
                    self.vars
                        .iter()
                        .map(|(name, held)| (name.clone(), held.clone()))
                        .collect(),
                ),
                "run" => ValueSource::Text(self.run_value(Some(node)).to_string().into()),
                "now" => ValueSource::Text(format!("\"{now}\"").into()),
                "uuid" => ValueSource::Text(format!("\"{}\"", self.uuid(Some(node))).into()),
                "output" | "parameters" => self.undone_source(name, node),
                name => match self.body_value(frame, None, name) {
                    Some(BodyValue::Item(value, index)) => ValueSource::Item(value, index),
                    Some(BodyValue::Stored(value)) => ValueSource::Stored(value),
                    Some(BodyValue::Number(number)) => ValueSource::Text(number.to_string().into()),
                    Some(BodyValue::Null) => ValueSource::Text("null".into()),
                    None => ValueSource::Undefined,
                },
            },
        }
    }

    /// The output or the parameters of a node that is undone.
    fn undone_source(&self, name: &str, node: Instance) -> ValueSource {
        let value = match (name, self.undone(node)) {
            ("output", Some(target)) => self.value(target),
            (_, Some(_)) => self.undone_parameters(node),
            (_, None) => return ValueSource::Undefined,
        };
        value.map_or_else(|| ValueSource::Text("null".into()), ValueSource::Stored)
    }

    fn data_source(&self, frame: FrameKey, key: &str) -> ValueSource {
        let Some(node) = self.named(frame, key) else {
            return ValueSource::Undefined;
        };
        match self.value(node) {
            None => ValueSource::Undefined,
            Some(value) if self.node_status(node) == NodeStatus::Failed => ValueSource::Error {
                value,
                node: self.id_of(node).into(),
            },
            Some(value) => ValueSource::Stored(value),
        }
    }
}

fn idempotency_key(run: RunId, path: &str, undoes: bool, first: u32) -> String {
    use std::fmt::Write as _;
    let mut key = format!("{run}/{path}");
    if undoes {
        key.push_str("/compensate");
    }
    if first > 1 {
        // Writing to a string cannot fail.
        let _ = write!(key, "/{first}");
    }
    key
}

fn held_source(held: &Held) -> ValueSource {
    match (held.text(), held.blob()) {
        (Some(text), _) => ValueSource::Text(Arc::clone(text)),
        (None, Some(blob)) => ValueSource::Stored(blob),
        (None, None) => ValueSource::Undefined,
    }
}
