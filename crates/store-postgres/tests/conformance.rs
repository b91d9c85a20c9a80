//! The PostgreSQL store passes the suite that every backend passes, on a real server.

use crate::common::{frozen, open};
use windlass_store_postgres::PostgresStore;

fn check(rules: fn(&dyn Fn() -> PostgresStore)) {
    rules(&open);
}

windlass_store::conformance_tests!(PostgresStore, check);
windlass_store::expiry_tests!(frozen);
