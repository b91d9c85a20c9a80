//! The graph that a run has, as data: taken out, changed, and put back.

use std::fmt;

use windlass_core::command::RunCommand;
use windlass_service::export::export_from;

use super::{ReadError, RunHandle};
use crate::CommandError;
use crate::graph::{FrozenError, FrozenGraph};

/// Why a graph was not imported.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// The text is no graph.
    Graph(FrozenError),
    /// The run's state does not allow it, or it cannot be read.
    Refused(CommandError),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Graph(error) => error.fmt(f),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImportError {}

impl From<CommandError> for ImportError {
    fn from(error: CommandError) -> Self {
        Self::Refused(error)
    }
}

impl From<FrozenError> for ImportError {
    fn from(error: FrozenError) -> Self {
        Self::Graph(error)
    }
}

impl RunHandle {
    /// The graph that the run has now, with when it was frozen into the run.
    ///
    /// # Errors
    /// The run cannot be read.
    pub async fn export(&self) -> Result<FrozenGraph, ReadError> {
        let text = self.reading(|handle| {
            let (engine, run) = (handle.engine.inner(), handle.run);
            let exported = export_from(&**engine.store(), engine.plans(), run);
            let exported = exported.map_err(|failure| ReadError::of_failure(run, failure))?;
            let mut text = Vec::new();
            let written = exported.write(&mut text);
            written.map_err(|error| ReadError::Unreadable(error.to_string()))?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        });
        FrozenGraph::from_json(&text.await?)
            .map_err(|error| ReadError::Unreadable(error.to_string()))
    }

    /// Replaces the graph of a paused or failed run, which has a graph of its own from here on.
    /// A paused run is then resumed, a failed one reattempted.
    ///
    /// # Errors
    /// The run is neither, the graph is of another workflow, or the run could make no progress
    /// with it.
    pub async fn import(&self, graph: &FrozenGraph) -> Result<(), ImportError> {
        let text = graph.definition_json();
        self.command(RunCommand::Import, text).await?;
        Ok(())
    }

    /// Replaces the graph by one in JSON, as `export` writes it: see [`Self::import`].
    ///
    /// # Errors
    /// It is no graph, has a signature that is not that of its nodes, or is refused.
    pub async fn import_json(&self, text: &str) -> Result<(), ImportError> {
        self.import(&FrozenGraph::from_json(text)?).await
    }
}
