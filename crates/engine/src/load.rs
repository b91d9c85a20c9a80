//! Reading a run back: its log folded into its state. Recovery and looking share it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_core::event::{Event, Queued, Transition};
use windlass_core::plan::Plan;
use windlass_core::run::{GraphName, Run, Snapshot};
use windlass_core::{Digest, RunId};
use windlass_orchestrator::codec;
use windlass_store::{Damage, Error, Head, Wait as _};

use crate::Backend;
use crate::plans::Plans;
use crate::values::blob_text;

/// How much of a log is read at a time.
pub(crate) const PAGE_BYTES: usize = 512 * 1024;

/// A run read back.
pub struct LoadedRun {
    /// Its state.
    pub run: Run,
    /// Where its log ends.
    pub head: Head,
    /// How many records were folded to get there: all of them, or those after the
    /// checkpoint that the state was restored from.
    pub event_count: u64,
}

/// Why a run cannot be read back.
#[derive(Debug)]
pub enum LoadError {
    /// There is no such run.
    NotFound(RunId),
    /// The store cannot be read, or is damaged.
    Store(Error),
    /// The definition it runs on is missing or cannot be used.
    Definition(String),
    /// It could be read, and must not be acquired now.
    Unavailable(Unavailable),
}

/// Why a run that can be read must not be acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unavailable {
    /// It is among the dead letters.
    Dead,
    /// Another process works on it.
    Elsewhere,
    /// Processes died this many times with the run's work in hand.
    Poison {
        /// How often.
        deaths: u32,
    },
    /// As before, and it may be tried again after a while.
    Later {
        /// How often.
        deaths: u32,
    },
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elsewhere => f.write_str("another process works on the run"),
            Self::Dead => f.write_str("the run is among the dead letters; requeue it first"),
            Self::Poison { deaths } => write!(
                f,
                "the process crashed {deaths} times with the run's work in hand"
            ),
            Self::Later { deaths } => write!(
                f,
                "the process crashed {deaths} times with the run's work in hand; it is tried alone later"
            ),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(run) => write!(f, "there is no run {run}"),
            Self::Store(error) => error.fmt(f),
            Self::Definition(reason) => write!(f, "the run's definition: {reason}"),
            Self::Unavailable(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<Error> for LoadError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// Reads a run's log and folds it; `visit` sees every transition with the state before it.
///
/// # Errors
/// There is no such run, or it cannot be read.
pub fn load_run(
    store: &dyn Backend,
    plans: &Plans,
    id: RunId,
    visit: impl FnMut(Option<&Run>, &Transition),
) -> Result<LoadedRun, LoadError> {
    fold(store, plans, id, None, visit)
}

/// Reads a run's state: from its checkpoint and what follows it, if there is one that
/// can be used, else from the whole log.
///
/// # Errors
/// There is no such run, or it cannot be read.
pub fn load_latest(store: &dyn Backend, plans: &Plans, id: RunId) -> Result<LoadedRun, LoadError> {
    match from_checkpoint(store, plans, id)? {
        Some(loaded) => fold(store, plans, id, Some(loaded), |_, _| {}),
        None => load_run(store, plans, id, |_, _| {}),
    }
}

/// The state that a run's checkpoint stands for; none if there is none to use.
fn from_checkpoint(
    store: &dyn Backend,
    plans: &Plans,
    id: RunId,
) -> Result<Option<LoadedRun>, LoadError> {
    let Some(checkpoint) = store.checkpoint(id).wait()? else {
        return Ok(None);
    };
    let Some(state) = codec::open_checkpoint(&checkpoint.bytes) else {
        return Ok(None);
    };
    let Some(first) = store.read(id, 1, 1).wait()?.into_iter().next() else {
        return Ok(None);
    };
    let first =
        codec::decode(&first.bytes).map_err(|error| undecodable(id, first.sequence, &error))?;
    let (Some(Event::Queued(queued)), Some(snapshot)) =
        (first.events.first(), Snapshot::read(state))
    else {
        return Ok(None);
    };
    let graphs = snapshot.graphs().iter();
    let graphs = graphs.map(|name| graph(store, plans, queued, name));
    let graphs = graphs.collect::<Result<Vec<_>, _>>()?;
    let restored = Run::restore(id, graphs, (**queued).clone(), first.at, snapshot);
    let head = checkpoint.head;
    Ok(restored
        .filter(|run| run.records() == head.sequence)
        .map(|run| LoadedRun {
            run,
            head,
            event_count: 0,
        }))
}

/// Folds the records after a state into it; with none, the whole log.
fn fold(
    store: &dyn Backend,
    plans: &Plans,
    id: RunId,
    from: Option<LoadedRun>,
    mut visit: impl FnMut(Option<&Run>, &Transition),
) -> Result<LoadedRun, LoadError> {
    let mut event_count = 0;
    let (mut run, mut head) = match from {
        Some(loaded) => (Some(loaded.run), loaded.head),
        None => (None, Head::NONE),
    };
    loop {
        let page = store.read(id, head.sequence + 1, PAGE_BYTES).wait()?;
        if page.is_empty() {
            break;
        }
        for record in page {
            let fault = |reason: String| unreadable(id, record.sequence, reason);
            let transition = codec::decode(&record.bytes)
                .map_err(|error| undecodable(id, record.sequence, &error))?;
            visit(run.as_ref(), &transition);
            let state = match &mut run {
                Some(state) => state,
                None => run.insert(begin(store, plans, id, &transition)?),
            };
            for event in &transition.events {
                bring_graph(store, plans, state, event)?;
                state
                    .apply(event, transition.at, &mut Vec::new())
                    .map_err(|corrupt| fault(corrupt.reason))?;
            }
            state.finish_record();
            event_count += 1;
            head = record.head();
        }
    }
    let run = run.ok_or(LoadError::NotFound(id))?;
    Ok(LoadedRun {
        run,
        head,
        event_count,
    })
}

pub(crate) fn begin(
    store: &dyn Backend,
    plans: &Plans,
    id: RunId,
    first: &Transition,
) -> Result<Run, LoadError> {
    let Some(Event::Queued(queued)) = first.events.first() else {
        return Err(unreadable(
            id,
            1,
            "it does not begin with the request".to_owned(),
        ));
    };
    let name = GraphName {
        definition: queued.definition,
        version: queued.version,
        frozen: queued.frozen,
    };
    let plan = graph(store, plans, queued, &name)?;
    Run::new(id, plan, (**queued).clone(), first.at)
        .map_err(|corrupt| LoadError::Store(Error::TooNew(corrupt.reason)))
}

/// The graph with this name.
fn graph(
    store: &dyn Backend,
    plans: &Plans,
    queued: &Queued,
    name: &GraphName,
) -> Result<Arc<Plan>, LoadError> {
    if name.frozen {
        frozen_plan(store, plans, name.definition)
    } else {
        plan_of(store, plans, name.definition, queued, name.version)
    }
}

/// Brings the graph that an event goes on with.
pub(crate) fn bring_graph(
    store: &dyn Backend,
    plans: &Plans,
    run: &mut Run,
    event: &Event,
) -> Result<(), LoadError> {
    match event {
        Event::Healed {
            version,
            definition,
        } => {
            let plan = plan_of(store, plans, *definition, run.queued(), *version)?;
            run.stage(*definition, plan);
        }
        Event::Imported { definition, .. } => {
            let plan = frozen_plan(store, plans, *definition)?;
            run.stage(*definition, plan);
        }
        _ => {}
    }
    Ok(())
}

/// The graph of a definition that belongs to one run alone.
fn frozen_plan(store: &dyn Backend, plans: &Plans, digest: Digest) -> Result<Arc<Plan>, LoadError> {
    if let Some(plan) = plans.get(&digest) {
        return Ok(plan);
    }
    let text = blob_text(store, &digest)?;
    plans
        .plan(digest, text.as_bytes())
        .map_err(|error| LoadError::Definition(error.to_string()))
}

fn plan_of(
    store: &dyn Backend,
    plans: &Plans,
    digest: Digest,
    queued: &Queued,
    version: u32,
) -> Result<Arc<Plan>, LoadError> {
    if let Some(plan) = plans.get(&digest) {
        return Ok(plan);
    }
    let (tenant, workflow) = (queued.tenant.as_deref(), &queued.workflow);
    let row = store.definition(tenant, workflow, Some(version)).wait()?;
    let row = row.ok_or_else(|| {
        LoadError::Definition(format!("version {version} of '{workflow}' is missing"))
    })?;
    plans
        .plan(digest, &row.text)
        .map_err(|error| LoadError::Definition(error.to_string()))
}

/// A record that cannot be decoded: a newer program wrote it, or it is damaged.
fn undecodable(run: RunId, sequence: u64, error: &codec::DecodeError) -> LoadError {
    match error.is_newer() {
        true => {
            let text = format!("record {sequence} of run {run}: {error}");
            LoadError::Store(Error::TooNew(text))
        }
        false => unreadable(run, sequence, error.to_string()),
    }
}

pub(crate) fn unreadable(run: RunId, sequence: u64, reason: String) -> LoadError {
    LoadError::Store(Error::Damaged(Box::new(Damage {
        place: "the log".to_owned(),
        run: Some(run),
        sequence: Some(sequence),
        offset: None,
        reason,
    })))
}
