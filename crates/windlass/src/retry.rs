//! How often and how soon an attempt is repeated, said in words.

use std::time::Duration;

use windlass_core::definition;

/// How often and how soon an attempt is repeated. A plain number means that many attempts.
///
/// ```
/// use std::time::Duration;
/// use windlass::Retry;
///
/// let retry = Retry::attempts(5).base(Duration::from_millis(200)).without_jitter();
/// assert_eq!(retry.definition().max_attempts, 5);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Retry(definition::Retry);

impl Retry {
    /// This many attempts, the first included: 2 s before the second, doubling up to
    /// 5 minutes, each delay multiplied by a random number between 0 and 1.
    pub fn attempts(attempts: u32) -> Self {
        Self(definition::Retry {
            max_attempts: attempts,
            strategy: definition::RetryStrategy::Exponential,
            base_delay_ms: 2000,
            backoff_factor: 2.0,
            max_delay_ms: 300_000,
            jitter: true,
        })
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
}

impl From<u32> for Retry {
    fn from(attempts: u32) -> Self {
        Self::attempts(attempts)
    }
}

impl From<definition::Retry> for Retry {
    fn from(retry: definition::Retry) -> Self {
        Self(retry)
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
