//! What an observer learns of attempts: each is remembered from the moment it is handed
//! out until its end is durable. Without an observer nothing is kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::run::{Dispatch, Failure, Instance, Outcome, Report};
use windlass_core::{Millis, NodeStatus, RunId};

use crate::engine_event::EngineEvent;
use crate::options::Observer;

/// An attempt that has ended, durably.
#[derive(Clone, Debug)]
pub struct FinishedAttempt {
    /// The run that the attempt belongs to.
    pub run: RunId,
    /// The run's workflow.
    pub workflow: Arc<str>,
    /// The version of it that the run is on.
    pub version: u32,
    /// What ties the run to the outside.
    pub correlation_id: Arc<str>,
    /// The trace context that the run was asked for with.
    pub traceparent: Option<Box<str>>,
    /// The node.
    pub instance: Instance,
    /// Its path.
    pub node: Box<str>,
    /// The name of the action that was called.
    pub action: Arc<str>,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// Whether it undoes the node.
    pub undo: bool,
    /// When a worker began it; when it was handed out, if no worker said.
    pub started: Millis,
    /// When it ended.
    pub ended: Millis,
    /// What the node is now: `Waiting` means that another attempt follows.
    pub status: NodeStatus,
    /// What the action said, if it failed.
    failure: Option<Failure>,
}

impl FinishedAttempt {
    /// Why it failed, if it did: cleaned of secrets, as it is recorded.
    pub fn failure(&self) -> Option<&Failure> {
        let failed = matches!(self.status, NodeStatus::Failed | NodeStatus::Waiting);
        self.failure.as_ref().filter(|_| failed)
    }

    /// Whether another attempt follows.
    pub fn again(&self) -> bool {
        self.status == NodeStatus::Waiting
    }
}

/// Attempts under way.
#[derive(Default)]
pub(crate) struct AttemptTracker {
    attempts: BTreeMap<(RunId, Instance), OpenAttempt>,
}

struct OpenAttempt {
    attempt: FinishedAttempt,
    /// A worker has said how it ended.
    reported: bool,
}

impl AttemptTracker {
    /// An attempt is handed out.
    pub(crate) fn dispatch(&mut self, dispatch: &Dispatch, now: Millis) {
        let attempt = FinishedAttempt {
            run: dispatch.run,
            workflow: Arc::clone(&dispatch.workflow),
            version: dispatch.version,
            correlation_id: Arc::clone(&dispatch.correlation_id),
            traceparent: dispatch.traceparent.clone(),
            instance: dispatch.node,
            node: dispatch.path.clone(),
            action: Arc::clone(&dispatch.action),
            attempt: dispatch.attempt,
            undo: dispatch.undo,
            started: now,
            ended: now,
            status: NodeStatus::Running,
            failure: None,
        };
        let open = OpenAttempt {
            attempt,
            reported: false,
        };
        self.attempts.insert((dispatch.run, dispatch.node), open);
    }

    /// A worker says how an attempt ended; that is not durable yet.
    pub(crate) fn report(&mut self, key: (RunId, Instance), attempt: u32, report: &Report) {
        let Some(open) = self.attempts.get_mut(&key) else {
            return;
        };
        if open.attempt.attempt != attempt {
            return;
        }
        open.reported = true;
        open.attempt.started = report.started;
        open.attempt.ended = report.ended;
        if let Outcome::Failed(failure) = &report.outcome {
            open.attempt.failure = Some(failure.clone());
        }
    }

    /// The attempts that these changes, now durable, have ended.
    pub(crate) fn ended(
        &mut self,
        run: RunId,
        nodes: &[(Instance, NodeStatus)],
        now: impl Fn() -> Millis,
    ) -> Vec<FinishedAttempt> {
        let mut ended = Vec::new();
        if self.attempts.is_empty() {
            return ended;
        }
        for &(node, status) in nodes {
            if status != NodeStatus::Waiting && !status.is_final() {
                continue;
            }
            let Some(OpenAttempt {
                mut attempt,
                reported,
            }) = self.attempts.remove(&(run, node))
            else {
                continue;
            };
            if !reported {
                attempt.ended = now();
            }
            attempt.status = status;
            ended.push(attempt);
        }
        ended
    }

    /// The run is not here any more: nothing more is heard of its attempts.
    pub(crate) fn forget(&mut self, run: RunId) {
        let all = (run, Instance::MIN)..=(run, Instance::MAX);
        let gone: Vec<_> = self.attempts.range(all).map(|(key, _)| *key).collect();
        for key in gone {
            self.attempts.remove(&key);
        }
    }
}

/// Measures an append, if there is an observer.
pub(crate) struct AppendWatch(Option<(Arc<dyn Observer>, Instant)>);

impl AppendWatch {
    pub(crate) fn new(observer: Option<&Arc<dyn Observer>>) -> Self {
        Self(observer.map(|observer| (Arc::clone(observer), Instant::now())))
    }

    /// The store has answered.
    pub(crate) fn tell(self, records: usize) {
        if let Some((observer, begun)) = self.0 {
            let took: Duration = begun.elapsed();
            observer.observe(&EngineEvent::Appended { records, took });
        }
    }
}
