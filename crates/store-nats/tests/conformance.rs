//! The NATS store passes the suite that every backend passes, on real servers.

use crate::common::{frozen, open};
use windlass_store::{Backend, conformance};
use windlass_store_nats::NatsStore;

#[test]
fn append() {
    conformance::append::all(&open);
}

#[test]
fn inbox() {
    conformance::inbox::all(&open);
}

#[test]
fn pools() {
    conformance::pools::all(&open);
}

#[test]
fn places() {
    conformance::places::all(&open);
}

#[test]
fn claim() {
    conformance::claim::all(&open);
}

#[test]
fn blob() {
    conformance::blob::all(&open);
}

#[test]
fn catalogue() {
    conformance::catalogue::all(&open);
}

#[test]
fn query() {
    conformance::query::all(&open);
}

#[test]
fn checkpoint() {
    conformance::checkpoint::all(&open);
}

#[test]
fn compact() {
    conformance::compact::all(&open);
}

#[test]
fn sleep() {
    conformance::sleep::all(&open);
}

#[test]
fn admission() {
    conformance::admission::all(&open);
}

#[test]
fn dead() {
    conformance::dead::all(&open);
}

#[test]
fn audit() {
    conformance::audit::all(&open);
}

#[test]
fn secrets() {
    conformance::secrets::all(&open);
}

#[test]
fn retention() {
    conformance::retention::all(&open);
}

#[test]
fn schedule() {
    conformance::schedule::all(&open);
}

#[test]
fn hook() {
    conformance::hook::all(&open);
}

#[test]
fn notes() {
    conformance::key_value::all(&open);
}

#[test]
fn leases() {
    conformance::leases::all(&open);
    conformance::leases::expiry(&frozen);
}

#[test]
fn work() {
    conformance::work::all(&open);
    conformance::work::expiry(&frozen);
}

#[test]
fn wakes() {
    conformance::wakes::all(&open);
}

#[test]
fn the_store_is_a_backend() {
    fn backend<S: Backend>() {}
    backend::<NatsStore>();
}
