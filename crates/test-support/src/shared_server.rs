//! A server that all processes of a test run share: in a scratch folder, on a free loopback port. The
//! first process starts it by the script of its folder; it stops by itself when the last process that
//! uses it has ended, however that ended. What kind of server it is, this file does not know.

use std::fs::{self, File, OpenOptions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A kind of server: `find.sh` in its folder prints where its program is, and installs it if there
/// is none; `serve.sh FOLDER PROGRAM PORT` serves while a process has a lock on the folder's users.
pub(crate) struct SharedServer {
    /// Its folder beside this file, and in the name of its scratch folder.
    pub(crate) name: &'static str,
    /// For people, if it is missing.
    pub(crate) title: &'static str,
    /// Longer than a slow machine needs to start it.
    pub(crate) patience: Duration,
    /// Whether it takes connections, once its port answers.
    pub(crate) is_ready: fn(&Path) -> bool,
}

impl SharedServer {
    /// Joins the server of this test run, or starts it; gives its port, and what is held for as
    /// long as this process uses it.
    pub(crate) fn join(&self) -> Result<(u16, File), String> {
        let folder = self.scratch();
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(told)?;
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
            None => self.launch(&folder)?,
        };
        Ok((port, user))
    }

    /// A folder that the server's own user can reach: the target folder may be closed to it.
    fn scratch(&self) -> PathBuf {
        let place = env!("CARGO_MANIFEST_DIR");
        let sum = place.bytes().fold(0u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        std::env::temp_dir().join(format!("windlass-{}-{sum:016x}", self.name))
    }

    /// Where its program is, or the folder of its programs.
    pub(crate) fn program(&self) -> Result<String, String> {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        let found = Command::new("sh")
            .arg(self.scripts().join("find.sh"))
            .arg(&target)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("sh: {error}"))?;
        if !found.status.success() {
            return Err(format!("there is no {}", self.title));
        }
        Ok(String::from_utf8_lossy(&found.stdout).trim().to_owned())
    }

    fn scripts(&self) -> PathBuf {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        sources.join(self.name)
    }

    /// Starts a server and waits until it answers; gives its port.
    fn launch(&self, folder: &Path) -> Result<u16, String> {
        let program = self.program()?;
        let port = free_port().map_err(|error| error.to_string())?;
        let log = File::create(folder.join("log")).map_err(|error| error.to_string())?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        // In a group of its own: it outlives a test that is stopped, and ends by itself.
        Command::new("sh")
            .arg(self.scripts().join("serve.sh"))
            .arg(folder)
            .arg(program)
            .arg(port.to_string())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("sh: {error}"))?;
        let is_up = || answers(port) && (self.is_ready)(folder);
        wait_until(self.patience, is_up).map_err(|()| {
            let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
            format!("{} does not start:\n{log}", self.title)
        })?;
        fs::write(folder.join("port"), port.to_string()).map_err(|error| error.to_string())?;
        Ok(port)
    }
}

/// Waits until something is so, for a time.
pub(crate) fn wait_until(patience: Duration, is_so: impl Fn() -> bool) -> Result<(), ()> {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > patience {
            return Err(());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

pub(crate) fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

pub(crate) fn answers(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}
