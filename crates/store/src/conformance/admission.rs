//! Runs that wait to begin: their tenants, their order, and which are parked.

use crate::block_on::Wait;
use windlass_core::{Millis, RunId, RunStatus};

use super::{Backend, must_append, must_start, record, row, run_id};
use crate::{
    Append, DeadLetter, GatePlace, Head, Partition, Partitions, RunRow, TakePlace, TenantGate,
    block_on,
};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    tenants_that_wait_are_named_once(&open());
    waiting_runs_come_by_priority_then_age(&open());
    who_has_begun_does_not_wait(&open());
    a_parked_run_waits_at_its_gate(&open());
    only_runs_that_wait_at_a_gate_are_parked(&open());
    a_run_that_begins_is_no_longer_parked(&open());
    a_run_that_leaves_the_line_of_its_gate_still_waits(&open());
    gates_are_named_once(&open());
    what_has_begun_is_found_without_what_waits(&open());
    gates_count_who_goes(&open());
    active_runs_without_a_place_are_found_also_asleep(&open());
    the_depth_is_counted_up_to_a_bound(&open());
    a_row_keeps_its_gate(&open());
}

fn pending(n: u64) -> RunRow {
    RunRow {
        status: RunStatus::Pending,
        ..row(run_id(n))
    }
}

fn gated(n: u64, gate: &str) -> RunRow {
    RunRow {
        gate: Some(gate.into()),
        limit: 2,
        ..pending(n)
    }
}

fn of(tenant: &str, row: RunRow) -> RunRow {
    RunRow {
        tenant: Some(tenant.into()),
        ..row
    }
}

fn change<S: Backend>(store: &S, head: Head, row: RunRow) -> Head {
    let next = record(row.run, head, head.append_id + 1, b"changed");
    must_append(
        store,
        Append {
            row: Some(row),
            ..next
        },
    )
}

fn ids(rows: &[RunRow]) -> Vec<RunId> {
    rows.iter().map(|row| row.run).collect()
}

fn waiting<S: Backend>(store: &S, tenant: Option<&str>) -> Vec<RunId> {
    ids(&store.waiting(&Partitions::All, tenant, 100).wait().unwrap())
}

fn parked<S: Backend>(store: &S, gate: &str) -> Vec<RunId> {
    ids(&store.parked(&Partitions::All, gate, 100).wait().unwrap())
}

fn park<S: Backend>(store: &S, numbers: &[u64]) {
    let runs = numbers.iter().map(|n| run_id(*n)).collect();
    block_on(store.park(runs)).unwrap();
}

fn add_dead_letter<S: Backend>(store: &S, run: RunId) {
    let letter = DeadLetter {
        run,
        tenant: None,
        workflow: "sample".into(),
        reason: "it would not go".into(),
        payload: b"{}".to_vec(),
        deliveries: 3,
        at: Millis(1),
        damage: None,
    };
    block_on(store.add_dead_letter(letter)).unwrap();
}

fn tenants_that_wait_are_named_once<S: Backend>(store: &S) {
    assert!(
        store
            .waiting_tenants(&Partitions::All)
            .wait()
            .unwrap()
            .is_empty()
    );
    let rows = [
        of("beta", pending(1)),
        of("acme", pending(2)),
        of("acme", pending(3)),
        of("zulu", row(run_id(4))),
        of("beta", gated(5, "g")),
        of("gone", gated(6, "g")),
        of("dead", pending(7)),
    ];
    for row in rows {
        must_start(store, row);
    }
    park(store, &[5, 6]);
    add_dead_letter(store, run_id(7));
    let names = |names: &[&str]| -> Vec<Option<Box<str>>> {
        names.iter().map(|name| Some((*name).into())).collect()
    };
    assert_eq!(
        store.waiting_tenants(&Partitions::All).wait().unwrap(),
        names(&["acme", "beta"])
    );
    must_start(store, pending(8));
    let found = store.waiting_tenants(&Partitions::All).wait().unwrap();
    assert_eq!(found[0], None, "those without a tenant come first");
    assert_eq!(found[1..], names(&["acme", "beta"]));
}

fn waiting_runs_come_by_priority_then_age<S: Backend>(store: &S) {
    for (n, priority) in [(1, 5), (2, 9), (3, 5), (4, 0), (5, 9)] {
        let row = RunRow {
            priority,
            ..pending(n)
        };
        must_start(store, row.clone());
        must_start(
            store,
            of(
                "acme",
                RunRow {
                    run: run_id(n + 10),
                    ..row
                },
            ),
        );
    }
    let order = [2, 5, 1, 3, 4];
    assert_eq!(waiting(store, None), order.map(run_id));
    assert_eq!(
        waiting(store, Some("acme")),
        order.map(|n| run_id(n + 10)),
        "each tenant has its own"
    );
    assert_eq!(
        ids(&store.waiting(&Partitions::All, None, 2).wait().unwrap()),
        [2, 5].map(run_id)
    );
    assert!(waiting(store, Some("nobody")).is_empty());
    let first = store
        .waiting(&Partitions::All, None, 1)
        .wait()
        .unwrap()
        .remove(0);
    assert_eq!(Some(first), store.run(run_id(2)).wait().unwrap());
}

fn who_has_begun_does_not_wait<S: Backend>(store: &S) {
    for n in 0..6u64 {
        let status = RunStatus::ALL[n as usize];
        must_start(
            store,
            RunRow {
                status,
                ..pending(n)
            },
        );
    }
    assert_eq!(waiting(store, None), [run_id(0)]);
    let head = store.head(run_id(0)).wait().unwrap();
    let head = change(store, head, row(run_id(0)));
    assert!(waiting(store, None).is_empty());
    assert_eq!(store.depth(10).wait().unwrap(), 0);
    change(store, head, pending(0));
    assert_eq!(waiting(store, None), [run_id(0)]);
}

fn a_parked_run_waits_at_its_gate<S: Backend>(store: &S) {
    for (n, priority) in [(1, 5), (2, 5), (3, 9), (4, 5)] {
        let row = RunRow {
            priority,
            ..gated(n, "narrow")
        };
        must_start(store, row);
    }
    must_start(store, gated(5, "other"));
    park(store, &[1, 2, 3, 5]);
    assert_eq!(waiting(store, None), [run_id(4)]);
    assert_eq!(parked(store, "narrow"), [3, 1, 2].map(run_id));
    assert_eq!(
        ids(&store.parked(&Partitions::All, "narrow", 2).wait().unwrap()),
        [3, 1].map(run_id),
        "no more than asked for"
    );
    assert_eq!(parked(store, "other"), [run_id(5)]);
    assert!(parked(store, "none").is_empty());
    // A row that says the same again does not bring it back.
    let head = store.head(run_id(1)).wait().unwrap();
    let woken = RunRow {
        wake_at: Some(Millis(7)),
        ..gated(1, "narrow")
    };
    change(store, head, woken.clone());
    assert_eq!(parked(store, "narrow"), [3, 1, 2].map(run_id));
    let row = RunRow {
        priority: 8,
        ..woken
    };
    block_on(store.replace_rows(vec![(row, Vec::new())])).unwrap();
    assert_eq!(parked(store, "narrow"), [3, 1, 2].map(run_id));
}

fn only_runs_that_wait_at_a_gate_are_parked<S: Backend>(store: &S) {
    must_start(store, pending(1));
    let running = RunRow {
        status: RunStatus::Running,
        ..gated(2, "g")
    };
    let head = must_start(store, running);
    must_start(store, gated(3, "g"));
    add_dead_letter(store, run_id(3));
    park(store, &[1, 2, 3, 4]);
    assert_eq!(waiting(store, None), [run_id(1)], "it has no gate");
    change(store, head, gated(2, "g"));
    block_on(store.requeue(run_id(3))).unwrap();
    assert!(parked(store, "g").is_empty());
    assert_eq!(waiting(store, None), [1, 2, 3].map(run_id));
    assert_eq!(store.head(run_id(4)).wait().unwrap(), Head::NONE);
}

fn a_run_that_begins_is_no_longer_parked<S: Backend>(store: &S) {
    let head = must_start(store, gated(1, "g"));
    park(store, &[1]);
    let running = RunRow {
        status: RunStatus::Running,
        ..gated(1, "g")
    };
    let head = change(store, head, running);
    assert!(parked(store, "g").is_empty());
    change(store, head, gated(1, "g"));
    assert!(parked(store, "g").is_empty());
    assert_eq!(waiting(store, None), [run_id(1)]);
    park(store, &[1]);
    add_dead_letter(store, run_id(1));
    assert!(parked(store, "g").is_empty());
    block_on(store.requeue(run_id(1))).unwrap();
    assert_eq!(waiting(store, None), [run_id(1)]);
}

fn a_run_that_leaves_the_line_of_its_gate_still_waits<S: Backend>(store: &S) {
    for n in 1..=3 {
        must_start(store, gated(n, "g"));
    }
    must_start(store, gated(4, "other"));
    park(store, &[1, 2, 4]);
    let unpark = |numbers: &[u64]| {
        let runs = numbers.iter().map(|n| run_id(*n)).collect();
        block_on(store.unpark(runs)).unwrap();
    };
    // The third is not parked, the ninth is not there.
    unpark(&[1, 3, 4, 9]);
    assert_eq!(parked(store, "g"), [run_id(2)]);
    assert!(parked(store, "other").is_empty());
    assert_eq!(
        store.parked_gates(&Partitions::All).wait().unwrap(),
        ["g"].map(without_tenant)
    );
    assert_eq!(waiting(store, None), [1, 3, 4].map(run_id));
    park(store, &[1]);
    assert_eq!(parked(store, "g"), [1, 2].map(run_id));
}

fn gates_are_named_once<S: Backend>(store: &S) {
    let count = 50;
    let numbers: Vec<u64> = (0..count).collect();
    for n in &numbers {
        must_start(store, gated(*n, if n % 2 == 0 { "even" } else { "odd" }));
    }
    park(store, &numbers);
    assert!(
        store
            .waiting_tenants(&Partitions::All)
            .wait()
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        store.parked_gates(&Partitions::All).wait().unwrap(),
        ["even", "odd"].map(without_tenant)
    );
    for n in (1..count).step_by(2) {
        add_dead_letter(store, run_id(n));
    }
    assert_eq!(
        store.parked_gates(&Partitions::All).wait().unwrap(),
        ["even"].map(without_tenant)
    );
}

fn without_tenant(gate: &str) -> TenantGate {
    (None, gate.into())
}

fn what_has_begun_is_found_without_what_waits<S: Backend>(store: &S) {
    for n in 0..12u64 {
        let status = RunStatus::ALL[n as usize % 6];
        let row = RunRow {
            status,
            ..row(run_id(n))
        };
        must_start(store, row);
    }
    let begun = |after, limit| {
        let rows = store.begun(&Partitions::All, after, limit).wait().unwrap();
        rows.into_iter().map(|row| row.run).collect::<Vec<_>>()
    };
    let all = begun(None, usize::MAX);
    let awake = store.awake(None, usize::MAX).wait().unwrap();
    let awake = awake.iter().filter(|row| row.status != RunStatus::Pending);
    assert_eq!(all, awake.map(|row| row.run).collect::<Vec<_>>());
    assert!(all.len() > 2);
    assert_eq!(begun(None, 2), all[..2]);
    assert_eq!(begun(Some(all[0]), 2), all[1..3]);
}

fn gates_count_who_goes<S: Backend>(store: &S) {
    assert!(store.gates().wait().unwrap().is_empty());
    for n in 0..12u64 {
        let status = RunStatus::ALL[n as usize % 6];
        let gate = if n < 6 { "a" } else { "b" };
        must_start(
            store,
            RunRow {
                status,
                ..gated(n, gate)
            },
        );
    }
    must_start(store, row(run_id(20)));
    let counts = |a: u32, b: u32| -> Vec<(Box<str>, u32)> {
        let all = [("a", a), ("b", b)].into_iter().filter(|(_, n)| *n > 0);
        all.map(|(gate, n)| (gate.into(), n)).collect()
    };
    assert_eq!(store.gates().wait().unwrap(), counts(2, 2));
    let mut there = store.at_gate("a", 9).wait().unwrap();
    there.sort_by_key(|row| row.run);
    let there: Vec<_> = there.into_iter().map(|row| row.run).collect();
    assert_eq!(there, [run_id(1), run_id(2)]);
    assert_eq!(store.at_gate("b", 1).wait().unwrap().len(), 1);
    assert!(store.at_gate("c", 9).wait().unwrap().is_empty());
    add_dead_letter(store, run_id(1));
    assert_eq!(
        store.gates().wait().unwrap(),
        counts(1, 2),
        "a dead one goes not"
    );
    let head = store.head(run_id(2)).wait().unwrap();
    let ended = RunRow {
        status: RunStatus::Succeeded,
        ..gated(2, "a")
    };
    change(store, head, ended);
    assert_eq!(store.gates().wait().unwrap(), counts(0, 2));
    block_on(store.requeue(run_id(1))).unwrap();
    assert_eq!(store.gates().wait().unwrap(), counts(1, 2));
}

fn active_runs_without_a_place_are_found_also_asleep<S: Backend>(store: &S) {
    let active = |n, status, asleep| RunRow {
        status,
        asleep,
        ..gated(n, "g")
    };
    for row in [
        active(1, RunStatus::Running, false),
        active(2, RunStatus::Running, true),
        active(3, RunStatus::Paused, true),
        active(4, RunStatus::Running, false),
        active(5, RunStatus::Succeeded, false),
        active(6, RunStatus::Running, false),
        gated(7, "g"),
        RunRow {
            status: RunStatus::Running,
            ..pending(8)
        },
    ] {
        change(store, Head::NONE, row);
    }
    add_dead_letter(store, run_id(6));
    let without = |partitions: &Partitions, after, limit| {
        let rows = store.without_place(partitions, after, limit).wait();
        ids(&rows.unwrap())
    };
    let take = |gate: &str, n| TakePlace {
        place: GatePlace {
            gate: gate.into(),
            run: run_id(n),
            partition: Partition(0),
        },
        limit: None,
    };
    // One has its place, and one a place at another gate.
    let taken = vec![take("g", 4), take("other", 1)];
    block_on(store.take_places(taken)).unwrap();
    let all = [run_id(1), run_id(2), run_id(3)];
    assert_eq!(without(&Partitions::All, None, 10), all);
    assert_eq!(without(&Partitions::All, Some(run_id(1)), 1), all[1..2]);
    let other = Partitions::Only([Partition(1)].into());
    assert!(without(&other, None, 10).is_empty());
}

fn the_depth_is_counted_up_to_a_bound<S: Backend>(store: &S) {
    assert_eq!(store.depth(5).wait().unwrap(), 0);
    for n in 0..4 {
        must_start(store, gated(n, "g"));
    }
    must_start(store, of("acme", pending(4)));
    must_start(store, row(run_id(5)));
    must_start(store, pending(6));
    park(store, &[0, 1, 2]);
    add_dead_letter(store, run_id(6));
    for (most, expected) in [(0, 0), (1, 1), (3, 3), (5, 5), (6, 5), (u64::MAX, 5)] {
        assert_eq!(store.depth(most).wait().unwrap(), expected, "up to {most}");
    }
}

fn a_row_keeps_its_gate<S: Backend>(store: &S) {
    let head = must_start(store, gated(1, "first"));
    assert_eq!(
        store.run(run_id(1)).wait().unwrap(),
        Some(gated(1, "first"))
    );
    let wider = RunRow {
        limit: 7,
        ..gated(1, "second")
    };
    let head = change(store, head, wider.clone());
    assert_eq!(store.run(run_id(1)).wait().unwrap(), Some(wider));
    change(store, head, pending(1));
    assert_eq!(store.run(run_id(1)).wait().unwrap(), Some(pending(1)));
}
