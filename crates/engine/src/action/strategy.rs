//! Retry strategies of the application's own: pure functions of the attempt and its error, which
//! run where the attempt ran. The delay goes with the outcome into the record, so no other
//! process asks the function again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::run::Dispatch;

use super::ActionError;
use crate::view::without_iterations;

/// How long to wait after this attempt, numbered from 1, failed with this error.
pub type RetryStrategy = Arc<dyn Fn(u32, &ActionError) -> Duration + Send + Sync>;

/// Strategies by workflow and node.
#[derive(Clone, Default)]
pub struct RetryStrategies(BTreeMap<(Box<str>, Box<str>), RetryStrategy>);

impl RetryStrategies {
    /// Adds the strategy of a node, which is named by its path without iterations.
    pub fn insert(&mut self, workflow: &str, node: &str, strategy: RetryStrategy) {
        self.0.insert((workflow.into(), node.into()), strategy);
    }

    /// Sets the delay that follows a failed attempt, if its node has a strategy here.
    pub(crate) fn apply(&self, dispatch: &Dispatch, error: &mut ActionError) {
        if self.0.is_empty() || dispatch.undo || !error.retriable {
            return;
        }
        let node = without_iterations(&dispatch.path);
        let key = (Box::from(&*dispatch.workflow), Box::from(&*node));
        if let Some(strategy) = self.0.get(&key) {
            let delay = strategy(dispatch.attempt, error).as_millis();
            error.retry_delay_ms = Some(u64::try_from(delay).unwrap_or(u64::MAX));
        }
    }
}
