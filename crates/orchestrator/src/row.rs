//! The rows that derive from a run's log.

use windlass_core::event::{AttemptEnded, Queued, ResourceLink, RunFailure};
use windlass_core::printable::cut;
use windlass_core::run::Run;
use windlass_core::{Millis, RunId};
use windlass_store::{Partition, ResourceRow, RunRow};

/// Bytes of an error's message that lists show: a line on a wide terminal. A store may hold
/// millions of rows; the run itself has the whole message.
const MESSAGE_BYTES: usize = 240;

/// The row that lists show for a run in this state; `sleep` says whether it only waits,
/// and until when.
pub fn row(run: &Run, sleep: (bool, Option<Millis>)) -> RunRow {
    let error = run.finished().and_then(|finished| finished.error.as_ref());
    RunRow {
        version: run.version(),
        status: run.status(),
        started_at: run.started_at(),
        ended_at: run.ended_at(),
        wake_at: sleep.1,
        // A parent that waits for a child is acquired after every restart, to look at it.
        asleep: sleep.0 && run.open_children().next().is_none(),
        error_code: error.map(|error| error.code.clone()),
        error_message: error.map(|error| cut(&error.message, MESSAGE_BYTES).into()),
        cause_codes: error.map_or_else(Vec::new, cause_codes),
        ..queued_row(run.id(), run.queued(), run.created_at())
    }
}

/// The row of a run that was requested and has not begun.
pub fn queued_row(run: RunId, queued: &Queued, at: Millis) -> RunRow {
    RunRow {
        tenant: queued.tenant.clone(),
        version: queued.version,
        priority: queued.priority,
        labels: queued.labels.clone(),
        parent: queued.parent.as_ref().map(|parent| parent.execution_id),
        origin: queued.origin.as_ref().map(|origin| origin.execution_id),
        gate: gate_name(queued),
        limit: queued.gate.as_ref().map_or(0, |gate| gate.limit),
        partition: Partition(queued.partition),
        ..RunRow::queued(run, &queued.workflow, &queued.request_id, at)
    }
}

/// The codes of root causes, each once, in the order of the causes.
fn cause_codes(error: &RunFailure) -> Vec<Box<str>> {
    let mut codes: Vec<Box<str>> = Vec::new();
    for cause in &error.causes {
        if !codes.contains(&cause.code) {
            codes.push(cause.code.clone());
        }
    }
    codes
}

/// The full name of the gate that a run must pass: its tenant, its workflow, its key.
pub fn gate_name(queued: &Queued) -> Option<Box<str>> {
    let key = &queued.gate.as_ref()?.key;
    let workflow = &queued.workflow;
    // A workflow's id holds neither a tab nor a newline, so the parts cannot run into
    // each other.
    Some(match &queued.tenant {
        Some(tenant) => format!("{tenant}\t{workflow}\n{key}").into(),
        None => format!("{workflow}\n{key}").into(),
    })
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
