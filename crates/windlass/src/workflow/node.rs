//! What concerns one node: it follows the node in the chain of calls, until the next node
//! or the end.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use windlass_core::definition::{Edge, Join, JsonText, Policies, Pool, Switch, When};

use super::builder::{Arrival, Declared, WorkflowBuilder, to_json};
use super::chain::Position;
use super::output::Output;
use super::{BuildError, Problem, Workflow};
use crate::retry::{Retry, milliseconds};
use crate::work::IntoWork;

/// The place of a step.
pub enum InChain {}

/// The place of a task.
pub enum OutOfChain {}

/// A step, until the next node is declared.
pub type Step<T = Value> = NodeBuilder<InChain, T>;

/// A task, until the next node is declared.
pub type Task<T = Value> = NodeBuilder<OutOfChain, T>;

/// The node that was declared last, and the workflow so far.
#[must_use = "a builder does nothing until it is built"]
pub struct NodeBuilder<Place, T = Value> {
    workflow: WorkflowBuilder,
    place: PhantomData<(Place, fn() -> T)>,
}

impl<T> NodeBuilder<InChain, T> {
    /// Puts the step directly after another in the chain.
    pub fn after(self, step: impl Into<Box<str>>) -> Self {
        self.place(Position::After(step.into()))
    }

    /// Puts the step directly before another in the chain.
    pub fn before(self, step: impl Into<Box<str>>) -> Self {
        self.place(Position::Before(step.into()))
    }

    fn place(mut self, position: Position) -> Self {
        let node = self.node();
        if node.position != Some(Position::Next) {
            let node = node.node.id.clone();
            self.workflow.problems.push(Problem::PlacedTwice { node });
            return self;
        }
        node.position = Some(position);
        self
    }

    /// Adds dependencies to the one that the step has by its place.
    pub fn also_depends_on<N: Into<Box<str>>>(
        mut self,
        nodes: impl IntoIterator<Item = N>,
    ) -> Self {
        let names = nodes.into_iter().map(Into::into);
        self.node().also_depends_on.extend(names);
        self
    }
}

impl<Place, T> NodeBuilder<Place, T> {
    pub(super) fn new(workflow: WorkflowBuilder) -> Self {
        Self {
            workflow,
            place: PhantomData,
        }
    }

    /// A handle of the node's output, by which the functions of later nodes read it.
    ///
    /// ```
    /// use windlass::{Context, Workflow};
    ///
    /// let charge = Workflow::builder("orders").step("charge", |_: Context, cents: u64| async move {
    ///     Ok(format!("receipt for {cents}"))
    /// });
    /// let receipt = charge.output();
    /// let workflow = charge
    ///     .step("ship", move |context: Context| {
    ///         let receipt = receipt.clone();
    ///         async move {
    ///             let receipt: String = receipt.read(&context).await?;
    ///             Ok(receipt.len())
    ///         }
    ///     })
    ///     .build()?;
    /// # Ok::<(), windlass::BuildError>(())
    /// ```
    pub fn output(&self) -> Output<T> {
        let last = self.workflow.nodes.last();
        let last = last.expect("a node builder begins with its node");
        Output::of(&last.node.id)
    }

    /// The nodes that must have succeeded. For a step they stand instead of the previous
    /// step, and the step stays in the chain; none at all makes it an entry.
    pub fn depends_on<N: Into<Box<str>>>(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        let names = nodes.into_iter().map(Into::into);
        self.node().depends_on.get_or_insert_default().extend(names);
        self
    }

    /// Depends on nothing: an entry.
    pub fn entry(self) -> Self {
        self.depends_on::<Box<str>>([])
    }

    /// Runs when another node has failed. Like every dependency that is named, it stands
    /// instead of the previous step.
    pub fn when_failed(self, node: impl Into<Box<str>>) -> Self {
        self.arrive(node.into(), When::Failure, None)
    }

    /// Runs when another node has succeeded and a condition holds, an expression that may
    /// speak of its `output`.
    pub fn when(self, node: impl Into<Box<str>>, condition: impl Into<Box<str>>) -> Self {
        self.arrive(node.into(), When::Success, Some(condition.into()))
    }

    /// Runs after another node, whatever became of it.
    pub fn always_after(self, node: impl Into<Box<str>>) -> Self {
        self.arrive(node.into(), When::Always, None)
    }

    fn arrive(mut self, from: Box<str>, when: When, condition: Option<Box<str>>) -> Self {
        self.node().arrivals.push(Arrival {
            from,
            when,
            condition,
        });
        self
    }

    /// An edge that leaves this node.
    pub fn edge(
        mut self,
        target: impl Into<Box<str>>,
        when: When,
        condition: Option<&str>,
    ) -> Self {
        let node = &mut self.node().node;
        let mut edges = std::mem::take(&mut node.edges).into_vec();
        edges.push(Edge {
            target_node: target.into(),
            when,
            condition: condition.map(Into::into),
        });
        node.edges = edges.into();
        self
    }

    /// Where a failure goes when none of the node's failure edges is taken.
    pub fn on_failure(mut self, node: impl Into<Box<str>>) -> Self {
        self.node().node.on_failure = Some(node.into());
        self
    }

    /// Goes one of several ways: to the node whose case is equal to the expression's value
    /// as text, or to the default.
    pub fn switch<C: Into<Box<str>>, N: Into<Box<str>>>(
        mut self,
        on: impl Into<Box<str>>,
        cases: impl IntoIterator<Item = (C, N)>,
        default: Option<&str>,
    ) -> Self {
        let cases: BTreeMap<Box<str>, Box<str>> = cases
            .into_iter()
            .map(|(case, node)| (case.into(), node.into()))
            .collect();
        self.node().node.switch = Some(Box::new(Switch {
            on: on.into(),
            cases,
            default: default.map(Into::into),
            when: When::Success,
        }));
        self
    }

    /// How incoming edges are joined; all of them by default.
    pub fn join(mut self, join: Join) -> Self {
        self.node().node.join = Some(join);
        self
    }

    /// Template of the action's parameters. Without it a function is given the trigger,
    /// and an action an empty object.
    pub fn parameters(mut self, template: impl Serialize) -> Self {
        let json = self.json("the parameters", &template);
        self.node().node.parameters = json;
        self
    }

    /// A name for people.
    pub fn name(mut self, name: impl Into<Box<str>>) -> Self {
        self.node().node.name = Some(name.into());
        self
    }

    /// How often and how soon an attempt is repeated; a number means that many attempts.
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        let retry = retry.into();
        self.node().strategy = retry.strategy().cloned();
        self.policies().retry = Some(retry.into_definition());
        self
    }

    /// The time of one attempt; five minutes by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policies().timeout_ms = Some(milliseconds(timeout));
        self
    }

    /// How the node's effect is undone if the run fails: an action, and the template of
    /// its parameters, with the `output` and `parameters` of this node in scope.
    pub fn compensate<Kind>(
        mut self,
        work: impl IntoWork<Kind>,
        parameters: impl Serialize,
    ) -> Self {
        let json = self.json("the compensation's parameters", &parameters);
        self.node().compensation = Some((work.into_work(), json));
        self
    }

    /// Sets a variable of the run when the node succeeds, by a template with the node's
    /// `output` in scope.
    pub fn set_var(mut self, name: impl Into<Box<str>>, template: impl Serialize) -> Self {
        if let Some(json) = self.json("a variable", &template) {
            let variables = self.node().node.set_vars.get_or_insert_default();
            variables.insert(name.into(), json);
        }
        self
    }

    /// Labels that a worker must have.
    pub fn requires<L: Into<Box<str>>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.node().node.requires = labels.into_iter().map(Into::into).collect();
        self
    }

    /// Which of several ready nodes goes first, from 0 to 9, higher first; the run's priority by
    /// default.
    pub fn priority(mut self, priority: u8) -> Self {
        self.node().node.priority = Some(priority);
        self
    }

    /// The pool whose slots an attempt holds while it is with a worker; `windlass pools set` or
    /// [`Engine::set_pool`](crate::Engine::set_pool) makes it.
    pub fn pool(mut self, name: impl Into<Box<str>>, slots: u32) -> Self {
        let pool = Pool {
            name: name.into(),
            slots,
        };
        self.node().node.pool = Some(Box::new(pool));
        self
    }

    /// Adds the next step: see [`WorkflowBuilder::step`].
    pub fn step<Kind, W: IntoWork<Kind>>(
        self,
        name: impl Into<Box<str>>,
        work: W,
    ) -> NodeBuilder<InChain, W::Output> {
        self.workflow.step(name, work)
    }

    /// Adds a task: see [`WorkflowBuilder::task`].
    pub fn task<Kind, W: IntoWork<Kind>>(
        self,
        name: impl Into<Box<str>>,
        work: W,
    ) -> NodeBuilder<OutOfChain, W::Output> {
        self.workflow.task(name, work)
    }

    /// Nothing more about this node; back to the workflow, for a loop that adds nodes.
    pub fn done(self) -> WorkflowBuilder {
        self.workflow
    }

    /// Builds the workflow: see [`WorkflowBuilder::build`].
    ///
    /// # Errors
    /// Everything that is wrong, with what is known instead.
    pub fn build(self) -> Result<Workflow, BuildError> {
        self.workflow.build()
    }

    fn node(&mut self) -> &mut Declared {
        let last = self.workflow.nodes.last_mut();
        last.expect("a node builder begins with its node")
    }

    fn policies(&mut self) -> &mut Policies {
        self.node().node.policies.get_or_insert_default()
    }

    fn json(&mut self, what: &'static str, value: &impl Serialize) -> Option<JsonText> {
        let id = self.node().node.id.clone();
        to_json(Some(&id), what, value)
            .map_err(|problem| self.workflow.problems.push(problem))
            .ok()
    }
}

/// For bodies of loops, which end with their last node.
impl<Place, T> From<NodeBuilder<Place, T>> for WorkflowBuilder {
    fn from(last: NodeBuilder<Place, T>) -> Self {
        last.workflow
    }
}
