//! A definition in a file: read, and checked; warnings are printed.

use std::path::Path;

use windlass_core::definition::{Parsed, Problem};

use crate::exit::Failure;
pub(crate) use crate::source::read_definition as read;
use windlass_engine::DeclaredAction;
use windlass_service::definition::{Surroundings, check_beside};
pub(crate) use windlass_service::definition::{invalid, to_json};
use windlass_service::frozen::{CheckedSource, Expected, check_source};

/// Reads the file of a definition, or of a graph as `export` writes it; with the name to report
/// problems by.
pub(crate) fn read_named(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    Ok((path.display().to_string(), read(path)?))
}

/// Checks the text of a definition or of a graph. Problems are the failure's; mere warnings go to
/// stderr.
pub(crate) fn accept_source<'a>(
    name: &str,
    text: &'a [u8],
    expected: Expected<'_>,
) -> Result<CheckedSource<'a>, windlass_service::Failure> {
    let checked = check_source(name, text, expected);
    let checked = checked.map_err(|error| error.into_failure(name, text))?;
    warn(&checked.parsed, text);
    Ok(checked)
}

/// Whether a definition names actions that are none of the program's own: workers may have
/// declared them.
pub(crate) fn has_unknown_action(warnings: &[Problem]) -> bool {
    warnings.iter().any(|it| it.code == "UNKNOWN_ACTION")
}

/// Checks a definition's text. Problems are the failure's; mere warnings go to stderr. What
/// workers have declared is asked for where the definition names other actions.
pub(crate) fn accept<'a>(
    name: &str,
    text: &'a [u8],
    declared: impl FnOnce() -> Vec<DeclaredAction>,
) -> Result<Parsed<'a>, windlass_service::Failure> {
    let mut checked = check_beside(name, text, &Surroundings::default());
    if matches!(&checked, Ok(parsed) if has_unknown_action(&parsed.warnings)) {
        let surroundings = Surroundings {
            declared: &declared(),
            ..Surroundings::default()
        };
        checked = check_beside(name, text, &surroundings);
    }
    match checked {
        Ok(parsed) => {
            warn(&parsed, text);
            Ok(parsed)
        }
        Err(problems) => Err(invalid(name, text, &problems)),
    }
}

fn warn(parsed: &Parsed<'_>, text: &[u8]) {
    // Pools are looked up where the definition is published or run, which comes next.
    let told = |warning: &&Problem| warning.code != "POOL_UNCHECKED";
    for warning in parsed.warnings.iter().filter(told) {
        crate::output::say(&warning.render(text));
    }
}
