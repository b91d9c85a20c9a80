//! A definition that may be published and run.

use std::borrow::Cow;
use std::sync::Arc;

use windlass_core::Digest;
use windlass_core::definition::{Definition, Problem, Severity};
use windlass_core::plan::Plan;

use crate::definition::{Surroundings, check_beside, to_json};
use crate::failure::{Failure, FailureKind};

/// A definition that is ready to be published and run. Cloning it is cheap.
#[derive(Clone)]
pub struct PreparedDefinition {
    /// What the engine walks.
    pub plan: Arc<Plan>,
    /// What is stored: JSON.
    pub text: Arc<[u8]>,
    /// Digest of the text.
    pub digest: Digest,
    /// The graph's signature.
    pub signature: Digest,
    /// A name for people.
    pub display_name: Option<Box<str>>,
}

/// Checks the text of a definition; warnings are not mentioned.
pub fn prepare_text(text: &[u8]) -> Result<PreparedDefinition, Failure> {
    prepare_beside(text, &Surroundings::default())
}

/// As [`prepare_text`], where more is known than the text.
///
/// # Errors
/// It may not be published.
pub fn prepare_beside(
    text: &[u8],
    surroundings: &Surroundings<'_>,
) -> Result<PreparedDefinition, Failure> {
    prepare_with_warnings(text, surroundings).map(|(definition, _)| definition)
}

/// As [`prepare_beside`], with what may be published and is probably not meant.
///
/// # Errors
/// It may not be published.
pub fn prepare_with_warnings(
    text: &[u8],
    surroundings: &Surroundings<'_>,
) -> Result<(PreparedDefinition, Vec<Problem>), Failure> {
    let parsed = check_beside("definition", text, surroundings).map_err(|problems| {
        let is_error = |problem: &&Problem| problem.severity == Severity::Error;
        let first = problems.iter().find(is_error);
        let first = first.map_or_else(String::new, |problem| problem.message.clone());
        Failure::new(FailureKind::DefinitionInvalid, first)
            .details(problems.iter().map(to_json).collect())
    })?;
    let definition = build(parsed.definition, parsed.json)?;
    Ok((definition, parsed.warnings))
}

/// Builds what may be run of a definition and its text as JSON.
///
/// # Errors
/// It was not checked, and something is wrong.
pub fn build(definition: Definition, text: Cow<'_, [u8]>) -> Result<PreparedDefinition, Failure> {
    let display_name = definition.display_name.clone();
    let plan = Plan::build(definition)
        .map_err(|error| Failure::new(FailureKind::DefinitionInvalid, error))?;
    Ok(PreparedDefinition {
        signature: plan.signature(),
        plan: Arc::new(plan),
        digest: Digest::of(&text),
        // Copied only now that the definition, the largest of all, is gone.
        text: text.into(),
        display_name,
    })
}
