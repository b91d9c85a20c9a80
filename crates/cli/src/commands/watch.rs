//! `windlass watch`: follows a run that another process carries on.

use crate::args::Watch;
use crate::control::Client;
use crate::ending;
use crate::exit::{Exit, Failure};
use crate::foreground::{self, Manner};
use crate::remote;
use crate::session::{Session, Settings};

/// Watches a run until it ends.
pub(crate) fn run(settings: &Settings, arguments: &Watch) -> Result<Exit, Failure> {
    let manner = Manner {
        take_over: false,
        ..Manner::new(false, arguments.wait)?
    };
    let session = Session::look(settings.clone())?;
    let run = session.find_run(&arguments.run)?;
    let status = session.status(run)?;
    if status.is_final() {
        ending::print(&session, &session.plans, run, None)?;
        return Ok(status.into());
    }
    if let Some(server) = session.server() {
        return remote::follow(&session, server, run, manner);
    }
    let directory = session.directory()?;
    let Some(holder) = directory.holder() else {
        return Err(foreground::nobody(run, status));
    };
    let place = directory.directory();
    let found = crate::access::runtime()?.block_on(Client::find(place, holder));
    match found {
        Some(client) => foreground::watch_only(&session, &client, run, manner),
        None => Err(foreground::nobody(run, status)),
    }
}
