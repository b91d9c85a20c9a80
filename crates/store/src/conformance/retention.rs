//! Forgetting: a run is gone with everything of it, and nothing of another.

use crate::block_on::Wait;
use windlass_core::{Digest, Millis, RunId, RunStatus};

use super::inbox::offer;
use super::{Backend, append_one, must_append, must_start, record, row, run_id};
use crate::{
    Append, AppendError, Blob, Checkpoint, Claim, DeadLetter, Error, Head, REQUEST_CLAIM,
    ResourceRow, RunFilter, RunRow, block_on, request_key,
};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    ended_runs_are_listed_longest_ended_first(&open());
    everything_of_a_run_is_forgotten(&open());
    what_goes_on_is_not_forgotten(&open());
    a_request_id_can_be_kept(&open());
    values_stay_while_somebody_uses_them(&open());
    a_value_that_is_gone_cannot_be_referred_to(&open());
    the_next_run_begins_afresh(&open());
}

fn ended(run: RunId, at: i64) -> RunRow {
    RunRow {
        status: RunStatus::Succeeded,
        ended_at: Some(Millis(at)),
        ..row(run)
    }
}

fn value(n: u64, size: usize) -> Blob {
    let mut bytes = vec![n as u8; size];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    Blob {
        digest: Digest::of(&bytes),
        bytes: bytes.into(),
    }
}

/// A run that has ended and whose log refers to values.
fn start_with<S: Backend>(store: &S, n: u64, blobs: Vec<Blob>, uses: Vec<Digest>) -> Head {
    let append = Append {
        row: Some(ended(run_id(n), n as i64)),
        blobs,
        uses,
        ..record(run_id(n), Head::NONE, 1, b"with values")
    };
    must_append(store, append)
}

fn forget<S: Backend>(store: &S, runs: &[u64]) -> u64 {
    let runs = runs.iter().map(|n| run_id(*n)).collect();
    block_on(store.forget(runs, false)).unwrap()
}

fn ended_runs_are_listed_longest_ended_first<S: Backend>(store: &S) {
    for (n, at) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
        must_start(store, ended(run_id(n), at));
    }
    must_start(store, row(run_id(5)));
    // A child of a run that goes on is needed.
    let child = RunRow {
        parent: Some(run_id(5)),
        ..ended(run_id(6), 5)
    };
    must_start(store, child);
    let runs = |before, limit| -> Vec<RunId> {
        let rows = store.ended(Millis(before), limit).wait().unwrap();
        rows.iter().map(|row| row.run).collect()
    };
    assert_eq!(runs(30, 10), [run_id(2), run_id(4), run_id(3)]);
    assert_eq!(runs(31, 10).len(), 4);
    assert_eq!(runs(31, 2), [run_id(2), run_id(4)]);
    assert!(runs(10, 10).is_empty());
    assert_eq!(store.ended_count().wait().unwrap(), 5);
}

fn full<S: Backend>(store: &S, run: RunId) {
    let mut row = ended(run, 7);
    row.labels.insert("env".into(), "prod".into());
    let append = Append {
        row: Some(row.clone()),
        claims: vec![request_claim(&row)],
        resources: vec![resource(run)],
        ..record(run, Head::NONE, 1, b"everything")
    };
    let head = must_append(store, append);
    let state = Checkpoint {
        head,
        bytes: b"state".to_vec(),
    };
    block_on(store.put_checkpoint(run, state)).unwrap();
    block_on(store.compact(run, 1)).unwrap();
    assert!(offer(store, run, "key", b"offered"));
    let letter = DeadLetter {
        run,
        tenant: None,
        workflow: row.workflow,
        reason: "test".into(),
        payload: Vec::new(),
        deliveries: 1,
        at: Millis(1),
        damage: None,
    };
    block_on(store.add_dead_letter(letter)).unwrap();
}

fn request_claim(row: &RunRow) -> Claim {
    Claim {
        namespace: REQUEST_CLAIM,
        key: request_key(row.tenant.as_deref(), &row.workflow, &row.request_id),
        value: format!("{} and more", row.run).into_bytes(),
    }
}

fn resource(run: RunId) -> ResourceRow {
    ResourceRow {
        tenant: None,
        system: "jira".into(),
        kind: "issue".into(),
        id: run.to_string().into(),
        url: None,
        run,
        node: "n".into(),
    }
}

/// Whether each part of a run is there.
fn parts<S: Backend>(store: &S, run: RunId) -> [bool; 9] {
    let claim = request_claim(&row(run));
    let by_label = RunFilter {
        labels: [("env".into(), "prod".into())].into(),
        ..RunFilter::default()
    };
    let labelled = store.runs(&by_label).wait().unwrap().rows;
    let resource = resource(run);
    [
        store.run(run).wait().unwrap().is_some(),
        store.head(run).wait().unwrap() != Head::NONE,
        !store.read(run, 1, 1000).wait().unwrap().is_empty(),
        store.checkpoint(run).wait().unwrap().is_some(),
        labelled.iter().any(|row| row.run == run),
        !store.inbox(run).wait().unwrap().is_empty(),
        store.dead_letter(run).wait().unwrap().is_some(),
        store
            .claimed(claim.namespace, &claim.key)
            .wait()
            .unwrap()
            .is_some(),
        store
            .resource(None, &resource.system, &resource.kind, &resource.id)
            .wait()
            .unwrap()
            .is_some(),
    ]
}

fn everything_of_a_run_is_forgotten<S: Backend>(store: &S) {
    full(store, run_id(1));
    full(store, run_id(2));
    assert_eq!(parts(store, run_id(1)), [true; 9]);
    assert_eq!(forget(store, &[1, 7]), 1, "one of them is not there");
    assert_eq!(parts(store, run_id(1)), [false; 9]);
    assert_eq!(parts(store, run_id(2)), [true; 9]);
    assert_eq!(store.logged_runs(None, 10).wait().unwrap(), [run_id(2)]);
    assert_eq!(forget(store, &[1]), 0);
    block_on(store.vacuum()).unwrap();
    assert_eq!(parts(store, run_id(2)), [true; 9]);
    assert!(store.bytes().wait().unwrap() > 0);
}

fn what_goes_on_is_not_forgotten<S: Backend>(store: &S) {
    let head = must_start(store, row(run_id(1)));
    let child = RunRow {
        parent: Some(run_id(1)),
        ..ended(run_id(2), 5)
    };
    must_start(store, child);
    assert_eq!(forget(store, &[1, 2]), 0);
    assert!(store.run(run_id(1)).wait().unwrap().is_some());
    let end = Append {
        row: Some(ended(run_id(1), 9)),
        ..record(run_id(1), head, 2, b"ended")
    };
    must_append(store, end);
    assert_eq!(forget(store, &[1, 2]), 2);
}

fn a_request_id_can_be_kept<S: Backend>(store: &S) {
    full(store, run_id(1));
    full(store, run_id(2));
    let kept = block_on(store.forget(vec![run_id(1)], true)).unwrap();
    assert_eq!(kept, 1);
    let claim = request_claim(&row(run_id(1)));
    let held = store.claimed(claim.namespace, &claim.key).wait().unwrap();
    assert_eq!(held, Some(claim.value));
    // A claim that another run holds under that id stays.
    let mut other = ended(run_id(3), 1);
    other.request_id = row(run_id(2)).request_id;
    must_start(store, other);
    assert_eq!(forget(store, &[3]), 1);
    assert!(parts(store, run_id(2))[7]);
}

fn values_stay_while_somebody_uses_them<S: Backend>(store: &S) {
    for size in [5000, 300_000] {
        let n = size as u64;
        let (own, shared) = (value(n, size), value(n + 1, size));
        start_with(store, n, vec![own.clone(), shared.clone()], Vec::new());
        // One stores it again, one only refers to it.
        start_with(store, n + 1, vec![shared.clone()], Vec::new());
        start_with(store, n + 2, Vec::new(), vec![shared.digest]);
        let uses = |run, blob: &Blob| store.uses(run_id(run), &blob.digest).wait().unwrap();
        assert!(uses(n, &own) && uses(n, &shared) && uses(n + 1, &shared));
        assert!(uses(n + 2, &shared) && !uses(n + 1, &own) && !uses(n + 9, &own));
        let there = |blob: &Blob| {
            let found = store.blob(&blob.digest).wait().unwrap();
            found
                .inspect(|bytes| assert!(bytes[..] == blob.bytes[..]))
                .is_some()
        };
        assert_eq!(forget(store, &[n]), 1);
        assert!(!there(&own) && there(&shared));
        assert!(!uses(n, &shared));
        assert_eq!(forget(store, &[n + 1]), 1);
        assert!(there(&shared));
        block_on(store.vacuum()).unwrap();
        assert!(there(&shared));
        assert_eq!(forget(store, &[n + 2]), 1);
        assert!(!there(&shared));
        // It can come back.
        start_with(store, n + 3, vec![shared.clone()], Vec::new());
        assert!(there(&shared));
    }
}

fn a_value_that_is_gone_cannot_be_referred_to<S: Backend>(store: &S) {
    let gone = value(1, 100);
    start_with(store, 1, vec![gone.clone()], Vec::new());
    forget(store, &[1]);
    let append = Append {
        uses: vec![gone.digest],
        ..record(run_id(2), Head::NONE, 1, b"refers")
    };
    let refused = append_one(store, append);
    assert!(
        matches!(refused, Err(AppendError::Failed(Error::NotFound(_)))),
        "{refused:?}"
    );
    assert_eq!(store.head(run_id(2)).wait().unwrap(), Head::NONE);
}

fn the_next_run_begins_afresh<S: Backend>(store: &S) {
    for round in 0..3 {
        let head = start_with(store, 1, vec![value(round, 6000)], Vec::new());
        let head = must_append(store, record(run_id(1), head, 2, b"more"));
        assert_eq!(head.sequence, 2);
        block_on(store.compact(run_id(1), 2)).unwrap();
        assert_eq!(
            store.read(run_id(1), 1, usize::MAX).wait().unwrap().len(),
            2
        );
        assert_eq!(forget(store, &[1]), 1);
        assert!(
            store
                .read(run_id(1), 1, usize::MAX)
                .wait()
                .unwrap()
                .is_empty()
        );
    }
}
