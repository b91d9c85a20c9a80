//! Lists of runs as people and programs read them: what a row alone does not say.

use windlass_core::RunStatus;
use windlass_core::run::{Run, WaitState};
use windlass_engine::history::last_change;
use windlass_engine::{QueueReason, held_gate, load_latest};
use windlass_store::{RunFilter, RunPage, RunRow, Wait as _};

use crate::failure::{Failure, FailureKind};
use crate::moment::readable;
use crate::run_item::{Moment, RunDetails, RunState};
use crate::run_queries::RunQueries;
use crate::text::one_line;
use crate::wait_state::format_wait;

/// How many runs of a page are asked what they wait for: each is read for it.
const ASKED: usize = 100;

/// How many waits of a run are named.
const NAMED: usize = 2;

/// How many rows are looked at to find orphaned runs.
const LOOKED_AT: usize = 10_000;

/// Which runs to list.
#[derive(Clone, Debug, Default)]
pub struct RunSelection {
    /// What the store answers.
    pub filter: RunFilter,
    /// Those alone that have begun and that no process executes.
    pub orphaned: bool,
}

impl RunSelection {
    /// Checks that the conditions make sense together.
    ///
    /// # Errors
    /// A version without its workflow.
    pub fn check(&self) -> Result<(), Failure> {
        match (&self.filter.workflow, self.filter.version) {
            (None, Some(version)) => {
                let message = format!("version {version} of which workflow?");
                Err(Failure::new(FailureKind::Usage, message).hint("name the workflow too"))
            }
            _ => Ok(()),
        }
    }

    /// Leaves child runs out where nothing was asked for that a child alone may have: a list shows
    /// them under their parents.
    pub fn fold_children(&mut self) {
        let filter = &mut self.filter;
        let is_about_some = filter.parent.is_some() || filter.workflow.is_some();
        let is_about_state = filter.waiting || filter.dead == Some(true) || self.orphaned;
        filter.roots = !is_about_some && !is_about_state && filter.origin.is_none();
    }
}

/// A page of the runs that are selected, newest first.
///
/// # Errors
/// The store failed.
pub fn page(queries: &RunQueries, selection: &RunSelection) -> Result<RunPage, Failure> {
    if !selection.orphaned {
        return Ok(queries.store.runs(&selection.filter).wait()?);
    }
    let mut filter = selection.filter.clone();
    filter.statuses = vec![RunStatus::Running];
    filter.dead = Some(false);
    let wanted = selection.filter.page();
    let mut found = RunPage::default();
    let mut looked_at = 0;
    loop {
        let page = queries.store.runs(&filter).wait()?;
        looked_at += page.rows.len();
        for row in page.rows {
            if found.rows.len() == wanted {
                found.next = found.rows.last().map(|row| row.run);
                return Ok(found);
            }
            if is_orphaned(queries, &row) {
                found.rows.push(row);
            }
        }
        filter.before = page.next;
        if filter.before.is_none() || looked_at >= LOOKED_AT {
            found.next = filter.before;
            return Ok(found);
        }
    }
}

/// Whether a run has begun and no process executes it, nor wakes it at its time.
pub fn is_orphaned(queries: &RunQueries, row: &RunRow) -> bool {
    if row.status != RunStatus::Running || row.dead || row.asleep {
        return false;
    }
    match &queries.engine {
        Some(engine) => engine.is_orphaned(row).wait(),
        None => queries.holder.is_none(),
    }
}

/// Rows with all that lists show.
///
/// # Errors
/// The store failed.
pub fn details(queries: &RunQueries, rows: &[RunRow]) -> Result<Vec<RunDetails>, Failure> {
    let runs: Vec<_> = rows.iter().map(|row| row.run).collect();
    let relatives = queries.store.relatives(&runs).wait()?;
    let mut asked = 0;
    let each = rows.iter().zip(relatives).map(|(row, relatives)| {
        let mut details = RunDetails::from(row);
        details.item.children = relatives.children;
        details.item.forked_as = relatives.forks;
        if is_orphaned(queries, row) {
            details.item.state = RunState::Orphaned;
        }
        let is_open = !row.status.is_final();
        if is_open && asked < ASKED {
            asked += 1;
            // A log that cannot be read is listed all the same.
            let last = last_change(&*queries.store, row.run).ok().flatten();
            details.item.updated_at = last.map(Moment);
            details.item.waits_for = waits_for(queries, row, details.item.state)?;
        }
        Ok(details)
    });
    each.collect()
}

fn waits_for(
    queries: &RunQueries,
    row: &RunRow,
    state: RunState,
) -> Result<Option<String>, Failure> {
    Ok(match state {
        RunState::DeadLettered => {
            let letter = queries.store.dead_letter(row.run).wait().ok().flatten();
            letter.map(|letter| one_line(&letter.reason).to_string())
        }
        RunState::Orphaned => Some("no process executes it".to_owned()),
        // A run that cannot be read is listed all the same.
        RunState::Waiting => match load_latest(&*queries.store, &queries.plans, row.run) {
            Ok(loaded) => waits(&loaded.run),
            Err(_) => row.wake_at.map(|at| format!("until {}", readable(at))),
        },
        RunState::Queued => queued(queries, row)?,
        _ => None,
    })
}

/// What a run waits for: its signals first, then times.
fn waits(run: &Run) -> Option<String> {
    let open = run.open_instances();
    let waiting = open.iter().filter_map(|node| run.waiting_node(*node));
    let mut waiting: Vec<_> = waiting
        .filter(|node| matches!(node.what, WaitState::Signal { .. } | WaitState::Until(_)))
        .collect();
    waiting.sort_by_key(|node| !matches!(node.what, WaitState::Signal { .. }));
    let named = waiting.iter().take(NAMED);
    let named = named.map(|node| format!("{} ({})", format_wait(run, node.node), node.path));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = waiting.len().saturating_sub(NAMED);
    match more {
        _ if waiting.is_empty() => None,
        0 => Some(named),
        more => Some(format!("{named} and {more} more")),
    }
}

/// What a run that has not begun waits for.
fn queued(queries: &RunQueries, row: &RunRow) -> Result<Option<String>, Failure> {
    let reason = match (&queries.engine, row.gate.as_deref()) {
        (Some(engine), _) => Some(engine.queue_reason(row).wait()?),
        // A store that is read over HTTP does not know: its server does.
        (None, Some(gate)) => held_gate(&*queries.store, gate, row.limit)
            .wait()
            .unwrap_or(None),
        (None, None) => None,
    };
    Ok(match reason {
        None if queries.holder.is_none() => Some("no process executes runs here".to_owned()),
        None => None,
        Some(QueueReason::Gate { limit, holders }) => {
            let names: Result<Vec<_>, _> =
                holders.iter().map(|run| queries.short_id(*run)).collect();
            let key = row.gate.as_deref().unwrap_or_default();
            let key = key.rsplit_once('\n').map_or("", |(_, key)| key);
            let of = match key.is_empty() {
                true => String::new(),
                false => format!(" of key '{}'", one_line(key)),
            };
            Some(format!("behind {} (limit {limit}{of})", names?.join(", ")))
        }
        Some(QueueReason::Ahead { runs: 0 }) => Some("begins next".to_owned()),
        Some(QueueReason::Ahead { runs }) => Some(format!("behind {runs} queued runs")),
        Some(QueueReason::Full { most }) => {
            Some(format!("{most} runs are active already (max_active_runs)"))
        }
        Some(QueueReason::Isolation) => Some("another run is tried alone".to_owned()),
        Some(QueueReason::Suspended(suspended)) => {
            Some(format!("tried alone at {}", readable(suspended.until)))
        }
        Some(QueueReason::Unowned { orchestrators: 0 }) => {
            Some("no orchestrator is live".to_owned())
        }
        Some(QueueReason::Unowned { .. }) => Some("no process owns its partition yet".to_owned()),
        Some(QueueReason::NotServing) => Some("no server has begun to start runs".to_owned()),
        Some(QueueReason::Stopping) => Some("the server is stopping".to_owned()),
    })
}
