//! The check of one run against its log: every value against its digest, the chain of
//! ancestry by a computation of its own, the definition and the row. The first mismatch is
//! reported; nothing is changed.

mod origin;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use windlass_core::definition::Join;
use windlass_core::event::{AttemptEnded, AttemptResult, Event, SetByHand};
use windlass_core::routing::EdgeState;
use windlass_core::run::{Change, Instance, Run};
use windlass_core::value::{Stored, StoredFile};
use windlass_core::{Digest, RunId};
use windlass_orchestrator::row;
use windlass_store::{RunRow, Wait as _};

use self::origin::{End, Ends};
use crate::Backend;
use crate::load::{LoadError, LoadedRun};
use crate::plans::Plans;
use crate::replay::{EventPosition, Visitor, replay};
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
        plans,
        ancestry: HashMap::new(),
        own: None,
        origin: None,
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

/// What stands beside the log: the definitions and the row.
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
    let began_with = (queued.frozen, queued.version, queued.definition);
    let goes_on_with = (run.is_frozen(), run.version(), run.definition());
    for (what, graph) in [("began with", began_with), ("goes on with", goes_on_with)] {
        let workflow = (queued.tenant.as_deref(), &*queued.workflow);
        if let Some(reason) = definition(store, workflow, graph, what)? {
            return misfit(reason);
        }
    }
    let found = store.run(run.id()).wait()?;
    if store.head(run.id()).wait()? != loaded.head {
        // The run made progress meanwhile: its row belongs to a later state than this one.
        return Ok(None);
    }
    match found {
        None => misfit("the run is missing from the list of runs".to_owned()),
        Some(found) if found != expected(run, &found) => {
            misfit("the run's line in the list of runs does not fit its log".to_owned())
        }
        Some(_) => Ok(None),
    }
}

/// The row that a run should have, but for what does not derive from its log.
fn expected(run: &Run, found: &RunRow) -> RunRow {
    let row = row(run, (found.asleep, found.wake_at));
    RunRow {
        dead: found.dead,
        // A row from before lists had messages has none.
        error_message: found.error_message.as_ref().and(row.error_message),
        // The same goes for codes of root causes and for origins.
        cause_codes: match found.cause_codes.is_empty() {
            true => Vec::new(),
            false => row.cause_codes,
        },
        origin: found.origin.and(row.origin),
        // A run that was moved is in another one than it began in.
        partition: found.partition,
        ..row
    }
}

/// What does not fit a definition that a run is said to have: a version of its workflow
/// or, of a graph that belongs to the run alone, a value.
fn definition(
    store: &dyn Backend,
    (tenant, workflow): (Option<&str>, &str),
    (frozen, version, digest): (bool, u32, Digest),
    what: &str,
) -> Result<Option<String>, LoadError> {
    let (name, found) = if frozen {
        let name = "the graph that belongs to the run alone".to_owned();
        (name, store.blob(&digest).wait()?)
    } else {
        let found = store.definition(tenant, workflow, Some(version)).wait()?;
        let text = found.map(|found| found.text.to_vec());
        (format!("version {version} of '{workflow}'"), text)
    };
    Ok(match found {
        None => Some(format!("{name} is missing")),
        Some(text) if Digest::of(&text) != digest => {
            Some(format!("{name} is not the definition that the run {what}"))
        }
        Some(_) => None,
    })
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
    plans: &'a Plans,
    /// The hashes as recomputed here, by instance, for as long as the run knows it.
    ancestry: HashMap<Instance, Digest>,
    /// The instance that the present event ends: once it is applied, its path may lead
    /// there no more.
    own: Option<Instance>,
    /// The ends in the log of the run that this one was forked from, once they were read.
    origin: Option<Ends>,
    verified: Verified,
}

/// Names a record that does not fit.
fn misfit<T>(place: EventPosition, node: &str, reason: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Misfit(Misfit {
        record: Some(place.record),
        node: Some(node.to_owned()),
        reason: reason.into(),
    }))
}

impl Check<'_> {
    /// Compares a stored value with the digest that the record gives.
    fn value(&mut self, stored: &Stored, digest: &Digest) -> Result<bool, Stop> {
        let text = stored_text(self.store, stored).map_err(LoadError::Store)?;
        self.verified.values += 1;
        Ok(Digest::of(text.as_bytes()) == *digest)
    }

    /// Compares an attempt's values with their digests.
    fn values(&mut self, ended: &AttemptEnded, place: EventPosition) -> Result<(), Stop> {
        let fits = match &ended.result {
            AttemptResult::Succeeded(value)
            | AttemptResult::Failed(value)
            | AttemptResult::Retrying { error: value, .. } => self.value(value, &ended.digest)?,
            AttemptResult::Skipped {} | AttemptResult::Stopped {} => {
                ended.digest == Digest::of(b"null")
            }
        };
        let attempt = ended.attempt;
        if !fits {
            let reason = "its result does not have the digest that the record gives";
            return misfit(place, &ended.node, format!("attempt {attempt}: {reason}"));
        }
        if let Some(parameters) = &ended.parameters {
            let digest = parameters.digest();
            if !self.value(parameters, &digest)? {
                let reason = "its parameters do not have the digest that the record gives";
                return misfit(place, &ended.node, format!("attempt {attempt}: {reason}"));
            }
        }
        for file in &ended.files {
            if !self.file(file)? {
                let reason = "a blob that it stored does not have the digest that the record gives";
                return misfit(place, &ended.node, format!("attempt {attempt}: {reason}"));
            }
        }
        Ok(())
    }

    /// Compares a file with its digest, part by part.
    fn file(&mut self, file: &StoredFile) -> Result<bool, Stop> {
        let (mut whole, mut size) = (Digest::of_parts(), 0);
        for part in &file.parts {
            let found = self.store.blob(&part.digest()).wait();
            let Some(bytes) = found.map_err(LoadError::Store)? else {
                return Ok(false);
            };
            whole.add(&bytes);
            size += bytes.len() as u64;
        }
        self.verified.values += 1;
        Ok(whole.take() == file.digest && size == file.size)
    }

    fn attempt(
        &mut self,
        run: &Run,
        ended: &AttemptEnded,
        place: EventPosition,
    ) -> Result<(), Stop> {
        self.values(ended, place)?;
        let ends = !matches!(
            ended.result,
            AttemptResult::Retrying { .. } | AttemptResult::Stopped {}
        );
        let (path, attempt) = (&*ended.node, ended.attempt);
        let Some(node) = run.resolve(path) else {
            let reason = format!("attempt {attempt}: the graph has no such node");
            return misfit(place, path, reason);
        };
        let expected = ends.then(|| self.recompute(run, node, attempt, &ended.digest));
        self.expect(node, expected);
        if ended.ancestry != expected {
            let reason = "its ancestry is not that of the nodes it was reached from";
            return misfit(place, path, format!("attempt {attempt}: {reason}"));
        }
        Ok(())
    }

    /// An attempt to undo a node has values, and no place in the chain.
    fn undoing(&mut self, ended: &AttemptEnded, place: EventPosition) -> Result<(), Stop> {
        self.values(ended, place)?;
        if ended.ancestry.is_some() {
            let reason = format!("undoing it, attempt {}, has an ancestry", ended.attempt);
            return misfit(place, &ended.node, reason);
        }
        Ok(())
    }

    fn by_hand(&mut self, run: &Run, set: &SetByHand, place: EventPosition) -> Result<(), Stop> {
        let digest = set.output.digest();
        if !self.value(&set.output, &digest)? {
            let reason = "its result given by hand is not what the record names";
            return misfit(place, &set.node, reason);
        }
        let Some(node) = run.resolve(&set.node) else {
            return misfit(place, &set.node, "the graph has no such node");
        };
        let expected = self.recompute(run, node, set.attempt, &digest);
        self.expect(node, Some(expected));
        if set.ancestry != expected {
            let reason = "given by hand: its ancestry is not that of the nodes it was reached from";
            return misfit(place, &set.node, reason);
        }
        Ok(())
    }

    /// A node took the result of the run that this one was forked from.
    fn reused(&mut self, run: &Run, node: Instance, place: EventPosition) -> Result<(), Stop> {
        let recorded = run.ancestry(node);
        let (plan, index) = run.place(node);
        let skipped = Digest::of(b"null");
        let digest = run.value(node).map_or(skipped, |value| value.digest);
        // A join that does not wait for all covers the parents that had ended when it
        // ran, which another run need not repeat: its hash is taken as it is.
        let expected = match plan.join(index) {
            Join::All => recorded.map(|_| self.recompute(run, node, run.attempt(node), &digest)),
            _ => recorded,
        };
        self.expect(node, recorded);
        if recorded != expected && !self.is_of_the_origin(run, node, digest)? {
            let reason = "reused: its ancestry is not that of the nodes it was reached from";
            return misfit(place, &run.path(node), reason);
        }
        Ok(())
    }

    /// Whether the run that this one was forked from has the result that a node took, by
    /// whatever way it was reached there.
    fn is_of_the_origin(
        &mut self,
        run: &Run,
        node: Instance,
        digest: Digest,
    ) -> Result<bool, Stop> {
        let Some(origin) = &run.queued().origin else {
            return Ok(false);
        };
        let ends = match self.origin.take() {
            Some(ends) => ends,
            None => Ends::of(self.store, self.plans, origin.execution_id)?,
        };
        let end = End {
            path: run.path(node),
            attempt: run.attempt(node),
            digest,
            ancestry: run.ancestry(node),
        };
        Ok(self.origin.insert(ends).may_have(&end))
    }

    fn expect(&mut self, node: Instance, hash: Option<Digest>) {
        match hash {
            Some(hash) => {
                self.ancestry.insert(node, hash);
                self.verified.hashes += 1;
            }
            None => {
                self.ancestry.remove(&node);
            }
        }
    }

    /// Semantics §10, from the written formula: `node:attempt:digest`, then `:hash` for
    /// each parent that led here, the hashes sorted as text.
    fn recompute(&self, run: &Run, node: Instance, attempt: u32, digest: &Digest) -> Digest {
        let mut hashes: Vec<String> = led_here(run, node)
            .iter()
            .filter_map(|parent| self.ancestry.get(parent))
            .map(Digest::to_string)
            .collect();
        hashes.sort_unstable();
        let mut text = format!("{}:{attempt}:{digest}", run.path(node));
        for hash in hashes {
            // Writing to a string cannot fail.
            let _ = write!(text, ":{hash}");
        }
        Digest::of(text.as_bytes())
    }
}

/// The parents whose edges led to an instance; the entries of a body have those of their
/// loop.
fn led_here(run: &Run, node: Instance) -> BTreeSet<Instance> {
    let parents = run.parents(node);
    match run.owner(node) {
        Some((owner, _)) if parents.is_empty() => led_here(run, owner),
        _ => {
            let taken = parents
                .iter()
                .filter(|(_, state)| *state == EdgeState::Taken);
            taken.map(|(parent, _)| *parent).collect()
        }
    }
}

impl Visitor for Check<'_> {
    type Error = Stop;

    fn before(&mut self, run: &Run, event: &Event, place: EventPosition) -> Result<(), Stop> {
        self.own = match event {
            Event::AttemptEnded(ended) => run.resolve(&ended.node),
            Event::SetByHand(set) => run.resolve(&set.node),
            _ => None,
        };
        match event {
            Event::AttemptEnded(ended) => self.attempt(run, ended, place),
            Event::CompensationEnded(ended) => self.undoing(ended, place),
            Event::SetByHand(set) => self.by_hand(run, set, place),
            other => {
                for value in other.values() {
                    if !self.value(value, &value.digest())? {
                        let reason = "a value is not what the record names".to_owned();
                        return Err(Stop::Misfit(Misfit {
                            record: Some(place.record),
                            node: None,
                            reason,
                        }));
                    }
                }
                Ok(())
            }
        }
    }

    fn after(
        &mut self,
        run: &Run,
        _event: &Event,
        place: EventPosition,
        changes: &[Change],
    ) -> Result<(), Stop> {
        for change in changes {
            if let &Change::Ended(node, ..) = change
                && Some(node) != self.own
            {
                if run.find_status(node).is_some() && run.is_reused(node) {
                    self.reused(run, node, place)?;
                } else {
                    // A node that ended without running has no hash, whatever it had
                    // before a reattempt.
                    self.ancestry.remove(&node);
                }
            }
        }
        Ok(())
    }

    fn freeing(&mut self, _run: &Run, node: Instance) -> Result<(), Stop> {
        self.ancestry.remove(&node);
        Ok(())
    }
}
