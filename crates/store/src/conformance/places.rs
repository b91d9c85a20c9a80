//! Places at gates: counted and taken in one step, freed with the append that names them.

use windlass_core::RunId;

use super::{Backend, append_one, must_append, record, run_id};
use crate::block_on::Wait;
use crate::{
    Append, AppendError, GatePlace, Head, HeldPlace, Partition, Partitions, TakePlace, block_on,
};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    a_gate_has_no_more_places_than_its_limit(&open());
    a_run_has_one_place_however_often_it_asks(&open());
    a_run_that_does_not_wait_takes_a_place_in_any_case(&open());
    an_append_frees_the_places_that_it_names(&open());
    an_append_that_does_not_happen_frees_nothing(&open());
    places_are_listed_by_partition_and_page(&open());
    takers_at_once_never_pass_the_limit(&open());
    a_place_that_was_taken_again_is_not_freed_by_what_was_seen_before(&open());
}

fn place(gate: &str, n: u64) -> GatePlace {
    GatePlace {
        gate: gate.into(),
        run: run_id(n),
        partition: Partition(0),
    }
}

fn take<S: Backend>(store: &S, gate: &str, n: u64, limit: Option<u32>) -> bool {
    let place = place(gate, n);
    let taken = block_on(store.take_places(vec![TakePlace { place, limit }])).unwrap();
    assert_eq!(taken.len(), 1, "one answer for each question");
    taken[0].is_some()
}

fn give<S: Backend>(store: &S, gate: &str, n: u64, takes: u64) {
    let place = place(gate, n);
    block_on(store.give_places(vec![HeldPlace { place, takes }])).unwrap();
}

fn runs<S: Backend>(store: &S, gate: &str) -> Vec<RunId> {
    let places = store.places(&Partitions::All, None, 100).wait().unwrap();
    let of_gate = places.into_iter().filter(|it| *it.place.gate == *gate);
    of_gate.map(|it| it.place.run).collect()
}

fn a_gate_has_no_more_places_than_its_limit<S: Backend>(store: &S) {
    assert!(take(store, "g", 1, Some(2)));
    assert!(take(store, "g", 2, Some(2)));
    assert!(!take(store, "g", 3, Some(2)));
    assert!(take(store, "other", 3, Some(1)));
    let many = [4, 5].map(|n| TakePlace {
        place: place("many", n),
        limit: Some(1),
    });
    let taken = block_on(store.take_places(many.to_vec())).unwrap();
    assert_eq!(taken, [Some(1), None]);
    give(store, "g", 1, 1);
    give(store, "g", 9, 1);
    assert!(take(store, "g", 3, Some(2)));
    assert_eq!(runs(store, "g"), [run_id(2), run_id(3)]);
}

fn a_run_has_one_place_however_often_it_asks<S: Backend>(store: &S) {
    for _ in 0..3 {
        assert!(take(store, "g", 1, Some(1)));
    }
    assert_eq!(runs(store, "g"), [run_id(1)]);
    give(store, "g", 1, 3);
    assert!(take(store, "g", 2, Some(1)));
}

fn a_run_that_does_not_wait_takes_a_place_in_any_case<S: Backend>(store: &S) {
    assert!(take(store, "g", 1, Some(1)));
    assert!(take(store, "g", 2, None));
    assert!(!take(store, "g", 3, Some(2)), "it counts all the same");
}

fn releasing(run: RunId, head: Head, gates: &[&str]) -> Append {
    Append {
        releases: gates.iter().map(|gate| (*gate).into()).collect(),
        ..record(run, head, head.append_id + 1, b"ended")
    }
}

fn an_append_frees_the_places_that_it_names<S: Backend>(store: &S) {
    for (gate, n) in [("g", 1), ("h", 1), ("g", 2)] {
        assert!(take(store, gate, n, Some(9)));
    }
    must_append(store, releasing(run_id(1), Head::NONE, &["g", "unknown"]));
    assert_eq!(runs(store, "g"), [run_id(2)]);
    assert_eq!(runs(store, "h"), [run_id(1)]);
}

fn an_append_that_does_not_happen_frees_nothing<S: Backend>(store: &S) {
    assert!(take(store, "g", 1, Some(1)));
    let head = must_append(store, record(run_id(1), Head::NONE, 1, b"1"));
    let late = append_one(store, releasing(run_id(1), Head::NONE, &["g"]));
    assert!(matches!(late, Err(AppendError::Conflict(_))), "{late:?}");
    assert_eq!(runs(store, "g"), [run_id(1)]);
    must_append(store, releasing(run_id(1), head, &["g"]));
    assert!(runs(store, "g").is_empty());
}

fn places_are_listed_by_partition_and_page<S: Backend>(store: &S) {
    for (gate, n) in [("b", 1), ("a", 2), ("a", 1)] {
        assert!(take(store, gate, n, None));
    }
    let all = [place("a", 1), place("a", 2), place("b", 1)];
    let list = |partitions: &Partitions, after: Option<&GatePlace>, limit| {
        let places = store.places(partitions, after, limit).wait().unwrap();
        places.into_iter().map(|it| it.place).collect::<Vec<_>>()
    };
    assert_eq!(list(&Partitions::All, None, 10), all);
    assert_eq!(list(&Partitions::All, Some(&all[0]), 1), [all[1].clone()]);
    assert!(list(&Partitions::All, Some(&all[2]), 10).is_empty());
    let only = |partition| Partitions::Only([Partition(partition)].into());
    assert_eq!(list(&only(0), None, 10), all);
    assert!(list(&only(1), None, 10).is_empty());
}

fn takers_at_once_never_pass_the_limit<S: Backend>(store: &S) {
    let taken: u32 = std::thread::scope(|scope| {
        let takers = (0..8).map(|taker| {
            scope.spawn(move || {
                let mine = (0..8).map(|n| 8 * taker + n);
                mine.map(|n| u32::from(take(store, "g", n, Some(5))))
                    .sum::<u32>()
            })
        });
        let takers: Vec<_> = takers.collect();
        takers.into_iter().map(|it| it.join().unwrap()).sum()
    });
    assert_eq!((taken, runs(store, "g").len()), (5, 5));
}

fn a_place_that_was_taken_again_is_not_freed_by_what_was_seen_before<S: Backend>(store: &S) {
    assert!(take(store, "g", 1, Some(1)));
    let seen = store.places(&Partitions::All, None, 10).wait().unwrap();
    assert_eq!(seen[0].takes, 1);
    assert!(take(store, "g", 1, None));
    block_on(store.give_places(seen)).unwrap();
    assert_eq!(runs(store, "g"), [run_id(1)]);
    give(store, "g", 1, 2);
    assert!(runs(store, "g").is_empty());
}
