//! What a node waits for if a worker outside the process runs its action.

use serde_json::{Value, json};
use windlass_core::run::{Instance, Run};
use windlass_core::{Millis, NodeStatus, RunStatus};
use windlass_engine::{Engine, WorkState};
use windlass_store::{Wait as _, WorkKey};

use crate::failure::Failure;
use crate::moment::{now, readable};

/// A sentence for people, and the same for programs.
pub(super) struct Work {
    pub(super) reason: String,
    pub(super) json: Value,
}

/// What an attempt of such an action waits for; nothing where the process does it itself.
///
/// # Errors
/// The store failed.
pub(super) fn work(
    engine: &Engine,
    run: &Run,
    (node, path): (Instance, &str),
) -> Result<Option<Work>, Failure> {
    let requires = run.requires(node);
    let action = match run.action_of(node) {
        Some(action) if !engine.calls(action) => action,
        Some(action) if run.status() == RunStatus::Running => {
            let is_live = engine.has_live_worker(action, requires).wait()?;
            return Ok((!is_live).then(|| no_worker(path, action, requires)));
        }
        _ => return Ok(None),
    };
    let tenant = run.queued().tenant.as_deref();
    let key = WorkKey {
        run: run.id(),
        instance: node,
        attempt: run.attempt(node),
    };
    let state = engine.work_state(tenant, key, action, requires).wait()?;
    let mut json = json!({ "actionType": action, "workers": 0 });
    let about = RunSummary {
        path,
        action,
        requires,
        attempt: run.attempt(node),
        stops_until: run.stops_until(node),
    };
    let is_paused = run.status() != RunStatus::Running;
    let is_out = matches!(
        state,
        WorkState::With { .. } | WorkState::Stopping(_) | WorkState::Held { .. }
    );
    let reason = match state {
        // Nothing is handed out while the run is paused.
        _ if is_paused && !is_out => return Ok(None),
        WorkState::NotOffered => match about.turn(run) {
            Some(reason) => reason,
            None => return Ok(None),
        },
        WorkState::Unqueued(state) => match about.turn(run) {
            Some(reason) => reason,
            None => about.sentence(&state, &mut json),
        },
        state => about.sentence(&state, &mut json),
    };
    Ok(Some(Work { reason, json }))
}

/// No process of the cluster can call the action.
fn no_worker(path: &str, action: &str, requires: &[Box<str>]) -> Work {
    let labels = match requires {
        [] => String::new(),
        [label] => format!(" with the label {label}"),
        labels => format!(" with the labels {}", labels.join(", ")),
    };
    Work {
        reason: format!(
            "{path} waits for a worker: no live worker process{labels} calls {action}. Start one; \
             `windlass cluster` lists the live processes."
        ),
        json: json!({ "actionType": action, "workers": 0, "requires": requires }),
    }
}

/// What the sentences are about.
struct RunSummary<'a> {
    path: &'a str,
    action: &'a str,
    requires: &'a [Box<str>],
    attempt: u32,
    /// When its grace ends, if it was asked to stop.
    stops_until: Option<Millis>,
}

impl RunSummary<'_> {
    /// How an attempt that is offered to workers stands.
    fn sentence(&self, state: &WorkState, json: &mut Value) -> String {
        let (path, attempt) = (self.path, self.attempt);
        match state {
            WorkState::With {
                worker,
                since,
                until,
            } => {
                json["worker"] = json!(worker);
                let since = since.map(readable).unwrap_or_default();
                let lease = until.map(|until| {
                    json["leaseUntil"] = json!(until.to_string());
                    let until = readable(until);
                    format!("; its lease is good until {until}, and each heartbeat prolongs it")
                });
                let lease = lease.unwrap_or_default();
                format!(
                    "{path} has been running on {worker} since {since} (attempt {attempt}){lease}."
                )
            }
            WorkState::Silent {
                worker,
                since,
                waits,
            } => {
                let waits = self.polled(waits, json);
                json["worker"] = json!(worker);
                let since = since.map(|since| {
                    json["leaseUntil"] = json!(since.to_string());
                    format!(" at {}", readable(since))
                });
                let since = since.unwrap_or_default();
                format!(
                    "{path} waits for a worker: the lease of {worker} ran out{since} without \
                     a heartbeat (attempt {attempt}); {waits}."
                )
            }
            WorkState::Stopping(worker) => {
                json["stop"] = json!(true);
                let has = match worker {
                    Some(worker) => {
                        json["worker"] = json!(worker);
                        format!("{worker} is asked to stop with its next heartbeat")
                    }
                    None => "the worker that may have it is asked to stop".to_owned(),
                };
                let until = self.stops_until.map(|until| {
                    json["stopsUntil"] = json!(until.to_string());
                    format!("; the node ends by {} in any case", readable(until))
                });
                let until = until.unwrap_or_default();
                format!("{path} is being stopped (attempt {attempt}): {has}{until}.")
            }
            WorkState::Held { until, waits } => {
                let waits = self.polled(waits, json);
                json["heldUntil"] = json!(until.to_string());
                let until = readable(*until);
                format!(
                    "{path} waits for a worker: {waits}. It was open when the server stopped \
                     (attempt {attempt}): the worker that may have it can continue, and others get \
                     it after {until}."
                )
            }
            WorkState::Polled(_) => {
                let polled = self.polled(state, json);
                format!("{path} is ready for a worker: {polled}.")
            }
            state => {
                let polled = self.polled(state, json);
                format!("{path} waits for a worker: {polled}.")
            }
        }
    }

    /// Which workers poll for the action.
    fn polled(&self, state: &WorkState, json: &mut Value) -> String {
        let Self {
            action, requires, ..
        } = self;
        match state {
            WorkState::Polled(workers) => {
                json["workers"] = json!(workers);
                let polls = match workers {
                    1 => "1 worker polls".to_owned(),
                    workers => format!("{workers} workers poll"),
                };
                format!("{polls} for {action}")
            }
            WorkState::Lacking => {
                json["requires"] = json!(requires);
                let plural = if requires.len() == 1 { "" } else { "s" };
                let labels = requires.join(", ");
                format!("no worker with the label{plural} {labels} polls for {action}")
            }
            WorkState::NotPolled(last) => {
                json["lastSeenAt"] = json!(last.to_string());
                let last = spelled(*last, now());
                format!("no worker polls for {action}; last seen {last}")
            }
            _ => format!(
                "no worker has declared {action}; the node fails with UNKNOWN_ACTION unless one \
                 does (unknown_action_wait)"
            ),
        }
    }

    /// Why an attempt that is ready is not offered, where the run's bound says so.
    fn turn(&self, run: &Run) -> Option<String> {
        let limit = run.plan().max_parallel()?;
        let is_out = |&node: &Instance| {
            let status = run.node_status(node);
            !run.is_structural(node) && matches!(status, NodeStatus::Queued | NodeStatus::Running)
        };
        let open = run.open_instances().into_iter().filter(is_out).count();
        let path = self.path;
        (open > limit as usize).then(|| {
            format!(
                "{path} is ready and waits for its turn: the run has {limit} attempts under way, \
                 as many as maxParallel allows."
            )
        })
    }
}

/// How long ago: `12 s ago`, `3 min ago`.
fn spelled(at: Millis, now: Millis) -> String {
    let seconds = now.0.saturating_sub(at.0).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_its_largest_unit() {
        let at = |seconds: i64| spelled(Millis(0), Millis(seconds * 1000));
        assert_eq!(at(-5), "0 s ago", "clocks apart");
        assert_eq!((at(59), at(60)), ("59 s ago".into(), "1 min ago".into()));
        assert_eq!((at(200), at(7200)), ("3 min ago".into(), "2 h ago".into()));
        assert_eq!(at(3 * 86_400), "3 d ago");
    }
}
