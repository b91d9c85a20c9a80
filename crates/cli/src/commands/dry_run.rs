//! `--dry-run`: what a command would do to each run, and what would be refused. The run's
//! own rules are asked, on its state as the log has it; nothing is written.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_core::RunId;
use windlass_core::run::{Facts, Input, Loaded, Run, Values, decide, wants};
use windlass_engine::{CommandError, load_run};
use windlass_store::RunRow;

use crate::deed::{Deed, Doing};
use crate::exit::{Exit, Failure};
use crate::moment::now;
use crate::session::Session;

/// What a command would do to a run.
#[derive(Debug, Default)]
struct Effect {
    /// Nodes that had ended and would be open, or decided, again.
    again: Vec<Box<str>>,
    /// Nodes that would be undone, in this order.
    undone: Vec<Box<str>>,
}

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
    let loaded = load_run(&session.store, &session.plans, run, |_, _| {})?;
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

/// What the command would do, or the refusal that it would meet.
fn effect(session: &Session, state: &Run, doing: &Doing) -> Result<Effect, Failure> {
    let Some(input) = doing.input(state)? else {
        return Ok(Effect::default());
    };
    let values = values(session, state, &input)?;
    let facts = Facts {
        now: now(),
        seed: 0,
        values: &values,
        running: &BTreeSet::new(),
    };
    let decision = decide(state, &input, &facts)
        .map_err(|refusal| Failure::from(CommandError::refused(state, refusal)))?;
    let mut after = state.clone();
    for event in &decision.events {
        if let Input::Import {
            definition, plan, ..
        } = &input
        {
            after.stage(*definition, plan.clone());
        }
        if let Err(corrupt) = after.apply(event, facts.now, &mut Vec::new()) {
            return Err(Failure::new(Exit::Conflict, "CONFLICT", corrupt));
        }
    }
    let undoes = matches!(
        doing.deed,
        Deed::Compensate | Deed::Cancel { compensate: true }
    );
    let undone = match undoes {
        true => state.would_undo().map(|node| state.path(node)).collect(),
        false => Vec::new(),
    };
    let is_over = |run: &Run, node| run.find_status(node).is_none_or(|it| it.is_final());
    let again = after
        .instances()
        .filter(|&node| state.find_status(node).is_some())
        .filter(|&node| is_over(state, node) && !is_over(&after, node))
        .map(|node| after.path(node))
        .collect();
    Ok(Effect { again, undone })
}

/// The stored values that the decision rests on.
fn values(session: &Session, state: &Run, input: &Input) -> Result<Values, Failure> {
    let reader = session.values();
    let mut values = Values::new();
    for wanted in wants(state, input) {
        let text = reader.read(state.id(), &wanted)?;
        values.insert(wanted.digest, Loaded::new(text));
    }
    Ok(values)
}
