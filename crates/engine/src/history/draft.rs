//! An event before it has its position, and the parts that many kinds share.

use serde_json::{Map, Value};
use windlass_core::event::{Actor, StopCause};
use windlass_core::run::{Instance, Run};
use windlass_core::{Millis, RunId};

use super::Level;

/// An event before it has its position.
pub(super) struct Draft {
    pub(super) kind: &'static str,
    pub(super) at: Millis,
    pub(super) level: Level,
    pub(super) action: Option<Box<str>>,
    pub(super) node: Option<Box<str>>,
    pub(super) attempt: Option<u32>,
    pub(super) data: Map<String, Value>,
}

impl Draft {
    pub(super) fn new(kind: &'static str, at: Millis) -> Self {
        Self {
            kind,
            at,
            level: Level::Info,
            action: None,
            node: None,
            attempt: None,
            data: Map::new(),
        }
    }

    pub(super) fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    pub(super) fn node(mut self, node: &str) -> Self {
        self.node = Some(node.into());
        self
    }

    pub(super) fn attempt(mut self, attempt: Option<u32>) -> Self {
        self.attempt = attempt;
        self
    }

    /// About an attempt: it comes from the node's action.
    pub(super) fn about(
        mut self,
        run: &Run,
        node: Option<Instance>,
        path: &str,
        attempt: u32,
    ) -> Self {
        self.action = node.and_then(|node| run.action_of(node)).map(Into::into);
        self.node(path).attempt(Some(attempt))
    }

    pub(super) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.data.insert(key.to_owned(), value.into());
        self
    }

    /// With a key that only some events of its kind have.
    pub(super) fn maybe(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    pub(super) fn child(self, child: RunId) -> Self {
        self.with("executionId", child.to_string())
    }

    /// Who did it, and why.
    pub(super) fn actor(self, actor: &Actor) -> Self {
        self.maybe("by", actor.by.as_deref())
            .maybe("reason", actor.reason.as_deref())
    }

    /// Why a node was cancelled.
    pub(super) fn stopped(self, run: &Run) -> Self {
        let cause = run.stop_cause().map(|cause| match cause {
            StopCause::Cancel => "cancel",
            StopCause::FailFast => "failFast",
            StopCause::Timeout => "timeout",
        });
        self.maybe("cause", cause)
    }
}

/// The paths of instances, as a list.
pub(super) fn paths(run: &Run, nodes: &[Instance]) -> Value {
    nodes
        .iter()
        .map(|&node| run.path(node).into_string())
        .collect()
}
