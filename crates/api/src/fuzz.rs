//! Hostile tokens and signatures, for tests alone: a short round that is the same every time,
//! or as many seconds of new ones as `WINDLASS_FUZZ_SECONDS` says.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Cases of a short round.
const CASES: u32 = 256;

/// Tries a property.
pub(crate) fn rounds<S: Strategy>(strategy: &S, property: impl Fn(S::Value)) {
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let attempt = |value| {
        property(value);
        Ok(())
    };
    let seconds = std::env::var("WINDLASS_FUZZ_SECONDS").ok();
    let Some(seconds) = seconds.and_then(|text| text.parse().ok()) else {
        let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(config, random);
        runner.run(strategy, attempt).expect("the property holds");
        return;
    };
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        let mut runner = TestRunner::new(config.clone());
        runner.run(strategy, attempt).expect("the property holds");
    }
}

/// A change of a text.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Another character there.
    Put(usize, char),
    Insert(usize, char),
    Remove(usize),
    /// What begins there is swapped with what comes before.
    Turn(usize),
    /// It ends there.
    Cut(usize),
    /// It comes twice.
    Twice,
}

/// Some changes of a text, one after the other.
pub(crate) fn changes() -> impl Strategy<Value = Vec<Change>> {
    let known = "ABCXYZabcxyz0129-_=.,+/ \0é\u{202e}{}\":[]tv";
    let character = prop_oneof![
        proptest::sample::select(known.chars().collect::<Vec<_>>()),
        any::<char>(),
    ];
    let at = any::<prop::sample::Index>().prop_map(|at| at.index(1 << 16));
    let change = prop_oneof![
        4 => (at.clone(), character.clone()).prop_map(|(at, it)| Change::Put(at, it)),
        2 => (at.clone(), character).prop_map(|(at, it)| Change::Insert(at, it)),
        2 => at.clone().prop_map(Change::Remove),
        1 => at.clone().prop_map(Change::Turn),
        1 => at.prop_map(Change::Cut),
        1 => Just(Change::Twice),
    ];
    proptest::collection::vec(change, 0..4)
}

/// The text with the changes.
pub(crate) fn changed(text: &str, changes: &[Change]) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for change in changes {
        let length = text.len().max(1);
        match *change {
            Change::Put(at, it) if !text.is_empty() => text[at % length] = it,
            Change::Insert(at, it) => text.insert(at % length.min(text.len() + 1), it),
            Change::Remove(at) if !text.is_empty() => drop(text.remove(at % length)),
            Change::Turn(at) => {
                let middle = at % length.min(text.len() + 1);
                text.rotate_left(middle);
            }
            Change::Cut(at) => text.truncate(at % length),
            Change::Twice if text.len() < 4096 => text.extend_from_within(..),
            Change::Put(..) | Change::Remove(_) | Change::Twice => {}
        }
    }
    text.into_iter().collect()
}
