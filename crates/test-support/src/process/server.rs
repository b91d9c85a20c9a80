//! The real server on a directory of its own.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::Ordering;

use serde_json::Value;

use super::{Client, Ended, World, send_signal};

/// One node that says what it was given.
pub const ECHO: &str = r#"{
  "id": "echo",
  "nodes": [{ "id": "say", "actionType": "core.echo",
              "parameters": { "said": "{{ trigger.say ?? 'nothing' }}" } }]
}"#;

/// Waits for the signal `go`, then says what came with it.
pub const WAIT: &str = r#"{
  "id": "wait",
  "nodes": [
    { "id": "gate", "waitForSignal": { "name": "go" } },
    { "id": "after", "dependsOn": ["gate"], "actionType": "core.echo",
      "parameters": { "got": "{{ context.data['gate'] }}" } }
  ]
}"#;

/// Fails in its middle, however often it is tried.
pub const FAIL: &str = r#"{
  "id": "fail",
  "nodes": [
    { "id": "good", "actionType": "core.echo" },
    { "id": "bad", "dependsOn": ["good"], "actionType": "core.fail" },
    { "id": "last", "dependsOn": ["bad"], "actionType": "core.echo" }
  ]
}"#;

impl World {
    /// A token of a key file here, which is made with the first.
    pub fn token(&self, subject: &str, tenant: Option<&str>, scopes: &str) -> String {
        let mut arguments = vec!["token", "--key", "keys.json", "--subject", subject];
        arguments.extend(["--scope", scopes]);
        if let Some(tenant) = tenant {
            arguments.extend(["--tenant", tenant]);
        }
        self.run(&arguments).expect(0).stdout.trim().to_owned()
    }

    /// A server on a free port, without tokens.
    pub fn serve(&self) -> ServerProcess {
        self.serve_with(&[], &[])
    }

    /// A server with these arguments and variables; it answers on return.
    pub fn serve_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> ServerProcess {
        self.serve_at("127.0.0.1:0", arguments, variables)
    }

    /// A server that listens here; it answers on return.
    pub fn serve_at(
        &self,
        address: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> ServerProcess {
        let number = self.servers.fetch_add(1, Ordering::Relaxed);
        let log = self.path().join(format!("server-{number}.log"));
        let mut child = self
            .command(&["serve", "--listen", address, "--json"])
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
        // A process without the API role has none.
        let url = said["url"].as_str().unwrap_or_default();
        let probes = said["probeUrl"].as_str();
        ServerProcess {
            address: url.trim_start_matches("http://").to_owned(),
            url: url.to_owned(),
            probes: probes.map(|url| url.trim_start_matches("http://").to_owned()),
            child,
            log,
        }
    }
}

/// A server that has these workflows, and a client without a token.
pub fn serving(definitions: &[&str]) -> (World, ServerProcess, Client) {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for definition in definitions {
        client.publish(definition);
    }
    (world, server, client)
}

/// A server under way; dropping it kills it.
pub struct ServerProcess {
    child: Child,
    /// Where commands find it.
    pub url: String,
    address: String,
    probes: Option<String>,
    log: PathBuf,
}

impl ServerProcess {
    /// A client without a token.
    pub fn client(&self) -> Client {
        Client::new(&self.address, None)
    }

    pub fn client_with(&self, token: &str) -> Client {
        Client::new(&self.address, Some(token))
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Runs a command against it.
    pub fn run(&self, world: &World, arguments: &[&str]) -> Ended {
        let mut all = vec!["--server", &self.url];
        all.extend(arguments);
        world.run(&all)
    }

    /// Where it answers probes alone.
    pub fn probes(&self) -> Option<&str> {
        self.probes.as_deref()
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// What it logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a file")
    }

    /// Asks it to stop, without waiting.
    pub fn ask_to_stop(&self) {
        send_signal("-TERM", &self.child);
    }

    /// Waits for its end and gives its exit code.
    pub fn ended(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }

    /// Stops it as an operator does.
    #[track_caller]
    pub fn stop(self) {
        self.ask_to_stop();
        let log = self.log.clone();
        let code = self.ended();
        let log = || fs::read_to_string(log).unwrap_or_default();
        assert_eq!(code, Some(0), "{}", log());
    }

    /// Kills it with SIGKILL, without a clean stop.
    pub fn kill(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it ends");
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
