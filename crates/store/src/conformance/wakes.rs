//! Wake-ups: hints, each once until it is heard. That a bell is heard at all is more than the
//! contract promises; a backend that loses bells now and then runs these checks without loss.

use std::task::{Context, Waker};

use super::run_id;
use crate::{Bell, Listener, Partition, Wakes, block_on};

/// Runs every check of this file.
pub fn all<S: Wakes>(open: &dyn Fn() -> S) {
    every_listener_hears_a_bell(&open());
    bells_are_kept_and_coalesced(&open());
    what_was_rung_before_is_not_heard(&open());
    a_listener_that_is_gone_holds_up_no_ring(&open());
}

fn listen<S: Wakes>(store: &S) -> Box<dyn Listener> {
    block_on(store.listen()).unwrap()
}

fn every_listener_hears_a_bell<S: Wakes>(store: &S) {
    let (mut a, mut b) = (listen(store), listen(store));
    block_on(store.ring(&[Bell::Sessions])).unwrap();
    assert_eq!(block_on(a.hear()).unwrap(), [Bell::Sessions]);
    assert_eq!(block_on(b.hear()).unwrap(), [Bell::Sessions]);
}

fn bells_are_kept_and_coalesced<S: Wakes>(store: &S) {
    let mut listener = listen(store);
    let bells = [
        Bell::Work,
        Bell::Run(run_id(1)),
        Bell::Partition(Partition(3)),
        Bell::Watch(Partition(3), run_id(1)),
        Bell::Offered(Partition(3), run_id(1)),
    ];
    block_on(store.ring(&bells)).unwrap();
    block_on(store.ring(&bells)).unwrap();
    let mut heard = Vec::new();
    while heard.len() < bells.len() {
        heard.extend(block_on(listener.hear()).unwrap());
    }
    let mut expected = bells.to_vec();
    expected.sort_unstable();
    heard.sort_unstable();
    assert_eq!(heard, expected, "each once");
}

fn what_was_rung_before_is_not_heard<S: Wakes>(store: &S) {
    block_on(store.ring(&[Bell::Definitions])).unwrap();
    let mut listener = listen(store);
    {
        let mut hearing = listener.hear();
        let mut context = Context::from_waker(Waker::noop());
        assert!(hearing.as_mut().poll(&mut context).is_pending());
        // Dropping the future loses nothing.
    }
    block_on(store.ring(&[Bell::Work])).unwrap();
    assert_eq!(block_on(listener.hear()).unwrap(), [Bell::Work]);
}

fn a_listener_that_is_gone_holds_up_no_ring<S: Wakes>(store: &S) {
    drop(listen(store));
    let mut listener = listen(store);
    block_on(store.ring(&[Bell::Work])).unwrap();
    assert_eq!(block_on(listener.hear()).unwrap(), [Bell::Work]);
}
