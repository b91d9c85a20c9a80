//! What can be wrong: with a source when it is compiled, with values when it is evaluated.

use std::fmt;

/// The source is not an expression.
pub(crate) const SYNTAX: &str = "EXPRESSION_SYNTAX";
/// A name that the scope does not have.
pub(crate) const UNKNOWN_NAME: &str = "EXPRESSION_UNKNOWN_NAME";
/// JavaScript that is left out of the language on purpose.
pub(crate) const NOT_ALLOWED: &str = "EXPRESSION_NOT_ALLOWED";
/// A method or function that the language does not have.
pub(crate) const UNKNOWN_METHOD: &str = "EXPRESSION_UNKNOWN_METHOD";
/// The key of a table must be known when the expression is compiled.
pub(crate) const KEY_NOT_CONSTANT: &str = "EXPRESSION_KEY_NOT_CONSTANT";
/// A limit is exceeded, at compile time or at run time.
pub(crate) const LIMIT: &str = "EXPRESSION_LIMIT";
/// An error that JavaScript would throw.
pub(crate) const ERROR: &str = "EXPRESSION_ERROR";
/// The caller stopped the evaluation.
pub(crate) const INTERRUPTED: &str = "EXPRESSION_INTERRUPTED";
/// A template evaluated to `undefined`.
pub(crate) const TEMPLATE_UNDEFINED: &str = "TEMPLATE_UNDEFINED";

/// One problem found when compiling, with its byte range in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A stable code, `EXPRESSION_…`.
    pub code: &'static str,
    /// What is wrong and what to write instead, in one sentence.
    pub message: String,
    /// First byte of the offending source.
    pub start: usize,
    /// One past the last byte of the offending source.
    pub end: usize,
    /// The nearest name that exists, when there is one.
    pub suggestion: Option<String>,
    /// What to write instead, where that is known and is more than another name.
    pub remedy: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.message)
    }
}

/// A problem inside a template document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateProblem {
    /// RFC 6901 pointer of the string that holds the problem.
    pub pointer: String,
    /// The problem; its byte range counts in the decoded string.
    pub problem: Problem,
}

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// `EXPRESSION_LIMIT`, `EXPRESSION_ERROR`, `TEMPLATE_UNDEFINED`, or
    /// `EXPRESSION_INTERRUPTED` when the caller stopped it.
    pub code: &'static str,
    /// What went wrong, worded as JavaScript words it where JavaScript has words.
    pub message: String,
    /// Byte offset in the source of the operation that failed.
    pub offset: usize,
    /// RFC 6901 pointer of the string in the template document, when there is one.
    pub pointer: Option<String>,
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {}

/// The offset of an error whose place is not filled in yet.
const NOWHERE: usize = usize::MAX;

/// Boxed, so that the success path stays small.
pub(crate) type Fallible<T> = Result<T, Box<Error>>;

/// An error that JavaScript would throw.
pub(crate) fn error(message: impl Into<String>) -> Box<Error> {
    failure(ERROR, message.into())
}

/// A limit that is exceeded.
pub(crate) fn limit(message: &str) -> Box<Error> {
    failure(LIMIT, message.to_owned())
}

pub(crate) fn failure(code: &'static str, message: String) -> Box<Error> {
    Box::new(Error {
        code,
        message,
        offset: NOWHERE,
        pointer: None,
    })
}

impl Error {
    /// Whether the caller stopped the evaluation: it says nothing about the expression.
    pub fn is_interrupted(&self) -> bool {
        self.code == INTERRUPTED
    }

    /// Whether the evaluation exceeded a limit.
    pub fn is_limit(&self) -> bool {
        self.code == LIMIT
    }

    /// Fills in the place, unless an inner operation did already.
    pub(crate) fn at(mut self: Box<Self>, offset: usize) -> Box<Self> {
        if self.offset == NOWHERE {
            self.offset = offset;
        }
        self
    }
}

impl Problem {
    pub(crate) fn new(
        code: &'static str,
        message: impl Into<String>,
        start: usize,
        end: usize,
    ) -> Self {
        Self {
            code,
            message: message.into(),
            start,
            end,
            suggestion: None,
            remedy: None,
        }
    }

    /// Says what to write instead.
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Adds the candidate nearest to `name`, if it is near enough for a typing error.
    pub(crate) fn suggest<'a>(
        mut self,
        name: &str,
        candidates: impl Iterator<Item = &'a str>,
    ) -> Self {
        let nearest = candidates
            .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
            .filter(|(distance, candidate)| {
                *distance <= 1 + candidate.chars().count().max(name.chars().count()) / 4
            })
            .min();
        if let Some((_, candidate)) = nearest {
            self.message = format!("{}; did you mean `{candidate}`?", self.message);
            self.suggestion = Some(candidate.to_owned());
        }
        self
    }
}
