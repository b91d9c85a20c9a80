//! What can be wrong with a definition, and where: found first, placed later.
//!
//! Checks record findings by pointer or byte range. Lines and columns are
//! worked out only when there is something to report.

use std::ops::Range;

use serde::Serialize;

/// At most this many problems of a definition are reported; a last one counts the rest.
pub const MAX_PROBLEMS: usize = 100;

/// More findings than this are only counted, so that a hostile document costs bounded memory.
pub(crate) const KEPT: usize = 1000;

/// Whether a problem prevents publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// The definition is refused.
    Error,
    /// The definition is accepted; this may be a mistake.
    Warning,
}

/// One problem of a definition, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// A stable code; see [`codes`](super::codes).
    pub code: &'static str,
    /// Whether it prevents publishing.
    pub severity: Severity,
    /// What is wrong, in one sentence.
    pub message: String,
    /// RFC 6901 pointer into the document.
    pub pointer: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// How many characters are meant, at least 1.
    pub length: u32,
    /// What to do about it, where that is known.
    pub suggestion: Option<String>,
    /// The file, as messages name it.
    pub file: String,
}

/// A problem before its line and column are known.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) code: &'static str,
    pub(crate) severity: Severity,
    pub(crate) message: String,
    pub(crate) suggestion: Option<String>,
    pub(crate) pointer: String,
    pub(crate) place: SourceLocation,
}

/// How the place of a finding is known.
#[derive(Clone, Debug)]
pub(crate) enum SourceLocation {
    /// By its byte range in the JSON text.
    At(Range<usize>),
    /// The key that the pointer leads to.
    Key,
    /// The value that the pointer leads to.
    Value,
    /// A byte range of the unescaped text that the pointer leads to.
    Within(Range<usize>),
}

/// The findings so far, bounded.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: Vec<Finding>,
    pub(crate) warnings: Vec<Finding>,
    pub(crate) more_errors: usize,
    pub(crate) more_warnings: usize,
}

impl Findings {
    /// Whether nothing prevents publishing.
    pub(crate) fn is_accepted(&self) -> bool {
        self.errors.is_empty()
    }

    /// Whether a further problem of this severity would only be counted.
    pub(crate) fn is_full(&self, severity: Severity) -> bool {
        match severity {
            Severity::Error => self.errors.len() >= KEPT,
            Severity::Warning => self.warnings.len() >= KEPT,
        }
    }

    /// Only counts an error where no more are kept, and says so: a document with
    /// millions of problems is not worth millions of messages.
    pub(crate) fn only_counts(&mut self) -> bool {
        let full = self.errors.len() > KEPT;
        self.more_errors += usize::from(full);
        full
    }

    /// Records an error.
    pub(crate) fn error(
        &mut self,
        code: &'static str,
        message: String,
        pointer: String,
    ) -> &mut Finding {
        self.push(Severity::Error, code, message, pointer)
    }

    /// Records a warning.
    pub(crate) fn warning(
        &mut self,
        code: &'static str,
        message: String,
        pointer: String,
    ) -> &mut Finding {
        self.push(Severity::Warning, code, message, pointer)
    }

    fn push(
        &mut self,
        severity: Severity,
        code: &'static str,
        message: String,
        pointer: String,
    ) -> &mut Finding {
        let full = self.is_full(severity);
        let (list, more) = match severity {
            Severity::Error => (&mut self.errors, &mut self.more_errors),
            Severity::Warning => (&mut self.warnings, &mut self.more_warnings),
        };
        if full {
            // The one past the last is overwritten again and again, and dropped when placed.
            *more += 1;
            list.truncate(KEPT);
        }
        list.push(Finding {
            code,
            severity,
            message,
            suggestion: None,
            pointer,
            place: SourceLocation::Value,
        });
        let last = list.len() - 1;
        &mut list[last]
    }
}

impl Finding {
    /// Says where more exactly than "the value".
    pub(crate) fn at(&mut self, place: SourceLocation) -> &mut Self {
        self.place = place;
        self
    }

    /// Says what to do about it.
    pub(crate) fn suggest(&mut self, suggestion: Option<String>) -> &mut Self {
        self.suggestion = suggestion;
        self
    }
}
