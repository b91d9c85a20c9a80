//! How many servers of a cluster keep each stream and bucket: what a process that starts changes of
//! it, what health says, and what of streams that an operator changed is refused.

use std::thread;
use std::time::{Duration, Instant};

use crate::common::{settings, settings_on};
use windlass_store::conformance::{append_one, record, row, run_id};
use windlass_store::{Append, Claim, Head, Leases as _, ProcessInfo, Queries as _, Wait as _};
use windlass_store_nats::{NatsStore, OpenError, Settings};
use windlass_test_support::nats::OwnCluster;

/// How long the servers of a cluster may need for what they do by themselves.
const PATIENCE: Duration = Duration::from_secs(90);

/// A record that needs the bucket of claims.
fn claiming() -> Append {
    let run = run_id(1);
    Append {
        row: Some(row(run)),
        claims: vec![Claim {
            namespace: "request",
            key: "r".into(),
            value: run.to_string().into_bytes(),
        }],
        ..record(run, Head::NONE, 1, b"started")
    }
}

/// Asks again until there is an answer.
#[track_caller]
fn in_time<T>(mut ask: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(reason) => assert!(begun.elapsed() < PATIENCE, "{reason}"),
        }
        thread::sleep(Duration::from_millis(300));
    }
}

/// Opens a store on servers that may have to choose a leader first.
#[track_caller]
fn opened(settings: &Settings) -> NatsStore {
    in_time(|| NatsStore::open(settings).map_err(|error| error.to_string()))
}

/// Every stream and bucket has so many replicas, and health says so.
#[track_caller]
fn all_have(store: &NatsStore, replicas: usize) {
    let found = in_time(|| match store.replicas_for_tests().wait() {
        // Two streams of logs, inbox, work, leases, claims, index and objects.
        Ok(found) if found.len() == 8 => Ok(found),
        other => Err(format!("{other:?}")),
    });
    assert!(
        found.iter().all(|(_, count)| *count == replicas),
        "{found:?}"
    );
    // The servers of a stream that was raised join it one after the other.
    in_time(|| {
        let (least, missing) = (
            told(store, "nats_replicas"),
            told(store, "nats_replicas_missing"),
        );
        let is_whole = least == [replicas.to_string()] && missing.is_empty();
        is_whole
            .then_some(())
            .ok_or(format!("{least:?} {missing:?}"))
    });
}

/// What health says under a name.
fn told(store: &NatsStore, name: &str) -> Vec<String> {
    let health = in_time(|| store.health().wait().map_err(|error| error.to_string()));
    let facts = health.facts.into_iter();
    let named = facts.filter(|(known, _)| known == name);
    named.map(|(_, value)| value).collect()
}

/// A cluster that grows: one process with the setting raises everything, one without it or that is
/// no server lowers nothing, and a server that is away is named.
#[test]
fn replicas_of_all_streams_are_raised_kept_and_lowered_as_settings_say() {
    let mut cluster = OwnCluster::start();
    let unset = settings_on(&cluster.urls()).partitions(2);
    let before = opened(&unset);
    all_have(&before, 1);
    let three = unset.clone().replicas(3);
    let store = opened(&three);
    all_have(&store, 3);
    for other in [unset.clone().lower_replicas(true), unset.replicas(1)] {
        all_have(&opened(&other), 3);
    }
    // The process that was there before makes them again, when it needs them.
    drop(store);
    before.delete_stream_for_tests("KV_LEASES").wait().unwrap();
    before.delete_stream_for_tests("KV_CLAIMS").wait().unwrap();
    in_time(|| {
        let joined = before.join(&ProcessInfo::named("p"), 60_000).wait();
        joined.map_err(|error| error.to_string())
    });
    in_time(|| append_one(&before, claiming()).map_err(|error| format!("{error:?}")));
    all_have(&before, 3);

    cluster.nodes[2].kill();
    in_time(|| match &told(&before, "nats_offline")[..] {
        [named] if named.starts_with("node2, ") && named.contains("_LOG_0") => Ok(()),
        named => Err(format!("{named:?}")),
    });
    cluster.nodes[2].start_again();
    in_time(|| match told(&before, "nats_offline") {
        named if named.is_empty() => Ok(()),
        named => Err(format!("{named:?}")),
    });
    all_have(&opened(&three.replicas(1).lower_replicas(true)), 1);
}

/// The server would drop what must stay: claims, the index and values are checked like the rest.
#[test]
fn an_age_limit_of_any_bucket_is_refused_with_its_name() {
    for name in [
        "KV_CLAIMS",
        "KV_BLOB_INDEX",
        "OBJ_BLOBS",
        "KV_LEASES",
        "LOG_1",
    ] {
        let settings = settings();
        let store = NatsStore::open(&settings).unwrap();
        let most = Duration::from_secs(3600);
        store.age_stream_for_tests(name, most).wait().unwrap();
        let refused = NatsStore::open(&settings).unwrap_err();
        assert!(matches!(refused, OpenError::Refused(_)), "{refused:?}");
        let (kind, bucket) = name.split_once('_').unwrap();
        let text = refused.to_string();
        assert!(
            text.contains(kind) && text.contains(bucket),
            "{name}: {text}"
        );
    }
}
