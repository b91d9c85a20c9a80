//! The rows that derive from a run's log.

use windlass_core::Millis;
use windlass_core::event::{AttemptEnded, ResourceLink};
use windlass_core::run::Run;
use windlass_store::{ResourceRow, RunRow};

/// The row that lists show for a run in this state; `sleep` says whether it only waits,
/// and until when.
pub fn row(run: &Run, sleep: (bool, Option<Millis>)) -> RunRow {
    let queued = run.queued();
    let error = run.finished().and_then(|finished| finished.error.as_ref());
    RunRow {
        run: run.id(),
        tenant: queued.tenant.clone(),
        workflow: queued.workflow.clone(),
        version: run.version(),
        request_id: queued.request_id.clone(),
        status: run.status(),
        priority: queued.priority,
        labels: queued.labels.clone(),
        created_at: run.created_at(),
        started_at: run.started_at(),
        ended_at: run.ended_at(),
        wake_at: sleep.1,
        // Who waits for a child looks at it after every restart.
        asleep: sleep.0 && run.open_children().next().is_none(),
        error_code: error.map(|error| error.code.clone()),
        parent: queued.parent.as_ref().map(|parent| parent.execution_id),
        gate: None,
        limit: 0,
        // The log does not say: the store knows.
        dead: false,
    }
}

/// The rows of the links that an attempt reported.
pub fn resource_rows(run: &Run, ended: &AttemptEnded) -> Vec<ResourceRow> {
    ended
        .resources
        .iter()
        .map(|link| resource_row(run, &ended.node, link))
        .collect()
}

fn resource_row(run: &Run, node: &str, link: &ResourceLink) -> ResourceRow {
    ResourceRow {
        tenant: run.queued().tenant.clone(),
        system: link.system.clone(),
        kind: link.kind.clone(),
        id: link.id.clone(),
        url: link.url.clone(),
        run: run.id(),
        node: node.into(),
    }
}

/// Whether a run only waits, as its state says, and until when: what its row shows.
pub fn sleep(run: &Run) -> (bool, Option<Millis>) {
    if run.started_at().is_some() && run.is_asleep() {
        (true, run.wake_at())
    } else {
        (false, None)
    }
}
