//! Every attempt of a run as JSON. A replay of its own, because an attempt's
//! idempotency key depends on the state it was made in.

use std::collections::BTreeMap;
use std::io::Write;

use windlass_core::Millis;
use windlass_core::NodeStatus;
use windlass_core::event::{AttemptEnded, AttemptResult, Event};
use windlass_core::run::{Change, Instance, Run};

use super::json::{AttemptFilter, Error, Separator, View, field, moment};
use super::node::write_error;
use crate::replay::{EventPosition, Visitor, replay_through};

/// Writes the elements of `actions`: attempts in the order of their ends, then those
/// that are with a worker.
pub(super) fn write(view: &View<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let run = &view.overview.run;
    let mut attempts = Attempts {
        view,
        out,
        separator: Separator::default(),
        open: BTreeMap::new(),
    };
    let (id, until) = (run.id(), view.overview.until);
    replay_through(view.store, view.plans, id, until, &mut attempts)?;
    attempts.write_open(run)
}

/// An attempt that a worker has. Its names are kept: its node may be gone before it is.
struct Open {
    path: Box<str>,
    key: String,
    undoes: bool,
    attempt: u32,
    started: Millis,
    worker: Box<str>,
}

struct Attempts<'a, 'v> {
    view: &'a View<'v>,
    out: &'a mut dyn Write,
    separator: Separator,
    /// Attempts whose start was logged and whose end was not: as many as run at once.
    open: BTreeMap<Instance, Open>,
}

impl Attempts<'_, '_> {
    fn is_asked_for(&self, path: &str) -> bool {
        match &self.view.options.actions {
            AttemptFilter::None => false,
            AttemptFilter::Of(asked) => **asked == *path,
            AttemptFilter::All => true,
        }
    }

    fn write_ended(
        &mut self,
        run: &Run,
        node: Instance,
        ended: &AttemptEnded,
    ) -> Result<(), Error> {
        self.separator.next(self.view, self.out)?;
        let status = match ended.result {
            AttemptResult::Succeeded(_) => "Succeeded",
            AttemptResult::Failed(_) | AttemptResult::Retrying { .. } => "Failed",
            AttemptResult::Skipped {} => "Skipped",
            AttemptResult::Stopped {} => "Cancelled",
        };
        self.head(&ended.node, ended.attempt, status)?;
        let (view, out) = (self.view, &mut *self.out);
        out.write_all(b",\"parameters\":")?;
        match &ended.parameters {
            Some(parameters) => view.stored(parameters, out)?,
            None => out.write_all(b"null")?,
        }
        out.write_all(b",\"output\":")?;
        match &ended.result {
            AttemptResult::Succeeded(output) => view.stored(output, out)?,
            _ => out.write_all(b"null")?,
        }
        out.write_all(b",\"error\":")?;
        match &ended.result {
            AttemptResult::Failed(error) | AttemptResult::Retrying { error, .. } => {
                write_error(view, error, out)?;
            }
            _ => out.write_all(b"null")?,
        }
        moment(out, "startedAt", Some(ended.started))?;
        moment(out, "endedAt", Some(ended.ended))?;
        field(out, "worker", &ended.worker)?;
        field(out, "idempotencyKey", &run.idempotency_key(node))?;
        field(out, "meta", &ended.meta)?;
        close(run.undone(node).is_some(), out)?;
        Ok(())
    }

    fn write_open(&mut self, run: &Run) -> Result<(), Error> {
        for (node, open) in std::mem::take(&mut self.open) {
            if !run.is_open(node, open.attempt) {
                continue;
            }
            self.write_unended(&open, NodeStatus::Running, None)?;
        }
        Ok(())
    }

    fn write_unended(
        &mut self,
        open: &Open,
        status: NodeStatus,
        ended: Option<Millis>,
    ) -> Result<(), Error> {
        self.separator.next(self.view, self.out)?;
        self.head(&open.path, open.attempt, status.as_str())?;
        let out = &mut *self.out;
        out.write_all(b",\"parameters\":null,\"output\":null,\"error\":null")?;
        moment(out, "startedAt", Some(open.started))?;
        moment(out, "endedAt", ended)?;
        field(out, "worker", &open.worker)?;
        field(out, "idempotencyKey", &open.key)?;
        out.write_all(b",\"meta\":null")?;
        close(open.undoes, out)?;
        Ok(())
    }

    fn head(&mut self, node: &str, attempt: u32, status: &str) -> Result<(), Error> {
        self.out.write_all(b"{\"node\":")?;
        serde_json::to_writer(&mut *self.out, node)?;
        field(self.out, "attempt", &attempt)?;
        field(self.out, "status", status)
    }
}

/// Says where an attempt undoes its node, and ends it.
fn close(undoes: bool, out: &mut dyn Write) -> Result<(), Error> {
    if undoes {
        field(out, "compensation", &true)?;
    }
    out.write_all(b"}")?;
    Ok(())
}

/// The instance that an attempt is of: the node's, or that which undoes it.
pub(crate) fn instance(run: &Run, path: &str, (attempt, undoes): (u32, bool)) -> Option<Instance> {
    if undoes {
        run.undoing_at(path, attempt)
    } else {
        run.resolve(path)
    }
}

impl Visitor for Attempts<'_, '_> {
    type Error = Error;

    fn before(&mut self, run: &Run, event: &Event, _place: EventPosition) -> Result<(), Error> {
        let (ended, undoes) = match event {
            Event::AttemptStarted(started) if !self.is_asked_for(&started.node) => return Ok(()),
            Event::AttemptStarted(started) => {
                if let Some(node) = instance(run, &started.node, (started.attempt, started.undo)) {
                    let open = Open {
                        path: started.node.clone(),
                        key: run.idempotency_key(node),
                        undoes: started.undo,
                        attempt: started.attempt,
                        started: started.started,
                        worker: started.worker.clone(),
                    };
                    self.open.insert(node, open);
                }
                return Ok(());
            }
            Event::AttemptEnded(ended) => (ended, false),
            Event::CompensationEnded(ended) => (ended, true),
            _ => return Ok(()),
        };
        if !self.is_asked_for(&ended.node) {
            return Ok(());
        }
        if let Some(node) = instance(run, &ended.node, (ended.attempt, undoes)) {
            self.open.remove(&node);
            self.write_ended(run, node, ended)?;
        }
        Ok(())
    }

    /// An attempt that a join or a reattempt cancelled has no end of its own in the log.
    fn after(
        &mut self,
        _run: &Run,
        _event: &Event,
        place: EventPosition,
        changes: &[Change],
    ) -> Result<(), Error> {
        for change in changes {
            if let Change::Ended(node, _, NodeStatus::Cancelled) = change
                && let Some(open) = self.open.remove(node)
            {
                self.write_unended(&open, NodeStatus::Cancelled, Some(place.at))?;
            }
        }
        Ok(())
    }
}
