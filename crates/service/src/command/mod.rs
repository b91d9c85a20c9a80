//! The commands on a run, as the command line, the API and its client have them: nodes are named by
//! their paths. A value that belongs to a command (a payload, a result, a graph) goes beside it.

mod execute;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_core::RunStatus;
use windlass_core::event::Hand;
use windlass_core::run::{Input, Instance, Run};
use windlass_core::value::Payload;
use windlass_engine::{CommandError, check_payload, check_signal, check_signal_name};

pub use execute::{ended, execute, hand, load, not_importable, status, unknown_node};

use crate::failure::Failure;
use crate::source::prepare_text;

/// A command on a run. Its JSON is in the audit and in jobs that are under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "deed", rename_all = "camelCase")]
pub enum RunCommand {
    /// End it; with `compensate`, what succeeded is undone.
    Cancel {
        /// Whether what succeeded is undone.
        #[serde(default)]
        compensate: bool,
    },
    /// Start nothing more.
    Pause,
    /// Carry it on, and resume it if it is paused.
    Resume,
    /// Try nodes again; none named means all that can be.
    Reattempt {
        /// Their paths.
        nodes: Vec<String>,
    },
    /// Give it a signal; the payload goes beside.
    Signal {
        /// Its name.
        name: String,
    },
    /// Give a node's result, which goes beside.
    SetResult {
        /// Its path.
        node: String,
    },
    /// Let a node count as succeeded.
    Skip {
        /// Its path.
        node: String,
    },
    /// Undo what succeeded.
    Compensate,
    /// Undo nodes again whose undoing failed.
    RetryCompensation {
        /// Their paths.
        nodes: Vec<String>,
    },
    /// Leave nodes as they are instead of undoing them.
    SkipCompensation {
        /// Their paths.
        nodes: Vec<String>,
    },
    /// Replace its graph by one that goes beside.
    Import,
}

/// What is done, with what belongs to it.
#[derive(Clone, Debug)]
pub struct CommandRequest {
    /// The command.
    pub command: RunCommand,
    /// The value beside it; empty where there is none.
    pub body: Arc<str>,
    /// Who does it; the user of this process, if nobody is named.
    pub by: Option<Box<str>>,
    /// Why; it is recorded.
    pub reason: Option<String>,
}

impl CommandRequest {
    /// A command with nothing beside it.
    pub fn new(command: RunCommand, reason: Option<&String>) -> Self {
        Self {
            command,
            body: "".into(),
            by: None,
            reason: reason.cloned(),
        }
    }

    /// The same with a value beside it.
    #[must_use]
    pub fn with(self, body: impl Into<Arc<str>>) -> Self {
        Self {
            body: body.into(),
            ..self
        }
    }

    /// Who does it, and why.
    pub fn hand(&self) -> Hand {
        let mut hand = hand(self.reason.as_deref());
        if self.by.is_some() {
            hand.by.clone_from(&self.by);
        }
        hand
    }

    /// The input that the run's own rules decide on; none means that they always allow it.
    pub fn input(&self, run: &Run) -> Result<Option<Input>, Failure> {
        let hand = self.hand();
        Ok(Some(match &self.command {
            RunCommand::Cancel { compensate } => Input::Cancel {
                hand,
                compensate: *compensate,
            },
            RunCommand::Pause => Input::Pause(hand),
            // Whatever is unfinished is carried on, paused or not.
            RunCommand::Resume if run.status().is_final() => {
                return Err(ended(run.id(), run.status()));
            }
            RunCommand::Resume => return Ok(None),
            RunCommand::Reattempt { nodes } => Input::Reattempt(instances(run, nodes)?, hand),
            RunCommand::Signal { name } => {
                check_signal_name(run.plan(), name)?;
                check_signal(run.plan(), name, &self.body).map_err(CommandError::SignalInvalid)?;
                Input::Signal {
                    name: name.as_str().into(),
                    payload: Payload::typed(&self.body),
                    hand,
                }
            }
            RunCommand::SetResult { node } => {
                check_payload(&self.body, []).map_err(CommandError::ResultInvalid)?;
                Input::SetResult {
                    node: instance(run, node)?,
                    output: Some(Payload::typed(&self.body)),
                    hand,
                }
            }
            RunCommand::Skip { node } => Input::SetResult {
                node: instance(run, node)?,
                output: None,
                hand,
            },
            RunCommand::Compensate => Input::Compensate(hand),
            RunCommand::RetryCompensation { nodes } => {
                Input::RetryCompensation(instances(run, nodes)?, hand)
            }
            RunCommand::SkipCompensation { nodes } => {
                Input::SkipCompensation(instances(run, nodes)?, hand)
            }
            RunCommand::Import => {
                let prepared = prepare_text(self.body.as_bytes()).map_err(not_importable)?;
                Input::Import {
                    definition: prepared.digest,
                    plan: prepared.plan,
                    hand,
                }
            }
        }))
    }
}

impl RunCommand {
    /// The runs it makes sense for, unless a filter says otherwise.
    pub fn statuses(&self) -> Vec<RunStatus> {
        use RunStatus::{Cancelled, Failed, Paused, Pending, Running, Succeeded};
        match self {
            Self::Cancel { .. } | Self::Resume => vec![Pending, Running, Paused],
            Self::Pause => vec![Running],
            Self::Signal { .. } => vec![Running, Paused],
            Self::Reattempt { .. } => vec![Failed, Cancelled],
            Self::SetResult { .. } | Self::Skip { .. } => {
                vec![Running, Paused, Failed, Cancelled]
            }
            Self::Compensate => vec![Failed, Cancelled, Succeeded],
            Self::RetryCompensation { .. } | Self::SkipCompensation { .. } => {
                vec![Running, Failed, Cancelled, Succeeded]
            }
            Self::Import => vec![Paused],
        }
    }

    /// Its name in routes and in the audit.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cancel { .. } => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Reattempt { .. } => "reattempt",
            Self::Signal { .. } => "signal",
            Self::SetResult { .. } => "set-result",
            Self::Skip { .. } => "skip",
            Self::Compensate | Self::RetryCompensation { .. } | Self::SkipCompensation { .. } => {
                "compensate"
            }
            Self::Import => "import",
        }
    }

    /// What it does, as a verb.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Cancel { .. } => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Reattempt { .. } => "reattempt",
            Self::Signal { .. } => "signal",
            Self::SetResult { .. } => "set a result of",
            Self::Skip { .. } => "skip a node of",
            Self::Compensate => "compensate",
            Self::RetryCompensation { .. } => "compensate nodes again of",
            Self::SkipCompensation { .. } => "leave nodes uncompensated of",
            Self::Import => "replace the graph of",
        }
    }

    /// Whether the run goes on by it, and whoever asked waits for that in the foreground.
    pub fn goes_on(&self) -> bool {
        !matches!(self, Self::Cancel { .. } | Self::Pause | Self::Import)
    }

    /// Whether it undoes what the run did.
    pub fn undoes(&self) -> bool {
        matches!(
            self,
            Self::Compensate | Self::RetryCompensation { .. } | Self::SkipCompensation { .. }
        )
    }

    /// Whether whoever asked another process for it also waits for the run's end.
    pub fn is_followed(&self) -> bool {
        matches!(
            self,
            Self::Resume
                | Self::Reattempt { .. }
                | Self::Compensate
                | Self::RetryCompensation { .. }
        )
    }

    /// What became of the run, for people.
    pub fn says(&self, status: RunStatus) -> String {
        match (self, status) {
            (Self::Cancel { .. }, RunStatus::Cancelled) => "cancelled".to_owned(),
            (Self::Cancel { .. }, _) => "being cancelled: running work has 10 s to stop".to_owned(),
            (Self::Pause, _) => "paused: nothing more starts until `windlass resume`".to_owned(),
            (Self::Signal { name }, status) => format!("has the signal '{name}'; it is {status}"),
            (Self::SetResult { node }, status) => {
                format!("has the result of '{node}'; it is {status}")
            }
            (Self::Skip { node }, status) => format!("goes on without '{node}'; it is {status}"),
            (Self::SkipCompensation { nodes }, status) => {
                format!("leaves {} as it is; it is {status}", nodes.join(", "))
            }
            (Self::Import, status) => {
                format!(
                    "has the new graph, and keeps it; it is {status}: `windlass resume` goes on"
                )
            }
            (_, status) => status.to_string(),
        }
    }
}

fn instance(run: &Run, node: &str) -> Result<Instance, Failure> {
    // What ran again, or is in the graph no more, may still be undone.
    let found = run.resolve(node).or_else(|| run.resolve_undone(node));
    found.ok_or_else(|| unknown_node(run, node))
}

fn instances(run: &Run, nodes: &[String]) -> Result<Vec<Instance>, Failure> {
    nodes.iter().map(|node| instance(run, node)).collect()
}
