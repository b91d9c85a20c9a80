//! What a node is when it is not one call of an action: a loop, a child run, a wait.

use windlass_expr::{Expression, Reference, Template};

use super::{GraphIndex, NodeIndex, Plan};
use crate::definition::{Isolation, JsonText, OnItemFailure, Retry};

/// What a node is, where it is not one call of an action.
#[derive(Debug)]
pub enum Structure {
    /// Its body once for each item.
    ForEach(ForEach),
    /// Its body for as long as a condition holds.
    While(While),
    /// Its body until it succeeds.
    RetryUntil(RetryUntil),
    /// A child run.
    Subworkflow(Subworkflow),
    /// A wait for a person or another system.
    Signal(Signal),
    /// A durable timer.
    Delay(Delay),
}

/// What a node is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// One call of an action.
    Action,
    /// Its body once for each item.
    ForEach,
    /// Its body for as long as a condition holds.
    While,
    /// Its body until it succeeds.
    RetryUntil,
    /// A child run.
    Subworkflow,
    /// A wait for a person or another system.
    Signal,
    /// A durable timer.
    Delay,
}

impl NodeKind {
    /// The key that makes a node of this kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Action => "actionType",
            Self::ForEach => "forEach",
            Self::While => "while",
            Self::RetryUntil => "retryUntil",
            Self::Subworkflow => "subworkflow",
            Self::Signal => "waitForSignal",
            Self::Delay => "delay",
        }
    }

    /// Whether it repeats a body.
    pub fn is_loop(self) -> bool {
        matches!(self, Self::ForEach | Self::While | Self::RetryUntil)
    }
}

/// A body once for each item of a list.
#[derive(Debug)]
pub struct ForEach {
    pub(crate) items: Template,
    pub(crate) item_name: Option<Box<str>>,
    /// How many iterations are open at once.
    pub(crate) limit: u32,
    pub(crate) on_item_failure: OnItemFailure,
    pub(crate) body: GraphIndex,
}

/// A body for as long as a condition holds.
#[derive(Debug)]
pub struct While {
    pub(crate) condition: Expression,
    pub(crate) max_iterations: u32,
    pub(crate) body: GraphIndex,
}

/// A body until it succeeds and a condition holds.
#[derive(Debug)]
pub struct RetryUntil {
    pub(crate) until: Option<Expression>,
    pub(crate) max_attempts: u32,
    /// The wait between iterations; none means at once.
    pub(crate) backoff: Option<Retry>,
    pub(crate) body: GraphIndex,
}

/// A child run.
#[derive(Debug)]
pub struct Subworkflow {
    pub(crate) workflow: Box<str>,
    pub(crate) version: Option<u32>,
    pub(crate) input: Template,
    pub(crate) output: Option<Template>,
    pub(crate) isolation: Isolation,
}

/// A wait for a signal.
#[derive(Debug)]
pub struct Signal {
    pub(crate) name: Box<str>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) schema: Option<JsonText>,
}

/// A durable timer.
#[derive(Debug)]
pub enum Delay {
    /// For this long.
    For(u64),
    /// Until the moment that the template says.
    Until(Template),
}

impl Structure {
    fn kind(&self) -> NodeKind {
        match self {
            Self::ForEach(_) => NodeKind::ForEach,
            Self::While(_) => NodeKind::While,
            Self::RetryUntil(_) => NodeKind::RetryUntil,
            Self::Subworkflow(_) => NodeKind::Subworkflow,
            Self::Signal(_) => NodeKind::Signal,
            Self::Delay(_) => NodeKind::Delay,
        }
    }

    /// References of what is evaluated for the node itself, without its body.
    pub(crate) fn references(&self) -> &[Reference] {
        match self {
            Self::ForEach(each) => each.items.references(),
            Self::While(repeat) => repeat.condition.references(),
            Self::RetryUntil(repeat) => repeat.until.as_ref().map_or(&[], |e| e.references()),
            Self::Subworkflow(child) => child.input.references(),
            Self::Delay(Delay::Until(until)) => until.references(),
            Self::Signal(_) | Self::Delay(Delay::For(_)) => &[],
        }
    }

    /// The body of a loop.
    pub(crate) fn body(&self) -> Option<GraphIndex> {
        match self {
            Self::ForEach(each) => Some(each.body),
            Self::While(repeat) => Some(repeat.body),
            Self::RetryUntil(repeat) => Some(repeat.body),
            Self::Subworkflow(_) | Self::Signal(_) | Self::Delay(_) => None,
        }
    }
}

impl Plan {
    /// What a node is, where it is not one call of an action.
    pub fn structure(&self, node: NodeIndex) -> Option<&Structure> {
        self.rare(node)?.structure.as_ref()
    }

    /// What a node is.
    pub fn kind(&self, node: NodeIndex) -> NodeKind {
        self.structure(node)
            .map_or(NodeKind::Action, Structure::kind)
    }

    /// The body of a loop.
    pub fn body(&self, node: NodeIndex) -> Option<GraphIndex> {
        self.structure(node)?.body()
    }

    /// The name of the signal that a node waits for.
    pub fn signal(&self, node: NodeIndex) -> Option<&str> {
        match self.structure(node)? {
            Structure::Signal(signal) => Some(&signal.name),
            _ => None,
        }
    }

    /// The workflow of a child run, with its version if the definition names one.
    pub fn child(&self, node: NodeIndex) -> Option<(&str, Option<u32>)> {
        match self.structure(node)? {
            Structure::Subworkflow(child) => Some((&child.workflow, child.version)),
            _ => None,
        }
    }

    /// The names of all signals that some node waits for, sorted.
    pub fn signals(&self) -> Vec<&str> {
        let nodes = 0..self.total() as NodeIndex;
        let mut names: Vec<&str> = nodes.filter_map(|node| self.signal(node)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
