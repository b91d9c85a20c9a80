//! Where to act: on a data directory that this process holds, through the process that
//! holds it, or by asking a server.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::control::Client;
use crate::exit::{Exit, Failure};
use crate::remote::Server;
use crate::session::{Session, Settings};

/// How long a holder that does not listen may take to go away: commands that only
/// look around hold the directory for a moment, and one that ends for a little longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How runs can be acted on.
pub(crate) enum Access {
    /// This process holds it.
    Held(Session),
    /// Another process holds it and listens.
    Through(Session, Client),
    /// A server has it.
    Server(Session, Server),
}

impl Access {
    /// What looks at it.
    pub(crate) fn session(&self) -> &Session {
        let (Self::Held(session) | Self::Through(session, _) | Self::Server(session, _)) = self;
        session
    }
}

/// Opens the data directory, which must exist unless it may be made; or names the server.
pub(crate) fn open(settings: &Settings, create: bool) -> Result<Access, Failure> {
    if let Some(server) = settings.server.clone() {
        let session = Session::at(settings.clone(), server.clone());
        return Ok(Access::Server(session, server));
    }
    let began = Instant::now();
    let mut pause = Duration::from_millis(5);
    loop {
        let session = if create {
            Session::act(settings.clone())?
        } else {
            Session::act_on_existing(settings.clone())?
        };
        let directory = session.directory()?;
        if directory.is_holder() {
            return Ok(Access::Held(session));
        }
        if let Some(holder) = directory.holder() {
            let place = directory.directory();
            let found = runtime()?.block_on(Client::find(place, holder.clone()));
            if let Some(client) = found {
                return Ok(Access::Through(session, client));
            }
            if began.elapsed() > PATIENCE {
                let place = settings.data_dir.display();
                let message = format!("the data directory {place} is in use by {holder}");
                return Err(Failure::new(Exit::Conflict, "DATA_DIR_IN_USE", message)
                    .hint("wait until it has ended, or name another with --data-dir"));
            }
        }
        // Only while somebody holds the directory and does not answer.
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// A small runtime, enough to talk to one other process.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Storage, "RUNTIME_FAILED", error))
}
