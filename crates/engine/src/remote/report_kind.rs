//! What a worker's report says of its attempt, and whether what was recorded contradicts it.

use windlass_core::event::{AttemptEnded, AttemptResult};
use windlass_core::value::Stored;

use super::finish::TaskOutcome;

/// What the codes of errors begin with that the engine makes of an output which it cannot keep. Logs
/// of earlier versions do not say otherwise that the worker had reported success.
const OWN_CODES: &str = "OUTPUT_";

/// What a report says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportKind {
    Completed,
    Failed,
    Skipped,
}

impl ReportKind {
    pub(super) fn of(outcome: &TaskOutcome) -> Self {
        match outcome {
            TaskOutcome::Succeeded { .. } => Self::Completed,
            // A worker says this, or the edge for it, of an output that is too large to be sent.
            TaskOutcome::Failed(error) if error.code.starts_with(OWN_CODES) => Self::Completed,
            TaskOutcome::Failed(_) => Self::Failed,
            TaskOutcome::Skipped => Self::Skipped,
        }
    }

    /// Whether an attempt that a report of the same lease ended so was reported as something else.
    /// Details are not compared: the log has them cleaned and cut.
    pub(super) fn contradicts(self, recorded: &AttemptEnded) -> bool {
        match (&recorded.result, self) {
            (AttemptResult::Succeeded(_), kind) => kind != Self::Completed,
            (AttemptResult::Skipped {}, kind) => kind != Self::Skipped,
            (AttemptResult::Failed(error) | AttemptResult::Retrying { error, .. }, kind) => {
                match kind {
                    Self::Completed => !recorded.completed && !is_own(error),
                    Self::Failed => recorded.completed,
                    Self::Skipped => true,
                }
            }
            (AttemptResult::Stopped {}, _) => false,
        }
    }
}

/// Whether the engine made the error of an output; true where the error is not at hand.
fn is_own(error: &Stored) -> bool {
    let Stored::Inline(text) = error else {
        return true;
    };
    let error: serde_json::Value = serde_json::from_str(text.get()).unwrap_or_default();
    let code = error["code"].as_str();
    code.is_none_or(|code| code.starts_with(OWN_CODES))
}
