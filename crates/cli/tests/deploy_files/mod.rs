//! The files of `deploy/` as values: YAML documents, and what a container of them is given.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// The documents of a file.
pub(crate) fn documents(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder().join(name)).expect("a file of deploy");
    let mut parser = Parser::new_from_str(&text);
    let mut documents = Vec::new();
    while let Some(event) = next(&mut parser, name) {
        if let Event::DocumentStart(_) = event {
            let first = next(&mut parser, name).expect("a document has a value");
            documents.push(value(first, &mut parser, name));
        }
    }
    documents
}

fn next<'t>(parser: &mut Parser<'t, saphyr_parser::StrInput<'t>>, name: &str) -> Option<Event<'t>> {
    let (event, _) = parser
        .next_event()?
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    Some(event)
}

/// The value that an event begins. A key that stands twice is an error, as for `kubectl`.
fn value<'t>(
    event: Event<'t>,
    parser: &mut Parser<'t, saphyr_parser::StrInput<'t>>,
    name: &str,
) -> Value {
    match event {
        Event::Scalar(text, style, _, tag) => {
            assert!(tag.is_none(), "{name}: a tag at {text}");
            scalar(&text, style)
        }
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match next(parser, name).expect("it ends") {
                    Event::SequenceEnd => return items.into(),
                    item => items.push(value(item, parser, name)),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut map = Map::new();
            loop {
                let key = match next(parser, name).expect("it ends") {
                    Event::MappingEnd => return map.into(),
                    Event::Scalar(key, ..) => key.into_owned(),
                    other => panic!("{name}: {other:?} is no key"),
                };
                let first = next(parser, name).expect("it ends");
                let held = map.insert(key.clone(), value(first, parser, name));
                assert!(held.is_none(), "{name}: {key} stands twice");
            }
        }
        other => panic!("{name}: {other:?} is no value"),
    }
}

/// Plain scalars by the core schema; what is quoted is text.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return text.into();
    }
    match text {
        "" | "~" | "null" => Value::Null,
        "true" => true.into(),
        "false" => false.into(),
        _ => text
            .parse::<i64>()
            .map_or_else(|_| text.into(), Value::from),
    }
}

/// Variables, by name.
pub(crate) type Variables = BTreeMap<String, String>;

/// A map of names to texts, such as the data of a ConfigMap.
pub(crate) fn texts(map: &Value) -> Variables {
    let map = map.as_object().unwrap_or_else(|| panic!("no map: {map}"));
    let text = |value: &Value| {
        let text = value.as_str();
        text.unwrap_or_else(|| panic!("{value} must be quoted"))
            .to_owned()
    };
    map.iter()
        .map(|(key, value)| (key.clone(), text(value)))
        .collect()
}
