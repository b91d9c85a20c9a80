//! Commands and reports that wait for the answer of their run, and what their callers hear.

use tokio::sync::oneshot;
use windlass_core::RunId;
use windlass_core::run::{Input as RunInput, Refusal};
use windlass_orchestrator::{CommandId, may_answer};
use windlass_store::Error;

use super::Driver;
use crate::engine_event::EngineEvent;
use crate::remote::RecordedReport;

/// What a caller hears of its command, if the driver can answer.
#[derive(Debug)]
pub(crate) enum CommandReply {
    /// The run carried it out, or refused it.
    Decided(Result<(), Refusal>),
    /// The shard does not have the run in memory.
    NotHere,
    /// The store did not take the record.
    Failed(Error),
}

/// A command that waits for its answer.
pub(super) struct PendingCommand {
    pub(super) run: RunId,
    pub(super) request: Request,
    pub(super) reply: oneshot::Sender<CommandReply>,
}

/// What is answered.
pub(super) enum Request {
    Command(RunInput),
    /// A report of a worker outside the process.
    Report(RecordedReport),
}

impl Driver {
    pub(super) fn answer_command(&mut self, id: CommandId, result: Result<(), Refusal>) {
        let Some(asked) = self.commands.remove(&id) else {
            return;
        };
        match &asked.request {
            // Without an answer, the caller offers the command to the owner.
            Request::Command(_) if !may_answer(&result, self.may_work(asked.run)) => return,
            _ if result.is_err() => {}
            Request::Command(input) => self.observe(&EngineEvent::Commanded {
                run: asked.run,
                input,
            }),
            Request::Report(report) => self.shared.remote.open.recorded(report),
        }
        let _ = asked.reply.send(CommandReply::Decided(result));
    }

    /// The store did not take what was decided. Where another process may have the run, its owner
    /// answers.
    pub(super) fn fail_commands(&mut self, run: RunId, error: &Error) {
        if self.shared.owned.is_shared() {
            return;
        }
        for (_, asked) in self.commands.extract_if(|_, asked| asked.run == run) {
            let _ = asked.reply.send(CommandReply::Failed(error.clone()));
        }
    }

    /// Commands to a run that this process cannot execute get no other answer.
    pub(super) fn drop_commands(&mut self, run: RunId) {
        self.commands.retain(|_, asked| asked.run != run);
    }
}
