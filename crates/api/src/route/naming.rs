//! The document as generators of clients need it: schemas that accept anything are empty objects
//! and not `true`, which several refuse; a choice of words is one `enum`, of which a choice of
//! constants some accept only the first; and each schema has the name that its class will have
//! in a client.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// How types of answers end, so that they do not collide with the types that they describe.
const SUFFIX: &str = "Shape";

/// Schemas whose name in the code is not what a client's user would look for, or is taken.
const NAMED: [(&str, &str); 13] = [
    ("Action", "DeclaredAction"),
    ("DefinitionShape", "WorkflowDefinition"),
    ("ExportShape", "ExportedGraph"),
    ("HookMadeShape", "NewHook"),
    ("LetterShape", "DeadLetter"),
    ("LettersShape", "DeadLetters"),
    ("LogShape", "ExecutionLog"),
    ("NodeShape", "NodeInstance"),
    ("Pool", "NodePool"),
    ("RunErrorShape", "ExecutionError"),
    ("RunItemError", "ExecutionItemError"),
    ("RunShape", "ExecutionItem"),
    ("StopShape", "HeartbeatAnswer"),
];

/// The document with its schemas named for clients.
pub(super) fn for_generators(mut document: Value) -> Value {
    let schemas = document["components"]["schemas"].as_object_mut();
    let Some(schemas) = schemas.map(std::mem::take) else {
        return document;
    };
    let names: BTreeMap<String, String> = schemas
        .iter()
        .map(|(name, schema)| (name.clone(), name_of(name, schema)))
        .collect();
    let renamed = schemas
        .into_iter()
        .map(|(name, schema)| (names[&name].clone(), schema));
    let renamed: Map<String, Value> = renamed.collect();
    assert_eq!(renamed.len(), names.len(), "two schemas have one name");
    document["components"]["schemas"] = Value::Object(renamed);
    tidy(&mut document, &names);
    document
}

fn name_of(name: &str, schema: &Value) -> String {
    if is_page(name)
        && let Some(item) = schema["properties"]["items"]["items"]["$ref"].as_str()
    {
        let item = item.rsplit('/').next().unwrap_or(item);
        return format!("{}Page", name_of(item, &Value::Null));
    }
    match NAMED.iter().find(|(known, _)| *known == name) {
        Some((_, named)) => (*named).to_owned(),
        None => name.strip_suffix(SUFFIX).unwrap_or(name).to_owned(),
    }
}

/// A page of a list; the generator numbers them.
fn is_page(name: &str) -> bool {
    let number = name.strip_prefix("Page");
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Renames what references lead to, and replaces schemas that are `true` and choices of words.
fn tidy(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref") {
                rename(reference, names);
            }
            for key in ["schema", "items", "additionalProperties"] {
                if let Some(schema) = members.get_mut(key) {
                    accept_anything(schema);
                }
            }
            if let Some(Value::Object(properties)) = members.get_mut("properties") {
                properties.values_mut().for_each(accept_anything);
            }
            enumerate(members);
            members.values_mut().for_each(|value| tidy(value, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| tidy(value, names)),
        _ => {}
    }
}

fn accept_anything(schema: &mut Value) {
    if *schema == Value::Bool(true) {
        *schema = Value::Object(Map::new());
    }
}

/// A choice of words as an `enum`; its description tells what each means.
fn enumerate(schema: &mut Map<String, Value>) {
    let Some(choices) = schema.get("oneOf").and_then(Value::as_array) else {
        return;
    };
    let mut words = Vec::new();
    let mut meanings = String::new();
    for choice in choices {
        let Some(word) = choice["const"].as_str() else {
            return;
        };
        words.push(Value::from(word));
        if let Some(meaning) = choice["description"].as_str() {
            meanings.push_str(&format!("\n- `{word}`: {meaning}"));
        }
    }
    schema.remove("oneOf");
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), words.into());
    if !meanings.is_empty() {
        let about = schema.get("description").and_then(Value::as_str);
        let about = format!("{}\n{meanings}", about.unwrap_or_default());
        schema.insert("description".to_owned(), about.trim_start().into());
    }
}

fn rename(reference: &mut String, names: &BTreeMap<String, String>) {
    let Some((place, name)) = reference.rsplit_once('/') else {
        return;
    };
    if let Some(named) = names.get(name) {
        *reference = format!("{place}/{named}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_choice_of_words_is_an_enum() {
        let document = for_generators(json!({"components": {"schemas": {"State": {
            "description": "How it stands.",
            "oneOf": [
                {"type": "string", "const": "queued", "description": "It has not begun."},
                {"type": "string", "const": "running"},
            ],
        }, "Mixed": {"oneOf": [{"type": "string", "const": "a"}, {"type": "null"}]}}}}));
        let schemas = &document["components"]["schemas"];
        let expected = json!({
            "description": "How it stands.\n\n- `queued`: It has not begun.",
            "type": "string", "enum": ["queued", "running"],
        });
        assert_eq!(schemas["State"], expected);
        assert!(schemas["Mixed"]["oneOf"].is_array());
    }

    #[test]
    fn schemas_have_the_names_of_a_client() {
        let document = for_generators(json!({
            "paths": {"/x": {"get": {"schema": {"$ref": "#/components/schemas/Page2"}}}},
            "components": {"schemas": {
                "ExecutionShape": {"properties": {"output": true, "nodes": {"items": true}}},
                "LetterShape": {"properties": {"payload": true}, "additionalProperties": true},
                "Page2": {"properties": {"items": {
                    "type": "array", "items": {"$ref": "#/components/schemas/LetterShape"}}}},
            }},
        }));
        let schemas = &document["components"]["schemas"];
        let names: Vec<&String> = schemas.as_object().expect("schemas").keys().collect();
        assert_eq!(names, ["Execution", "DeadLetter", "DeadLetterPage"]);
        let execution = &schemas["Execution"]["properties"];
        assert_eq!(execution["output"], json!({}));
        assert_eq!(execution["nodes"]["items"], json!({}));
        assert_eq!(schemas["DeadLetter"]["additionalProperties"], json!({}));
        let page = &document["paths"]["/x"]["get"]["schema"]["$ref"];
        assert_eq!(page, "#/components/schemas/DeadLetterPage");
    }
}
