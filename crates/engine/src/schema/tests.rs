//! The count of work against an evaluator that walks every branch and counts its visits, and
//! the shapes that would hang a server.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

const LIMIT: u64 = 10_000;

/// Past this the evaluator stops counting.
const MOST_VISITS: u64 = 200_000;

/// Definitions `d0` to `dN`, each made of a reference to the next.
fn chain(levels: usize, link: impl Fn(Value) -> Value) -> String {
    let reference = |level: usize| json!({ "$ref": format!("#/$defs/d{level}") });
    let mut definitions = Map::new();
    for level in 0..levels {
        definitions.insert(format!("d{level}"), link(reference(level + 1)));
    }
    definitions.insert(format!("d{levels}"), json!({ "type": "object" }));
    json!({ "$ref": "#/$defs/d0", "$defs": definitions }).to_string()
}

fn refused(text: &str) -> String {
    match check_text(text, LIMIT) {
        Err(SchemaProblem::Limit(message)) => message,
        other => panic!("{other:?} for {}", cut(text)),
    }
}

fn cut(text: &str) -> &str {
    windlass_core::name::cut(text, 300)
}

#[test]
fn what_doubles_at_each_level_is_refused_before_it_is_compiled() {
    let twice = |keyword: &'static str| move |next: Value| json!({ keyword: [next, next] });
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let message = refused(&chain(40, twice(keyword)));
        assert!(message.contains("may expand to 10000"), "{message}");
        assert!(check_text(&chain(8, twice(keyword)), LIMIT).is_ok());
    }
    refused(&chain(
        40,
        |next| json!({ "if": next, "then": next, "else": next }),
    ));
    refused(&chain(
        40,
        |next| json!({ "not": { "allOf": [next, next] } }),
    ));
    refused(&chain(
        40,
        |next| json!({ "dependentSchemas": { "a": next, "b": next } }),
    ));
    refused(&chain(
        40,
        |next| json!({ "dependencies": { "a": next, "b": next } }),
    ));
    // Each level is checked, checked again to find what it looked at, and asked for that.
    for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
        refused(&chain(
            40,
            |next| json!({ "allOf": [next], keyword: false }),
        ));
        refused(&chain(
            40,
            |next| json!({ "$ref": next["$ref"], keyword: false }),
        ));
    }
}

#[test]
fn nesting_beside_unevaluated_is_refused_before_it_is_compiled() {
    let mut schema = json!({ "type": "object" });
    for _ in 0..15 {
        schema =
            json!({ "allOf": [{ "properties": { "a": schema } }], "unevaluatedProperties": {} });
    }
    refused(&schema.to_string());
}

#[test]
fn references_that_go_nowhere_deeper_are_refused() {
    refused(r##"{"$ref":"#"}"##);
    refused(r##"{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#"}}}}"##);
    refused(r##"{"$anchor":"here","anyOf":[{"$ref":"#here"},true]}"##);
    refused(r##"{"$dynamicAnchor":"here","anyOf":[{"$dynamicRef":"#here"},true]}"##);
    refused(&chain(200, |next| json!({ "allOf": [next] })));
    let large = json!({ "enum": ["x".repeat(SCHEMA_BYTES)] });
    refused(&large.to_string());
}

#[test]
fn a_reference_to_another_place_is_refused_with_what_to_do() {
    let refers = |reference: &str| json!({ "properties": { "a": { "$ref": reference } } });
    for reference in [
        "https://example.com/a.json",
        "https://example.com/a.json#/b",
        "ftp://a",
    ] {
        let Err(SchemaProblem::Invalid(reason)) = check_text(&refers(reference).to_string(), LIMIT)
        else {
            panic!("{reference} is accepted");
        };
        assert!(reason.contains("not fetched"), "{reason}");
    }
    let mut own = refers("https://example.com/schemas/item");
    own["$id"] = json!("https://example.com/schemas/root");
    own["$defs"] = json!({ "item": { "$id": "item", "type": "string" } });
    let schema = Schema::compile(&own.to_string(), LIMIT).expect("its own part");
    assert!(schema.check(&json!({ "a": 7 })).is_err());
}

#[test]
fn compiling_costs_by_what_is_compiled() {
    let cost = |schema: &Value| check_text(&schema.to_string(), LIMIT).expect("a schema");
    let many: Map<_, _> = (0..1000)
        .map(|n| (format!("p{n}"), json!({ "type": "string" })))
        .collect();
    let pattern = json!({ "pattern": "(a{30}){30}" });
    assert!(cost(&json!(true)) >= EACH);
    assert!(cost(&json!({ "properties": many })) >= EACH + 1000);
    assert!(cost(&pattern) > cost(&json!({ "pattern": "a" })) + 100);
}

#[test]
fn patterns_are_bounded_together() {
    let patterns = |count: usize, pattern: &str| {
        let parts = (0..count).map(|n| json!({ "pattern": format!("{pattern}{n}") }));
        let parts = parts.enumerate().map(|(n, part)| (format!("p{n}"), part));
        json!({ "properties": parts.collect::<Map<_, _>>() }).to_string()
    };
    assert!(check_text(&patterns(500, "^a+"), LIMIT).is_ok());
    refused(&patterns(5_000, "^a+"));
    refused(&patterns(200, "(a{100}){100}"));
}

#[test]
fn recursion_through_parts_of_the_value_is_allowed() {
    let tree = r##"{"type":"object","required":["name"],"properties":{
        "name":{"type":"string"},
        "children":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}"##;
    let schema = Schema::compile(tree, LIMIT).expect("a tree");
    let mut value = json!({ "name": "leaf" });
    for _ in 0..30 {
        value = json!({ "name": "inner", "children": [value, { "name": "other" }] });
    }
    assert_eq!(schema.check(&value), Ok(()));
    value["children"][0]["children"][0]["name"] = json!(7);
    let Err(Refused::Invalid(problems)) = schema.check(&value) else {
        panic!("a name that is a number");
    };
    assert_eq!(problems[0].0, "/children/0/children/0/name");
    let meta = r#"{"$ref":"https://json-schema.org/draft/2020-12/schema"}"#;
    let schema = Schema::compile(meta, LIMIT).expect("the schema of schemas");
    assert_eq!(schema.check(&json!({ "type": "object" })), Ok(()));
    assert!(schema.check(&json!({ "type": 7 })).is_err());
}

#[test]
fn items_that_a_hash_cannot_tell_apart_count_each_with_each() {
    let schema = Schema::compile(r#"{"uniqueItems":true}"#, LIMIT).expect("a schema");
    // Nestings of empty lists have one hash; so have objects with swapped values.
    let nested = |number: u32| {
        let bit = |value: Value, at: u32| match number >> at & 1 {
            0 => json!([value]),
            _ => json!([value, []]),
        };
        (0..16).fold(json!([]), bit)
    };
    let lists: Vec<Value> = (0..10_000).map(nested).collect();
    assert!(matches!(
        schema.check(&json!(lists)),
        Err(Refused::Limit(_))
    ));
    let large: Vec<Value> = (0..20_000u64).map(|n| json!(u64::MAX - n)).collect();
    assert!(matches!(
        schema.check(&json!(large)),
        Err(Refused::Limit(_))
    ));
    // Ordinary lists are as long as they like.
    let texts: Vec<Value> = (0..200_000).map(|n| json!(format!("id-{n}"))).collect();
    assert_eq!(schema.check(&json!(texts)), Ok(()));
    let numbers: Vec<Value> = (0..200_000).map(|n| json!(n)).collect();
    assert_eq!(schema.check(&json!(numbers)), Ok(()));
    let rows: Vec<Value> = (0..1000).map(|n| json!({ "id": n, "name": "x" })).collect();
    assert_eq!(schema.check(&json!(rows)), Ok(()));
}

#[test]
fn a_value_that_multiplies_the_work_is_refused() {
    let doubling = r##"{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}"##;
    let schema = Schema::compile(doubling, LIMIT).expect("it expands to little by itself");
    let mut value = json!({});
    for _ in 0..40 {
        value = json!({ "a": value });
    }
    assert!(matches!(schema.check(&value), Err(Refused::Limit(_))));
    // Comparing each of many items with each of many constants.
    let constants: Vec<Value> = (0..20_000).map(|n| json!({ "k": n })).collect();
    let schema = json!({ "items": { "enum": constants } }).to_string();
    let schema = Schema::compile(&schema, LIMIT).expect("a list of constants");
    let items: Vec<Value> = (0..20_000).map(|n| json!({ "k": n })).collect();
    assert!(matches!(
        schema.check(&json!(items)),
        Err(Refused::Limit(_))
    ));
    assert_eq!(schema.check(&json!(items[..100])), Ok(()));
    // A pattern of many states over a long text.
    let schema = r#"{"pattern":"(a|b)*a(a|b){2000}c"}"#;
    let schema = Schema::compile(schema, LIMIT).expect("a pattern");
    assert!(matches!(
        schema.check(&json!("ab".repeat(1 << 20))),
        Err(Refused::Limit(_))
    ));
    assert!(matches!(
        schema.check(&json!("ab")),
        Err(Refused::Invalid(_))
    ));
}

#[test]
fn patterns_that_look_around_are_refused_when_published_and_bounded_when_stored() {
    let text = r#"{"pattern":"^(?=.*[0-9])[a-z0-9]+$"}"#;
    assert!(matches!(
        check_text(text, LIMIT),
        Err(SchemaProblem::Invalid(_))
    ));
    let schema = Schema::compile(text, LIMIT).expect("it was published before");
    assert_eq!(schema.check(&json!("abc1")), Ok(()));
    assert!(schema.check(&json!("abc")).is_err());
    let many: Vec<Value> = (0..10_000).map(|n| json!(format!("a{n}"))).collect();
    let text = format!(r#"{{"items":{text}}}"#);
    let schema = Schema::compile(&text, LIMIT).expect("it was published before");
    assert!(matches!(schema.check(&json!(many)), Err(Refused::Limit(_))));
}

#[test]
fn what_is_wrong_is_told_in_few_bytes() {
    let schema = Schema::compile(r#"{"type":"string"}"#, LIMIT).expect("a schema");
    let items: Vec<u32> = (0..1_000_000).collect();
    let Err(Refused::Invalid(problems)) = schema.check(&json!(items)) else {
        panic!("a list is no text");
    };
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].1.len() <= MESSAGE_BYTES + 3,
        "{}",
        problems[0].1.len()
    );
    // Every item is wrong: neither their number nor their messages grow without bound.
    let schema = json!({ "items": { "anyOf": [{ "type": "string" }, { "type": "null" }] } });
    let schema = Schema::compile(&schema.to_string(), LIMIT).expect("a schema");
    let Err(Refused::Invalid(problems)) = schema.check(&json!(items)) else {
        panic!("numbers are no texts");
    };
    assert!(problems.len() <= NAMED);
}

#[test]
fn a_long_way_through_parts_is_compiled_on_a_small_stack() {
    let text = chain(2_000, |next| json!({ "properties": { "a": next } }));
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    let compiled = thread.spawn(move || Schema::compile(&text, LIMIT).map(drop));
    assert_eq!(
        compiled.expect("a thread").join().expect("no panic"),
        Ok(())
    );
}

/// Walks a value with a schema, takes every branch, and counts what it visits.
struct Naive<'s> {
    root: &'s Value,
    visits: u64,
}

impl<'s> Naive<'s> {
    fn target(&self, reference: &Value) -> Option<&'s Value> {
        let pointer = reference.as_str()?.strip_prefix('#')?;
        self.root.pointer(pointer)
    }

    fn same_value(&self, schema: &'s Map<String, Value>) -> Vec<&'s Value> {
        let mut found = Vec::new();
        for keyword in ["allOf", "anyOf", "oneOf"] {
            found.extend(
                schema
                    .get(keyword)
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten(),
            );
        }
        for keyword in ["not", "if", "then", "else"] {
            found.extend(schema.get(keyword));
        }
        let dependent = schema.get("dependentSchemas").and_then(Value::as_object);
        found.extend(dependent.into_iter().flat_map(Map::values));
        found.extend(
            schema
                .get("$ref")
                .and_then(|reference| self.target(reference)),
        );
        found
    }

    fn check(&mut self, schema: &'s Value, value: &Value) -> Option<()> {
        self.visits += 1;
        let Value::Object(keywords) = schema else {
            return Some(());
        };
        if self.visits > MOST_VISITS {
            return None;
        }
        for target in self.same_value(keywords) {
            self.check(target, value)?;
        }
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let known = keywords.get("properties").and_then(|it| it.get(name));
                    let other = keywords.get("additionalProperties");
                    for part in known.or(other).into_iter() {
                        self.check(part, value)?;
                    }
                    if let Some(names) = keywords.get("propertyNames") {
                        self.check(names, &json!(name))?;
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    for keyword in ["items", "contains"] {
                        if let Some(part) = keywords.get(keyword) {
                            self.check(part, item)?;
                        }
                    }
                }
            }
            _ => {}
        }
        if keywords.contains_key("unevaluatedProperties") {
            self.mark(schema, value)?;
        }
        Some(())
    }

    /// What a schema looked at: everything that sees the same value is checked again.
    fn mark(&mut self, schema: &'s Value, value: &Value) -> Option<()> {
        self.visits += 1;
        let keywords = schema.as_object()?;
        for target in self.same_value(keywords) {
            self.check(target, value)?;
            if target.is_object() {
                self.mark(target, value)?;
            }
        }
        let own = keywords.get("unevaluatedProperties");
        let members = value.as_object().into_iter().flat_map(Map::values);
        for (own, member) in members.filter_map(|member| Some((own?, member))) {
            self.check(own, member)?;
        }
        Some(())
    }
}

fn subschema() -> impl Strategy<Value = Value> {
    let reference = (0..4usize).prop_map(|to| json!({ "$ref": format!("#/$defs/d{to}") }));
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!({ "type": "object" })),
        Just(json!({ "type": ["string", "null"] })),
        Just(json!({ "enum": [1, "a", null] })),
        Just(json!({ "pattern": "^a*$" })),
        reference.clone(),
        reference,
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            (prop_oneof!["allOf", "anyOf", "oneOf"], list)
                .prop_map(|(keyword, list)| json!({ keyword: list })),
            (inner.clone(), inner.clone())
                .prop_map(|(one, two)| json!({ "properties": { "a": one, "b": two } })),
            (inner.clone(), inner.clone()).prop_map(
                |(one, two)| json!({ "properties": { "a": one }, "additionalProperties": two })
            ),
            (inner.clone(), inner.clone())
                .prop_map(|(one, two)| json!({ "items": one, "contains": two })),
            (inner.clone(), inner.clone())
                .prop_map(|(one, two)| json!({ "if": one, "then": two, "else": true })),
            (inner.clone(), inner.clone())
                .prop_map(|(one, two)| json!({ "allOf": [one], "unevaluatedProperties": two })),
            inner
                .clone()
                .prop_map(|one| json!({ "not": one, "propertyNames": true })),
            inner.prop_map(|one| json!({ "dependentSchemas": { "a": one }, "uniqueItems": true })),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let definitions = proptest::collection::vec(subschema(), 4);
    (subschema(), definitions).prop_map(|(root, definitions)| {
        let definitions = definitions.into_iter().enumerate();
        let definitions: Map<String, Value> = definitions
            .map(|(at, schema)| (format!("d{at}"), schema))
            .collect();
        json!({ "allOf": [root], "$defs": definitions })
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(1)),
        Just(json!("a")),
        Just(json!("aaaa"))
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((prop_oneof!["a", "b", "c"], inner), 0..4)
                .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// The count is never below what an evaluator does that stops nowhere, and what is within the
/// budget ends.
#[test]
fn fuzz_schemas_take_no_more_than_was_counted() {
    windlass_test_support::fuzz_rounds::rounds(
        file!(),
        500,
        &(schema(), value()),
        |(schema, value)| {
            let text = schema.to_string();
            let schema_of = match Schema::compile(&text, LIMIT) {
                Ok(compiled) => compiled,
                Err(SchemaProblem::Limit(_)) => return Ok(()),
                Err(SchemaProblem::Invalid(reason)) => {
                    return Err(TestCaseError::fail(reason));
                }
            };
            let work = schema_of.ordered.work(&value, u64::MAX);
            let mut naive = Naive {
                root: &schema,
                visits: 0,
            };
            let ended = naive.check(&schema, &value);
            if let Some(work) = work {
                prop_assert!(naive.visits <= work.checking, "{} > {work:?}", naive.visits);
                prop_assert!(ended.is_some() || work.checking > MOST_VISITS);
            }
            let _ = schema_of.check(&value);
            Ok(())
        },
    );
}
