//! How a plain value of a definition is written for a column of its type.

use serde_json::{Value, json};

use super::board::Column;

/// A value as Monday takes it. An object is passed on as it is: it is Monday's own form.
pub(super) fn column_value(column: &Column, value: &Value) -> Value {
    if value.is_object() || value.is_null() {
        return value.clone();
    }
    match column.kind.as_str() {
        "status" | "color" => match value {
            Value::Number(index) => json!({ "index": index }),
            other => json!({ "label": text(other) }),
        },
        "dropdown" => json!({ "labels": texts(value) }),
        "date" => date(&text(value)),
        "checkbox" | "boolean" => match value {
            Value::Bool(false) => Value::Null,
            _ => json!({ "checked": "true" }),
        },
        "long_text" | "long-text" => json!({ "text": text(value) }),
        "email" => json!({ "email": text(value), "text": text(value) }),
        "link" => json!({ "url": text(value), "text": text(value) }),
        "people" | "multiple-person" => {
            // Monday documents the id as a number.
            let id = |text: String| {
                text.parse::<u64>()
                    .map_or_else(|_| json!(text), |id| json!(id))
            };
            let person = |text: String| json!({ "id": id(text), "kind": "person" });
            let people: Vec<Value> = texts(value).into_iter().map(person).collect();
            json!({ "personsAndTeams": people })
        }
        _ => json!(text(value)),
    }
}

/// `2024-01-31`, or a moment: then the time goes with it, in UTC as it is written.
fn date(text: &str) -> Value {
    match text.split_once(['T', ' ']) {
        Some((day, time)) if time.len() >= 8 => json!({ "date": day, "time": &time[..8] }),
        _ => json!({ "date": text }),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().map(text).collect(),
        one => vec![text(one)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_their_columns_take_them() {
        for (kind, value, expected) in [
            ("status", json!("Done"), json!({ "label": "Done" })),
            ("status", json!(2), json!({ "index": 2 })),
            ("text", json!("x"), json!("x")),
            ("numbers", json!(1.5), json!("1.5")),
            ("date", json!("2024-01-31"), json!({ "date": "2024-01-31" })),
            (
                "date",
                json!("2024-01-31T08:30:00Z"),
                json!({ "date": "2024-01-31", "time": "08:30:00" }),
            ),
            (
                "dropdown",
                json!(["a", "b"]),
                json!({ "labels": ["a", "b"] }),
            ),
            (
                "people",
                json!(7),
                json!({ "personsAndTeams": [{ "id": 7, "kind": "person" }] }),
            ),
            (
                "people",
                json!(["7", "x"]),
                json!({ "personsAndTeams": [{ "id": 7, "kind": "person" },
                                            { "id": "x", "kind": "person" }] }),
            ),
            ("checkbox", json!(true), json!({ "checked": "true" })),
            ("anything", json!({ "own": 1 }), json!({ "own": 1 })),
        ] {
            let column = Column {
                id: "c".to_owned(),
                title: "C".to_owned(),
                kind: kind.to_owned(),
            };
            assert_eq!(column_value(&column, &value), expected, "{kind}");
        }
    }
}
