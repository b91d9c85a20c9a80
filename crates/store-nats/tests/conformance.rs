//! The NATS store passes the suite that every backend passes, on real servers.

use crate::common::{frozen, open};
use windlass_store_nats::NatsStore;

fn check(rules: fn(&dyn Fn() -> NatsStore)) {
    rules(&open);
}

windlass_store::conformance_tests!(NatsStore, check);
windlass_store::expiry_tests!(frozen);
