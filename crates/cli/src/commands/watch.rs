//! `windlass watch`: follows a run that another process executes.

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
    let status = session.status(run)?;
    if status.is_final() {
        ending::print(&session, &session.plans, run, None)?;
        return Ok(status.into());
    }
    let Some(server) = server(&session)? else {
        return Err(foreground::nobody(run, status));
    };
    match remote::follow(&session, &server, run, options)? {
        Followed::Exit(exit) => Ok(exit),
        Followed::Gone(status) | Followed::NotAcquired(status) => {
            Err(foreground::nobody(run, status))
        }
    }
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
