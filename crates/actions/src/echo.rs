//! `core.echo`: outputs its parameters.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_engine::{Action, ActionError, Context, Reply};

/// Outputs its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Echo;

/// Any JSON, passed on as it is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AnyJson(Box<RawValue>);

impl JsonSchema for AnyJson {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Any".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "description": "Any JSON value." })
    }

    fn inline_schema() -> bool {
        true
    }
}

impl Action for Echo {
    type Parameters = AnyJson;
    type Output = AnyJson;

    fn name(&self) -> &str {
        "core.echo"
    }

    fn description(&self) -> &str {
        "Outputs its parameters."
    }

    async fn run(
        &self,
        _context: Context,
        parameters: AnyJson,
    ) -> Result<Reply<AnyJson>, ActionError> {
        Ok(Reply::new(parameters))
    }
}
