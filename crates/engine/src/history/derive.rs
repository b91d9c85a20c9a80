//! From stored events and the changes they cause to the events that people read.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::event::{
    AttemptEnded, AttemptResult, Event, Finished, Queued, StopCause, Stopping,
};
use windlass_core::plan::{NodeKind, Plan};
use windlass_core::run::{Change, DEAD_LETTERED, Instance, Run};
use windlass_core::value::Stored;
use windlass_core::{Millis, NodeStatus, RunStatus};

use super::draft::{Draft, paths};
use super::structure;
use super::{Level, PublicEvent};
use crate::Backend;
use crate::load::LoadError;
use crate::replay::{EventPosition, Visitor};
use crate::values::stored_text;

/// Why a walk ended before its log did.
pub(crate) enum Ended {
    /// The reader has seen what it wanted.
    Enough,
    /// The log cannot be read.
    Failed(LoadError),
}

impl From<LoadError> for Ended {
    fn from(error: LoadError) -> Self {
        Self::Failed(error)
    }
}

/// Turns a log into public events.
pub(crate) struct Derive<'a, F> {
    store: &'a dyn Backend,
    visit: F,
    position: u64,
    /// While the graph changes, the paths of what was open: the new one may not have it.
    open: BTreeMap<Instance, Box<str>>,
    /// The instance that the present event ends: once it is applied, its path may lead
    /// there no more.
    own: Option<Instance>,
    /// The graph of the present event, for the names of its nodes.
    graph: Option<Arc<Plan>>,
}

impl<'a, F: FnMut(PublicEvent) -> ControlFlow<()>> Derive<'a, F> {
    /// After the event at this position.
    pub(crate) fn new(store: &'a dyn Backend, position: u64, visit: F) -> Self {
        Self {
            store,
            visit,
            position,
            open: BTreeMap::new(),
            own: None,
            graph: None,
        }
    }

    fn note_graph(&mut self, run: &Run) {
        let known = self.graph.as_ref();
        if !known.is_some_and(|known| Arc::ptr_eq(known, run.plan())) {
            self.graph = Some(Arc::clone(run.plan()));
        }
    }

    /// The last event that was derived.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    fn emit(&mut self, draft: Draft) -> Result<(), Ended> {
        self.position += 1;
        let graph = self.graph.as_deref();
        let name = draft.node.as_deref().and_then(|node| graph?.name_at(node));
        let name = name.map(Into::into);
        let event = PublicEvent {
            name,
            position: self.position,
            at: draft.at,
            level: draft.level,
            action: draft.action,
            kind: draft.kind,
            node: draft.node,
            attempt: draft.attempt,
            data: draft.data,
        };
        match (self.visit)(event) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Ended::Enough),
        }
    }

    fn emit_all(&mut self, drafts: impl IntoIterator<Item = Draft>) -> Result<(), Ended> {
        drafts.into_iter().try_for_each(|draft| self.emit(draft))
    }

    /// An error as it stands in the log or among the values.
    fn error(&self, stored: &Stored) -> Result<Value, Ended> {
        let text = stored_text(self.store, stored).map_err(LoadError::Store)?;
        Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// What an attempt's end tells before its node's own end: that it started, where no event
    /// has said so, that its time was over, that its child ended.
    fn before_end(&mut self, run: &Run, ended: &AttemptEnded, at: Millis) -> Result<(), Ended> {
        let Some(node) = self.own else {
            return Ok(());
        };
        // A status of Running means that the log, and so an event, has the start already; a node
        // without a worker began with an event of its own.
        let told = run.node_status(node) == NodeStatus::Running || run.since(node).is_some();
        if !told {
            self.emit(structure::started(run, node, ended))?;
        }
        let error = match &ended.result {
            AttemptResult::Failed(error) | AttemptResult::Retrying { error, .. } => {
                self.error(error)?
            }
            _ => Value::Null,
        };
        self.emit_all(structure::timer_fired(run, node, ended, &error))?;
        self.emit_all(structure::child_finished(run, node, ended, &error, at))
    }

    /// The end of an attempt, as far as it concerns the node itself.
    fn attempt_ended(&mut self, run: &Run, ended: &AttemptEnded) -> Result<(), Ended> {
        let took = ended.ended.0.saturating_sub(ended.started.0);
        let own = self.own;
        let draft = |kind| {
            Draft::new(kind, ended.ended)
                .about(run, own, &ended.node, ended.attempt)
                .with("durationMs", took)
        };
        let draft = match &ended.result {
            AttemptResult::Succeeded(output) => {
                draft("NodeSucceeded").with("outputBytes", output.size())
            }
            AttemptResult::Failed(error) => draft("NodeFailed")
                .level(Level::Error)
                .with("error", self.error(error)?),
            AttemptResult::Retrying { error, due } => draft("NodeRetryScheduled")
                .level(Level::Warn)
                .with("error", self.error(error)?)
                .with("nextAttempt", ended.attempt + 1)
                .with("due", due.to_string()),
            AttemptResult::Skipped {} => draft("NodeSkipped").with("reason", "action"),
            AttemptResult::Stopped {} => draft("NodeCancelled").stopped(run),
        };
        self.emit(draft)
    }

    /// The end of an attempt to undo a node.
    fn undo_ended(&mut self, ended: &AttemptEnded) -> Result<(), Ended> {
        let took = ended.ended.0.saturating_sub(ended.started.0);
        let draft = |kind| {
            Draft::new(kind, ended.ended)
                .node(&ended.node)
                .attempt(Some(ended.attempt))
                .with("durationMs", took)
        };
        let draft = match &ended.result {
            AttemptResult::Succeeded(_) | AttemptResult::Skipped {} => {
                draft("CompensationSucceeded")
            }
            AttemptResult::Failed(error) => draft("CompensationFailed")
                .level(Level::Error)
                .with("error", self.error(error)?),
            AttemptResult::Retrying { error, due } => draft("CompensationFailed")
                .level(Level::Warn)
                .with("error", self.error(error)?)
                .with("nextAttempt", ended.attempt + 1)
                .with("due", due.to_string()),
            AttemptResult::Stopped {} => draft("CompensationFailed").level(Level::Warn),
        };
        self.emit(draft)
    }

    /// What followed, for other nodes and for iterations.
    fn changes(&mut self, run: &Run, at: Millis, changes: &[Change]) -> Result<(), Ended> {
        for change in changes {
            match *change {
                Change::Ended(node, _, status) if Some(node) != self.own => {
                    self.ended(run, at, node, status)?;
                }
                Change::IterationStarted(node, iteration) => {
                    let draft = Draft::new("IterationStarted", at);
                    self.emit(structure::iteration(run, node, iteration, draft))?;
                }
                Change::IterationEnded(node, iteration, result) => {
                    let (level, status) = match result {
                        NodeStatus::Failed => (Level::Warn, "Failed"),
                        NodeStatus::Cancelled => (Level::Info, "Cancelled"),
                        _ => (Level::Info, "Succeeded"),
                    };
                    let draft = Draft::new("IterationFinished", at).level(level);
                    let draft = structure::iteration(run, node, iteration, draft);
                    self.emit(draft.with("status", status))?;
                }
                Change::ChildUndone(node, attempt, child) => {
                    let draft = Draft::new("CompensationStarted", at).node(&run.path(node));
                    self.emit(draft.attempt(Some(attempt)).child(child))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A node ended without an end of its own in the log.
    fn ended(
        &mut self,
        run: &Run,
        at: Millis,
        node: Instance,
        status: NodeStatus,
    ) -> Result<(), Ended> {
        if run.undone(node).is_some() {
            return Ok(());
        }
        if run.find_status(node).is_none() {
            // The new graph does not have it.
            let path = self.open.get(&node).cloned();
            let draft = Draft::new("NodeCancelled", at).with("cause", "removed");
            return self.emit_all(path.map(|path| draft.node(&path)));
        }
        let id = &*run.path(node);
        let reused = run.is_reused(node);
        let attempt = Some(run.attempts(node)).filter(|&attempts| attempts > 0);
        let draft = match status {
            NodeStatus::Succeeded if reused => Draft::new("NodeSucceeded", at)
                .node(id)
                .attempt(attempt)
                .with("reused", true),
            NodeStatus::Skipped => Draft::new("NodeSkipped", at)
                .node(id)
                .with("reason", if reused { "reused" } else { "notChosen" }),
            NodeStatus::Blocked => Draft::new("NodeBlocked", at)
                .node(id)
                .level(Level::Warn)
                .with("blockedBy", paths(run, run.blocked_by(node))),
            NodeStatus::Cancelled => Draft::new("NodeCancelled", at)
                .node(id)
                .attempt(attempt)
                .stopped(run),
            _ => return Ok(()),
        };
        self.emit(draft)
    }

    /// What an event says by itself.
    fn event(&mut self, run: &Run, event: &Event, at: Millis) -> Result<(), Ended> {
        match event {
            Event::Queued(queued) => self.emit(run_queued(queued, at)),
            Event::Started {} => self.emit(Draft::new("RunStarted", at)),
            Event::AttemptStarted(event) => {
                let (node, attempt) = (&event.node, event.attempt);
                let draft = if event.undo {
                    let draft = Draft::new("CompensationStarted", event.started);
                    draft.node(node).attempt(Some(attempt))
                } else {
                    let own = run.resolve(node);
                    Draft::new("NodeStarted", event.started).about(run, own, node, attempt)
                };
                self.emit(draft.with("worker", &*event.worker))
            }
            Event::AttemptEnded(ended) => self.attempt_ended(run, ended),
            Event::CompensationEnded(ended) => self.undo_ended(ended),
            Event::Stopping(stopping) => self.emit(stop_asked(stopping, at)),
            Event::Paused(by) => self.emit(Draft::new("RunPaused", at).actor(by)),
            Event::Resumed(by) => self.emit(Draft::new("RunResumed", at).actor(by)),
            Event::Reattempted { nodes, actor } => {
                let drafts = nodes.iter().map(|node| {
                    // One that waits for another node's reattempt has no number yet.
                    let attempt = run
                        .resolve(node)
                        .filter(|&index| run.node_status(index) == NodeStatus::Queued)
                        .map(|index| run.attempt(index));
                    let draft = Draft::new("NodeReattempted", at).node(node);
                    draft.attempt(attempt).actor(actor)
                });
                self.emit_all(drafts)
            }
            Event::Recovered { .. } => {
                self.emit(Draft::new("RunRecovered", at).with("openNodes", run.open()))
            }
            Event::Warning {
                node,
                code,
                message,
            } => {
                let mut draft = Draft::new("Warning", at).level(Level::Warn);
                draft.node.clone_from(node);
                self.emit(draft.with("code", &**code).with("message", &**message))
            }
            Event::Checkpointed {} => self.emit(Draft::new("Checkpointed", at)),
            Event::Finished(finished) => self.emit(run_finished(finished, at)),
            other => self.emit_all(structure::drafts(run, other, at)),
        }
    }
}

impl<F: FnMut(PublicEvent) -> ControlFlow<()>> Visitor for Derive<'_, F> {
    type Error = Ended;

    fn before(&mut self, run: &Run, event: &Event, place: EventPosition) -> Result<(), Ended> {
        self.note_graph(run);
        self.own = match event {
            Event::AttemptEnded(ended) => run.resolve(&ended.node),
            Event::SetByHand(set) => run.resolve(&set.node),
            _ => None,
        };
        match event {
            Event::AttemptEnded(ended) => self.before_end(run, ended, place.at),
            Event::CompensationEnded(ended) => self.emit_all(structure::undo_started(run, ended)),
            Event::Healed { .. } | Event::Imported { .. } => {
                let open = run.open_instances().into_iter();
                self.open = open.map(|node| (node, run.path(node))).collect();
                Ok(())
            }
            _ => self.emit_all(structure::begun(run, event, place.at)),
        }
    }

    fn after(
        &mut self,
        run: &Run,
        event: &Event,
        place: EventPosition,
        changes: &[Change],
    ) -> Result<(), Ended> {
        self.note_graph(run);
        self.event(run, event, place.at)?;
        self.changes(run, place.at, changes)?;
        self.open.clear();
        Ok(())
    }
}

fn run_queued(queued: &Queued, at: Millis) -> Draft {
    let parent = queued.parent.as_ref();
    let origin = queued.origin.as_ref();
    Draft::new("RunQueued", at)
        .with("workflowId", &*queued.workflow)
        .with("version", queued.version)
        .with("requestId", &*queued.request_id)
        .maybe("parent", parent.map(|parent| json!(parent)))
        .maybe("origin", origin.map(|origin| json!(origin)))
}

fn stop_asked(stopping: &Stopping, at: Millis) -> Draft {
    let what = match &stopping.scope {
        Some(_) => "iteration",
        None => "run",
    };
    let draft = match (stopping.cause, &stopping.abandoned) {
        (_, Some(reason)) => Draft::new("Warning", at)
            .level(Level::Warn)
            .with("code", DEAD_LETTERED)
            .with(
                "message",
                format!("the run's dead letter was purged: {reason}"),
            ),
        (StopCause::Cancel, None) if stopping.scope.is_none() => {
            Draft::new("RunCancelRequested", at)
        }
        (StopCause::Cancel, None) => Draft::new("Warning", at)
            .with("code", "ITERATION_LET_GO")
            .with("message", "the rest of the iteration is let go"),
        (StopCause::FailFast, None) => Draft::new("Warning", at)
            .with("code", "FAIL_FAST")
            .with("message", format!("a failure stops the rest of the {what}")),
        (StopCause::Timeout, None) => Draft::new("Warning", at)
            .level(Level::Warn)
            .with("code", "RUN_TIMEOUT")
            .with("message", "the run's time is over"),
    };
    draft
        .with("toldToStop", json!(stopping.running))
        .maybe("iteration", stopping.scope.as_deref())
        .actor(&stopping.actor)
}

fn run_finished(finished: &Finished, at: Millis) -> Draft {
    let level = match finished.status {
        RunStatus::Failed => Level::Error,
        RunStatus::Cancelled => Level::Warn,
        _ => Level::Info,
    };
    let error = finished.error.as_ref();
    let compensation = finished.compensation.as_ref();
    Draft::new("RunFinished", at)
        .level(level)
        .with("status", finished.status.as_str())
        .maybe("error", error.map(|error| json!(error)))
        .maybe("compensation", compensation.map(|how| json!(how)))
}

/// Whether an instance is a wait that a timer ends.
pub(super) fn is_timed(run: &Run, node: Instance) -> bool {
    matches!(run.kind_of(node), NodeKind::Delay | NodeKind::Signal)
}
