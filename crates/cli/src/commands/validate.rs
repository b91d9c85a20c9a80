//! `windlass validate`: every problem of each definition, as a compiler would print it.

use std::path::Path;

use serde_json::{Value, json};
use windlass_core::definition::{Problem, Severity, UnknownWorkflows};
use windlass_core::plan::Plan;
use windlass_engine::DeclaredAction;
use windlass_service::children;
use windlass_service::definition::Surroundings;
use windlass_service::frozen::{Expected, check_source};
use windlass_service::source::prepare_text;
use windlass_store::block_on;

use crate::args::Validate;
use crate::commands::actions::declared_types;
use crate::definition_file;
use crate::exit::{Exit, Failure};
use crate::session::{Session, Settings};

/// Checks files.
pub(crate) fn run(settings: &Settings, arguments: &Validate) -> Result<Exit, Failure> {
    // A file that cannot be read keeps none of the others from being checked.
    let mut unreadable = None;
    let mut files = Vec::with_capacity(arguments.files.len());
    for file in &arguments.files {
        match File::check(settings, file) {
            Ok(file) => files.push(file),
            Err(failure) if settings.output.json => return Err(failure),
            Err(failure) => drop(unreadable.get_or_insert(failure)),
        }
    }
    let valid = files.iter().all(File::is_valid);
    if settings.output.json {
        let problems: Vec<Value> = files
            .iter()
            .flat_map(|file| file.problems.iter().map(definition_file::to_json))
            .collect();
        settings
            .output
            .json(&json!({ "valid": valid, "problems": problems }))?;
    } else {
        for file in &files {
            for problem in &file.problems {
                settings.output.say_lines(&problem.render(&file.text));
            }
        }
        settings.output.say(&summary(&files));
    }
    match unreadable {
        Some(failure) => Err(failure),
        None if valid => Ok(Exit::Done),
        None => Ok(Exit::Invalid),
    }
}

struct File {
    text: Vec<u8>,
    problems: Vec<Problem>,
}

impl File {
    fn check(settings: &Settings, path: &Path) -> Result<Self, Failure> {
        let (name, text) = definition_file::read_named(path)?;
        let unknown = unknown_workflows(settings, &text);
        let check = |declared: &[DeclaredAction]| {
            let expected = Expected {
                surroundings: Surroundings {
                    unknown_workflows: unknown.as_ref(),
                    declared,
                },
                ..Expected::default()
            };
            match check_source(&name, &text, expected) {
                Ok(checked) => checked.parsed.warnings,
                Err(error) => error.into_problems(&name),
            }
        };
        let mut problems = check(&[]);
        if definition_file::has_unknown_action(&problems) {
            problems = check(&declared_types(settings));
        }
        Ok(Self { text, problems })
    }

    fn is_valid(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    fn count(&self, severity: Severity) -> usize {
        let of = |problem: &&Problem| problem.severity == severity;
        self.problems.iter().filter(of).count()
    }
}

/// The subworkflows that the catalogue of the data directory lacks, where there is one. A file
/// may be checked before the others are published, so they are warnings.
fn unknown_workflows(settings: &Settings, text: &[u8]) -> Option<UnknownWorkflows> {
    let has_children = text.windows(11).any(|part| part == b"subworkflow");
    if !has_children || settings.server.is_some() || !settings.data_dir.is_dir() {
        return None;
    }
    let prepared = prepare_text(text).ok()?;
    let session = Session::queries(settings.clone()).ok()?;
    let unknown = children::unknown_workflows(&*session.store, None, &prepared.plan);
    block_on(unknown).ok()?
}

/// Warns of the subworkflows that the catalogue lacks: their nodes would fail.
pub(crate) fn warn_of_unknown(session: &Session, file: &Path, plan: &Plan) -> Result<(), Failure> {
    let unknown = children::unknown_workflows(&*session.store, None, plan);
    let Some(unknown) = block_on(unknown)? else {
        return Ok(());
    };
    let output = session.settings.output;
    if file == Path::new("-") {
        // Standard input cannot be read again, to show the place.
        for (workflow, _) in &unknown.missing {
            output.say(&format!(
                "warning[UNKNOWN_WORKFLOW]: the catalogue has no workflow '{workflow}', or not \
                 the version that is named"
            ));
        }
        return Ok(());
    }
    let (name, text) = definition_file::read_named(file)?;
    let expected = Expected {
        surroundings: Surroundings {
            unknown_workflows: Some(&unknown),
            ..Surroundings::default()
        },
        ..Expected::default()
    };
    let checked = check_source(&name, &text, expected);
    let warnings = checked.map(|checked| checked.parsed.warnings);
    for warning in warnings.unwrap_or_default() {
        if warning.code == "UNKNOWN_WORKFLOW" {
            output.say_lines(&warning.render(&text));
        }
    }
    Ok(())
}

fn summary(files: &[File]) -> String {
    let count = |severity| files.iter().map(|file| file.count(severity)).sum::<usize>();
    let number = |count: usize, noun: &str| match count {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        more => format!("{more} {noun}s"),
    };
    let mut text = format!(
        "{} checked, {}",
        number(files.len(), "file"),
        number(count(Severity::Error), "problem")
    );
    let warnings = count(Severity::Warning);
    if warnings > 0 {
        text.push_str(&format!(", {}", number(warnings, "warning")));
    }
    text
}
