//! Walking a run's log event by event, with the state before and after each. What
//! people read (history, views, the ancestry check) derives from it; it stores nothing
//! and decides nothing.

use windlass_core::event::Event;
use windlass_core::run::{Change, Instance, Run};
use windlass_core::{Millis, RunId};
use windlass_orchestrator::codec;
use windlass_store::{Head, Wait as _};

use crate::Backend;
use crate::load::{LoadError, LoadedRun, PAGE_BYTES, begin, bring_graph, unreadable};
use crate::plans::Plans;

/// Where an event stands in its log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventPosition {
    /// The record's sequence number.
    pub(crate) record: u64,
    /// The time of the decision.
    pub(crate) at: Millis,
}

/// Sees each event of a log, once before and once after the state took it in.
pub(crate) trait Visitor {
    /// Why a walk ends before the log does.
    type Error: From<LoadError>;

    /// An event is about to be applied to this state.
    fn before(
        &mut self,
        _run: &Run,
        _event: &Event,
        _place: EventPosition,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    /// An event led to this state, by these changes.
    fn after(
        &mut self,
        run: &Run,
        event: &Event,
        place: EventPosition,
        changes: &[Change],
    ) -> Result<(), Self::Error>;

    /// An instance is about to be forgotten with the next event, because its iteration has
    /// ended and nothing refers to it any more. A visitor can drop what it keeps of it, too.
    fn freeing(&mut self, _run: &Run, _node: Instance) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Whether the state is the one that is looked for, so that the walk ends with this event.
    fn is_done(&self) -> bool {
        false
    }
}

/// How far a walk goes: through this many events of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Until {
    /// The last record.
    pub(crate) record: u64,
    /// How many of its events.
    pub(crate) events: usize,
}

impl Until {
    /// Through a whole record.
    pub(crate) fn record(record: u64) -> Self {
        Self {
            record,
            events: usize::MAX,
        }
    }

    /// How many events of a record come before the end.
    fn events_of(self, record: u64) -> usize {
        match record.cmp(&self.record) {
            std::cmp::Ordering::Less => usize::MAX,
            std::cmp::Ordering::Equal => self.events,
            std::cmp::Ordering::Greater => 0,
        }
    }
}

/// Folds a run's log from its beginning and shows every event to the visitor.
///
/// # Errors
/// There is no such run, it cannot be read, or the visitor ended the walk.
pub(crate) fn replay<V: Visitor>(
    store: &dyn Backend,
    plans: &Plans,
    id: RunId,
    visitor: &mut V,
) -> Result<LoadedRun, V::Error> {
    replay_through(store, plans, id, Until::record(u64::MAX), visitor)
}

/// Folds a run's log up to an event: what comes later belongs to the next look.
///
/// # Errors
/// As for [`replay`].
pub(crate) fn replay_through<V: Visitor>(
    store: &dyn Backend,
    plans: &Plans,
    id: RunId,
    until: Until,
    visitor: &mut V,
) -> Result<LoadedRun, V::Error> {
    let mut walk = Walk::new(id);
    while walk.step(store, plans, (until, PAGE_BYTES), visitor)? {}
    let run = walk.run.ok_or(LoadError::NotFound(id))?;
    Ok(LoadedRun {
        run,
        head: walk.head,
        event_count: walk.head.sequence,
    })
}

/// Shows the events of a run's log up to one of them, without the states between them.
///
/// # Errors
/// The log cannot be read, or the visitor ended the walk.
pub(crate) fn scan_through<E: From<LoadError>>(
    store: &dyn Backend,
    id: RunId,
    until: Until,
    mut visit: impl FnMut(&Event) -> Result<(), E>,
) -> Result<(), E> {
    let mut sequence = 0;
    while sequence < until.record {
        let page = store
            .read(id, sequence + 1, PAGE_BYTES)
            .wait()
            .map_err(LoadError::Store)?;
        if page.is_empty() {
            break;
        }
        for record in page {
            sequence = record.sequence;
            let wanted = until.events_of(sequence);
            if wanted == 0 {
                break;
            }
            let transition = codec::decode(&record.bytes)
                .map_err(|error| unreadable(id, sequence, error.to_string()))?;
            let mut events = transition.events.iter().take(wanted);
            events.try_for_each(&mut visit)?;
        }
    }
    Ok(())
}

/// A walk that can be interrupted, and goes on where it was when the log has grown.
pub(crate) struct Walk {
    id: RunId,
    run: Option<Run>,
    head: Head,
    /// Where a visitor was done, which ends the walk for good.
    done: Option<Until>,
}

impl Walk {
    /// A walk from the log's beginning.
    pub(crate) fn new(id: RunId) -> Self {
        Self {
            id,
            run: None,
            head: Head::NONE,
            done: None,
        }
    }

    /// How far it has come.
    pub(crate) fn until(&self) -> Until {
        self.done.unwrap_or(Until::record(self.head.sequence))
    }

    /// The run whose log it walks.
    pub(crate) fn id(&self) -> RunId {
        self.id
    }

    /// The state that it has come to, to be taken back before the next step.
    pub(crate) fn lend(&mut self) -> Option<Run> {
        self.run.take()
    }

    /// Takes the lent state back.
    pub(crate) fn take_back(&mut self, run: Run) {
        self.run = Some(run);
    }

    /// The state that it has come to.
    pub(crate) fn into_run(self) -> Option<Run> {
        self.run
    }

    /// The state as far as the walk has come.
    pub(crate) fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    /// Folds one page of records, of about this many bytes, up to an event; `false` if
    /// there was none, or nothing more is to be folded.
    ///
    /// # Errors
    /// As for [`replay`].
    pub(crate) fn step<V: Visitor>(
        &mut self,
        store: &dyn Backend,
        plans: &Plans,
        (until, page_bytes): (Until, usize),
        visitor: &mut V,
    ) -> Result<bool, V::Error> {
        let id = self.id;
        if self.done.is_some() || self.head.sequence >= until.record {
            return Ok(false);
        }
        let page = store
            .read(id, self.head.sequence + 1, page_bytes)
            .wait()
            .map_err(LoadError::Store)?;
        let mut changes = Vec::new();
        let any = !page.is_empty();
        for record in page {
            let fault = |reason: String| unreadable(id, record.sequence, reason);
            let wanted = until.events_of(record.sequence);
            if wanted == 0 {
                return Ok(false);
            }
            let transition =
                codec::decode(&record.bytes).map_err(|error| fault(error.to_string()))?;
            let state = match &mut self.run {
                Some(state) => state,
                None => self.run.insert(begin(store, plans, id, &transition)?),
            };
            let place = EventPosition {
                record: record.sequence,
                at: transition.at,
            };
            for (number, event) in transition.events.iter().enumerate() {
                for node in state.instances_to_free() {
                    visitor.freeing(state, node)?;
                }
                bring_graph(store, plans, state, event)?;
                visitor.before(state, event, place)?;
                changes.clear();
                state
                    .apply(event, transition.at, &mut changes)
                    .map_err(|corrupt| fault(corrupt.reason))?;
                visitor.after(state, event, place, &changes)?;
                if visitor.is_done() || number + 1 == wanted {
                    self.done = Some(Until {
                        record: record.sequence,
                        events: number + 1,
                    });
                    return Ok(false);
                }
            }
            state.finish_record();
            self.head = record.head();
        }
        Ok(any)
    }
}
