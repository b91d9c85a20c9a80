//! Why a run cannot be read, or has no result.

use std::fmt;

use windlass_core::event::Cause;
use windlass_core::run::with_name;
use windlass_core::{NodeStatus, RunId, RunStatus};
use windlass_engine::view::Error as ViewError;
use windlass_engine::{LoadError, StartError as EngineStartError};
use windlass_service::failure::{Failure, FailureKind};
use windlass_store::Error;

use super::{Execution, NodeError};
use crate::engine::StartError;
use crate::workflow::write_known;

/// Why a run cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no such run.
    NotFound(RunId),
    /// The run has no such node.
    UnknownNode {
        /// What was asked for.
        node: Box<str>,
        /// The nodes of the run.
        known: Vec<Box<str>>,
    },
    /// The name belongs to several nodes.
    AmbiguousNode {
        /// What was asked for.
        node: Box<str>,
        /// The nodes with that name.
        ids: Vec<Box<str>>,
    },
    /// The node has no output, because it has not succeeded.
    NoOutput {
        /// What was asked for.
        node: Box<str>,
        /// How it stands.
        status: NodeStatus,
    },
    /// The node's output does not fit the type that it is read into.
    Unfit {
        /// What was asked for.
        node: Box<str>,
        /// What does not fit.
        reason: String,
    },
    /// The store failed, or the engine has stopped.
    Store(Error),
    /// The run's log says something that cannot be shown.
    Unreadable(String),
}

/// Why a run has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// It was not started.
    Start(StartError),
    /// It cannot be read.
    Read(ReadError),
    /// It failed.
    Failed(Box<RunFailure>),
    /// It was cancelled.
    Cancelled(RunId),
    /// It has not ended, and this engine does not execute it.
    NotEnded {
        /// The run.
        run: RunId,
        /// How it stands.
        status: RunStatus,
    },
    /// The output does not fit the type it is read into.
    Output(String),
}

/// How a run failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunFailure {
    /// The run.
    pub run: RunId,
    /// SCREAMING_SNAKE_CASE.
    pub code: String,
    /// A sentence.
    pub message: String,
    /// The nodes whose failures were not handled.
    pub nodes: Vec<NodeFailure>,
    /// The root causes, first failed first, through loops and child runs.
    pub causes: Vec<Cause>,
}

/// How one node of a run failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NodeFailure {
    /// The node instance.
    pub node: String,
    /// Its name for people.
    pub name: Option<String>,
    /// Why it failed.
    pub error: NodeError,
}

impl RunFailure {
    pub(super) fn of(execution: &Execution) -> Self {
        let text = |key: &str| {
            let error = execution.error.as_ref();
            let value = error.and_then(|error| error[key].as_str());
            value.unwrap_or_default().to_owned()
        };
        let failed = execution.nodes.iter().filter_map(|node| {
            let error = node.error.as_ref()?;
            let unhandled = node.handled != Some(true);
            unhandled.then(|| NodeFailure {
                node: node.id.clone(),
                name: node.name.clone(),
                error: error.clone(),
            })
        });
        let causes = execution
            .error
            .as_ref()
            .map(|error| error["causes"].clone());
        let causes = causes.and_then(|causes| serde_json::from_value(causes).ok());
        Self {
            run: execution.run,
            code: text("code"),
            message: text("message"),
            nodes: failed.collect(),
            causes: causes.unwrap_or_default(),
        }
    }
}

impl ReadError {
    /// What the service says, as far as this type tells failures apart.
    pub(super) fn of_failure(run: RunId, failure: Failure) -> Self {
        match failure.kind {
            FailureKind::RunNotFound => Self::NotFound(run),
            _ => Self::Unreadable(failure.message),
        }
    }

    pub(super) fn of(run: RunId, error: ViewError) -> Self {
        match error {
            ViewError::Load(LoadError::NotFound(_)) => Self::NotFound(run),
            ViewError::Load(LoadError::Store(error)) => Self::Store(error),
            other => Self::Unreadable(other.to_string()),
        }
    }
}

impl std::error::Error for ReadError {}

impl std::error::Error for RunError {}

impl From<ReadError> for RunError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<StartError> for RunError {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl From<EngineStartError> for RunError {
    fn from(error: EngineStartError) -> Self {
        Self::Start(StartError::Refused(error))
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(run) => write!(f, "there is no run {run}"),
            Self::UnknownNode { node, known } => {
                write!(f, "the run has no node '{node}'; ")?;
                write_known(f, node, known)
            }
            Self::AmbiguousNode { node, ids } => write!(
                f,
                "'{node}' is the name of several nodes; ask by id: {}",
                ids.join(", ")
            ),
            Self::NoOutput { node, status } => {
                write!(f, "'{node}' has no output: it is {status}")
            }
            Self::Unfit { node, reason } => {
                write!(f, "the output of '{node}' does not fit: {reason}")
            }
            Self::Store(error) => error.fmt(f),
            Self::Unreadable(reason) => write!(f, "the run cannot be shown: {reason}"),
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => error.fmt(f),
            Self::Read(error) => error.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
            Self::Cancelled(run) => write!(f, "the run {run} was cancelled"),
            Self::NotEnded { run, status } => {
                write!(f, "the run {run} is {status}, and is not executed here")?;
                match status {
                    RunStatus::Paused => f.write_str("; resume it"),
                    _ => f.write_str("; the process that holds its store executes it"),
                }
            }
            Self::Output(reason) => write!(f, "the run's output does not fit: {reason}"),
        }
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the run {} failed: {}: {}",
            self.run, self.code, self.message
        )?;
        self.nodes.iter().try_for_each(|failed| {
            let node = with_name(&failed.node, failed.name.as_deref());
            let NodeError { code, message, .. } = &failed.error;
            write!(f, "\n  {node}: {code}: {message}")
        })
    }
}
