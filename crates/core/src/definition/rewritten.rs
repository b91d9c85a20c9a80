//! A definition that was put together from parts of a file, as an exported graph becomes one:
//! what is wrong with it has its place in the file.

use std::borrow::Cow;
use std::ops::Range;

use super::parse::{Parsed, check};
use super::place::{Plain, Position, Positions};
use super::problem::{Problem, Severity};
use super::source::{DefinitionSource, Options};

/// The JSON text of a definition, and which parts of it stand in a file.
#[derive(Clone, Debug, Default)]
pub struct Rewritten {
    json: String,
    /// Where each copied part begins in the text, and where it stands in the file; in order.
    parts: Vec<(Range<usize>, usize)>,
}

impl Rewritten {
    /// Adds text that the file does not have.
    pub fn push(&mut self, text: &str) {
        self.json.push_str(text);
    }

    /// Adds a part of the file. `part` must be a slice of `file`; otherwise its place is not
    /// known.
    pub fn copy(&mut self, file: &[u8], part: &str) {
        let from = (part.as_ptr() as usize).checked_sub(file.as_ptr() as usize);
        let start = self.json.len();
        self.json.push_str(part);
        if let Some(from) = from.filter(|from| from + part.len() <= file.len()) {
            self.parts.push((start..self.json.len(), from));
        }
    }

    /// The definition's text.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Where a range of the text stands in the file; one that was not copied stands where the
    /// part before it ends.
    fn in_file(&self, range: &Range<usize>) -> Range<usize> {
        let after = self
            .parts
            .partition_point(|(part, _)| part.start <= range.start);
        let Some((part, from)) = after.checked_sub(1).map(|at| &self.parts[at]) else {
            return 0..1;
        };
        let moved = |at: usize| from + at.min(part.end) - part.start;
        let start = moved(range.start);
        start..moved(range.end).max(start + 1)
    }
}

/// Reads and checks a definition that was put together from parts of `source`.
///
/// # Errors
/// Every problem that could be found, with its place in the source.
pub fn parse_rewritten(
    source: &DefinitionSource<'_>,
    rewritten: &Rewritten,
    options: &Options<'_>,
) -> Result<Parsed<'static>, Vec<Problem>> {
    let moved = Moved {
        file: std::str::from_utf8(source.text).unwrap_or_default(),
        rewritten,
    };
    let (definition, warnings) = check(source, options, &rewritten.json, &moved)?;
    Ok(Parsed {
        definition,
        json: Cow::Owned(rewritten.json.clone().into_bytes()),
        warnings,
    })
}

/// A problem of a part of the file.
pub fn problem_at(
    source: &DefinitionSource<'_>,
    part: &str,
    (code, pointer): (&'static str, &str),
    message: String,
) -> Problem {
    let file = std::str::from_utf8(source.text).unwrap_or_default();
    let start = (part.as_ptr() as usize).saturating_sub(file.as_ptr() as usize);
    let range = start..start + part.len().max(1);
    let position = Plain(file).positions(&[range]).pop();
    let position = position.expect("one range has one position");
    Problem {
        code,
        severity: Severity::Error,
        message,
        pointer: pointer.to_owned(),
        line: position.line,
        column: position.column,
        length: position.length,
        suggestion: None,
        file: source.name.clone(),
    }
}

struct Moved<'a> {
    file: &'a str,
    rewritten: &'a Rewritten,
}

impl Positions for Moved<'_> {
    fn positions(&self, ranges: &[Range<usize>]) -> Vec<Position> {
        let moved = ranges.iter().map(|range| self.rewritten.in_file(range));
        let mut moved: Vec<(usize, Range<usize>)> = moved.enumerate().collect();
        moved.sort_by_key(|(_, range)| (range.start, range.end));
        let sorted: Vec<Range<usize>> = moved.iter().map(|(_, range)| range.clone()).collect();
        let positions = Plain(self.file).positions(&sorted);
        let mut numbered: Vec<_> = moved.into_iter().map(|(at, _)| at).zip(positions).collect();
        numbered.sort_by_key(|(at, _)| *at);
        numbered.into_iter().map(|(_, position)| position).collect()
    }
}
