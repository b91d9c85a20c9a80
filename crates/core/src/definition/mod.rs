//! A workflow definition as people write it: parsed, checked, described.
//!
//! The types follow the document; what the engine walks is the plan that is
//! built from them. Free-form parts (parameters, templates, schemas) stay raw
//! JSON text, so that a definition of 100,000 nodes is never a tree of values.

#[cfg(test)]
mod agreement;
pub mod codes;
mod compensation;
mod cycle;
pub(crate) mod expressions;
pub mod graph;
mod locate;
mod parse;
mod path;
mod place;
mod problem;
mod render;
mod repair;
mod rewritten;
mod scan;
mod schema;
pub mod scope;
mod shape;
mod signature;
mod source;
mod structure;
mod suggest;
mod types;
mod validate;
mod yaml;

pub use compensation::{CompensationPolicy, CompensationSettings, OnCompensationError};
pub use parse::{Parsed, parse};
pub use problem::{MAX_PROBLEMS, Problem, Severity};
pub use rewritten::{Rewritten, parse_rewritten, problem_at};
pub use schema::schema;
pub use signature::signature;
pub(crate) use signature::signature_of;
pub use source::{
    DefinitionFormat, DefinitionLimits, DefinitionSource, Options, ParameterCheck,
    ParameterProblem, SCHEMA_COST, SchemaCheck, SchemaProblem, UnknownWorkflows,
};
pub use types::{
    Backoff, Body, Compensate, Concurrency, Definition, Delay, Edge, ExecutionMode, FailurePolicy,
    ForEach, InFlight, Isolation, Join, JsonText, Node, OnItemFailure, Policies, Pool, Retry,
    RetryStrategy, RetryUntil, Subworkflow, Switch, WaitForSignal, When, While,
};
