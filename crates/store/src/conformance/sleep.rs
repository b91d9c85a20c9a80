//! Sleeping runs, their times, their children and what was offered to them.

use crate::block_on::Wait;
use windlass_core::{Millis, RunId, RunStatus};

use super::inbox::offer;
use super::{Backend, must_append, must_start, record, row, run_id};
use crate::{Append, Head, Partitions, RunFilter, RunRow, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    sleepers_are_left_out_of_the_awake(&open());
    the_due_come_earliest_first(&open());
    a_run_wakes_and_falls_asleep(&open());
    an_ended_run_is_not_woken(&open());
    rebuilt_rows_sleep_too(&open());
    children_are_found_by_their_parent(&open());
    a_sleeping_run_takes_offers(&open());
    offered_runs_are_walked(&open());
}

fn sleeper(n: u64, wake_at: Option<i64>) -> RunRow {
    RunRow {
        asleep: true,
        wake_at: wake_at.map(Millis),
        ..row(run_id(n))
    }
}

/// The earliest time at which a sleeping run wants to be woken.
pub(super) fn earliest<S: Backend>(store: &S) -> Option<Millis> {
    let due = store.due(&Partitions::All, None, Millis(i64::MAX), 1);
    due.wait().unwrap().first().map(|(_, at)| *at)
}

fn ids(rows: &[RunRow]) -> Vec<RunId> {
    rows.iter().map(|row| row.run).collect()
}

fn runs(numbers: &[u64]) -> Vec<RunId> {
    numbers.iter().map(|n| run_id(*n)).collect()
}

fn sleepers_are_left_out_of_the_awake<S: Backend>(store: &S) {
    for n in 0..30u64 {
        let row = RunRow {
            status: RunStatus::ALL[n as usize % 6],
            asleep: n % 4 == 0,
            ..row(run_id(n))
        };
        must_start(store, row.clone());
        assert_eq!(store.run(run_id(n)).wait().unwrap(), Some(row));
    }
    let open: Vec<u64> = (0..30).filter(|n| n % 6 < 3).collect();
    let expected: Vec<u64> = open.iter().copied().filter(|n| n % 4 != 0).collect();
    for limit in [1, 4, 100] {
        let mut seen = Vec::new();
        loop {
            let rows = store.awake(seen.last().copied(), limit).wait().unwrap();
            assert!(rows.len() <= limit);
            if rows.is_empty() {
                break;
            }
            seen.extend(ids(&rows));
        }
        assert_eq!(seen, runs(&expected));
    }
    let unfinished = store.unfinished(None, 100).wait().unwrap();
    assert_eq!(ids(&unfinished), runs(&open), "sleeping is not an end");
    // Lists by status show both.
    let filter = RunFilter {
        statuses: vec![RunStatus::Pending],
        ..RunFilter::default()
    };
    let page = store.runs(&filter).wait().unwrap();
    assert_eq!(ids(&page.rows), runs(&[24, 18, 12, 6, 0]));
    let filter = RunFilter {
        limit: 2,
        before: Some(run_id(18)),
        ..filter
    };
    let page = store.runs(&filter).wait().unwrap();
    assert_eq!(ids(&page.rows), runs(&[12, 6]));
    assert_eq!(page.next, Some(run_id(6)));
}

fn the_due_come_earliest_first<S: Backend>(store: &S) {
    assert_eq!(earliest(store), None);
    assert!(
        store
            .due(&Partitions::All, None, Millis(i64::MAX), 10)
            .wait()
            .unwrap()
            .is_empty()
    );
    for (n, at) in [(1, 50), (2, 30), (3, 40), (4, 30), (5, -7)] {
        must_start(store, sleeper(n, Some(at)));
    }
    must_start(store, sleeper(6, None));
    let awake = RunRow {
        asleep: false,
        ..sleeper(7, Some(1))
    };
    must_start(store, awake);
    assert_eq!(earliest(store), Some(Millis(-7)));
    let due = |until, limit| {
        let due = store
            .due(&Partitions::All, None, Millis(until), limit)
            .wait()
            .unwrap();
        due.into_iter()
            .map(|(run, at)| (run, at.0))
            .collect::<Vec<_>>()
    };
    let all = [
        (run_id(5), -7),
        (run_id(2), 30),
        (run_id(4), 30),
        (run_id(3), 40),
        (run_id(1), 50),
    ];
    assert_eq!(due(i64::MAX, usize::MAX), all);
    assert_eq!(due(40, 10), all[..4]);
    assert_eq!(due(39, 10), all[..3]);
    assert_eq!(due(i64::MAX, 2), all[..2]);
    assert_eq!(due(-8, 10), []);
    assert_eq!(due(100, 0), []);
}

fn change<S: Backend>(store: &S, head: Head, row: RunRow) -> Head {
    let append = Append {
        row: Some(row.clone()),
        ..record(row.run, head, head.append_id + 1, b"changed")
    };
    let head = must_append(store, append);
    assert_eq!(store.run(row.run).wait().unwrap(), Some(row));
    head
}

fn a_run_wakes_and_falls_asleep<S: Backend>(store: &S) {
    let run = run_id(1);
    let mut head = must_start(store, row(run));
    for round in 0..3 {
        head = change(store, head, sleeper(1, Some(10 + round)));
        assert_eq!(earliest(store), Some(Millis(10 + round)));
        assert!(store.awake(None, 10).wait().unwrap().is_empty());
        // Another time, still asleep; then none.
        head = change(store, head, sleeper(1, Some(5)));
        let due = store
            .due(&Partitions::All, None, Millis(100), 10)
            .wait()
            .unwrap();
        assert_eq!(due, [(run, Millis(5))]);
        head = change(store, head, sleeper(1, None));
        assert_eq!(earliest(store), None);
        head = change(store, head, sleeper(1, Some(7)));
        let awake = RunRow {
            asleep: false,
            ..sleeper(1, Some(7))
        };
        head = change(store, head, awake.clone());
        assert!(
            store
                .due(&Partitions::All, None, Millis(100), 10)
                .wait()
                .unwrap()
                .is_empty()
        );
        assert_eq!(store.awake(None, 10).wait().unwrap(), [awake]);
    }
}

fn an_ended_run_is_not_woken<S: Backend>(store: &S) {
    let head = must_start(store, sleeper(1, Some(10)));
    let ended = RunRow {
        status: RunStatus::Cancelled,
        ..sleeper(1, Some(10))
    };
    change(store, head, ended);
    assert_eq!(earliest(store), None);
    assert!(
        store
            .due(&Partitions::All, None, Millis(100), 10)
            .wait()
            .unwrap()
            .is_empty()
    );
    assert!(store.awake(None, 10).wait().unwrap().is_empty());
    assert!(store.unfinished(None, 10).wait().unwrap().is_empty());
}

fn rebuilt_rows_sleep_too<S: Backend>(store: &S) {
    must_start(store, row(run_id(1)));
    must_start(store, sleeper(2, Some(3)));
    let rows = vec![
        (sleeper(1, Some(8)), Vec::new()),
        (row(run_id(2)), Vec::new()),
    ];
    block_on(store.replace_rows(rows)).unwrap();
    assert_eq!(earliest(store), Some(Millis(8)));
    assert_eq!(store.awake(None, 10).wait().unwrap(), [row(run_id(2))]);
}

fn children_are_found_by_their_parent<S: Backend>(store: &S) {
    for n in 1..=9u64 {
        let row = RunRow {
            parent: (n > 2).then(|| run_id(n % 2)),
            status: RunStatus::ALL[n as usize % 6],
            asleep: n % 3 == 0,
            workflow: if n < 6 { "early" } else { "late" }.into(),
            ..row(run_id(n))
        };
        must_start(store, row);
    }
    let of = |n| ids(&store.children(run_id(n)).wait().unwrap());
    assert_eq!(of(1), runs(&[3, 5, 7, 9]));
    assert_eq!(of(0), runs(&[4, 6, 8]));
    assert!(of(5).is_empty());
    let page = |change: &dyn Fn(&mut RunFilter)| {
        let mut filter = RunFilter {
            parent: Some(run_id(1)),
            ..RunFilter::default()
        };
        change(&mut filter);
        let page = store.runs(&filter).wait().unwrap();
        (ids(&page.rows), page.next)
    };
    assert_eq!(page(&|_| {}), (runs(&[9, 7, 5, 3]), None));
    let two = (runs(&[9, 7]), Some(run_id(7)));
    assert_eq!(page(&|f| f.limit = 2), two);
    let rest = (runs(&[5, 3]), None);
    assert_eq!(page(&|f| f.before = Some(run_id(7))), rest);
    let early = page(&|f| f.workflow = Some("early".into()));
    assert_eq!(early, (runs(&[5, 3]), None));
    let failed = page(&|f| f.statuses = vec![RunStatus::ALL[3]]);
    assert_eq!(failed, (runs(&[9, 3]), None));
}

fn a_sleeping_run_takes_offers<S: Backend>(store: &S) {
    let run = run_id(1);
    let head = must_start(store, sleeper(1, Some(10)));
    assert!(offer(store, run, "signal", b"wake up"));
    // Nothing else of it changes.
    assert_eq!(store.head(run).wait().unwrap(), head);
    assert_eq!(store.run(run).wait().unwrap(), Some(sleeper(1, Some(10))));
    assert_eq!(
        store.offered(&Partitions::All, None, 10).wait().unwrap(),
        [run]
    );
    let waking = Append {
        row: Some(row(run)),
        consumed: vec!["signal".into()],
        ..record(run, head, 2, b"woken by a signal")
    };
    must_append(store, waking);
    assert!(
        store
            .offered(&Partitions::All, None, 10)
            .wait()
            .unwrap()
            .is_empty()
    );
    assert_eq!(store.awake(None, 10).wait().unwrap(), [row(run)]);
    // A consumed item may be offered again: the log knows it, the inbox does not.
    assert!(offer(store, run, "signal", b"again"));
}

fn offered_runs_are_walked<S: Backend>(store: &S) {
    assert!(
        store
            .offered(&Partitions::All, None, 10)
            .wait()
            .unwrap()
            .is_empty()
    );
    for n in [5, 2, 9, 4] {
        for key in ["a", "b", "c"] {
            assert!(offer(store, run_id(n), key, b"x"));
        }
    }
    assert_eq!(
        store.offered(&Partitions::All, None, 10).wait().unwrap(),
        runs(&[2, 4, 5, 9])
    );
    assert_eq!(
        store.offered(&Partitions::All, None, 3).wait().unwrap(),
        runs(&[2, 4, 5])
    );
    assert_eq!(store.offered(&Partitions::All, None, 0).wait().unwrap(), []);
    let rest = store
        .offered(&Partitions::All, Some(run_id(4)), 10)
        .wait()
        .unwrap();
    assert_eq!(rest, runs(&[5, 9]));
    let consuming = |keys: &[&str], head: Head| Append {
        consumed: keys.iter().map(|key| (*key).into()).collect(),
        ..record(run_id(4), head, head.append_id + 1, b"took")
    };
    let head = must_append(store, consuming(&["a", "c"], Head::NONE));
    assert_eq!(
        store
            .offered(&Partitions::All, None, 10)
            .wait()
            .unwrap()
            .len(),
        4
    );
    must_append(store, consuming(&["b"], head));
    assert_eq!(
        store.offered(&Partitions::All, None, 10).wait().unwrap(),
        runs(&[2, 5, 9])
    );
}
