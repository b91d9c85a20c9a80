//! One compiled expression.

use std::sync::Arc;

use crate::{Error, Limits, Problem, Reference, Scope, Value};

/// A compiled expression: immutable, shareable between threads and cheap to clone.
#[derive(Clone, Debug)]
pub struct Expression {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Box<str>,
    references: Vec<Reference>,
    offsets: Vec<usize>,
}

impl Expression {
    /// Compiles `source`, or says everything that is wrong with it.
    pub fn compile(source: &str, _scope: &Scope, _limits: &Limits) -> Result<Self, Vec<Problem>> {
        let inner = Inner {
            source: source.into(),
            references: Vec::new(),
            offsets: Vec::new(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The text this was compiled from.
    pub fn source(&self) -> &str {
        &self.inner.source
    }

    /// What the expression refers to; slot `i` of [`evaluate`](Self::evaluate)'s inputs belongs to the `i`th.
    pub fn references(&self) -> &[Reference] {
        &self.inner.references
    }

    /// The byte offset of the first occurrence of each reference.
    pub fn reference_offsets(&self) -> &[usize] {
        &self.inner.offsets
    }

    /// Evaluates over `inputs`, one for each reference; `None` means `undefined`.
    pub fn evaluate<'a>(
        &'a self,
        _inputs: &[Option<&'a serde_json::Value>],
        _limits: &Limits,
    ) -> Result<Value<'a>, Error> {
        Ok(Value::Undefined(std::marker::PhantomData))
    }
}
