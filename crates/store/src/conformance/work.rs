//! The work queue: which worker gets which item, leases that fence, and tenants that are kept
//! apart. That an item is still there is more than the contract promises; these checks run
//! without loss.

use super::run_id;
use crate::{
    BegunItem, ItemState, LeaseAnswer, LeaseTerm, LeasedItem, Leases, ProcessInfo, Pull,
    QueueDepth, TenantFilter, WorkItem, WorkKey, WorkLease, WorkQueue, block_on,
};

/// Longer than any check takes.
const LONG: u64 = 600_000;

/// Runs every check that needs no time to pass.
pub fn all<S: WorkQueue + Leases>(open: &dyn Fn() -> S) {
    items_come_by_priority_then_age(&open());
    a_worker_gets_what_it_can_do(&open());
    slots_and_bytes_bound_a_pull(&open());
    an_item_is_pushed_once_and_leased_once(&open());
    only_the_current_lease_completes(&open());
    tenants_do_not_meet(&open());
    a_worker_for_all_tenants_gets_the_items_of_each(&open());
    the_depth_counts_what_waits_and_what_is_leased_by_kind(&open());
    an_item_that_a_worker_does_not_name_comes_again(&open());
    a_worker_for_all_tenants_gets_what_it_does_not_name_again(&open());
    a_stopped_item_is_removed_or_its_worker_told(&open());
    a_withdrawn_item_is_unknown(&open());
    a_returned_item_waits_at_its_old_place(&open());
    a_waiting_item_is_resumed_by_its_worker(&open());
    items_of_a_session_come_back_when_it_leaves(&open());
    an_item_that_was_begun_is_leased_from_the_first_moment(&open());
}

/// Runs every check of expiry; the second of a pair lets so many milliseconds pass.
pub fn expiry<S: WorkQueue + Leases, A: Fn(u64)>(open: &dyn Fn() -> (S, A)) {
    let (store, pass) = open();
    a_lease_that_runs_out_is_lost_and_a_renewed_one_is_not(&store, &pass);
    let (store, pass) = open();
    items_of_a_session_come_back_when_it_expires(&store, &pass);
    let (store, pass) = open();
    an_item_that_was_to_stop_is_not_handed_out_again(&store, &pass);
    let (store, pass) = open();
    an_item_that_waits_fences_all_but_its_last_worker(&store, &pass);
}

pub(super) fn key(n: u64) -> WorkKey {
    WorkKey {
        run: run_id(n),
        instance: 3,
        attempt: 1,
    }
}

pub(super) fn item(n: u64) -> WorkItem {
    WorkItem {
        key: key(n),
        tenant: None,
        action: "act".into(),
        requires: Vec::new(),
        priority: 5,
        payload: n.to_string().into_bytes(),
    }
}

pub(super) fn push<S: WorkQueue>(store: &S, items: impl IntoIterator<Item = WorkItem>) {
    block_on(store.push(items.into_iter().collect())).unwrap();
}

pub(super) fn wanted(worker: &str) -> Pull {
    Pull {
        worker: worker.into(),
        tenant: TenantFilter::Only(None),
        actions: vec!["act".into()],
        labels: Vec::new(),
        slots: 10,
        max_bytes: usize::MAX,
        term: LeaseTerm::Millis(LONG),
        holding: None,
    }
}

pub(super) fn pull<S: WorkQueue>(store: &S, pull: Pull) -> Vec<LeasedItem> {
    block_on(store.pull(pull)).unwrap()
}

fn keys(leased: &[LeasedItem]) -> Vec<WorkKey> {
    leased.iter().map(|leased| leased.item.key).collect()
}

fn renew<S: WorkQueue>(store: &S, leased: &LeasedItem) -> LeaseAnswer {
    let tenant = leased.item.tenant.as_deref();
    block_on(store.renew_item(tenant, leased.item.key, leased.lease)).unwrap()
}

fn complete<S: WorkQueue>(store: &S, leased: &LeasedItem) -> LeaseAnswer {
    let tenant = leased.item.tenant.as_deref();
    block_on(store.complete(tenant, leased.item.key, leased.lease)).unwrap()
}

/// What is known, as if it had been handed out just now.
fn without_times(mut known: Vec<(WorkKey, ItemState)>) -> Vec<(WorkKey, ItemState)> {
    for (_, state) in &mut known {
        if let ItemState::Leased { begun_ms, .. } = state {
            *begun_ms = 0;
        }
    }
    known
}

const HELD: LeaseAnswer = LeaseAnswer::Held { stop: false };

fn a_returned_item_waits_at_its_old_place<S: WorkQueue>(store: &S) {
    push(store, [item(1), item(2)]);
    let one = Pull {
        slots: 1,
        ..wanted("w")
    };
    let first = pull(store, one.clone()).remove(0);
    let back = |tenant, lease| block_on(store.return_item(tenant, key(1), lease)).unwrap();
    assert_eq!(back(Some("other"), first.lease), LeaseAnswer::Unknown);
    assert_eq!(back(None, WorkLease(u64::MAX)), LeaseAnswer::Lost);
    assert_eq!(back(None, first.lease), HELD);
    assert_eq!(back(None, first.lease), LeaseAnswer::Lost);
    let again = pull(store, one).remove(0);
    assert_eq!(again.item.key, key(1));
    assert!(again.lease != first.lease, "a lease is given once");
    assert_eq!(again.deliveries, 1, "what was returned was not delivered");
}

fn a_waiting_item_is_resumed_by_its_worker<S: WorkQueue>(store: &S) {
    let resume = |tenant, n| {
        let term = LeaseTerm::Millis(LONG);
        block_on(store.resume_item(tenant, key(n), "w", term)).unwrap()
    };
    assert_eq!(resume(None, 1), None, "there is none");
    push(store, [item(1)]);
    assert_eq!(resume(Some("other"), 1), None);
    let lease = resume(None, 1).expect("it waits");
    assert_eq!(resume(None, 1), None, "a worker has it");
    assert!(pull(store, wanted("v")).is_empty());
    assert_eq!(
        block_on(store.renew_item(None, key(1), lease)).unwrap(),
        HELD
    );
    assert_eq!(block_on(store.complete(None, key(1), lease)).unwrap(), HELD);
}

fn items_come_by_priority_then_age<S: WorkQueue>(store: &S) {
    let urgent = WorkItem {
        priority: 9,
        ..item(3)
    };
    push(store, [item(2), item(1), urgent]);
    let pulled = pull(store, wanted("w"));
    assert_eq!(keys(&pulled), [key(3), key(2), key(1)]);
    assert_eq!(pulled[1].item, item(2));
}

fn a_worker_gets_what_it_can_do<S: WorkQueue>(store: &S) {
    let other = WorkItem {
        action: "other".into(),
        ..item(1)
    };
    let special = WorkItem {
        requires: vec!["gpu".into(), "eu".into()],
        ..item(2)
    };
    push(store, [other, special, item(3)]);
    assert_eq!(keys(&pull(store, wanted("w"))), [key(3)]);
    let half = Pull {
        labels: vec!["gpu".into()],
        ..wanted("w")
    };
    assert!(pull(store, half).is_empty());
    let able = Pull {
        labels: vec!["eu".into(), "gpu".into(), "more".into()],
        actions: vec!["act".into(), "other".into(), "act".into()],
        ..wanted("w")
    };
    assert_eq!(keys(&pull(store, able)), [key(1), key(2)]);
}

fn slots_and_bytes_bound_a_pull<S: WorkQueue>(store: &S) {
    let large = |n| WorkItem {
        payload: vec![b'x'; 1_000],
        ..item(n)
    };
    push(store, (1..=5).map(large));
    let with = |slots, max_bytes| Pull {
        slots,
        max_bytes,
        ..wanted("w")
    };
    assert!(pull(store, with(0, 9_000)).is_empty());
    assert_eq!(keys(&pull(store, with(1, 9_000))), [key(1)]);
    assert_eq!(keys(&pull(store, with(9, 10))), [key(2)], "at least one");
    assert_eq!(keys(&pull(store, with(9, 2_000))), [key(3), key(4)]);
}

fn an_item_is_pushed_once_and_leased_once<S: WorkQueue>(store: &S) {
    assert!(block_on(store.known(&[key(1)])).unwrap().is_empty());
    push(store, [item(1)]);
    let changed = WorkItem {
        payload: b"another".to_vec(),
        ..item(1)
    };
    push(store, [changed]);
    let known = |keys: &[WorkKey]| block_on(store.known(keys)).unwrap();
    let waiting = ItemState::Waiting { last: None };
    assert_eq!(known(&[key(2), key(1)]), [(key(1), waiting)]);
    let pulled = pull(store, wanted("w"));
    assert_eq!(pulled[0].item, item(1), "the first push counts");
    assert_eq!(pulled[0].deliveries, 1);
    push(store, [item(1)]);
    assert!(pull(store, wanted("v")).is_empty(), "it is leased");
    let leased = ItemState::Leased {
        worker: "w".into(),
        lease: pulled[0].lease,
        stop: false,
        begun_ms: 0,
    };
    assert_eq!(without_times(known(&[key(1)])), [(key(1), leased)]);
}

fn only_the_current_lease_completes<S: WorkQueue>(store: &S) {
    push(store, [item(1)]);
    let first = pull(store, wanted("w")).remove(0);
    let again = Pull {
        holding: Some(Vec::new()),
        ..wanted("w")
    };
    let second = pull(store, again).remove(0);
    assert!(first.lease != second.lease);
    assert_eq!(renew(store, &first), LeaseAnswer::Lost);
    assert_eq!(complete(store, &first), LeaseAnswer::Lost);
    let forged = LeasedItem {
        lease: WorkLease(second.lease.0 + 1),
        ..second.clone()
    };
    assert_eq!(complete(store, &forged), LeaseAnswer::Lost);
    let mut other_attempt = second.clone();
    other_attempt.item.key.attempt += 1;
    assert_eq!(complete(store, &other_attempt), LeaseAnswer::Unknown);
    assert_eq!(complete(store, &second), HELD);
    assert_eq!(complete(store, &second), LeaseAnswer::Unknown);
    assert!(block_on(store.known(&[key(1)])).unwrap().is_empty());
}

fn tenants_do_not_meet<S: WorkQueue>(store: &S) {
    let of = |tenant: Option<&str>, n| WorkItem {
        tenant: tenant.map(Into::into),
        ..item(n)
    };
    push(store, [of(Some("a"), 1), of(Some("b"), 2), of(None, 3)]);
    let by = |tenant: Option<&str>| Pull {
        tenant: TenantFilter::Only(tenant.map(Into::into)),
        holding: Some(Vec::new()),
        ..wanted("w")
    };
    let a = pull(store, by(Some("a")));
    assert_eq!(keys(&a), [key(1)]);
    // A worker of the same name in another tenant is another worker.
    assert_eq!(keys(&pull(store, by(Some("b")))), [key(2)]);
    assert_eq!(keys(&pull(store, by(None))), [key(3)]);
    assert_eq!(renew(store, &a[0]), HELD);
    for tenant in [None, Some("b")] {
        let (key, lease) = (a[0].item.key, a[0].lease);
        let answer = block_on(store.renew_item(tenant, key, lease)).unwrap();
        assert_eq!(answer, LeaseAnswer::Unknown);
        let answer = block_on(store.complete(tenant, key, lease)).unwrap();
        assert_eq!(answer, LeaseAnswer::Unknown);
    }
    assert_eq!(complete(store, &a[0]), HELD);
}

fn a_worker_for_all_tenants_gets_the_items_of_each<S: WorkQueue>(store: &S) {
    let of = |tenant: Option<&str>, n| WorkItem {
        tenant: tenant.map(Into::into),
        ..item(n)
    };
    push(store, [of(Some("a"), 1), of(None, 2), of(Some("b"), 3)]);
    let any = Pull {
        tenant: TenantFilter::Any,
        slots: 2,
        ..wanted("w")
    };
    assert_eq!(keys(&pull(store, any.clone())), [key(1), key(2)], "by age");
    assert_eq!(keys(&pull(store, any)), [key(3)]);
}

fn the_depth_counts_what_waits_and_what_is_leased_by_kind<S: WorkQueue>(store: &S) {
    let able = WorkItem {
        requires: vec!["gpu".into()],
        ..item(3)
    };
    let other = WorkItem {
        tenant: Some("a".into()),
        ..item(4)
    };
    assert!(block_on(store.queue_depth(10)).unwrap().is_empty());
    push(store, [item(1), item(2), able, other]);
    let one = Pull {
        slots: 1,
        ..wanted("w")
    };
    pull(store, one);
    let kind = |tenant: Option<&str>, requires: &[&str], (waiting, leased)| QueueDepth {
        tenant: tenant.map(Into::into),
        action: "act".into(),
        requires: requires.iter().map(|it| Box::from(*it)).collect(),
        waiting,
        leased,
    };
    let expected = [
        kind(None, &[], (1, 1)),
        kind(None, &["gpu"], (1, 0)),
        kind(Some("a"), &[], (1, 0)),
    ];
    assert_eq!(block_on(store.queue_depth(10)).unwrap(), expected);
    assert_eq!(block_on(store.queue_depth(1)).unwrap(), expected[..1]);
}

fn an_item_that_a_worker_does_not_name_comes_again<S: WorkQueue>(store: &S) {
    push(store, [item(1), item(2)]);
    assert_eq!(pull(store, wanted("w")).len(), 2);
    let with = |holding| Pull {
        holding,
        ..wanted("w")
    };
    assert!(pull(store, with(None)).is_empty(), "nothing is said");
    let again = pull(store, with(Some(vec![key(1)])));
    assert_eq!(keys(&again), [key(2)]);
    assert_eq!(
        again[0].deliveries, 1,
        "an answer that is lost delivers nothing"
    );
    let all = Some(vec![key(1), key(2)]);
    assert!(pull(store, with(all)).is_empty());
}

fn a_worker_for_all_tenants_gets_what_it_does_not_name_again<S: WorkQueue>(store: &S) {
    let of = |tenant: Option<&str>, n| WorkItem {
        tenant: tenant.map(Into::into),
        ..item(n)
    };
    push(store, [of(Some("a"), 1), of(None, 2)]);
    let any = |worker, holding| Pull {
        tenant: TenantFilter::Any,
        holding,
        ..wanted(worker)
    };
    assert_eq!(pull(store, any("w", None)).len(), 2);
    assert!(pull(store, any("v", Some(Vec::new()))).is_empty());
    let again = pull(store, any("w", Some(vec![key(2)])));
    assert_eq!((keys(&again), again[0].deliveries), (vec![key(1)], 1));
}

fn a_stopped_item_is_removed_or_its_worker_told<S: WorkQueue>(store: &S) {
    push(store, [item(1)]);
    let leased = pull(store, wanted("w")).remove(0);
    push(store, [item(2)]);
    block_on(store.stop(&[key(1), key(2), key(3)])).unwrap();
    assert!(pull(store, wanted("v")).is_empty(), "what waited is gone");
    assert_eq!(renew(store, &leased), LeaseAnswer::Held { stop: true });
    assert_eq!(complete(store, &leased), LeaseAnswer::Held { stop: true });
}

fn a_withdrawn_item_is_unknown<S: WorkQueue>(store: &S) {
    push(store, [item(1)]);
    let leased = pull(store, wanted("w")).remove(0);
    push(store, [item(2)]);
    block_on(store.withdraw(&[key(1), key(2)])).unwrap();
    assert_eq!(renew(store, &leased), LeaseAnswer::Unknown);
    assert!(block_on(store.known(&[key(1), key(2)])).unwrap().is_empty());
    assert!(pull(store, wanted("v")).is_empty());
    // It can be pushed again, and the old lease does not hold for the new item.
    push(store, [item(1)]);
    let again = pull(store, wanted("v")).remove(0);
    assert_eq!(complete(store, &leased), LeaseAnswer::Lost);
    assert_eq!(complete(store, &again), HELD);
}

fn items_of_a_session_come_back_when_it_leaves<S: WorkQueue + Leases>(store: &S) {
    let session = block_on(store.join(&ProcessInfo::named("a"), LONG))
        .unwrap()
        .session;
    let by = Pull {
        term: LeaseTerm::Session(session),
        ..wanted("a")
    };
    push(store, [item(1)]);
    let leased = pull(store, by.clone()).remove(0);
    assert_eq!(renew(store, &leased), HELD);
    assert!(pull(store, wanted("w")).is_empty());
    block_on(store.leave(session)).unwrap();
    assert_eq!(renew(store, &leased), LeaseAnswer::Lost);
    assert!(pull(store, by).is_empty(), "the session is over");
    assert_eq!(pull(store, wanted("w"))[0].deliveries, 2);
}

fn a_lease_that_runs_out_is_lost_and_a_renewed_one_is_not<S: WorkQueue>(
    store: &S,
    pass: &impl Fn(u64),
) {
    let short = |worker| Pull {
        term: LeaseTerm::Millis(1_000),
        ..wanted(worker)
    };
    push(store, [item(1)]);
    let first = pull(store, short("w")).remove(0);
    pass(900);
    assert_eq!(renew(store, &first), HELD);
    pass(900);
    assert!(pull(store, short("v")).is_empty());
    pass(100);
    assert_eq!(renew(store, &first), LeaseAnswer::Lost);
    let second = pull(store, short("v")).remove(0);
    assert_eq!((second.item.key, second.deliveries), (key(1), 2));
    assert_eq!(complete(store, &first), LeaseAnswer::Lost);
    assert_eq!(complete(store, &second), HELD);
}

fn an_item_that_waits_fences_all_but_its_last_worker<S: WorkQueue>(store: &S, pass: &impl Fn(u64)) {
    let short = |worker| Pull {
        term: LeaseTerm::Millis(1_000),
        ..wanted(worker)
    };
    let state = || block_on(store.known(&[key(1)])).unwrap().remove(0).1;
    let waits_after = |leased: &LeasedItem, worker: &str| ItemState::Waiting {
        last: Some((worker.into(), leased.lease)),
    };
    push(store, [item(1)]);
    assert!(!state().fences("w", WorkLease(1)), "no worker has had it");
    let first = pull(store, short("w")).remove(0);
    pass(1_000);
    assert_eq!(state(), waits_after(&first, "w"));
    assert!(!state().fences("w", first.lease), "it came back late");
    let second = pull(store, short("v")).remove(0);
    assert!(state().fences("w", first.lease) && !state().fences("v", second.lease));
    pass(1_000);
    assert_eq!(state(), waits_after(&second, "v"));
    assert!(state().fences("w", first.lease) && !state().fences("v", second.lease));
    // What a worker did not get changes nothing.
    let third = pull(store, short("x")).remove(0);
    let returned = block_on(store.return_item(None, key(1), third.lease)).unwrap();
    assert_eq!((returned, state()), (HELD, waits_after(&second, "v")));
    let lost = pull(store, short("x")).remove(0);
    let named = Pull {
        holding: Some(Vec::new()),
        ..short("x")
    };
    let again = pull(store, named).remove(0);
    assert!(again.lease != lost.lease && again.deliveries == 3);
    let returned = block_on(store.return_item(None, key(1), again.lease)).unwrap();
    assert_eq!((returned, state()), (HELD, waits_after(&second, "v")));
}

fn items_of_a_session_come_back_when_it_expires<S: WorkQueue + Leases>(
    store: &S,
    pass: &impl Fn(u64),
) {
    let session = block_on(store.join(&ProcessInfo::named("a"), 1_000))
        .unwrap()
        .session;
    let by = Pull {
        term: LeaseTerm::Session(session),
        ..wanted("a")
    };
    push(store, [item(1)]);
    let leased = pull(store, by).remove(0);
    pass(999);
    assert!(pull(store, wanted("w")).is_empty());
    pass(1);
    assert_eq!(complete(store, &leased), LeaseAnswer::Lost);
    assert_eq!(pull(store, wanted("w")).len(), 1);
}

fn an_item_that_was_to_stop_is_not_handed_out_again<S: WorkQueue>(store: &S, pass: &impl Fn(u64)) {
    let short = Pull {
        term: LeaseTerm::Millis(1_000),
        ..wanted("w")
    };
    push(store, [item(1)]);
    let leased = pull(store, short).remove(0);
    block_on(store.stop(&[key(1)])).unwrap();
    pass(1_000);
    assert!(pull(store, wanted("v")).is_empty());
    assert_eq!(renew(store, &leased), LeaseAnswer::Unknown);
}

fn an_item_that_was_begun_is_leased_from_the_first_moment<S: WorkQueue + Leases>(store: &S) {
    let joined = block_on(store.join(&ProcessInfo::named("p"), LONG)).unwrap();
    let begun = |n: u64| BegunItem {
        item: item(n),
        begun_ms: 7_000,
    };
    push(store, [item(2)]);
    let items = vec![begun(1), begun(2)];
    let leases = block_on(store.push_begun(items, "w", joined.session)).unwrap();
    let [Some(lease), None] = leases[..] else {
        panic!("the second is there already: {leases:?}");
    };
    let known = block_on(store.known(&[key(1)])).unwrap();
    let ItemState::Leased {
        worker,
        lease: held,
        begun_ms,
        ..
    } = &known[0].1
    else {
        panic!("{known:?}");
    };
    assert_eq!((&**worker, *held), ("w", lease));
    assert!(*begun_ms >= 7_000);
    assert_eq!(keys(&pull(store, wanted("other"))), [key(2)]);
    // Given back in good order, it has not been delivered.
    block_on(store.return_item(None, key(1), lease)).unwrap();
    let again = pull(store, wanted("other"));
    assert_eq!((keys(&again), again[0].deliveries), (vec![key(1)], 1));
    assert!(block_on(store.leave(joined.session)).unwrap());
    let over = block_on(store.push_begun(vec![begun(3)], "w", joined.session)).unwrap();
    assert_eq!(over, [None]);
}
