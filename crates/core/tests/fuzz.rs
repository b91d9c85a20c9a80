//! Definitions that were written by people and then damaged: each ends in problems with
//! places or in a definition, never in a panic, an overflow of a small stack, or no end.

use proptest::prelude::*;
use proptest::sample::Index;
use windlass_core::definition::{DefinitionFormat, DefinitionSource, MAX_PROBLEMS, Options, parse};
use windlass_core::plan::Plan;

/// The stack that promises are made for.
const STACK: usize = 512 * 1024;

const JSON: &[&str] = &[
    include_str!("definition_example.json"),
    r#"{"id":"a","nodes":[{"id":"n","forEach":{"items":"{{ trigger.list }}","body":{"nodes":[
        {"id":"m","actionType":"core.echo","parameters":"{{ item }}"}]}}}]}"#,
    r##"{"id":"a","triggerSchema":{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"object"}}},
        "nodes":[{"id":"n","waitForSignal":{"name":"s","schema":{"enum":[1,2]}}}]}"##,
];

const YAML: &[&str] = &[
    "id: a\nnodes:\n  - id: n\n    actionType: core.echo\n    parameters: { x: '{{ trigger.y }}' }\n",
    "id: a\nvars: &v { x: 1 }\nnodes:\n  - { id: n, actionType: core.echo, parameters: *v }\n",
    "id: a\nnodes:\n  - id: n\n    retryUntil:\n      maxAttempts: 3\n      until: output.ok\n      \
     body:\n        nodes:\n          - id: m\n            actionType: http.request\n",
];

/// Pieces that mean something to a parser.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "{{",
    "}}",
    "\\u0000",
    "\\ud800",
    "null",
    "-",
    "1e999",
    "&a",
    "*a",
    "<<: *a",
    "!!tag",
    "|",
    ">",
    "%",
    "\u{0}",
    "\u{1b}[0m",
    "\u{feff}",
    "ä",
    "\t",
    "\n",
    "\n  ",
    "$ref",
    "allOf",
    "nodes",
    "body",
    "forEach",
    "edges",
    "dependsOn",
    "setVars",
];

#[derive(Clone, Debug)]
enum Change {
    /// Leave a range out.
    Cut(Index, Index),
    /// Write a range again, this many times.
    Repeat(Index, Index, usize),
    /// Write a piece between.
    Piece(Index, Index),
    /// Write a piece between, many times: depth, or length.
    Pile(Index, Index, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<Index>();
    prop_oneof![
        (place.clone(), place.clone()).prop_map(|(from, to)| Change::Cut(from, to)),
        (place.clone(), place.clone(), 1..20usize)
            .prop_map(|(from, to, times)| Change::Repeat(from, to, times)),
        (place.clone(), place.clone()).prop_map(|(at, which)| Change::Piece(at, which)),
        (place.clone(), place, 1..3000usize)
            .prop_map(|(at, which, times)| Change::Pile(at, which, times)),
    ]
}

/// A place between two characters.
fn boundary(text: &str, at: Index) -> usize {
    text.floor_char_boundary(at.index(text.len() + 1))
}

fn changed(mut text: String, changes: &[Change]) -> String {
    for change in changes {
        match change {
            Change::Cut(one, two) => {
                let (one, two) = (boundary(&text, *one), boundary(&text, *two));
                text.replace_range(one.min(two)..one.max(two), "");
            }
            Change::Repeat(one, two, times) => {
                let (one, two) = (boundary(&text, *one), boundary(&text, *two));
                let again = text[one.min(two)..one.max(two)].repeat(*times);
                text.insert_str(one.max(two), &again);
            }
            Change::Piece(at, which) => {
                let at = boundary(&text, *at);
                text.insert_str(at, PIECES[which.index(PIECES.len())]);
            }
            Change::Pile(at, which, times) => {
                let at = boundary(&text, *at);
                text.insert_str(at, &PIECES[which.index(PIECES.len())].repeat(*times));
            }
        }
        text.truncate(text.floor_char_boundary(256 * 1024));
    }
    text
}

fn read(text: String, format: DefinitionFormat) {
    let source = DefinitionSource {
        name: "flow".to_owned(),
        text: text.as_bytes(),
        format,
    };
    match parse(&source, &Options::default()) {
        Ok(parsed) => {
            // What is accepted can be run, and read again as it is stored.
            let stored = parsed.json.into_owned();
            assert!(Plan::build(parsed.definition).is_ok());
            assert!(serde_json::from_slice::<serde_json::Value>(&stored).is_ok());
        }
        Err(problems) => {
            assert!(!problems.is_empty() && problems.len() <= 2 * (MAX_PROBLEMS + 1));
            for problem in &problems {
                assert!(!problem.render(text.as_bytes()).is_empty());
            }
        }
    }
}

fn try_all(texts: &'static [&'static str], format: DefinitionFormat) {
    let changes = proptest::collection::vec(change(), 1..6);
    let strategy = (any::<Index>(), changes);
    windlass_test_support::fuzz_rounds::rounds(file!(), 300, &strategy, |(which, changes)| {
        let text = changed(texts[which.index(texts.len())].to_owned(), &changes);
        let shown = windlass_core::name::cut(&text, 500).to_owned();
        let thread = std::thread::Builder::new().stack_size(STACK);
        let read = thread.spawn(move || read(text, format)).expect("a thread");
        prop_assert!(read.join().is_ok(), "{shown}");
        Ok(())
    });
}

#[test]
fn fuzz_definitions_in_json() {
    try_all(JSON, DefinitionFormat::Json);
}

#[test]
fn fuzz_definitions_in_yaml() {
    try_all(YAML, DefinitionFormat::Yaml);
}
