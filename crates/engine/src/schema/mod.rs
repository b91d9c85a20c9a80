//! JSON Schemas given by users: read, bounded, compiled once, and checked within a budget.
//!
//! A check cannot be stopped once it has begun, so its work is counted before ([`work`]), and a
//! check over the budget is refused. Must not know whose value it checks.

mod graph;
mod parameters;
mod pattern;
mod resolve;
#[cfg(test)]
mod tests;
mod tree;
mod work;

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use windlass_core::Digest;
use windlass_core::definition::{SCHEMA_COST, SchemaProblem};
use windlass_core::value::nesting;

use work::{Ordered, Work};

pub use parameters::ActionSchemas;
pub(crate) use tree::Tree;

/// The largest schema, in bytes of its text.
const SCHEMA_BYTES: usize = 1024 * 1024;

/// How deep a schema may be nested, as a text.
const SCHEMA_NESTING: usize = 120;

/// How many validators a schema may be compiled to.
const COMPILED: u64 = SCHEMA_COST;

/// What compiling any schema costs, however small it is, in validators.
const EACH: u64 = 50;

/// How deep subschemas may refer to each other for the same value.
const SAME_VALUE_NESTING: u64 = 128;

/// What one check may take, in visits of a subschema: about a second.
const BUDGET: u64 = 20_000_000;

/// What reporting each problem with its place may take; it costs memory for each.
const REPORT_BUDGET: u64 = 200_000;

/// How often a pattern with look-around may go back, and what a match of one counts for. Only
/// schemas published before such patterns were refused have them.
const BACKTRACKS: usize = 10_000;

/// How many problems with a value are named.
const NAMED: usize = 100;

/// The longest message about a problem, in bytes: it quotes the value.
const MESSAGE_BYTES: usize = 1000;

/// Compiled schemas kept: how many, and about how many bytes they take together.
const KEPT: (usize, usize) = (256, 64 * 1024 * 1024);

/// What a compiled schema takes for each byte of its text, and for each of its validators.
const TEXT_FACTOR: usize = 8;
const VALIDATOR_BYTES: usize = 400;

/// Why a value was refused by a schema.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It does not fit; each problem with its place.
    Invalid(Vec<(String, String)>),
    /// Checking it would take more than a check may.
    Limit(String),
}

/// A schema that can be used.
pub(crate) struct Schema {
    validator: jsonschema::Validator,
    ordered: Ordered,
    /// About how many bytes of memory it takes.
    bytes: usize,
}

impl Schema {
    /// Compiles a schema, or says why it cannot be used. The limit is how many subschemas it
    /// may expand to for one value.
    pub(crate) fn compile(text: &str, limit: u64) -> Result<Self, SchemaProblem> {
        let (schema, mut ordered, validators) = bounded(text, limit)?;
        let bytes = text.len() * TEXT_FACTOR + validators * VALIDATOR_BYTES;
        let validator = match linear(&schema) {
            Ok(validator) => validator,
            Err(problem) => match backtracking(&schema) {
                Ok(validator) => {
                    ordered.match_work = BACKTRACKS as u64;
                    validator
                }
                Err(_) => return Err(problem),
            },
        };
        Ok(Self {
            validator,
            ordered,
            bytes,
        })
    }

    /// The schema of a text, compiled now or kept from before.
    pub(crate) fn kept(text: &str, limit: u64) -> Result<Arc<Self>, SchemaProblem> {
        static CACHE: Mutex<Cache> = Mutex::new(Cache::new());
        let lock = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = Digest::of(text.as_bytes());
        if let Some(schema) = lock().get(digest) {
            return Ok(schema);
        }
        let schema = Arc::new(Self::compile(text, limit)?);
        lock().put(digest, Arc::clone(&schema));
        Ok(schema)
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a check of this value takes so little that it can be done in passing.
    pub(crate) fn is_quick(&self, value: &Value) -> bool {
        self.ordered.work(value, QUICK).is_some()
    }

    /// Checks a value, if that takes no more than a check may.
    pub(crate) fn check(&self, value: &Value) -> Result<(), Refused> {
        let Some(work) = self.ordered.work(value, BUDGET) else {
            let message = format!(
                "checking the value takes more than {BUDGET} steps, or is nested deeper than {}",
                work::MOST_NESTING
            );
            return Err(Refused::Limit(message));
        };
        match self.validator.is_valid(value) {
            true => Ok(()),
            false => Err(Refused::Invalid(self.problems(value, &work))),
        }
    }

    /// What is wrong with a value that does not fit. Naming every place takes memory for each,
    /// and branches are tried again at each level: of a large value only the first is named.
    fn problems(&self, value: &Value, work: &Work) -> Vec<(String, String)> {
        let named = |error: jsonschema::ValidationError<'_>| {
            (error.instance_path().to_string(), shortened(&error))
        };
        if work.reporting <= REPORT_BUDGET {
            let errors = self.validator.iter_errors(value).take(NAMED);
            let mut problems: Vec<_> = errors.map(named).collect();
            problems.dedup();
            return problems;
        }
        if !self.ordered.branches()
            && let Err(error) = self.validator.validate(value)
        {
            return vec![named(error)];
        }
        let message = "it does not fit; it is too large to say where".to_owned();
        vec![(String::new(), message)]
    }
}

/// What a check may take that is done in passing: well under a millisecond.
const QUICK: u64 = 20_000;

/// Checks that a text is a JSON Schema that can be used, as publishing does.
///
/// # Errors
/// Why it cannot.
pub(crate) fn check_text(text: &str, limit: u64) -> Result<u64, SchemaProblem> {
    let (schema, ordered, validators) = bounded(text, limit)?;
    linear(&schema)?;
    Ok(EACH + validators as u64 + ordered.pattern_cost(COMPILED))
}

/// Reads a schema and refuses what expands to too much, before anything else looks at it.
/// Gives the number of validators that it is compiled to, too.
fn bounded(text: &str, limit: u64) -> Result<(Value, Ordered, usize), SchemaProblem> {
    let over = |message: String| SchemaProblem::Limit(message);
    if text.len() > SCHEMA_BYTES {
        let message = format!(
            "it has {} bytes; a schema may have {SCHEMA_BYTES}",
            text.len()
        );
        return Err(over(message));
    }
    let deep = nesting(text);
    if deep > SCHEMA_NESTING {
        let message = format!("it is nested {deep} deep; a schema may be nested {SCHEMA_NESTING}");
        return Err(over(message));
    }
    let schema: Value =
        serde_json::from_str(text).map_err(|error| SchemaProblem::Invalid(error.to_string()))?;
    let graph = graph::read(&schema, COMPILED as usize)?;
    let Some(ordered) = Ordered::new(graph) else {
        let message = "a subschema refers to itself without going deeper into the value";
        return Err(over(message.to_owned()));
    };
    let (visits, nesting) = ordered.expansion();
    if visits > limit {
        let message = format!(
            "for one value the schema expands to {} subschemas; it may expand to {limit}",
            Count(visits)
        );
        return Err(over(message));
    }
    if nesting > SAME_VALUE_NESTING {
        let message = format!(
            "subschemas refer to each other {nesting} deep for one value; they may {SAME_VALUE_NESTING}"
        );
        return Err(over(message));
    }
    let Some(validators) = ordered.compiled(COMPILED) else {
        let message = format!("the schema needs more than {COMPILED} validators");
        return Err(over(message));
    };
    Ok((schema, ordered, validators as usize))
}

/// A count that may have overflowed.
struct Count(u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("more than 18446744073709551614"),
            count => count.fmt(f),
        }
    }
}

/// With patterns that take time linear in the text.
fn linear(schema: &Value) -> Result<jsonschema::Validator, SchemaProblem> {
    let patterns = jsonschema::PatternOptions::regex().size_limit(pattern::SIZE_BYTES);
    let options = jsonschema::options().with_pattern_options(patterns);
    let built = options.build(schema);
    built.map_err(|error| SchemaProblem::Invalid(shortened(&error)))
}

/// With patterns that may look around, and go back a bounded number of times.
fn backtracking(schema: &Value) -> Result<jsonschema::Validator, SchemaProblem> {
    let patterns = jsonschema::PatternOptions::fancy_regex()
        .backtrack_limit(BACKTRACKS)
        .size_limit(pattern::SIZE_BYTES);
    let options = jsonschema::options().with_pattern_options(patterns);
    let built = options.build(schema);
    built.map_err(|error| SchemaProblem::Invalid(shortened(&error)))
}

/// The beginning of a message. It is never written in full: it may quote the whole value.
fn shortened(message: &impl fmt::Display) -> String {
    struct Beginning(String);

    impl fmt::Write for Beginning {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = MESSAGE_BYTES.saturating_sub(self.0.len());
            let fits = windlass_core::name::cut(text, room);
            self.0.push_str(fits);
            match fits.len() == text.len() {
                true => Ok(()),
                false => Err(fmt::Error),
            }
        }
    }

    let mut beginning = Beginning(String::new());
    if write!(beginning, "{message}").is_err() {
        beginning.0.push('\u{2026}');
    }
    beginning.0
}

/// Compiled schemas by the digests of their texts, oldest first.
struct Cache {
    kept: VecDeque<(Digest, Arc<Schema>)>,
    bytes: usize,
}

impl Cache {
    const fn new() -> Self {
        Self {
            kept: VecDeque::new(),
            bytes: 0,
        }
    }

    fn get(&mut self, digest: Digest) -> Option<Arc<Schema>> {
        let place = self.kept.iter().position(|(kept, ..)| *kept == digest)?;
        let entry = self.kept.remove(place)?;
        let schema = Arc::clone(&entry.1);
        self.kept.push_back(entry);
        Some(schema)
    }

    fn put(&mut self, digest: Digest, schema: Arc<Schema>) {
        self.bytes += schema.bytes;
        self.kept.push_back((digest, schema));
        while self.kept.len() > KEPT.0 || self.bytes > KEPT.1 {
            let Some((_, schema)) = self.kept.pop_front() else {
                break;
            };
            self.bytes -= schema.bytes;
        }
    }
}
