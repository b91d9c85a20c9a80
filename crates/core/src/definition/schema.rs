//! The JSON Schema of definitions, made from the types.

use serde_json::{Value, json};

use super::types::Definition;

/// The keys that say what a node is; a node has exactly one of them.
pub(crate) const KINDS: [&str; 7] = [
    "actionType",
    "forEach",
    "while",
    "retryUntil",
    "subworkflow",
    "waitForSignal",
    "delay",
];

/// The JSON Schema (2020-12) of a definition, with descriptions, patterns,
/// ranges and defaults, as it is published for editors.
pub fn schema() -> Value {
    let mut schema = schemars::generate::SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<Definition>()
        .to_value();
    schema["title"] = json!("Windlass workflow definition");
    // What the types cannot say: a node is one thing, a delay has one end.
    schema["$defs"]["Node"]["oneOf"] = one_of(&KINDS);
    schema["$defs"]["Delay"]["oneOf"] = one_of(&["ms", "until"]);
    schema
}

fn one_of(keys: &[&str]) -> Value {
    keys.iter()
        .map(|key| json!({ "required": [key] }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(schema: &Value) -> Vec<(&str, &Value)> {
        let definitions = schema["$defs"].as_object().expect("definitions");
        let mut objects: Vec<_> = definitions
            .iter()
            .map(|(name, schema)| (name.as_str(), schema))
            .filter(|(_, schema)| schema["type"] == "object")
            .collect();
        objects.push(("Definition", schema));
        objects
    }

    #[test]
    fn every_object_is_closed_and_every_key_described() {
        let schema = schema();
        assert_eq!(objects(&schema).len(), 17);
        for (name, object) in objects(&schema) {
            assert_eq!(object["additionalProperties"], false, "{name}");
            for (key, value) in object["properties"].as_object().expect("properties") {
                assert!(value["description"].is_string(), "{name}.{key}");
            }
        }
    }

    /// Texts with a limit of their own: expressions (`limit_expression_bytes`).
    const EXPRESSIONS: [&str; 4] = [
        "/$defs/Edge/properties/condition",
        "/$defs/Switch/properties/on",
        "/$defs/While/properties/condition",
        "/$defs/RetryUntil/properties/until",
    ];

    /// Every place of a schema that asks for a text, or for an object with keys of the
    /// author's choice, and does not say how long they may be.
    fn unbounded(schema: &Value, pointer: &str, found: &mut Vec<String>) {
        let is = |name: &str| {
            let kind = &schema["type"];
            kind == name
                || kind
                    .as_array()
                    .is_some_and(|kinds| kinds.iter().any(|it| it == name))
        };
        let bounds = |schema: &Value| {
            ["maxLength", "pattern", "enum", "const"]
                .iter()
                .any(|keyword| !schema[*keyword].is_null())
        };
        if is("string") && !bounds(schema) && !EXPRESSIONS.contains(&pointer) {
            found.push(pointer.to_owned());
        }
        let is_free = is("object") && schema["additionalProperties"] != false;
        if is_free && !bounds(&schema["propertyNames"]) {
            found.push(format!("{pointer}/propertyNames"));
        }
        match schema {
            Value::Object(members) => members.iter().for_each(|(key, value)| {
                unbounded(value, &format!("{pointer}/{key}"), found);
            }),
            Value::Array(items) => items.iter().enumerate().for_each(|(at, value)| {
                unbounded(value, &format!("{pointer}/{at}"), found);
            }),
            _ => {}
        }
    }

    #[test]
    fn every_text_and_every_free_key_has_a_length() {
        let mut found = Vec::new();
        unbounded(&schema(), "", &mut found);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn ids_defaults_and_ranges_are_there() {
        let schema = schema();
        assert_eq!(
            schema["$schema"],
            "https://json-schema.org/draft/2020-12/schema"
        );
        assert_eq!(schema["properties"]["id"]["pattern"], "^[a-z0-9-]{1,128}$");
        assert_eq!(schema["properties"]["nodes"]["minItems"], 1);
        assert_eq!(schema["properties"]["maxParallel"]["minimum"], 1);
        assert_eq!(schema["properties"]["failurePolicy"]["default"], "partial");
        let definitions = &schema["$defs"];
        let node = &definitions["Node"];
        assert_eq!(
            node["properties"]["id"]["pattern"],
            "^[A-Za-z0-9_-]{1,128}$"
        );
        assert_eq!(node["oneOf"].as_array().map(Vec::len), Some(7));
        let retry = &definitions["Retry"]["properties"];
        assert_eq!(retry["baseDelayMs"]["default"], 2000);
        assert_eq!(retry["jitter"]["default"], true);
        for kind in KINDS {
            assert!(node["properties"][kind].is_object(), "{kind}");
        }
    }
}
