//! Work that is no action, in short: timers, signals, child runs.

use std::time::Duration;

use serde::Serialize;
use windlass_core::definition::{Delay, Isolation, Subworkflow, WaitForSignal};

use crate::retry::milliseconds;

/// A durable timer.
pub fn delay(duration: Duration) -> Delay {
    Delay {
        ms: Some(milliseconds(duration)),
        until: None,
    }
}

/// A wait for a person or another system; at most so long, if a time is given.
pub fn wait_for_signal(name: impl Into<Box<str>>, timeout: Option<Duration>) -> WaitForSignal {
    WaitForSignal {
        name: name.into(),
        timeout_ms: timeout.map(milliseconds),
        schema: None,
    }
}

/// A child run of another workflow, with a template of its trigger.
///
/// # Errors
/// The input cannot be written as JSON.
pub fn subworkflow(
    workflow: impl Into<Box<str>>,
    input: impl Serialize,
) -> Result<Subworkflow, serde_json::Error> {
    Ok(Subworkflow {
        workflow_id: workflow.into(),
        version: None,
        input: serde_json::value::to_raw_value(&input)?,
        output: None,
        isolation: Isolation::Isolated,
    })
}
