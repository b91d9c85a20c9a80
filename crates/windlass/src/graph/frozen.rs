//! A frozen graph: data alone, complete, with the signature that says what it is.

use std::fmt;

use serde::{Deserialize, Serialize};
use windlass_core::definition::{self, Definition, Node};
use windlass_core::{Digest, Millis};

use crate::workflow::{BuildError, Workflow};

/// The version of the format that is written.
pub const FROZEN_VERSION: u32 = 1;

/// A graph that never changes: `{version, signature, frozenAt, nodes}` as JSON.
#[derive(Clone, Debug)]
pub struct FrozenGraph {
    document: Document,
    /// Under which id its runs are listed; not part of the document.
    workflow: Box<str>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    version: u32,
    signature: Digest,
    frozen_at: Box<str>,
    nodes: Vec<Node>,
}

/// Why a document is not a frozen graph.
#[derive(Debug)]
#[non_exhaustive]
pub enum FrozenError {
    /// It is not JSON of that shape.
    NotAGraph(String),
    /// It was written by a newer version, which is carried.
    TooNew(u32),
    /// The nodes are not those that were signed.
    Changed {
        /// The signature in the document.
        signed: Digest,
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
            Self::TooNew(version) => write!(
                f,
                "the graph has version {version}, and this library reads up to \
                 {FROZEN_VERSION}; read it with a newer one"
            ),
            Self::Changed { signed, found } => write!(
                f,
                "the graph was changed after it was frozen: it is signed {signed}, and its \
                 nodes have {found}; freeze the changed graph anew"
            ),
            Self::Invalid(error) => error.fmt(f),
        }
    }
}

impl FrozenGraph {
    /// The workflow id of graphs that have no other.
    pub const DEFAULT_WORKFLOW: &str = "dynamic";

    pub(super) fn new(nodes: Vec<Node>, at: Millis) -> Result<Self, BuildError> {
        let graph = Self {
            document: Document {
                version: FROZEN_VERSION,
                signature: Digest([0; 32]),
                frozen_at: at.to_string().into(),
                nodes,
            },
            workflow: Self::DEFAULT_WORKFLOW.into(),
        };
        let workflow = graph.as_workflow()?;
        let mut document = graph.document;
        document.signature = workflow.signature();
        Ok(Self { document, ..graph })
    }

    /// Reads a frozen graph, and checks that it is what was signed.
    ///
    /// # Errors
    /// It is no graph, was changed, or was written by a newer version.
    pub fn from_json(text: &str) -> Result<Self, FrozenError> {
        let not_a_graph = |error: serde_json::Error| FrozenError::NotAGraph(error.to_string());
        let value: Versioned = serde_json::from_str(text).map_err(not_a_graph)?;
        if value.version > FROZEN_VERSION {
            return Err(FrozenError::TooNew(value.version));
        }
        let graph = Self {
            document: serde_json::from_str(text).map_err(not_a_graph)?,
            workflow: Self::DEFAULT_WORKFLOW.into(),
        };
        let workflow = graph.as_workflow().map_err(FrozenError::Invalid)?;
        let (signed, found) = (graph.document.signature, workflow.signature());
        if signed != found {
            return Err(FrozenError::Changed { signed, found });
        }
        Ok(graph)
    }

    /// The graph as JSON text.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(&self.document).expect("a checked graph is JSON")
    }

    /// Lists its runs under another workflow id than `dynamic`.
    #[must_use]
    pub fn with_workflow_id(mut self, id: impl Into<Box<str>>) -> Self {
        self.workflow = id.into();
        self
    }

    /// The workflow id that its runs are listed under.
    pub fn workflow_id(&self) -> &str {
        &self.workflow
    }

    /// The signature of the graph.
    pub fn signature(&self) -> Digest {
        self.document.signature
    }

    /// When it was frozen, as RFC 3339.
    pub fn frozen_at(&self) -> &str {
        &self.document.frozen_at
    }

    /// The nodes, as definitions have them.
    pub fn nodes(&self) -> &[Node] {
        &self.document.nodes
    }

    /// The ids of the nodes with this name.
    pub fn ids_of(&self, name: &str) -> Vec<&str> {
        let nodes = self.document.nodes.iter();
        nodes
            .filter(|node| node.name.as_deref() == Some(name))
            .map(|node| &*node.id)
            .collect()
    }

    /// The graph as a workflow that stays as it is.
    pub(crate) fn as_workflow(&self) -> Result<Workflow, BuildError> {
        let empty = serde_json::json!({ "id": self.workflow, "nodes": [] });
        let mut definition: Definition =
            serde_json::from_value(empty).expect("only the id and the nodes are required");
        definition.in_flight = definition::InFlight::Pinned;
        definition.nodes.clone_from(&self.document.nodes);
        let text = serde_json::to_vec(&definition).expect("a definition is JSON");
        Workflow::parse(&format!("{}.json", self.workflow), &text).map_err(|error| BuildError {
            workflow: self.workflow.clone(),
            ..error
        })
    }
}

impl Serialize for FrozenGraph {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document.serialize(serializer)
    }
}

/// As much of a document as every version of it has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}
