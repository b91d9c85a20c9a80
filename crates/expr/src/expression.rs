//! One compiled expression.

use std::sync::Arc;

use crate::ast::Node;
use crate::check::{References, check};
use crate::eval::Evaluator;
use crate::limits::Budget;
use crate::parser;
use crate::problem::SYNTAX;
use crate::{
    Document, Error, ExpressionLimits, Field, Mention, Meter, Problem, Reference, Scope, Value,
};

/// A compiled expression: immutable, shareable between threads and cheap to clone.
#[derive(Clone, Debug)]
pub struct Expression {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Box<str>,
    root: Node,
    /// How many slots its arrow parameters need.
    locals: usize,
    references: References,
}

impl Expression {
    /// Compiles `source`, or returns everything that is wrong with it.
    pub fn compile(
        source: &str,
        scope: &Scope,
        limits: &ExpressionLimits,
    ) -> Result<Self, Vec<Problem>> {
        let mut root = parser::parse(source, limits)
            .map_err(|problem| vec![in_braces(source).unwrap_or(problem)])?;
        let mut references = References::default();
        let locals = check(&mut root, scope, limits, &mut references)?;
        let inner = Inner {
            source: source.into(),
            root,
            locals,
            references,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Whether a text can be read as an expression, whatever its names mean.
    pub fn parses(source: &str, limits: &ExpressionLimits) -> bool {
        parser::parse(source, limits).is_ok()
    }

    /// What a source refers to, as far as it can be read, whatever else is wrong with it.
    pub fn mentions(source: &str, scope: &Scope, limits: &ExpressionLimits) -> Vec<Mention> {
        let mut references = References::default();
        if let Ok(mut root) = parser::parse(source, limits) {
            // Compiling has already reported the problems.
            let _ = check(&mut root, scope, limits, &mut references);
        }
        references.into_mentions("").collect()
    }

    /// The fields of plain values that a source reads by name, as far as it can be read.
    pub fn fields(source: &str, scope: &Scope, limits: &ExpressionLimits) -> Vec<Field> {
        let mut references = References::with_fields();
        if let Ok(mut root) = parser::parse(source, limits) {
            // Compiling has already reported the problems.
            let _ = check(&mut root, scope, limits, &mut references);
        }
        references.fields.unwrap_or_default()
    }

    /// The text this was compiled from.
    pub fn source(&self) -> &str {
        &self.inner.source
    }

    /// What the expression refers to; slot `i` of [`evaluate`](Self::evaluate)'s inputs belongs
    /// to the `i`th.
    pub fn references(&self) -> &[Reference] {
        &self.inner.references.list
    }

    /// The byte offset of the first occurrence of each reference.
    pub fn reference_offsets(&self) -> &[usize] {
        &self.inner.references.offsets
    }

    /// Evaluates over `inputs`, one for each reference; `None` means `undefined`.
    pub fn evaluate<'a>(
        &'a self,
        inputs: &[Option<&'a Document>],
        limits: &ExpressionLimits,
    ) -> Result<Value<'a>, Error> {
        self.evaluate_metered(inputs, limits, &mut Meter::default())
    }

    /// Evaluates as [`evaluate`](Self::evaluate) does, ends early when the meter's interrupt is
    /// set, and leaves on the meter what it cost.
    pub fn evaluate_metered<'a>(
        &'a self,
        inputs: &[Option<&'a Document>],
        limits: &ExpressionLimits,
        meter: &mut Meter,
    ) -> Result<Value<'a>, Error> {
        let mut budget = Budget::metered(limits, meter);
        let mut evaluator = Evaluator::new(inputs, self.inner.locals, &mut budget);
        let result = evaluator.value(&self.inner.root);
        budget.report(limits, meter);
        result.map_err(|error| *error.at(0))
    }
}

/// The problem with an expression that is written as a template, `{{ a > 1 }}`: nothing that
/// begins so can be read.
fn in_braces(source: &str) -> Option<Problem> {
    let start = source.len() - source.trim_start().len();
    let inside = source[start..].strip_prefix("{{")?;
    let message = "this is an expression already: it takes no `{{ }}`";
    let problem = Problem::new(SYNTAX, message, start, start + 2);
    let plain = inside.trim().strip_suffix("}}").map(str::trim);
    let plain = plain.filter(|plain| plain.len() <= REMEDY_BYTES && !plain.contains("{{"));
    Some(match plain {
        Some(plain) => problem.remedy(format!("write `{plain}`")),
        None => problem.remedy("write it without the braces"),
    })
}

/// Longer expressions are not repeated in a remedy.
const REMEDY_BYTES: usize = 120;
