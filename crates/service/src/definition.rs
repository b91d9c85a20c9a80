//! A definition's text: checked with the known actions, and built, so that what this
//! version does not run is found before anything is published.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_core::definition::{self, Options, Parsed, Problem, Severity, Source};
use windlass_core::plan::{BuildError, Plan};

use crate::failure::{Exit, Failure};

/// Checks a definition's text; every problem, sorted by place, if it may not be run.
pub fn check<'a>(name: &str, text: &'a [u8]) -> Result<Parsed<'a>, Vec<Problem>> {
    let known = known_actions();
    let options = Options {
        known_actions: Some(&known),
        check_schema: Some(windlass_engine::check_schema),
        ..Options::default()
    };
    let parsed = definition::parse(&Source::new(name, text), &options)?;
    let unsupported = Plan::check_support(&parsed.definition).err();
    let Some(error) = unsupported else {
        return Ok(parsed);
    };
    let mut problems = vec![unbuilt(name, text, &parsed, &error)];
    problems.extend(parsed.warnings);
    Err(problems)
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

/// What this version does not run, at the node that uses it.
fn unbuilt(name: &str, text: &[u8], parsed: &Parsed<'_>, error: &BuildError) -> Problem {
    let (code, node, feature) = match error {
        BuildError::Unsupported(unsupported) => (
            "UNSUPPORTED",
            unsupported.node.as_deref(),
            Some(unsupported.feature),
        ),
        BuildError::Invalid(_) => ("INVALID_VALUE", None, None),
    };
    let place = node.and_then(|node| {
        let nodes = &parsed.definition.nodes;
        nodes.iter().position(|known| *known.id == *node)
    });
    let (line, column, length) = locate(text, node, feature);
    Problem {
        code,
        severity: Severity::Error,
        message: error.to_string(),
        pointer: match (place, feature) {
            (Some(place), Some(feature)) => format!("/nodes/{place}/{feature}"),
            (None, Some(feature)) => format!("/{feature}"),
            _ => String::new(),
        },
        line,
        column,
        length,
        suggestion: None,
        file: name.to_owned(),
    }
}

/// Line, column and length of the first mention of a key, after the node's id if there
/// is one. Text search will do: the definition is valid, and this only places a caret.
fn locate(text: &[u8], node: Option<&str>, feature: Option<&str>) -> (u32, u32, u32) {
    let Ok(text) = std::str::from_utf8(text) else {
        return (1, 1, 1);
    };
    let from = node.and_then(|node| {
        let quoted = text.find(&format!("\"{node}\""));
        quoted.or_else(|| text.find(&format!("id: {node}")))
    });
    let from = from.unwrap_or(0);
    let key = feature
        .unwrap_or_default()
        .rsplit('.')
        .next()
        .unwrap_or_default();
    let found = text[from..].find(key).filter(|_| !key.is_empty());
    let (at, length) = match found {
        Some(found) => (from + found, key.chars().count()),
        None => (from, 1),
    };
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .map_or(0, |line| line.chars().count())
        + 1;
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    (number(line), number(column), number(length))
}
