//! Servers: where their programs are, found or installed by the scripts of the tests; and those that
//! a benchmark needs, started by the same scripts with the settings of production: in a scratch
//! folder, on a free port. They stop when they are dropped, or when this process ends, however it ends.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

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
        Starting::launch(root, kind, (sync, ""))?.until_it_answers()
    }
}

/// Three nats-servers that know each other, for as long as this is held.
#[derive(Debug)]
pub(crate) struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    /// With the server's own `sync_interval` of two minutes: the replicas are what is durable.
    ///
    /// # Errors
    /// There is no nats-server and none could be installed, or they do not form a cluster.
    pub(crate) fn start(root: &Path) -> Result<Self> {
        let routes = (0..3).map(|_| free_port()).collect::<Result<Vec<_>>>()?;
        let pages = (0..3).map(|_| free_port()).collect::<Result<Vec<_>>>()?;
        let mut all = String::new();
        for route in &routes {
            // Writing to a string cannot fail.
            let _ = write!(all, "\"nats://127.0.0.1:{route}\",");
        }
        let mut starting = Vec::new();
        for (number, (route, page)) in routes.iter().zip(&pages).enumerate() {
            let more = format!(
                "server_name: node{number}\nhttp: \"127.0.0.1:{page}\"\ncluster {{\n name: bench\n \
                 listen: \"127.0.0.1:{route}\"\n routes: [{all}]\n}}\n"
            );
            starting.push(Starting::launch(root, "nats", ("2m", &more))?);
        }
        // Each may wait for the others.
        let servers = starting.into_iter().map(Starting::until_it_answers);
        let servers = servers.collect::<Result<_>>()?;
        let begun = Instant::now();
        while !(0..)
            .zip(&pages)
            .any(|(number, page)| leads_all(number, *page))
        {
            if begun.elapsed() > PATIENCE {
                bail!("the nats-servers do not form a cluster");
            }
            thread::sleep(Duration::from_millis(200));
        }
        Ok(Self { servers })
    }

    /// The URLs of all servers, separated by commas.
    pub(crate) fn urls(&self) -> String {
        let urls = self
            .servers
            .iter()
            .map(|it| format!("nats://{}", it.address));
        urls.collect::<Vec<_>>().join(",")
    }
}

/// Whether the server of this number and monitoring port leads the cluster, and the others are up to
/// date.
fn leads_all(number: usize, port: u16) -> bool {
    let page = || -> Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"GET /jsz HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").context("no body")?.1;
        Ok(serde_json::from_str(body)?)
    };
    let Ok(page) = page() else { return false };
    let cluster = &page["meta_cluster"];
    let others = cluster["replicas"].as_array();
    cluster["leader"] == format!("node{number}")
        && others.is_some_and(|it| it.len() == 2 && it.iter().all(|other| other["current"] == true))
}

/// A server that has been launched.
struct Starting {
    kind: String,
    address: String,
    folder: PathBuf,
    serving: Child,
    user: File,
}

impl Starting {
    /// With more lines in its configuration.
    fn launch(root: &Path, kind: &str, (sync, more): (&str, &str)) -> Result<Self> {
        let program = program(root, kind)?;
        let port = free_port()?;
        let folder = scratch(kind, port)?;
        fs::write(folder.join("more.conf"), more)?;
        let user = File::create(folder.join("users.lock"))?;
        user.lock_shared()?;
        let log = File::create(folder.join("log"))?;
        // In a group of its own: it ends by itself, also if this process is interrupted.
        let serving = Command::new("sh")
            .arg(scripts(root, kind).join("serve.sh"))
            .args([&folder, Path::new(&program)])
            .args([&port.to_string(), sync])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("sh could not be started")?;
        Ok(Self {
            kind: kind.to_owned(),
            address: format!("127.0.0.1:{port}"),
            folder,
            serving,
            user,
        })
    }

    fn until_it_answers(mut self) -> Result<Server> {
        let begun = Instant::now();
        while TcpStream::connect(&self.address).is_err() {
            if begun.elapsed() > PATIENCE || self.serving.try_wait()?.is_some() {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                bail!("{} does not start:\n{log}", self.kind);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(Server {
            address: self.address,
            _user: self.user,
        })
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
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
