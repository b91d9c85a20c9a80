//! Servers of a test's own, which it stops, kills and starts again.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{free_port, fresh_prefix, program, wait_for};

/// A server of one test; it ends with this value.
#[derive(Debug)]
pub struct OwnServer {
    folder: PathBuf,
    port: u16,
    config: String,
    child: Option<Child>,
}

impl OwnServer {
    /// Starts a server that syncs every message.
    pub fn start() -> Self {
        Self::with("")
    }

    /// The same with more lines in its configuration.
    pub fn with(more: &str) -> Self {
        let mut server = Self::prepared(more);
        server.start_again();
        server
    }

    fn prepared(more: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("windlass-nats-{}", fresh_prefix()));
        fs::create_dir_all(&folder).expect("a folder");
        let port = free_port().expect("a port");
        let store = folder.join("data");
        let config = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{\n store_dir: \"{}\"\n \
             sync_interval: always\n}}\n{more}\n",
            store.display()
        );
        Self {
            folder,
            port,
            config,
            child: None,
        }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Lets it hang, as a machine that swaps.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let child = self.child.as_ref().expect("it runs");
        let id = child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.expect("kill").success(), "it cannot be signalled");
    }

    /// Starts it on what it had stored.
    pub fn start_again(&mut self) {
        self.kill();
        self.launch();
        wait_for(self.port).expect("it answers");
    }

    fn launch(&mut self) {
        let file = self.folder.join("server.conf");
        fs::write(&file, &self.config).expect("a configuration");
        let log = fs::File::create(self.folder.join("log")).expect("a log");
        let child = Command::new(program().expect("nats-server"))
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("it starts"));
    }

    /// The folder of what it has stored.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Removes everything that it has stored; it must have ended.
    pub fn lose_everything(&self) {
        assert!(self.child.is_none(), "it runs");
        let _ = fs::remove_dir_all(self.data());
    }
}

/// The streams of a server at a moment.
#[derive(Debug)]
pub struct StreamsCopy(PathBuf);

impl OwnServer {
    fn streams(&self) -> PathBuf {
        self.data().join("jetstream/$G/streams")
    }

    /// Copies its streams; it must have ended.
    pub fn copy_streams(&self) -> StreamsCopy {
        assert!(self.child.is_none(), "it runs");
        let copy = self.folder.join(format!("copy-{}", fresh_prefix()));
        copy_folder(&self.streams(), &copy);
        StreamsCopy(copy)
    }

    /// Puts the streams back whose names these are, as they were; it must have ended.
    pub fn put_back(&self, copy: &StreamsCopy, is_one: impl Fn(&str) -> bool) {
        assert!(self.child.is_none(), "it runs");
        for entry in fs::read_dir(&copy.0).expect("a copy").flatten() {
            let name = entry.file_name();
            if is_one(&name.to_string_lossy()) {
                let there = self.streams().join(&name);
                let _ = fs::remove_dir_all(&there);
                copy_folder(&entry.path(), &there);
            }
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy_folder(&from, &to),
            false => drop(fs::copy(from, to).expect("a file")),
        }
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A cluster of three servers.
#[derive(Debug)]
pub struct OwnCluster {
    /// The servers.
    pub nodes: Vec<OwnServer>,
}

impl OwnCluster {
    /// Starts three servers that know each other.
    pub fn start() -> Self {
        let routes: Vec<u16> = (0..3).map(|_| free_port().expect("a port")).collect();
        let mut all = String::new();
        for route in &routes {
            let _ = write!(all, "\"nats://127.0.0.1:{route}\",");
        }
        let nodes = routes.iter().enumerate().map(|(number, route)| {
            OwnServer::prepared(&format!(
                "server_name: node{number}\ncluster {{\n name: test\n \
                 listen: \"127.0.0.1:{route}\"\n routes: [{all}]\n}}"
            ))
        });
        let mut nodes: Vec<OwnServer> = nodes.collect();
        // All at once: each waits for the others.
        nodes.iter_mut().for_each(OwnServer::launch);
        for node in &nodes {
            wait_for(node.port).expect("it answers");
        }
        Self { nodes }
    }

    /// The URLs of all servers.
    pub fn urls(&self) -> String {
        let urls: Vec<String> = self.nodes.iter().map(OwnServer::url).collect();
        urls.join(",")
    }
}
