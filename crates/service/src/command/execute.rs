//! What commands do to runs on an engine of this process, for its own user or for another
//! process.

use std::sync::Arc;

use windlass_core::event::Actor;
use windlass_core::run::{Refusal, Run};
use windlass_core::{RunId, RunStatus};
use windlass_engine::{CommandAnswer, CommandError, Engine, LoadedRun};

use super::{CommandRequest, RunCommand, refuse_orphan, refused};
use crate::failure::{Failure, FailureKind};
use crate::overrides::nearest;
use crate::source::prepare_text;

/// The user of this process, and the reason.
pub fn actor(reason: Option<&str>) -> Actor {
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    Actor {
        by: user.map(Into::into),
        reason: reason.map(Into::into),
        request: None,
    }
}

/// Carries a command out; it is durable on return, and what it opens goes on here. The user of
/// this process gives it where the request names no other.
///
/// # Errors
/// As for [`Engine::command`]; or the graph to import is not one.
pub async fn execute(
    engine: &Engine,
    run: RunId,
    request: &CommandRequest,
) -> Result<CommandAnswer, Failure> {
    let mut request = request.clone();
    if request.actor.by.is_none() {
        request.actor.by = actor(None).by;
    }
    let command = request.command.clone();
    let (store, plans) = (Arc::clone(engine.store()), engine.plans().clone());
    let asked = command.clone();
    let looking =
        tokio::task::spawn_blocking(move || refuse_orphan((&*store, &plans), &asked, run));
    looking
        .await
        .map_err(|error| Failure::new(FailureKind::LoadFailed, error))??;
    match &command {
        // A resume continues an unfinished run, paused or not. With a key that is recorded.
        RunCommand::Resume if request.actor.request.is_none() => {
            let status = status(engine, run).await?;
            if status.is_final() {
                return Err(ended(run, status));
            }
            if status != RunStatus::Paused {
                engine.recover(run).await?;
                return Ok(CommandAnswer::default());
            }
        }
        RunCommand::Import => request.body = importable(engine, request.body).await?,
        _ => {}
    }
    let done = engine.command(run, request).await;
    if done.is_ok() && matches!(command, RunCommand::Pause | RunCommand::Cancel { .. }) {
        // Its children hear of it, also if this process ends now.
        engine.child_jobs_idle().await;
    }
    match done {
        Err(CommandError::UnknownNode(node)) => {
            let loaded = load(engine, run).await?;
            Err(unknown_node(&loaded.run, &command, &node))
        }
        Err(CommandError::Refused {
            refusal: Refusal::RunEnded,
            ..
        }) if command == RunCommand::Resume => Err(ended(run, status(engine, run).await?)),
        other => other.map_err(|error| refused(&command, error)),
    }
}

/// The text of a graph to import, checked; the engine has its plan at hand.
async fn importable(engine: &Engine, body: Arc<str>) -> Result<Arc<str>, Failure> {
    let preparing = tokio::task::spawn_blocking(move || prepare_text(body.as_bytes()));
    let prepared = preparing
        .await
        .map_err(|error| Failure::new(FailureKind::LoadFailed, error))?
        .map_err(not_importable)?;
    let text = String::from_utf8_lossy(&prepared.text);
    let plans = engine.plans();
    plans.insert(prepared.digest, &prepared.plan, text.len());
    Ok(text.into())
}

/// The run has no such node; perhaps another was meant, or it was in an iteration that is over.
pub fn unknown_node(run: &Run, command: &RunCommand, node: &str) -> Failure {
    if let Some(closed) = run.closed_loop(node) {
        let refusal = Refusal::InTheWay(vec![closed]);
        let hint = "its iteration is closed; `windlass fork` runs nodes of it again";
        return refused(command, CommandError::refused(run, refusal)).hint(hint);
    }
    let mut failure = Failure::from(CommandError::UnknownNode(node.to_owned()));
    let plan = run.plan();
    let ids = (0..plan.len() as u32).map(|node| plan.id(node));
    let names = (0..plan.len() as u32).filter_map(|node| plan.name(node));
    failure.hint = nearest(node, ids.chain(names));
    failure
}

/// The failure of an import whose text is not a graph.
pub fn not_importable(failure: Failure) -> Failure {
    match failure.kind {
        FailureKind::DefinitionInvalid => Failure {
            kind: FailureKind::ImportInvalid,
            ..failure
        },
        _ => failure,
    }
}

/// Reads a run's state off the engine's tasks.
///
/// # Errors
/// There is no such run, or it cannot be read.
pub async fn load(engine: &Engine, run: RunId) -> Result<LoadedRun, Failure> {
    let engine = engine.clone();
    let loaded = tokio::task::spawn_blocking(move || engine.load(run)).await;
    match loaded {
        Ok(loaded) => Ok(loaded?),
        Err(error) => Err(Failure::new(FailureKind::LoadFailed, error)),
    }
}

/// How a run stands.
pub async fn status(engine: &Engine, run: RunId) -> Result<RunStatus, Failure> {
    let row = engine.store().run(run).await?;
    row.map(|row| row.status)
        .ok_or_else(|| Failure::new(FailureKind::RunNotFound, format!("there is no run {run}")))
}

/// The refusal to continue a run that has ended.
pub fn ended(run: RunId, status: RunStatus) -> Failure {
    let message = format!("run {run} has ended: {status}");
    let hint = match status {
        RunStatus::Failed | RunStatus::Cancelled => {
            format!(
                "`windlass reattempt {run}` tries what failed again; `windlass show {run}` shows it"
            )
        }
        _ => format!("`windlass show {run}` shows it"),
    };
    Failure::new(FailureKind::RunEnded, message).hint(hint)
}
