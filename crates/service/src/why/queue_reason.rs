//! The sentence for a run that waits to begin, or to be recovered.

use windlass_core::run::Run;
use windlass_core::{RunId, RunStatus};
use windlass_engine::{QueueReason, RunOwner, Suspended, held_gate};
use windlass_store::{RunRow, Wait as _};

use crate::failure::Failure;
use crate::moment::readable;
use crate::run_queries::RunQueries;
use crate::text::one_line;

/// What a run waits for outside its own graph: its place in line, its gate, or its trial after
/// crashes. Nothing, if it goes on.
///
/// # Errors
/// The store failed.
pub(super) fn sentence(queries: &RunQueries, run: &Run) -> Result<Option<String>, Failure> {
    let Some(row) = queries.store.run(run.id()).wait()? else {
        return Ok(None);
    };
    waits(queries, run, &row)
}

fn waits(queries: &RunQueries, run: &Run, row: &RunRow) -> Result<Option<String>, Failure> {
    if row.is_dead_letter() {
        return dead(queries, row.run).map(Some);
    }
    let waits = row.status == RunStatus::Pending;
    let Some(engine) = &queries.engine else {
        // Another process has it: what the store knows is what there is to know.
        let gate = row.gate.as_deref().filter(|_| waits);
        let held = match gate {
            // A store that is read over HTTP does not know: its server does.
            Some(gate) => held_gate(&*queries.store, gate, row.limit)
                .wait()
                .unwrap_or(None),
            None => None,
        };
        return held.map(|held| words(queries, run, held)).transpose();
    };
    if !waits {
        if let Some(suspended) = engine.suspended_anywhere(row).wait()? {
            return Ok(Some(tried(suspended)));
        }
        let owner = match row.status {
            RunStatus::Running => engine.owner_of(row).wait()?,
            _ => return Ok(None),
        };
        return Ok(match owner {
            RunOwner::Unowned { orchestrators } => Some(unowned("is under way", orchestrators)),
            _ => None,
        });
    }
    let queue_reason = engine.queue_reason(row).wait()?;
    Ok(Some(words(queries, run, queue_reason)?))
}

/// The sentence for a run that is a dead letter.
pub(super) fn dead(queries: &RunQueries, run: RunId) -> Result<String, Failure> {
    let letter = queries.store.dead_letter(run).wait().ok().flatten();
    let reason = letter.map(|letter| format!(": {}", one_line(&letter.reason)));
    let reason = reason.unwrap_or_default();
    let short = queries.short_id(run)?;
    Ok(format!(
        "The run is among the dead letters{reason}. No process executes it: \
         windlass dead-letters requeue {short}"
    ))
}

fn tried(suspended: Suspended) -> String {
    let Suspended { deaths, until } = suspended;
    format!(
        "The run waits until {}: {} died with it in hand, and it is tried alone then.",
        readable(until),
        count(deaths as usize, "process", "processes"),
    )
}

/// The sentence for a run that no process owns.
fn unowned(state: &str, orchestrators: usize) -> String {
    match orchestrators {
        0 => format!(
            "The run {state}, but no process owns it: no orchestrator is live. Start one; `windlass \
             cluster` lists the live processes."
        ),
        _ => format!(
            "The run {state}, but no process owns its partition at the moment: {} and {} it within \
             seconds.",
            count(
                orchestrators,
                "orchestrator is live",
                "orchestrators are live"
            ),
            if orchestrators == 1 {
                "takes"
            } else {
                "one takes"
            },
        ),
    }
}

fn words(queries: &RunQueries, run: &Run, queue_reason: QueueReason) -> Result<String, Failure> {
    Ok(match queue_reason {
        QueueReason::Stopping => {
            "The run is queued: this server is stopping and begins nothing more.".to_owned()
        }
        QueueReason::NotServing => {
            "The run is queued: this server has not begun to start runs.".to_owned()
        }
        QueueReason::Unowned { orchestrators } => unowned("is queued", orchestrators),
        QueueReason::Suspended(suspended) => tried(suspended),
        QueueReason::Isolation => {
            "The run is queued: another one is tried alone, and nothing begins meanwhile."
                .to_owned()
        }
        QueueReason::Gate { limit, holders } => {
            let mut names = Vec::new();
            for run in &holders {
                names.push(queries.short_id(*run)?);
            }
            let more = (limit as usize).saturating_sub(names.len());
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let at_once = count(limit as usize, "run", "runs");
            format!(
                "The run is queued: {} lets {at_once} go at once, and {}{more} {} there.",
                gate_words(run),
                names.join(", "),
                if limit == 1 { "is" } else { "are" },
            )
        }
        QueueReason::Full { most } => {
            format!(
                "The run is queued: this server executes {most} runs already (max_active_runs)."
            )
        }
        QueueReason::Ahead { runs: 0 } => "The run is queued, and begins next.".to_owned(),
        QueueReason::Ahead { runs } => {
            let runs = count(runs, "run begins", "runs begin");
            format!("The run is queued: {runs} before it.")
        }
    })
}

/// The gate as its definition has it: the workflow's, or that of a key.
fn gate_words(run: &Run) -> String {
    let queued = run.queued();
    match queued.gate.as_ref().filter(|gate| !gate.key.is_empty()) {
        Some(gate) => format!("its concurrency key '{}'", one_line(&gate.key)),
        None => format!("the workflow '{}'", queued.workflow),
    }
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
