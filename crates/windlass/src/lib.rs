//! Durable workflows as graphs, in your own process.
//!
//! A workflow lives in your code: functions, and the order they go in. Every step that
//! ends is synced to disk before anything that follows it begins, so that a run survives
//! crashes, restarts and deployments: **at-least-once execution, exactly-once recording**.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use serde_json::json;
//! use windlass::schemars::{self, JsonSchema};
//! use windlass::{ActionError, Context, Engine, Workflow};
//!
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! struct Order {
//!     id: u32,
//!     total: u32,
//! }
//!
//! async fn validate(_: Context, order: Order) -> Result<(), ActionError> {
//!     match order.total {
//!         0 => Err(ActionError::failed("ORDER_EMPTY", "there is nothing to charge")),
//!         _ => Ok(()),
//!     }
//! }
//!
//! async fn charge(context: Context, order: Order) -> Result<String, ActionError> {
//!     // The key is the same for every attempt: the bank charges once.
//!     Ok(format!("{} for {}", order.total, context.idempotency_key))
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let orders = Workflow::builder("orders")
//!         .step("validate", validate)                  // a step follows the one before it
//!         .step("charge", charge)
//!         .retry(5)
//!         .task("fraud", "core.echo")                  // a task follows what it names
//!         .depends_on(["validate"])
//!         .step("ship", "core.echo")
//!         .parameters(json!({ "receipt": "{{ context.data['charge'] }}" }))
//!         .also_depends_on(["fraud"])
//!         .build()?;
//!
//!     # let folder = tempfile::tempdir()?;
//!     # let folder = folder.path();
//!     # /*
//!     let folder = "orders.data";
//!     # */
//!     let engine = Engine::embedded(folder).workflow(&orders).open().await?;
//!     let run = engine.start(&orders, Order { id: 7, total: 42 }).await?;
//!     let output = run.result().await?;
//!     assert!(output["receipt"].as_str().unwrap().starts_with("42 for "));
//!     engine.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! # The parts
//!
//! - [`Workflow`]: `step`, `task`, `after`, `before`, `depends_on`, `also_depends_on`,
//!   failure routes, retries, compensations. A function that names no parameters is given
//!   the run's trigger. Runs of a workflow follow the code when it changes and the process
//!   starts again; [`pinned`](WorkflowBuilder::pinned) ones stay as they started.
//! - [`Graph`]: `node`, `fan_out`, `freeze`, for graphs that are as large as the data.
//! - [`action`]: an `async fn` becomes a typed action with a name, for graphs and
//!   definitions to call.
//! - [`Engine`]: [`Engine::embedded`] is durable in a folder, [`Engine::in_memory`] is not.
//!   A [`RunHandle`] refers to one run.
//! - `testing`, behind the feature of that name: the same engine on virtual time, with
//!   mocks and failures where a test wants them.
//!
//! # As large as the data
//!
//! ```
//! use serde::Deserialize;
//! use serde_json::json;
//! use windlass::schemars::{self, JsonSchema};
//! use windlass::{ActionError, Context, Engine, Graph, NodeSpec, action};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Mutation {
//!     id: u32,
//! }
//!
//! /// Posts a mutation.
//! #[action("ledger.post")]
//! async fn post(_context: Context, mutation: Mutation) -> Result<u32, ActionError> {
//!     Ok(mutation.id)
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut graph = Graph::builder();
//! graph.fan_out(1..=200, |id| {
//!     NodeSpec::new(format!("mutation_{id}"), "ledger.post", json!({ "id": id })).retry(3)
//! });
//! graph.node("notify", "core.echo", json!({ "done": true }));  // after all 200
//! let graph = graph.freeze()?;
//!
//! let engine = Engine::in_memory().action(post).open().await?;
//! assert_eq!(engine.run(&graph, ()).await?, json!({ "done": true }));
//! # Ok(())
//! # }
//! ```
//!
//! # When something fails
//!
//! ```
//! use windlass::{ActionError, Context, Engine, NodeStatus, RunError, Workflow};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let flaky = Workflow::builder("flaky")
//!     .step("call", |context: Context| async move {
//!         match context.attempt {
//!             1 => Err(ActionError::failed("OFFLINE", "the host is away")),
//!             attempt => Ok(attempt),
//!         }
//!     })
//!     .build()?;
//! let engine = Engine::in_memory().workflow(&flaky).open().await?;
//! let run = engine.start(&flaky, ()).await?;
//! assert!(matches!(run.result().await, Err(RunError::Failed(_))));
//! let failed = run.nodes_with_state(NodeStatus::Failed).await?;
//! assert_eq!(failed[0].id, "call");
//!
//! run.reattempt(["call"]).await?;
//! assert_eq!(run.result().await?, 2);
//! assert_eq!(run.history("call").await?.len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # What is checked when
//!
//! Names that lead nowhere, names that are taken, cycles and expressions that do not
//! compile are found when a workflow is [built](WorkflowBuilder::build), all at once, with
//! what is known instead. Actions that are not registered are found when the engine is
//! [opened](EngineBuilder::open).
//!
//! ```
//! use windlass::Workflow;
//!
//! let error = Workflow::builder("orders")
//!     .step("validate", "core.echo")
//!     .step("charge", "core.echo")
//!     .task("fraud", "core.echo")
//!     .depends_on(["valdate"])
//!     .build()
//!     .unwrap_err();
//! assert!(error.to_string().contains("did you mean 'validate'?"));
//! ```
//!
//! What is no function of the right shape is found by the compiler:
//!
//! ```compile_fail
//! # use windlass::{ActionError, Context, Workflow};
//! async fn wrong(_: Context, _: std::time::Instant) -> Result<(), ActionError> { Ok(()) }
//! Workflow::builder("orders").step("validate", wrong);
//! ```
//!
//! ```compile_fail
//! # use windlass::Workflow;
//! // A task has no place in the chain.
//! Workflow::builder("orders").task("fraud", "core.echo").after("validate");
//! ```
//!
//! ```compile_fail
//! # use windlass::{ActionError, Context, action};
//! #[action("orders.charge")]
//! fn not_async(_context: Context, _order: u32) -> Result<(), ActionError> { Ok(()) }
//! ```

pub mod engine;
pub mod graph;
pub mod nodes;
mod retry;
pub mod run;
#[cfg(feature = "testing")]
pub mod testing;
pub mod work;
pub mod workflow;

pub use engine::{Engine, EngineBuilder, OpenError, StartError};
pub use graph::{FrozenError, FrozenGraph, Graph, NodeId, NodeSpec};
pub use retry::Retry;
pub use run::{
    Events, ForkRequest, NodeFailure, ReadError, RunError, RunEvent, RunFailure, RunHandle, Why,
};
pub use windlass_actions as actions;
pub use windlass_core::defaults::Defaults;
pub use windlass_core::definition;
pub use windlass_core::definition::{
    CompensationPolicy, ExecutionMode, FailurePolicy, InFlight, Join, OnCompensationError, When,
};
pub use windlass_core::event::{Actor, Cause, ResourceLink};
pub use windlass_core::{Digest, Millis, NodeStatus, RunId, RunStatus};
pub use windlass_engine::action::Description;
pub use windlass_engine::{
    Action, ActionError, Clock, CommandError, Context, EngineEvent, Limits, Observer, OrFail,
    Registry, Reply, SecretSource, State, set_limits,
};
pub use windlass_macros::action;
pub use windlass_store::{RunFilter, RunPage, RunRow};
pub use work::function;
pub use workflow::{BuildError, Output, Problem, Workflow, WorkflowBuilder};
pub use {schemars, serde_json};

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Guide;
