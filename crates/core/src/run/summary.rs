//! A summary of a run for observers: kept small, and shared rather than copied.

use std::fmt;
use std::sync::Arc;

use super::Run;
use crate::event::{Finished, Queued};
use crate::id::{Millis, RunId};
use crate::status::NodeStatus;

/// A summary of a run for observers.
#[derive(Clone)]
pub struct RunSummary {
    /// The run that is summarised.
    pub run: RunId,
    /// The request for it.
    pub queued: Arc<Queued>,
    /// The workflow's version that it is on.
    pub version: u32,
    /// When it was requested.
    pub created_at: Millis,
    /// When it began.
    pub started_at: Option<Millis>,
    /// When it was last opened again after it had ended.
    pub reopened_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// How it ended.
    pub finished: Option<Arc<Finished>>,
    /// Levels of its graph in which a node ran; 0 until it has ended.
    pub levels: u32,
}

impl fmt::Debug for RunSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "About({} of {})", self.run, self.queued.workflow)
    }
}

impl Run {
    /// The summary of the run as it is now.
    pub fn about(&self) -> RunSummary {
        RunSummary {
            run: self.id,
            queued: Arc::clone(&self.queued),
            version: self.version,
            created_at: self.created_at,
            started_at: self.started_at,
            reopened_at: self.reopened_at,
            ended_at: self.ended_at,
            finished: self.finished.clone(),
            levels: match self.finished {
                Some(_) => self.levels_run(),
                None => 0,
            },
        }
    }

    /// Levels of the top level's graph in which a node succeeded or failed.
    fn levels_run(&self) -> u32 {
        let depths = self.top.plan.depths();
        let mut seen = Vec::new();
        for (state, &depth) in self.top.nodes.iter().zip(depths) {
            if !matches!(state.status, NodeStatus::Succeeded | NodeStatus::Failed) {
                continue;
            }
            let depth = depth as usize;
            if seen.len() <= depth {
                seen.resize(depth + 1, false);
            }
            seen[depth] = true;
        }
        seen.into_iter().map(u32::from).sum()
    }
}
