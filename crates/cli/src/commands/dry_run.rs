//! `--dry-run`: what a command would do to each run, and what would be refused. Nothing
//! is written.

use serde_json::{Value, json};
use windlass_core::RunId;
use windlass_engine::load_run;
use windlass_service::dry_run::{CommandPreview, effect};
use windlass_store::RunRow;

use crate::command::{self, CommandRequest};
use crate::exit::{Exit, Failure};
use crate::session::Session;

/// What would happen to a run, for programs or for people.
struct Foreseen {
    json: Value,
    text: String,
    exit: Exit,
}

/// Says what would happen to each run that a filter found; the worst of it is the exit.
/// Programs get one list, however many there are.
pub(crate) fn say(
    session: &Session,
    request: &CommandRequest,
    rows: &[RunRow],
) -> Result<Exit, Failure> {
    let output = session.settings.output;
    let (mut exit, mut items) = (Exit::Done, Vec::new());
    for row in rows {
        let foreseen = foresee(session, request, row.run)?;
        exit = exit.worse(foreseen.exit);
        match output.json {
            true => items.push(foreseen.json),
            false => output.data(&foreseen.text)?,
        }
    }
    if output.json {
        output.json(&items)?;
    } else if rows.is_empty() {
        output.say("no run fits the filter");
    }
    Ok(exit)
}

/// Says what would happen to one run.
pub(crate) fn say_one(
    session: &Session,
    request: &CommandRequest,
    run: RunId,
) -> Result<Exit, Failure> {
    let output = session.settings.output;
    let foreseen = foresee(session, request, run)?;
    match output.json {
        true => output.json(&foreseen.json)?,
        false => output.data(&foreseen.text)?,
    }
    Ok(foreseen.exit)
}

fn foresee(session: &Session, request: &CommandRequest, run: RunId) -> Result<Foreseen, Failure> {
    let loaded = load_run(&*session.store, &session.plans, run, |_, _| {})?;
    let (state, verb) = (&loaded.run, command::verb(&request.command));
    let status = state.status();
    Ok(match effect(session, state, request) {
        Ok(CommandPreview { again, undone }) => {
            let mut text = format!("{run}: would {verb} it; it is {status}\n");
            if !again.is_empty() {
                text.push_str(&format!("  again: {}\n", again.join(", ")));
            }
            if !undone.is_empty() {
                text.push_str(&format!("  undone, in this order: {}\n", undone.join(", ")));
            }
            let json = json!({
                "executionId": run, "status": status, "would": verb,
                "again": again, "undone": undone,
            });
            Foreseen {
                json,
                text,
                exit: Exit::Done,
            }
        }
        Err(failure) => {
            let failure = Failure::from(failure);
            let Failure { code, message, .. } = &failure;
            let json = json!({
                "executionId": run, "status": status, "would": null,
                "error": { "code": code, "message": message },
            });
            let text = format!("{run}: would refuse to {verb} it; it is {status}: {message}");
            Foreseen {
                json,
                text,
                exit: failure.exit,
            }
        }
    })
}
