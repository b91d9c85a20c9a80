//! The server under question: the real binary on a data directory that has something to
//! look at, stopped by its own process id.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Examples that are run to their end, well or not, before the server starts.
const ENDED: [&str; 6] = [
    "linear.json",
    "diamond.json",
    "switch.yaml",
    "for-each.json",
    "retry.json",
    "saga.json",
];

/// Examples that the server finds half-way: one waits for a signal.
const QUEUED: [&str; 2] = ["approval.json", "linear.json"];

pub(super) struct Server {
    child: Child,
    url: String,
    log: PathBuf,
    runs: Vec<String>,
    workflows: Vec<String>,
    token: String,
}

impl Server {
    /// Fills a new data directory in a scratch folder and serves it.
    pub(super) fn start(binary: &Path, root: &Path, scratch: &Path) -> Result<Self> {
        if scratch.exists() {
            fs::remove_dir_all(scratch).context("the scratch folder cannot be emptied")?;
        }
        fs::create_dir_all(scratch).context("the scratch folder cannot be made")?;
        let windlass = |arguments: &[&str]| {
            let mut command = Command::new(binary);
            command.args(arguments).current_dir(scratch);
            command
                .env("WINDLASS_DATA_DIR", "data")
                .env("WINDLASS_LOG", "warn");
            command.stdin(Stdio::null());
            command
        };
        let examples = root.join("examples");
        let example = |name: &str| examples.join(name).display().to_string();
        for name in ENDED {
            let ended = windlass(&["run", &example(name), "--json"]).output()?;
            // Some of them fail on purpose.
            if !matches!(ended.status.code(), Some(0 | 1)) {
                let message = String::from_utf8_lossy(&ended.stderr);
                bail!("the example {name} did not run: {message}");
            }
        }
        for name in QUEUED {
            json(windlass(&["run", &example(name), "--detach", "--json"]))?;
        }
        let runs = json(windlass(&["runs", "--json"]))?;
        let workflows = json(windlass(&["workflows", "--json"]))?;
        let token = ["token", "--key", "keys.json", "--scope", "admin", "--json"];
        let token = json(windlass(&token))?;
        let token = token["token"].as_str().context("there is no token")?;
        let log = scratch.join("server.log");
        let mut child = windlass(&["serve", "--listen", "127.0.0.1:0", "--json"])
            .args(["--auth-keys", "keys.json"])
            .env("WINDLASS_RATE_PER_MINUTE", "0")
            .stdout(Stdio::piped())
            .stderr(File::create(&log).context("the log cannot be written")?)
            .spawn()
            .context("the server could not be started")?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("the server has no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line)
            .with_context(|| format!("the server did not start; its log is {}", log.display()))?;
        let url = said["url"]
            .as_str()
            .context("the server names no address")?;
        Ok(Self {
            url: url.to_owned(),
            child,
            log,
            runs: column(&runs, "executionId"),
            workflows: column(&workflows, "workflowId"),
            token: token.to_owned(),
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The header of a caller that may do everything, so that the tool can test its absence.
    pub(super) fn authorization(&self) -> String {
        format!("Authorization: Bearer {}", self.token)
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// The tool's settings: most ids that it sends exist, and streams of events, which end
    /// only with their runs, are left after a few.
    pub(super) fn settings(&self) -> String {
        let mut settings = String::from("max-stream-events = 3\n");
        // What is too long is refused for that, whatever else is wrong with it.
        settings.push_str(
            "[checks.negative_data_rejection]\nexpected-statuses = [400, 401, 403, 404, 405, 406, \
             409, 413, 414, 415, 422, 428, 429, 431]\n",
        );
        for (name, values) in [("runs", &self.runs), ("workflows", &self.workflows)] {
            let list = serde_json::json!(values);
            let _ = writeln!(settings, "[dictionaries.{name}]\nvalues = {list}");
        }
        for (part, name) in [("executions", "runs"), ("workflows", "workflows")] {
            let _ = writeln!(
                settings,
                "[[operations]]\ninclude-path-regex = \"^/api/v1/{part}/\\\\{{id\\\\}}\"\n\
                 [operations.parameters]\n\
                 \"path.id\" = {{ dictionary = \"{name}\", probability = 0.8 }}"
            );
        }
        settings
    }

    /// Asks the server to stop, which it must do with exit code 0.
    pub(super) fn stop(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = self.log.display();
            bail!("the server ended by itself with {status}; its log is {log}");
        }
        let process = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &process]).status();
        if !asked.is_ok_and(|status| status.success()) {
            self.child.kill()?;
        }
        let status = self.child.wait()?;
        if !status.success() {
            bail!(
                "the server ended with {status}; its log is {}",
                self.log.display()
            );
        }
        Ok(())
    }
}

impl Drop for Server {
    /// A run that failed half-way leaves no server behind.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn json(mut command: Command) -> Result<Value> {
    let output = command
        .output()
        .context("the binary could not be started")?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn column(page: &Value, key: &str) -> Vec<String> {
    let items = page["items"].as_array().into_iter().flatten();
    items
        .filter_map(|item| Some(item[key].as_str()?.to_owned()))
        .collect()
}
