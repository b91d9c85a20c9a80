//! Mocks of actions, and the calls that they got.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use windlass_engine::{Action, ActionError, Context, Reply};

/// One call of a mocked action.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The node that called.
    pub node: String,
    /// Its attempt.
    pub attempt: u32,
    /// The parameters of the call.
    pub parameters: Value,
    /// The idempotency key of the call.
    pub idempotency_key: String,
}

/// The calls of all mocks so far.
#[derive(Clone, Default)]
pub(super) struct Calls(Arc<Mutex<Vec<Recorded>>>);

/// The action's name, and the call.
type Recorded = (Box<str>, Call);

impl Calls {
    pub(super) fn of(&self, action: &str) -> Vec<Call> {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls
            .iter()
            .filter(|(name, _)| **name == *action)
            .map(|(_, call)| call.clone())
            .collect()
    }

    fn push(&self, action: &str, call: Call) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push((action.into(), call));
    }
}

/// A function in the place of an action.
pub(super) struct Mock<F> {
    name: Box<str>,
    answer: F,
    calls: Calls,
}

impl<F> Mock<F> {
    pub(super) fn new(name: Box<str>, answer: F, calls: Calls) -> Self {
        Self {
            name,
            answer,
            calls,
        }
    }
}

impl<F> Action for Mock<F>
where
    F: Fn(Value) -> Result<Value, ActionError> + Send + Sync + 'static,
{
    type Parameters = Value;
    type Output = Value;

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        "A mock."
    }

    async fn run(&self, context: Context, parameters: Value) -> Result<Reply<Value>, ActionError> {
        let call = Call {
            node: context.node.to_string(),
            attempt: context.attempt,
            parameters: parameters.clone(),
            idempotency_key: context.idempotency_key.clone(),
        };
        self.calls.push(&self.name, call);
        (self.answer)(parameters).map(Reply::new)
    }
}
