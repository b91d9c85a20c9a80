//! Pools: their sizes, the line before each, slots that are counted and taken in one step and
//! freed with the append that names them.

use windlass_core::Millis;

use super::{Backend, append_one, must_append, record, run_id};
use crate::block_on::Wait;
use crate::{
    Append, AppendError, GivenSlots, Head, Partition, Partitions, PoolKey, PoolRemoval, PoolRow,
    SlotRequest, SlotsTaken, TenantFilter, WorkKey, block_on,
};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    a_pool_is_made_resized_listed_and_removed(&open());
    a_pool_never_gives_more_than_it_has(&open());
    an_attempt_holds_its_slots_once(&open());
    the_line_goes_by_rank_then_priority_then_age(&open());
    a_large_one_at_the_head_is_not_overtaken(&open());
    one_that_never_fits_keeps_no_other_waiting(&open());
    a_pool_that_shrinks_takes_nothing_back(&open());
    attempts_wait_for_a_pool_that_does_not_exist(&open());
    an_append_frees_the_slots_that_it_names(&open());
    an_append_that_does_not_happen_frees_nothing(&open());
    slots_are_listed_by_partition_and_page(&open());
    takers_at_once_never_pass_the_size(&open());
    an_earlier_owner_frees_nothing_that_the_next_one_asked_for(&open());
}

fn pool(name: &str) -> PoolKey {
    PoolKey::new(None, name)
}

fn size<S: Backend>(store: &S, pool: &PoolKey, slots: u32) -> Option<u32> {
    let row = PoolRow {
        pool: pool.clone(),
        slots,
        updated_at: Millis(1_700_000_000_000),
    };
    block_on(store.put_pool(row)).unwrap()
}

/// The `n`-th attempt; it is `n` milliseconds younger than the first.
fn asks(name: &str, n: u64) -> SlotRequest {
    SlotRequest {
        pool: pool(name),
        attempt: attempt(n),
        node: format!("node-{n}").into(),
        slots: 1,
        rank: 2,
        priority: 5,
        since: Millis(1_700_000_000_000 + n as i64),
        partition: Partition(0),
        fence: 1,
    }
}

fn attempt(n: u64) -> WorkKey {
    WorkKey {
        run: run_id(n),
        instance: 3,
        attempt: 1,
    }
}

fn take<S: Backend>(store: &S, requests: &[SlotRequest]) -> SlotsTaken {
    let taken = block_on(store.take_slots(requests.to_vec())).unwrap();
    assert_eq!(taken.granted.len(), requests.len(), "one answer for each");
    taken
}

fn takes<S: Backend>(store: &S, request: SlotRequest) -> bool {
    take(store, &[request]).granted[0]
}

fn gives<S: Backend>(store: &S, n: u64) -> Vec<PoolKey> {
    gives_up_to(store, n, 1)
}

fn gives_up_to<S: Backend>(store: &S, n: u64, fence: u64) -> Vec<PoolKey> {
    let attempt = attempt(n);
    block_on(store.give_slots(&[GivenSlots { attempt, fence }])).unwrap()
}

fn holders<S: Backend>(store: &S, name: &str) -> Vec<WorkKey> {
    let usage = block_on(store.pool_use(&pool(name), 100)).unwrap();
    usage.holders.into_iter().map(|it| it.attempt).collect()
}

fn next<S: Backend>(store: &S, name: &str) -> Option<WorkKey> {
    let next = block_on(store.next_in_line(&pool(name))).unwrap();
    next.map(|it| it.attempt)
}

fn a_pool_is_made_resized_listed_and_removed<S: Backend>(store: &S) {
    let (a, b) = (pool("a"), pool("b"));
    let of_tenant = PoolKey::new(Some("t"), "a");
    assert_eq!(size(store, &b, 2), None);
    assert_eq!(size(store, &a, 3), None);
    assert_eq!(size(store, &of_tenant, 4), None);
    assert_eq!(size(store, &a, 5), Some(3));
    let list = |tenant: &TenantFilter, after: Option<&PoolKey>, limit| -> Vec<(PoolKey, u32)> {
        let rows = store.pools(tenant, after, limit).wait().unwrap();
        rows.into_iter().map(|row| (row.pool, row.slots)).collect()
    };
    let all = [(a.clone(), 5), (of_tenant.clone(), 4), (b.clone(), 2)];
    assert_eq!(list(&TenantFilter::Any, None, 10), all);
    assert_eq!(list(&TenantFilter::Any, Some(&a), 1), all[1..2]);
    let only = TenantFilter::Only(None);
    assert_eq!(list(&only, None, 10), [all[0].clone(), all[2].clone()]);
    let found = store.pool(&of_tenant).wait().unwrap().unwrap();
    assert_eq!(
        (found.slots, found.updated_at),
        (4, Millis(1_700_000_000_000))
    );
    assert_eq!(store.pool(&pool("c")).wait().unwrap(), None);
    let remove = |pool| block_on(store.remove_pool(pool)).unwrap();
    assert!(takes(store, asks("b", 1)));
    assert_eq!(remove(&b), PoolRemoval::InUse);
    gives(store, 1);
    assert_eq!(remove(&b), PoolRemoval::Removed);
    assert_eq!(remove(&b), PoolRemoval::Unknown);
    assert_eq!(list(&TenantFilter::Any, None, 10), all[..2]);
}

fn a_pool_never_gives_more_than_it_has<S: Backend>(store: &S) {
    size(store, &pool("p"), 3);
    let two = SlotRequest {
        slots: 2,
        ..asks("p", 1)
    };
    let taken = take(store, &[two, asks("p", 2), asks("p", 3)]);
    assert_eq!(taken.granted, [true, true, false]);
    assert!(taken.next.is_empty());
    let usage = block_on(store.pool_use(&pool("p"), 1)).unwrap();
    assert_eq!((usage.used, usage.waiting), (3, 1));
    assert_eq!(usage.holders.len(), 1);
    assert_eq!(usage.waiters, [asks("p", 3)]);
    assert_eq!(next(store, "p"), None);
    assert_eq!(gives(store, 1), [pool("p")]);
    assert!(gives(store, 1).is_empty());
    assert_eq!(next(store, "p"), Some(attempt(3)));
    assert!(takes(store, asks("p", 3)));
    let of_tenant = SlotRequest {
        pool: PoolKey::new(Some("t"), "p"),
        ..asks("p", 9)
    };
    assert!(!takes(store, of_tenant), "the tenant has no such pool");
}

fn an_attempt_holds_its_slots_once<S: Backend>(store: &S) {
    size(store, &pool("p"), 1);
    for _ in 0..3 {
        assert!(takes(store, asks("p", 1)));
    }
    let both = [asks("p", 2), asks("p", 2)];
    assert_eq!(take(store, &both).granted, [false, false]);
    gives(store, 1);
    assert_eq!(take(store, &both).granted, [true, true]);
    assert_eq!(holders(store, "p"), [attempt(2)]);
}

fn the_line_goes_by_rank_then_priority_then_age<S: Backend>(store: &S) {
    size(store, &pool("p"), 1);
    assert!(takes(store, asks("p", 1)));
    let at = |n, rank, priority| SlotRequest {
        rank,
        priority,
        ..asks("p", n)
    };
    let line = [at(2, 2, 5), at(3, 2, 9), at(4, 2, 5), at(5, 0, 1)];
    assert_eq!(take(store, &line).granted, [false; 4]);
    // Asking again changes no place.
    assert!(!takes(store, at(4, 0, 9)));
    gives(store, 1);
    let turned_away = take(store, &[line[2].clone()]);
    assert_eq!(turned_away.granted, [false]);
    assert_eq!(turned_away.next, [line[3].clone()]);
    let mut rest = line.to_vec();
    for n in [5, 3, 2, 4] {
        assert_eq!(next(store, "p"), Some(attempt(n)));
        take(store, &rest);
        assert_eq!(holders(store, "p"), [attempt(n)]);
        gives(store, n);
        rest.retain(|it| it.attempt != attempt(n));
    }
}

fn a_large_one_at_the_head_is_not_overtaken<S: Backend>(store: &S) {
    size(store, &pool("p"), 3);
    assert!(takes(store, asks("p", 1)));
    let large = SlotRequest {
        slots: 3,
        ..asks("p", 2)
    };
    assert!(!takes(store, large.clone()));
    assert!(!takes(store, asks("p", 3)), "it fits, and is behind");
    let urgent = SlotRequest {
        priority: 9,
        ..asks("p", 4)
    };
    assert!(takes(store, urgent), "it goes before both");
    for n in [1, 4] {
        gives(store, n);
    }
    let taken = take(store, &[asks("p", 3)]);
    assert_eq!(
        (taken.granted, taken.next),
        (vec![false], vec![large.clone()])
    );
    assert!(takes(store, large));
    gives(store, 2);
    assert!(takes(store, asks("p", 3)));
}

fn one_that_never_fits_keeps_no_other_waiting<S: Backend>(store: &S) {
    size(store, &pool("p"), 2);
    let too_large = SlotRequest {
        slots: 3,
        ..asks("p", 1)
    };
    let taken = take(store, &[too_large, asks("p", 2)]);
    assert_eq!(taken.granted, [false, true]);
    gives(store, 2);
    size(store, &pool("p"), 3);
    assert_eq!(next(store, "p"), Some(attempt(1)));
}

fn a_pool_that_shrinks_takes_nothing_back<S: Backend>(store: &S) {
    size(store, &pool("p"), 3);
    for n in 1..=3 {
        assert!(takes(store, asks("p", n)));
    }
    size(store, &pool("p"), 1);
    assert_eq!(holders(store, "p").len(), 3);
    assert!(!takes(store, asks("p", 4)));
    gives(store, 1);
    gives(store, 2);
    assert_eq!(next(store, "p"), None);
    gives(store, 3);
    assert!(takes(store, asks("p", 4)));
}

fn attempts_wait_for_a_pool_that_does_not_exist<S: Backend>(store: &S) {
    assert!(!takes(store, asks("p", 1)));
    assert_eq!(next(store, "p"), None);
    size(store, &pool("p"), 1);
    assert_eq!(next(store, "p"), Some(attempt(1)));
}

fn ending(n: u64, head: Head) -> Append {
    Append {
        slots: vec![(3, 1), (4, 1)],
        ..record(run_id(n), head, head.append_id + 1, b"ended")
    }
}

fn an_append_frees_the_slots_that_it_names<S: Backend>(store: &S) {
    size(store, &pool("p"), 4);
    let other = SlotRequest {
        attempt: WorkKey {
            attempt: 2,
            ..attempt(1)
        },
        ..asks("p", 1)
    };
    assert_eq!(
        take(store, &[asks("p", 1), other.clone(), asks("p", 2)]).granted,
        [true; 3]
    );
    must_append(store, ending(1, Head::NONE));
    assert_eq!(holders(store, "p"), [other.attempt, attempt(2)]);
}

fn an_append_that_does_not_happen_frees_nothing<S: Backend>(store: &S) {
    size(store, &pool("p"), 1);
    assert!(takes(store, asks("p", 1)));
    let head = must_append(store, record(run_id(1), Head::NONE, 1, b"1"));
    let late = append_one(store, ending(1, Head::NONE));
    assert!(matches!(late, Err(AppendError::Conflict(_))), "{late:?}");
    assert_eq!(holders(store, "p"), [attempt(1)]);
    must_append(store, ending(1, head));
    assert!(holders(store, "p").is_empty());
}

fn slots_are_listed_by_partition_and_page<S: Backend>(store: &S) {
    size(store, &pool("p"), 1);
    let all = [asks("p", 1), asks("q", 2), asks("p", 3)];
    take(store, &all);
    let list = |partitions: &Partitions, after: Option<WorkKey>, limit| {
        store.slots(partitions, after, limit).wait().unwrap()
    };
    assert_eq!(list(&Partitions::All, None, 10), all);
    assert_eq!(list(&Partitions::All, Some(attempt(1)), 1), all[1..2]);
    let only = |partition| Partitions::Only([Partition(partition)].into());
    assert_eq!(list(&only(0), Some(attempt(2)), 10), all[2..]);
    assert!(list(&only(1), None, 10).is_empty());
}

fn takers_at_once_never_pass_the_size<S: Backend>(store: &S) {
    size(store, &pool("p"), 5);
    std::thread::scope(|scope| {
        for taker in 0..8 {
            scope.spawn(move || {
                for n in 0..8 {
                    takes(store, asks("p", 8 * taker + n));
                }
            });
        }
    });
    let usage = block_on(store.pool_use(&pool("p"), 100)).unwrap();
    assert!(usage.used <= 5, "{} slots are held", usage.used);
    assert_eq!(usage.holders.len() as u64 + usage.waiting, 64);
}

fn an_earlier_owner_frees_nothing_that_the_next_one_asked_for<S: Backend>(store: &S) {
    size(store, &pool("p"), 1);
    let asked_by_next = |n| SlotRequest {
        fence: 4,
        ..asks("p", n)
    };
    let listed = |n: u64| {
        let rows = store.slots(&Partitions::All, None, 10).wait().unwrap();
        let row = rows.into_iter().find(|it| it.attempt == attempt(n));
        row.map(|it| it.fence)
    };
    // One holds its slots, and one waits.
    for (n, holds) in [(1, true), (2, false)] {
        assert_eq!(takes(store, asks("p", n)), holds);
        assert_eq!(takes(store, asked_by_next(n)), holds);
        assert_eq!(listed(n), Some(4));
        // A late question of the earlier owner changes nothing.
        assert_eq!(takes(store, asks("p", n)), holds);
        assert!(gives_up_to(store, n, 3).is_empty());
        assert_eq!(listed(n), Some(4));
    }
    for n in [1, 2] {
        assert_eq!(gives_up_to(store, n, 4), [pool("p")]);
        assert_eq!(listed(n), None);
    }
}
