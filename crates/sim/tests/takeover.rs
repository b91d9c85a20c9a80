//! A waiting run is recovered. The process that executed it before may not know: an attempt
//! that waits for its time is handed out then, without a record that the store could refuse.

use windlass_core::command::RunCommand;
use windlass_orchestrator::Begin;
use windlass_sim::harness::{ShardHarness, retriable, success};

const RETRIED: &str = r#"{"id":"w","nodes":[{"id":"a","actionType":"act",
    "policies":{"retry":{"maxAttempts":5,"baseDelayMs":500,"jitter":false}}}]}"#;

/// Its second attempt waits for its time.
fn waiting() -> ShardHarness {
    let mut harness = ShardHarness::new(RETRIED);
    harness.start(Begin::Now);
    harness.settle();
    harness.end("a", 1, retriable());
    harness.settle();
    harness.effects();
    assert!(harness.store.row(harness.run).is_some_and(|row| row.asleep));
    harness
}

/// The run is cancelled, and its node tried again by hand: what is handed out.
fn tried_again(harness: &mut ShardHarness) -> Vec<String> {
    harness.command(RunCommand::Cancel { compensate: false });
    harness.command(RunCommand::Reattempt { nodes: Vec::new() });
    harness.settle();
    let mut effects = harness.effects();
    effects.retain(|effect| effect.starts_with("dispatch"));
    effects
}

#[test]
fn an_attempt_that_another_process_may_hand_out_keeps_its_number() {
    let mut harness = waiting();
    let second = harness.replay().0.idempotency_key(0);
    harness.wake(false);
    assert_eq!(tried_again(&mut harness), ["dispatch a#3"]);
    let third = harness.replay().0.idempotency_key(0);
    assert_eq!(third, format!("{second}/3"));
}

#[test]
fn an_attempt_that_nobody_may_hand_out_does_not_use_its_number_up() {
    let mut harness = waiting();
    harness.wake(true);
    assert_eq!(tried_again(&mut harness), ["dispatch a#2"]);
}

#[test]
fn whoever_takes_a_waiting_run_over_hands_the_attempt_out_at_its_time() {
    for wrote_last in [false, true] {
        let mut harness = waiting();
        harness.wake(wrote_last);
        harness.settle();
        assert!(harness.effects().is_empty());
        harness.pass(500);
        harness.settle();
        assert_eq!(harness.effects(), ["dispatch a#2"], "{wrote_last}");
    }
}

/// A timer ends with a record, which the store refuses from a process that is late.
#[test]
fn a_run_that_waits_for_no_attempt_is_taken_over_without_a_record() {
    let delay = r#"{"id":"w","nodes":[{"id":"a","delay":{"ms":60000}}]}"#;
    let mut harness = ShardHarness::new(delay);
    harness.start(Begin::Now);
    harness.settle();
    let before = harness.replay().1;
    harness.wake(false);
    harness.settle();
    assert_eq!(harness.replay().1, before);
}

/// The second attempt had ended, but its result could not be stored.
#[test]
fn an_attempt_whose_end_could_not_be_stored_keeps_its_number() {
    let mut harness = waiting();
    harness.pass(500);
    assert_eq!(harness.effects(), ["dispatch a#2"]);
    harness.end("a", 2, success());
    harness.fail_append();
    let effects = harness.effects();
    assert!(effects[0].starts_with("Broken"), "{effects:?}");
    // The last record is this process's own, and says that the run only waits.
    harness.acquire_sleeper(true);
    assert_eq!(tried_again(&mut harness), ["dispatch a#3"]);
}
