//! A definition's text: checked with the known actions, and built, so that what this
//! version does not run is found before anything is published.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_core::definition::{self, Options, Parsed, Problem, Severity, Source};

use crate::failure::{Exit, Failure};

/// Checks a definition's text; every problem, sorted by place, if it may not be run.
pub fn check<'a>(name: &str, text: &'a [u8]) -> Result<Parsed<'a>, Vec<Problem>> {
    let known = known_actions();
    let options = Options {
        known_actions: Some(&known),
        ..Options::default()
    };
    let parsed = definition::parse(&Source::new(name, text), &options)?;
    match unusable_schema(name, text, &parsed) {
        None => Ok(parsed),
        Some(problem) => Err([problem].into_iter().chain(parsed.warnings).collect()),
    }
}

/// The names of the actions that always exist.
fn known_actions() -> BTreeSet<String> {
    let options = windlass_actions::Options {
        exec: true,
        ..windlass_actions::Options::default()
    };
    let registry = windlass_actions::registry_with(options);
    registry.names().map(str::to_owned).collect()
}

/// A schema that no trigger could be checked against is found before there is one.
fn unusable_schema(name: &str, text: &[u8], parsed: &Parsed<'_>) -> Option<Problem> {
    let schema = parsed.definition.trigger_schema.as_ref()?;
    let reason = windlass_engine::check_schema(schema.get()).err()?;
    let (line, column, length) = locate(text, "triggerSchema");
    Some(Problem {
        code: "INVALID_SCHEMA",
        severity: Severity::Error,
        message: format!("the triggerSchema is not a usable JSON Schema: {reason}"),
        pointer: "/triggerSchema".to_owned(),
        line,
        column,
        length,
        suggestion: None,
        file: name.to_owned(),
    })
}

/// The failure that a definition with problems is.
pub fn invalid(name: &str, text: &[u8], problems: &[Problem]) -> Failure {
    let errors = |problem: &&Problem| problem.severity == Severity::Error;
    let count = problems.iter().filter(errors).count();
    let noun = if count == 1 { "problem" } else { "problems" };
    let message = format!("{name} has {count} {noun}");
    let mut failure = Failure::new(Exit::Invalid, "DEFINITION_INVALID", message)
        .details(problems.iter().map(to_json).collect());
    for problem in problems {
        failure.parts.shown.push_str(&problem.render(text));
        failure.parts.shown.push('\n');
    }
    failure
}

/// A problem, for programs.
pub fn to_json(problem: &Problem) -> Value {
    json!({
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "length": problem.length,
        "code": problem.code,
        "severity": match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        "message": problem.message,
        "pointer": problem.pointer,
        "suggestion": problem.suggestion,
    })
}

/// Line, column and length of the first mention of a key. Text search will do: the
/// definition is valid, and this only places a caret.
fn locate(text: &[u8], key: &str) -> (u32, u32, u32) {
    let Ok(text) = std::str::from_utf8(text) else {
        return (1, 1, 1);
    };
    let Some(at) = text.find(key) else {
        return (1, 1, 1);
    };
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |place| place + 1);
    let column = before[start..].chars().count() + 1;
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    (number(line), number(column), number(key.chars().count()))
}
