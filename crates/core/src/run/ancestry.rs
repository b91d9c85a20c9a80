//! The chain of ancestry (semantics §10): a node's hash covers its own end and the
//! hashes of all it was reached from.

use std::fmt::Write as _;

use super::Run;
use super::frame::Instance;
use crate::id::Digest;
use crate::routing::EdgeState;

impl Run {
    /// The ancestry of a node, with its path, whose attempt ended with this output or error.
    pub(crate) fn ancestry_of(
        &self,
        (node, path): (Instance, &str),
        attempt: u32,
        output: &Digest,
    ) -> Digest {
        ancestry(path, attempt, output, &self.parents_of(node))
    }

    /// The hashes of the taken parents, sorted; the entries of a body take those of
    /// their loop.
    fn parents_of(&self, node: Instance) -> Vec<Digest> {
        let frame = self.frame_of(node);
        let incoming = frame.plan.incoming(frame.node(node));
        if let (Some(owner), true) = (frame.owner, incoming.is_empty()) {
            return self.parents_of(owner.node);
        }
        let mut taken: Vec<Instance> = incoming
            .iter()
            .filter(|&&edge| frame.edge(edge) == EdgeState::Taken)
            .map(|&edge| frame.instance(frame.plan.edge(edge).source))
            .collect();
        // A parent counts once, by however many edges it is reached.
        taken.sort_unstable();
        taken.dedup();
        let hashes = taken.into_iter();
        let mut hashes: Vec<Digest> = hashes
            .filter_map(|source| frame.state(source).ancestry)
            .collect();
        hashes.sort_unstable();
        hashes
    }
}

/// Hex SHA-256 of `node:attempt:digest` followed by `:hash` for each parent.
fn ancestry(node: &str, attempt: u32, output: &Digest, parents: &[Digest]) -> Digest {
    let mut text = String::with_capacity(node.len() + 80 + parents.len() * 65);
    // Writing to a string cannot fail.
    let _ = write!(text, "{node}:{attempt}:");
    output.push_to(&mut text);
    for parent in parents {
        text.push(':');
        parent.push_to(&mut text);
    }
    Digest::of(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_written_formula() {
        // printf 'a:1:%s' "$(printf null | sha256sum | cut -c-64)" | sha256sum
        let output = Digest::of(b"null");
        let first = ancestry("a", 1, &output, &[]);
        let expected = Digest::of(format!("a:1:{output}").as_bytes());
        assert_eq!(first, expected);
        let second = ancestry("b", 2, &output, &[first]);
        assert_eq!(
            second,
            Digest::of(format!("b:2:{output}:{first}").as_bytes())
        );
    }
}
