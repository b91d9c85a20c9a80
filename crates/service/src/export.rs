//! A run's graph as JSON, for people and for an import.

use std::io::{self, Write};

use serde_json::json;
use windlass_core::RunId;
use windlass_core::definition::graph::DefinitionGraph;
use windlass_core::definition::{Definition, When, signature};
use windlass_engine::fork::definition_text;
use windlass_engine::view::{PRETTY_NODES, Pretty};
use windlass_engine::{Backend, FROZEN_AT, Plans, frozen_at, load_latest};

use crate::failure::{Failure, FailureKind};
use crate::frozen::VERSION;
use crate::members::Members;
use crate::moment::now;
use crate::run_queries::RunQueries;

/// A run's graph, ready to be written.
pub struct Exported {
    definition: Definition,
    header: Header,
}

/// Reads the graph that a run has now.
///
/// # Errors
/// There is no such run, or it cannot be read.
pub fn export(queries: &RunQueries, id: RunId) -> Result<Exported, Failure> {
    export_from(&*queries.store, &queries.plans, id)
}

/// Reads the graph that a run of this store has now.
///
/// # Errors
/// There is no such run, or it cannot be read.
pub fn export_from(store: &dyn Backend, plans: &Plans, id: RunId) -> Result<Exported, Failure> {
    let (run, at) = match frozen_at(store, plans, id)? {
        Some(frozen) => frozen,
        None => (load_latest(store, plans, id)?.run, now().to_string()),
    };
    let text = definition_text(store, &run)?;
    let definition: Definition = serde_json::from_str(&text)
        .map_err(|error| Failure::new(FailureKind::DefinitionUnreadable, error))?;
    Ok(Exported::new(definition, &at))
}

impl Exported {
    /// The graph of a definition that was frozen at this time.
    pub fn new(definition: Definition, frozen_at: &str) -> Self {
        let header = Header {
            signature: signature(&definition).to_string(),
            frozen_at: serde_json::Value::from(frozen_at).to_string(),
        };
        Self { definition, header }
    }

    /// Writes it; a small one indented.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(self, out: &mut dyn Write) -> io::Result<()> {
        let Self { definition, header } = self;
        if definition.nodes.len() <= PRETTY_NODES {
            write(definition, &header, "", &mut Pretty::new(&mut *out))?;
        } else {
            write(definition, &header, "\n", out)?;
        }
        out.write_all(b"\n")
    }
}

/// What an exported graph says of itself.
struct Header {
    signature: String,
    /// When it was frozen into the run, or just now, as JSON.
    frozen_at: String,
}

/// The graph's own keys first, then what else the definition has, then the nodes.
fn write(
    mut definition: Definition,
    header: &Header,
    line: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let nodes = std::mem::take(&mut definition.nodes);
    definition.labels.remove(FROZEN_AT);
    let (graph, _) = DefinitionGraph::new(&nodes);
    let Header {
        signature,
        frozen_at,
    } = header;
    write!(
        out,
        "{{\"version\":{VERSION},\"signature\":\"{signature}\",\"frozenAt\":{frozen_at}"
    )?;
    for (key, value) in Members::of(&definition)?.iter() {
        // A run with a graph of its own follows no version.
        if key != "nodes" && key != "inFlight" {
            write!(out, ",{line}\"{key}\":")?;
            out.write_all(value.get().as_bytes())?;
        }
    }
    write!(out, ",{line}\"nodes\":{{")?;
    for at in 0..graph.nodes.len() {
        let comma = if at > 0 { "," } else { "" };
        write!(out, "{comma}{line}")?;
        serde_json::to_writer(&mut *out, &*graph.nodes[at].id)?;
        out.write_all(b":")?;
        serde_json::to_writer(&mut *out, &node(&graph, at)?)?;
    }
    write!(out, "{line}}}}}")
}

/// A node without its id. Plain success edges stand where they arrive, in `dependsOn`;
/// every other edge stays where it is written.
fn node(graph: &DefinitionGraph<'_>, at: usize) -> io::Result<Members> {
    let node = &graph.nodes[at];
    let mut written = Members::of(node)?;
    let plain = |when: When, condition: Option<&str>| when == When::Success && condition.is_none();
    let mut depends_on: Vec<&str> = graph
        .incoming(at)
        .filter(|edge| {
            use windlass_core::definition::graph::EdgeOrigin;
            let listed = matches!(edge.origin, EdgeOrigin::Edge(_) | EdgeOrigin::DependsOn(_));
            listed && plain(edge.when, edge.condition)
        })
        .map(|edge| &*graph.nodes[edge.from].id)
        .collect();
    depends_on.sort_unstable();
    depends_on.dedup();
    let mut exported = Members::default();
    exported.set("name", &written.remove("name"))?;
    if let Some(action) = written.remove("actionType") {
        exported.set("actionType", &action)?;
        match written.remove("parameters") {
            Some(parameters) => exported.set("parameters", &parameters)?,
            None => exported.set("parameters", &json!({}))?,
        }
    }
    exported.set("dependsOn", &depends_on)?;
    let other: Vec<&windlass_core::definition::Edge> = node
        .edges
        .iter()
        .filter(|edge| !plain(edge.when, edge.condition.as_deref()))
        .collect();
    for key in ["id", "dependsOn", "edges"] {
        written.remove(key);
    }
    if !other.is_empty() {
        exported.set("edges", &other)?;
    }
    exported.extend(written);
    Ok(exported)
}
