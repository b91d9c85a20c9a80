//! `windlass compensate`: the operator's hand on undoing what a run did.

use serde_json::json;
use windlass_core::NodeStatus;
use windlass_core::event::Compensation;
use windlass_core::run::Run;
use windlass_engine::load_run;

use crate::args::Compensate;
use crate::command::{RunCommand, request};
use crate::commands::act_bulk::Target;
use crate::commands::act_foreground;
use crate::exit::{Exit, Failure};
use crate::session::{Session, Settings};
use crate::table::Table;

/// Starts a compensation, tries parts of it again, leaves parts of it out, or lists it.
pub(crate) fn run(settings: &Settings, arguments: &Compensate) -> Result<Exit, Failure> {
    let act = &arguments.act;
    if let Some(reference) = act.run.as_ref().filter(|_| arguments.preview) {
        return preview(settings, reference);
    }
    let command = match (arguments.retry.as_slice(), arguments.skip.as_slice()) {
        ([], []) => RunCommand::Compensate,
        ([], nodes) => RunCommand::SkipCompensation {
            nodes: nodes.to_vec(),
        },
        (nodes, _) => RunCommand::RetryCompensation {
            nodes: nodes.to_vec(),
        },
    };
    let request = request(command, act.reason.as_ref());
    let options = arguments.foreground.options()?;
    act_foreground::run(settings, Target::of(act), &request, act.dry_run, options)
}

/// Lists what is undone, in order, with how far it is.
fn preview(settings: &Settings, reference: &str) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let id = session.find_run(reference)?;
    let run = load_run(&*session.store, &session.plans, id, |_, _| {})?.run;
    let steps = steps(&run);
    let output = settings.output;
    if output.json {
        let nodes: Vec<_> = steps
            .iter()
            .map(|(node, status)| json!({ "node": node, "status": status.as_str() }))
            .collect();
        output.json(&json!({
            "executionId": id, "status": run.status(), "compensation": compensation_state(&run),
            "nodes": nodes,
        }))?;
    } else if steps.is_empty() {
        output.say("nothing that succeeded says how it is undone");
    } else {
        let mut table = Table::new(&[">#", "NODE", "COMPENSATION"]);
        for (at, (node, status)) in steps.iter().enumerate() {
            let status = status.as_str().to_owned();
            table.row([
                (at + 1).to_string().into(),
                node.to_string().into(),
                status.into(),
            ]);
        }
        output.data(&table.render(&output))?;
    }
    Ok(Exit::Done)
}

/// Each node with how far its compensation is, first to last.
fn steps(run: &Run) -> Vec<(Box<str>, NodeStatus)> {
    match run.undo() {
        Some(undo) => undo
            .steps()
            .map(|(node, status)| (run.path(node), status))
            .collect(),
        None => run
            .would_undo()
            .map(|node| (run.path(node), NodeStatus::Pending))
            .collect(),
    }
}

fn compensation_state(run: &Run) -> Option<&'static str> {
    run.undo()?;
    let outcome = run.finished().and_then(|finished| finished.compensation);
    Some(match outcome {
        None => "running",
        Some(Compensation::Complete) => "complete",
        Some(Compensation::Incomplete) => "incomplete",
    })
}
