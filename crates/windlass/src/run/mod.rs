//! The handle of one run: its status, output, history and commands. Everything is read from the
//! log; the handle itself knows only an id.

mod error;
mod events;
mod fork;
mod graph;
mod view;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_core::command::RunCommand;
use windlass_core::event::Actor;
use windlass_core::{NodeStatus, RunId, RunStatus};
use windlass_engine::refuse_orphan;
pub use windlass_service::why::{Why, WhyAnswer};

pub use error::{NodeFailure, ReadError, RunError, RunFailure};
pub use events::{Events, RunEvent};
pub use fork::ForkRequest;
pub use graph::ImportError;
use view::read;
pub use view::{Attempt, Execution, NodeError, NodeState};

use crate::CommandError;
use crate::engine::Engine;

/// A run. Cloning is cheap, and dropping it does nothing to the run.
#[derive(Clone)]
pub struct RunHandle {
    engine: Engine,
    run: RunId,
    existing: bool,
    actor: Actor,
}

impl RunHandle {
    pub(crate) fn new(engine: Engine, run: RunId) -> Self {
        Self {
            engine,
            run,
            existing: false,
            actor: Actor::default(),
        }
    }

    pub(crate) fn existing_if(mut self, existing: bool) -> Self {
        self.existing = existing;
        self
    }

    /// The run's id.
    pub fn id(&self) -> RunId {
        self.run
    }

    /// Whether an earlier request with the same id had started it.
    pub fn is_existing(&self) -> bool {
        self.existing
    }

    /// How the run stands.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn status(&self) -> Result<RunStatus, ReadError> {
        let row = self.engine.inner().store().run(self.run).await;
        let row = row.map_err(ReadError::Store)?;
        row.map(|row| row.status)
            .ok_or(ReadError::NotFound(self.run))
    }

    /// Waits until the run has ended; a paused one, until it was resumed and has ended. For a
    /// run that this engine does not hold, returns its present status.
    ///
    /// # Errors
    /// The store failed, or the engine has stopped.
    pub async fn wait(&self) -> Result<RunStatus, ReadError> {
        let waited = self.engine.inner().wait(self.run).await;
        waited.map_err(ReadError::Store)
    }

    /// Waits until the run has ended, and gives its output.
    ///
    /// # Errors
    /// The run failed, was cancelled, is not executed by this engine, or cannot be read.
    pub async fn result(&self) -> Result<Value, RunError> {
        let status = self.wait().await?;
        let execution = self.execution().await?;
        match status {
            RunStatus::Succeeded => Ok(execution.output),
            RunStatus::Cancelled => Err(RunError::Cancelled(self.run)),
            RunStatus::Failed => Err(RunError::Failed(Box::new(RunFailure::of(&execution)))),
            status => Err(RunError::NotEnded {
                run: self.run,
                status,
            }),
        }
    }

    /// As [`Self::result`], read into a type.
    ///
    /// # Errors
    /// As for [`Self::result`], or the output does not fit the type.
    pub async fn result_as<T: DeserializeOwned>(&self) -> Result<T, RunError> {
        let output = self.result().await?;
        serde_json::from_value(output).map_err(|error| RunError::Output(error.to_string()))
    }

    /// The whole run, as it is now.
    ///
    /// # Errors
    /// The run cannot be read.
    pub async fn execution(&self) -> Result<Execution, ReadError> {
        self.reading(|handle| handle.read_now(false)).await
    }

    /// The nodes with their states, in the order in which they ended, then the others.
    ///
    /// # Errors
    /// The run cannot be read.
    pub async fn nodes(&self) -> Result<Vec<NodeState>, ReadError> {
        Ok(self.execution().await?.nodes)
    }

    /// The nodes in one state.
    ///
    /// # Errors
    /// The run cannot be read.
    pub async fn nodes_with_state(&self, state: NodeStatus) -> Result<Vec<NodeState>, ReadError> {
        let mut nodes = self.nodes().await?;
        nodes.retain(|node| node.status == state);
        Ok(nodes)
    }

    /// One node, by its id or its unique name for people.
    ///
    /// # Errors
    /// The run has no such node, or cannot be read.
    pub async fn node(&self, node: &str) -> Result<NodeState, ReadError> {
        view::one(self.nodes().await?, node)
    }

    /// The output of a node that has succeeded, read into a type.
    ///
    /// # Errors
    /// The run has no such node, it has not succeeded, or its output does not fit the type.
    pub async fn output_of<T: DeserializeOwned>(&self, node: &str) -> Result<T, ReadError> {
        let state = self.node(node).await?;
        if state.status != NodeStatus::Succeeded {
            let node = node.into();
            let status = state.status;
            return Err(ReadError::NoOutput { node, status });
        }
        serde_json::from_value(state.output).map_err(|error| ReadError::Unfit {
            node: node.into(),
            reason: error.to_string(),
        })
    }

    /// Every attempt of a node, oldest first, by its id or its unique name for people.
    ///
    /// # Errors
    /// The run has no such node, or cannot be read.
    pub async fn history(&self, node: &str) -> Result<Vec<Attempt>, ReadError> {
        let execution = self.reading(|handle| handle.read_now(true)).await?;
        history_of(execution, node)
    }

    /// What the run or one of its nodes waits for, or why it ended as it did.
    ///
    /// # Errors
    /// The run has no such node, or cannot be read.
    pub async fn why(&self, node: Option<&str>) -> Result<Why, ReadError> {
        let node = node.map(str::to_owned);
        let question = move |handle: &Self| {
            let queries = handle.engine.queries();
            windlass_service::why::why(&queries, handle.run, node.as_deref())
                .map_err(|failure| ReadError::of_failure(handle.run, failure))
        };
        self.reading(question).await
    }

    /// Reads the run off the runtime's own threads.
    async fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let handle = self.clone();
        let reading = tokio::task::spawn_blocking(move || read(&handle));
        match reading.await {
            Ok(read) => read,
            Err(error) => Err(ReadError::Unreadable(error.to_string())),
        }
    }

    /// The run as it is now, read on this thread.
    pub(crate) fn read_now(&self, attempts: bool) -> Result<Execution, ReadError> {
        read(&self.engine, self.run, attempts)
    }

    /// Sets the actor that the run records with commands.
    #[must_use]
    pub fn by(mut self, who: impl Into<Box<str>>) -> Self {
        self.actor.by = Some(who.into());
        self
    }

    /// Sets the reason that the run records with commands.
    #[must_use]
    pub fn because(mut self, reason: impl Into<Box<str>>) -> Self {
        self.actor.reason = Some(reason.into());
        self
    }

    /// Ends the run: nothing starts any more, and running work is asked to stop.
    ///
    /// # Errors
    /// The run's state does not allow it, or it cannot be read.
    pub async fn cancel(&self) -> Result<(), CommandError> {
        let compensate = false;
        self.command(RunCommand::Cancel { compensate }, "").await
    }

    /// As [`Self::cancel`], and nodes that succeeded are compensated, whatever the definition
    /// says.
    ///
    /// # Errors
    /// The run's state does not allow it, or it cannot be read.
    pub async fn cancel_and_compensate(&self) -> Result<(), CommandError> {
        let compensate = true;
        self.command(RunCommand::Cancel { compensate }, "").await
    }

    /// Gives the run a signal; the run keeps it until a node waits for it.
    ///
    /// # Errors
    /// No node of the run waits for a signal of this name, or the run cannot be read.
    pub async fn signal(&self, name: &str, payload: impl Serialize) -> Result<(), CommandError> {
        let name = name.into();
        self.command(RunCommand::Signal { name }, json(payload))
            .await
    }

    /// Sets a node's result by hand: the node has succeeded with this output.
    ///
    /// # Errors
    /// A node that came after has run already, there is no such node, or the run cannot
    /// be read.
    pub async fn set_result(&self, node: &str, output: impl Serialize) -> Result<(), CommandError> {
        let node = node.into();
        self.command(RunCommand::SetResult { node }, json(output))
            .await
    }

    /// Skips a node by hand: it counts as succeeded, with null as its output.
    ///
    /// # Errors
    /// As for [`Self::set_result`].
    pub async fn skip(&self, node: &str) -> Result<(), CommandError> {
        let node = node.into();
        self.command(RunCommand::Skip { node }, "").await
    }

    /// Compensates the nodes that succeeded, where the definition leaves that to a command.
    ///
    /// # Errors
    /// The run has not ended, nothing can be undone, or it cannot be read.
    pub async fn compensate(&self) -> Result<(), CommandError> {
        self.command(RunCommand::Compensate, "").await
    }

    /// Pause: starts no new nodes until the run is resumed; running nodes finish.
    ///
    /// # Errors
    /// The run's state does not allow it, or it cannot be read.
    pub async fn pause(&self) -> Result<(), CommandError> {
        self.command(RunCommand::Pause, "").await
    }

    /// Resumes a paused run.
    ///
    /// # Errors
    /// The run's state does not allow it, or it cannot be read.
    pub async fn resume(&self) -> Result<(), CommandError> {
        self.command(RunCommand::Resume, "").await
    }

    /// Undoes nodes again whose compensation has failed.
    ///
    /// # Errors
    /// As for [`Self::compensate`], or there is no such node.
    pub async fn retry_compensation<N: Into<String>>(
        &self,
        nodes: impl IntoIterator<Item = N>,
    ) -> Result<(), CommandError> {
        let nodes = nodes.into_iter().map(Into::into).collect();
        self.command(RunCommand::RetryCompensation { nodes }, "")
            .await
    }

    /// Tries failed or cancelled nodes again; none named means all that can be.
    ///
    /// # Errors
    /// A node that came after has run already, there is no such node, the run is a child that its
    /// parent does not wait for any more, or it cannot be read.
    pub async fn reattempt<N: Into<String>>(
        &self,
        nodes: impl IntoIterator<Item = N>,
    ) -> Result<(), CommandError> {
        let nodes = nodes.into_iter().map(Into::into).collect();
        let (engine, run) = (self.engine.inner().clone(), self.run);
        let looking = tokio::task::spawn_blocking(move || {
            refuse_orphan(&**engine.store(), engine.plans(), run)
        });
        looking.await.map_err(|_| CommandError::Stopped)??;
        self.command(RunCommand::Reattempt { nodes }, "").await
    }

    async fn command(
        &self,
        command: RunCommand,
        body: impl Into<Arc<str>>,
    ) -> Result<(), CommandError> {
        let request = command.by(self.actor.clone()).with(body);
        self.engine.inner().command(self.run, request).await?;
        Ok(())
    }
}

/// The attempts of one node.
pub(crate) fn history_of(mut execution: Execution, node: &str) -> Result<Vec<Attempt>, ReadError> {
    let id = view::one(execution.nodes, node)?.id;
    execution.attempts.retain(|attempt| attempt.node == id);
    Ok(execution.attempts)
}

/// One node of a run.
pub(crate) fn node_of(execution: Execution, node: &str) -> Result<NodeState, ReadError> {
    view::one(execution.nodes, node)
}

/// A value as JSON; what has no JSON form, such as a map with other keys than text, is null.
fn json(value: impl Serialize) -> String {
    serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned())
}

impl std::fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RunHandle").field(&self.run).finish()
    }
}
