//! The expression language: JavaScript expressions over JSON values, a total subset.
//!
//! Owns the language and nothing else: no clock, no randomness, no input or output, no
//! knowledge of workflows. Who calls it decides which names exist ([`Scope`]), how much an
//! evaluation may cost ([`Limits`]) and which JSON values stand behind the names.

mod expression;
mod limits;
mod problem;
mod scope;
mod template;
mod value;

pub use expression::Expression;
pub use limits::Limits;
pub use problem::{Error, Problem, TemplateProblem};
pub use scope::{Reference, Scope};
pub use template::Template;
pub use value::Value;
