//! A definition in a file: read, and checked; warnings are printed.

use std::path::Path;

use windlass_core::definition::Parsed;

use crate::exit::Failure;
pub(crate) use crate::source::read_definition as read;
pub(crate) use windlass_service::definition::{check, invalid, to_json};
use windlass_service::frozen;

/// Reads a definition's file, or that of a graph as `export` writes it, which becomes the
/// definition that it stands for; with the name to report problems by.
pub(crate) fn read_graph(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let (name, text) = (path.display().to_string(), read(path)?);
    Ok(match frozen::read(&name, &text)? {
        Some(graph) => (
            format!("{name} as a definition"),
            graph.into_definition(None)?,
        ),
        None => (name, text),
    })
}

/// Checks a definition's text. Problems are the failure's; mere warnings go to stderr.
pub(crate) fn accept<'a>(
    name: &str,
    text: &'a [u8],
) -> Result<Parsed<'a>, windlass_service::Failure> {
    match check(name, text) {
        Ok(parsed) => {
            for warning in &parsed.warnings {
                crate::output::say(&warning.render(text));
            }
            Ok(parsed)
        }
        Err(problems) => Err(invalid(name, text, &problems)),
    }
}
