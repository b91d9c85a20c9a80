//! `windlass watch`: follows a run that another process executes.

use windlass_core::RunId;
use windlass_store::Wait as _;

use crate::args::Watch;
use crate::ending;
use crate::exit::{Exit, Failure};
use crate::foreground::{self, WaitOptions};
use crate::remote::{self, Followed, Server};
use crate::session::{Session, Settings};
use crate::socket;

/// Watches a run until it ends.
pub(crate) fn run(settings: &Settings, arguments: &Watch) -> Result<Exit, Failure> {
    let options = WaitOptions {
        recover: false,
        ..WaitOptions::new(false, arguments.wait)?
    };
    let session = Session::queries(settings.clone())?;
    let run = session.find_run(&arguments.run)?;
    let row = session.row(run)?;
    let status = row.status;
    if row.is_dead_letter() {
        return Err(dead_letter(&session, run));
    }
    if status.is_final() {
        ending::print(&session, &session.plans, run, options)?;
        return Ok(status.into());
    }
    let Some(server) = server(&session)? else {
        return Err(foreground::not_executed(run, status));
    };
    match remote::follow(&session, &server, run, options)? {
        Followed::Exit(exit) => Ok(exit),
        Followed::DeadLetter => Err(dead_letter(&session, run)),
        Followed::Gone(status) | Followed::NotAcquired(status) => {
            Err(foreground::not_executed(run, status))
        }
    }
}

/// The run is a dead letter: no process executes it until an operator requeues it.
pub(crate) fn dead_letter(session: &Session, run: RunId) -> Failure {
    let letter = session.store.dead_letter(run).wait().ok().flatten();
    let reason = letter.map(|letter| format!(": {}", letter.reason));
    let message = format!(
        "run {run} is a dead letter, and no process executes it{}",
        reason.unwrap_or_default()
    );
    Failure::new(Exit::TimedOut, "RUN_DEAD_LETTERED", message).hint(format!(
        "`windlass dead-letters requeue {run}` tries it again, `purge {run}` ends it as Failed"
    ))
}

/// The server that is named, or the process that holds the data directory.
fn server(session: &Session) -> Result<Option<Server>, Failure> {
    if let Some(server) = session.server() {
        return Ok(Some(server.clone()));
    }
    let directory = session.directory()?;
    match directory.holder() {
        Some(holder) => socket::find(directory.directory(), &holder),
        None => Ok(None),
    }
}
