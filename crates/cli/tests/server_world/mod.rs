//! The real server on a directory of its own, and a client that sees every byte.

// Each test binary uses a part of it.
#![allow(dead_code)]

mod client;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

#[allow(unused_imports)]
pub(crate) use client::{Answer, Client, Stream};

/// One node that says what it was given.
pub(crate) const ECHO: &str = r#"{
  "id": "echo",
  "nodes": [{ "id": "say", "actionType": "core.echo",
              "parameters": { "said": "{{ trigger.say ?? 'nothing' }}" } }]
}"#;

/// Waits for the signal `go`, then says what came with it.
pub(crate) const WAIT: &str = r#"{
  "id": "wait",
  "nodes": [
    { "id": "gate", "waitForSignal": { "name": "go" } },
    { "id": "after", "dependsOn": ["gate"], "actionType": "core.echo",
      "parameters": { "got": "{{ context.data['gate'] }}" } }
  ]
}"#;

/// Fails in its middle, however often it is tried.
pub(crate) const FAIL: &str = r#"{
  "id": "fail",
  "nodes": [
    { "id": "good", "actionType": "core.echo" },
    { "id": "bad", "dependsOn": ["good"], "actionType": "core.fail" },
    { "id": "last", "dependsOn": ["bad"], "actionType": "core.echo" }
  ]
}"#;

pub(crate) struct World {
    folder: tempfile::TempDir,
    logs: AtomicU32,
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.stdout, self.stderr);
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.stdout, self.stderr))
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a directory"),
            logs: AtomicU32::new(0),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("WINDLASS_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        let output = self.command(arguments).output().expect("the binary runs");
        Ended {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// A token of a key file here, which is made with the first.
    pub(crate) fn token(&self, subject: &str, tenant: Option<&str>, scopes: &str) -> String {
        let mut arguments = vec!["token", "--key", "keys.json", "--subject", subject];
        arguments.extend(["--scope", scopes]);
        if let Some(tenant) = tenant {
            arguments.extend(["--tenant", tenant]);
        }
        self.run(&arguments).expect(0).stdout.trim().to_owned()
    }

    /// A server on a free port, without tokens.
    pub(crate) fn serve(&self) -> Server {
        self.serve_with(&[], &[])
    }

    /// A server with these arguments and variables; it answers on return.
    pub(crate) fn serve_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Server {
        let number = self.logs.fetch_add(1, Ordering::Relaxed);
        let log = self.path().join(format!("server-{number}.log"));
        let mut child = self
            .command(&["serve", "--listen", "127.0.0.1:0", "--json"])
            .args(arguments)
            .env("WINDLASS_LOG_FORMAT", "json")
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("a file"))
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("text");
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let log = fs::read_to_string(&log).unwrap_or_default();
            panic!("the server did not start: {line}{log}")
        });
        let url = said["url"].as_str().expect("an address");
        let probes = said["probeUrl"].as_str();
        Server {
            address: url.trim_start_matches("http://").to_owned(),
            probes: probes.map(|url| url.trim_start_matches("http://").to_owned()),
            child,
            log,
        }
    }
}

/// A server under way; dropping it kills it.
pub(crate) struct Server {
    child: Child,
    address: String,
    probes: Option<String>,
    log: PathBuf,
}

impl Server {
    /// A client without a token.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.address, None)
    }

    pub(crate) fn client_with(&self, token: &str) -> Client {
        Client::new(&self.address, Some(token))
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Where it answers probes alone.
    pub(crate) fn probes(&self) -> Option<&str> {
        self.probes.as_deref()
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// What it logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a file")
    }

    /// Asks it to stop, without waiting.
    pub(crate) fn ask_to_stop(&self) {
        let status = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(status.success());
    }

    /// Waits for its end and gives its exit code.
    pub(crate) fn ended(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }

    /// Stops it as an operator does.
    #[track_caller]
    pub(crate) fn stop(self) {
        self.ask_to_stop();
        let log = self.log.clone();
        let code = self.ended();
        let log = || fs::read_to_string(log).unwrap_or_default();
        assert_eq!(code, Some(0), "{}", log());
    }

    /// Kills it as nobody should.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
