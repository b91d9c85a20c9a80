//! Turns the engine's events into log lines, spans and counts.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::run::RunSummary;
use windlass_core::{Millis, NodeStatus, RunStatus};
use windlass_engine::{EngineEvent, FinishedAttempt, Observer};

use crate::logs::say;
use crate::metrics::{Metrics, Workflow};
use crate::traces::{Exporter, Subject};

/// The observer of an engine.
pub(crate) struct Watcher {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) exporter: Option<Exporter>,
    pub(crate) name_tenants: bool,
}

/// The label of all workflows of tenants, where the metrics must not name them. No workflow can
/// be called so.
pub(crate) const TENANTS: &str = "(tenants)";

impl Observer for Watcher {
    fn observe(&self, event: &EngineEvent<'_>) {
        match event {
            EngineEvent::Began { about, recovered } => {
                if !recovered {
                    self.workflow(about).started.inc();
                }
                say::began(about, *recovered);
            }
            EngineEvent::Ended { attempt } => self.attempt_ended(attempt),
            EngineEvent::Finished { status, about, .. } => self.finished(about, *status),
            EngineEvent::Damaged { what, reason } => say::damaged(what, reason),
            EngineEvent::DeadLettered {
                run,
                workflow,
                version,
                correlation_id,
                reason,
            } => say::dead_letter(&say::DeadLetter {
                run: *run,
                workflow,
                version: *version,
                correlation_id: Some(correlation_id),
                code: "DEAD_LETTER",
                reason,
            }),
            EngineEvent::Appended { took, .. } => self.metrics.appended(*took),
            EngineEvent::StoreAway { reason } => say::store_away(reason),
            EngineEvent::StoreBack { after } => say::store_back(*after),
            _ => {}
        }
    }
}

impl Watcher {
    /// The series that a run is counted in.
    fn workflow(&self, about: &RunSummary) -> Arc<Workflow> {
        match about.queued.tenant {
            Some(_) if !self.name_tenants => self.metrics.workflow(TENANTS),
            _ => self.metrics.workflow(&about.queued.workflow),
        }
    }

    fn attempt_ended(&self, attempt: &FinishedAttempt) {
        let took = between(attempt.started, attempt.ended);
        let failed = matches!(attempt.status, NodeStatus::Failed | NodeStatus::Waiting);
        let action = self.metrics.action(&attempt.action);
        action.ended(took, failed, attempt.again());
        say::attempt(attempt, milliseconds(took));
        if let Some(exporter) = &self.exporter {
            exporter.put(Subject::Attempt(Box::new(attempt.clone())));
        }
    }

    fn finished(&self, about: &RunSummary, status: RunStatus) {
        // A run that was opened again has ended before; only the time since then is counted.
        let began = about.reopened_at.or(about.started_at);
        let (began, ended) = (began.unwrap_or(about.created_at), about.ended_at);
        let took = between(began, ended.unwrap_or(began));
        self.workflow(about).ended(status, took);
        if about.reopened_at.is_none() {
            self.metrics.levels.inc_by(about.levels.into());
        }
        say::finished(about, status, milliseconds(took));
        if let Some(exporter) = &self.exporter {
            exporter.put(Subject::Run(Box::new(about.clone()), status));
        }
    }
}

/// From one moment to another; nothing where a clock went backwards.
fn between(from: Millis, to: Millis) -> Duration {
    Duration::from_millis(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
