//! Turns findings into problems: byte ranges into lines and columns.

use std::ops::Range;

use super::codes;
use super::locate::Places;
use super::problem::{Finding, Findings, KEPT, MAX_PROBLEMS, Problem, Severity, SourceLocation};
use super::scan::raw_offset;

/// A line and a column, both from 1, and a width in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) length: u32,
}

/// Translates ranges of the JSON text into positions in the file.
pub(crate) trait Positions {
    /// The positions of ranges that are sorted by their start.
    fn positions(&self, ranges: &[Range<usize>]) -> Vec<Position>;
}

/// A file that is the JSON text itself.
pub(crate) struct Plain<'t>(pub(crate) &'t str);

impl Positions for Plain<'_> {
    fn positions(&self, ranges: &[Range<usize>]) -> Vec<Position> {
        let mut cursor = Cursor::new(self.0);
        ranges
            .iter()
            .map(|range| {
                cursor.advance(range.start);
                cursor.position(range.end)
            })
            .collect()
    }
}

/// Walks a text forwards, counting lines and characters once.
pub(crate) struct Cursor<'t> {
    text: &'t str,
    at: usize,
    line: u32,
    column: u32,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self {
            text,
            at: 0,
            line: 1,
            column: 1,
        }
    }

    /// Moves to a byte that is not before the current one.
    pub(crate) fn advance(&mut self, to: usize) {
        let mut to = to.min(self.text.len()).max(self.at);
        while !self.text.is_char_boundary(to) {
            to -= 1;
        }
        for byte in &self.text.as_bytes()[self.at..to] {
            if *byte == b'\n' {
                self.line = self.line.saturating_add(1);
                self.column = 1;
            } else if byte & 0xC0 != 0x80 {
                self.column = self.column.saturating_add(1);
            }
        }
        self.at = to;
    }

    /// The current position, with a width that ends before `end` or with the line.
    pub(crate) fn position(&self, end: usize) -> Position {
        let mut end = end.min(self.text.len()).max(self.at);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let shown = self.text[self.at..end].lines().next().unwrap_or_default();
        let length = u32::try_from(shown.chars().count()).unwrap_or(u32::MAX);
        Position {
            line: self.line,
            column: self.column,
            length: length.max(1),
        }
    }
}

/// What is needed to place a list of findings.
pub(crate) struct Placing<'a> {
    /// The file name for messages.
    pub(crate) file: &'a str,
    /// The JSON text that was checked.
    pub(crate) json: &'a str,
    /// The nesting limit.
    pub(crate) nesting: usize,
    /// Where the JSON text's parts stand in the file.
    pub(crate) positions: &'a dyn Positions,
}

impl Placing<'_> {
    /// The errors and warnings as problems, each list sorted by place and bounded.
    pub(crate) fn place(&self, findings: Findings) -> (Vec<Problem>, Vec<Problem>) {
        if findings.errors.is_empty() && findings.warnings.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let pointers = findings
            .errors
            .iter()
            .chain(&findings.warnings)
            .filter(|finding| !matches!(finding.place, SourceLocation::At(_)))
            .map(|finding| finding.pointer.as_str());
        let places = Places::find(self.json, self.nesting, pointers);
        (
            self.list(
                findings.errors,
                findings.more_errors,
                Severity::Error,
                &places,
            ),
            self.list(
                findings.warnings,
                findings.more_warnings,
                Severity::Warning,
                &places,
            ),
        )
    }

    fn list(
        &self,
        mut findings: Vec<Finding>,
        more: usize,
        severity: Severity,
        places: &Places,
    ) -> Vec<Problem> {
        findings.truncate(KEPT);
        let more = more + findings.len().saturating_sub(MAX_PROBLEMS);
        let mut ranged: Vec<_> = findings
            .into_iter()
            .map(|finding| (self.range(&finding, places), finding))
            .collect();
        ranged.sort_by_key(|(range, _)| (range.start, range.end));
        ranged.truncate(MAX_PROBLEMS);
        let ranges: Vec<_> = ranged.iter().map(|(range, _)| range.clone()).collect();
        let positions = self.positions.positions(&ranges);
        let mut problems: Vec<_> = positions
            .into_iter()
            .zip(ranged)
            .map(|(position, (_, finding))| self.problem(finding, position))
            .collect();
        problems.sort_by_key(|problem| (problem.line, problem.column));
        if let (Some(last), true) = (problems.last(), more > 0) {
            let noun = match severity {
                Severity::Error => "problems",
                Severity::Warning => "warnings",
            };
            problems.push(Problem {
                code: codes::TOO_MANY_PROBLEMS,
                message: format!("{more} more {noun} are not shown"),
                suggestion: None,
                pointer: String::new(),
                ..last.clone()
            });
        }
        problems
    }

    fn problem(&self, finding: Finding, position: Position) -> Problem {
        Problem {
            code: finding.code,
            severity: finding.severity,
            message: finding.message,
            pointer: finding.pointer,
            line: position.line,
            column: position.column,
            length: position.length,
            suggestion: finding.suggestion,
            file: self.file.to_owned(),
        }
    }

    fn range(&self, finding: &Finding, places: &Places) -> Range<usize> {
        let spot = match &finding.place {
            SourceLocation::At(range) => return range.clone(),
            _ => places.get(&finding.pointer),
        };
        let value = spot.value;
        match &finding.place {
            SourceLocation::Key => spot.key.unwrap_or(value),
            SourceLocation::Within(inner)
                if self.json.as_bytes().get(value.start) == Some(&b'"') =>
            {
                let raw = &self.json[value.start + 1..value.end - 1];
                let start = value.start + 1 + raw_offset(raw, inner.start);
                let end = value.start + 1 + raw_offset(raw, inner.end);
                start..end.max(start + 1)
            }
            _ => value,
        }
    }
}
