//! Commands on runs, for people: which words they have, and what the run's own rules would
//! say to one. The commands themselves are in `core`; `execute` carries them out.

mod execute;

use windlass_core::command::{CommandBody, NewGraph};
use windlass_core::run::{Input, Refusal, Run};
use windlass_core::value::Payload;
use windlass_core::{RunId, RunStatus};
use windlass_engine::{
    Backend, CommandError, Plans, check_payload, check_signal, check_signal_name, find_node,
};

pub use execute::{actor, ended, execute, load, not_importable, status, unknown_node};
pub use windlass_core::command::{CommandRequest, RunCommand};

use crate::failure::{Failure, FailureKind};
use crate::source::prepare_text;

/// A command of the user of this process.
pub fn request(command: RunCommand, reason: Option<&String>) -> CommandRequest {
    command.by(actor(reason.map(String::as_str)))
}

/// The input that the run's own rules decide on; none means that they always allow it.
///
/// # Errors
/// The run has no such node, or what goes beside the command is not what it should be.
pub fn input(request: &CommandRequest, run: &Run) -> Result<Option<Input>, Failure> {
    let body = match &request.command {
        // Every unfinished run is continued, paused or not.
        RunCommand::Resume if run.status().is_final() => {
            return Err(ended(run.id(), run.status()));
        }
        RunCommand::Resume => return Ok(None),
        RunCommand::Signal { name } => {
            check_signal_name(run.plan(), name)?;
            check_signal(run, name, &request.body).map_err(CommandError::SignalInvalid)?;
            Payload::typed(&request.body).into()
        }
        RunCommand::SetResult { .. } => {
            check_payload(&request.body, []).map_err(CommandError::ResultInvalid)?;
            Payload::typed(&request.body).into()
        }
        RunCommand::Import => {
            let prepared = prepare_text(request.body.as_bytes()).map_err(not_importable)?;
            CommandBody::from(NewGraph {
                definition: prepared.digest,
                plan: prepared.plan,
                text: Payload::null(),
            })
        }
        _ => CommandBody::None,
    };
    let instance = |node: &String| match find_node(run, node) {
        Err(CommandError::UnknownNode(node)) => Err(unknown_node(run, &request.command, &node)),
        found => Ok(found?),
    };
    let command = request.command.try_map(instance)?;
    Ok(Some(command.by(request.actor.clone()).with(body).into()))
}

/// Why a command was refused, in the words of that command.
pub(crate) fn refused<N>(command: &RunCommand<N>, error: CommandError) -> Failure {
    let CommandError::Refused { refusal, nodes } = &error else {
        return error.into();
    };
    let nodes = nodes.join(", ");
    match (command, refusal) {
        (RunCommand::Skip { .. }, Refusal::NotFailed(_)) => Failure::new(
            FailureKind::SkipRefused,
            format!("only a node that is open, Failed or Cancelled can be skipped: {nodes}"),
        ),
        (RunCommand::Skip { .. }, Refusal::InTheWay(_)) => Failure::new(
            FailureKind::SkipRefused,
            format!("the node cannot be skipped, other nodes are in the way: {nodes}"),
        ),
        (RunCommand::Skip { .. }, Refusal::NotNow(_)) => {
            Failure::new(FailureKind::SkipRefused, error)
        }
        (RunCommand::SetResult { .. }, Refusal::NotFailed(_)) => Failure::new(
            FailureKind::ReattemptRefused,
            format!("only a node that is open, Failed or Cancelled can be given a result: {nodes}"),
        ),
        (RunCommand::SkipCompensation { .. }, Refusal::NotNow(_) | Refusal::RunEnded) => {
            Failure::new(FailureKind::CompensationSkipRefused, error)
        }
        _ => error.into(),
    }
}

/// Refuses to try a child run again that its parent does not wait for: its result would reach no
/// run.
///
/// # Errors
/// The refusal, with what to do instead; or the store failed.
pub(crate) fn refuse_orphan<N>(
    (store, plans): (&dyn Backend, &Plans),
    command: &RunCommand<N>,
    run: RunId,
) -> Result<(), Failure> {
    if !matches!(command, RunCommand::Reattempt { .. }) {
        return Ok(());
    }
    Ok(windlass_engine::refuse_orphan(store, plans, run)?)
}

/// What a command does, as a verb.
pub fn verb(command: &RunCommand) -> &'static str {
    match command {
        RunCommand::SetResult { .. } => "set a result of",
        RunCommand::Skip { .. } => "skip a node of",
        RunCommand::RetryCompensation { .. } => "compensate nodes again of",
        RunCommand::SkipCompensation { .. } => "leave nodes uncompensated of",
        RunCommand::Import => "replace the graph of",
        command => command.name(),
    }
}

/// What became of the run, for people.
pub fn says(command: &RunCommand, status: RunStatus) -> String {
    match (command, status) {
        (RunCommand::Cancel { .. }, RunStatus::Cancelled) => "cancelled".to_owned(),
        (RunCommand::Cancel { .. }, _) => {
            "being cancelled: running work has 10 s to stop".to_owned()
        }
        (RunCommand::Pause, _) => "paused: nothing more starts until `windlass resume`".to_owned(),
        (RunCommand::Signal { name }, status) => {
            format!("has the signal '{name}'; it is {status}")
        }
        (RunCommand::SetResult { node }, status) => {
            format!("has the result of '{node}'; it is {status}")
        }
        (RunCommand::Skip { node }, status) => {
            format!("'{node}' counts as succeeded, skipped by hand; the run is {status}")
        }
        (RunCommand::SkipCompensation { nodes }, status) => {
            format!(
                "{} stays uncompensated; the run is {status}",
                nodes.join(", ")
            )
        }
        (RunCommand::Import, status) => {
            let next = match status {
                RunStatus::Failed => "reattempt",
                _ => "resume",
            };
            format!(
                "has the new graph, and keeps it; it is {status}: `windlass {next}` continues it"
            )
        }
        (_, status) => status.to_string(),
    }
}
