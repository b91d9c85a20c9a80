//! What a configuration gives where a definition says nothing: timeouts and a retry
//! (semantics §5). They are written into a run when it starts, so that a run keeps the defaults
//! that it started with, whichever process executes it. It must not know where a configuration
//! comes from.

use serde::{Deserialize, Serialize};

use crate::definition::Retry;

/// Timeouts and a retry for definitions that name none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Defaults {
    /// The time of an attempt of an action or a compensation, instead of five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_timeout_ms: Option<u64>,
    /// The time of the whole run, instead of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
    /// How attempts of actions, subworkflows and compensations are repeated, instead of never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// Its only fraction is a retry's factor, which is read from JSON and so is a number.
impl Eq for Defaults {}

impl Defaults {
    /// The defaults, unless they say nothing.
    pub fn some(&self) -> Option<Box<Self>> {
        (*self != Self::default()).then(|| Box::new(self.clone()))
    }
}
