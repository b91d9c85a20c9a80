//! A place to run the real binary in: a directory of its own, commands to the end or
//! in the background, and waiting for a line instead of for a time.

// Each test binary uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

/// Nothing here takes nearly as long; a test that does is stuck.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    folder: tempfile::TempDir,
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.stdout, self.stderr))
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.stdout, self.stderr);
        self
    }
}

/// A command under way.
pub(crate) struct Background {
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a directory"),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a definition and returns its place.
    pub(crate) fn definition(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env("NO_COLOR", "1")
            .env_remove("WINDLASS_DATA_DIR")
            .env_remove("WINDLASS_OUTPUT")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        ended(self.command(arguments))
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Background {
        self.start_with(arguments, &[])
    }

    /// Starts a command with these variables.
    pub(crate) fn start_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Background {
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

pub(crate) fn ended(mut command: Command) -> Ended {
    let output = command.output().expect("the binary runs");
    Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

impl Background {
    /// Waits for a line on stderr that contains this.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, part: &str) -> String {
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
    pub(crate) fn run_id(&mut self) -> String {
        let line = self.wait_for(" node");
        let id = line.split(' ').nth(1).expect("an id");
        id.trim_end_matches(':').to_owned()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it ends");
    }

    pub(crate) fn interrupt(&self) {
        let status = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(status.success());
    }

    pub(crate) fn end(mut self) -> Ended {
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
