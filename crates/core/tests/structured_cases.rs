//! The model of structured runs against cases that were worked out by hand from the
//! contract (semantics §3, §4, §7, §11): what the engine is held against must itself be
//! right.
//!
//! A case is headed by `=== title`, then comes its definition in YAML (without `id`, and
//! a node that is written in braces is an action), then moves that begin with `>`.
//! The indented lines under a move must be in the report at that moment; those under the
//! last move are the whole report.

mod model;

use serde_json::{Value, json};
use windlass_core::definition::{Format, Options, Source, parse};

use model::Names;
use model::structured::{Model, Move, Status, Word};

macro_rules! files {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            check(include_str!(concat!("structured_cases/", stringify!($name), ".txt")));
        })*
    };
}

files!(
    joins,
    for_each,
    repeats,
    scopes,
    waits,
    stopping,
    compensations
);

fn check(file: &str) {
    let file = file.strip_prefix("=== ").expect("a case");
    file.split("\n=== ").for_each(play);
}

fn play(case: &str) {
    let (title, rest) = case.split_once('\n').expect("a title");
    let mut parts = rest.split("\n>");
    let mut model = Model::new(&definition(parts.next().expect("a definition")));
    let mut running = Names::new();
    let moves: Vec<&str> = parts.collect();
    assert!(!moves.is_empty(), "{title}: no moves");
    for (place, part) in moves.iter().enumerate() {
        let mut lines = part.lines();
        let words = lines.next().expect("a move").trim();
        let accepted = make(&mut model, words, &mut running);
        let mut report = report(&model);
        if !accepted {
            report.push("refused".to_owned());
        }
        let expected: Vec<&str> = lines
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let shown = report.join("\n  ");
        for line in &expected {
            let is_there = report.iter().any(|reported| reported == line);
            assert!(is_there, "{title}\n> {words}\nexpected: {line}\n  {shown}");
        }
        if place + 1 == moves.len() {
            assert_eq!(report, expected, "{title}\n> {words}\n  {shown}");
        }
        assert!(
            accepted || expected.contains(&"refused"),
            "{title}\n> {words} was refused"
        );
    }
}

fn definition(yaml: &str) -> Value {
    let text = format!("id: case\n{yaml}").replace("{id: ", "{actionType: test, id: ");
    let source = Source {
        format: Format::Yaml,
        ..Source::new("case.yaml", text.as_bytes())
    };
    let parsed = parse(&source, &Options::default());
    let parsed = parsed.unwrap_or_else(|problems| panic!("{text}\n{problems:?}"));
    serde_json::from_slice(&parsed.json).expect("JSON")
}

/// `start`, `succeed PATH [JSON]`, `fail PATH`, `retry PATH` (a retriable failure),
/// `skip PATH`, `stopped PATH`, `take PATH`, `fire PATH`, `signal NAME JSON`, `cancel`,
/// `timeout`, `grace`, `undo succeed|fail|retry`.
fn make(model: &mut Model, words: &str, running: &mut Names) -> bool {
    let mut parts = words.splitn(3, ' ');
    let verb = parts.next().expect("a verb");
    let first = parts.next().unwrap_or_default().to_owned();
    let value = parts.next().map_or(Value::Null, |text| {
        serde_json::from_str(text).expect("a JSON value")
    });
    let word = |verb: &str| match verb {
        "succeed" => Word::Success(value.clone()),
        "fail" => Word::Failure,
        "retry" => Word::Retriable,
        "skip" => Word::Skip,
        "stopped" => Word::Stopped,
        _ => panic!("unknown move '{words}'"),
    };
    let step = match verb {
        "start" => Move::Start,
        "take" => return running.insert(first),
        "fire" => Move::Fire(first),
        "signal" => Move::Signal(first, value),
        "cancel" => Move::Cancel,
        "timeout" => Move::TimeOut,
        "grace" => Move::GraceEnds,
        "undo" => Move::Undone(word(&first)),
        _ => {
            let attempt = model.seen().get(&first).map_or(0, |seen| seen.attempt);
            let word = word(verb);
            Move::Word(first, attempt, word)
        }
    };
    model.make(&step, running)
}

fn report(model: &Model) -> Vec<String> {
    let mut lines = vec![format!("run {:?}", model.life)];
    if let Some(output) = &model.output {
        lines[0].push_str(&format!(" = {output}"));
    }
    if let Some(error) = model.error {
        lines[0].push_str(&format!(" {error}"));
    }
    for (path, seen) in model.seen() {
        let mut line = format!("{path} {:?}", seen.status);
        if seen.attempt > 1 || (seen.attempt == 1 && seen.status == Status::Cancelled) {
            line.push_str(&format!(" #{}", seen.attempt));
        }
        if !seen.blocked_by.is_empty() {
            let by: Vec<&str> = seen.blocked_by.iter().map(String::as_str).collect();
            line.push_str(&format!(" by {}", by.join(", ")));
        }
        match (seen.status, &seen.value) {
            (Status::Succeeded, Some(value)) => line.push_str(&format!(" = {value}")),
            (Status::Failed, Some(error)) => line.push_str(&failed(error)),
            _ => {}
        }
        if seen.handled {
            line.push_str(", handled");
        }
        lines.push(line);
    }
    if let Some(word) = model.compensation() {
        let done = model.undoing.done.iter().map(|(path, succeeded)| {
            let word = if *succeeded { "" } else { " failed" };
            format!("{path}{word}")
        });
        let mut done: Vec<String> = done.collect();
        if let Some(next) = model.undoing.left.first() {
            done.push(format!("{next} next"));
        }
        lines.push(format!("compensation {word}: {}", done.join(", ")));
    }
    lines
}

fn failed(error: &Value) -> String {
    let code = error["code"].as_str().expect("a code");
    match error.get("details") {
        Some(details) => format!(" {code} {}", short(details)),
        None => format!(" {code}"),
    }
}

/// Errors inside errors by their codes alone.
fn short(details: &Value) -> Value {
    let mut details = details.clone();
    if let Some(error) = details.get("error").filter(|error| error.is_object()) {
        let inner = error.get("details").map(short);
        details["error"] = match inner {
            Some(inner) => json!([error["code"], inner]),
            None => error["code"].clone(),
        };
    }
    details
}
