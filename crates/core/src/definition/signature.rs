//! The signature of a graph: which nodes there are, and what each waits for.

use super::graph::Graph;
use super::types::Definition;
use crate::id::Digest;

/// SHA-256 of the canonical JSON (RFC 8785) of the list of `[id, dependencies]`,
/// sorted by id. Dependencies are the distinct sources of a node's incoming
/// edges of any kind, sorted. Bodies are part of their node and do not count.
pub fn signature(definition: &Definition) -> Digest {
    Digest::of(canonical(definition).as_bytes())
}

/// Ids are ASCII, so that sorting by bytes is sorting by UTF-16 code units.
fn canonical(definition: &Definition) -> String {
    let (graph, _) = Graph::new(&definition.nodes);
    let mut entries: Vec<(&str, Vec<&str>)> = graph
        .nodes
        .iter()
        .enumerate()
        .map(|(at, node)| {
            let from = graph.incoming(at).map(|edge| &*graph.nodes[edge.from].id);
            let mut dependencies: Vec<&str> = from.collect();
            dependencies.sort_unstable();
            dependencies.dedup();
            (&*node.id, dependencies)
        })
        .collect();
    entries.sort_unstable();
    // Lists and texts have one form in serde_json, and it is the canonical one.
    serde_json::to_string(&entries).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodes: &str, text: &str, digest: &str) {
        let json = format!(r#"{{"id":"flow","nodes":{nodes}}}"#);
        let definition = serde_json::from_str(&json).expect("a definition");
        assert_eq!(canonical(&definition), text);
        assert_eq!(signature(&definition).to_string(), digest);
    }

    // The digests are Python's: hashlib.sha256(json.dumps(entries,
    // separators=(',', ':')).encode()).hexdigest()
    #[test]
    fn known_signatures() {
        check(
            r#"[{"id":"a"}]"#,
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
