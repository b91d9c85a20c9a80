//! A handle of what a node gives, with its type.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use windlass_engine::{ActionError, Context};

/// What a node gives. The functions of nodes that come after it read it by type.
pub struct Output<T> {
    node: Box<str>,
    types: PhantomData<fn() -> T>,
}

impl<T> Output<T> {
    /// The output of the node with this id or unique name.
    pub fn of(node: &str) -> Self {
        Self {
            node: node.into(),
            types: PhantomData,
        }
    }

    /// The node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The same as a template, for parameters.
    pub fn template(&self) -> String {
        format!("{{{{ context.data['{}'] }}}}", self.node)
    }
}

impl<T: DeserializeOwned> Output<T> {
    /// Reads it in an action of the same run that comes after the node.
    ///
    /// # Errors
    /// The node has not succeeded, its output does not fit, or the run cannot be read.
    pub async fn read(&self, context: &Context) -> Result<T, ActionError> {
        context.output(&self.node).await
    }
}

impl<T> Clone for Output<T> {
    fn clone(&self) -> Self {
        Self::of(&self.node)
    }
}

impl<T> fmt::Debug for Output<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Output").field(&self.node).finish()
    }
}
