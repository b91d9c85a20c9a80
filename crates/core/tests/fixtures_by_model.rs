//! The naive model of structured runs plays the text fixtures that say what a run comes to
//! (semantics §3, §4, §7, §11): what the engine is held against must itself be right.
//!
//! A case that ends with the whole report is one that the model must be able to play, and
//! every `report` in it must be what the model says. What single commands lead to is the
//! state machine's to tell; of that, only refusals count here.

mod model;

use serde_json::Value;
use windlass_core::definition::{DefinitionSource, Options, parse};
use windlass_test_support::fixture::{self, Case, FixtureStep};

use model::Names;
use model::structured::report::report;
use model::structured::{Model, Move, Word};

macro_rules! files {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            let cases = fixture::cases(stringify!($name));
            let played = cases.iter().filter(|case| case.final_report().is_some());
            assert_ne!(played.map(play).count(), 0, "no case has a report");
        })*

        #[test]
        fn every_file_with_a_report_is_played() {
            for name in fixture::names() {
                let is_played = [$(stringify!($name)),*].contains(&&*name);
                let is_report = |step: &FixtureStep| step.words().0 == "report";
                let cases = fixture::cases(&name);
                for case in cases.iter().filter(|case| case.steps.iter().any(is_report)) {
                    assert!(is_played, "{name} is not played");
                    assert!(case.final_report().is_some(), "{}: no report at its end", case.title);
                }
            }
        }
    };
}

files!(
    compensations,
    for_each,
    partial_joins,
    repeats,
    scopes,
    stopping,
    waits,
);

fn play(case: &Case) {
    let title = &case.title;
    let mut model = Model::new(&definition(case));
    let mut running = Names::new();
    for step in &case.steps {
        let (verb, rest) = step.words();
        let command = &step.command;
        match verb {
            "report" => {
                let seen = report(&model).lines_about(rest);
                assert_eq!(seen, step.expected, "{title}\n> {command}");
            }
            // The model has no clock.
            "advance" => {}
            "running" => running = rest.split_whitespace().map(str::to_owned).collect(),
            _ => {
                let step_made = read(&model, verb, rest);
                let accepted = model.make(&step_made, &running);
                assert_eq!(accepted, !step.is_refused(), "{title}\n> {command}");
            }
        }
    }
}

/// The definition as it would be stored.
fn definition(case: &Case) -> Value {
    let text = case.setup().definition;
    let parsed = parse(
        &DefinitionSource::new("case.json", text.as_bytes()),
        &Options::default(),
    );
    let parsed = parsed.unwrap_or_else(|problems| panic!("{text}\n{problems:?}"));
    serde_json::from_slice(&parsed.json).expect("JSON")
}

/// A command as a move of the model.
fn read(model: &Model, verb: &str, rest: &str) -> Move {
    let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
    match verb {
        "start" => Move::Start,
        "due" => Move::Fire(first.to_owned()),
        "signal" => Move::Signal(first.to_owned(), json(more)),
        "cancel" => Move::Cancel,
        "timeout" => Move::TimeOut,
        "grace" => Move::GraceEnds,
        "undone" => {
            let next = model.undoing.left.first().map(String::as_str);
            assert_eq!(next, Some(first), "the model undoes another node");
            let (verb, rest) = more.split_once(' ').unwrap_or((more, ""));
            Move::Undone(word(verb, rest))
        }
        _ => {
            let attempt = model.seen().get(first).map_or(0, |seen| seen.attempt);
            Move::Word(first.to_owned(), attempt, word(verb, more))
        }
    }
}

/// What a worker says. The model knows one error that is final, and one that is not.
fn word(verb: &str, rest: &str) -> Word {
    match (verb, rest) {
        ("succeed", value) => Word::Success(json(value)),
        ("fail", "BOOM") => Word::Failure,
        ("fail", "BUSY retriable") => Word::Retriable,
        ("skip", "") => Word::Skip,
        ("stopped", "") => Word::Stopped,
        _ => panic!("the model does not know '{verb} {rest}'"),
    }
}

fn json(text: &str) -> Value {
    match text {
        "" => Value::Null,
        text => serde_json::from_str(text).expect("a JSON value"),
    }
}
