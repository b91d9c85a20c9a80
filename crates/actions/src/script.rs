//! `core.script`: an expression's value. The plan compiles the expression with the
//! definition and the worker evaluates it while it renders the parameters, with
//! everything in scope that a template sees; what arrives here is its value.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_engine::{Action, ActionError, Context, Reply};

/// Outputs an expression's value.
#[derive(Clone, Copy, Debug)]
pub struct Script;

/// What to evaluate.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// A bare expression, e.g. `context.data['cart'].items.map(i => i.price)`.
    pub(crate) expression: Value,
}

impl Action for Script {
    type Parameters = Parameters;
    type Output = Value;

    fn name(&self) -> &str {
        "core.script"
    }

    fn description(&self) -> &str {
        "Outputs the value of an expression."
    }

    async fn run(
        &self,
        _context: Context,
        parameters: Parameters,
    ) -> Result<Reply<Value>, ActionError> {
        Ok(Reply::new(parameters.expression))
    }
}
