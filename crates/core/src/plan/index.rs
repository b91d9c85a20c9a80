//! Nodes by id: an open-addressing table of indices, at about eight bytes a node. The
//! ids themselves stand in the nodes, so a lookup takes a way to read them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::NodeIndex;

/// Marks a free place.
const FREE: NodeIndex = NodeIndex::MAX;

/// Nodes by id.
#[derive(Debug)]
pub(crate) struct Index {
    /// A power of two, at least twice as many as there are nodes.
    places: Vec<NodeIndex>,
}

impl Index {
    /// The index of `count` nodes; of two with the same id the first is found.
    pub(crate) fn new<'a>(count: usize, id: impl Fn(NodeIndex) -> &'a str) -> Self {
        let size = (count * 2).next_power_of_two().max(2);
        let mut index = Self {
            places: vec![FREE; size],
        };
        for node in 0..count as NodeIndex {
            let place = index.probe(id(node), &id);
            if index.places[place] == FREE {
                index.places[place] = node;
            }
        }
        index
    }

    /// The node with this id.
    pub(crate) fn find<'a>(
        &self,
        name: &str,
        id: impl Fn(NodeIndex) -> &'a str,
    ) -> Option<NodeIndex> {
        let found = self.places[self.probe(name, &id)];
        (found != FREE).then_some(found)
    }

    /// The place of an id, or the free one where it would be. The table is never full.
    fn probe<'a>(&self, name: &str, id: &impl Fn(NodeIndex) -> &'a str) -> usize {
        // Fixed keys: the same table for the same ids, for ever.
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let mask = self.places.len() - 1;
        let mut place = hasher.finish() as usize & mask;
        while self.places[place] != FREE && id(self.places[place]) != name {
            place = (place + 1) & mask;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_found_and_no_other() {
        let ids: Vec<String> = (0..1000).map(|number| format!("node-{number}")).collect();
        let id = |node: NodeIndex| ids[node as usize].as_str();
        let index = Index::new(ids.len(), id);
        for (node, name) in ids.iter().enumerate() {
            assert_eq!(index.find(name, id), Some(node as NodeIndex));
        }
        assert_eq!(index.find("node-1000", id), None);
        assert_eq!(Index::new(0, id).find("node-0", id), None);
    }
}
