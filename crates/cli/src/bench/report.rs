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

    /// One block a figure, one line a value.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for (name, figure) in &self.figures {
            text.push_str(&format!("{name}\n"));
            for (key, value) in figure.as_object().into_iter().flatten() {
                let shown = match value {
                    Value::Number(number) => number.as_f64().map_or(number.to_string(), short),
                    Value::String(words) => words.clone(),
                    other => other.to_string(),
                };
                text.push_str(&format!("  {key:<24} {shown}\n"));
            }
        }
        text
    }
}

/// Three digits that matter, and no more.
fn short(number: f64) -> String {
    if number >= 100.0 || number == number.trunc() {
        format!("{number:.0}")
    } else if number >= 1.0 {
        format!("{number:.2}")
    } else {
        format!("{number:.4}")
    }
}
