//! The figures as JSON and as a table.

use serde_json::{Map, Value};

/// Figures by name.
#[derive(Debug, Default)]
pub(crate) struct Report {
    figures: Map<String, Value>,
}

impl Report {
    pub(crate) fn add(&mut self, name: &str, figure: Value) {
        self.figures.insert(name.to_owned(), figure);
    }

    pub(crate) fn json(&self) -> Value {
        Value::Object(self.figures.clone())
    }
}
