//! The expression language: JavaScript expressions over JSON values, a total subset.
//!
//! Owns the language and nothing else: no clock, no randomness, no input or output, no
//! knowledge of workflows. The caller decides which names exist ([`Scope`]), how much an
//! evaluation may cost ([`ExpressionLimits`]) and which [`Document`]s stand behind the names.
//!
//! ```
//! use windlass_expr::{Document, Expression, ExpressionLimits, Scope, Template};
//!
//! let scope = Scope::new(&["trigger"], &["context.data"]);
//! let limits = ExpressionLimits::default();
//! let order = Document::parse(r#"{"id": 7, "items": [{"price": 2}, {"price": 3}]}"#).unwrap();
//!
//! let total = "trigger.items.reduce((sum, item) => sum + item.price, 0)";
//! let expression = Expression::compile(total, &scope, &limits).unwrap();
//! assert_eq!(expression.evaluate(&[Some(&order)], &limits).unwrap().to_json().unwrap(), 5);
//!
//! let template = Template::compile(r#"{"url": "/orders/{{ trigger.id }}"}"#, &scope, &limits).unwrap();
//! assert_eq!(template.render(&[Some(&order)], &limits).unwrap(), r#"{"url": "/orders/7"}"#);
//! ```
//!
//! What is in the language means exactly what JavaScript means, with one difference: there are
//! no prototypes. A computed key and `in` see own data only, and functions are not values.

mod ast;
mod check;
mod convert;
mod document;
mod eval;
mod expression;
mod functions;
mod json;
mod lexer;
mod limits;
mod meter;
mod number;
mod parser;
mod problem;
mod scope;
mod subject;
mod template;
mod text;
mod value;
mod work;
#[doc(hidden)]
pub mod worst;

#[cfg(test)]
mod tests;

pub use document::{Document, DocumentError, DocumentReader, check_syntax};
pub use expression::Expression;
pub use limits::ExpressionLimits;
pub use meter::{Interrupt, Meter};
pub use problem::{Error, Problem, TemplateProblem};
pub use scope::{Field, Mention, Reference, Scope};
pub use template::{Hidden, Template};
pub use value::Value;

/// The moment that an ISO 8601 text names, in milliseconds since 1970, as `date.*` reads it.
pub fn parse_moment(text: &str) -> Option<i64> {
    functions::calendar::parse(text)
}
