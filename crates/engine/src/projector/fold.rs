//! From the log of one run to the rows of the tables behind it. It reads a page at a time and goes
//! on where it was when the log has grown; it writes nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::json;
use windlass_core::event::{AttemptEnded, AttemptResult, Event};
use windlass_core::run::{Change, Held, Instance, Run};
use windlass_core::value::Stored;
use windlass_core::{Millis, RunId};
use windlass_store::{
    AttemptRow, AttemptStatus, EventRow, ProjectedRun, ProjectedValue, RunContext, RunDetails,
};

use crate::Backend;
use crate::history::{Derive, Ended, PublicEvent};
use crate::load::LoadError;
use crate::plans::Plans;
use crate::replay::{EventPosition, Until, Visitor, Walk};
use crate::view::attempt_instance;

/// How much of a log becomes rows together.
const PAGE_BYTES: usize = 256 * 1024;

/// The log of one run, as far as it is folded.
pub(super) struct RunFold {
    run: RunId,
    walk: Walk,
    position: u64,
    /// Attempts whose start was logged and whose end was not.
    open: BTreeMap<Instance, AttemptRow>,
}

impl RunFold {
    pub(super) fn new(run: RunId) -> Self {
        Self {
            run,
            walk: Walk::new(run),
            position: 0,
            open: BTreeMap::new(),
        }
    }

    /// The last record that is folded.
    pub(super) fn through(&self) -> u64 {
        self.walk.until().record
    }

    /// Whether the run has ended, as far as it is folded.
    pub(super) fn has_ended(&self) -> bool {
        self.walk.run().is_some_and(|run| run.status().is_final())
    }

    /// Folds pages until there are rows that follow from records after `from`; none at the end of
    /// the log.
    pub(super) fn step(
        &mut self,
        store: &dyn Backend,
        plans: &Plans,
        from: u64,
    ) -> Result<Option<ProjectedRun>, LoadError> {
        while self.through() < from {
            let before = self.through();
            self.page(store, plans, from)?;
            if self.through() == before {
                return Ok(None);
            }
        }
        self.page(store, plans, from)
    }

    fn page(
        &mut self,
        store: &dyn Backend,
        plans: &Plans,
        from: u64,
    ) -> Result<Option<ProjectedRun>, LoadError> {
        let (record, events) = (Cell::new(0), RefCell::new(Vec::new()));
        let visit = |event: PublicEvent| {
            if record.get() > from {
                events.borrow_mut().push(event_row(&event));
            }
            ControlFlow::Continue(())
        };
        let mut rows = Rows {
            derive: Derive::new(store, self.position, visit),
            record: &record,
            from,
            open: &mut self.open,
            attempts: BTreeMap::new(),
        };
        // What is known already is read up to its end, so that a page is new or it is not.
        let until = match self.walk.until().record < from {
            true => Until::record(from),
            false => Until::record(u64::MAX),
        };
        let stepped = self.walk.step(store, plans, (until, PAGE_BYTES), &mut rows);
        let attempts = std::mem::take(&mut rows.attempts).into_values().collect();
        self.position = rows.derive.position();
        drop(rows);
        match stepped {
            Ok(true) => {}
            Ok(false) | Err(Ended::Enough) => return Ok(None),
            Err(Ended::Failed(error)) => return Err(error),
        }
        let run = self.walk.run();
        let details = run.filter(|run| from == 0 || run.status().is_final());
        Ok(Some(ProjectedRun {
            run: self.run,
            from,
            through: self.through(),
            position: self.position,
            attempts,
            events: events.into_inner(),
            details: details.map(run_details),
            problem: None,
        }))
    }
}

struct Rows<'a, F> {
    derive: Derive<'a, F>,
    record: &'a Cell<u64>,
    from: u64,
    open: &'a mut BTreeMap<Instance, AttemptRow>,
    attempts: BTreeMap<(Instance, u32), AttemptRow>,
}

impl<F> Rows<'_, F> {
    fn put(&mut self, row: AttemptRow) {
        if self.record.get() > self.from {
            self.attempts.insert((row.instance, row.attempt), row);
        }
    }

    fn attempt(&mut self, run: &Run, event: &Event) {
        let (ended, compensation) = match event {
            Event::AttemptStarted(started) => {
                let number = (started.attempt, started.undo);
                if let Some(node) = attempt_instance(run, &started.node, number) {
                    let row = AttemptRow {
                        worker: started.worker.clone(),
                        ..begun(run, node, &started.node, number, started.started)
                    };
                    self.open.insert(node, row.clone());
                    self.put(row);
                }
                return;
            }
            Event::AttemptEnded(ended) => (ended, false),
            Event::CompensationEnded(ended) => (ended, true),
            _ => return,
        };
        let number = (ended.attempt, compensation);
        if let Some(node) = attempt_instance(run, &ended.node, number) {
            self.open.remove(&node);
            self.put(ended_row(run, node, ended, compensation));
        }
    }
}

impl<F: FnMut(PublicEvent) -> ControlFlow<()>> Visitor for Rows<'_, F> {
    type Error = Ended;

    fn before(&mut self, run: &Run, event: &Event, place: EventPosition) -> Result<(), Ended> {
        self.record.set(place.record);
        self.attempt(run, event);
        self.derive.before(run, event, place)
    }

    fn after(
        &mut self,
        run: &Run,
        event: &Event,
        place: EventPosition,
        changes: &[Change],
    ) -> Result<(), Ended> {
        for change in changes {
            // A node that ended without the end of its attempt: a join, a command or a new graph
            // ended it.
            if let Change::Ended(node, ..) = change
                && let Some(open) = self.open.remove(node)
            {
                self.put(AttemptRow {
                    status: AttemptStatus::Cancelled,
                    ended: Some(place.at),
                    ..open
                });
            }
        }
        self.derive.after(run, event, place, changes)
    }
}

/// The row of an attempt that a worker has.
fn begun(
    run: &Run,
    node: Instance,
    path: &str,
    (attempt, compensation): (u32, bool),
    started: Millis,
) -> AttemptRow {
    let kind = || run.kind_of(node).as_str();
    AttemptRow {
        node: path.into(),
        instance: node,
        action: run.action_of(node).unwrap_or_else(kind).into(),
        status: AttemptStatus::Running,
        attempt,
        compensation,
        ancestry: None,
        worker: "".into(),
        parameters: None,
        output: None,
        error: None,
        started,
        ended: None,
    }
}

fn ended_row(run: &Run, node: Instance, ended: &AttemptEnded, compensation: bool) -> AttemptRow {
    let (status, output, error) = match &ended.result {
        AttemptResult::Succeeded(output) => (AttemptStatus::Succeeded, Some(output), None),
        AttemptResult::Failed(error) => (AttemptStatus::Failed, None, Some(error)),
        AttemptResult::Retrying { error, .. } => {
            (AttemptStatus::RetriableFailure, None, Some(error))
        }
        AttemptResult::Skipped {} => (AttemptStatus::Skipped, None, None),
        AttemptResult::Stopped {} => (AttemptStatus::Cancelled, None, None),
    };
    let number = (ended.attempt, compensation);
    AttemptRow {
        status,
        ancestry: ended.ancestry,
        worker: ended.worker.clone(),
        parameters: ended.parameters.as_ref().map(stored),
        output: output.map(stored),
        error: error.map(stored),
        ended: Some(ended.ended),
        ..begun(run, node, &ended.node, number, ended.started)
    }
}

fn event_row(event: &PublicEvent) -> EventRow {
    EventRow {
        position: event.position,
        at: event.at,
        level: event.level.as_str(),
        category: match &event.action {
            Some(action) => format!("action:{action}").into(),
            None => "orchestrator".into(),
        },
        data: json!({
            "kind": event.kind,
            "node": event.node,
            "attempt": event.attempt,
            "data": event.data,
        })
        .to_string(),
    }
}

fn run_details(run: &Run) -> RunDetails {
    let queued = run.queued();
    let context = run.finished().map(|finished| RunContext {
        vars: run
            .vars()
            .iter()
            .map(|(name, value)| (name.clone(), held(value)))
            .collect(),
        output: finished.output.as_ref().map(stored),
    });
    RunDetails {
        trigger: stored(&queued.trigger),
        correlation_id: queued.correlation_id.clone(),
        context,
    }
}

fn stored(value: &Stored) -> ProjectedValue {
    match value {
        Stored::Inline(text) => ProjectedValue::Text(text.get().into()),
        Stored::Blob { digest, size } => ProjectedValue::Blob {
            digest: *digest,
            bytes: *size,
        },
    }
}

fn held(value: &Held) -> ProjectedValue {
    match (value.text(), value.blob()) {
        (Some(text), _) => ProjectedValue::Text((**text).into()),
        (None, Some(blob)) => ProjectedValue::Blob {
            digest: blob.digest,
            bytes: blob.size.into(),
        },
        (None, None) => ProjectedValue::Text("null".into()),
    }
}
