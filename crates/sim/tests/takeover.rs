//! A waiting run is taken over. The process that carried it before may not know: an attempt
//! that waits for its time is handed out then, without a record that the store could refuse.

use windlass_core::command::RunCommand;
use windlass_orchestrator::Begin;
use windlass_sim::bench::{Bench, retriable, success};

const RETRIED: &str = r#"{"id":"w","nodes":[{"id":"a","actionType":"act",
    "policies":{"retry":{"maxAttempts":5,"baseDelayMs":500,"jitter":false}}}]}"#;

/// Its second attempt waits for its time.
fn waiting() -> Bench {
    let mut bench = Bench::new(RETRIED);
    bench.start(Begin::Now);
    bench.settle();
    bench.end("a", 1, retriable());
    bench.settle();
    bench.effects();
    assert!(bench.store.row(bench.run).is_some_and(|row| row.asleep));
    bench
}

/// The run is cancelled, and its node tried again by hand: what is handed out.
fn tried_again(bench: &mut Bench) -> Vec<String> {
    bench.command(RunCommand::Cancel { compensate: false });
    bench.command(RunCommand::Reattempt { nodes: Vec::new() });
    bench.settle();
    let mut effects = bench.effects();
    effects.retain(|effect| effect.starts_with("dispatch"));
    effects
}

#[test]
fn an_attempt_that_another_process_may_hand_out_keeps_its_number() {
    let mut bench = waiting();
    let second = bench.replay().0.idempotency_key(0);
    bench.wake(false);
    assert_eq!(tried_again(&mut bench), ["dispatch a#3"]);
    let third = bench.replay().0.idempotency_key(0);
    assert_eq!(third, format!("{second}/3"));
}

#[test]
fn an_attempt_that_nobody_may_hand_out_does_not_use_its_number_up() {
    let mut bench = waiting();
    bench.wake(true);
    assert_eq!(tried_again(&mut bench), ["dispatch a#2"]);
}

#[test]
fn whoever_takes_a_waiting_run_over_hands_the_attempt_out_at_its_time() {
    for wrote_last in [false, true] {
        let mut bench = waiting();
        bench.wake(wrote_last);
        bench.settle();
        assert!(bench.effects().is_empty());
        bench.pass(500);
        bench.settle();
        assert_eq!(bench.effects(), ["dispatch a#2"], "{wrote_last}");
    }
}

/// A timer ends with a record, which the store refuses from a process that is late.
#[test]
fn a_run_that_waits_for_no_attempt_is_taken_over_without_a_record() {
    let delay = r#"{"id":"w","nodes":[{"id":"a","delay":{"ms":60000}}]}"#;
    let mut bench = Bench::new(delay);
    bench.start(Begin::Now);
    bench.settle();
    let before = bench.replay().1;
    bench.wake(false);
    bench.settle();
    assert_eq!(bench.replay().1, before);
}

/// The second attempt had ended, but its result could not be stored.
#[test]
fn an_attempt_whose_end_could_not_be_stored_keeps_its_number() {
    let mut bench = waiting();
    bench.pass(500);
    assert_eq!(bench.effects(), ["dispatch a#2"]);
    bench.end("a", 2, success());
    bench.fail_append();
    let effects = bench.effects();
    assert!(effects[0].starts_with("Broken"), "{effects:?}");
    // The last record is this process's own, and says that the run only waits.
    bench.acquire_sleeper(true);
    assert_eq!(tried_again(&mut bench), ["dispatch a#3"]);
}
