//! What a process asks of the servers while it has nothing to do.

use crate::common::settings_on;
use windlass_store::{Leases as _, Partition, ProcessInfo, Wait as _};
use windlass_store_nats::NatsStore;
use windlass_test_support::nats::OwnServer;

/// Beside its heartbeat, an owner asks once for all streams of logs whether another process left
/// something behind.
#[test]
fn a_heartbeat_of_an_owner_costs_few_requests_whatever_the_number_of_streams() {
    // The server counts the requests of all its clients, so no other test may use it.
    let server = OwnServer::start();
    let store = NatsStore::open(&settings_on(&server.url()).partitions(16)).unwrap();
    let joined = store.join(&ProcessInfo::named("a"), 10_000).wait().unwrap();
    let all: Vec<Partition> = (0..16).map(Partition).collect();
    store.take(joined.session, &all).wait().unwrap();
    let counted = || store.measure_requests().wait().unwrap().requests;
    let (first, second) = (counted(), counted());
    let counting = second - first;
    let listed = store.renew_and_list(joined.session).wait().unwrap();
    assert!(listed.is_some());
    // The look is under way in the background, and over when much more has been asked.
    let third = counted();
    let asked = counted() - second - 2 * counting;
    assert!(third > second && asked <= 4, "{asked} requests");
}
