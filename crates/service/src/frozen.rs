//! A graph that belongs to one run alone, as JSON: `{version, signature, frozenAt, nodes}`,
//! and beside them what else a definition has. `export` writes it, `import` and `run` read
//! it. The nodes are an object by id, or a list as definitions have them.

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use windlass_core::Digest;
use windlass_engine::FROZEN_AT;

use crate::failure::{Failure, FailureKind};
use crate::members::Members;
use crate::moment::now;
use crate::source::PreparedDefinition;

/// The version of the format.
pub const VERSION: u64 = 1;

/// The workflow of graphs that name none.
const WORKFLOW: &str = "dynamic";

/// A graph as a file has it.
pub struct FrozenGraphFile {
    name: String,
    keys: Members,
    nodes: Vec<Box<RawValue>>,
    /// Whether it has a signature, of whatever kind.
    pub is_signed: bool,
    /// The signature, if it is a valid digest.
    pub signature: Option<Digest>,
}

/// Reads a frozen graph; nothing if the text is something else, a definition perhaps. One that
/// was changed by hand may have lost its signature.
pub fn read(name: &str, text: &[u8]) -> Result<Option<FrozenGraphFile>, Failure> {
    let Ok(members) = serde_json::from_slice::<Members>(text) else {
        return Ok(None);
    };
    let exported = members.has("signature") || (members.has("version") && members.has(FROZEN_AT));
    if !(exported && members.has("nodes")) {
        return Ok(None);
    }
    from_members(name, members).map(Some)
}

fn from_members(name: &str, members: Members) -> Result<FrozenGraphFile, Failure> {
    let invalid = |reason: String| {
        let message = format!("{name} is no frozen graph: {reason}");
        Failure::new(FailureKind::DefinitionInvalid, message)
    };
    let mut graph = FrozenGraphFile {
        name: name.to_owned(),
        is_signed: false,
        keys: Members::default(),
        nodes: Vec::new(),
        signature: None,
    };
    for (key, value) in members {
        match key.as_str() {
            "nodes" => graph.nodes = nodes(&value).map_err(invalid)?,
            "version" => {
                let version = serde_json::from_str(value.get());
                check_version(&version.map_err(|error| invalid(error.to_string()))?, name)?;
            }
            "signature" => {
                graph.is_signed = true;
                graph.signature = serde_json::from_str(value.get()).ok();
            }
            _ => graph.keys.extend([(key, value)]),
        }
    }
    Ok(graph)
}

fn check_version(version: &Value, name: &str) -> Result<(), Failure> {
    match version.as_u64() {
        Some(VERSION) => Ok(()),
        _ => {
            let message = format!("{name} has version {version}, and this program reads {VERSION}");
            Err(Failure::new(FailureKind::GraphVersion, message))
        }
    }
}

/// The nodes as a definition lists them, in the order of the text.
fn nodes(raw: &RawValue) -> Result<Vec<Box<RawValue>>, String> {
    if raw.get().trim_start().starts_with('[') {
        return serde_json::from_str(raw.get()).map_err(|error| error.to_string());
    }
    let nodes: Members = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    let node = |(id, raw): (String, Box<RawValue>)| {
        let wrong = |error: serde_json::Error| format!("the node '{id}': {error}");
        let node: Members = serde_json::from_str(raw.get()).map_err(wrong)?;
        let mut node = node.without_nulls();
        node.set("id", &id).map_err(wrong)?;
        to_raw_value(&node).map_err(wrong)
    };
    nodes.into_iter().map(node).collect()
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
        // A malformed signature is refused, not ignored.
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

/// The text of a definition for a graph that replaces that of a run. The signature does not
/// cover an edited graph, so it is not checked.
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
fn unsigned(text: &[u8]) -> Result<Option<FrozenGraphFile>, Failure> {
    let Ok(members) = serde_json::from_slice::<Members>(text) else {
        return Ok(None);
    };
    let nodes = members.get("nodes").map(RawValue::get);
    let by_id = nodes.is_some_and(|nodes| nodes.trim_start().starts_with('{'));
    let has = |key: &str| members.has(key);
    let is_graph = nodes.is_some() && (!has("id") || has("version") || has(FROZEN_AT));
    match by_id || is_graph {
        true => from_members("the graph", members).map(Some),
        false => Ok(None),
    }
}

impl FrozenGraphFile {
    /// The text of a definition with this graph.
    pub fn into_definition(self, workflow: Option<&str>) -> Result<Vec<u8>, Failure> {
        let name = self.name.clone();
        self.written(workflow).map_err(|error| {
            let message = format!("{name}: {error}");
            Failure::new(FailureKind::DefinitionInvalid, message)
        })
    }

    fn written(mut self, workflow: Option<&str>) -> serde_json::Result<Vec<u8>> {
        let frozen_at = self.keys.remove(FROZEN_AT);
        let frozen_at = frozen_at.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let frozen_at: String = frozen_at.unwrap_or_else(|| now().to_string());
        if !self.keys.has("id") {
            self.keys.set("id", workflow.unwrap_or(WORKFLOW))?;
        }
        self.keys.set("inFlight", "pinned")?;
        let labels = self.keys.get("labels").map_or("{}", RawValue::get);
        // Labels that are something else are for the check of the definition.
        if let Ok(mut labels) = serde_json::from_str::<Members>(labels) {
            labels.set(FROZEN_AT, &frozen_at)?;
            self.keys.set("labels", &labels)?;
        }
        let mut keys = self.keys.without_nulls();
        keys.set("nodes", &self.nodes)?;
        serde_json::to_vec(&keys)
    }
}

/// Refuses a graph that is not the one that was signed.
pub fn check_signature(
    name: &str,
    signed: Option<Digest>,
    prepared: &PreparedDefinition,
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
    Failure::new(FailureKind::SignatureMismatch, message)
        .hint("sign the changed graph anew, or write it as a definition, without `signature`")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn numbers_keep_their_digits() {
        let digits = "123456789012345678901234567890";
        for nodes in [
            format!(r#"{{"a":{{"actionType":"x","parameters":{{"n":{digits},"g":1.50}}}}}}"#),
            format!(r#"[{{"id":"a","actionType":"x","parameters":{{"n":{digits},"g":1.50}}}}]"#),
        ] {
            let text = format!(r#"{{"version":1,"vars":{{"v":{digits}}},"nodes":{nodes}}}"#);
            let (text, _) = definition_of(text.as_bytes()).expect("a graph");
            let text = String::from_utf8(text).expect("text");
            assert_eq!(text.matches(digits).count(), 2, "{text}");
            assert!(text.contains("1.50"), "{text}");
        }
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
            assert_eq!(failure.code(), "SIGNATURE_MISMATCH", "{signature}");
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
        assert_eq!(failure.expect_err("refused").code(), "GRAPH_VERSION");
    }
}
