//! Rounds of a fuzz test: a short fixed one in the ordinary tests, and for a given time where
//! `WINDLASS_FUZZ_SECONDS` says so (`cargo xtask fuzz`). What failed once is kept beside the
//! sources and tried first.

#![allow(
    clippy::disallowed_methods,
    reason = "the time that a round may take comes from outside"
)]

use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};

/// Tries values until the round, or the time, is over.
pub fn rounds<S: Strategy>(
    source: &'static str,
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> TestCaseResult,
) {
    let seconds = std::env::var("WINDLASS_FUZZ_SECONDS").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    let config = Config {
        cases,
        ..Config::with_source_file(source)
    };
    let fixed = || TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = match seconds {
        None => TestRunner::new_with_rng(config.clone(), fixed()),
        Some(_) => TestRunner::new(config.clone()),
    };
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    loop {
        if let Err(error) = runner.run(strategy, &test) {
            panic!("{error}\n{runner}");
        }
        if until.is_none_or(|until| Instant::now() >= until) {
            return;
        }
        runner = TestRunner::new(config.clone());
    }
}
