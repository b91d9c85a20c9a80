//! What people read about a run: one event after the other, derived from its log.
//!
//! The log is denser than this. Everything here follows from replaying it, so the same
//! log gives the same events at the same positions for ever. Nothing is kept: memory
//! does not grow with the number of events.

mod derive;
mod draft;
mod structure;

use std::ops::ControlFlow;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};
use windlass_core::run::Run;
use windlass_core::{Millis, RunId};
use windlass_orchestrator::codec;
use windlass_store::Wait as _;

use crate::Backend;
use crate::load::{LoadError, unreadable};
use crate::plans::Plans;
use crate::replay::{Until, Walk, replay};
pub(crate) use derive::{Derive, Ended};

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The ordinary course of things.
    Info,
    /// Worth a look.
    Warn,
    /// Something failed.
    Error,
}

impl Level {
    /// The level as it is written everywhere outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// One event, as people and programs read it.
#[derive(Clone, Debug)]
pub struct PublicEvent {
    /// Its place among the run's events, from 1.
    pub position: u64,
    /// When it happened.
    pub at: Millis,
    /// How much it matters.
    pub level: Level,
    /// The action it comes from; none means the orchestrator.
    pub action: Option<Box<str>>,
    /// What happened, e.g. `NodeSucceeded`.
    pub kind: &'static str,
    /// The node instance it is about.
    pub node: Option<Box<str>>,
    /// The node's name for people, if it has one.
    pub name: Option<Box<str>>,
    /// The attempt it is about.
    pub attempt: Option<u32>,
    /// What else is known.
    pub data: Map<String, Value>,
}

impl Serialize for PublicEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("v", &1)?;
        map.serialize_entry("position", &self.position)?;
        map.serialize_entry("at", &self.at.to_string())?;
        map.serialize_entry("level", self.level.as_str())?;
        match &self.action {
            Some(action) => map.serialize_entry("category", &format!("action:{action}"))?,
            None => map.serialize_entry("category", "orchestrator")?,
        }
        map.serialize_entry("kind", self.kind)?;
        map.serialize_entry("node", &self.node)?;
        if self.name.is_some() {
            map.serialize_entry("name", &self.name)?;
        }
        map.serialize_entry("attempt", &self.attempt)?;
        map.serialize_entry("data", &self.data)?;
        map.end()
    }
}

/// Calls `visit` with every event of a run, in order, until it breaks.
///
/// # Errors
/// There is no such run, or its log or a value it names cannot be read.
pub fn for_each_event(
    store: &dyn Backend,
    plans: &Plans,
    run: RunId,
    visit: impl FnMut(PublicEvent) -> ControlFlow<()>,
) -> Result<(), LoadError> {
    let mut derive = Derive::new(store, 0, visit);
    match replay(store, plans, run, &mut derive) {
        Ok(_) | Err(Ended::Enough) => Ok(()),
        Err(Ended::Failed(error)) => Err(error),
    }
}

/// When something last happened to a run: the time of its last record.
///
/// # Errors
/// The record cannot be read.
pub fn last_change(store: &dyn Backend, run: RunId) -> Result<Option<Millis>, LoadError> {
    let head = store.head(run).wait().map_err(LoadError::Store)?;
    let page = store.read(run, head.sequence.max(1), 1).wait();
    let page = page.map_err(LoadError::Store)?;
    let last = page.last().map(|record| {
        codec::decode(&record.bytes)
            .map_err(|error| unreadable(run, record.sequence, error.to_string()))
    });
    Ok(last.transpose()?.map(|transition| transition.at))
}

/// The events of a run, read as far as its log goes, and further when it has grown.
pub struct Follow {
    walk: Walk,
    position: u64,
}

impl Follow {
    /// From the beginning: an event's position is known only after reading all events before
    /// it.
    pub fn new(run: RunId) -> Self {
        Self {
            walk: Walk::new(run),
            position: 0,
        }
    }

    /// The last event that was read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The run's state as far as it was read; none before the first page.
    pub fn run(&self) -> Option<&Run> {
        self.walk.run()
    }

    /// Whether the run has ended, as far as it was read.
    pub fn has_ended(&self) -> bool {
        self.walk.run().is_some_and(|run| run.status().is_final())
    }

    /// Reads a page of the log; gives the events in it, and whether there was one.
    ///
    /// # Errors
    /// The log or a value it names cannot be read.
    pub fn step(
        &mut self,
        store: &dyn Backend,
        plans: &Plans,
        page_bytes: usize,
    ) -> Result<(Vec<Arc<PublicEvent>>, bool), LoadError> {
        self.step_through(store, plans, u64::MAX, page_bytes)
    }

    /// Reads a page of the log up to this record; gives the events in it, and whether there was
    /// one.
    ///
    /// # Errors
    /// As for [`Self::step`].
    pub fn step_through(
        &mut self,
        store: &dyn Backend,
        plans: &Plans,
        record: u64,
        page_bytes: usize,
    ) -> Result<(Vec<Arc<PublicEvent>>, bool), LoadError> {
        let mut events = Vec::new();
        let mut derive = Derive::new(store, self.position, |event| {
            events.push(Arc::new(event));
            ControlFlow::Continue(())
        });
        let bounds = (Until::record(record), page_bytes);
        let stepped = self.walk.step(store, plans, bounds, &mut derive);
        let more = match stepped {
            Ok(more) => more,
            Err(Ended::Enough) => false,
            Err(Ended::Failed(error)) => return Err(error),
        };
        self.position += events.len() as u64;
        Ok((events, more))
    }
}
