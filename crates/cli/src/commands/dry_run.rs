//! `--dry-run`: what a command would do to each run, and what would be refused. The run's
//! own rules are asked, on its state as the log has it; nothing is written.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_core::RunId;
use windlass_core::event::Hand;
use windlass_core::plan::NodeIndex;
use windlass_core::run::{Facts, Input, Run, Values, decide};
use windlass_engine::{CommandError, load_run};
use windlass_store::RunRow;

use crate::act;
use crate::commands::many::Kind;
use crate::exit::{Exit, Failure};
use crate::moment::now;
use crate::session::Session;

/// Says what would happen to each run; the worst of it is the exit.
pub(crate) fn say(session: &Session, kind: Kind, rows: &[RunRow]) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for row in rows {
        exit = exit.worse(say_one(session, kind, row.run, &[])?);
    }
    Ok(exit)
}

/// Says what would happen to one run, or to these nodes of it.
pub(crate) fn say_one(
    session: &Session,
    kind: Kind,
    run: RunId,
    nodes: &[String],
) -> Result<Exit, Failure> {
    let output = session.settings.output;
    let loaded = load_run(&session.store, &session.plans, run, |_, _| {})?;
    let (state, verb) = (&loaded.run, kind.verb());
    let status = state.status();
    let Err(failure) = check(state, kind, nodes) else {
        if output.json {
            output.json(&json!({ "executionId": run, "status": status, "would": verb }))?;
        } else {
            output.data(&format!("{run}: would {verb} it; it is {status}"))?;
        }
        return Ok(Exit::Done);
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

/// The refusal that the command would meet.
fn check(state: &Run, kind: Kind, nodes: &[String]) -> Result<(), Failure> {
    let hand = Hand::default();
    let input = match kind {
        Kind::Cancel => Input::Cancel {
            hand,
            compensate: false,
        },
        Kind::Pause => Input::Pause(hand),
        // Whatever is unfinished is carried on, paused or not.
        Kind::Resume if state.status().is_final() => {
            return Err(act::ended(state.id(), state.status()));
        }
        Kind::Resume => return Ok(()),
        Kind::Reattempt => Input::Reattempt(indices(state, nodes)?, hand),
    };
    let facts = Facts {
        now: now(),
        seed: 0,
        values: &Values::default(),
        running: &BTreeSet::new(),
    };
    match decide(state, &input, &facts) {
        Ok(_) => Ok(()),
        Err(refusal) => {
            use windlass_core::run::Refusal::{InTheWay, NotFailed};
            let nodes = match &refusal {
                InTheWay(nodes) | NotFailed(nodes) => nodes.as_slice(),
                _ => &[],
            };
            let name = |node: &NodeIndex| state.plan().id(*node).to_owned();
            let nodes = nodes.iter().map(name).collect();
            Err(CommandError::Refused { refusal, nodes }.into())
        }
    }
}

fn indices(state: &Run, nodes: &[String]) -> Result<Vec<NodeIndex>, Failure> {
    let index = |node: &String| {
        let index = state.plan().index(node);
        index.ok_or_else(|| CommandError::UnknownNode(node.clone()).into())
    };
    nodes.iter().map(index).collect()
}
