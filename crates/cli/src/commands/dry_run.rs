//! `--dry-run`: what a command would do to each run, and what would be refused. Nothing
//! is written.

use serde_json::json;
use windlass_core::RunId;
use windlass_engine::load_run;
use windlass_service::dry_run::{Effect, effect};
use windlass_store::RunRow;

use crate::deed::Doing;
use crate::exit::{Exit, Failure};
use crate::session::Session;

/// Says what would happen to each run; the worst of it is the exit.
pub(crate) fn say(session: &Session, doing: &Doing, rows: &[RunRow]) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for row in rows {
        exit = exit.worse(say_one(session, doing, row.run)?);
    }
    Ok(exit)
}

/// Says what would happen to one run.
pub(crate) fn say_one(session: &Session, doing: &Doing, run: RunId) -> Result<Exit, Failure> {
    let output = session.settings.output;
    let loaded = load_run(&*session.store, &session.plans, run, |_, _| {})?;
    let (state, verb) = (&loaded.run, doing.deed.verb());
    let status = state.status();
    let failure = match effect(session, state, doing) {
        Ok(effect) => {
            let Effect { again, undone } = effect;
            if output.json {
                output.json(&json!({
                    "executionId": run, "status": status, "would": verb,
                    "again": again, "undone": undone,
                }))?;
            } else {
                output.data(&format!("{run}: would {verb} it; it is {status}"))?;
                if !again.is_empty() {
                    output.data(&format!("  again: {}", again.join(", ")))?;
                }
                if !undone.is_empty() {
                    output.data(&format!("  undone, in this order: {}", undone.join(", ")))?;
                }
            }
            return Ok(Exit::Done);
        }
        Err(failure) => failure,
    };
    if output.json {
        output.json(&json!({
            "executionId": run, "status": status, "would": null,
            "error": { "code": failure.code, "message": failure.message },
        }))?;
    } else {
        let reason = &failure.message;
        output.data(&format!(
            "{run}: would refuse to {verb} it; it is {status}: {reason}"
        ))?;
    }
    Ok(failure.exit)
}
