//! How often and how soon an attempt is repeated, said in words.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::definition;
use windlass_engine::{ActionError, RetryStrategy};

/// How often and how soon an attempt is repeated. A plain number means that many attempts.
///
/// ```
/// use std::time::Duration;
/// use windlass::Retry;
///
/// let retry = Retry::attempts(5).base(Duration::from_millis(200)).without_jitter();
/// assert_eq!(retry.definition().max_attempts, 5);
/// ```
#[derive(Clone)]
pub struct Retry(definition::Retry, Option<RetryStrategy>);

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("Retry");
        tuple.field(&self.0);
        if self.1.is_some() {
            tuple.field(&"a strategy in code");
        }
        tuple.finish()
    }
}

impl PartialEq for Retry {
    fn eq(&self, other: &Self) -> bool {
        let same_strategy = match (&self.1, &other.1) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same_strategy && self.0 == other.0
    }
}

impl Retry {
    /// This many attempts, the first included: 2 s before the second, doubling up to
    /// 5 minutes, each delay multiplied by a random number between 0 and 1.
    pub fn attempts(attempts: u32) -> Self {
        let retry = definition::Retry {
            max_attempts: attempts,
            strategy: definition::RetryStrategy::Exponential,
            base_delay_ms: 2000,
            backoff_factor: 2.0,
            max_delay_ms: 300_000,
            jitter: true,
        };
        Self(retry, None)
    }

    /// The delay before the second attempt.
    #[must_use]
    pub fn base(mut self, delay: Duration) -> Self {
        self.0.base_delay_ms = milliseconds(delay);
        self
    }

    /// What the delay is multiplied by each time; at least 1.
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Self {
        self.0.backoff_factor = factor;
        self
    }

    /// The longest delay.
    #[must_use]
    pub fn at_most(mut self, delay: Duration) -> Self {
        self.0.max_delay_ms = milliseconds(delay);
        self
    }

    /// Always the same delay.
    #[must_use]
    pub fn every(mut self, delay: Duration) -> Self {
        self.0.strategy = definition::RetryStrategy::Fixed;
        self.base(delay)
    }

    /// Delays that grow by the same step: `step` after the first attempt, twice as much after
    /// the second, and so on.
    #[must_use]
    pub fn linear(mut self, step: Duration) -> Self {
        self.0.strategy = definition::RetryStrategy::Linear;
        self.base(step)
    }

    /// A strategy of your own: how long to wait after an attempt, numbered from 1, has failed with
    /// an error. It is a pure function: it runs once, where the attempt ran, and the delay is
    /// recorded with the outcome. The longest delay still holds; there is no jitter.
    ///
    /// A process that is opened without the workflow has no such function, and follows what else
    /// this retry says.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{ActionError, Retry};
    ///
    /// let patient = Retry::attempts(4).custom(|attempt, error: &ActionError| {
    ///     match &*error.code {
    ///         "BUSY" => Duration::from_millis(50 * u64::from(attempt)),
    ///         _ => Duration::from_secs(30),
    ///     }
    /// });
    /// # let _ = patient;
    /// ```
    #[must_use]
    pub fn custom(
        mut self,
        delay: impl Fn(u32, &ActionError) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.1 = Some(Arc::new(delay));
        self
    }

    /// The delays as they are, with no random number.
    #[must_use]
    pub fn without_jitter(mut self) -> Self {
        self.0.jitter = false;
        self
    }

    /// As the definition has it.
    pub fn definition(&self) -> &definition::Retry {
        &self.0
    }

    pub(crate) fn into_definition(self) -> definition::Retry {
        self.0
    }

    pub(crate) fn strategy(&self) -> Option<&RetryStrategy> {
        self.1.as_ref()
    }
}

impl From<u32> for Retry {
    fn from(attempts: u32) -> Self {
        Self::attempts(attempts)
    }
}

impl From<definition::Retry> for Retry {
    fn from(retry: definition::Retry) -> Self {
        Self(retry, None)
    }
}

/// A duration as definitions have it.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_definitions() {
        let read: definition::Retry =
            serde_json::from_str(r#"{"maxAttempts":4}"#).expect("a retry");
        assert_eq!(Retry::from(4).into_definition(), read);
    }

    #[test]
    fn words_become_numbers() {
        let retry = Retry::attempts(3)
            .factor(1.5)
            .at_most(Duration::from_secs(9))
            .every(Duration::from_secs(1))
            .without_jitter()
            .into_definition();
        assert_eq!(retry.strategy, definition::RetryStrategy::Fixed);
        assert_eq!((retry.base_delay_ms, retry.max_delay_ms), (1000, 9000));
        assert!((retry.backoff_factor - 1.5).abs() < f64::EPSILON);
        assert!(!retry.jitter);
        let retry = Retry::attempts(3).linear(Duration::from_secs(2));
        let retry = retry.into_definition();
        assert_eq!(retry.strategy, definition::RetryStrategy::Linear);
        assert_eq!(retry.base_delay_ms, 2000);
    }
}
