//! A graph that belongs to one run alone, as JSON: `{version, signature, frozenAt, nodes}`,
//! and beside them what else a definition has. `export` writes it, `import` and `run` read
//! it. The nodes are an object by id, or a list as definitions have them.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use windlass_core::Digest;
use windlass_engine::FROZEN_AT;

use crate::failure::{Exit, Failure};
use crate::moment::now;
use crate::source::Prepared;

/// The version of the format.
pub const VERSION: u64 = 1;

/// The workflow of graphs that name none.
const WORKFLOW: &str = "dynamic";

/// A graph as a file has it.
pub struct FrozenGraph {
    name: String,
    keys: Map<String, Value>,
    nodes: Vec<Value>,
    /// Whether it has a signature, of whatever kind.
    is_signed: bool,
    /// What was signed, if anything that could be.
    pub signature: Option<Digest>,
}

/// Reads a frozen graph; nothing if the text is something else, a definition perhaps. One that
/// was changed by hand may have lost its signature.
pub fn read(name: &str, text: &[u8]) -> Result<Option<FrozenGraph>, Failure> {
    let Ok(Entries(entries)) = serde_json::from_slice(text) else {
        return Ok(None);
    };
    let has = |key: &str| entries.iter().any(|(known, _)| known == key);
    let exported = has("signature") || (has("version") && has(FROZEN_AT));
    if !(exported && has("nodes")) {
        return Ok(None);
    }
    from_entries(name, entries).map(Some)
}

fn from_entries(name: &str, entries: Vec<(String, Box<RawValue>)>) -> Result<FrozenGraph, Failure> {
    let invalid = |reason: String| {
        let message = format!("{name} is no frozen graph: {reason}");
        Failure::new(Exit::Invalid, "DEFINITION_INVALID", message)
    };
    let mut graph = FrozenGraph {
        name: name.to_owned(),
        is_signed: false,
        keys: Map::new(),
        nodes: Vec::new(),
        signature: None,
    };
    for (key, value) in entries {
        let parse =
            || serde_json::from_str(value.get()).map_err(|error| invalid(error.to_string()));
        match key.as_str() {
            "nodes" => graph.nodes = nodes(&value).map_err(invalid)?,
            "version" => check_version(&parse()?, name)?,
            "signature" => {
                graph.is_signed = true;
                graph.signature = serde_json::from_str(value.get()).ok();
            }
            _ => {
                graph.keys.insert(key, parse()?);
            }
        }
    }
    Ok(graph)
}

fn check_version(version: &Value, name: &str) -> Result<(), Failure> {
    match version.as_u64() {
        Some(VERSION) => Ok(()),
        _ => {
            let message = format!("{name} has version {version}, and this program reads {VERSION}");
            Err(Failure::new(Exit::Invalid, "GRAPH_VERSION", message))
        }
    }
}

/// The nodes as a definition lists them, in the order of the text.
fn nodes(raw: &RawValue) -> Result<Vec<Value>, String> {
    if raw.get().trim_start().starts_with('[') {
        return serde_json::from_str(raw.get()).map_err(|error| error.to_string());
    }
    let Entries(entries) = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    let node = |(id, raw): (String, Box<RawValue>)| {
        let mut node: Map<String, Value> =
            serde_json::from_str(raw.get()).map_err(|error| format!("the node '{id}': {error}"))?;
        node.retain(|_, value| !value.is_null());
        node.insert("id".to_owned(), Value::String(id));
        Ok(Value::Object(node))
    };
    entries.into_iter().map(node).collect()
}

/// The text of a definition for a graph that belongs to a run alone, and what was signed.
/// A graph is written as it is exported, with its signature or without; or as a definition.
///
/// # Errors
/// It is neither.
pub fn definition_of(text: &[u8]) -> Result<(Vec<u8>, Option<Digest>), Failure> {
    let graph = match read("the graph", text)? {
        Some(graph) => Some(graph),
        None => unsigned(text)?,
    };
    Ok(match graph {
        // What cannot have been signed was not: it is no reason to look away.
        Some(graph) if graph.is_signed && graph.signature.is_none() => {
            let message = "the graph has a signature that is none";
            return Err(mismatch(message.to_owned()));
        }
        Some(graph) => {
            let signature = graph.signature;
            (graph.into_definition(None)?, signature)
        }
        None => (text.to_vec(), None),
    })
}

/// The text of a definition for a graph that replaces that of a run. What was edited is not
/// what was signed, so the signature is not looked at.
///
/// # Errors
/// It is neither a graph nor a definition.
pub fn definition_for(text: &[u8], workflow: &str) -> Result<Vec<u8>, Failure> {
    let graph = match read("the graph", text)? {
        Some(graph) => Some(graph),
        None => unsigned(text)?,
    };
    match graph {
        Some(graph) => graph.into_definition(Some(workflow)),
        None => Ok(text.to_vec()),
    }
}

/// A graph without a signature: its nodes are an object by id, it names no workflow, or it
/// has what a definition does not.
fn unsigned(text: &[u8]) -> Result<Option<FrozenGraph>, Failure> {
    let Ok(Entries(entries)) = serde_json::from_slice(text) else {
        return Ok(None);
    };
    let has = |wanted: &str| entries.iter().any(|(key, _)| key == wanted);
    let mut nodes = entries.iter().filter(|(key, _)| key == "nodes");
    let by_id = nodes.any(|(_, nodes)| nodes.get().trim_start().starts_with('{'));
    let is_graph = has("nodes") && (!has("id") || has("version") || has(FROZEN_AT));
    match by_id || is_graph {
        true => from_entries("the graph", entries).map(Some),
        false => Ok(None),
    }
}

impl FrozenGraph {
    /// The text of a definition with this graph.
    pub fn into_definition(mut self, workflow: Option<&str>) -> Result<Vec<u8>, Failure> {
        let frozen_at = self.keys.remove(FROZEN_AT).filter(Value::is_string);
        let frozen_at = frozen_at.unwrap_or_else(|| json!(now().to_string()));
        let id = json!(workflow.unwrap_or(WORKFLOW));
        self.keys.entry("id").or_insert(id);
        self.keys.insert("inFlight".to_owned(), json!("pinned"));
        let labels = self.keys.entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(FROZEN_AT.to_owned(), frozen_at);
        }
        self.keys.retain(|_, value| !value.is_null());
        self.keys
            .insert("nodes".to_owned(), Value::Array(self.nodes));
        serde_json::to_vec(&self.keys).map_err(|error| {
            let message = format!("{}: {error}", self.name);
            Failure::new(Exit::Invalid, "DEFINITION_INVALID", message)
        })
    }
}

/// Refuses a graph that is not the one that was signed.
pub fn check_signature(
    name: &str,
    signed: Option<Digest>,
    prepared: &Prepared,
) -> Result<(), Failure> {
    let found = prepared.signature;
    if signed == Some(found) {
        return Ok(());
    }
    let signed = signed.map_or("nothing".to_owned(), |signed| signed.to_string());
    let message =
        format!("{name} was changed after it was frozen: it is signed {signed}, its nodes {found}");
    Err(mismatch(message))
}

fn mismatch(message: String) -> Failure {
    Failure::new(Exit::Invalid, "SIGNATURE_MISMATCH", message)
        .hint("sign the changed graph anew, or write it as a definition, without `signature`")
}

/// An object's keys and values in the order of the text.
struct Entries(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(text: &str) -> Value {
        let graph = read("g.json", text.as_bytes()).expect("read");
        let text = graph
            .expect("a graph")
            .into_definition(None)
            .expect("a definition");
        serde_json::from_slice(&text).expect("JSON")
    }

    #[test]
    fn nodes_keep_the_order_of_the_text() {
        let read = definition(
            r#"{"version":1,"signature":"x","frozenAt":"T","id":"w",
                "nodes":{"z":{"name":null,"actionType":"a"},"b":{"dependsOn":["z"]}}}"#,
        );
        assert_eq!(read["id"], "w");
        assert_eq!(read["labels"]["frozenAt"], "T");
        assert_eq!(read["nodes"][0], json!({"id": "z", "actionType": "a"}));
        assert_eq!(read["nodes"][1], json!({"id": "b", "dependsOn": ["z"]}));
        assert!(read.get("signature").is_none() && read.get("version").is_none());
    }

    #[test]
    fn a_graph_needs_neither_a_name_nor_a_signature() {
        let node = r#"{"id":"n_00000001","actionType":"core.echo"}"#;
        for text in [
            format!(r#"{{"nodes":[{node}]}}"#),
            format!(r#"{{"version":1,"nodes":[{node}]}}"#),
            r#"{"nodes":{"n_00000001":{"actionType":"core.echo"}}}"#.to_owned(),
        ] {
            let (definition, signed) = definition_of(text.as_bytes()).expect("a graph");
            let definition: Value = serde_json::from_slice(&definition).expect("JSON");
            assert_eq!(definition["id"], WORKFLOW, "{text}");
            assert_eq!(definition["nodes"][0]["id"], "n_00000001");
            assert!(signed.is_none());
        }
        for signature in ["\"00\"", "null", "7"] {
            let text = format!(r#"{{"version":1,"signature":{signature},"nodes":[{node}]}}"#);
            let failure = definition_of(text.as_bytes()).expect_err("refused");
            assert_eq!(failure.code, "SIGNATURE_MISMATCH", "{signature}");
        }
    }

    #[test]
    fn definitions_are_something_else() {
        for text in [r#"{"id":"w","nodes":[]}"#, "id: w", "[", "[1]"] {
            assert!(
                super::read("g.json", text.as_bytes())
                    .expect("read")
                    .is_none()
            );
        }
        let unsigned = r#"{"version":1,"frozenAt":"T","id":"w","nodes":{"a":{}}}"#;
        assert_eq!(definition(unsigned)["nodes"], json!([{"id": "a"}]));
        let newer = r#"{"version":2,"signature":"x","nodes":{}}"#;
        let failure = super::read("g.json", newer.as_bytes()).map(drop);
        assert_eq!(failure.expect_err("refused").code, "GRAPH_VERSION");
    }
}
