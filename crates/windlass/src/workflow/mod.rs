//! Workflows that live in code: steps in a chain, tasks beside it, functions for what they
//! do. What comes out is an ordinary definition and the actions it names.
//!
//! It knows definitions and actions, and never an engine or a store.

mod builder;
mod chain;
mod node;
mod output;
mod problem;
mod resolve;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use windlass_core::Digest;
use windlass_core::definition::{self, Definition, DefinitionSource};
use windlass_engine::RetryStrategy;

pub(crate) use builder::to_json;
pub use builder::{DEFAULT_IN_FLIGHT, WorkflowBuilder};
pub use node::{InChain, NodeBuilder, OutOfChain, Step, Task};
pub use output::Output;
pub(crate) use problem::write_known;
pub use problem::{BuildError, Problem};

use crate::work::Registration;

/// A workflow: a checked definition, and the functions that it calls. Cloning is cheap.
///
/// ```
/// use windlass::{ActionError, Context, Workflow};
///
/// async fn greet(_: Context, name: String) -> Result<String, ActionError> {
///     Ok(format!("hello {name}"))
/// }
///
/// let workflow = Workflow::builder("greeting")
///     .step("greet", greet)
///     .step("shout", "core.script")
///     .parameters(serde_json::json!({ "expression": "context.data['greet'].toUpperCase()" }))
///     .build()?;
/// assert_eq!(workflow.definition().nodes[1].depends_on[0].as_ref(), "greet");
/// assert_eq!(workflow.action_of("greet"), Some("greeting/greet"));
/// # Ok::<(), windlass::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Workflow {
    inner: Arc<Inner>,
    revision: Option<u32>,
}

struct Inner {
    definition: Definition,
    json: Arc<[u8]>,
    registrations: Vec<Registration>,
    /// Retry strategies in code, by the path of their node without iterations.
    strategies: Vec<(Box<str>, RetryStrategy)>,
    warnings: Vec<definition::Problem>,
}

/// What a workflow has in code, beside its definition.
#[derive(Default)]
struct Parts {
    registrations: Vec<Registration>,
    strategies: Vec<(Box<str>, RetryStrategy)>,
}

impl Workflow {
    /// Begins a workflow. Its id has small letters, digits and hyphens.
    pub fn builder(id: impl Into<Box<str>>) -> WorkflowBuilder {
        WorkflowBuilder::new(id.into())
    }

    /// A workflow from the text of a definition, JSON or YAML as the file's name or else
    /// the text says. Its actions are registered with the engine.
    ///
    /// # Errors
    /// Everything that is wrong with the definition.
    pub fn parse(file: &str, text: &[u8]) -> Result<Self, BuildError> {
        let source = DefinitionSource::new(file, text);
        Self::check(file, &source, Parts::default())
    }

    fn check(
        workflow: &str,
        source: &DefinitionSource<'_>,
        parts: Parts,
    ) -> Result<Self, BuildError> {
        let options = definition::Options {
            limits: windlass_engine::limits().definition,
            ..definition::Options::default()
        };
        match definition::parse(source, &options) {
            Ok(parsed) => Ok(Self {
                inner: Arc::new(Inner {
                    json: parsed.json.into_owned().into(),
                    definition: parsed.definition,
                    registrations: parts.registrations,
                    strategies: parts.strategies,
                    warnings: parsed.warnings,
                }),
                revision: None,
            }),
            Err(problems) => Err(BuildError {
                workflow: workflow.into(),
                problems: problems
                    .into_iter()
                    .map(|problem| Problem::Definition(Box::new(problem)))
                    .collect(),
            }),
        }
    }

    /// Numbers this state of the code. Opening an engine publishes a workflow that differs from
    /// the newest version, unless a higher revision was published already: then runs of that
    /// version are started, so that an older deploy does not replace a newer one.
    #[must_use]
    pub fn revision(mut self, revision: u32) -> Self {
        self.revision = Some(revision);
        self
    }

    pub(crate) fn own_revision(&self) -> Option<u32> {
        self.revision
    }

    /// The workflow's id.
    pub fn id(&self) -> &str {
        &self.inner.definition.id
    }

    /// The definition.
    pub fn definition(&self) -> &Definition {
        &self.inner.definition
    }

    /// The definition as JSON text: what is published.
    pub fn json(&self) -> &str {
        std::str::from_utf8(&self.inner.json).expect("a parsed definition is UTF-8")
    }

    /// The signature of the graph.
    pub fn signature(&self) -> Digest {
        definition::signature(&self.inner.definition)
    }

    /// What may be a mistake in the definition.
    pub fn warnings(&self) -> &[definition::Problem] {
        &self.inner.warnings
    }

    /// The name of the action that a node calls: what a test mocks.
    pub fn action_of(&self, node: &str) -> Option<&str> {
        let nodes = &self.inner.definition.nodes;
        nodes
            .iter()
            .find(|known| *known.id == *node)
            .and_then(|known| known.action_type.as_deref())
    }

    pub(crate) fn text(&self) -> Arc<[u8]> {
        Arc::clone(&self.inner.json)
    }

    pub(crate) fn registrations(&self) -> &[Registration] {
        &self.inner.registrations
    }

    pub(crate) fn strategies(&self) -> impl Iterator<Item = (&str, &RetryStrategy)> {
        let strategies = self.inner.strategies.iter();
        strategies.map(|(node, strategy)| (&**node, strategy))
    }
}

impl fmt::Debug for Workflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workflow")
            .field("definition", &self.inner.definition)
            .finish_non_exhaustive()
    }
}
