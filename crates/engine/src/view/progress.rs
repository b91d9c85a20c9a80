//! A run's state with the times of its nodes and the position of its last event, read as far
//! as asked and further when the log has grown.

use std::collections::VecDeque;
use std::io::Write;
use std::mem;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Map, Value};
use windlass_core::RunId;
use windlass_core::event::Event;
use windlass_core::run::{Change, Instance, Run};

use super::annotations::Gathered;
use super::json::{Error, Options, write_overview};
use super::{Overview, Times};
use crate::Backend;
use crate::history::{Derive, Ended, PublicEvent};
use crate::load::{LoadError, PAGE_BYTES};
use crate::plans::Plans;
use crate::replay::{EventPosition, Until, Visitor, Walk};

/// How many of the last events are kept, and about how many bytes of them: readers of a long
/// log begin at its end.
const RECENT: usize = 512;
const RECENT_BYTES: usize = 1024 * 1024;

/// What is known of a run after the events read so far.
pub struct Progress {
    walk: Walk,
    gathered: Gathered,
    position: u64,
    recent: Recent,
}

impl Progress {
    /// Of a run whose log is not read yet.
    pub fn new(run: RunId) -> Self {
        Self {
            walk: Walk::new(run),
            gathered: Gathered::default(),
            position: 0,
            recent: Recent::default(),
        }
    }

    /// Reads the log to its end, or up to the event at this position. After that nothing more
    /// is read.
    ///
    /// An event that people read and those that follow from the same stored event happen at
    /// once: the state is the one after all of them, and the position that of the last.
    ///
    /// # Errors
    /// The log or a value it names cannot be read.
    pub fn read(
        &mut self,
        store: &dyn Backend,
        plans: &Plans,
        at: Option<NonZeroU64>,
    ) -> Result<(), LoadError> {
        let until = (Until::record(u64::MAX), PAGE_BYTES);
        loop {
            let recent = &mut self.recent;
            let keep = |event| {
                recent.push(event);
                ControlFlow::Continue(())
            };
            let mut reading = Reading {
                derive: Derive::new(store, self.position, keep),
                gathered: &mut self.gathered,
                at,
            };
            let more = self.walk.step(store, plans, until, &mut reading);
            self.position = reading.derive.position();
            match more {
                Ok(true) => {}
                Ok(false) | Err(Ended::Enough) => return Ok(()),
                Err(Ended::Failed(error)) => return Err(error),
            }
        }
    }

    /// The state; none before anything was read, or if there is no such run.
    pub fn run(&self) -> Option<&Run> {
        self.walk.run()
    }

    /// When nodes started and ended.
    pub fn times(&self) -> &Times {
        &self.gathered.times
    }

    /// The position of the last event that was read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The events after a position, the last ones read; none where that is further back than
    /// events are kept.
    pub fn events_after(&self, position: u64) -> Option<impl Iterator<Item = &Arc<PublicEvent>>> {
        let kept = self.recent.events.len() as u64;
        let passed = position.checked_sub(self.position - kept)?;
        let passed = usize::try_from(passed).unwrap_or(usize::MAX);
        Some(self.recent.events.iter().skip(passed))
    }

    /// Writes the run as [`write`](super::write) does, as far as it was read.
    ///
    /// # Errors
    /// As for [`write`](super::write).
    pub fn write(
        &mut self,
        store: &dyn Backend,
        plans: &Plans,
        options: &Options,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let until = self.walk.until();
        let Some(run) = self.walk.lend() else {
            return Err(LoadError::NotFound(self.walk.id()).into());
        };
        let overview = Overview {
            run,
            times: mem::take(&mut self.gathered.times),
            notes: mem::take(&mut self.gathered.notes),
            last: Some(self.position),
            until,
        };
        let written = write_overview(store, plans, &overview, options, out);
        self.gathered.times = overview.times;
        self.gathered.notes = overview.notes;
        self.walk.take_back(overview.run);
        written
    }

    pub(super) fn into_overview(self) -> Option<Overview> {
        let until = self.walk.until();
        Some(Overview {
            run: self.walk.into_run()?,
            times: self.gathered.times,
            notes: self.gathered.notes,
            last: Some(self.position),
            until,
        })
    }
}

/// The last events, as many as fit.
#[derive(Default)]
struct Recent {
    events: VecDeque<Arc<PublicEvent>>,
    bytes: usize,
}

impl Recent {
    fn push(&mut self, event: PublicEvent) {
        self.bytes += weight(&event.data);
        self.events.push_back(Arc::new(event));
        while self.events.len() > RECENT || self.bytes > RECENT_BYTES {
            let Some(first) = self.events.pop_front() else {
                break;
            };
            self.bytes -= weight(&first.data);
        }
    }
}

/// About how many bytes the data of an event takes.
fn weight(data: &Map<String, Value>) -> usize {
    data.iter()
        .map(|(key, value)| key.len() + weight_of(value))
        .sum()
}

fn weight_of(value: &Value) -> usize {
    let inner = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight_of).sum(),
        Value::Object(members) => weight(members),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    inner + size_of::<Value>()
}

/// Counts the events that people read, and gathers what the state does not keep.
struct Reading<'a, F> {
    derive: Derive<'a, F>,
    gathered: &'a mut Gathered,
    at: Option<NonZeroU64>,
}

impl<F: FnMut(PublicEvent) -> ControlFlow<()>> Visitor for Reading<'_, F> {
    type Error = Ended;

    fn before(&mut self, run: &Run, event: &Event, place: EventPosition) -> Result<(), Ended> {
        self.gathered.before(run, event, place)?;
        self.derive.before(run, event, place)
    }

    fn after(
        &mut self,
        run: &Run,
        event: &Event,
        place: EventPosition,
        changes: &[Change],
    ) -> Result<(), Ended> {
        self.gathered.after(run, event, place, changes)?;
        self.derive.after(run, event, place, changes)
    }

    fn freeing(&mut self, run: &Run, node: Instance) -> Result<(), Ended> {
        Ok(self.gathered.freeing(run, node)?)
    }

    fn is_done(&self) -> bool {
        self.at.is_some_and(|at| self.derive.position() >= at.get())
    }
}
