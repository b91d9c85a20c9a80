//! Dead letters: kept with the mark of their runs, which nothing else changes.

use crate::block_on::Wait;
use windlass_core::{Millis, RunId, RunStatus};

use super::sleep::earliest;
use super::{Backend, must_append, must_start, record, row, run_id};
use crate::{Append, DeadLetter, Partitions, RunRow, TenantFilter, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    a_letter_keeps_every_field(&open());
    the_run_of_a_letter_is_dead(&open());
    appends_do_not_change_who_is_dead(&open());
    the_dead_are_not_woken(&open());
    letters_are_listed_newest_run_first(&open());
    a_requeued_run_lives_again(&open());
    a_purged_run_stays_dead(&open());
    what_has_no_log_may_have_a_letter(&open());
}

fn letter(n: u64, tenant: Option<&str>) -> DeadLetter {
    DeadLetter {
        run: run_id(n),
        tenant: tenant.map(Into::into),
        workflow: "sample".into(),
        reason: "the process ended three times while it went".into(),
        payload: br#"{"trigger":null}"#.to_vec(),
        deliveries: 3,
        at: Millis(1_700_000_000_000 + n as i64),
        damage: None,
    }
}

fn add_dead_letter<S: Backend>(store: &S, letter: DeadLetter) {
    block_on(store.add_dead_letter(letter)).unwrap();
}

fn is_dead<S: Backend>(store: &S, n: u64) -> bool {
    store.run(run_id(n)).wait().unwrap().unwrap().dead
}

fn a_letter_keeps_every_field<S: Backend>(store: &S) {
    assert_eq!(store.dead_letter(run_id(1)).wait().unwrap(), None);
    let full = DeadLetter {
        reason: "quo\"te é".into(),
        payload: vec![b'x'; 64 << 10],
        deliveries: u32::MAX,
        at: Millis(-5),
        ..letter(1, Some("acme"))
    };
    let empty = DeadLetter {
        workflow: "".into(),
        reason: "".into(),
        payload: Vec::new(),
        deliveries: 0,
        ..letter(2, None)
    };
    for letter in [&full, &empty] {
        add_dead_letter(store, letter.clone());
        assert_eq!(
            store.dead_letter(letter.run).wait().unwrap().as_ref(),
            Some(letter)
        );
    }
    add_dead_letter(store, letter(1, Some("beta")));
    assert_eq!(
        store.dead_letter(run_id(1)).wait().unwrap(),
        Some(letter(1, Some("beta"))),
        "in place of the one before"
    );
    let all = store
        .dead_letters(&TenantFilter::Any, None, 10)
        .wait()
        .unwrap();
    assert_eq!(all, [empty, letter(1, Some("beta"))]);
}

fn the_run_of_a_letter_is_dead<S: Backend>(store: &S) {
    let pending = RunRow {
        status: RunStatus::Pending,
        ..row(run_id(1))
    };
    must_start(store, pending.clone());
    must_start(store, row(run_id(2)));
    add_dead_letter(store, letter(1, None));
    let dead = RunRow {
        dead: true,
        ..pending
    };
    assert_eq!(store.run(run_id(1)).wait().unwrap(), Some(dead.clone()));
    assert!(!is_dead(store, 2));
    assert!(
        store
            .waiting_tenants(&Partitions::All)
            .wait()
            .unwrap()
            .is_empty()
    );
    assert!(
        store
            .waiting(&Partitions::All, None, 10)
            .wait()
            .unwrap()
            .is_empty()
    );
    assert_eq!(store.depth(10).wait().unwrap(), 0);
    let unfinished = store.unfinished(None, 10).wait().unwrap();
    assert_eq!(unfinished, [dead, row(run_id(2))], "who recovers can tell");
}

fn appends_do_not_change_who_is_dead<S: Backend>(store: &S) {
    let run = run_id(1);
    let head = must_append(store, record(run, crate::Head::NONE, 1, b"no row yet"));
    add_dead_letter(store, letter(1, None));
    let changes = [
        row(run),
        RunRow {
            wake_at: Some(Millis(5)),
            ..row(run)
        },
        RunRow {
            status: RunStatus::Cancelled,
            ended_at: Some(Millis(6)),
            ..row(run)
        },
    ];
    let mut head = head;
    for row in changes {
        let next = record(run, head, head.append_id + 1, b"with a row");
        head = must_append(
            store,
            Append {
                row: Some(row),
                ..next
            },
        );
        assert!(is_dead(store, 1), "an append does not make it live");
    }
    block_on(store.replace_rows(vec![(row(run), Vec::new())])).unwrap();
    assert!(is_dead(store, 1), "nor does rebuilding its row");
    let said = RunRow {
        dead: true,
        ..row(run_id(2))
    };
    must_start(store, said);
    assert!(!is_dead(store, 2), "nor does an append make it dead");
}

fn the_dead_are_not_woken<S: Backend>(store: &S) {
    for n in 1..=2u64 {
        let sleeping = RunRow {
            asleep: true,
            wake_at: Some(Millis(n as i64)),
            ..row(run_id(n))
        };
        must_start(store, sleeping);
    }
    add_dead_letter(store, letter(1, None));
    assert_eq!(earliest(store), Some(Millis(2)));
    let due = store
        .due(&Partitions::All, None, Millis(9), 10)
        .wait()
        .unwrap();
    assert_eq!(due, [(run_id(2), Millis(2))]);
    assert!(block_on(store.requeue(run_id(1))).unwrap());
    assert_eq!(earliest(store), Some(Millis(1)));
    assert_eq!(
        store
            .due(&Partitions::All, None, Millis(9), 10)
            .wait()
            .unwrap()
            .len(),
        2
    );
}

fn letters_are_listed_newest_run_first<S: Backend>(store: &S) {
    for n in 0..9u64 {
        let tenant = [None, Some("acme"), Some("beta")][n as usize % 3];
        // Not in the order of their runs.
        add_dead_letter(store, letter((n * 4) % 9, tenant));
    }
    let list = |tenant: &TenantFilter, before: Option<u64>, limit| -> Vec<RunId> {
        let before = before.map(run_id);
        let letters = store.dead_letters(tenant, before, limit).wait().unwrap();
        letters.into_iter().map(|letter| letter.run).collect()
    };
    let only = |tenant: Option<&str>| TenantFilter::Only(tenant.map(Into::into));
    let any = TenantFilter::Any;
    assert_eq!(
        list(&any, None, 10),
        [8, 7, 6, 5, 4, 3, 2, 1, 0].map(run_id)
    );
    assert_eq!(list(&any, Some(6), 2), [5, 4].map(run_id));
    assert!(list(&any, Some(0), 2).is_empty());
    assert!(list(&any, None, 0).is_empty());
    let mut seen = Vec::new();
    for tenant in [only(None), only(Some("acme")), only(Some("beta"))] {
        let runs = list(&tenant, None, 10);
        assert_eq!(runs.len(), 3);
        assert!(runs.is_sorted_by(|a, b| a > b));
        let last = store
            .dead_letters(&tenant, Some(runs[0]), 1)
            .wait()
            .unwrap();
        assert_eq!(last[0].run, runs[1]);
        seen.extend(runs);
    }
    seen.sort();
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7, 8].map(run_id));
    assert!(list(&only(Some("nobody")), None, 10).is_empty());
}

fn a_requeued_run_lives_again<S: Backend>(store: &S) {
    let pending = RunRow {
        status: RunStatus::Pending,
        ..row(run_id(1))
    };
    must_start(store, pending.clone());
    assert!(!block_on(store.requeue(run_id(1))).unwrap());
    add_dead_letter(store, letter(1, None));
    assert!(block_on(store.requeue(run_id(1))).unwrap());
    assert_eq!(store.dead_letter(run_id(1)).wait().unwrap(), None);
    assert_eq!(
        store.waiting(&Partitions::All, None, 10).wait().unwrap(),
        [pending]
    );
    assert!(!block_on(store.requeue(run_id(1))).unwrap());
}

fn a_purged_run_stays_dead<S: Backend>(store: &S) {
    must_start(store, row(run_id(1)));
    assert!(!block_on(store.purge(run_id(1))).unwrap());
    add_dead_letter(store, letter(1, None));
    assert!(block_on(store.purge(run_id(1))).unwrap());
    assert_eq!(store.dead_letter(run_id(1)).wait().unwrap(), None);
    assert!(is_dead(store, 1));
    assert!(!block_on(store.purge(run_id(1))).unwrap());
    assert!(!block_on(store.requeue(run_id(1))).unwrap());
    assert!(is_dead(store, 1));
}

fn what_has_no_log_may_have_a_letter<S: Backend>(store: &S) {
    add_dead_letter(store, letter(1, None));
    assert_eq!(
        store.dead_letter(run_id(1)).wait().unwrap(),
        Some(letter(1, None))
    );
    assert_eq!(store.run(run_id(1)).wait().unwrap(), None);
    assert!(store.logged_runs(None, 10).wait().unwrap().is_empty());
    must_start(store, row(run_id(1)));
    assert!(!is_dead(store, 1));
    assert!(block_on(store.purge(run_id(1))).unwrap());
}
