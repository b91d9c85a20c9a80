//! Claims: won together with their append, or nothing of it happens.

use super::{Backend, append_one, must_append, record, row, run_id};
use crate::block_on::Wait;
use crate::{Append, AppendError, Claim, Head, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    the_first_value_wins(&open());
    a_held_claim_stores_nothing(&open());
    a_batch_claims_in_order(&open());
    namespaces_are_apart(&open());
}

fn claim(namespace: &'static str, key: &str, value: &[u8]) -> Claim {
    Claim {
        namespace,
        key: key.into(),
        value: value.to_vec(),
    }
}

fn claiming(n: u64, claims: Vec<Claim>) -> Append {
    Append {
        claims,
        row: Some(row(run_id(n))),
        ..record(run_id(n), Head::NONE, n, b"claiming")
    }
}

fn the_first_value_wins<S: Backend>(store: &S) {
    assert_eq!(store.claimed("request", "r").wait().unwrap(), None);
    must_append(store, claiming(1, vec![claim("request", "r", b"one")]));
    match append_one(store, claiming(2, vec![claim("request", "r", b"two")])) {
        Err(AppendError::Held { namespace, value }) => {
            assert_eq!(namespace, "request");
            assert_eq!(value, b"one");
        }
        other => panic!("a held claim must refuse, not {other:?}"),
    }
    assert_eq!(
        store.claimed("request", "r").wait().unwrap(),
        Some(b"one".to_vec())
    );
}

fn a_held_claim_stores_nothing<S: Backend>(store: &S) {
    must_append(store, claiming(1, vec![claim("request", "held", b"one")]));
    let claims = vec![
        claim("request", "free", b"two"),
        claim("request", "held", b"two"),
    ];
    assert!(matches!(
        append_one(store, claiming(2, claims)),
        Err(AppendError::Held { .. })
    ));
    assert_eq!(store.claimed("request", "free").wait().unwrap(), None);
    assert_eq!(store.head(run_id(2)).wait().unwrap(), Head::NONE);
    assert_eq!(store.run(run_id(2)).wait().unwrap(), None);
    assert!(
        store
            .logged_runs(Some(run_id(1)), 10)
            .wait()
            .unwrap()
            .is_empty()
    );
    must_append(store, claiming(2, vec![claim("request", "free", b"2")]));
}

fn a_batch_claims_in_order<S: Backend>(store: &S) {
    let batch = vec![
        claiming(1, vec![claim("request", "r", b"one")]),
        claiming(2, vec![claim("request", "r", b"two")]),
        claiming(3, vec![claim("request", "s", b"three")]),
    ];
    let answers = block_on(store.append(batch));
    assert!(answers[0].is_ok() && answers[2].is_ok());
    assert!(matches!(&answers[1], Err(AppendError::Held { value, .. }) if value == b"one"));
    assert_eq!(store.head(run_id(2)).wait().unwrap(), Head::NONE);
}

fn namespaces_are_apart<S: Backend>(store: &S) {
    must_append(store, claiming(1, vec![claim("request", "k", b"1")]));
    must_append(store, claiming(2, vec![claim("resource", "k", b"2")]));
    assert_eq!(
        store.claimed("resource", "k").wait().unwrap(),
        Some(b"2".to_vec())
    );
    assert_eq!(store.claimed("other", "k").wait().unwrap(), None);
}
