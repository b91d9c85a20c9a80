//! From text to a checked definition, or to everything that is wrong with it.

use std::borrow::Cow;

use super::codes;
use super::place::{Cursor, Placing, Plain, Positions};
use super::problem::{Findings, Problem, Severity, SourceLocation};
use super::repair::mended;
use super::scan::scan;
use super::source::{DefinitionFormat, DefinitionLimits, DefinitionSource, Options};
use super::structure::{Outcome, Structure};
use super::types::Definition;
use super::validate::validate;
use super::yaml;

/// A definition that may be published.
#[derive(Clone, Debug)]
pub struct Parsed<'a> {
    /// The definition.
    pub definition: Definition,
    /// Its JSON text, which is what is stored: as given, or converted from YAML.
    pub json: Cow<'a, [u8]>,
    /// What may be a mistake, sorted by place.
    pub warnings: Vec<Problem>,
}

/// Reads and checks a definition. Where it cannot be published, every problem
/// that could be found is returned, warnings included, sorted by place.
pub fn parse<'a>(
    source: &DefinitionSource<'a>,
    options: &Options<'_>,
) -> Result<Parsed<'a>, Vec<Problem>> {
    let limits = options.limits;
    if source.text.len() > limits.bytes {
        let message = format!(
            "the definition has {} bytes, more than the limit of {}",
            source.text.len(),
            limits.bytes
        );
        return Err(vec![alone(
            source,
            codes::DEFINITION_TOO_LARGE,
            message,
            "",
        )]);
    }
    let bytes = source.text;
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            let message = format!(
                "byte {} is not UTF-8 text",
                source.text.len() - bytes.len() + error.valid_up_to()
            );
            return Err(vec![alone(source, codes::INVALID_UTF8, message, valid)]);
        }
    };
    let nesting = limits.nesting.min(DefinitionLimits::MAX_NESTING);
    match source.format {
        DefinitionFormat::Json => {
            let (definition, warnings) = check(source, options, text, &Plain(text))?;
            let json = Cow::Borrowed(bytes);
            Ok(Parsed {
                definition,
                json,
                warnings,
            })
        }
        DefinitionFormat::Yaml => match yaml::convert(text, nesting, &limits) {
            Ok(map) => {
                let (definition, warnings) = check(source, options, &map.json, &map)?;
                let json = Cow::Owned(map.json.into_bytes());
                Ok(Parsed {
                    definition,
                    json,
                    warnings,
                })
            }
            Err(refusal) => {
                let mut problem = alone(source, refusal.code, refusal.message, "");
                problem.line = refusal.position.line;
                problem.column = refusal.position.column;
                problem.length = refusal.position.length;
                problem.suggestion = refusal.suggestion;
                Err(vec![problem])
            }
        },
    }
}

pub(super) fn check(
    source: &DefinitionSource<'_>,
    options: &Options<'_>,
    json: &str,
    positions: &dyn Positions,
) -> Result<(Definition, Vec<Problem>), Vec<Problem>> {
    let nesting = options.limits.nesting.min(DefinitionLimits::MAX_NESTING);
    let mut findings = Findings::default();
    let definition = read(json, nesting, options, &mut findings);
    let placing = Placing {
        file: &source.name,
        json,
        nesting,
        positions,
    };
    match definition {
        Some(definition) if findings.is_accepted() => Ok((definition, placing.place(findings).1)),
        _ => {
            let (mut problems, warnings) = placing.place(findings);
            problems.extend(warnings);
            problems.sort_by_key(|problem| (problem.line, problem.column, problem.severity));
            Err(problems)
        }
    }
}

/// Checks structure and meaning; nothing is returned unless something was found.
fn read(
    json: &str,
    nesting: usize,
    options: &Options<'_>,
    findings: &mut Findings,
) -> Option<Definition> {
    let outcome = structure(json, nesting, findings)?;
    if outcome.broken {
        return None;
    }
    let repaired;
    let readable = if outcome.edits.is_empty() {
        json
    } else {
        repaired = mended(json, &outcome.edits);
        &repaired
    };
    match serde_json::from_str::<Definition>(readable) {
        Ok(definition) => {
            validate(&definition, options, outcome.left_out, findings);
            Some(definition)
        }
        Err(error) => {
            // The structural check and the types come from the same source; should
            // they ever disagree, the definition is refused all the same.
            if findings.is_accepted() {
                findings.error(codes::INVALID_VALUE, error.to_string(), String::new());
            }
            None
        }
    }
}

fn structure(json: &str, nesting: usize, findings: &mut Findings) -> Option<Outcome> {
    let mut structure = Structure::new(json, findings);
    let scanned = scan(json, nesting, &mut structure);
    let outcome = structure.finish();
    match scanned {
        Ok(()) => Some(outcome),
        Err(error) => {
            let code = if error.nesting {
                codes::NESTING_LIMIT
            } else {
                codes::JSON_SYNTAX
            };
            findings
                .error(code, error.message, String::new())
                .at(SourceLocation::At(error.at..error.at + 1));
            None
        }
    }
}

/// A problem that stands alone, after this much of the text.
fn alone(
    source: &DefinitionSource<'_>,
    code: &'static str,
    message: String,
    before: &str,
) -> Problem {
    let mut cursor = Cursor::new(before);
    cursor.advance(before.len());
    let position = cursor.position(before.len());
    Problem {
        code,
        severity: Severity::Error,
        message,
        pointer: String::new(),
        line: position.line,
        column: position.column,
        length: position.length,
        suggestion: None,
        file: source.name.clone(),
    }
}
