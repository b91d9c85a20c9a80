//! The replicas of a NATS cluster: a server sets them as its setting says, other commands lower
//! none, and `doctor` says how it stands.

use std::thread;
use std::time::{Duration, Instant};

use windlass_store::Wait as _;
use windlass_store_nats::{NatsStore, Settings};
use windlass_test_support::nats::{OwnCluster, fresh_prefix};
use windlass_test_support::postgres;
use windlass_test_support::process::{World, ended};

/// How long the servers of a cluster may need for what they do by themselves.
const PATIENCE: Duration = Duration::from_secs(90);

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

/// The fewest and the most replicas that a stream or bucket has.
fn replicas(store: &NatsStore) -> (usize, usize) {
    let found = in_time(|| {
        let found = store.replicas_for_tests().wait();
        found.map_err(|error| error.to_string())
    });
    let counts = || found.iter().map(|(_, count)| *count);
    (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
}

#[test]
fn doctor_leaves_replicas_as_they_are_and_names_a_server_that_is_away() {
    let world = World::new();
    let mut cluster = OwnCluster::start();
    let (urls, url, prefix) = (cluster.urls(), postgres::server().fresh(), fresh_prefix());
    let settings = || {
        let database = windlass_store_postgres::Settings::parse(&url).expect("a database");
        let settings = Settings::parse(&urls, database.pool(1)).expect("servers");
        settings.prefix(&prefix).expect("a prefix").replicas(3)
    };
    let store = in_time(|| NatsStore::open(&settings()).map_err(|error| error.to_string()));
    assert_eq!(replicas(&store), (3, 3));
    let place = ["--nats-url", &urls, "--postgres-url", &url];
    let doctor = |setting: &str| {
        let mut command = world.command(&[&["doctor"][..], &place].concat());
        command.env("WINDLASS_NATS_PREFIX", &prefix);
        command.env("WINDLASS_NATS_REPLICAS", setting);
        ended(command).stdout
    };
    for setting in ["", "1"] {
        let told = doctor(setting);
        let line = told.lines().find(|line| line.contains("nats_replicas"));
        assert!(line.is_some_and(|line| line.ends_with(" 3")), "{told}");
        assert_eq!(replicas(&store), (3, 3), "{told}");
    }
    cluster.nodes[1].kill();
    let told = in_time(|| match doctor("") {
        told if told.contains("nats_offline") => Ok(told),
        told => Err(told),
    });
    assert!(told.contains("node1, with replicas of"), "{told}");
    assert!(told.contains("start that nats-server again"), "{told}");
    cluster.nodes[1].start_again();
    in_time(|| match doctor("") {
        told if told.contains("nats_offline") || told.contains("nats_behind") => Err(told),
        _ => Ok(()),
    });
    let variables = [
        ("WINDLASS_NATS_PREFIX", &*prefix),
        ("WINDLASS_NATS_REPLICAS", "1"),
    ];
    let _server = world.serve_with(&[&["--backend", "nats"][..], &place].concat(), &variables);
    assert_eq!(replicas(&store), (1, 1));
}
