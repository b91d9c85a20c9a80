//! Identities of nodes: `n_` and eight hexadecimal digits, unique in their graph by
//! construction. They are derived, not drawn, so that the same graph has the same ids.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use windlass_core::Digest;

/// A node's id in a graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(Arc<str>);

impl NodeId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for NodeId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Makes ids.
#[derive(Debug, Default)]
pub(super) struct Ids {
    salt: String,
    used: HashSet<NodeId>,
}

impl Ids {
    /// Ids made from here on derive from this as well.
    pub(super) fn salt(&mut self, salt: String) {
        self.salt = salt;
    }

    /// The id of the next node. One that is taken is derived again, with a number.
    pub(super) fn next(&mut self, name: &str) -> NodeId {
        let place = self.used.len();
        let fresh = (0_u32..)
            .map(|again| derive(&self.salt, place, name, again))
            .find(|id| !self.used.contains(id));
        let id = fresh.expect("a graph has fewer nodes than there are ids");
        self.used.insert(id.clone());
        id
    }
}

fn derive(salt: &str, place: usize, name: &str, again: u32) -> NodeId {
    let digest = Digest::of(format!("{salt}\n{place}\n{again}\n{name}").as_bytes()).to_string();
    NodeId(format!("n_{}", &digest[..8]).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_their_form_and_are_unique_even_among_many() {
        // Of 100,000 numbers of 32 bits, one pair or more is expected to be equal.
        let mut ids = Ids::default();
        let mut seen = HashSet::new();
        let mut derived_again = 0;
        for place in 0..100_000 {
            let id = ids.next("mutation");
            derived_again += usize::from(id != derive("", place, "mutation", 0));
            let digits = id.as_str().strip_prefix("n_").expect("the prefix");
            assert!(digits.len() == 8 && digits.chars().all(|c| c.is_ascii_hexdigit()));
            assert!(seen.insert(id));
        }
        assert!(derived_again > 0, "no collision was put to the test");
    }

    #[test]
    fn ids_are_repeatable_and_salt_changes_them() {
        let three = |salt: &str| -> Vec<NodeId> {
            let mut ids = Ids::default();
            ids.salt(salt.to_owned());
            ["a", "b", "a"].map(|name| ids.next(name)).into()
        };
        assert_eq!(three(""), three(""));
        assert_ne!(three(""), three("x"));
        assert_ne!(three("")[0], three("")[2]);
    }
}
