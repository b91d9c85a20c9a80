//! A nats-server with JetStream for tests: one for all processes of a test run, in a scratch
//! folder, on a free loopback port, which syncs every message. It stops by itself when the last
//! process that uses it has ended, however that ended. `WINDLASS_TEST_NATS` names a server that is
//! there already. [`OwnServer`] is for tests that stop their server.

mod own;

use std::fs::{self, File, OpenOptions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use own::{OwnCluster, OwnServer};

/// The variable with the URL of a server that is there already.
const VARIABLE: &str = "WINDLASS_TEST_NATS";

/// Longer than a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

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
        Err(_) => Server::join(&scratch()).expect("a nats-server for the tests"),
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
            url: format!("nats://127.0.0.1:{port}"),
            _user: Some(user),
        })
    }
}

fn scratch() -> PathBuf {
    let place = env!("CARGO_MANIFEST_DIR");
    let sum = place.bytes().fold(0u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    std::env::temp_dir().join(format!("windlass-nats-{sum:016x}"))
}

/// The path of nats-server, which is installed if there is none.
fn program() -> Result<String, String> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let found = Command::new("sh")
        .arg(scripts().join("find.sh"))
        .arg(&target)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("sh: {error}"))?;
    if !found.status.success() {
        return Err("there is no nats-server".into());
    }
    Ok(String::from_utf8_lossy(&found.stdout).trim().to_owned())
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/nats")
}

/// Starts a server and waits until it answers; gives its port.
fn launch(folder: &Path) -> Result<u16, String> {
    let program = program()?;
    let port = free_port().map_err(|error| error.to_string())?;
    let log = File::create(folder.join("log")).map_err(|error| error.to_string())?;
    let errors = log.try_clone().map_err(|error| error.to_string())?;
    // In a group of its own: it outlives a test that is stopped, and ends by itself.
    Command::new("sh")
        .arg(scripts().join("serve.sh"))
        .arg(folder)
        .arg(program)
        .arg(port.to_string())
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(|error| format!("sh: {error}"))?;
    wait_for(port).map_err(|()| {
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        format!("nats-server does not start:\n{log}")
    })?;
    fs::write(folder.join("port"), port.to_string()).map_err(|error| error.to_string())?;
    Ok(port)
}

fn wait_for(port: u16) -> Result<(), ()> {
    let begun = Instant::now();
    while !answers(port) {
        if begun.elapsed() > PATIENCE {
            return Err(());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn answers(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}
