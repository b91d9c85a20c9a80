//! The structural check and the types agree: a definition that passes the check, apart from
//! left-out members, can be read into the types.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::problem::Findings;
use super::repair::mended;
use super::scan::scan;
use super::structure::Structure;
use super::types::Definition;

const EXAMPLE: &str = include_str!("../../tests/definition_example.json");

/// Says whether the check found something that the types refuse too.
fn agree(text: &str) -> Result<bool, TestCaseError> {
    let mut findings = Findings::default();
    let mut structure = Structure::new(text, &mut findings);
    scan(text, 64, &mut structure).expect("the mutations keep it JSON");
    let outcome = structure.finish();
    let read = serde_json::from_str::<Definition>(text);
    if outcome.broken || !outcome.edits.is_empty() {
        prop_assert!(!findings.is_accepted());
    } else {
        prop_assert!(read.is_ok(), "{:?} in {text}", read.err());
    }
    if !outcome.broken {
        let left = mended(text, &outcome.edits);
        let read = serde_json::from_str::<Definition>(&left);
        prop_assert!(read.is_ok(), "{:?} in {left}", read.err());
    }
    Ok(outcome.broken || !outcome.edits.is_empty())
}

fn places(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(places).sum(),
        Value::Object(map) => map.values().map(places).sum(),
        _ => 0,
    }
}

/// The value at a place, counted in the order of the document.
fn place<'v>(value: &'v mut Value, left: &mut usize) -> Option<&'v mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(list) => list.iter_mut().find_map(|value| place(value, left)),
        Value::Object(map) => map.values_mut().find_map(|value| place(value, left)),
        _ => None,
    }
}

fn change(document: &mut Value, at: Index, kind: usize, which: Index) {
    let mut left = at.index(places(document));
    let Some(value) = place(document, &mut left) else {
        return;
    };
    let strange = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(5_000_000_000_u64),
        json!(1e300),
        json!(""),
        json!("a"),
        json!("all"),
        json!([]),
        json!([1]),
        json!({}),
        json!({ "all": null }),
        json!({ "atLeast": 1 }),
    ];
    match (kind, &mut *value) {
        (0, Value::Object(map)) if !map.is_empty() => {
            let key = map.keys().nth(which.index(map.len())).cloned();
            map.remove(&key.unwrap_or_default());
        }
        (1, Value::Object(map)) => {
            map.insert("unknown".to_owned(), json!({ "a": [1] }));
        }
        (2, Value::Object(map)) => {
            let keys = [
                "id", "edges", "join", "delay", "when", "retry", "body", "on",
            ];
            let key = keys[which.index(keys.len())];
            map.insert(key.to_owned(), strange[which.index(strange.len())].clone());
        }
        (3, Value::Array(list)) => list.push(strange[which.index(strange.len())].clone()),
        _ => *value = strange[which.index(strange.len())].clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn changed_documents(
        changes in proptest::collection::vec((any::<Index>(), 0usize..6, any::<Index>()), 1..4),
        pretty in any::<bool>(),
    ) {
        let mut document: Value = serde_json::from_str(EXAMPLE).expect("the example is JSON");
        for (at, kind, which) in changes {
            change(&mut document, at, kind, which);
        }
        let text = if pretty { format!("{document:#}") } else { document.to_string() };
        agree(&text)?;
    }
}

#[test]
fn every_value_replaced_by_every_other_type() {
    let document: Value = serde_json::from_str(EXAMPLE).expect("the example is JSON");
    let mut refused = 0;
    for at in 0..places(&document) {
        for strange in [
            json!(null),
            json!(7),
            json!("x"),
            json!([]),
            json!({}),
            json!(true),
        ] {
            let mut changed = document.clone();
            if let Some(value) = place(&mut changed, &mut at.clone()) {
                *value = strange;
            }
            refused += usize::from(agree(&changed.to_string()).expect("agreement"));
        }
    }
    assert!(refused > 300, "only {refused} changes were refused");
}
