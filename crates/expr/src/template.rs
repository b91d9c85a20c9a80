//! JSON documents whose strings may hold `{{ expression }}`s.

use crate::{Error, Limits, Reference, Scope, TemplateProblem};

/// A JSON document whose strings may hold `{{ expression }}`s. Object keys are not templates.
#[derive(Clone, Debug)]
pub struct Template {
    text: Box<str>,
    references: Vec<Reference>,
}

impl Template {
    /// Compiles valid JSON text.
    pub fn compile(
        json: &str,
        _scope: &Scope,
        _limits: &Limits,
    ) -> Result<Self, Vec<TemplateProblem>> {
        Ok(Self {
            text: json.into(),
            references: Vec::new(),
        })
    }

    /// Whether the document holds no expression at all.
    pub fn is_constant(&self) -> bool {
        true
    }

    /// What the document's expressions refer to, each once; slot order of [`render`](Self::render).
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// Renders to JSON text.
    pub fn render(
        &self,
        _inputs: &[Option<&serde_json::Value>],
        _limits: &Limits,
    ) -> Result<String, Error> {
        Ok(self.text.to_string())
    }
}
