//! `core.sleep`: holds a worker for a while. For tests; a durable wait is `delay`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_engine::{Action, ActionError, Context, Reply};

/// Holds a worker for a while.
#[derive(Clone, Copy, Debug)]
pub struct Sleep;

/// How long.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Milliseconds.
    pub(crate) ms: u64,
}

/// How long it was.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Milliseconds asked for.
    pub(crate) ms: u64,
}

impl Action for Sleep {
    type Parameters = Parameters;
    type Output = Output;

    fn name(&self) -> &str {
        "core.sleep"
    }

    fn description(&self) -> &str {
        "Holds a worker for a while (for tests; a durable wait is a `delay` node)."
    }

    async fn run(
        &self,
        context: Context,
        parameters: Parameters,
    ) -> Result<Reply<Output>, ActionError> {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(parameters.ms)) => {
                Ok(Reply::new(Output { ms: parameters.ms }))
            }
            () = context.stop_asked() => Err(ActionError::stopped()),
        }
    }
}
