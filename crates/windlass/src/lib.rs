//! Windlass: durable workflows as graphs, in your own process.
//!
//! PLACEHOLDER

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
pub use run::{ReadError, RunError, RunFailure, RunHandle};
pub use windlass_actions as actions;
pub use windlass_core::definition;
pub use windlass_core::definition::{
    CompensationPolicy, ExecutionMode, FailurePolicy, InFlight, Join, When,
};
pub use windlass_core::event::{Hand, ResourceLink};
pub use windlass_core::{Digest, Millis, NodeStatus, RunId, RunStatus};
pub use windlass_engine::action::Description;
pub use windlass_engine::{
    Action, ActionError, Clock, CommandError, Context, Notice, Observer, Registry, Reply,
    SecretSource,
};
pub use windlass_macros::action;
pub use workflow::{BuildError, Problem, Workflow, WorkflowBuilder};
pub use {schemars, serde_json};
