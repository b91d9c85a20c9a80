//! What processes say to each other: a request, and a stream of answers, one JSON
//! object a line. The bodies of a start follow its line, by their lengths.

use std::collections::BTreeMap;
use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use windlass_core::definition::Json;
use windlass_core::run::{Instance, Standing};
use windlass_core::{NodeStatus, RunId, RunStatus};

use crate::catalogue::Rebuilt;
use crate::deed::{Deed, Doing};
use crate::exit::{Exit, Failure};
use crate::forking::ForkAsked;
use crate::progress::Phase;

/// The version of the protocol; another one is refused by name.
pub(crate) const VERSION: u32 = 1;

/// The longest line. Answers that list nodes are the longest there are.
pub(crate) const LINE_BYTES: usize = 4 * 1024 * 1024;

/// A request with its version.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) v: u32,
    #[serde(flatten)]
    pub(crate) request: Request,
}

/// What a process asks of the one that holds the data directory.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "camelCase")]
pub(crate) enum Request {
    /// Whether anybody is there.
    Ping,
    /// Start a run.
    Start(Box<StartAsked>),
    /// Tell what happens to a run until its end.
    Watch { run: RunId },
    /// Do something to a run. What belongs to it follows the line.
    #[serde(rename_all = "camelCase")]
    Act {
        run: RunId,
        #[serde(flatten)]
        deed: Deed,
        body_bytes: usize,
        reason: Option<String>,
    },
    /// Start a run from an old one.
    Fork(Box<ForkAsked>),
    /// Add a definition to the catalogue. Its bytes follow the line.
    #[serde(rename_all = "camelCase")]
    Publish { definition_bytes: usize },
    /// Allow or refuse new runs of a workflow.
    SetEnabled { workflow: String, enabled: bool },
    /// Make anew what derives from the logs.
    Rebuild,
}

impl Request {
    /// Asks for something to be done to a run; its body is sent after it.
    pub(crate) fn act(run: RunId, doing: &Doing) -> Self {
        Self::Act {
            run,
            deed: doing.deed.clone(),
            body_bytes: doing.body.len(),
            reason: doing.reason.clone(),
        }
    }
}

/// A start. The definition's and the trigger's bytes follow the line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartAsked {
    pub(crate) definition_bytes: usize,
    pub(crate) trigger_bytes: usize,
    #[serde(default)]
    pub(crate) request_id: Option<Box<str>>,
    #[serde(default)]
    pub(crate) labels: BTreeMap<Box<str>, Box<str>>,
    #[serde(default)]
    pub(crate) vars: BTreeMap<Box<str>, Json>,
    /// Whether the graph belongs to the run alone, and is not published.
    #[serde(default)]
    pub(crate) frozen: bool,
}

/// One line of the answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "camelCase")]
pub(crate) enum Answer {
    /// Somebody is there.
    Pong { pid: u32 },
    /// The run is durable and goes on.
    Started { run: RunId, existing: bool },
    /// The definition is in the catalogue.
    Published { version: u32, created: bool },
    /// New runs of the workflow are allowed or refused.
    Set,
    /// What became of the rebuilding.
    Rebuilt(Rebuilt),
    /// It is done; this is how the run stands.
    Done { status: RunStatus },
    /// Updates follow.
    Watching,
    /// The run does not go on here; this is how it stands.
    NotCarried { status: RunStatus },
    /// Something happened to the run.
    Update(Update),
    /// Something was left out: look at the run again.
    Lagged,
    /// The run ended.
    Finished { status: RunStatus },
    /// It was not done.
    Refused(Refused),
}

/// What happens to a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "update", rename_all = "camelCase")]
pub(crate) enum Update {
    /// An attempt is with a worker.
    Dispatched {
        node: Instance,
        #[serde(default)]
        path: Box<str>,
        #[serde(default)]
        action: Box<str>,
    },
    /// Nodes changed their status; some of them have more to tell.
    Nodes {
        nodes: Vec<(Instance, NodeStatus)>,
        #[serde(default)]
        standings: Vec<Standing>,
    },
    /// An attempt failed.
    Failed {
        node: String,
        code: String,
        message: String,
        again: bool,
    },
    /// The run was paused, resumed or is being cancelled.
    Phase { phase: Phase },
}

/// Why something was not done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Refused {
    exit: u8,
    code: String,
    message: String,
    #[serde(default)]
    hint: Option<String>,
    #[serde(default)]
    details: Vec<serde_json::Value>,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self {
            exit: failure.exit as u8,
            code: failure.code.into_owned(),
            message: failure.message,
            hint: failure.hint,
            details: failure.parts.details,
        }
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let exit = Exit::from_code(refused.exit).unwrap_or(Exit::Conflict);
        let mut failure = Self::new(exit, refused.code, refused.message);
        failure.hint = refused.hint;
        failure.parts.details = refused.details;
        failure
    }
}

/// Writes one object as a line.
pub(crate) async fn write_line(
    out: &mut (impl AsyncWrite + Unpin),
    value: &impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line).await?;
    out.flush().await
}

/// Reads one line as an object; nothing at the end of the stream.
pub(crate) async fn read_line<T: DeserializeOwned>(
    stream: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    let mut bounded = stream.take(LINE_BYTES as u64 + 1);
    bounded.read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.len() > LINE_BYTES || line.last() != Some(&b'\n') {
        let message = "a line is too long, or was cut off";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(Some(serde_json::from_slice(&line)?))
}
