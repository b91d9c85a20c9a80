//! The layout of a workflow's graph, or of the graph that a run has now: which definition that
//! is, and how it is laid out.

use windlass_core::definition::Definition;
use windlass_core::{Digest, RunId};
use windlass_graph::{PackOptions, Packed, pack};

use crate::drawing::text_of;
use crate::failure::{Failure, FailureKind};
use crate::progress::ProgressCache;
use crate::run_queries::RunQueries;

/// A definition whose graph can be laid out.
#[derive(Clone, Debug)]
pub struct Drawable {
    /// The digest of its text.
    pub digest: Digest,
    text: Vec<u8>,
}

/// The definition of a workflow, the newest or one version.
///
/// # Errors
/// There is no such version or workflow, or the store failed.
pub fn of_workflow(
    queries: &RunQueries,
    id: &str,
    version: Option<u32>,
) -> Result<Drawable, Failure> {
    let row = queries.definition(id, version)?;
    Ok(Drawable {
        digest: row.digest,
        text: row.text,
    })
}

/// The definition whose graph a run has now.
///
/// # Errors
/// There is no such run, or it cannot be read.
pub fn of_run(queries: &RunQueries, runs: &ProgressCache, id: RunId) -> Result<Drawable, Failure> {
    runs.read(queries, id, |progress| {
        let run = progress.run().expect("it was read");
        Ok(Drawable {
            digest: run.definition(),
            text: text_of(queries, run)?,
        })
    })
}

impl Drawable {
    /// Lays the graph out.
    ///
    /// # Errors
    /// The definition cannot be read, or the layout would be too large.
    pub fn packed(&self, options: &PackOptions) -> Result<Packed, Failure> {
        let definition: Definition = serde_json::from_slice(&self.text)
            .map_err(|error| Failure::new(FailureKind::DefinitionUnreadable, error))?;
        pack(&definition, options).map_err(|error| Failure::new(FailureKind::GraphTooLarge, error))
    }
}
