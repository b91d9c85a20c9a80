//! What the workers of a process have, for nodes that require it.

use std::sync::Arc;

/// The labels that workers have, for nodes that require some.
#[derive(Clone, Debug)]
pub enum Labels {
    /// Every label, for a rehearsal.
    All,
    /// These and no other.
    Only(Arc<[Box<str>]>),
}

impl Default for Labels {
    fn default() -> Self {
        Self::Only(Arc::default())
    }
}

impl Labels {
    /// The first of these labels that the workers lack.
    pub fn lacking<'a>(&self, required: &'a [Box<str>]) -> Option<&'a str> {
        match self {
            Self::All => None,
            Self::Only(labels) => required
                .iter()
                .find(|label| !labels.contains(label))
                .map(|label| &**label),
        }
    }
}

impl<L: Into<Box<str>>> FromIterator<L> for Labels {
    fn from_iter<I: IntoIterator<Item = L>>(labels: I) -> Self {
        Self::Only(labels.into_iter().map(Into::into).collect())
    }
}
