//! Servers: where their programs are, found or installed by the scripts of the tests; and those that
//! a benchmark needs, started by the same scripts with the settings of production: in a scratch
//! folder, on a free port. They stop when they are dropped, or when this process ends, however it ends.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::api::target;
use crate::test::retried;

/// Longer than a slow machine needs to start one.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server, for as long as this is held.
#[derive(Debug)]
pub(crate) struct Server {
    /// Where it listens: host and port.
    pub(crate) address: String,
    /// The script stops the server when this lock is given back.
    _user: File,
}

impl Server {
    /// PostgreSQL, which syncs its commits.
    ///
    /// # Errors
    /// There is none and none could be installed, or it does not start.
    pub(crate) fn postgres(root: &Path) -> Result<Self> {
        Self::start(root, "postgres", "on")
    }

    /// A nats-server with this `sync_interval`.
    ///
    /// # Errors
    /// There is none and none could be installed, or it does not start.
    pub(crate) fn nats(root: &Path, sync_interval: &str) -> Result<Self> {
        Self::start(root, "nats", sync_interval)
    }

    fn start(root: &Path, kind: &str, sync: &str) -> Result<Self> {
        let program = program(root, kind)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let folder = scratch(kind, port)?;
        let user = File::create(folder.join("users.lock"))?;
        user.lock_shared()?;
        let log = File::create(folder.join("log"))?;
        // In a group of its own: it ends by itself, also if this process is interrupted.
        let mut serving = Command::new("sh")
            .arg(scripts(root, kind).join("serve.sh"))
            .args([&folder, Path::new(&program)])
            .args([&port.to_string(), sync])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("sh could not be started")?;
        let address = format!("127.0.0.1:{port}");
        let begun = Instant::now();
        while TcpStream::connect(&address).is_err() {
            if begun.elapsed() > PATIENCE || serving.try_wait()?.is_some() {
                let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                bail!("{kind} does not start:\n{log}");
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(Self {
            address,
            _user: user,
        })
    }
}

/// The folder of the scripts that find, install and start a kind of program.
fn scripts(root: &Path, kind: &str) -> PathBuf {
    root.join("crates/test-support/src").join(kind)
}

/// Where the program of a kind is, or the folder of its programs; installed if there is none.
///
/// # Errors
/// There is none and none could be installed; the script has said what to do.
pub(crate) fn program(root: &Path, kind: &str) -> Result<String> {
    let (script, target) = (scripts(root, kind).join("find.sh"), target(root)?);
    retried(|| {
        let found = Command::new("sh")
            .arg(&script)
            .arg(&target)
            .stderr(Stdio::inherit())
            .output()
            .context("sh could not be started")?;
        if !found.status.success() {
            bail!("{kind} is missing and could not be installed");
        }
        Ok(String::from_utf8_lossy(&found.stdout).trim().to_owned())
    })
}

/// A folder that the server's own user can reach: the target folder may be closed to it.
fn scratch(kind: &str, port: u16) -> Result<PathBuf> {
    let name = format!("windlass-bench-{kind}-{}-{port}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}
