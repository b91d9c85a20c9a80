//! The JSON Schema of definitions with the parameters of the known actions in it, for editors.
//!
//! The core knows no actions, so its schema leaves parameters open; here each action type adds a
//! rule for them. Where a value is no text, a template may stand in its place.

use serde_json::{Map, Value, json};
use windlass_core::definition;

use crate::definition::every_action;

/// The objects of a definition that name an action and its parameters.
const CALLERS: [&str; 2] = ["Node", "Compensate"];

/// What says nothing about a value, and stays outside when a template may stand in its place.
const NOTES: [&str; 5] = ["title", "description", "default", "examples", "deprecated"];

/// The JSON Schema of definitions.
pub fn schema() -> Value {
    let mut schema = definition::schema();
    let mut rules = Vec::new();
    for action in every_action().describe() {
        let name = format!("{}.parameters", action.name);
        let mut parameters = action.parameters.to_value();
        let required = parameters["required"].is_array();
        if let Some(object) = parameters.as_object_mut() {
            object.remove("$schema");
            for (inner, mut definition) in taken(object, "$defs") {
                point_elsewhere(&mut definition, &action.name);
                open(&mut definition);
                schema["$defs"][format!("{}.{inner}", action.name)] = definition;
            }
        }
        point_elsewhere(&mut parameters, &action.name);
        open(&mut parameters);
        schema["$defs"][&name] = or_template(parameters);
        let mut rule = json!({
            "if": {
                "properties": { "actionType": { "const": action.name } },
                "required": ["actionType"]
            },
            "then": { "properties": { "parameters": { "$ref": format!("#/$defs/{name}") } } }
        });
        if required {
            rule["then"]["required"] = json!(["parameters"]);
        }
        rules.push(rule);
    }
    for caller in CALLERS {
        schema["$defs"][caller]["allOf"] = Value::from(rules.clone());
    }
    schema
}

fn taken(object: &mut Map<String, Value>, key: &str) -> Map<String, Value> {
    match object.remove(key) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// References to definitions of the action lead to where they are now.
fn point_elsewhere(schema: &mut Value, action: &str) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get_mut("$ref")
                && let Some(name) = target.strip_prefix("#/$defs/")
            {
                *target = format!("#/$defs/{action}.{name}");
            }
            map.values_mut().for_each(|it| point_elsewhere(it, action));
        }
        Value::Array(list) => list.iter_mut().for_each(|it| point_elsewhere(it, action)),
        _ => {}
    }
}

/// Lets a template stand in the place of every member and element.
fn open(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    for key in ["anyOf", "oneOf", "allOf"] {
        let branches = map.get_mut(key).and_then(Value::as_array_mut);
        branches.into_iter().flatten().for_each(open);
    }
    if let Some(Value::Object(members)) = map.get_mut("properties") {
        members.values_mut().for_each(opened);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner @ Value::Object(_)) = map.get_mut(key) {
            opened(inner);
        }
    }
}

fn opened(schema: &mut Value) {
    open(schema);
    *schema = or_template(schema.take());
}

/// The schema, or a text with a template in it.
fn or_template(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else {
        return schema;
    };
    let says = |key: &&String| !NOTES.contains(&key.as_str());
    let rules: Vec<&str> = schema.keys().filter(says).map(String::as_str).collect();
    let is_text = rules.is_empty() || rules == ["type"] && accepts_text(&schema["type"]);
    if is_text {
        return Value::Object(schema);
    }
    let mut outside = Map::new();
    for note in NOTES {
        if let Some(value) = schema.remove(note) {
            outside.insert(note.to_owned(), value);
        }
    }
    let template = json!({ "type": "string", "pattern": "\\{\\{" });
    outside.insert("anyOf".to_owned(), json!([Value::Object(schema), template]));
    Value::Object(outside)
}

fn accepts_text(kind: &Value) -> bool {
    kind == "string"
        || kind
            .as_array()
            .is_some_and(|kinds| kinds.contains(&json!("string")))
}

#[cfg(test)]
mod tests {
    use super::schema;
    use windlass_engine::check_payload;

    fn fits(definition: &str) -> Result<(), String> {
        let schema = schema().to_string();
        check_payload(definition, [&*schema]).map_err(|error| error.to_string())
    }

    fn call(parameters: &str) -> String {
        format!(
            r#"{{"id":"a","nodes":[{{"id":"n","actionType":"http.request","parameters":{parameters}}}]}}"#
        )
    }

    #[test]
    fn parameters_of_known_actions_are_part_of_it() {
        assert_eq!(fits(&call(r#"{"url":"http://a"}"#)), Ok(()));
        assert_eq!(
            fits(&call(
                r#"{"url":"{{ vars.a }}","timeoutMs":"{{ vars.t }}"}"#
            )),
            Ok(())
        );
        assert_eq!(fits(&call(r#""{{ trigger }}""#)), Ok(()));
        for wrong in [
            r#"{"urll":"http://a"}"#,
            r#"{"url":"a","timeoutMs":"5"}"#,
            "{}",
        ] {
            assert!(fits(&call(wrong)).is_err(), "{wrong}");
        }
        let unknown = r#"{"id":"a","nodes":[{"id":"n","actionType":"x","parameters":{"b":1}}]}"#;
        assert_eq!(fits(unknown), Ok(()));
    }

    #[test]
    fn every_example_fits() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        for entry in std::fs::read_dir(folder).expect("examples") {
            let path = entry.expect("a file").path();
            if path.extension().is_some_and(|it| it == "json") {
                let text = std::fs::read_to_string(&path).expect("a text");
                assert_eq!(fits(&text), Ok(()), "{}", path.display());
            }
        }
    }
}
