//! A definition's text: checked with the known actions, before anything is published.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde_json::{Value, json};
use windlass_core::definition::{
    self, DefinitionSource, Options, ParameterCheck, ParameterProblem, Parsed, Problem, Rewritten,
    Severity, UnknownWorkflows,
};
use windlass_engine::{ActionSchemas, DeclaredAction};

use crate::failure::{Failure, FailureKind};

/// What a definition is checked against besides its own text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// The action types that workers have declared.
    pub declared: &'a [DeclaredAction],
    /// The subworkflows that the catalogue lacks.
    pub unknown_workflows: Option<&'a UnknownWorkflows>,
}

/// Checks a definition's text.
///
/// # Errors
/// Every problem, sorted by place, if it may not be run.
pub fn check_beside<'a>(
    name: &str,
    text: &'a [u8],
    surroundings: &Surroundings<'_>,
) -> Result<Parsed<'a>, Vec<Problem>> {
    with_options(surroundings, |options| {
        definition::parse(&DefinitionSource::new(name, text), options)
    })
}

/// Checks a definition that was put together from parts of a file.
pub(crate) fn check_rewritten(
    source: &DefinitionSource<'_>,
    rewritten: &Rewritten,
    surroundings: &Surroundings<'_>,
) -> Result<Parsed<'static>, Vec<Problem>> {
    with_options(surroundings, |options| {
        definition::parse_rewritten(source, rewritten, options)
    })
}

fn with_options<T>(surroundings: &Surroundings<'_>, parse: impl FnOnce(&Options<'_>) -> T) -> T {
    let built_in = built_in();
    let mut known = built_in.names.clone();
    let mut declared = ActionSchemas::default();
    for action in surroundings.declared {
        known.insert(action.action.to_string());
        if let Some(schema) = &action.parameters {
            declared.insert(&action.action, schema.clone());
        }
    }
    let schemas = BothSchemas {
        built_in: &built_in.schemas,
        declared,
    };
    let options = Options {
        limits: windlass_engine::limits().definition,
        known_actions: Some(&known),
        check_schema: Some(windlass_engine::check_schema),
        check_parameters: Some(&schemas),
        unknown_workflows: surroundings.unknown_workflows,
    };
    parse(&options)
}

/// The schemas of the actions that always exist, which no worker can declare, and of others.
#[derive(Debug)]
struct BothSchemas<'a> {
    built_in: &'a ActionSchemas,
    declared: ActionSchemas,
}

impl ParameterCheck for BothSchemas<'_> {
    fn problems(&self, action: &str, parameters: &str) -> Vec<ParameterProblem> {
        let mut problems = self.built_in.problems(action, parameters);
        problems.extend(self.declared.problems(action, parameters));
        problems
    }
}

/// The actions that always exist.
struct BuiltIn {
    names: BTreeSet<String>,
    schemas: ActionSchemas,
}

fn built_in() -> &'static BuiltIn {
    static BUILT_IN: OnceLock<BuiltIn> = OnceLock::new();
    BUILT_IN.get_or_init(|| {
        let registry = every_action();
        BuiltIn {
            names: registry.names().map(str::to_owned).collect(),
            schemas: ActionSchemas::of(&registry),
        }
    })
}

/// The registry of all actions, `core.exec` included, to look at.
pub(crate) fn every_action() -> windlass_engine::Registry {
    windlass_actions::registry_with(windlass_actions::Options {
        exec: true,
        ..windlass_actions::Options::default()
    })
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
