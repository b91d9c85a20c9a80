//! What a node waits for if a worker outside the process runs its action.

use serde_json::{Value, json};
use windlass_core::Millis;
use windlass_core::run::{Instance, Run};
use windlass_engine::{Engine, WorkState};
use windlass_store::Wait as _;

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
    let action = match run.action_of(node) {
        Some(action) if !engine.calls(action) => action,
        _ => return Ok(None),
    };
    let tenant = run.queued().tenant.as_deref();
    let requires = run.requires(node);
    let state = engine
        .work_state(tenant, (run.id(), node), action, requires)
        .wait()?;
    let attempt = run.attempt(node);
    let mut json = json!({ "actionType": action, "workers": 0 });
    let reason = match state {
        WorkState::With(worker, since) => {
            json["worker"] = json!(worker);
            let since = since.map(readable).unwrap_or_default();
            format!("{path} has been running on {worker} since {since} (attempt {attempt}).")
        }
        WorkState::Polled(workers) => {
            json["workers"] = json!(workers);
            let polls = match workers {
                1 => "1 worker polls".to_owned(),
                workers => format!("{workers} workers poll"),
            };
            format!("{path} is ready for a worker: {polls} for {action}.")
        }
        WorkState::Lacking => {
            json["requires"] = json!(requires);
            format!(
                "{path} waits for a worker: no worker with the label{} {} polls for {action}.",
                if requires.len() == 1 { "" } else { "s" },
                requires.join(", ")
            )
        }
        WorkState::NotPolled(last) => {
            json["lastSeenAt"] = json!(last.to_string());
            let last = spelled(last, now());
            format!("{path} waits for a worker: no worker polls for {action}; last seen {last}.")
        }
        WorkState::Undeclared => format!(
            "{path} waits for a worker: no worker has declared {action}; the node fails with \
             UNKNOWN_ACTION unless one does (unknown_action_wait)."
        ),
    };
    Ok(Some(Work { reason, json }))
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
