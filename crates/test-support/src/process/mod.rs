//! A place to run the real binary in: a directory of its own, commands to the end or
//! in the background, and waiting for a line instead of for a time. For tests of the
//! package that builds the binary: cargo has built it before they run.

mod client;
mod server;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

pub use client::{Client, HttpAnswer, Stream, StreamEvent};
pub use server::{ECHO, FAIL, ServerProcess, WAIT, serving};

/// Nothing here takes nearly as long; a test that does is stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory of its own, removed at the end.
pub struct World {
    folder: tempfile::TempDir,
    /// How many servers were started here.
    servers: AtomicU32,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// How a command ended.
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// A command under way.
pub struct Background {
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
}

impl World {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a directory"),
            servers: AtomicU32::new(0),
        }
    }

    /// A directory with these files.
    pub fn with_files(files: &[(&str, &str)]) -> Self {
        let world = Self::new();
        for (name, text) in files {
            world.definition(name, text);
        }
        world
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a definition and returns its place.
    pub fn definition(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = windlass();
        command.args(arguments).current_dir(self.path());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        ended(self.command(arguments))
    }

    pub fn start(&self, arguments: &[&str]) -> Background {
        self.start_with(arguments, &[])
    }

    /// Starts a command with these variables.
    pub fn start_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Background {
        let mut child = self
            .command(arguments)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Background {
            child,
            lines,
            heard: Vec::new(),
        }
    }
}

/// The binary, without a terminal, and without settings of this process.
pub fn windlass() -> Command {
    let mut command = Command::new(binary());
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WINDLASS_") {
            command.env_remove(name);
        }
    }
    command
}

/// Cargo puts the binary beside the folder of the tests, which this one runs in.
fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.ancestors().nth(2).expect("a target folder");
    folder.join(format!("windlass{}", std::env::consts::EXE_SUFFIX))
}

/// Runs a command to its end.
pub fn ended(mut command: Command) -> Ended {
    Ended::new(command.output().expect("the binary runs"))
}

impl Ended {
    /// How a process ended that wrote text.
    pub fn new(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// It failed with this exit code and error code, and wrote no data.
    #[track_caller]
    pub fn failed(&self, exit: i32, code: &str) {
        assert_eq!(self.code, exit, "{}\n{}", self.stdout, self.stderr);
        let forms = [
            format!("error[{code}]"),
            format!("{{\"error\":{{\"code\":\"{code}\""),
        ];
        let is_said = forms.iter().any(|form| self.stderr.contains(form));
        assert!(is_said, "{}", self.stderr);
        assert_eq!(self.stdout, "");
    }

    /// What it wrote, as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.stdout, self.stderr))
    }

    /// The run that it wrote about, in JSON.
    #[track_caller]
    pub fn run_id(&self) -> String {
        let json = self.json();
        let id = json["executionId"].as_str();
        id.unwrap_or_else(|| panic!("no run in {json}")).to_owned()
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.stdout, self.stderr);
        self
    }
}

/// Sends a signal, by the name that `kill` knows.
fn send_signal(signal: &str, child: &Child) {
    let id = child.id().to_string();
    let status = Command::new("kill").args([signal, &id]).status();
    assert!(status.expect("kill runs").success());
}

impl Background {
    /// Waits for a line on stderr that contains this.
    #[track_caller]
    pub fn wait_for(&mut self, part: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.heard.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("no '{part}' in {:#?}", self.heard),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("ended without '{part}': {:#?}", self.heard)
                }
            }
        }
    }

    /// The id that the first line names.
    #[track_caller]
    pub fn run_id(&mut self) -> String {
        let line = self.wait_for(" node");
        let id = line.split(' ').nth(1).expect("an id");
        id.trim_end_matches(':').to_owned()
    }

    pub fn kill(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it ends");
    }

    pub fn interrupt(&self) {
        send_signal("-INT", &self.child);
    }

    pub fn end(mut self) -> Ended {
        let mut stdout = String::new();
        let mut pipe = self.child.stdout.take().expect("a pipe");
        pipe.read_to_string(&mut stdout).expect("text");
        let status = self.child.wait().expect("it ends");
        let mut stderr = self.heard;
        stderr.extend(self.lines.iter());
        Ended {
            code: status.code().unwrap_or(-1),
            stdout,
            stderr: stderr.join("\n"),
        }
    }
}
