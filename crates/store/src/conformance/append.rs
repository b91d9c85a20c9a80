//! The log: fenced, all or nothing, in order, chained.

use super::inbox::offer;
use super::{Backend, append_one, must_append, record, row, run_id};
use crate::block_on::Wait;
use crate::{Append, AppendError, Blob, Claim, Head, ResourceRow, block_on, checksum};
use windlass_core::Digest;

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    a_new_run_has_no_head(&open());
    records_come_back_in_order(&open());
    a_stale_head_conflicts(&open());
    a_head_of_another_chain_conflicts(&open());
    a_conflict_stores_nothing(&open());
    a_conflict_does_not_abort_others(&open());
    one_batch_can_extend_a_run_twice(&open());
    reading_is_paged(&open());
    the_chain_is_the_published_one(&open());
    any_bytes_are_kept(&open());
    many_runs_do_not_mix(&open());
    an_empty_batch_is_nothing(&open());
}

fn a_new_run_has_no_head<S: Backend>(store: &S) {
    assert_eq!(store.head(run_id(1)).wait().unwrap(), Head::NONE);
    assert!(store.read(run_id(1), 1, 1 << 20).wait().unwrap().is_empty());
}

fn records_come_back_in_order<S: Backend>(store: &S) {
    let run = run_id(1);
    let mut head = Head::NONE;
    for n in 1..=20u64 {
        head = must_append(store, record(run, head, 100 + n, &n.to_le_bytes()));
        assert_eq!(head.sequence, n);
        assert_eq!(head.append_id, 100 + n);
        assert_eq!(
            store.head(run).wait().unwrap(),
            head,
            "a read sees what was acknowledged"
        );
    }
    let records = store.read(run, 1, usize::MAX).wait().unwrap();
    assert_eq!(records.len(), 20);
    for (record, n) in records.iter().zip(1u64..) {
        assert_eq!(record.sequence, n);
        assert_eq!(record.append_id, 100 + n);
        assert_eq!(record.writer.0, 7);
        assert_eq!(record.bytes, n.to_le_bytes());
    }
    assert_eq!(records[19].head(), head);
}

fn a_stale_head_conflicts<S: Backend>(store: &S) {
    let run = run_id(1);
    let first = must_append(store, record(run, Head::NONE, 1, b"1"));
    let second = must_append(store, record(run, first, 2, b"2"));
    for stale in [Head::NONE, first] {
        match append_one(store, record(run, stale, 3, b"3")) {
            Err(AppendError::Conflict(head)) => assert_eq!(head, second),
            other => panic!("a stale head must conflict, not {other:?}"),
        }
    }
    let ahead = Head {
        sequence: 3,
        ..second
    };
    assert!(matches!(
        append_one(store, record(run, ahead, 3, b"3")),
        Err(AppendError::Conflict(_))
    ));
    assert_eq!(store.head(run).wait().unwrap(), second);
    assert_eq!(store.read(run, 1, usize::MAX).wait().unwrap().len(), 2);
}

fn a_head_of_another_chain_conflicts<S: Backend>(store: &S) {
    let run = run_id(1);
    let head = must_append(store, record(run, Head::NONE, 1, b"1"));
    let other = Head {
        chain: [9; 16],
        ..head
    };
    match append_one(store, record(run, other, 2, b"2")) {
        Err(AppendError::Conflict(found)) => assert_eq!(found, head),
        answer => panic!("another chain must conflict, not {answer:?}"),
    }
    match append_one(store, record(run_id(2), head, 2, b"2")) {
        Err(AppendError::Conflict(found)) => assert_eq!(found, Head::NONE),
        answer => panic!("a run that does not exist has no head: {answer:?}"),
    }
    assert_eq!(store.head(run_id(2)).wait().unwrap(), Head::NONE);
}

/// An append that would leave traces everywhere.
fn laden(run: windlass_core::RunId, head: Head) -> Append {
    Append {
        row: Some(row(run)),
        claims: vec![Claim {
            namespace: "request",
            key: "laden".into(),
            value: b"mine".to_vec(),
        }],
        resources: vec![ResourceRow {
            tenant: None,
            system: "jira".into(),
            kind: "issue".into(),
            id: "W-1".into(),
            url: None,
            run,
            node: "n".into(),
        }],
        blobs: vec![Blob {
            digest: Digest::of(b"laden"),
            bytes: b"laden"[..].into(),
        }],
        consumed: vec!["signal".into()],
        ..record(run, head, 9, b"laden")
    }
}

fn a_conflict_stores_nothing<S: Backend>(store: &S) {
    let run = run_id(1);
    let head = must_append(store, record(run, Head::NONE, 1, b"1"));
    assert!(offer(store, run, "signal", b"s"));
    let refused = append_one(store, laden(run, Head::NONE));
    assert!(matches!(refused, Err(AppendError::Conflict(_))));
    assert_eq!(store.head(run).wait().unwrap(), head);
    assert_eq!(store.run(run).wait().unwrap(), None);
    assert_eq!(store.claimed("request", "laden").wait().unwrap(), None);
    assert!(store.resources(run).wait().unwrap().is_empty());
    assert_eq!(store.inbox(run).wait().unwrap().len(), 1);

    must_append(store, laden(run, head));
    assert_eq!(store.run(run).wait().unwrap(), Some(row(run)));
    assert_eq!(
        store.claimed("request", "laden").wait().unwrap(),
        Some(b"mine".to_vec())
    );
    assert_eq!(store.resources(run).wait().unwrap().len(), 1);
    assert!(store.inbox(run).wait().unwrap().is_empty());
    let value = store.blob(&Digest::of(b"laden")).wait().unwrap();
    assert_eq!(value, Some(b"laden".to_vec()));
}

fn a_conflict_does_not_abort_others<S: Backend>(store: &S) {
    let head = must_append(store, record(run_id(2), Head::NONE, 1, b"1"));
    let batch = vec![
        record(run_id(1), Head::NONE, 2, b"new"),
        record(run_id(2), Head::NONE, 3, b"stale"),
        record(run_id(3), Head::NONE, 4, b"new"),
        record(run_id(2), head, 5, b"good"),
    ];
    let answers = block_on(store.append(batch));
    assert_eq!(answers.len(), 4, "one answer for each append");
    assert!(answers[0].is_ok() && answers[2].is_ok() && answers[3].is_ok());
    assert!(matches!(answers[1], Err(AppendError::Conflict(found)) if found == head));
    for n in [1, 2, 3] {
        let head = store.head(run_id(n)).wait().unwrap();
        assert_eq!(head.sequence, if n == 2 { 2 } else { 1 });
    }
    assert_eq!(
        store.read(run_id(2), 2, 1).wait().unwrap()[0].bytes,
        b"good"
    );
}

fn one_batch_can_extend_a_run_twice<S: Backend>(store: &S) {
    let first = record(run_id(1), Head::NONE, 1, b"1");
    let head = checksum::next_head(&first);
    let twin = record(run_id(1), Head::NONE, 3, b"twin");
    let batch = vec![first, record(run_id(1), head, 2, b"2"), twin];
    let answers = block_on(store.append(batch));
    assert!(answers[0].is_ok() && answers[1].is_ok());
    assert!(matches!(answers[2], Err(AppendError::Conflict(head)) if head.sequence == 2));
    assert_eq!(
        store.read(run_id(1), 1, usize::MAX).wait().unwrap().len(),
        2
    );
}

fn reading_is_paged<S: Backend>(store: &S) {
    let run = run_id(1);
    let mut head = Head::NONE;
    for n in 0..10u8 {
        head = must_append(store, record(run, head, n.into(), &[n; 100]));
    }
    for max_bytes in [0, 1, 100, 101, 250, 1000, usize::MAX] {
        let mut from = 1;
        let mut seen = Vec::new();
        loop {
            let page = store.read(run, from, max_bytes).wait().unwrap();
            let Some(last) = page.last() else { break };
            let bytes: usize = page.iter().map(|record| record.bytes.len()).sum();
            assert!(
                page.len() == 1 || bytes <= max_bytes.saturating_add(100),
                "about max_bytes: {bytes} for {max_bytes}"
            );
            from = last.sequence + 1;
            seen.extend(page.into_iter().map(|record| record.bytes[0]));
        }
        assert_eq!(seen, (0..10).collect::<Vec<u8>>());
    }
    assert_eq!(store.read(run, 10, 1).wait().unwrap().len(), 1);
    assert!(store.read(run, 11, 1).wait().unwrap().is_empty());
    assert!(store.read(run, u64::MAX, 1).wait().unwrap().is_empty());
}

fn the_chain_is_the_published_one<S: Backend>(store: &S) {
    let run = run_id(1);
    let first = must_append(store, record(run, Head::NONE, 1, b"one"));
    must_append(store, record(run, first, 2, b"two"));
    let records = store.read(run, 1, usize::MAX).wait().unwrap();
    let mut previous = Head::NONE.chain;
    for record in &records {
        assert!(checksum::fits(record, &previous));
        previous = record.chain;
    }
    assert_eq!(store.head(run).wait().unwrap().chain, previous);
}

fn any_bytes_are_kept<S: Backend>(store: &S) {
    let run = run_id(1);
    let mut head = Head::NONE;
    let sizes = [0, 1, 900, 1100, 4000, 4200, 70_000, 512 * 1024];
    for (n, size) in sizes.iter().enumerate() {
        let bytes: Vec<u8> = (0..*size).map(|at| (at * 31 + n) as u8).collect();
        head = must_append(store, record(run, head, n as u64, &bytes));
        let back = store.read(run, head.sequence, 1).wait().unwrap();
        assert!(back[0].bytes == bytes, "{size} bytes come back");
    }
    let extremes = record(run, head, u64::MAX, b"");
    let extremes = Append {
        writer: crate::WriterId(u64::MAX),
        ..extremes
    };
    let head = must_append(store, extremes);
    assert_eq!(head.append_id, u64::MAX);
    assert_eq!(store.head(run).wait().unwrap(), head);
    let all = store.read(run, 1, usize::MAX).wait().unwrap();
    assert_eq!(all.len(), sizes.len() + 1);
    assert_eq!(all[sizes.len()].writer.0, u64::MAX);
}

fn many_runs_do_not_mix<S: Backend>(store: &S) {
    let mut heads = vec![Head::NONE; 20];
    for round in 0..5u64 {
        let batch = heads.iter().zip(0u64..).map(|(head, n)| {
            let text = format!("{n}/{round}");
            record(run_id(n), *head, round, text.as_bytes())
        });
        let answers = block_on(store.append(batch.collect()));
        for (head, answer) in heads.iter_mut().zip(answers) {
            *head = answer.unwrap().head;
        }
    }
    for (head, n) in heads.iter().zip(0u64..) {
        let records = store.read(run_id(n), 1, usize::MAX).wait().unwrap();
        assert_eq!(records.len(), 5);
        assert_eq!(records[4].head(), *head);
        for (record, round) in records.iter().zip(0..) {
            assert_eq!(record.bytes, format!("{n}/{round}").into_bytes());
        }
    }
}

fn an_empty_batch_is_nothing<S: Backend>(store: &S) {
    assert!(block_on(store.append(Vec::new())).is_empty());
}
