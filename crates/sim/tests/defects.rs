//! The oracle can fail: each seeded defect is noticed, and without one nothing is.

use windlass_sim::{Defect, Options, WorkloadKind, run_seed};

/// What the oracle says of the first seed that shows the defect.
fn caught(defect: Defect) -> Option<String> {
    (0..1_000).find_map(|seed| {
        let options = Options {
            kind: defect.kind(),
            trace: false,
            defect: Some(defect),
        };
        run_seed(seed, options).violation
    })
}

fn check(defect: Defect, expected: &str) {
    let violation = caught(defect).unwrap_or_default();
    assert!(
        violation.contains(expected),
        "{defect:?} gave {violation:?}, not {expected:?}"
    );
}

#[test]
fn an_answer_before_the_record_is_durable_is_caught() {
    check(Defect::AnswerBeforeDurable, "is answered");
}

#[test]
fn a_missing_fence_is_caught() {
    assert!(caught(Defect::NoFence).is_some());
}

#[test]
fn a_lost_answered_append_is_caught() {
    check(Defect::LoseAnswered, "is answered");
}

#[test]
fn a_dispatch_before_its_record_is_durable_is_caught() {
    check(Defect::DispatchBeforeDurable, "dispatch of attempt");
}

#[test]
fn a_repeated_outcome_is_caught() {
    check(Defect::RepeatOutcome, "has two outcomes");
}

#[test]
fn an_early_timer_is_caught() {
    assert!(caught(Defect::ClockAhead).is_some());
}

#[test]
fn a_row_that_differs_from_the_log_is_caught() {
    check(Defect::SkipRow, "the row is");
}

#[test]
fn an_invented_outcome_is_caught() {
    check(Defect::InventOutcome, "no worker had");
}

#[test]
fn a_claim_won_twice_is_caught() {
    check(Defect::NoClaims, "has 2 runs");
}

#[test]
fn a_second_dispatch_is_caught() {
    check(Defect::DispatchTwice, "a second time");
}

#[test]
fn a_run_that_never_ends_is_caught() {
    check(Defect::DropResults, "it never ended");
}

#[test]
fn every_defect_has_a_seed_that_shows_it() {
    for defect in Defect::ALL {
        assert!(caught(defect).is_some(), "{defect:?} goes unnoticed");
    }
}

#[test]
fn a_child_that_is_started_again_is_caught() {
    check(Defect::ChildAgain, "begins a second time");
}

#[test]
fn a_forgotten_end_of_a_child_is_caught() {
    check(Defect::ForgetChildEnd, "it never ended");
}

#[test]
fn a_timer_that_fires_twice_is_caught() {
    check(Defect::TimerTwice, "has two outcomes");
}

#[test]
fn a_lost_signal_is_caught() {
    assert!(caught(Defect::LoseSignal).is_some());
}

#[test]
fn a_run_that_is_not_woken_is_caught() {
    check(Defect::LoseWake, "it never ended");
}

#[test]
fn ends_in_the_wrong_order_are_caught() {
    assert!(caught(Defect::SwapEnds).is_some());
}

#[test]
fn undoing_before_its_turn_is_caught() {
    check(Defect::UndoEarly, "dispatch of attempt");
}

#[test]
fn a_child_that_is_not_told_to_end_is_caught() {
    check(Defect::LoseChildCancel, "its parent has ended");
}

#[test]
fn a_missing_fence_between_owners_is_caught() {
    let expected = "writes after its successor has written";
    let options = Options {
        kind: WorkloadKind::Owners,
        trace: false,
        defect: Some(Defect::NoFence),
    };
    let mut violations = (0..1_000).filter_map(|seed| run_seed(seed, options).violation);
    assert!(violations.any(|violation| violation.contains(expected)));
}

#[test]
fn resting_on_wake_ups_alone_is_caught() {
    check(Defect::RestOnWakeUps, "it never ended");
}

#[test]
fn a_hand_over_that_keeps_appending_is_caught() {
    check(Defect::HandOverAppends, "appends to a run, but partition");
}

#[test]
fn a_process_that_outlives_its_lease_is_caught() {
    check(Defect::IgnoreLease, "but partition");
}

#[test]
fn a_late_commit_that_is_taken_as_not_written_is_caught() {
    check(Defect::LateCommitDenied, "answered as not written");
}

#[test]
fn places_and_slots_that_are_released_after_the_append_are_caught() {
    assert!(shows(Defect::ReleaseLater, "is never freed"));
    assert!(shows(Defect::ReleaseLater, "it never ended"));
}

#[test]
fn slots_that_a_doubled_wake_up_takes_twice_are_caught() {
    assert!(shows(Defect::TakeTwice, "are never freed"));
}

#[test]
fn a_limit_that_each_process_counts_for_itself_is_caught() {
    check(Defect::LimitPerProcess, "at a gate with limit");
}

#[test]
fn a_gate_that_is_counted_without_a_lock_is_caught() {
    check(Defect::CountUnlocked, "at a gate with limit");
}

#[test]
fn a_gate_that_is_released_twice_is_caught() {
    check(Defect::ReleaseTwice, "at a gate with limit");
}

/// Whether some seed shows a defect in this way.
fn shows(defect: Defect, expected: &str) -> bool {
    let options = Options {
        kind: defect.kind(),
        trace: false,
        defect: Some(defect),
    };
    let mut violations = (0..1_000).filter_map(|seed| run_seed(seed, options).violation);
    violations.any(|violation| violation.contains(expected))
}

#[test]
fn a_repeated_command_that_is_carried_out_twice_is_caught() {
    assert!(shows(Defect::RepeatCommand, "is carried out twice"));
}

#[test]
fn success_that_is_answered_on_the_offer_is_caught() {
    check(Defect::AnswerOnOffer, "is answered but not durable");
}

#[test]
fn an_offer_that_its_record_does_not_consume_is_caught() {
    assert!(shows(Defect::KeepOffer, "is carried out twice"));
}
