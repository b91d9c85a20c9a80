//! A PostgreSQL server for tests: one for all processes of a test run, in a scratch folder, on a
//! free port, as a user other than root. It stops by itself when the last process that uses it
//! has ended, however that ended. `WINDLASS_TEST_POSTGRES` names a server that is there already.

mod durable;
mod proxy;

use std::fs::{self, File};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::shared_server::{SharedServer, free_port};
pub use durable::DurableServer;
pub use proxy::Proxy;

/// The variable with the URL of a server that is there already.
const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";

/// Longer than a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

const SHARED: SharedServer = SharedServer {
    name: "postgres",
    title: "PostgreSQL",
    patience: PATIENCE,
    is_ready,
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
/// If there is no PostgreSQL and none can be installed: then no test can pass.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| match std::env::var(VARIABLE) {
        Ok(url) => Server { url, _user: None },
        Err(_) => {
            let (port, user) = SHARED.join().expect("a PostgreSQL server for the tests");
            Server {
                url: format!("postgres://windlass@127.0.0.1:{port}/postgres"),
                _user: Some(user),
            }
        }
    })
}

impl Server {
    /// The URL of its database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        let rest = self.url.split_once('@').map_or(&*self.url, |it| it.1);
        rest.split('/').next().unwrap_or_default().to_owned()
    }

    /// The URL with a schema that no test has used.
    pub fn fresh(&self) -> String {
        self.at(&self.address())
    }

    /// The same through another address, such as a proxy's.
    pub fn at(&self, address: &str) -> String {
        let url = self.url.replacen(&self.address(), address, 1);
        let mark = if url.contains('?') { '&' } else { '?' };
        format!("{url}{mark}schema={}", fresh_schema())
    }
}

/// A name that no other test uses, in this process or another.
fn fresh_schema() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = std::time::UNIX_EPOCH
        .elapsed()
        .map_or(0, |since| since.as_micros());
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("t{}_{since}_{count}", std::process::id())
}

/// The folder of PostgreSQL's programs, which are installed if there are none.
fn programs() -> Result<String, String> {
    SHARED.program()
}

/// Whether the server says that it takes connections.
fn is_ready(folder: &Path) -> bool {
    let told = fs::read_to_string(folder.join("data/postmaster.pid"));
    told.is_ok_and(|text| {
        text.lines()
            .nth(7)
            .is_some_and(|line| line.trim() == "ready")
    })
}
