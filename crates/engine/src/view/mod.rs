//! An execution as people and programs see it: the state of a run with the times of
//! its nodes, and the whole of it as JSON.
//!
//! The JSON is written as it is read, never built as a tree: a run of 100,000 nodes
//! costs its state and two moments a node. Nodes appear in the order in which they
//! ended, then those that have no end of their own in the log. Instances inside loops
//! are named by their paths and listed where there are few, or on request.

mod annotations;
mod at_work;
mod attempts;
mod counts;
mod durations;
mod json;
mod links;
mod node;
mod pretty;
mod progress;
mod times;
mod walk;

use std::num::NonZeroU64;

use windlass_core::RunId;
use windlass_core::run::Run;

use crate::Backend;
use crate::load::LoadError;
use crate::plans::Plans;
use crate::replay::{Until, replay};

use annotations::Gathered;
pub use annotations::{Annotations, ByHand};
pub use at_work::AtWork;
pub(crate) use attempts::instance as attempt_instance;
pub use counts::NodeCounts;
pub use durations::{NodeDurations, NodeFigures, percentile, without_iterations};
pub use json::{AttemptFilter, Error, Options, write};
pub use pretty::{PRETTY_NODES, Pretty};
pub use progress::Progress;
pub use times::Times;
pub use walk::{FEW_INSTANCES, Nodes, SeenInstance, for_each_instance, inside};

/// A run read back, with the times of its nodes.
pub struct Overview {
    /// Its state.
    pub run: Run,
    /// When its nodes started and ended.
    pub times: Times,
    /// What else the log says about its nodes.
    pub notes: Annotations,
    /// The last of its events that is in it, where one was asked for.
    last: Option<u64>,
    /// How far its log was read.
    until: Until,
}

/// Reads a run for looking at it.
///
/// # Errors
/// There is no such run, or it cannot be read.
pub fn overview(store: &dyn Backend, plans: &Plans, run: RunId) -> Result<Overview, LoadError> {
    let mut gathered = Gathered::default();
    let loaded = replay(store, plans, run, &mut gathered)?;
    Ok(Overview {
        run: loaded.run,
        times: gathered.times,
        notes: gathered.notes,
        last: None,
        until: Until::record(loaded.head.sequence),
    })
}

/// Reads a run as it was after one of its events, by its position; as it is now, if it has had
/// fewer.
///
/// # Errors
/// There is no such run, or it cannot be read.
pub fn overview_at(
    store: &dyn Backend,
    plans: &Plans,
    run: RunId,
    at: NonZeroU64,
) -> Result<Overview, LoadError> {
    let mut progress = Progress::new(run);
    progress.read(store, plans, Some(at))?;
    progress.into_overview().ok_or(LoadError::NotFound(run))
}
