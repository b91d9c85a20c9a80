//! `core.fail`: fails, so that failure routes and retries can be tried out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_engine::{Action, ActionError, Context, Reply};

/// Fails.
#[derive(Clone, Copy, Debug)]
pub struct Fail;

/// How to fail.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// The error's message.
    message: Option<String>,
    /// The error's code; `FAILED` by default.
    code: Option<String>,
    /// Whether another attempt might succeed; by default only with `untilAttempt`.
    retriable: Option<bool>,
    /// Succeed from this attempt on.
    until_attempt: Option<u32>,
}

/// What a success says.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// The attempt that succeeded.
    attempt: u32,
}

impl Action for Fail {
    type Parameters = Parameters;
    type Output = Output;

    fn name(&self) -> &str {
        "core.fail"
    }

    fn description(&self) -> &str {
        "Fails; with `untilAttempt: n` it succeeds from attempt n on."
    }

    async fn run(
        &self,
        context: Context,
        parameters: Parameters,
    ) -> Result<Reply<Output>, ActionError> {
        outcome(context.attempt, parameters).map(Reply::new)
    }
}

/// How an attempt with this number ends.
pub(crate) fn outcome(attempt: u32, parameters: Parameters) -> Result<Output, ActionError> {
    if parameters
        .until_attempt
        .is_some_and(|until| attempt >= until)
    {
        return Ok(Output { attempt });
    }
    let code = parameters.code.as_deref().unwrap_or("FAILED");
    let message = parameters
        .message
        .unwrap_or_else(|| "failed, as told".to_owned());
    // Failing until an attempt makes sense only if there is another one.
    let again = parameters.until_attempt.is_some();
    match parameters.retriable.unwrap_or(again) {
        true => Err(ActionError::retriable(code, message)),
        false => Err(ActionError::failed(code, message)),
    }
}
