//! `windlass result`: a run's output, and its status as the exit code.

use windlass_core::RunStatus;
use windlass_engine::load_latest;
use windlass_store::Wait as _;

use crate::args::RunReference;
use crate::exit::{Exit, Failure};
use crate::session::{Session, Settings};

/// Prints the output of a run that succeeded.
pub(crate) fn run(settings: &Settings, arguments: &RunReference) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let id = session.find_run(&arguments.run)?;
    let loaded = load_latest(&*session.store, &session.plans, id)?;
    let short = session.short_id(id)?;
    let status = loaded.run.status();
    let Some(finished) = loaded.run.finished().filter(|_| status.is_final()) else {
        let message = format!("the run has not ended: it is {status}");
        return Err(Failure::new(Exit::TimedOut, "RUN_NOT_ENDED", message)
            .hint(format!("`windlass why {short}` says what it waits for")));
    };
    if let Some(error) = &finished.error {
        if settings.output.json {
            let (code, message) = (error.code.to_string(), &error.message);
            return Err(Failure::new(status.into(), code, message));
        }
        settings
            .output
            .say(&format!("error[{}]: {}", error.code, error.message));
    }
    if status == RunStatus::Cancelled {
        let message = "the run was cancelled; it has no output";
        if settings.output.json {
            return Err(Failure::new(Exit::RunCancelled, "RUN_CANCELLED", message));
        }
        settings.output.say(message);
    }
    if let Some(output) = &finished.output {
        let text = session.values().resolve(output).wait()?;
        settings.output.pretty(text.as_bytes())?;
    }
    Ok(status.into())
}
