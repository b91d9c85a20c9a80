//! A frozen graph: data alone, complete, with the signature that says what it is. It is the same
//! JSON that `windlass export` writes and `import`, `validate` and `run` read.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use windlass_core::definition::{self, Definition, Node};
use windlass_core::{Digest, Millis};
use windlass_engine::FROZEN_AT;
use windlass_service::export::Exported;
use windlass_service::frozen::{self, Expected, SourceError};

use crate::workflow::{BuildError, Problem, Workflow};

/// The version of the format that is written.
pub const FROZEN_VERSION: u32 = frozen::VERSION as u32;

/// A graph that never changes: `{version, signature, frozenAt, id, nodes}` as JSON, with its
/// nodes by id, and what else a definition has.
#[derive(Clone, Debug)]
pub struct FrozenGraph {
    /// Its labels say when it was frozen.
    definition: Definition,
    signature: Digest,
}

/// Why a document is not a frozen graph.
#[derive(Debug)]
#[non_exhaustive]
pub enum FrozenError {
    /// It is not JSON of that shape, or of a version that this library does not read.
    NotAGraph(String),
    /// The nodes are not those that were signed.
    Changed {
        /// The signature in the document, if it is one.
        signed: Option<Digest>,
        /// The signature of its nodes.
        found: Digest,
    },
    /// The nodes are no valid graph.
    Invalid(BuildError),
}

impl std::error::Error for FrozenError {}

impl fmt::Display for FrozenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAGraph(reason) => write!(f, "this is not a frozen graph: {reason}"),
            Self::Changed { signed, found } => {
                let signed = signed.map_or("nothing".to_owned(), |signed| signed.to_string());
                write!(
                    f,
                    "the graph was changed after it was frozen: it is signed {signed}, and its \
                     nodes have {found}; freeze the changed graph anew, or remove `signature`"
                )
            }
            Self::Invalid(error) => error.fmt(f),
        }
    }
}

impl FrozenGraph {
    /// The workflow id of graphs that have no other.
    pub const DEFAULT_WORKFLOW: &str = frozen::WORKFLOW;

    pub(super) fn new(nodes: Vec<Node>, at: Millis) -> Result<Self, BuildError> {
        let empty = serde_json::json!({ "id": Self::DEFAULT_WORKFLOW, "nodes": [] });
        let mut definition: Definition =
            serde_json::from_value(empty).expect("only the id and the nodes are required");
        definition.in_flight = definition::InFlight::Pinned;
        definition.nodes = nodes;
        let labels = &mut definition.labels;
        labels.insert(FROZEN_AT.into(), at.to_string().into());
        let signature = workflow_of(&definition)?.signature();
        Ok(Self {
            definition,
            signature,
        })
    }

    /// Reads a frozen graph, and checks that it is what was signed. What `windlass export` prints
    /// is one.
    ///
    /// # Errors
    /// It is no graph, was changed, or is invalid.
    pub fn from_json(text: &str) -> Result<Self, FrozenError> {
        let checked = frozen::check_source("graph.json", text.as_bytes(), Expected::default());
        let checked = checked.map_err(|error| match error {
            SourceError::Unreadable(failure) => FrozenError::NotAGraph(failure.message),
            SourceError::Changed(changed) => FrozenError::Changed {
                signed: changed.signed,
                found: changed.found,
            },
            SourceError::Problems(problems) if is_graph(text) => {
                let problems = problems.into_iter();
                let problems = problems.map(|problem| Problem::Definition(Box::new(problem)));
                FrozenError::Invalid(BuildError {
                    workflow: Self::DEFAULT_WORKFLOW.into(),
                    problems: problems.collect(),
                })
            }
            SourceError::Problems(_) => not_a_graph(),
        })?;
        if !checked.frozen {
            return Err(not_a_graph());
        }
        let definition = checked.parsed.definition;
        Ok(Self {
            signature: definition::signature(&definition),
            definition,
        })
    }

    /// The graph as JSON text.
    pub fn to_json(&self) -> String {
        let mut text = Vec::new();
        let exported = Exported::new(self.definition.clone(), self.frozen_at());
        exported
            .write(&mut text)
            .expect("a checked graph is JSON, and memory takes it");
        String::from_utf8(text).expect("JSON is UTF-8")
    }

    /// Lists its runs under another workflow id than `dynamic`.
    #[must_use]
    pub fn with_workflow_id(mut self, id: impl Into<Box<str>>) -> Self {
        self.definition.id = id.into();
        self
    }

    /// The workflow id that its runs are listed under.
    pub fn workflow_id(&self) -> &str {
        &self.definition.id
    }

    /// The signature of the graph.
    pub fn signature(&self) -> Digest {
        self.signature
    }

    /// When it was frozen, as RFC 3339.
    pub fn frozen_at(&self) -> &str {
        frozen::frozen_at(&self.definition).unwrap_or_default()
    }

    /// The nodes, as definitions have them.
    pub fn nodes(&self) -> &[Node] {
        &self.definition.nodes
    }

    /// The ids of the nodes with this name.
    pub fn ids_of(&self, name: &str) -> Vec<&str> {
        let nodes = self.definition.nodes.iter();
        nodes
            .filter(|node| node.name.as_deref() == Some(name))
            .map(|node| &*node.id)
            .collect()
    }

    /// The graph as a workflow that stays as it is.
    pub(crate) fn as_workflow(&self) -> Result<Workflow, BuildError> {
        workflow_of(&self.definition)
    }

    /// The definition's text, as runs keep it.
    pub(crate) fn definition_json(&self) -> String {
        serde_json::to_string(&self.definition).expect("a definition is JSON")
    }
}

fn workflow_of(definition: &Definition) -> Result<Workflow, BuildError> {
    let text = serde_json::to_vec(definition).expect("a definition is JSON");
    Workflow::parse(&format!("{}.json", definition.id), &text).map_err(|error| BuildError {
        workflow: definition.id.clone(),
        ..error
    })
}

/// Whether a text says that it is a graph, however wrong its nodes are.
fn is_graph(text: &str) -> bool {
    let keys = serde_json::from_str::<std::collections::BTreeMap<String, &RawValue>>(text);
    keys.is_ok_and(|keys| keys.contains_key("signature") || keys.contains_key(FROZEN_AT))
}

fn not_a_graph() -> FrozenError {
    let reason = "it has none of `signature`, `version` and `frozenAt`".to_owned();
    FrozenError::NotAGraph(reason)
}

impl Serialize for FrozenGraph {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = RawValue::from_string(self.to_json()).map_err(serde::ser::Error::custom)?;
        text.serialize(serializer)
    }
}
