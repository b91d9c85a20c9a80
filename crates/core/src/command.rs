//! Commands on a run: one type from the edge to the rules. Outside, nodes are named by their
//! paths and a value is JSON text; inside, nodes are instances and values are ready to be
//! recorded. Must not know who may give a command, or how it reaches the run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{Actor, RequestKey};
use crate::id::Digest;
use crate::plan::Plan;
use crate::run::Instance;
use crate::status::RunStatus;
use crate::value::Payload;

/// A command on a run. `N` is how nodes are named. The audit log and jobs under way store its
/// JSON, and request digests are computed from it; a value that belongs to a command is stored
/// beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "deed", rename_all = "camelCase")]
pub enum RunCommand<N = String> {
    /// End the run; with `compensate`, undo what succeeded, whatever the definition says.
    Cancel {
        /// Whether what succeeded is undone.
        #[serde(default)]
        compensate: bool,
    },
    /// Start no new nodes.
    Pause,
    /// Continue: start new nodes again.
    Resume,
    /// Try nodes again; none named means all that can be.
    Reattempt {
        /// The nodes to try again.
        nodes: Vec<N>,
    },
    /// Send a signal; its payload goes beside.
    Signal {
        /// Its name.
        name: String,
    },
    /// Set a node's result, which goes beside.
    SetResult {
        /// The node.
        node: N,
    },
    /// Let a node count as succeeded.
    Skip {
        /// The node.
        node: N,
    },
    /// Undo what succeeded.
    Compensate,
    /// Undo nodes again whose undoing failed.
    RetryCompensation {
        /// The nodes whose compensation failed.
        nodes: Vec<N>,
    },
    /// Leave nodes as they are instead of undoing them.
    SkipCompensation {
        /// The nodes that stay as they are.
        nodes: Vec<N>,
    },
    /// Replace the graph by one that goes beside.
    Import,
}

/// A command with what goes beside it, and who gives it. `B` is the form of the value.
#[derive(Clone, Debug)]
pub struct CommandRequest<N = String, B = Arc<str>> {
    /// The command.
    pub command: RunCommand<N>,
    /// The value beside it; empty where there is none.
    pub body: B,
    /// Who gives it, why, and under which idempotency key.
    pub actor: Actor,
}

/// A command as the run's own rules take it.
pub type Command = CommandRequest<Instance, CommandBody>;

/// What goes beside a command that the rules take.
#[derive(Clone, Debug, Default)]
pub enum CommandBody {
    /// Nothing.
    #[default]
    None,
    /// A signal's payload, or a result.
    Value(Payload),
    /// A graph to import.
    Graph(Box<NewGraph>),
}

/// A graph that replaces that of a run.
#[derive(Clone, Debug)]
pub struct NewGraph {
    /// Digest of its definition.
    pub definition: Digest,
    /// The graph.
    pub plan: Arc<Plan>,
    /// The definition, to be stored.
    pub text: Payload,
}

impl<N> RunCommand<N> {
    /// The command as this user gives it, with nothing beside it.
    pub fn by<B: Default>(self, actor: Actor) -> CommandRequest<N, B> {
        CommandRequest {
            command: self,
            body: B::default(),
            actor,
        }
    }

    /// The same command with its nodes named otherwise.
    ///
    /// # Errors
    /// The first node that has no other name.
    pub fn try_map<M, E>(
        &self,
        mut name: impl FnMut(&N) -> Result<M, E>,
    ) -> Result<RunCommand<M>, E> {
        let mut all = |nodes: &[N]| nodes.iter().map(&mut name).collect::<Result<Vec<M>, E>>();
        Ok(match self {
            Self::Cancel { compensate } => RunCommand::Cancel {
                compensate: *compensate,
            },
            Self::Pause => RunCommand::Pause,
            Self::Resume => RunCommand::Resume,
            Self::Reattempt { nodes } => RunCommand::Reattempt { nodes: all(nodes)? },
            Self::Signal { name } => RunCommand::Signal { name: name.clone() },
            Self::SetResult { node } => RunCommand::SetResult { node: name(node)? },
            Self::Skip { node } => RunCommand::Skip { node: name(node)? },
            Self::Compensate => RunCommand::Compensate,
            Self::RetryCompensation { nodes } => {
                RunCommand::RetryCompensation { nodes: all(nodes)? }
            }
            Self::SkipCompensation { nodes } => RunCommand::SkipCompensation { nodes: all(nodes)? },
            Self::Import => RunCommand::Import,
        })
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

    /// The statuses of runs that it applies to, unless a filter names others.
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
            Self::Import => vec![Paused, Failed],
        }
    }

    /// Whether it sets a node's result, or skips the node.
    pub fn sets_result(&self) -> bool {
        matches!(self, Self::SetResult { .. } | Self::Skip { .. })
    }

    /// Whether it tries nodes again, also those of a run that has ended.
    pub fn reopens(&self) -> bool {
        self.sets_result() || matches!(self, Self::Reattempt { .. })
    }

    /// Whether it makes the run continue, so that the caller may wait in the foreground.
    pub fn continues_run(&self) -> bool {
        !matches!(self, Self::Cancel { .. } | Self::Pause | Self::Import)
    }

    /// Whether it undoes what the run did.
    pub fn undoes(&self) -> bool {
        matches!(
            self,
            Self::Compensate | Self::RetryCompensation { .. } | Self::SkipCompensation { .. }
        )
    }

    /// Whether a caller that asks another process for it also waits for the run's end.
    pub fn is_followed(&self) -> bool {
        matches!(
            self,
            Self::Resume
                | Self::Reattempt { .. }
                | Self::Compensate
                | Self::RetryCompensation { .. }
        )
    }
}

impl<N, B> CommandRequest<N, B> {
    /// The same with a value beside it.
    #[must_use]
    pub fn with(mut self, body: impl Into<B>) -> Self {
        self.body = body.into();
        self
    }
}

impl CommandRequest {
    /// The same under an idempotency key, which covers the command and its value.
    #[must_use]
    pub fn keyed(mut self, key: Option<impl Into<Box<str>>>) -> Self {
        self.actor.request = key.map(|key| {
            Box::new(RequestKey {
                key: key.into(),
                command: self.digest(),
            })
        });
        self
    }

    /// Digest of the command and its value, without who gives it and why.
    fn digest(&self) -> Digest {
        let mut text = serde_json::to_string(&self.command)
            .expect("an enum of texts, lists and truths always serialises");
        match self.command {
            RunCommand::Signal { .. } | RunCommand::SetResult { .. } => {
                text.push_str(Payload::typed(&self.body).text());
            }
            _ => text.push_str(&self.body),
        }
        Digest::of(text.as_bytes())
    }
}

impl Command {
    /// The value beside it.
    pub(crate) fn value(&self) -> Payload {
        match &self.body {
            CommandBody::Value(value) => value.clone(),
            CommandBody::None | CommandBody::Graph(_) => Payload::null(),
        }
    }

    /// The graph beside it.
    pub fn graph(&self) -> Option<&NewGraph> {
        match &self.body {
            CommandBody::Graph(graph) => Some(graph),
            CommandBody::None | CommandBody::Value(_) => None,
        }
    }
}

impl From<Payload> for CommandBody {
    fn from(value: Payload) -> Self {
        Self::Value(value)
    }
}

impl From<NewGraph> for CommandBody {
    fn from(graph: NewGraph) -> Self {
        Self::Graph(Box::new(graph))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(command: RunCommand, body: &str) -> RequestKey {
        let request: CommandRequest = command.by(Actor::default());
        let request = request.with(body).keyed(Some("k"));
        *request.actor.request.expect("a key")
    }

    #[test]
    fn a_key_counts_for_the_command_and_its_value_but_not_for_spaces_in_it() {
        let signal = |name: &str| RunCommand::Signal { name: name.into() };
        let first = key(signal("go"), r#"{"a": 1}"#);
        assert_eq!(first, key(signal("go"), r#" {"a":1}"#));
        assert_ne!(first, key(signal("go"), r#"{"a":2}"#));
        assert_ne!(first, key(signal("stay"), r#"{"a":1}"#));
        assert_ne!(key(RunCommand::Pause, ""), key(RunCommand::Resume, ""));
        assert_ne!(key(RunCommand::Import, "a"), key(RunCommand::Import, "b"));
    }

    #[test]
    fn the_json_of_commands_is_as_jobs_and_the_audit_have_it() {
        let json = |command: &RunCommand| serde_json::to_string(command).expect("JSON");
        let nodes = vec!["a".to_owned()];
        let reattempt = RunCommand::Reattempt { nodes };
        assert_eq!(json(&reattempt), r#"{"deed":"reattempt","nodes":["a"]}"#);
        assert_eq!(json(&RunCommand::Import), r#"{"deed":"import"}"#);
        let cancel: RunCommand = serde_json::from_str(r#"{"deed":"cancel"}"#).expect("JSON");
        assert_eq!(cancel, RunCommand::Cancel { compensate: false });
    }
}
