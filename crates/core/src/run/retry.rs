//! When a failed attempt is repeated, and how soon (semantics §5).

use crate::definition::{Retry, RetryStrategy};

/// Whether an attempt may follow. `made` counts the attempts of the present budget.
pub(crate) fn may_retry(retry: Option<&Retry>, made: u32) -> bool {
    retry.is_some_and(|retry| made < retry.max_attempts.max(1))
}

/// The wait before the next attempt. `fraction`, between 0 and 1, is the jitter.
pub(crate) fn delay_ms(
    retry: &Retry,
    made: u32,
    retry_after_ms: Option<u64>,
    fraction: f64,
) -> u64 {
    let base = retry.base_delay_ms as f64;
    let grown = match retry.strategy {
        RetryStrategy::Fixed => base,
        RetryStrategy::Linear => base * f64::from(made.max(1)),
        RetryStrategy::Exponential => {
            let exponent = i32::try_from(made.saturating_sub(1)).unwrap_or(i32::MAX);
            base * retry.backoff_factor.powi(exponent)
        }
    };
    let capped = grown.min(retry.max_delay_ms as f64).max(0.0);
    let delay = if retry.jitter {
        capped * fraction
    } else {
        capped
    };
    // The wait that a failure asks for is a lower bound, not a replacement: it does not shorten
    // the backoff of the policy.
    (delay as u64).max(retry_after_ms.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(json: &str) -> Retry {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_delay_grows_by_the_factor_and_is_capped() {
        let policy =
            retry(r#"{"maxAttempts": 9, "baseDelayMs": 100, "maxDelayMs": 700, "jitter": false}"#);
        let delays: Vec<u64> = (1..6)
            .map(|made| delay_ms(&policy, made, None, 1.0))
            .collect();
        assert_eq!(delays, [100, 200, 400, 700, 700]);
    }

    #[test]
    fn linear_grows_by_the_base_and_is_capped() {
        let policy = retry(
            r#"{"maxAttempts": 9, "strategy": "linear", "baseDelayMs": 100, "backoffFactor": 7, "maxDelayMs": 350, "jitter": false}"#,
        );
        let delays: Vec<u64> = (1..6)
            .map(|made| delay_ms(&policy, made, None, 1.0))
            .collect();
        assert_eq!(delays, [100, 200, 300, 350, 350]);
        let policy = retry(r#"{"maxAttempts": 9, "strategy": "linear", "baseDelayMs": 100}"#);
        assert_eq!(delay_ms(&policy, 3, None, 0.5), 150);
        assert_eq!(delay_ms(&policy, 3, Some(400), 0.5), 400);
    }

    /// A definition that was stored when a factor below 1 was allowed keeps its delays.
    #[test]
    fn a_stored_factor_below_one_is_applied_as_before() {
        let policy = retry(
            r#"{"maxAttempts": 9, "baseDelayMs": 100, "backoffFactor": 0.5, "jitter": false}"#,
        );
        assert_eq!(delay_ms(&policy, 3, None, 1.0), 25);
    }

    #[test]
    fn fixed_stays_and_jitter_scales() {
        let policy = retry(r#"{"maxAttempts": 9, "strategy": "fixed", "baseDelayMs": 100}"#);
        assert_eq!(delay_ms(&policy, 5, None, 0.25), 25);
        assert_eq!(delay_ms(&policy, 5, Some(60), 0.25), 60);
    }

    #[test]
    fn extreme_numbers_do_not_overflow() {
        let policy = retry(
            r#"{"maxAttempts": 4294967295, "baseDelayMs": 18446744073709551615, "backoffFactor": 1e300, "jitter": false}"#,
        );
        assert_eq!(delay_ms(&policy, u32::MAX, None, 1.0), 300_000);
    }

    #[test]
    fn max_attempts_counts_all_and_zero_means_one() {
        assert!(!may_retry(None, 1));
        assert!(!may_retry(Some(&retry(r#"{"maxAttempts": 0}"#)), 1));
        assert!(may_retry(Some(&retry(r#"{"maxAttempts": 2}"#)), 1));
        assert!(!may_retry(Some(&retry(r#"{"maxAttempts": 2}"#)), 2));
    }
}
