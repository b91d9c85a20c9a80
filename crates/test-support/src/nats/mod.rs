//! A nats-server with JetStream for tests: one for all processes of a test run, in a scratch
//! folder, on a free loopback port, which syncs every message. It stops by itself when the last
//! process that uses it has ended, however that ended. `WINDLASS_TEST_NATS` names a server that is
//! there already. [`OwnServer`] is for tests that stop their server.

mod own;

use std::fs::File;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::shared_server::{SharedServer, answers, free_port, wait_until};
pub use own::{OwnCluster, OwnServer, StreamsCopy};

/// The variable with the URL of a server that is there already.
const VARIABLE: &str = "WINDLASS_TEST_NATS";

const SHARED: SharedServer = SharedServer {
    name: "nats",
    title: "nats-server",
    patience: Duration::from_secs(60),
    is_ready: |_| true,
};

/// A server that tests may use.
#[derive(Debug)]
pub struct Server {
    url: String,
    /// Held for as long as this process uses the server.
    _user: Option<File>,
}

/// The server of this test run; started if there is none.
///
/// # Panics
/// If there is no nats-server and none can be installed: then no test can pass.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| match std::env::var(VARIABLE) {
        Ok(url) => Server { url, _user: None },
        Err(_) => {
            let (port, user) = SHARED.join().expect("a nats-server for the tests");
            Server {
                url: format!("nats://127.0.0.1:{port}"),
                _user: Some(user),
            }
        }
    })
}

/// A prefix that no other test uses, in this process or another.
pub fn fresh_prefix() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = std::time::UNIX_EPOCH
        .elapsed()
        .map_or(0, |since| since.as_micros() % 10_000_000_000);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("t{}-{since}-{count}", std::process::id())
}

impl Server {
    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// The path of nats-server, which is installed if there is none.
fn program() -> Result<String, String> {
    SHARED.program()
}

fn wait_for(port: u16) -> Result<(), ()> {
    wait_until(SHARED.patience, || answers(port))
}
