//! `windlass validate`: every problem of each definition, as a compiler would print it.

use std::path::Path;

use serde_json::{Value, json};
use windlass_core::definition::{Problem, Severity};

use crate::args::Validate;
use crate::definition_file;
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Checks files.
pub(crate) fn run(settings: &Settings, arguments: &Validate) -> Result<Exit, Failure> {
    let mut files = Vec::with_capacity(arguments.files.len());
    for file in &arguments.files {
        files.push(File::check(file)?);
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
        settings.output.data(&summary(&files))?;
    }
    Ok(if valid { Exit::Done } else { Exit::Invalid })
}

struct File {
    text: Vec<u8>,
    problems: Vec<Problem>,
}

impl File {
    fn check(path: &Path) -> Result<Self, Failure> {
        let (name, text) = definition_file::read_graph(path)?;
        let problems = match definition_file::check(&name, &text) {
            Ok(parsed) => parsed.warnings,
            Err(problems) => problems,
        };
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
