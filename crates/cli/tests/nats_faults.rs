//! Faults under load on the NATS backend, on real processes and servers: whatever dies, stands
//! still, is cut off or loses its disk, every run that was acknowledged ends, each of its attempts
//! is recorded once, and its effects happened. `cluster_faults.rs` has the same for PostgreSQL, and
//! says what repeats a failure.

use std::thread;
use std::time::{Duration, Instant};

use windlass_store::Wait as _;
use windlass_store_nats::{NatsStore, Settings};
use windlass_test_support::nats::{OwnCluster, OwnServer, fresh_prefix, server};
use windlass_test_support::{postgres, process};

use crate::cluster_faults::{
    Chance, cut_connections, faults, kill_processes, stop_processes, tell,
};
use crate::fleet::{Fleet, NatsPlace, Place};

/// The roles of a small fleet.
const FEW: [&str; 3] = ["api", "orchestrator", "worker"];

/// An empty installation on the servers of these URLs; a single one is reached through proxies.
fn place(urls: &str, replicas: &'static str) -> Place {
    Place {
        url: postgres::server().fresh(),
        address: urls.trim_start_matches("nats://").to_owned(),
        nats: Some(NatsPlace {
            url: urls.to_owned(),
            prefix: fresh_prefix(),
            replicas,
            ack: "log",
        }),
    }
}

#[test]
fn killed_processes_on_nats_lose_and_double_nothing() {
    kill_processes(
        "nats-processes-killed",
        place(server().url(), "1"),
        faults(4),
    );
}

#[test]
fn processes_on_nats_that_stand_still_past_their_lease_change_nothing() {
    stop_processes(
        "nats-processes-stopped",
        place(server().url(), "1"),
        faults(2),
    );
}

#[test]
fn cut_connections_to_nats_leave_no_record_unresolved() {
    cut_connections("nats-cut", place(server().url(), "1"), faults(14));
}

#[test]
fn a_killed_nats_server_loses_nothing_that_was_acknowledged() {
    let mut chance = Chance::new("nats-killed");
    let mut nats = OwnServer::start();
    let fleet = Fleet::start(place(&nats.url(), "1"), &FEW);
    let load = fleet.load(2);
    let count = faults(2);
    for _ in 0..count {
        load.accept(3);
        chance.pause(300);
        nats.kill();
        chance.pause(1_000);
        nats.start_again();
    }
    load.accept(3);
    for member in &fleet.members {
        let probes = member.probes();
        probes.until("/health/ready", |status, _| status == 200);
    }
    tell("nats-killed", count, &fleet, load);
}

/// The store of a fleet, opened by the test beside it, once its servers have chosen their leaders.
fn beside(place: &Place) -> NatsStore {
    let nats = place.nats.as_ref().expect("NATS");
    let database = windlass_store_postgres::Settings::parse(&place.url).expect("a database");
    let settings = Settings::parse(&nats.url, database.pool(1)).expect("servers");
    let settings = settings.prefix(&nats.prefix).expect("a prefix");
    let settings = settings.replicas(nats.replicas.parse().expect("a number"));
    let begun = Instant::now();
    loop {
        match NatsStore::open(&settings) {
            Ok(store) => return store,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(300), "{error}"),
        }
        thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn a_killed_node_and_moved_leaders_of_a_nats_cluster_lose_nothing() {
    let mut chance = Chance::new("nats-node-killed");
    let mut nats = OwnCluster::start();
    let place = place(&nats.urls(), "3");
    let store = beside(&place);
    let fleet = Fleet::start(place, &FEW);
    let load = fleet.load(2);
    let count = faults(2);
    for turn in 0..count {
        load.accept(3);
        chance.pause(300);
        // A leader that is just being chosen cannot step down; the kill below moves it too.
        let _ = store.move_leaders_for_tests().wait();
        chance.pause(300);
        let node = &mut nats.nodes[turn % 3];
        node.kill();
        // Two of three go on.
        load.accept(3);
        node.start_again();
    }
    load.accept(3);
    tell("nats-node-killed", count, &fleet, load);
}

/// The queue has given items to workers that die with them: it gives them to others.
#[test]
fn work_of_killed_workers_on_nats_is_handed_out_again() {
    let mut chance = Chance::new("nats-redelivered");
    let roles = ["api", "orchestrator", "worker", "worker"];
    let mut fleet = Fleet::start(place(server().url(), "1"), &roles);
    let store = beside(fleet.place());
    let load = fleet.load(3);
    let count = faults(2);
    for _ in 0..count {
        load.accept(2);
        // Some worker has an item.
        let is_leased = || {
            let depth = windlass_store::WorkQueue::queue_depth(&store, 100).wait();
            depth.is_ok_and(|kinds| kinds.iter().any(|kind| kind.leased > 0))
        };
        while !is_leased() {
            thread::sleep(Duration::from_millis(2));
        }
        let worker = chance.of(&fleet.with_role("worker"));
        fleet.replace_killed(worker);
    }
    load.accept(3);
    tell("nats-redelivered", count, &fleet, load);
}

/// Everything that NATS has stored is deleted under load, with all processes killed at the same
/// moment: starts were acknowledged when the database had them, so none is lost.
#[test]
fn a_nats_store_that_is_deleted_is_rebuilt_without_losing_a_run() {
    let mut chance = Chance::new("nats-store-deleted");
    let mut nats = OwnServer::start();
    let mut place = place(&nats.url(), "1");
    if let Some(nats) = &mut place.nats {
        nats.ack = "projected";
    }
    let mut fleet = Fleet::start(place, &FEW);
    let load = fleet.load(2);
    let count = faults(2);
    for _ in 0..count {
        load.accept(4);
        chance.pause(300);
        let roles = fleet.kill_all();
        nats.kill();
        nats.lose_everything();
        nats.start_again();
        rebuild(fleet.place());
        for role in roles {
            fleet.add(role);
        }
    }
    load.accept(3);
    tell("nats-store-deleted", count, &fleet, load);
}

/// What the operator runs; no run and no value is named as lost.
fn rebuild(place: &Place) {
    let nats = place.nats.as_ref().expect("NATS");
    let world = process::World::new();
    let mut command = world.command(&[
        "rebuild",
        "--from",
        "postgres",
        "--nats-url",
        &nats.url,
        "--postgres-url",
        &place.url,
    ]);
    command.env("WINDLASS_NATS_PREFIX", &nats.prefix);
    process::ended(command).expect(0);
}
