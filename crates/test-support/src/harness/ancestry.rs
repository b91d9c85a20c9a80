//! The chain of ancestry, recomputed from what can be seen of a run (semantics §10).

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};
use windlass_core::event::{AttemptResult, Event};
use windlass_core::routing::EdgeState;
use windlass_core::run::{Instance, Run};
use windlass_core::value::Stored;

/// Holds the hash of an end that was just applied against the written formula.
pub fn check(run: &Run, event: &Event) {
    let (path, attempt, output, hash) = match event {
        Event::AttemptEnded(ended) => {
            let output = match &ended.result {
                AttemptResult::Succeeded(output) | AttemptResult::Failed(output) => text(output),
                AttemptResult::Skipped {} => "null".to_owned(),
                // The node has not ended, or has no result.
                AttemptResult::Retrying { .. } | AttemptResult::Stopped {} => {
                    assert_eq!(ended.ancestry, None, "{} has not ended", ended.node);
                    return;
                }
            };
            assert_eq!(ended.digest.to_string(), sha(&output), "{}", ended.node);
            (&ended.node, ended.attempt, output, ended.ancestry)
        }
        Event::SetByHand(set) => {
            let output = text(&set.output);
            (&set.node, set.attempt, output, Some(set.ancestry))
        }
        _ => return,
    };
    // The end of its iteration may have taken it out of reach, but not yet freed it.
    let mut nodes: Vec<Instance> = run.instances().collect();
    nodes.retain(|&node| run.path(node) == *path);
    let node = *nodes.last().expect("what ended is still there");
    let mut formula = format!("{path}:{attempt}:{}", sha(&output));
    let mut parents: Vec<String> = parents(run, node).into_values().collect();
    parents.sort();
    for parent in parents {
        formula.push(':');
        formula.push_str(&parent);
    }
    let hash = hash.expect("what ran has a hash").to_string();
    assert_eq!(hash, sha(&formula), "the ancestry of {path}: {formula}");
}

/// The hashes of the parents through which a node was reached; an entry of a body has
/// those of its loop.
fn parents(run: &Run, node: Instance) -> BTreeMap<Instance, String> {
    let path = run.path(node).into_string();
    let scope = path.rfind('/').map(|slash| path[..slash].to_owned());
    let mut is_entry = true;
    let mut found = BTreeMap::new();
    for source in run.instances() {
        for (_, target, state) in run.edges_from(source) {
            if target != node {
                continue;
            }
            is_entry = false;
            let hash = run.ancestry(source).filter(|_| state == EdgeState::Taken);
            found.extend(hash.map(|hash| (source, hash.to_string())));
        }
    }
    match scope.filter(|_| is_entry) {
        Some(scope) => {
            let cycle = &scope[..scope.rfind('[').expect("an iteration has a number")];
            parents(run, run.resolve(cycle).expect("the loop around it"))
        }
        None => found,
    }
}

fn text(value: &Stored) -> String {
    match value {
        Stored::Inline(raw) => raw.get().to_owned(),
        Stored::Blob { .. } => panic!("small values stand in the record"),
    }
}

fn sha(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
