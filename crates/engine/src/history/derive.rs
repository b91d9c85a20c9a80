//! From stored events and the changes they cause to the events that people read.

use std::ops::ControlFlow;

use serde_json::{Map, Value, json};
use windlass_core::event::{
    AttemptEnded, AttemptResult, AttemptStarted, Event, Finished, Hand, Queued, StopCause, Stopping,
};
use windlass_core::plan::NodeIndex;
use windlass_core::run::{Change, Run};
use windlass_core::value::Stored;
use windlass_core::{Millis, NodeStatus, RunStatus};

use super::{Level, PublicEvent};
use crate::Backend;
use crate::load::LoadError;
use crate::replay::{Place, Visitor};
use crate::values::stored_text;

/// Why a walk ended before its log did.
pub(super) enum Ended {
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
pub(super) struct Derive<'a, F> {
    store: &'a dyn Backend,
    visit: F,
    position: u64,
}

impl<'a, F: FnMut(PublicEvent) -> ControlFlow<()>> Derive<'a, F> {
    pub(super) fn new(store: &'a dyn Backend, visit: F) -> Self {
        Self {
            store,
            visit,
            position: 0,
        }
    }

    fn emit(&mut self, draft: Draft) -> Result<(), Ended> {
        self.position += 1;
        let event = PublicEvent {
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

    /// An error as it stands in the log or among the values.
    fn error(&self, stored: &Stored) -> Result<Value, Ended> {
        let text = stored_text(self.store, stored).map_err(LoadError::Store)?;
        Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// The end of an attempt, as far as it concerns the node itself.
    fn attempt_ended(&mut self, run: &Run, ended: &AttemptEnded) -> Result<(), Ended> {
        let took = ended.ended.0.saturating_sub(ended.started.0);
        let draft = |kind| {
            Draft::new(kind, ended.ended)
                .about(run, &ended.node, ended.attempt)
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
            AttemptResult::Stopped {} => stopped(run, draft("NodeCancelled")),
        };
        self.emit(draft)
    }

    /// What followed for other nodes.
    fn changes(
        &mut self,
        run: &Run,
        at: Millis,
        changes: &[Change],
        itself: Option<NodeIndex>,
    ) -> Result<(), Ended> {
        for change in changes {
            let &Change::Ended(node, _, status) = change else {
                continue;
            };
            if Some(node) == itself {
                continue;
            }
            if run.undone(node).is_some() {
                continue;
            }
            let id = &*run.path(node);
            let draft = match status {
                NodeStatus::Skipped => Draft::new("NodeSkipped", at)
                    .node(id)
                    .with("reason", "notChosen"),
                NodeStatus::Blocked => Draft::new("NodeBlocked", at)
                    .node(id)
                    .level(Level::Warn)
                    .with("blockedBy", names(run, run.blocked_by(node))),
                NodeStatus::Cancelled => {
                    let attempts = run.attempts(node);
                    let draft = Draft::new("NodeCancelled", at).node(id);
                    stopped(run, draft.attempt((attempts > 0).then_some(attempts)))
                }
                _ => continue,
            };
            self.emit(draft)?;
        }
        Ok(())
    }
}

impl<F: FnMut(PublicEvent) -> ControlFlow<()>> Visitor for Derive<'_, F> {
    type Error = Ended;

    fn before(&mut self, run: &Run, event: &Event, _place: Place) -> Result<(), Ended> {
        let Event::AttemptEnded(ended) = event else {
            return Ok(());
        };
        // A status of Running says that the start was logged, and so told, before.
        let told = run
            .resolve(&ended.node)
            .is_some_and(|node| run.node_status(node) == NodeStatus::Running);
        if told {
            return Ok(());
        }
        let (node, attempt) = (&ended.node, ended.attempt);
        self.emit(started(run, node, attempt, ended.started, &ended.worker))
    }

    fn after(
        &mut self,
        run: &Run,
        event: &Event,
        place: Place,
        changes: &[Change],
    ) -> Result<(), Ended> {
        let at = place.at;
        let mut itself = None;
        match event {
            Event::Queued(queued) => self.emit(run_queued(queued, at))?,
            Event::Started {} => self.emit(Draft::new("RunStarted", at))?,
            Event::AttemptStarted(event) => {
                let AttemptStarted {
                    node,
                    attempt,
                    started: since,
                    worker,
                    undo: _,
                } = &**event;
                self.emit(started(run, node, *attempt, *since, worker))?;
            }
            Event::AttemptEnded(ended) => {
                itself = run.resolve(&ended.node);
                self.attempt_ended(run, ended)?;
            }
            Event::Stopping(stopping) => self.emit(stop_asked(stopping, at))?,
            Event::Paused(by) => self.emit(hand(Draft::new("RunPaused", at), by))?,
            Event::Resumed(by) => self.emit(hand(Draft::new("RunResumed", at), by))?,
            Event::Reattempted { nodes, hand: by } => {
                for node in nodes {
                    let index = run.resolve(node);
                    // One that waits for another node's reattempt has no number yet.
                    let attempt = index
                        .filter(|&index| run.node_status(index) == NodeStatus::Queued)
                        .map(|index| run.attempt(index));
                    let draft = Draft::new("NodeReattempted", at).node(node);
                    self.emit(hand(draft.attempt(attempt), by))?;
                }
            }
            Event::Recovered {} => {
                self.emit(Draft::new("RunRecovered", at).with("openNodes", run.open()))?;
            }
            Event::Warning {
                node,
                code,
                message,
            } => {
                let mut draft = Draft::new("Warning", at).level(Level::Warn);
                draft.node.clone_from(node);
                self.emit(draft.with("code", &**code).with("message", &**message))?;
            }
            Event::Finished(finished) => self.emit(run_finished(finished, at))?,
            _ => {}
        }
        self.changes(run, at, changes, itself)
    }
}

/// An event before it has its position.
struct Draft {
    kind: &'static str,
    at: Millis,
    level: Level,
    action: Option<Box<str>>,
    node: Option<Box<str>>,
    attempt: Option<u32>,
    data: Map<String, Value>,
}

impl Draft {
    fn new(kind: &'static str, at: Millis) -> Self {
        Self {
            kind,
            at,
            level: Level::Info,
            action: None,
            node: None,
            attempt: None,
            data: Map::new(),
        }
    }

    fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    fn node(mut self, node: &str) -> Self {
        self.node = Some(node.into());
        self
    }

    fn attempt(mut self, attempt: Option<u32>) -> Self {
        self.attempt = attempt;
        self
    }

    /// About an attempt: it comes from the node's action.
    fn about(mut self, run: &Run, node: &str, attempt: u32) -> Self {
        let index = run.resolve(node);
        self.action = index.and_then(|index| run.action_of(index)).map(Into::into);
        self.node(node).attempt(Some(attempt))
    }

    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.data.insert(key.to_owned(), value.into());
        self
    }
}

fn run_queued(queued: &Queued, at: Millis) -> Draft {
    Draft::new("RunQueued", at)
        .with("workflowId", &*queued.workflow)
        .with("version", queued.version)
        .with("requestId", &*queued.request_id)
}

fn started(run: &Run, node: &str, attempt: u32, at: Millis, worker: &str) -> Draft {
    Draft::new("NodeStarted", at)
        .about(run, node, attempt)
        .with("worker", worker)
}

fn stop_asked(stopping: &Stopping, at: Millis) -> Draft {
    let draft = match stopping.cause {
        StopCause::Cancel => Draft::new("RunCancelRequested", at),
        StopCause::FailFast => Draft::new("Warning", at)
            .with("code", "FAIL_FAST")
            .with("message", "a failure stops the rest of the run"),
        StopCause::Timeout => Draft::new("Warning", at)
            .level(Level::Warn)
            .with("code", "RUN_TIMEOUT")
            .with("message", "the run's time is over"),
    };
    let draft = draft.with("toldToStop", json!(stopping.running));
    hand(draft, &stopping.hand)
}

fn run_finished(finished: &Finished, at: Millis) -> Draft {
    let level = match finished.status {
        RunStatus::Failed => Level::Error,
        RunStatus::Cancelled => Level::Warn,
        _ => Level::Info,
    };
    let mut draft = Draft::new("RunFinished", at)
        .level(level)
        .with("status", finished.status.as_str());
    if let Some(error) = &finished.error {
        draft = draft.with("error", json!(error));
    }
    draft
}

fn hand(mut draft: Draft, hand: &Hand) -> Draft {
    if let Some(by) = &hand.by {
        draft = draft.with("by", &**by);
    }
    if let Some(reason) = &hand.reason {
        draft = draft.with("reason", &**reason);
    }
    draft
}

/// Says why a node was let go.
fn stopped(run: &Run, draft: Draft) -> Draft {
    let cause = match run.stop_cause() {
        Some(StopCause::Cancel) => "cancel",
        Some(StopCause::FailFast) => "failFast",
        Some(StopCause::Timeout) => "timeout",
        None => return draft,
    };
    draft.with("cause", cause)
}

fn names(run: &Run, nodes: &[NodeIndex]) -> Value {
    nodes
        .iter()
        .map(|&node| run.path(node).into_string())
        .collect()
}
