//! Outcomes of the queue, and the bells of what is offered and pushed. A backend that cannot settle
//! in one step says so and changes nothing; that is checked too.

use super::inbox::offer_of;
use super::work::{item, key, pull, push, wanted};
use crate::{
    Backend, Bell, ItemOutcome, LeasedItem, Partition, Pull, SettleAnswer, WorkKey, WorkLease,
    block_on,
};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    a_settled_outcome_is_offered_and_its_item_is_gone(&open());
    a_worker_that_lost_its_item_settles_nothing(&open());
    an_item_that_the_queue_lost_does_not_stand_in_the_way(&open());
    what_is_pushed_and_offered_is_heard(&open());
}

fn outcome(leased: &LeasedItem, worker: &str) -> ItemOutcome {
    let key = leased.item.key;
    ItemOutcome {
        offer: offer_of(key.run, &format!("outcome/{}", leased.lease.0), b"done"),
        key,
        worker: worker.into(),
        lease: leased.lease,
    }
}

fn settle<S: Backend>(store: &S, outcome: ItemOutcome) -> SettleAnswer {
    block_on(store.settle(outcome)).unwrap()
}

/// What waits for the run of an item, by key.
fn offered<S: Backend>(store: &S, of: WorkKey) -> Vec<Box<str>> {
    let waiting = block_on(store.inbox(of.run)).unwrap();
    waiting.into_iter().map(|item| item.key).collect()
}

fn is_queued<S: Backend>(store: &S, of: WorkKey) -> bool {
    !block_on(store.known(&[of])).unwrap().is_empty()
}

fn a_settled_outcome_is_offered_and_its_item_is_gone<S: Backend>(store: &S) {
    push(store, [item(1), item(2)]);
    let leased = pull(store, wanted("w")).remove(0);
    let settled = outcome(&leased, "w");
    if settle(store, settled.clone()) == SettleAnswer::Apart {
        assert!(offered(store, key(1)).is_empty() && is_queued(store, key(1)));
        return;
    }
    assert_eq!(
        offered(store, key(1)),
        std::slice::from_ref(&settled.offer.key)
    );
    assert!(!is_queued(store, key(1)));
    assert!(is_queued(store, key(2)), "others stay");
    // The answer was lost: it is said again, and nothing is offered twice.
    assert_eq!(settle(store, settled), SettleAnswer::Offered);
    assert_eq!(offered(store, key(1)).len(), 1);
}

fn a_worker_that_lost_its_item_settles_nothing<S: Backend>(store: &S) {
    push(store, [item(1)]);
    let first = pull(store, wanted("w")).remove(0);
    block_on(store.return_item(None, key(1), first.lease)).unwrap();
    let second = pull(store, wanted("v")).remove(0);
    match settle(store, outcome(&first, "w")) {
        SettleAnswer::Apart => return,
        answer => assert_eq!(answer, SettleAnswer::Lost),
    }
    assert!(offered(store, key(1)).is_empty() && is_queued(store, key(1)));
    // Of the worker that has it, any lease counts: it is the same work.
    let again = Pull {
        holding: Some(Vec::new()),
        ..wanted("v")
    };
    assert_eq!(pull(store, again).len(), 1);
    assert_eq!(settle(store, outcome(&second, "v")), SettleAnswer::Offered);
    assert!(!is_queued(store, key(1)));
}

fn an_item_that_the_queue_lost_does_not_stand_in_the_way<S: Backend>(store: &S) {
    let lost = LeasedItem {
        item: item(1),
        lease: WorkLease(7),
        deliveries: 1,
        begun_ms: 0,
        run: None,
    };
    if settle(store, outcome(&lost, "w")) == SettleAnswer::Offered {
        assert_eq!(offered(store, key(1)).len(), 1);
    }
    // Put into the queue again, and had by no worker yet.
    push(store, [item(2)]);
    let waiting = LeasedItem {
        item: item(2),
        ..lost
    };
    if settle(store, outcome(&waiting, "w")) == SettleAnswer::Offered {
        assert!(!is_queued(store, key(2)));
    }
}

fn what_is_pushed_and_offered_is_heard<S: Backend>(store: &S) {
    let mut listener = block_on(store.listen()).unwrap();
    let mut hears = |bell: Bell| {
        while !block_on(listener.hear()).unwrap().contains(&bell) {}
    };
    push(store, [item(1)]);
    hears(Bell::Work);
    push(store, [item(2), item(3)]);
    hears(Bell::Work);
    let run = key(4).run;
    block_on(store.offer(vec![offer_of(run, "a", b"1")])).unwrap();
    hears(Bell::Offered(Partition(0), run));
    let (fifth, sixth) = (key(5).run, key(6).run);
    let offers = vec![offer_of(fifth, "a", b"1"), offer_of(sixth, "a", b"1")];
    block_on(store.offer(offers)).unwrap();
    hears(Bell::Offered(Partition(0), sixth));
    let leased = pull(store, wanted("w")).remove(0);
    let of = leased.item.key.run;
    if settle(store, outcome(&leased, "w")) == SettleAnswer::Offered {
        hears(Bell::Offered(Partition(0), of));
    }
}
