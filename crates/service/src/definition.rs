//! A definition's text: checked with the known actions, before anything is published.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_core::definition::{self, DefinitionSource, Options, Parsed, Problem, Severity};

use crate::failure::{Failure, FailureKind};

/// Checks a definition's text; every problem, sorted by place, if it may not be run.
pub fn check<'a>(name: &str, text: &'a [u8]) -> Result<Parsed<'a>, Vec<Problem>> {
    let known = known_actions();
    let options = Options {
        limits: windlass_engine::limits().definition,
        known_actions: Some(&known),
        check_schema: Some(windlass_engine::check_schema),
    };
    definition::parse(&DefinitionSource::new(name, text), &options)
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
    let mut failure = Failure::new(FailureKind::DefinitionInvalid, message)
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
