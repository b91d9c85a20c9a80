//! `core.exec`: runs a program, without a shell.

use std::collections::BTreeMap;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use windlass_engine::{Action, ActionError, Context, Reply};

/// Variables of Windlass that no program gets. The database's URL may hold its password.
const OURS: [&str; 3] = [
    "WINDLASS_TOKEN",
    "WINDLASS_SEALING_KEY",
    "WINDLASS_POSTGRES_URL",
];

/// How much a program may write, on both streams together.
const MAX_OUTPUT_BYTES: usize = 8 * 1024 * 1024;

/// Runs a program.
#[derive(Clone, Copy, Debug)]
pub struct Exec;

/// What to run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// The program: a path, or a name to look up.
    program: String,
    /// Its arguments, passed as they are; there is no shell.
    #[serde(default)]
    args: Vec<String>,
    /// Given to its standard input: a string as it is, any other value as JSON.
    #[serde(default)]
    stdin: Option<Value>,
    /// Added to this process's environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The program's own time; the node's timeout holds as well.
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// What it did.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Its exit code; 0.
    exit_code: i32,
    /// What it wrote to its standard output.
    stdout: String,
    /// What it wrote to its standard error.
    stderr: String,
}

impl Action for Exec {
    type Parameters = Parameters;
    type Output = Output;

    fn name(&self) -> &str {
        "core.exec"
    }

    fn description(&self) -> &str {
        "Runs a program without a shell; an exit code other than 0 fails, and can be retried."
    }

    async fn run(
        &self,
        context: Context,
        parameters: Parameters,
    ) -> Result<Reply<Output>, ActionError> {
        let time = parameters
            .timeout_ms
            .map_or(Duration::MAX, Duration::from_millis);
        let child = spawn(&context, &parameters)?;
        // Dropped on every path, so that a timeout or an abandoned attempt leaves nothing
        // behind, neither the program nor the processes that it started.
        let group = Group::of(&child);
        let ended = tokio::time::timeout(time, finish(child, parameters.stdin));
        tokio::pin!(ended);
        let mut stopping = false;
        let ended = loop {
            tokio::select! {
                ended = &mut ended => break ended,
                // The program is asked to end, not killed: an output within the grace counts.
                () = context.stop_asked(), if !stopping => {
                    stopping = true;
                    group.terminate();
                }
            }
        };
        drop(group);
        match ended {
            Ok(ended) => {
                let ended = ended?;
                if stopping && !ended.status.success() {
                    return Err(ActionError::stopped());
                }
                conclude(&parameters.program, ended)
            }
            Err(_) => {
                let message = format!("'{}' did not end in its time", parameters.program);
                Err(ActionError::retriable("TIMEOUT", message))
            }
        }
    }
}

/// The program and all processes that it started, as one process group.
struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

impl Group {
    fn of(child: &Child) -> Self {
        #[cfg(unix)]
        let leader = child
            .id()
            .and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        #[cfg(not(unix))]
        let _ = child;
        Self {
            #[cfg(unix)]
            leader,
        }
    }

    /// Asks all its processes to end.
    fn terminate(&self) {
        #[cfg(unix)]
        if let Some(leader) = self.leader {
            // It is no error if no process is left.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::TERM);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(leader) = self.leader {
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

fn spawn(context: &Context, parameters: &Parameters) -> Result<Child, ActionError> {
    let mut command = Command::new(&parameters.program);
    // The environment of this process may hold secrets; a program gets only those that the
    // node gives it.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("WINDLASS_SECRET_") || OURS.contains(&&*text) {
            command.env_remove(&name);
        }
    }
    #[cfg(unix)]
    command.process_group(0);
    command
        .args(&parameters.args)
        .envs(&parameters.env)
        .env("WINDLASS_RUN_ID", context.run.to_string())
        .env("WINDLASS_NODE", &*context.node)
        .env("WINDLASS_ATTEMPT", context.attempt.to_string())
        .env("WINDLASS_IDEMPOTENCY_KEY", &context.idempotency_key)
        .stdin(if parameters.stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            let message = format!("'{}' cannot be started: {error}", parameters.program);
            match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
                    ActionError::failed("EXEC_NOT_STARTED", message)
                }
                _ => ActionError::retriable("EXEC_NOT_STARTED", message),
            }
        })
}

struct Ended {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Feeds and drains the program at the same time, so that neither waits for the other.
async fn finish(mut child: Child, stdin: Option<Value>) -> Result<Ended, ActionError> {
    let lost = |error: io::Error| ActionError::retriable("EXEC_FAILED", error.to_string());
    let input = stdin.map(|value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    });
    let (pipe, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let (Some(mut pipe), Some(input)) = (pipe, input) {
            // A program need not read all it is given.
            let _ = pipe.write_all(input.as_bytes()).await;
        }
    };
    let ((), stdout, stderr) = tokio::join!(feed, drain(out), drain(err));
    let (stdout, stderr) = (stdout.map_err(lost)?, stderr.map_err(lost)?);
    if stdout.len() + stderr.len() > MAX_OUTPUT_BYTES {
        let message = format!("the program wrote more than {MAX_OUTPUT_BYTES} bytes");
        return Err(ActionError::failed("OUTPUT_LIMIT", message));
    }
    let status = child.wait().await.map_err(lost)?;
    Ok(Ended {
        status,
        stdout,
        stderr,
    })
}

async fn drain(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream
            .take(MAX_OUTPUT_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .await?;
    }
    Ok(bytes)
}

fn conclude(program: &str, ended: Ended) -> Result<Reply<Output>, ActionError> {
    let output = Output {
        exit_code: ended.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&ended.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&ended.stderr).into_owned(),
    };
    if ended.status.success() {
        return Ok(Reply::new(output));
    }
    let message = format!(
        "'{program}' ended with {}{}",
        ended.status,
        last_line(&output.stderr)
    );
    Err(ActionError::retriable("EXEC_FAILED", message).with_details(&output))
}

/// The last line of standard error usually says why a program failed.
fn last_line(stderr: &str) -> String {
    let line = stderr.lines().rev().find(|line| !line.trim().is_empty());
    line.map(|line| format!(": {}", line.trim()))
        .unwrap_or_default()
}
