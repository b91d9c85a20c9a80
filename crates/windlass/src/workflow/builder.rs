//! The builder of a workflow: what concerns the whole of it. What concerns one node comes
//! after that node, on [`NodeBuilder`](super::NodeBuilder).

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use windlass_core::definition::{
    CompensationPolicy, Concurrency, Definition, ExecutionMode, FailurePolicy, InFlight, JsonText,
    Node, OnCompensationError, When,
};

use windlass_engine::RetryStrategy;

use super::chain::Position;
use super::node::{InChain, NodeBuilder, OutOfChain};
use super::{BuildError, Problem, Workflow, resolve};
use crate::retry::milliseconds;
use crate::work::{IntoWork, Work};

/// What running runs do when the code changes and the process starts again: they heal.
pub const DEFAULT_IN_FLIGHT: InFlight = InFlight::Healing;

/// Builds a workflow. Settings of the whole come first, then its steps and tasks.
#[must_use = "a builder does nothing until it is built"]
pub struct WorkflowBuilder {
    pub(super) definition: Definition,
    pub(super) nodes: Vec<Declared>,
    pub(crate) problems: Vec<Problem>,
}

/// A node as it was declared, with references that are names still.
pub(super) struct Declared {
    pub(super) node: Node,
    pub(super) work: Work,
    pub(super) compensation: Option<(Work, Option<JsonText>)>,
    /// None for a task.
    pub(super) position: Option<Position>,
    pub(super) depends_on: Option<Vec<Box<str>>>,
    pub(super) also_depends_on: Vec<Box<str>>,
    pub(super) arrivals: Vec<Arrival>,
    /// A retry strategy in code.
    pub(super) strategy: Option<RetryStrategy>,
}

/// An edge that is declared where it arrives.
pub(super) struct Arrival {
    pub(super) from: Box<str>,
    pub(super) when: When,
    pub(super) condition: Option<Box<str>>,
}

impl WorkflowBuilder {
    pub(super) fn new(id: Box<str>) -> Self {
        let empty = serde_json::json!({ "id": id, "nodes": [] });
        let mut definition: Definition =
            serde_json::from_value(empty).expect("only the id and the nodes are required");
        definition.in_flight = DEFAULT_IN_FLIGHT;
        Self {
            definition,
            nodes: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Adds a step: it comes after the previous step of the chain, whichever that is when
    /// the workflow is built. The first step is an entry.
    pub fn step<Kind, W: IntoWork<Kind>>(
        self,
        name: impl Into<Box<str>>,
        work: W,
    ) -> NodeBuilder<InChain, W::Output> {
        let position = Some(Position::Next);
        self.declare(name.into(), work.into_work(), position)
    }

    /// Adds a task: a node outside the chain, with the dependencies that it names. One
    /// that names none is an entry.
    pub fn task<Kind, W: IntoWork<Kind>>(
        self,
        name: impl Into<Box<str>>,
        work: W,
    ) -> NodeBuilder<OutOfChain, W::Output> {
        self.declare(name.into(), work.into_work(), None)
    }

    /// The body of a loop, under construction.
    pub(crate) fn body() -> Self {
        Self::new("body".into())
    }

    fn declare<Place, T>(
        mut self,
        name: Box<str>,
        work: Work,
        position: Option<Position>,
    ) -> NodeBuilder<Place, T> {
        let node = serde_json::from_value(serde_json::json!({ "id": name }))
            .expect("a node requires only its id");
        self.nodes.push(Declared {
            node,
            work,
            compensation: None,
            position,
            depends_on: None,
            also_depends_on: Vec::new(),
            arrivals: Vec::new(),
            strategy: None,
        });
        NodeBuilder::new(self)
    }

    /// A name for people.
    pub fn display_name(mut self, name: impl Into<Box<str>>) -> Self {
        self.definition.display_name = Some(name.into());
        self
    }

    /// What the workflow is for.
    pub fn description(mut self, description: impl Into<Box<str>>) -> Self {
        self.definition.description = Some(description.into());
        self
    }

    /// A word to find it by.
    pub fn tag(mut self, tag: impl Into<Box<str>>) -> Self {
        self.definition.tags.push(tag.into());
        self
    }

    /// A label that each run has unless it says otherwise.
    pub fn label(mut self, key: impl Into<Box<str>>, value: impl Into<Box<str>>) -> Self {
        self.definition.labels.insert(key.into(), value.into());
        self
    }

    /// JSON Schema of the trigger, checked when a run is requested.
    pub fn trigger_schema(mut self, schema: impl Serialize) -> Self {
        self.definition.trigger_schema = self.json("the trigger schema", &schema);
        self
    }

    /// The trigger's type, whose schema is checked when a run is requested.
    pub fn trigger<T: JsonSchema>(self) -> Self {
        self.trigger_schema(schemars::schema_for!(T))
    }

    /// A variable of the run, with its value at the start.
    pub fn var(mut self, name: impl Into<Box<str>>, value: impl Serialize) -> Self {
        if let Some(value) = self.json("a variable", &value) {
            self.definition.vars.insert(name.into(), value);
        }
        self
    }

    /// Template of the run's result; in a body, of an iteration's output.
    pub fn output(mut self, template: impl Serialize) -> Self {
        self.definition.output = self.json("the output", &template);
        self
    }

    /// What a failure does to the rest of the run.
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.definition.failure_policy = policy;
        self
    }

    /// How many nodes go at once, and in what order.
    pub fn execution_mode(mut self, mode: ExecutionMode) -> Self {
        self.definition.execution_mode = mode;
        self
    }

    /// Whether running runs follow the code when it changes; they do by default.
    pub fn in_flight(mut self, in_flight: InFlight) -> Self {
        self.definition.in_flight = in_flight;
        self
    }

    /// Running runs stay on the graph that they started on.
    pub fn pinned(self) -> Self {
        self.in_flight(InFlight::Pinned)
    }

    /// When compensations run.
    pub fn compensation(mut self, policy: CompensationPolicy) -> Self {
        self.definition.compensation.when = policy;
        self
    }

    /// What a compensation that fails for good does to those that would follow it.
    pub fn on_compensation_error(mut self, on_error: OnCompensationError) -> Self {
        self.definition.compensation.on_error = on_error;
        self
    }

    /// The whole run's time.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.definition.timeout_ms = Some(milliseconds(timeout));
        self
    }

    /// A run's own bound on nodes at once.
    pub fn max_parallel(mut self, nodes: u32) -> Self {
        self.definition.max_parallel = Some(nodes);
        self
    }

    /// A bound on the runs that share a key, which is a template.
    pub fn concurrency(mut self, key: impl Serialize, limit: u32) -> Self {
        if let Some(key) = self.json("the key of the concurrency", &key) {
            self.definition.concurrency = Some(Concurrency {
                key: Some(key),
                limit,
            });
        }
        self
    }

    /// Resolves every name and checks the whole.
    ///
    /// # Errors
    /// Everything that is wrong, with what is known instead.
    pub fn build(self) -> Result<Workflow, BuildError> {
        resolve::build(self)
    }

    fn json(&mut self, what: &'static str, value: &impl Serialize) -> Option<JsonText> {
        let problems = &mut self.problems;
        to_json(None, what, value)
            .map_err(|problem| problems.push(problem))
            .ok()
    }
}

/// A value as JSON text.
pub(crate) fn to_json(
    node: Option<&str>,
    what: &'static str,
    value: &impl Serialize,
) -> Result<JsonText, Problem> {
    serde_json::value::to_raw_value(value).map_err(|error| Problem::NotJson {
        node: node.map(Into::into),
        what,
        reason: error.to_string(),
    })
}
