//! The JSON Schema of definitions, made from the types.

use serde_json::Value;

use super::types::Definition;

/// The JSON Schema (2020-12) of a definition, with descriptions, patterns,
/// ranges and defaults, as it is published for editors.
pub fn schema() -> Value {
    let mut schema = schemars::generate::SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<Definition>()
        .to_value();
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_owned(), "Windlass workflow definition".into());
    }
    schema
}
