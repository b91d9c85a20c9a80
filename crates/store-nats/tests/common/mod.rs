//! Stores under prefixes and schemas of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use windlass_store::Error;
use windlass_store_nats::{NatsStore, Settings};
use windlass_test_support::nats::fresh_prefix;
use windlass_test_support::{nats, postgres};

/// The settings of an empty installation on a server.
pub(crate) fn settings_on(url: &str) -> Settings {
    let database = postgres::server().fresh();
    let database = windlass_store_postgres::Settings::parse(&database).unwrap();
    Settings::parse(url, database.pool(2))
        .unwrap()
        .prefix(&fresh_prefix())
        .unwrap()
        .partitions(4)
        .blob_grace(Duration::ZERO)
}

/// The settings of an empty installation.
pub(crate) fn settings() -> Settings {
    settings_on(nats::server().url())
}

/// A store on servers that may choose their leaders first.
pub(crate) fn opened(settings: &Settings) -> NatsStore {
    let begun = Instant::now();
    loop {
        match NatsStore::open(settings) {
            Ok(store) => return store,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(90), "{error}"),
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// A store in an empty installation.
pub(crate) fn open() -> NatsStore {
    NatsStore::open(&settings()).unwrap()
}

/// A store whose leases expire when the test says so: the second of the pair lets so many
/// milliseconds pass.
pub(crate) fn frozen() -> (NatsStore, impl Fn(u64)) {
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let store = NatsStore::open(&settings().test_clock(Arc::clone(&clock))).unwrap();
    let pass = move |millis: u64| {
        clock.fetch_add(millis, Ordering::Relaxed);
    };
    (store, pass)
}

/// Repeats what fails because a stream or the server is away, as a caller of the API does; it must fail so, and
/// with nothing else.
#[track_caller]
pub(crate) fn in_time<T>(mut ask: impl FnMut() -> Result<T, Error>) -> T {
    let begun = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(Error::Unavailable(text)) => {
                assert!(begun.elapsed() < Duration::from_secs(240), "{text}");
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}
