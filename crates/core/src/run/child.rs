//! Child runs (semantics §8), as their parent knows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::apply::Change;
use super::frame::Instance;
use super::{Held, Run};
use crate::definition::Isolation;
use crate::event::{Compensation, RunFailure};
use crate::id::{Digest, Millis, RunId};
use crate::plan::Structure;
use crate::status::{NodeStatus, RunStatus};
use crate::value::{Payload, ValueRef};

/// Runs may be nested this deep.
pub(crate) const MAX_DEPTH: u32 = 32;

/// How a child run ended.
#[derive(Clone, Debug)]
pub struct ChildEnd {
    /// The child.
    pub child: RunId,
    /// The status it ended with.
    pub status: RunStatus,
    /// Its output, if it succeeded.
    pub output: Payload,
    /// Its error, if it failed.
    pub error: Option<RunFailure>,
    /// Its variables at the end, where it shares them with its parent.
    pub vars: BTreeMap<Box<str>, Payload>,
    /// Whether it was undone.
    pub compensation: Option<Compensation>,
}

impl ChildEnd {
    pub(crate) fn timed_out(&self) -> bool {
        let error = self.error.as_ref();
        error.is_some_and(|error| &*error.code == "RUN_TIMEOUT")
    }
}

/// A child run to be started.
#[derive(Clone, Debug)]
pub struct ChildStart {
    /// Its workflow.
    pub workflow: Box<str>,
    /// Its version; none means the newest.
    pub version: Option<u32>,
    /// Where its trigger is kept.
    pub input: ValueRef,
    /// What it shares with its parent.
    pub isolation: Isolation,
    /// The parent's variables, where it shares them.
    pub vars: Vec<(Box<str>, Held)>,
    /// The parent's node.
    pub path: Box<str>,
    /// How many runs are above it.
    pub depth: u32,
    /// Its tenant.
    pub tenant: Option<Box<str>>,
    /// The id that ties it to other systems.
    pub correlation_id: Box<str>,
    /// From 0 to 9.
    pub priority: u8,
    /// The trace context of the request for the parent.
    pub traceparent: Option<Box<str>>,
}

/// A child run that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Child {
    pub(crate) run: RunId,
    pub(crate) input: ValueRef,
}

impl Run {
    /// The child run that a node waits for.
    pub fn child(&self, node: Instance) -> Option<RunId> {
        self.children.get(&node).map(|child| child.run)
    }

    /// What a node's child is started with.
    pub fn child_start(&self, node: Instance) -> Option<ChildStart> {
        let child = self.children.get(&node)?;
        let Some(Structure::Subworkflow(subworkflow)) = self.structure(node) else {
            return None;
        };
        let shares = subworkflow.isolation == Isolation::Shared;
        let vars = self.vars.iter().filter(|_| shares);
        Some(ChildStart {
            workflow: subworkflow.workflow.clone(),
            version: subworkflow.version,
            input: child.input,
            isolation: subworkflow.isolation,
            vars: vars
                .map(|(name, held)| (name.clone(), held.clone()))
                .collect(),
            path: self.path(node),
            depth: self.queued.depth + 1,
            tenant: self.queued.tenant.clone(),
            correlation_id: self.queued.correlation_id.clone(),
            priority: self.queued.priority,
            traceparent: self.queued.traceparent.clone(),
        })
    }

    /// The child run that this instance undoes.
    pub fn undone_child(&self, node: Instance) -> Option<RunId> {
        self.transactional.get(&self.undone(node)?).copied()
    }

    /// All child runs that have not ended, with their nodes and attempts.
    pub fn open_children(&self) -> impl Iterator<Item = (Instance, u32, RunId)> + '_ {
        let children = self.children.iter();
        children.map(|(&node, child)| (node, self.attempt(node), child.run))
    }

    /// The node that has this child, or undoes it, with its attempt.
    pub fn node_of_child(&self, child: RunId) -> Option<(Instance, u32)> {
        let open = self.open_children().find(|(_, _, run)| *run == child);
        if let Some((node, attempt, _)) = open {
            return Some((node, attempt));
        }
        let undoing = self.undo.as_ref()?.instances();
        let mut undoing = undoing.filter(|&node| self.undone_child(node) == Some(child));
        undoing.next().map(|node| (node, self.attempt(node)))
    }

    /// What a node's child shares with this run.
    pub fn isolation(&self, node: Instance) -> Isolation {
        match self.structure(node) {
            Some(Structure::Subworkflow(child)) => child.isolation,
            _ => Isolation::Isolated,
        }
    }

    /// The id of a node's next child: the same for the same attempt.
    pub(crate) fn child_id(&self, node: Instance, now: Millis) -> RunId {
        let text = format!("{}/{}/{}", self.id, self.path(node), self.attempt(node));
        let digest = Digest::of(text.as_bytes());
        let mut random = [0; 10];
        random.copy_from_slice(&digest.0[..10]);
        RunId::new(now, random)
    }

    /// Whether a node is a child run that waits for its next attempt.
    pub(crate) fn is_retried_child(&self, node: Instance) -> bool {
        matches!(self.structure(node), Some(Structure::Subworkflow(_)))
            && !self.children.contains_key(&node)
    }

    /// The node has ended: lets its child go, or remembers it for undoing.
    pub(crate) fn close_child(
        &mut self,
        node: Instance,
        status: NodeStatus,
        changes: &mut Vec<Change>,
    ) {
        let Some(child) = self.children.remove(&node) else {
            return;
        };
        // A node whose result was set by hand does not wait for its child's.
        let succeeded = status == NodeStatus::Succeeded && !self.state(node).by_hand;
        if succeeded && self.isolation(node) == Isolation::Transactional {
            self.transactional.insert(node, child.run);
        }
        // A child that failed by itself needs no message.
        if !succeeded {
            changes.push(Change::ChildLetGo(node, child.run));
        }
    }
}
