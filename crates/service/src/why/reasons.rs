//! The sentences: one for the run, one for each node instance.

use windlass_core::definition::{ExecutionMode, Join};
use windlass_core::event::StopCause;
use windlass_core::plan::NodeKind;
use windlass_core::routing::EdgeState;
use windlass_core::run::{Instance, Run};
use windlass_core::{Millis, NodeStatus, RunStatus};
use windlass_engine::view::{NodeCounts, Overview, SeenInstance};
use windlass_store::Wait as _;

use super::WhyAnswer;
use crate::failure::Failure;
use crate::moment::{ago, now, readable};
use crate::run_queries::RunQueries;
use crate::text::{error_of, named, names, one_line, summary};
use crate::wait_state::{format_loop, open_inside, plural};

/// How many instances inside a loop one sentence names.
const NAMED: usize = 3;

/// The parents whose end an instance waits for.
pub(super) fn waits_for(run: &Run, node: Instance) -> Vec<Instance> {
    if run.node_status(node) != NodeStatus::Pending {
        return Vec::new();
    }
    let parents = run.parents(node).into_iter();
    let unresolved = parents.filter(|(_, state)| *state == EdgeState::Unresolved);
    let mut parents: Vec<Instance> = unresolved.map(|(parent, _)| parent).collect();
    parents.sort_unstable();
    parents.dedup();
    parents
}

pub(super) struct Reasons<'a> {
    pub(super) overview: &'a Overview,
    pub(super) queries: &'a RunQueries,
    pub(super) short: String,
}

impl Reasons<'_> {
    /// Why the run stands where it does.
    pub(super) fn run(&self) -> String {
        let run = &self.overview.run;
        let short = &self.short;
        let since = |at| ago(at, now());
        match run.status() {
            RunStatus::Pending | RunStatus::Running if self.queries.holder.as_ref().is_none() => {
                let state = if run.status() == RunStatus::Pending {
                    "is queued"
                } else {
                    "is unfinished"
                };
                format!("The run {state}, and no process executes it: windlass resume {short}")
            }
            RunStatus::Pending => "The run is queued and has not started.".to_owned(),
            RunStatus::Running if run.undo().is_some() => {
                let undo = run.undo().map(|undo| undo.steps().collect::<Vec<_>>());
                let steps = undo.unwrap_or_default();
                let done = steps.iter().filter(|(_, status)| status.is_final()).count();
                let all = steps.len();
                format!("The run is being undone: {done} of {all} steps done.")
            }
            RunStatus::Running => {
                let holder = self.queries.holder.as_ref();
                let by = holder
                    .map(|holder| format!(", executed by {holder}"))
                    .unwrap_or_default();
                format!(
                    "The run is under way{by}: {}.",
                    summary(&NodeCounts::of(run))
                )
            }
            RunStatus::Paused => format!("The run is paused: windlass resume {short}"),
            RunStatus::Succeeded => {
                let ended = run.ended_at().map(since).unwrap_or_default();
                format!(
                    "The run succeeded {ended}: {}.",
                    summary(&NodeCounts::of(run))
                )
            }
            RunStatus::Failed => {
                let error = run.finished().and_then(|finished| finished.error.as_ref());
                let error =
                    error.map(|error| one_line(&format!("{}: {}", error.code, error.message)));
                format!("The run failed: {}.", error.unwrap_or_default())
            }
            RunStatus::Cancelled => format!("The run was cancelled{}.", self.actor()),
        }
    }

    /// Who asked for the stop, and why.
    fn actor(&self) -> String {
        let Some(actor) = self.overview.run.stop_actor() else {
            return String::new();
        };
        let by = actor
            .by
            .as_ref()
            .map(|by| format!(" by {by}"))
            .unwrap_or_default();
        let why = actor
            .reason
            .as_ref()
            .map(|why| format!(", because: {why}"))
            .unwrap_or_default();
        format!("{by}{why}")
    }

    /// What is being undone now, and what could not be.
    pub(super) fn undoing(&self) -> Result<Vec<WhyAnswer>, Failure> {
        let run = &self.overview.run;
        let mut answers = Vec::new();
        let Some(undo) = run.undo() else {
            return Ok(answers);
        };
        let stopped_at = undo
            .steps()
            .find(|(_, status)| *status == NodeStatus::Failed);
        let stopped_at = stopped_at.filter(|_| run.undo_is_stopped());
        for (node, status) in undo.steps() {
            let path = run.path(node).into_string();
            let undoing = run.undoing_of(node);
            let due = undoing.and_then(|undoing| run.due(undoing)).map(readable);
            let reason = match status {
                NodeStatus::Waiting => format!(
                    "Undoing {path} failed and backs off: the next attempt is due at {}.",
                    due.unwrap_or_default()
                ),
                NodeStatus::Queued | NodeStatus::Running => {
                    let attempt = undoing.map_or(0, |undoing| run.attempt(undoing));
                    format!("{path} is being undone (attempt {attempt}).")
                }
                NodeStatus::Failed => format!(
                    "{path} could not be undone: windlass compensate {} --retry {path}",
                    self.short
                ),
                NodeStatus::Pending => match stopped_at {
                    Some((failed, _)) => format!(
                        "{path} is not undone: the compensation stopped when {} could not be \
                         undone, as the definition says (onError).",
                        run.path(failed)
                    ),
                    None => continue,
                },
                _ => continue,
            };
            answers.push(WhyAnswer {
                path,
                status,
                reason,
                waits_for: Vec::new(),
                work: None,
                pool: None,
            });
        }
        Ok(answers)
    }

    /// Why a node stands where it does.
    pub(super) fn node(&self, seen: &SeenInstance<'_>) -> Result<String, Failure> {
        let (run, node, id) = (seen.run, seen.node, seen.path);
        let when = |at: Option<Millis>| at.map(|at| ago(at, now())).unwrap_or_default();
        let ended = when(seen.times.ended(node));
        Ok(match run.node_status(node) {
            NodeStatus::Pending => self.pending(seen),
            NodeStatus::Queued => self.queued(seen),
            NodeStatus::Running => self.running(seen)?,
            NodeStatus::Waiting => self.waiting(seen),
            NodeStatus::Succeeded => succeeded(seen, &ended),
            NodeStatus::Failed => {
                let error = error_of(self.queries, run, node)?.unwrap_or_default();
                let handled = if run.is_handled(node) {
                    "; its failure was handled"
                } else {
                    ", and nothing handles it"
                };
                format!("{id} failed {ended}: {error}{handled}.")
            }
            NodeStatus::Skipped if run.attempts(node) > 0 => {
                format!("{id} was skipped: its action had nothing to do.")
            }
            NodeStatus::Skipped => {
                let unmatched = run.parents(node).into_iter().find_map(|(parent, _)| {
                    let message = seen.notes.unmatched(parent)?;
                    Some(format!(" ({}: {message})", named(run, &run.path(parent))))
                });
                let unmatched = unmatched.unwrap_or_default();
                format!("{id} was skipped: none of the edges that lead to it was taken{unmatched}.")
            }
            NodeStatus::Blocked => {
                format!("{id} is blocked by {}.", names(run, run.blocked_by(node)))
            }
            NodeStatus::Cancelled => {
                let why = match run.stop_cause() {
                    Some(_) if run.abandoned().is_some() => {
                        format!("the run's dead letter was purged{}", self.actor())
                    }
                    Some(StopCause::Cancel) => format!("the run was cancelled{}", self.actor()),
                    Some(StopCause::FailFast) => {
                        "another node failed, and the workflow fails fast".to_owned()
                    }
                    Some(StopCause::Timeout) => "the run's time was over".to_owned(),
                    None if run.owner(node).is_some() => "its iteration was let go".to_owned(),
                    None => "the run let it go".to_owned(),
                };
                format!("{id} was cancelled: {why}.")
            }
        })
    }

    /// It is under way: with a worker, as a loop, or as a child run.
    fn running(&self, seen: &SeenInstance<'_>) -> Result<String, Failure> {
        let (run, node, id) = (seen.run, seen.node, seen.path);
        let since = seen.times.started(node).map(readable).unwrap_or_default();
        if let Some(child) = run.child(node) {
            let row = self.queries.store.run(child).wait()?;
            let status = row.map_or(RunStatus::Pending, |row| row.status);
            return Ok(format!(
                "{id} has waited for its child run {child} ({status}) since {since}: \
                 windlass why {child}"
            ));
        }
        let kind = run.kind_of(node);
        if let Some(cycle) = run.cycle(node).filter(|_| kind.is_loop()) {
            let words = format_loop(kind, cycle);
            let (inside, count) = open_inside(run, node, NAMED);
            let mut under_way: Vec<String> = inside
                .iter()
                .map(|&one| format!("{} ({})", named(run, &run.path(one)), run.node_status(one)))
                .collect();
            if count > under_way.len() {
                under_way.push(format!("{} more", count - under_way.len()));
            }
            let now = match under_way.is_empty() {
                true => String::new(),
                false => format!("; under way: {}", under_way.join(", ")),
            };
            return Ok(format!(
                "{id} has been looping since {since}: {words}{now}."
            ));
        }
        if self.queries.holder.as_ref().is_none() {
            return Ok(format!(
                "{id} was under way when its process ended, and no process executes this run: \
                 windlass resume {}",
                self.short
            ));
        }
        let attempt = run.attempt(node);
        Ok(format!(
            "{id} has been running since {since} (attempt {attempt})."
        ))
    }

    /// It holds no worker: a delay, a signal, or the time before its next attempt.
    fn waiting(&self, seen: &SeenInstance<'_>) -> String {
        let (run, node, id) = (seen.run, seen.node, seen.path);
        let due = run.due(node).map(readable);
        let since = run.since(node).map(readable).unwrap_or_default();
        let paused = match run.status() {
            RunStatus::Paused => "; the run is paused, so nothing follows before it is resumed",
            _ => "",
        };
        if let Some(signal) = run.signal_of(node) {
            let until = match due {
                Some(due) => format!(", until {due}"),
                None => ", without a deadline".to_owned(),
            };
            return format!(
                "{id} has waited for signal '{signal}' since {since}{until}{paused}: \
                 windlass signal {} {signal}",
                self.short
            );
        }
        let due = due.unwrap_or_default();
        if run.is_between_attempts(node) {
            let (made, next) = (run.attempts(node), run.attempt(node));
            return format!(
                "{id} failed in attempt {made} and backs off: attempt {next} is due at \
                 {due}{paused}."
            );
        }
        match run.kind_of(node) {
            NodeKind::RetryUntil => {
                let made = run.cycle(node).map_or(0, windlass_core::run::Loop::opened);
                format!(
                    "{id} has gone round {made} {} without success and backs off: iteration \
                     {made} begins at {due}{paused}.",
                    plural(made, "time")
                )
            }
            _ => format!("{id} waits until {due}{paused}."),
        }
    }

    fn pending(&self, seen: &SeenInstance<'_>) -> String {
        let (run, node, id) = (seen.run, seen.node, seen.path);
        if run.status() == RunStatus::Pending {
            return format!("{id} waits for the run to start.");
        }
        let parents = waits_for(run, node);
        if !parents.is_empty() {
            let told =
                |&parent: &Instance| (named(run, &run.path(parent)), run.node_status(parent));
            let told = parents.iter().take(5).map(told);
            let told: Vec<String> = told
                .map(|(node, status)| format!("{node} ({status})"))
                .collect();
            let mut text = told.join(", ");
            let more = parents.len().saturating_sub(5);
            if more > 0 {
                text.push_str(&format!(" and {more} more"));
            }
            return format!("{id} waits for {}{text}.", join_words(run, node));
        }
        let (plan, index) = run.place(node);
        let level = plan.level(index);
        let earlier = |&other: &Instance| {
            let (plan, index) = run.place(other);
            plan.level(index) < level && !run.node_status(other).is_final()
        };
        let earlier: Vec<Instance> = run.top_instances().filter(earlier).collect();
        format!(
            "{id} waits for its level ({level}): {} not ended.",
            names(run, &earlier)
        )
    }

    fn queued(&self, seen: &SeenInstance<'_>) -> String {
        let (run, id) = (seen.run, seen.path);
        if run.status() == RunStatus::Paused {
            return format!(
                "{id} is ready, but the run is paused: windlass resume {}",
                self.short
            );
        }
        let labels = run.requires(seen.node);
        match self.queries.holder.as_ref() {
            None => format!(
                "{id} is ready, but no process executes this run: windlass resume {}",
                self.short
            ),
            Some(_) if !labels.is_empty() => format!(
                "{id} is ready for a worker with the label{} {}: `worker_labels` says what a \
                 process has.",
                if labels.len() == 1 { "" } else { "s" },
                labels.join(", ")
            ),
            Some(_) if run.plan().execution_mode() == ExecutionMode::Sequential => {
                format!("{id} is ready and waits for its turn: one node runs at a time.")
            }
            Some(_) => format!("{id} is ready: a worker has it, or takes it next."),
        }
    }
}

fn succeeded(seen: &SeenInstance<'_>, ended: &str) -> String {
    let (run, node, id) = (seen.run, seen.node, seen.path);
    if run.is_reused(node) {
        return format!("{id} has the result of the run that this one was forked from.");
    }
    let by_hand = seen.notes.by_hand(node);
    match by_hand.filter(|_| run.is_by_hand(node)) {
        None => format!("{id} succeeded {ended}."),
        Some(by_hand) => {
            let what = if by_hand.skipped {
                "was skipped by hand"
            } else {
                "was given its result by hand"
            };
            let who = by_hand.actor.by.as_ref();
            let who = who.map(|by| format!(" by {by}")).unwrap_or_default();
            let why = by_hand.actor.reason.as_ref();
            let why = why.map(|why| format!(", because: {}", one_line(why)));
            format!("{id} {what} {ended}{who}{}.", why.unwrap_or_default())
        }
    }
}

/// `2 of 3 (1 so far), still open: `, where a join does not wait for all.
fn join_words(run: &Run, node: Instance) -> String {
    let (plan, index) = run.place(node);
    let needed = match plan.join(index) {
        Join::All => return String::new(),
        Join::Any => 1,
        Join::AtLeast(needed) => needed,
    };
    let parents = run.parents(node);
    let taken = parents
        .iter()
        .filter(|(_, state)| *state == EdgeState::Taken);
    format!(
        "{needed} of {} edges ({} taken so far); still open: ",
        parents.len(),
        taken.count()
    )
}
