//! Evaluations that are meant to be expensive: every function, method and operator of the
//! language over values of any size. The cost audit and the bench take them from here.
//!
//! They are made from the tables of the language, so that every addition is measured too.

use serde_json::{Map, Value as Json, json};

use crate::ast::{Binary, Unary};
use crate::{Document, functions};

/// One call or operation over values of a given size.
#[derive(Clone, Debug)]
pub struct WorstCase {
    /// What is called, as in `String.includes`.
    pub name: String,
    /// The call; `w` is a string with a lone surrogate.
    pub call: String,
}

impl WorstCase {
    fn new(name: &str, call: String) -> Self {
        Self {
            name: name.to_owned(),
            call,
        }
    }

    /// An expression that does it once.
    pub fn once(&self) -> String {
        wide(&self.call)
    }

    /// An expression that repeats it until a limit ends it.
    pub fn repeated(&self) -> String {
        wide(&format!(
            "trigger.loop.some(() => ({}) === trigger)",
            self.call
        ))
    }
}

/// Gives `w` its value, if it is used.
fn wide(call: &str) -> String {
    if call.contains("w.") || call.contains("(w") || call.contains(", w") || call.contains(" w") {
        return format!("['\\ud800' + trigger.ascii].map((w) => {call})[0]");
    }
    call.to_owned()
}

/// Values of about `size` bytes each; `loop` is a list to repeat something by.
pub fn trigger(size: usize, repeats: usize) -> Document {
    let keyed = |prefix: &str, count: usize| -> Map<String, Json> {
        (0..count)
            .map(|index| (format!("{prefix}{index}"), json!(index)))
            .collect()
    };
    let ascii = "x".repeat(size);
    let pairs: Vec<Json> = (0..size / 32).map(|index| json!([index, "x"])).collect();
    let texts: Vec<Json> = (0..size / 8).map(|index| json!(index % 977)).collect();
    Document::from(json!({
        "loop": vec![Json::Null; repeats],
        "same": format!("{}y", &ascii[..size.saturating_sub(1)]),
        "latin": "é".repeat(size / 2),
        "emoji": "😀".repeat(size / 4),
        "controls": "\u{0}".repeat(size),
        "digits": "1".repeat(size),
        "small": format!("0.{}e-300", "1".repeat(size)),
        "moment": format!("2026-01-01T00:00:00.{}Z", "1".repeat(size)),
        "durations": "1ms ".repeat(size / 4),
        "percent": "%C3%A9".repeat(size / 6),
        "json": format!("[{}1]", "1,".repeat(size / 2)),
        "numbers": vec![1.5; size / 16],
        "texts": texts.iter().map(|text| json!(text.to_string())).collect::<Vec<_>>(),
        "longs": vec![ascii.clone(); 3],
        "pairs": pairs,
        "object": keyed("key", size / 32),
        "indexed": keyed("", size / 32),
        "ascii": ascii,
    }))
}

/// Shapes of a JSON text that are expensive to read: a part that is repeated, and the text
/// before and after it.
pub const SHAPES: &[(&str, &str, &str)] = &[
    ("[", "[0],", "0]"),
    ("[", "[],", "0]"),
    ("[", "{},", "0]"),
    ("[", "{\"\":0},", "0]"),
    ("[", "[[0]],", "0]"),
    ("[", "[[],[0]],", "0]"),
    ("[", "0,", "0]"),
    ("[", "-0,", "0]"),
    ("[", "0.1,", "0]"),
    ("[", "1e9,", "0]"),
    ("[", "12345678901234567,", "0]"),
    ("[", "\"\",", "0]"),
    ("[", "\"\\n\",", "0]"),
    ("[", "\"\\u0000\",", "0]"),
    ("[", "\"\\ud83d\\ude00\",", "0]"),
    ("[", "null,", "0]"),
    ("{", "\"\":0,", "\"\":0}"),
    ("{", "\"\\n\":0,", "\"\":0}"),
    (
        "[",
        "{\"1\":0,\"2\":0,\"3\":0,\"4\":0,\"5\":0,\"6\":0,\"7\":0,\"8\":0,\"9\":0},",
        "0]",
    ),
    ("\"", "x", "\""),
    ("\"", "\\n", "\""),
    ("", " ", "0"),
    ("[", "0 , ", "0]"),
];

/// A JSON text of such a shape, of at most so many bytes.
pub fn document(shape: &(&str, &str, &str), size: usize) -> String {
    let (open, repeated, close) = shape;
    let count = size.saturating_sub(open.len() + close.len()) / repeated.len();
    format!("{open}{}{close}", repeated.repeat(count))
}

/// The large values, by their sources.
const TEXTS: &[&str] = &[
    "trigger.ascii",
    "trigger.same",
    "trigger.latin",
    "trigger.emoji",
    "trigger.controls",
    "trigger.digits",
    "trigger.small",
    "trigger.moment",
    "trigger.durations",
    "trigger.percent",
    "trigger.json",
    "w",
];
const LISTS: &[&str] = &[
    "trigger.numbers",
    "trigger.texts",
    "trigger.longs",
    "trigger.pairs",
];
const RECORDS: &[&str] = &["trigger.object", "trigger.indexed"];
const NUMBERS: &[&str] = &["(1e308)", "(5e-324)", "(1.1)", "(123456789.123)"];

/// What stands beside a large value.
const SMALL: &[&str] = &[
    "",
    "1",
    "'x'",
    "'y', 'x'",
    "0, 1",
    "'x', 2",
    "''",
    "'', 'x'",
    "'$&', '$&'",
    "16",
    "[1]",
];

fn all_values() -> impl Iterator<Item = &'static str> {
    let texts = TEXTS.iter().chain(LISTS).chain(RECORDS).chain(NUMBERS);
    texts.copied()
}

/// Every function, method and operator over large values in each place.
pub fn cases() -> Vec<WorstCase> {
    let mut cases = Vec::new();
    for name in functions::function_names() {
        arguments(name, name, &mut cases);
    }
    for (kind, receivers, names) in functions::methods_by_receiver() {
        let large = match kind {
            "String" => TEXTS,
            "Array" => LISTS,
            "Object" => RECORDS,
            "Number" => NUMBERS,
            _ => &["true"],
        };
        for name in names {
            let label = format!("{kind}.{name}");
            for receiver in large {
                for small in SMALL.iter().copied().chain(callbacks(name)) {
                    let call = format!("{receiver}.{name}({small})");
                    cases.push(WorstCase::new(&label, call));
                }
                for other in [*receiver, "trigger.same", "w", "trigger.longs"] {
                    cases.push(WorstCase::new(
                        &label,
                        format!("{receiver}.{name}({other})"),
                    ));
                }
            }
            arguments(&label, &format!("{receivers}.{name}"), &mut cases);
        }
    }
    operators(&mut cases);
    syntax(&mut cases);
    cases
}

/// Functions that a method may be given.
fn callbacks(name: &str) -> Vec<&'static str> {
    match functions::callback_position(name) {
        Some(0) => vec![
            "() => 1",
            "(x, y) => x",
            "Number",
            "({ a, ...rest }) => rest",
        ],
        Some(_) => vec!["'x', () => 'y'", "'é', (x, at) => at"],
        None => Vec::new(),
    }
}

/// A callee with large values as its first and second argument.
fn arguments(label: &str, callee: &str, cases: &mut Vec<WorstCase>) {
    for value in all_values() {
        for call in [
            format!("{callee}({value})"),
            format!("{callee}({value}, 'x')"),
            format!("{callee}({value}, 1)"),
            format!("{callee}({value}, 'day')"),
            format!("{callee}('x', {value})"),
            format!("{callee}(1, {value})"),
            format!("{callee}(trigger.object, {value})"),
            format!("{callee}({value}, {value})"),
            format!("{callee}(...{value})"),
        ] {
            cases.push(WorstCase::new(label, call));
        }
    }
    for call in [
        "{ length: 1000 }",
        "{ length: 1000 }, () => 1",
        "trigger.json, (k, v) => v",
    ] {
        cases.push(WorstCase::new(label, format!("{callee}({call})")));
    }
}

fn operators(cases: &mut Vec<WorstCase>) {
    for operator in Binary::all() {
        let symbol = operator.symbol();
        for (left, right) in operands() {
            cases.push(WorstCase::new(symbol, format!("{left} {symbol} {right}")));
        }
    }
    for (left, right) in operands() {
        for symbol in ["**", "&&", "||", "??"] {
            cases.push(WorstCase::new(
                symbol,
                format!("({left}) {symbol} ({right})"),
            ));
        }
    }
    for operator in Unary::all() {
        for value in all_values() {
            let symbol = operator.symbol();
            cases.push(WorstCase::new(symbol, format!("{symbol} {value}")));
        }
    }
}

fn operands() -> impl Iterator<Item = (&'static str, &'static str)> {
    all_values().flat_map(|value| {
        [
            (value, value),
            (value, "trigger.same"),
            ("trigger.ascii", value),
            (value, "1"),
            ("'x'", value),
            (value, "trigger.object"),
            (value, "w"),
        ]
    })
}

/// The parts of the language that are neither functions nor operators.
fn syntax(cases: &mut Vec<WorstCase>) {
    for value in all_values() {
        for (name, call) in [
            ("template literal", format!("`${{{value}}}-${{{value}}}`")),
            ("array literal", format!("[{value}, {value}]")),
            ("array spread", format!("[...{value}]")),
            ("object spread", format!("({{ ...{value} }})")),
            (
                "computed property",
                format!("({{ [{value}]: 1, [{value}]: 2 }})"),
            ),
            ("index", format!("trigger[{value}]")),
            ("index of a list", format!("[1][{value}]")),
            ("index of a text", format!("trigger.latin[{value}]")),
            ("optional index", format!("trigger?.[{value}]?.x")),
            ("length", format!("{value}.length")),
            ("property", format!("{value}.nothing")),
            ("conditional", format!("{value} ? {value} : 1")),
            (
                "array pattern",
                format!("[{value}].map(([a, b, ...c]) => c)"),
            ),
            (
                "object pattern",
                format!("[{value}].map(({{ key1, ...c }}) => c)"),
            ),
            (
                "computed pattern",
                format!("[trigger.object].map(({{ [{value}]: a, ...c }}) => c)"),
            ),
            ("rest parameter", format!("[{value}].map((...all) => all)")),
            ("default", format!("[undefined].map((a = {value}) => a)")),
        ] {
            cases.push(WorstCase::new(name, call));
        }
    }
    let wide = format!("'\\ud800{}'", "x".repeat(4000));
    let key = "k".repeat(4000);
    for (name, call) in [
        ("wide literal", format!("{wide} === {wide}")),
        (
            "wide literal in a template",
            format!("`\\ud800{key}${{1}}`"),
        ),
        ("long property", format!("trigger.{key}")),
        ("long key", format!("({{ {key}: 1 }})")),
        (
            "long pattern",
            format!("[trigger].map(({{ {key}: x, ...y }}) => 1)"),
        ),
        ("deep list", "[1, [2, [3, [4, [5]]]]]".to_owned()),
    ] {
        cases.push(WorstCase::new(name, call));
    }
}

/// Evaluations that take as much memory as they may, each done once.
pub fn heavy() -> Vec<WorstCase> {
    [
        "Array.from({ length: 690000 })",
        "Array.from({ length: 150000 }, (_, i) => [i])",
        "Array.from({ length: 90000 }, (_, i) => ({ a: i }))",
        "Array.from({ length: 150000 }, (_, i) => 'k' + i)",
        "Object.fromEntries(Array.from({ length: 90000 }, (_, i) => ['k' + i, i]))",
        "Object.entries(Object.fromEntries(Array.from({ length: 60000 }, (_, i) => [i, i])))",
        "Array.from({ length: 25000 }, (_, i) => 'k' + (i * 7919) % 99991).sort()",
        "'x'.repeat(400000).split('')",
        "[...'é'.repeat(300000)]",
        "'x'.repeat(16700000).length",
        "'x'.repeat(5000000) + 'y'.repeat(5000000)",
        "'x'.repeat(5000000).toUpperCase()",
        "'é'.repeat(250000).replaceAll('', 'y')",
        "'x'.repeat(300000).replaceAll('x', 'yyyyyyyyyyyyyyyyyyyy')",
        "JSON.stringify('\\u0000'.repeat(2500000))",
        "JSON.parse('[' + '1,'.repeat(300000) + '1]').length",
        "JSON.parse('\"' + 'x'.repeat(5000000) + '\"').length",
        "encodeURIComponent('é'.repeat(1200000))",
        "'\\ud800'.concat('x'.repeat(2500000))",
        "('\\ud800' + 'x'.repeat(1000000)).includes('é'.repeat(100000))",
        "Array.from({ length: 200000 }, () => '\\ud800xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx').length",
        "Array.from({ length: 1000 }, (_, i) => 'x'.repeat(15000)).join(',')",
    ]
    .into_iter()
    .map(|call| WorstCase::new(call, call.to_owned()))
    .collect()
}
