//! How many requests a run remembers (semantics §12.5). What a request that comes again leads
//! to is in `fixtures/requests.txt`.

use windlass_core::Digest;
use windlass_core::command::RunCommand;
use windlass_core::event::{Actor, RequestKey};
use windlass_core::run::{Input, KEPT_ANSWERS};

use windlass_test_support::fixture::notation;
use windlass_test_support::harness::{Harness, digest};

/// The request of this number: a run is paused and resumed in turns.
fn request(number: usize) -> RequestKey {
    RequestKey {
        key: format!("k{number}").into(),
        command: Digest::of(if number.is_multiple_of(2) {
            b"pause"
        } else {
            b"resume"
        }),
    }
}

fn input(number: usize) -> Input {
    let actor = Actor {
        request: Some(Box::new(request(number))),
        ..Actor::default()
    };
    match number.is_multiple_of(2) {
        true => Input::command(RunCommand::Pause, actor),
        false => Input::command(RunCommand::Resume, actor),
    }
}

#[test]
fn a_run_remembers_its_last_256_requests() {
    assert_eq!(KEPT_ANSWERS, 256);
    let mut harness = Harness::new(&notation::definition(&["a -> b"]), "null");
    harness.give(&Input::Begin).expect("it begins");
    for number in 0..KEPT_ANSWERS {
        harness.give(&input(number)).expect("a new request");
    }
    let first = |harness: &Harness| harness.run.answer_to(&request(0)).map(|it| it.cloned());
    assert!(first(&harness).expect("the same command").is_some());
    harness.give(&input(KEPT_ANSWERS)).expect("a new request");
    assert_eq!(first(&harness), Ok(None), "the oldest key is forgotten");
    assert_eq!(harness.run.answered().count(), KEPT_ANSWERS);
    for number in 1..=KEPT_ANSWERS {
        let steps = harness.give(&input(number)).expect("the same command");
        assert!(steps.is_empty(), "request {number} is carried out again");
    }
    assert_eq!(digest(&harness.replayed()), digest(&harness.run));
}
