//! What commands do to runs on an engine of this process, whoever asked for it.

use windlass_core::event::Hand;
use windlass_core::{RunId, RunStatus};
use windlass_engine::CommandError;
use windlass_orchestrator::Command;

use crate::carry::Carrier;
use crate::exit::{Exit, Failure};
use crate::overrides::nearest;

/// Who acts, and why.
pub(crate) fn hand(reason: Option<&str>) -> Hand {
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    Hand {
        by: user.map(Into::into),
        reason: reason.map(Into::into),
    }
}

/// Carries an unfinished run on, and resumes it if it is paused.
pub(crate) async fn carry_on(carrier: &Carrier, run: RunId, hand: Hand) -> Result<(), Failure> {
    let status = status(carrier, run)?;
    if status.is_final() {
        return Err(ended(run, status));
    }
    carrier.engine.recover(run).await?;
    if status == RunStatus::Paused {
        carrier.engine.command(run, Command::Resume(hand)).await?;
    }
    Ok(())
}

/// Tries nodes of a run again; it goes on here.
pub(crate) async fn reattempt(
    carrier: &Carrier,
    run: RunId,
    nodes: &[String],
    hand: Hand,
) -> Result<(), Failure> {
    // A run that was interrupted goes on as a whole, not only where it is tried again.
    carrier.engine.recover(run).await?;
    match carrier.engine.reattempt(run, nodes, hand).await {
        Err(CommandError::UnknownNode(node)) => {
            let loaded = carrier.load(run).await?;
            let plan = loaded.run.plan();
            let ids = (0..plan.len() as u32).map(|node| plan.id(node));
            let hint = nearest(&node, ids);
            let mut failure = Failure::from(CommandError::UnknownNode(node));
            failure.hint = hint;
            Err(failure)
        }
        other => Ok(other?),
    }
}

/// How a run stands.
fn status(carrier: &Carrier, run: RunId) -> Result<RunStatus, Failure> {
    let row = carrier.engine.store().run(run)?;
    row.map(|row| row.status).ok_or_else(|| {
        Failure::new(
            Exit::NotFound,
            "RUN_NOT_FOUND",
            format!("there is no run {run}"),
        )
    })
}

/// The refusal to carry on what has ended.
pub(crate) fn ended(run: RunId, status: RunStatus) -> Failure {
    let message = format!("run {run} has ended: {status}");
    let hint = match status {
        RunStatus::Failed | RunStatus::Cancelled => {
            format!(
                "`windlass reattempt {run}` tries what failed again; `windlass show {run}` shows it"
            )
        }
        _ => format!("`windlass show {run}` shows it"),
    };
    Failure::new(Exit::Conflict, "RUN_ENDED", message).hint(hint)
}
