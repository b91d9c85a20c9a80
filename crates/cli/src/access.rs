//! Where to act: on a data directory that this process holds, or by asking a server: one at an
//! address, or the process that holds the data directory, at its socket.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::exit::{Exit, Failure};
use crate::remote::Server;
use crate::session::{Session, Settings};
use crate::socket;

/// How long a holder that does not listen may take to go away: commands that only
/// look around hold the directory for a moment, and one that ends for a little longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a holder that was about to end may take to do so: it answers what it was asked, and
/// stops its actions.
const ENDING: Duration = Duration::from_secs(60);

/// How often the process that holds the data directory may break off: one that ends does so
/// once, and so does the next. More often it is broken itself.
const HOLDERS: usize = 100;

/// How runs can be acted on.
pub(crate) enum Access {
    /// This process holds the data directory.
    Held(Session),
    /// A server does it. The session looks at what the server has, or at the data directory
    /// that it holds.
    Server(Session, Server),
}

impl Access {
    /// What looks at it.
    pub(crate) fn session(&self) -> &Session {
        let (Self::Held(session) | Self::Server(session, _)) = self;
        session
    }
}

/// Opens the data directory, which must exist unless it may be made; or names the server.
pub(crate) fn open(settings: &Settings, create: bool) -> Result<Access, Failure> {
    open_within(settings, create, PATIENCE)
}

/// Looks for the next process that holds the data directory, or becomes it, after one has
/// ended or was about to.
pub(crate) struct Again {
    left: usize,
}

impl Default for Again {
    fn default() -> Self {
        Self { left: HOLDERS }
    }
}

impl Again {
    /// As [`open`].
    pub(crate) fn open(&mut self, settings: &Settings) -> Result<Access, Failure> {
        let Some(left) = self.left.checked_sub(1) else {
            let message = "the process that holds the data directory breaks off each time";
            return Err(Failure::new(Exit::Conflict, "DATA_DIR_IN_USE", message)
                .hint("stop it; `windlass doctor` names it"));
        };
        self.left = left;
        open_within(settings, false, ENDING)
    }
}

/// Does something where it can be done. It may be asked for twice: a process that ended without
/// an answer may have done it.
pub(crate) fn act<T>(
    settings: &Settings,
    create: bool,
    mut act: impl FnMut(&Access) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut access = open(settings, create)?;
    let mut again = Again::default();
    loop {
        let done = act(&access);
        match (&access, &done) {
            (Access::Server(_, server), Err(failure)) if server.is_gone(failure) => {
                drop(access);
                access = again.open(settings)?;
            }
            _ => return done,
        }
    }
}

fn open_within(settings: &Settings, create: bool, patience: Duration) -> Result<Access, Failure> {
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
            if let Some(server) = socket::find(directory.directory(), &holder)? {
                return Ok(Access::Server(session, server));
            }
            if began.elapsed() > patience {
                let place = settings.data_dir.display();
                let message = format!("the data directory {place} is in use by {holder}");
                return Err(Failure::new(Exit::Conflict, "DATA_DIR_IN_USE", message)
                    .hint("wait until it has ended, or name another with --data-dir"));
            }
        }
        // Only while a process holds the directory and does not answer.
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
