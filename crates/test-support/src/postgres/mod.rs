//! A PostgreSQL server for tests: one for all processes of a test run, in a scratch folder, on a
//! free port, as a user other than root. It stops by itself when the last process that uses it
//! has ended, however that ended. `WINDLASS_TEST_POSTGRES` names a server that is there already.

mod durable;
mod proxy;

use std::fs::{self, File, OpenOptions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use durable::DurableServer;
pub use proxy::Proxy;

/// The variable with the URL of a server that is there already.
const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";

/// Longer than a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

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
        Err(_) => Server::join(&scratch()).expect("a PostgreSQL server for the tests"),
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

    /// Joins the server in a folder, or starts it there.
    fn join(folder: &Path) -> Result<Self, String> {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(told)?;
        let open = |name: &str| {
            let path = folder.join(name);
            OpenOptions::new().create(true).append(true).open(path)
        };
        let start = open("start.lock").map_err(told)?;
        start.lock().map_err(told)?;
        let user = open("users.lock").map_err(told)?;
        user.lock_shared().map_err(told)?;
        let noted = fs::read_to_string(folder.join("port")).ok();
        let noted = noted.and_then(|text| text.trim().parse().ok());
        let port = match noted.filter(|port| answers(*port)) {
            Some(port) => port,
            None => launch(folder)?,
        };
        Ok(Self {
            url: format!("postgres://windlass@127.0.0.1:{port}/postgres"),
            _user: Some(user),
        })
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

/// A folder that the server's own user can reach: the target folder may be closed to it.
fn scratch() -> PathBuf {
    let place = env!("CARGO_MANIFEST_DIR");
    let sum = place.bytes().fold(0u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    std::env::temp_dir().join(format!("windlass-postgres-{sum:016x}"))
}

/// The folder of PostgreSQL's programs, which are installed if there are none.
fn programs() -> Result<String, String> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let found = Command::new("sh")
        .arg(scripts().join("find.sh"))
        .arg(&target)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("sh: {error}"))?;
    if !found.status.success() {
        return Err("there is no PostgreSQL".into());
    }
    Ok(String::from_utf8_lossy(&found.stdout).trim().to_owned())
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/postgres")
}

/// Starts a server and waits until it answers; gives its port.
fn launch(folder: &Path) -> Result<u16, String> {
    let programs = programs()?;
    let port = free_port().map_err(|error| error.to_string())?;
    let log = File::create(folder.join("log")).map_err(|error| error.to_string())?;
    let errors = log.try_clone().map_err(|error| error.to_string())?;
    // In a group of its own: it outlives a test that is stopped, and ends by itself.
    Command::new("sh")
        .arg(scripts().join("serve.sh"))
        .arg(folder)
        .arg(programs)
        .arg(port.to_string())
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(|error| format!("sh: {error}"))?;
    let begun = Instant::now();
    while !(answers(port) && folder.join("data/postmaster.pid").exists() && is_ready(folder)) {
        if begun.elapsed() > PATIENCE {
            let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
            return Err(format!("PostgreSQL does not start:\n{log}"));
        }
        thread::sleep(Duration::from_millis(50));
    }
    fs::write(folder.join("port"), port.to_string()).map_err(|error| error.to_string())?;
    Ok(port)
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

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn answers(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}
