//! Why an engine does not open or a run does not start, and what to do about it.

use std::fmt;
use std::path::PathBuf;

use windlass_store::Error;

use crate::workflow::{BuildError, write_known};

/// Why an engine did not open.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process holds the folder.
    InUse {
        /// The folder.
        folder: PathBuf,
        /// The process that holds it.
        holder: String,
    },
    /// The folder cannot be used.
    Store(Error),
    /// Two registered workflows have this id.
    WorkflowTwice(Box<str>),
    /// A workflow calls an action that is not registered.
    UnknownAction {
        /// The workflow.
        workflow: Box<str>,
        /// The node that calls it.
        node: Box<str>,
        /// The action.
        action: Box<str>,
        /// The actions that are registered.
        known: Vec<Box<str>>,
    },
    /// The engine does not run what the workflow uses.
    Unsupported {
        /// The workflow.
        workflow: Box<str>,
        /// What it uses.
        reason: String,
    },
}

/// Why a run was not started.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The workflow was not registered when the engine was opened.
    NotRegistered {
        /// The workflow.
        workflow: Box<str>,
        /// The workflows that are registered.
        known: Vec<Box<str>>,
    },
    /// Another workflow of the same id is registered.
    Different {
        /// The workflow's id.
        workflow: Box<str>,
    },
    /// The workflow is disabled: it starts no new runs.
    Disabled {
        /// The workflow's id.
        workflow: Box<str>,
    },
    /// A graph calls an action that is not registered.
    UnknownAction {
        /// The node that calls it.
        node: Box<str>,
        /// The action.
        action: Box<str>,
        /// The actions that are registered.
        known: Vec<Box<str>>,
    },
    /// The engine does not run what the graph uses.
    Unsupported {
        /// What it uses.
        reason: String,
    },
    /// The graph cannot be published under its workflow id.
    Graph(BuildError),
    /// The trigger or a variable is not JSON.
    NotJson(String),
    /// The engine refused: the trigger does not fit, the request id was used otherwise, or
    /// the engine has stopped.
    Refused(windlass_engine::StartError),
    /// The store failed.
    Store(Error),
}

/// What can go wrong with publishing, whether on opening or on starting.
#[derive(Debug)]
pub(super) enum PublishError {
    UnknownAction {
        workflow: Box<str>,
        node: Box<str>,
        action: Box<str>,
        known: Vec<Box<str>>,
    },
    Unsupported {
        workflow: Box<str>,
        reason: String,
    },
    Store(Error),
}

impl From<PublishError> for OpenError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::UnknownAction {
                workflow,
                node,
                action,
                known,
            } => Self::UnknownAction {
                workflow,
                node,
                action,
                known,
            },
            PublishError::Unsupported { workflow, reason } => {
                Self::Unsupported { workflow, reason }
            }
            PublishError::Store(error) => Self::Store(error),
        }
    }
}

impl From<PublishError> for StartError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::UnknownAction {
                node,
                action,
                known,
                ..
            } => Self::UnknownAction {
                node,
                action,
                known,
            },
            PublishError::Unsupported { reason, .. } => Self::Unsupported { reason },
            PublishError::Store(error) => Self::Store(error),
        }
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl std::error::Error for OpenError {}

impl std::error::Error for StartError {}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { folder, holder } => write!(
                f,
                "{} is in use by {holder}; stop that process, or open another folder",
                folder.display()
            ),
            Self::Store(error) => error.fmt(f),
            Self::WorkflowTwice(workflow) => write!(
                f,
                "two workflows have the id '{workflow}'; give one of them another"
            ),
            Self::UnknownAction {
                workflow,
                node,
                action,
                known,
            } => {
                write!(f, "'{node}' of '{workflow}' calls '{action}', ")?;
                write_unknown(f, action, known)
            }
            Self::Unsupported { workflow, reason } => write!(f, "'{workflow}': {reason}"),
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRegistered { workflow, known } => {
                write!(
                    f,
                    "the workflow '{workflow}' is not registered; call `.workflow(…)` before \
                     `.open()`; "
                )?;
                write_known(f, workflow, known)
            }
            Self::Disabled { workflow } => write!(
                f,
                "the workflow '{workflow}' is disabled; enable it, in the store or by \
                 `windlass workflows enable {workflow}`"
            ),
            Self::Different { workflow } => write!(
                f,
                "another workflow with the id '{workflow}' is registered; start that one, or \
                 open the engine with this one"
            ),
            Self::UnknownAction {
                node,
                action,
                known,
            } => {
                write!(f, "'{node}' calls '{action}', ")?;
                write_unknown(f, action, known)
            }
            Self::Unsupported { reason } => f.write_str(reason),
            Self::Graph(error) => error.fmt(f),
            Self::NotJson(reason) => write!(f, "not JSON: {reason}"),
            Self::Refused(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

fn write_unknown(f: &mut fmt::Formatter<'_>, action: &str, known: &[Box<str>]) -> fmt::Result {
    f.write_str("which is not registered; call `.action(…)` before `.open()`; ")?;
    write_known(f, action, known)
}
