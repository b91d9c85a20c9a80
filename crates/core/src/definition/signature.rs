//! The signature of a graph: which nodes there are, and what each waits for.

use std::fmt::Write as _;

use sha2::Digest as _;

use super::graph::DefinitionGraph;
use super::types::Definition;
use crate::id::Digest;

/// SHA-256 of the canonical JSON (RFC 8785) of the list of `[id, dependencies]`,
/// sorted by id. Dependencies are the distinct sources of a node's incoming
/// edges of any kind, sorted. Bodies are part of their node and do not count.
pub fn signature(definition: &Definition) -> Digest {
    let (graph, _) = DefinitionGraph::new(&definition.nodes);
    signature_of(
        graph.nodes.len(),
        |at| &graph.nodes[at].id,
        |at, sources| sources.extend(graph.incoming(at).map(|edge| &*graph.nodes[edge.from].id)),
    )
}

/// The signature of any graph of `count` nodes. The text is hashed as it is written:
/// it is as large as the graph.
pub(crate) fn signature_of<'a>(
    count: usize,
    id: impl Fn(usize) -> &'a str,
    sources: impl Fn(usize, &mut Vec<&'a str>),
) -> Digest {
    let mut hash = sha2::Sha256::new();
    write_canonical(count, id, sources, |text| hash.update(text));
    Digest(hash.finalize().into())
}

/// Ids are letters, digits, '_' and '-': nothing to escape, and sorting by bytes is
/// sorting by UTF-16 code units.
fn write_canonical<'a>(
    count: usize,
    id: impl Fn(usize) -> &'a str,
    sources: impl Fn(usize, &mut Vec<&'a str>),
    mut write: impl FnMut(&str),
) {
    let mut order: Vec<u32> = (0..count as u32).collect();
    order.sort_unstable_by_key(|&at| id(at as usize));
    let (mut entry, mut dependencies) = (String::new(), Vec::new());
    write("[");
    for (place, at) in order.into_iter().enumerate() {
        dependencies.clear();
        sources(at as usize, &mut dependencies);
        dependencies.sort_unstable();
        dependencies.dedup();
        entry.clear();
        let comma = if place == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(entry, "{comma}[\"{}\",[", id(at as usize));
        for (place, dependency) in dependencies.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let _ = write!(entry, "{comma}\"{dependency}\"");
        }
        entry.push_str("]]");
        write(&entry);
    }
    write("]");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(definition: &Definition) -> String {
        let (graph, _) = DefinitionGraph::new(&definition.nodes);
        let mut text = String::new();
        write_canonical(
            graph.nodes.len(),
            |at| &graph.nodes[at].id,
            |at, sources| {
                sources.extend(graph.incoming(at).map(|edge| &*graph.nodes[edge.from].id));
            },
            |part| text.push_str(part),
        );
        text
    }

    fn check(nodes: &str, text: &str, digest: &str) {
        let json = format!(r#"{{"id":"flow","nodes":{nodes}}}"#);
        let definition: Definition = serde_json::from_str(&json).expect("a definition");
        assert_eq!(canonical(&definition), text);
        let plan = crate::plan::Plan::build(definition.clone());
        if let Ok(plan) = plan {
            assert_eq!(plan.signature().to_string(), digest);
        }
        assert_eq!(signature(&definition).to_string(), digest);
    }

    // The digests are Python's: hashlib.sha256(json.dumps(entries,
    // separators=(',', ':')).encode()).hexdigest()
    #[test]
    fn known_signatures() {
        check(
            r#"[{"id":"a","actionType":"core.echo"}]"#,
            r#"[["a",[]]]"#,
            "0b3177afc111c2f83a6f7f363f6d2d83023a03ff1e626b82291414775c3053a1",
        );
        check(
            r#"[{"id":"b","edges":[{"targetNode":"d"},{"targetNode":"d","when":"failure"}]},
                {"id":"a","edges":[{"targetNode":"b"}],"onFailure":"c"},
                {"id":"d","dependsOn":["c","b"],
                 "switch":{"on":"1","cases":{"1":"E"},"default":"f"}},
                {"id":"c"},{"id":"E"},{"id":"f"}]"#,
            r#"[["E",["d"]],["a",[]],["b",["a"]],["c",["a"]],["d",["b","c"]],["f",["d"]]]"#,
            "10e5131990151cca2383418819fc48f9f153a5f884e7ce26dd194eb44f03cc79",
        );
    }
}
