//! What people want of a run, by the paths of its nodes: signals, reattempts, results
//! given by hand, compensation, another graph. Each is durable on return.

use std::fmt;
use std::sync::Arc;

use windlass_core::event::Hand;
use windlass_core::name::{NameProblem, is_key_name};
use windlass_core::plan::Plan;
use windlass_core::run::{Instance, Refusal, Run};
use windlass_core::value::Payload;
use windlass_core::{Digest, RunId};
use windlass_orchestrator::Command;

use crate::engine::Engine;
use crate::load::{LoadError, LoadedRun};
use crate::payload::{PayloadError, check_payload, check_payload_aside};

/// Why a command was not carried out.
#[derive(Debug)]
pub enum CommandError {
    /// The run's state does not allow it; `nodes` are the ones in the way.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The nodes that the refusal names; of an unknown signal, the known ones.
        nodes: Vec<String>,
    },
    /// The run names no such node.
    UnknownNode(String),
    /// The signal's payload does not fit every node that waits for one of its name.
    SignalInvalid(PayloadError),
    /// The signal's name cannot be one, and no node of the run waits for it.
    SignalName,
    /// A result given by hand is not a value.
    ResultInvalid(PayloadError),
    /// The run cannot be read.
    Load(LoadError),
    /// The engine has stopped.
    Stopped,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { refusal, nodes } if nodes.is_empty() => refusal.fmt(f),
            Self::Refused {
                refusal: refusal @ Refusal::UnknownSignal(_),
                nodes,
            } => write!(f, "{refusal}; it knows {}", nodes.join(", ")),
            Self::Refused { refusal, nodes } => write!(f, "{refusal}: {}", nodes.join(", ")),
            Self::UnknownNode(node) => write!(f, "the run has no node '{node}'"),
            Self::SignalInvalid(error) => write!(f, "the signal's payload: {error}"),
            Self::SignalName => write!(f, "the signal's name: {}", NameProblem::NoKey),
            Self::ResultInvalid(error) => write!(f, "the result: {error}"),
            Self::Load(error) => error.fmt(f),
            Self::Stopped => f.write_str("the engine has stopped"),
        }
    }
}

impl std::error::Error for CommandError {}

impl From<LoadError> for CommandError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

/// Checks a signal's payload against its limits and the schema of every node of the
/// graph that waits for a signal of this name: nobody knows yet which will take it.
///
/// # Errors
/// What does not fit, all of it.
pub fn check_signal(plan: &Plan, name: &str, payload: &str) -> Result<(), PayloadError> {
    let schemas = plan.signal_schemas(name).into_iter().flatten();
    check_payload(payload, schemas)
}

/// Checks a signal's name. One that a node of the graph waits for is good, also if it was
/// published before names had a pattern.
///
/// # Errors
/// It cannot be the name of a signal.
pub fn check_signal_name(plan: &Plan, name: &str) -> Result<(), CommandError> {
    match is_key_name(name) || plan.signals().contains(&name) {
        true => Ok(()),
        false => Err(CommandError::SignalName),
    }
}

impl Engine {
    /// Tries nodes again; none named means every one that can be.
    ///
    /// # Errors
    /// As for [`Self::command`], or the run has no such node.
    pub async fn reattempt(
        &self,
        run: RunId,
        nodes: &[String],
        hand: Hand,
    ) -> Result<(), CommandError> {
        let nodes = self.instances(run, nodes).await?;
        self.command(run, Command::Reattempt(nodes, hand)).await
    }

    /// Gives a run a signal, with a payload of JSON text.
    ///
    /// # Errors
    /// The payload does not fit, or as for [`Self::command`].
    pub async fn signal(
        &self,
        run: RunId,
        name: &str,
        payload: &str,
        hand: Hand,
    ) -> Result<(), CommandError> {
        let loaded = self.load_beside(run).await?;
        // The graph that it has by the time the signal comes.
        let plan = match self.newest_for(&loaded.run).await? {
            Some(Command::Heal { plan, .. }) => plan,
            _ => Arc::clone(loaded.run.plan()),
        };
        check_signal_name(&plan, name)?;
        let schemas = plan.signal_schemas(name).into_iter().flatten();
        let schemas = schemas.map(str::to_owned).collect();
        let tenant = loaded.run.queued().tenant.as_deref();
        let checked = check_payload_aside(tenant, payload.into(), schemas).await;
        checked.map_err(CommandError::SignalInvalid)?;
        let command = Command::Signal {
            name: name.into(),
            payload: Payload::typed(payload),
            hand,
        };
        self.command(run, command).await
    }

    /// Gives a node's result, as JSON text; without one the node counts as succeeded with
    /// null, and is shown as skipped by hand.
    ///
    /// # Errors
    /// The result is not JSON, the run has no such node, or as for [`Self::command`].
    pub async fn set_result(
        &self,
        run: RunId,
        node: &str,
        output: Option<&str>,
        hand: Hand,
    ) -> Result<(), CommandError> {
        if let Some(output) = output {
            check_payload(output, []).map_err(CommandError::ResultInvalid)?;
        }
        let nodes = self.instances(run, &[node.to_owned()]).await?;
        let command = Command::SetResult {
            node: nodes[0],
            output: output.map(Payload::typed),
            hand,
        };
        self.command(run, command).await
    }

    /// Undoes nodes again whose undoing failed.
    ///
    /// # Errors
    /// As for [`Self::reattempt`].
    pub async fn retry_compensation(
        &self,
        run: RunId,
        nodes: &[String],
        hand: Hand,
    ) -> Result<(), CommandError> {
        let nodes = self.instances(run, nodes).await?;
        let command = Command::RetryCompensation(nodes, hand);
        self.command(run, command).await
    }

    /// Leaves nodes as they are instead of undoing them.
    ///
    /// # Errors
    /// As for [`Self::reattempt`].
    pub async fn skip_compensation(
        &self,
        run: RunId,
        nodes: &[String],
        hand: Hand,
    ) -> Result<(), CommandError> {
        let nodes = self.instances(run, nodes).await?;
        let command = Command::SkipCompensation(nodes, hand);
        self.command(run, command).await
    }

    /// Replaces the graph of a paused run by that of a definition, which belongs to the
    /// run alone from then on.
    ///
    /// # Errors
    /// As for [`Self::command`].
    pub async fn import(
        &self,
        run: RunId,
        text: Arc<str>,
        plan: Arc<Plan>,
        hand: Hand,
    ) -> Result<(), CommandError> {
        let definition = Digest::of(text.as_bytes());
        self.plans().insert(definition, &plan, text.len());
        let command = Command::Import {
            definition,
            plan,
            text: Payload::new(text),
            hand,
        };
        self.command(run, command).await
    }

    /// Reads a run back, off the tasks of the runtime.
    pub(crate) async fn load_beside(&self, run: RunId) -> Result<LoadedRun, CommandError> {
        let engine = self.clone();
        let loading = tokio::task::spawn_blocking(move || engine.load(run));
        match loading.await {
            Ok(loaded) => Ok(loaded?),
            Err(error) => Err(LoadError::Definition(error.to_string()).into()),
        }
    }

    async fn instances(&self, run: RunId, nodes: &[String]) -> Result<Vec<Instance>, CommandError> {
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        let loaded = self.load_beside(run).await?;
        let resolve = |node: &String| {
            let (run, undone) = (&loaded.run, || loaded.run.resolve_undone(node));
            let found = run.resolve(node).or_else(undone);
            found.ok_or_else(|| CommandError::UnknownNode(node.clone()))
        };
        nodes.iter().map(resolve).collect()
    }

    /// Names what a refusal is about.
    pub(crate) async fn refused(&self, run: RunId, refusal: Refusal) -> CommandError {
        let loaded = self.load_beside(run).await;
        match loaded {
            Ok(loaded) => CommandError::refused(&loaded.run, refusal),
            Err(_) => CommandError::Refused {
                refusal,
                nodes: Vec::new(),
            },
        }
    }
}

impl CommandError {
    /// A refusal, with the names of what it is about.
    pub fn refused(run: &Run, refusal: Refusal) -> Self {
        let nodes = match &refusal {
            Refusal::InTheWay(nodes) | Refusal::NotFailed(nodes) => nodes
                .iter()
                .filter(|&&node| run.find_status(node).is_some())
                .map(|&node| run.path(node).into_string())
                .collect(),
            Refusal::UnknownSignal(_) => {
                let names = run.plan().signals().into_iter();
                names.map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        Self::Refused { refusal, nodes }
    }
}
