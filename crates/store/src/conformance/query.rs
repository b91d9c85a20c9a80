//! Lists: filters, cursors, prefixes, what recovery and `rebuild` walk.

use crate::block_on::Wait;
use std::collections::BTreeMap;

use windlass_core::{Millis, RunId, RunStatus};

use super::{Backend, must_append, must_start, record, row, run_id};
use crate::{Append, Head, Relatives, ResourceRow, RunFilter, RunRow, TenantFilter, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    a_row_keeps_every_field(&open());
    a_row_changes_only_when_given(&open());
    filters_pick_rows(&open());
    filters_pick_rows_by_how_they_stand(&open());
    forked_runs_can_be_left_out(&open());
    relatives_are_children_and_forks(&open());
    a_changed_row_is_found_by_what_it_is_now(&open());
    pages_follow_each_other(&open());
    runs_are_counted_by_status_and_time(&open());
    prefixes_find_runs(&open());
    unfinished_runs_are_walked_oldest_first(&open());
    logged_runs_need_no_row(&open());
    the_first_resource_link_wins(&open());
    rows_are_replaced(&open());
    health_says_something(&open());
}

/// Checks which runs a filter finds.
fn check_filter<S: Backend>(store: &S, change: &dyn Fn(&mut RunFilter), expected: &[u64]) {
    let mut filter = RunFilter::default();
    change(&mut filter);
    let page = store.runs(&filter).wait().unwrap();
    assert_eq!(numbers(&page.rows), expected, "{filter:?}");
    assert_eq!(page.next, None, "{filter:?}");
}

fn filters_pick_rows_by_how_they_stand<S: Backend>(store: &S) {
    let failed = |n: u64, code: &str, causes: &[&str]| RunRow {
        status: RunStatus::Failed,
        error_code: Some(code.into()),
        cause_codes: causes.iter().map(|code| (*code).into()).collect(),
        ..row(run_id(n))
    };
    must_start(store, failed(1, "NODE_FAILED", &["HTTP_503", "TIMEOUT"]));
    must_start(store, failed(2, "RUN_TIMEOUT", &[]));
    let child = RunRow {
        parent: Some(run_id(1)),
        tenant: Some("acme".into()),
        ..failed(3, "NODE_FAILED", &["HTTP_503"])
    };
    must_start(store, child);
    let asleep = |n: u64, status: RunStatus| RunRow {
        status,
        asleep: true,
        ..row(run_id(n))
    };
    must_start(store, asleep(4, RunStatus::Running));
    must_start(store, asleep(5, RunStatus::Paused));
    let head = must_start(store, asleep(6, RunStatus::Running));
    must_start(store, row(run_id(7)));
    must_start(store, asleep(8, RunStatus::Running));
    let letter = crate::DeadLetter {
        run: run_id(8),
        tenant: None,
        workflow: "sample".into(),
        reason: "".into(),
        payload: Vec::new(),
        deliveries: 1,
        at: Millis(1),
        damage: None,
    };
    block_on(store.add_dead_letter(letter)).unwrap();
    let check = |change: &dyn Fn(&mut RunFilter), expected: &[u64]| {
        check_filter(store, change, expected);
    };
    check(&|f| f.error = Some("HTTP_503".into()), &[3, 1]);
    check(&|f| f.error = Some("TIMEOUT".into()), &[1]);
    check(&|f| f.error = Some("NODE_FAILED".into()), &[3, 1]);
    check(&|f| f.error = Some("HTTP".into()), &[]);
    let of_one = |f: &mut RunFilter| {
        f.error = Some("HTTP_503".into());
        f.tenant = TenantFilter::Only(Some("acme".into()));
    };
    check(&of_one, &[3]);
    check(&|f| f.waiting = true, &[6, 4]);
    check(&|f| f.dead = Some(true), &[8]);
    check(&|f| f.dead = Some(false), &[7, 6, 5, 4, 3, 2, 1]);
    check(&|f| f.roots = true, &[8, 7, 6, 5, 4, 2, 1]);
    let both = |f: &mut RunFilter| {
        f.roots = true;
        f.statuses = vec![RunStatus::Failed];
        f.workflow = Some("sample".into());
    };
    check(&both, &[2, 1]);
    // One that goes on is found by what it is now.
    append_row(store, head, failed(6, "NODE_FAILED", &["TIMEOUT"]));
    check(&|f| f.waiting = true, &[4]);
    check(&|f| f.error = Some("TIMEOUT".into()), &[6, 1]);
}

fn forked_runs_can_be_left_out<S: Backend>(store: &S) {
    for n in 1..=3 {
        let failed = RunRow {
            status: RunStatus::Failed,
            ..row(run_id(n))
        };
        must_start(store, failed);
    }
    let fork = |n: u64, origin: u64| RunRow {
        origin: Some(run_id(origin)),
        ..row(run_id(n))
    };
    let head = must_start(store, fork(4, 2));
    must_start(store, fork(5, 2));
    let check = |change: &dyn Fn(&mut RunFilter), expected: &[u64]| {
        check_filter(store, change, expected);
    };
    check(&|f| f.origin = Some(run_id(2)), &[5, 4]);
    check(&|f| f.origin = Some(run_id(1)), &[]);
    check(&|f| f.unforked = true, &[5, 4, 3, 1]);
    let ended = RunRow {
        status: RunStatus::Succeeded,
        ..fork(4, 2)
    };
    append_row(store, head, ended);
    check(&|f| f.origin = Some(run_id(2)), &[5, 4]);
    let failed = |f: &mut RunFilter| {
        f.unforked = true;
        f.statuses = vec![RunStatus::Failed];
    };
    check(&failed, &[3, 1]);
    let first = |f: &mut RunFilter| {
        failed(f);
        f.before = Some(run_id(3));
    };
    check(&first, &[1]);
}

fn relatives_are_children_and_forks<S: Backend>(store: &S) {
    must_start(store, row(run_id(1)));
    must_start(store, row(run_id(2)));
    for n in 10..13 {
        let child = RunRow {
            parent: Some(run_id(1)),
            ..row(run_id(n))
        };
        must_start(store, child);
    }
    for n in 20..25 {
        let fork = RunRow {
            origin: Some(run_id(1)),
            ..row(run_id(n))
        };
        must_start(store, fork);
    }
    let asked = [run_id(2), run_id(1), run_id(77)];
    let found = store.relatives(&asked).wait().unwrap();
    let none = Relatives::default();
    let both = Relatives {
        children: 3,
        forks: vec![run_id(24), run_id(23), run_id(22)],
    };
    assert_eq!(found, [none.clone(), both, none]);
    assert_eq!(store.relatives(&[]).wait().unwrap(), []);
}

fn runs_are_counted_by_status_and_time<S: Backend>(store: &S) {
    let made = |at: i64, status: RunStatus, tenant: Option<&str>, asleep: bool| {
        let random = [
            at as u8,
            status as u8,
            u8::from(asleep),
            3,
            4,
            5,
            6,
            7,
            8,
            9,
        ];
        must_start(
            store,
            RunRow {
                status,
                tenant: tenant.map(Into::into),
                asleep,
                ..row(RunId::new(Millis(at), random))
            },
        );
    };
    made(99, RunStatus::Failed, None, false);
    made(100, RunStatus::Failed, None, false);
    made(100, RunStatus::Running, None, true);
    made(100, RunStatus::Running, Some("acme"), false);
    made(199, RunStatus::Succeeded, Some("acme"), false);
    made(200, RunStatus::Pending, None, false);
    made(300, RunStatus::Cancelled, None, false);
    let moments = [100, 200, 250, 300].map(Millis);
    let counted = |tenant: TenantFilter| {
        let counts = store.count_runs(&tenant, &moments).wait().unwrap();
        let spelt = counts
            .iter()
            .map(|counts| RunStatus::ALL.map(|it| counts.of(it)));
        spelt.collect::<Vec<_>>()
    };
    let (none, pending) = ([0; 6], [1, 0, 0, 0, 0, 0]);
    let any = counted(TenantFilter::Any);
    assert_eq!(any, [[0, 2, 0, 1, 1, 0], pending, none]);
    let without = counted(TenantFilter::Only(None));
    assert_eq!(without, [[0, 1, 0, 0, 1, 0], pending, none]);
    let acme = counted(TenantFilter::Only(Some("acme".into())));
    assert_eq!(acme, [[0, 1, 0, 1, 0, 0], none, none]);
    let no_span = store.count_runs(&TenantFilter::Any, &[]).wait().unwrap();
    assert!(no_span.is_empty());
}

fn full_row(run: RunId) -> RunRow {
    RunRow {
        tenant: Some("acme".into()),
        version: 3,
        status: RunStatus::Failed,
        priority: 9,
        labels: labels(&[("env", "prod"), ("quo\"te", "back\\slash é")]),
        started_at: Some(Millis(1)),
        ended_at: Some(Millis(-2)),
        wake_at: Some(Millis(i64::MAX)),
        error_code: Some("TIMEOUT".into()),
        error_message: Some("it took too long".into()),
        cause_codes: vec!["HTTP_503".into(), "quo\"te".into()],
        parent: Some(run_id(99)),
        origin: Some(run_id(98)),
        gate: Some("workflow\nkey".into()),
        limit: u32::MAX,
        ..row(run)
    }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<Box<str>, Box<str>> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).into(), (*value).into()))
        .collect()
}

fn a_row_keeps_every_field<S: Backend>(store: &S) {
    assert_eq!(store.run(run_id(1)).wait().unwrap(), None);
    must_start(store, full_row(run_id(1)));
    must_start(store, row(run_id(2)));
    assert_eq!(
        store.run(run_id(1)).wait().unwrap(),
        Some(full_row(run_id(1)))
    );
    assert_eq!(store.run(run_id(2)).wait().unwrap(), Some(row(run_id(2))));
    let page = store.runs(&RunFilter::default()).wait().unwrap();
    assert_eq!(page.rows, [row(run_id(2)), full_row(run_id(1))]);
}

fn a_row_changes_only_when_given<S: Backend>(store: &S) {
    let run = run_id(1);
    let head = must_start(store, row(run));
    let head = must_append(store, record(run, head, 2, b"no row"));
    assert_eq!(store.run(run).wait().unwrap(), Some(row(run)));
    let waiting = RunRow {
        wake_at: Some(Millis(5)),
        ..row(run)
    };
    let head = append_row(store, head, waiting.clone());
    assert_eq!(store.run(run).wait().unwrap(), Some(waiting));
    let ended = RunRow {
        ended_at: Some(Millis(6)),
        status: RunStatus::Succeeded,
        ..row(run)
    };
    append_row(store, head, ended.clone());
    assert_eq!(store.run(run).wait().unwrap(), Some(ended));
    assert!(store.unfinished(None, 10).wait().unwrap().is_empty());
}

fn append_row<S: Backend>(store: &S, head: Head, row: RunRow) -> Head {
    let append = Append {
        row: Some(row.clone()),
        ..record(row.run, head, head.append_id + 1, b"with row")
    };
    must_append(store, append)
}

fn numbers(rows: &[RunRow]) -> Vec<u64> {
    let find = |row: &RunRow| (0..200).find(|n| run_id(*n) == row.run).unwrap();
    rows.iter().map(find).collect()
}

/// Twelve runs that differ in everything a filter can ask for.
fn start_twelve<S: Backend>(store: &S) {
    for n in 0..12u64 {
        let mut row = row(run_id(n));
        row.tenant = (n % 2 == 0).then(|| "acme".into());
        row.workflow = if n % 3 == 0 { "three" } else { "other" }.into();
        row.version = if n < 6 { 1 } else { 2 };
        row.status = RunStatus::ALL[n as usize % 6];
        row.created_at = Millis(n as i64 * 10);
        if n % 4 == 0 {
            row.labels = labels(&[("env", "prod"), ("n", &n.to_string())]);
        }
        must_start(store, row);
    }
}

fn filters_pick_rows<S: Backend>(store: &S) {
    start_twelve(store);
    let check = |change: &dyn Fn(&mut RunFilter), expected: &[u64]| {
        let mut filter = RunFilter::default();
        change(&mut filter);
        let page = store.runs(&filter).wait().unwrap();
        assert_eq!(numbers(&page.rows), expected, "{filter:?}");
        assert_eq!(page.next, None, "{filter:?}");
    };
    let open = [RunStatus::Paused, RunStatus::Pending, RunStatus::Running];
    let three = || Some("three".into());
    let acme = || TenantFilter::Only(Some("acme".into()));
    check(&|_| {}, &[11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    check(&|f| f.tenant = acme(), &[10, 8, 6, 4, 2, 0]);
    let nobody = || TenantFilter::Only(Some("nobody".into()));
    check(&|f| f.tenant = nobody(), &[]);
    check(
        &|f| f.tenant = TenantFilter::Only(None),
        &[11, 9, 7, 5, 3, 1],
    );
    check(&|f| f.workflow = three(), &[9, 6, 3, 0]);
    check(&|f| f.statuses = vec![RunStatus::Failed], &[10, 4]);
    check(&|f| f.statuses = open.to_vec(), &[8, 7, 6, 2, 1, 0]);
    check(&|f| f.labels = labels(&[("env", "prod")]), &[8, 4, 0]);
    check(&|f| f.labels = labels(&[("env", "pro")]), &[]);
    let two = [("env", "prod"), ("n", "4")];
    check(&|f| f.labels = labels(&two), &[4]);
    check(&|f| f.since = Some(Millis(95)), &[11, 10]);
    check(&|f| f.since = Some(Millis(1000)), &[]);
    check(&|f| f.before = Some(run_id(2)), &[1, 0]);
    let theirs = |f: &mut RunFilter| {
        f.tenant = acme();
        f.statuses = open.to_vec();
    };
    check(&theirs, &[8, 6, 2, 0]);
    let nobodys = |f: &mut RunFilter| {
        f.tenant = TenantFilter::Only(None);
        f.workflow = three();
    };
    check(&nobodys, &[9, 3]);
    let both = |f: &mut RunFilter| {
        f.workflow = three();
        f.statuses = open.to_vec();
    };
    check(&both, &[6, 0]);
    check(&|f| f.version = Some(2), &[11, 10, 9, 8, 7, 6]);
    check(&|f| f.version = Some(3), &[]);
    let of_version = |f: &mut RunFilter| {
        f.workflow = three();
        f.version = Some(2);
    };
    check(&of_version, &[9, 6]);
    let their_version = |f: &mut RunFilter| {
        f.tenant = acme();
        f.workflow = Some("other".into());
        f.version = Some(1);
        f.statuses = open.to_vec();
    };
    check(&their_version, &[2]);
    let all = |f: &mut RunFilter| {
        f.tenant = acme();
        f.workflow = three();
        f.statuses = vec![RunStatus::Pending];
        f.labels = labels(&[("env", "prod")]);
        f.since = Some(Millis(0));
        f.before = Some(run_id(6));
        f.limit = 5;
    };
    check(&all, &[0]);
}

fn a_changed_row_is_found_by_what_it_is_now<S: Backend>(store: &S) {
    let run = run_id(1);
    let mut row = row(run);
    row.labels = labels(&[("env", "test"), ("kept", "yes")]);
    let head = must_start(store, row.clone());
    row.labels = labels(&[("env", "prod"), ("kept", "yes")]);
    row.tenant = Some("acme".into());
    row.workflow = "renamed".into();
    append_row(store, head, row.clone());
    assert_eq!(store.run(run).wait().unwrap(), Some(row));
    let count = |change: &dyn Fn(&mut RunFilter)| {
        let mut filter = RunFilter::default();
        change(&mut filter);
        store.runs(&filter).wait().unwrap().rows.len()
    };
    assert_eq!(count(&|f| f.labels = labels(&[("env", "test")])), 0);
    assert_eq!(count(&|f| f.labels = labels(&[("env", "prod")])), 1);
    assert_eq!(count(&|f| f.labels = labels(&[("kept", "yes")])), 1);
    assert_eq!(count(&|f| f.workflow = Some("sample".into())), 0);
    assert_eq!(count(&|f| f.workflow = Some("renamed".into())), 1);
    assert_eq!(
        count(&|f| f.tenant = TenantFilter::Only(Some("acme".into()))),
        1
    );
}

fn pages_follow_each_other<S: Backend>(store: &S) {
    for n in 0..120 {
        must_start(store, row(run_id(n)));
    }
    assert_eq!(
        store.runs(&RunFilter::default()).wait().unwrap().rows.len(),
        50
    );
    for limit in [1, 7, 60, 119, 120, 121] {
        let mut filter = RunFilter {
            limit,
            ..RunFilter::default()
        };
        let mut seen = Vec::new();
        loop {
            let page = store.runs(&filter).wait().unwrap();
            assert!(page.rows.len() <= limit);
            seen.extend(numbers(&page.rows));
            filter.before = page.next;
            if page.next.is_none() {
                break;
            }
            assert_eq!(page.rows.len(), limit, "only the last page is short");
        }
        assert_eq!(seen, (0..120).rev().collect::<Vec<u64>>());
    }
}

fn prefixes_find_runs<S: Backend>(store: &S) {
    for n in 0..3 {
        must_start(store, row(run_id(n)));
    }
    let whole = run_id(1).to_string();
    assert_eq!(
        store.runs_with_prefix(&whole, 10).wait().unwrap(),
        [run_id(1)]
    );
    let plain = whole.replace('-', "");
    assert_eq!(
        store.runs_with_prefix(&plain, 10).wait().unwrap(),
        [run_id(1)]
    );
    let upper = plain.to_ascii_uppercase();
    let upper = &upper[..31];
    assert_eq!(
        store.runs_with_prefix(upper, 10).wait().unwrap(),
        [run_id(1)]
    );
    for length in [0, 1, 7, 8, 9, 10] {
        let found = store.runs_with_prefix(&whole[..length], 10).wait().unwrap();
        assert_eq!(found, [run_id(0), run_id(1), run_id(2)]);
    }
    assert_eq!(
        store.runs_with_prefix(&whole[..5], 2).wait().unwrap().len(),
        2
    );
    for nothing in ["ffff", "xyz", "0189-%", &format!("{whole}0")] {
        assert!(
            store
                .runs_with_prefix(nothing, 10)
                .wait()
                .unwrap()
                .is_empty()
        );
    }
}

fn unfinished_runs_are_walked_oldest_first<S: Backend>(store: &S) {
    for n in 0..30u64 {
        let status = RunStatus::ALL[n as usize % 6];
        must_start(
            store,
            RunRow {
                status,
                ..row(run_id(n))
            },
        );
    }
    let expected: Vec<u64> = (0..30).filter(|n| n % 6 < 3).collect();
    for limit in [1, 4, 100] {
        let mut after = None;
        let mut seen = Vec::new();
        loop {
            let rows = store.unfinished(after, limit).wait().unwrap();
            assert!(rows.len() <= limit);
            let Some(last) = rows.last() else { break };
            after = Some(last.run);
            seen.extend(numbers(&rows));
        }
        assert_eq!(seen, expected);
    }
}

fn logged_runs_need_no_row<S: Backend>(store: &S) {
    must_append(store, record(run_id(2), Head::NONE, 1, b"no row"));
    must_start(store, row(run_id(1)));
    must_append(store, record(run_id(3), Head::NONE, 1, b"no row"));
    assert_eq!(
        store.runs(&RunFilter::default()).wait().unwrap().rows.len(),
        1
    );
    let all = [run_id(1), run_id(2), run_id(3)];
    assert_eq!(store.logged_runs(None, 10).wait().unwrap(), all);
    assert_eq!(store.logged_runs(None, 2).wait().unwrap(), all[..2]);
    assert_eq!(
        store.logged_runs(Some(run_id(2)), 2).wait().unwrap(),
        all[2..]
    );
    must_append(
        store,
        Append {
            row: Some(row(run_id(2))),
            ..record(run_id(2), store.head(run_id(2)).wait().unwrap(), 2, b"row")
        },
    );
    assert_eq!(store.run(run_id(2)).wait().unwrap(), Some(row(run_id(2))));
}

fn link(run: u64, tenant: Option<&str>, id: &str, node: &str) -> ResourceRow {
    ResourceRow {
        tenant: tenant.map(Into::into),
        system: "jira".into(),
        kind: "issue".into(),
        id: id.into(),
        url: Some(format!("https://example.com/{id}").into()),
        run: run_id(run),
        node: node.into(),
    }
}

fn the_first_resource_link_wins<S: Backend>(store: &S) {
    let first = vec![link(1, None, "b", "n1"), link(1, None, "a", "n1")];
    let linked = |n: u64, resources| Append {
        resources,
        ..record(run_id(n), Head::NONE, n, b"linked")
    };
    must_append(store, linked(1, first.clone()));
    let second = vec![
        link(2, None, "a", "n2"),
        link(2, Some("acme"), "a", "n2"),
        link(2, None, "c", "n2"),
    ];
    must_append(store, linked(2, second.clone()));
    assert_eq!(store.resources(run_id(1)).wait().unwrap(), first);
    assert_eq!(store.resources(run_id(2)).wait().unwrap(), second[1..]);
    assert!(store.resources(run_id(3)).wait().unwrap().is_empty());
}

fn rows_are_replaced<S: Backend>(store: &S) {
    let head = must_start(store, row(run_id(1)));
    must_start(store, row(run_id(2)));
    let linked = Append {
        resources: vec![link(1, None, "a", "n"), link(1, None, "b", "n")],
        ..record(run_id(1), head, 2, b"linked")
    };
    let head = must_append(store, linked);
    let rebuilt = RunRow {
        workflow: "rebuilt".into(),
        status: RunStatus::Succeeded,
        ..row(run_id(1))
    };
    let links = vec![link(1, None, "c", "n")];
    block_on(store.replace_rows(vec![
        (rebuilt.clone(), links.clone()),
        (row(run_id(3)), Vec::new()),
    ]))
    .unwrap();
    assert_eq!(store.run(run_id(1)).wait().unwrap(), Some(rebuilt.clone()));
    assert_eq!(store.resources(run_id(1)).wait().unwrap(), links);
    assert_eq!(store.run(run_id(2)).wait().unwrap(), Some(row(run_id(2))));
    let by_name = RunFilter {
        workflow: Some("rebuilt".into()),
        ..RunFilter::default()
    };
    assert_eq!(store.runs(&by_name).wait().unwrap().rows, [rebuilt]);
    assert_eq!(
        store.logged_runs(None, 10).wait().unwrap(),
        [run_id(1), run_id(2)]
    );
    // The log is untouched: the run goes on from the same head, and one that had a row
    // but no log can be started.
    assert_eq!(store.head(run_id(1)).wait().unwrap(), head);
    must_append(store, record(run_id(1), head, 3, b"on"));
    assert_eq!(store.head(run_id(3)).wait().unwrap(), Head::NONE);
    must_start(store, row(run_id(3)));
}

fn health_says_something<S: Backend>(store: &S) {
    assert!(!store.health().wait().unwrap().facts.is_empty());
}
