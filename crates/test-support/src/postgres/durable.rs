//! A PostgreSQL server of one test alone, with the settings of production (`fsync` is on), which
//! the test kills and starts again.

use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{PATIENCE, free_port, programs};

/// The server, which ends with this; its data goes with it.
pub struct DurableServer {
    folder: PathBuf,
    programs: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl DurableServer {
    /// Makes a database and serves it.
    ///
    /// # Panics
    /// If there is no PostgreSQL, or it does not start.
    pub fn start() -> Self {
        let number = free_port().expect("a free port");
        let name = format!("windlass-durable-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let mut server = Self {
            programs: programs().expect("PostgreSQL").into(),
            folder,
            port: number,
            process: None,
        };
        if let Some(user) = other_user() {
            std::os::unix::fs::chown(&server.folder, Some(user.0), Some(user.1)).expect("its own");
        }
        let made = server
            .command("initdb")
            .arg("-D")
            .arg(server.data())
            .args(["-U", "windlass", "-A", "trust", "-E", "UTF8", "--locale=C"])
            .stdout(Stdio::null())
            .status();
        assert!(made.expect("initdb runs").success());
        server.serve();
        server
    }

    /// The URL of its database, in a schema of this name.
    pub fn url(&self) -> String {
        let address = self.address();
        format!("postgres://windlass@{address}/postgres?schema=windlass")
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Kills it with SIGKILL: nothing is written any more. Its children end by themselves.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().expect("it lives");
        process.wait().expect("it ends");
    }

    /// Serves the same data again; returns when it takes connections.
    ///
    /// # Panics
    /// If it does not start.
    pub fn serve(&mut self) {
        let begun = Instant::now();
        loop {
            let log = File::create(self.folder.join("log")).expect("a file");
            let mut process = self
                .command("postgres")
                .arg("-D")
                .arg(self.data())
                .args(["-p", &self.port.to_string(), "-k"])
                .arg(&self.folder)
                .args(["-c", "listen_addresses=127.0.0.1"])
                .args(["-c", "max_connections=200", "-c", "shared_buffers=64MB"])
                .stderr(log)
                .spawn()
                .expect("postgres runs");
            while matches!(process.try_wait(), Ok(None)) {
                if self.is_ready() {
                    self.process = Some(process);
                    return;
                }
                thread::sleep(Duration::from_millis(20));
            }
            // Children of one that was killed hold its memory for a moment.
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "PostgreSQL ends:\n{log}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn is_ready(&self) -> bool {
        super::is_ready(&self.folder) && TcpStream::connect(self.address()).is_ok()
    }

    /// One of its programs, as a user other than root, which PostgreSQL refuses.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.folder).stdin(Stdio::null());
        if let Some((user, group)) = other_user() {
            command.uid(user).gid(group);
        }
        command
    }
}

impl Drop for DurableServer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let id = process.id().to_string();
            // An immediate stop.
            let _ = Command::new("kill").args(["-QUIT", &id]).status();
            let _ = process.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The user that it runs as, where this process is root's.
fn other_user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    if id(&["-u"]) != Some(0) {
        return None;
    }
    let user = |name: &str| Some((id(&["-u", name])?, id(&["-g", name])?));
    user("postgres").or_else(|| user("nobody"))
}
