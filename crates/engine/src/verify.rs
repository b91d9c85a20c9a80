//! The check of one run against its log: every value against its digest, the chain of
//! ancestry by a computation of its own, the definition and the row. What does not fit
//! is named; nothing is changed.

use std::fmt::Write as _;

use windlass_core::event::{AttemptEnded, AttemptResult, Event};
use windlass_core::plan::NodeIndex;
use windlass_core::routing::EdgeState;
use windlass_core::run::{Change, Run};
use windlass_core::value::Stored;
use windlass_core::{Digest, RunId};
use windlass_orchestrator::row;

use crate::Backend;
use crate::load::{LoadError, LoadedRun};
use crate::plans::Plans;
use crate::replay::{Place, Visitor, replay};
use crate::values::stored_text;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// How many records were read, checked and replayed.
    pub records: u64,
    /// How many values were compared with their digests.
    pub values: u64,
    /// How many hashes of the chain were recomputed.
    pub hashes: u64,
    /// The first thing that does not fit.
    pub misfit: Option<Misfit>,
}

/// Something in a run's log, or derived from it, that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The record, if it is about one.
    pub record: Option<u64>,
    /// The node, if it is about one.
    pub node: Option<String>,
    /// What does not fit.
    pub reason: String,
}

/// Checks a run.
///
/// # Errors
/// There is no such run, or it cannot be read: the store names the damage.
pub fn verify(store: &dyn Backend, plans: &Plans, run: RunId) -> Result<Verified, LoadError> {
    let mut check = Check {
        store,
        ancestry: Vec::new(),
        verified: Verified::default(),
    };
    match replay(store, plans, run, &mut check) {
        Ok(loaded) => {
            check.verified.records = loaded.run.records();
            check.verified.misfit = derived(store, &loaded)?;
            Ok(check.verified)
        }
        Err(Stop::Misfit(misfit)) => {
            check.verified.records = misfit.record.unwrap_or_default();
            check.verified.misfit = Some(misfit);
            Ok(check.verified)
        }
        Err(Stop::Load(error)) => Err(error),
    }
}

/// What stands beside the log: the definition and the row.
fn derived(store: &dyn Backend, loaded: &LoadedRun) -> Result<Option<Misfit>, LoadError> {
    let run = &loaded.run;
    let misfit = |reason: String| {
        Ok(Some(Misfit {
            record: None,
            node: None,
            reason,
        }))
    };
    let queued = run.queued();
    let (workflow, version) = (&queued.workflow, queued.version);
    match store.definition(workflow, Some(version))? {
        None => return misfit(format!("version {version} of '{workflow}' is missing")),
        Some(found) if Digest::of(&found.text) != queued.definition => {
            return misfit(format!(
                "version {version} of '{workflow}' is not the definition that the run began with"
            ));
        }
        Some(_) => {}
    }
    let found = store.run(run.id())?;
    if store.head(run.id())? != loaded.head {
        // The run went on meanwhile: its row belongs to a later state than this one.
        return Ok(None);
    }
    match found {
        None => misfit("the run is missing from the list of runs".to_owned()),
        Some(found) if found != row(run, (found.asleep, found.wake_at)) => {
            misfit("the run's line in the list of runs does not fit its log".to_owned())
        }
        Some(_) => Ok(None),
    }
}

enum Stop {
    Load(LoadError),
    Misfit(Misfit),
}

impl From<LoadError> for Stop {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

struct Check<'a> {
    store: &'a dyn Backend,
    /// The hashes as recomputed here, by node.
    ancestry: Vec<Option<Digest>>,
    verified: Verified,
}

impl Check<'_> {
    /// Compares a stored value with the digest that the record gives.
    fn value(&mut self, stored: &Stored, digest: &Digest) -> Result<bool, Stop> {
        let text = stored_text(self.store, stored).map_err(LoadError::Store)?;
        self.verified.values += 1;
        Ok(Digest::of(text.as_bytes()) == *digest)
    }

    fn attempt(&mut self, run: &Run, ended: &AttemptEnded, place: Place) -> Result<(), Stop> {
        let misfit = |reason: &str| {
            Err(Stop::Misfit(Misfit {
                record: Some(place.record),
                node: Some(ended.node.to_string()),
                reason: format!("attempt {}: {reason}", ended.attempt),
            }))
        };
        let fits = match &ended.result {
            AttemptResult::Succeeded(value)
            | AttemptResult::Failed(value)
            | AttemptResult::Retrying { error: value, .. } => self.value(value, &ended.digest)?,
            AttemptResult::Skipped {} | AttemptResult::Stopped {} => {
                ended.digest == Digest::of(b"null")
            }
        };
        if !fits {
            return misfit("its result does not have the digest that the record gives");
        }
        if let Some(parameters) = &ended.parameters {
            let digest = parameters.digest();
            if !self.value(parameters, &digest)? {
                return misfit("its parameters do not have the digest that the record gives");
            }
        }
        let Some(node) = run.plan().index(&ended.node) else {
            return misfit("the graph has no such node");
        };
        let ends = !matches!(
            ended.result,
            AttemptResult::Retrying { .. } | AttemptResult::Stopped {}
        );
        let expected = ends.then(|| self.recompute(run, node, ended));
        self.ancestry[node as usize] = expected;
        self.verified.hashes += u64::from(ends);
        if ended.ancestry != expected {
            return misfit("its ancestry is not that of the nodes it was reached from");
        }
        Ok(())
    }

    /// Semantics §10, from the written formula: `node:attempt:digest`, then `:hash` for
    /// each parent that led here, the hashes sorted as text.
    fn recompute(&self, run: &Run, node: NodeIndex, ended: &AttemptEnded) -> Digest {
        let plan = run.plan();
        let mut parents: Vec<NodeIndex> = plan
            .incoming(node)
            .iter()
            .filter(|&&edge| run.edge_state(edge) == EdgeState::Taken)
            .map(|&edge| plan.edge(edge).source)
            .collect();
        parents.sort_unstable();
        parents.dedup();
        let mut hashes: Vec<String> = parents
            .iter()
            .filter_map(|&parent| self.ancestry[parent as usize])
            .map(|hash| hash.to_string())
            .collect();
        hashes.sort_unstable();
        let mut text = format!("{}:{}:{}", ended.node, ended.attempt, ended.digest);
        for hash in hashes {
            // Writing to a string cannot fail.
            let _ = write!(text, ":{hash}");
        }
        Digest::of(text.as_bytes())
    }
}

impl Visitor for Check<'_> {
    type Error = Stop;

    fn before(&mut self, run: &Run, event: &Event, place: Place) -> Result<(), Stop> {
        if self.ancestry.is_empty() {
            self.ancestry = vec![None; run.plan().len()];
        }
        match event {
            Event::AttemptEnded(ended) => self.attempt(run, ended, place),
            _ => Ok(()),
        }
    }

    fn after(
        &mut self,
        run: &Run,
        event: &Event,
        _place: Place,
        changes: &[Change],
    ) -> Result<(), Stop> {
        let own = match event {
            Event::AttemptEnded(ended) => run.plan().index(&ended.node),
            _ => None,
        };
        // A node that ended without running has no hash, whatever it had before a reattempt.
        for change in changes {
            if let &Change::Ended(node, ..) = change
                && Some(node) != own
                && (node as usize) < self.ancestry.len()
            {
                self.ancestry[node as usize] = None;
            }
        }
        Ok(())
    }
}
