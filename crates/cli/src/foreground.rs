//! Follows one run to its end in the foreground: in this process if it holds the data directory,
//! else by watching the process that does, and recovering the run if that process ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::{RunId, RunStatus};

use crate::access::{self, Access, Again};
use crate::command::{self, RunCommand, request};
use crate::commands::dead_letter;
use crate::ending;
use crate::exit::{Exit, Failure};
use crate::local_engine::{LocalEngine, with_engine};
use crate::progress::{Progress, Style};
use crate::remote::{self, Followed};
use crate::session::{Session, Settings};

/// How to be in the foreground.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitOptions {
    /// No progress.
    pub(crate) quiet: bool,
    /// Wait no longer than until then.
    pub(crate) until: Option<Instant>,
    /// Recover the run in this process if no other executes it.
    pub(crate) recover: bool,
    /// In the answer to a request: whether an earlier one had started the run.
    pub(crate) existing: Option<bool>,
    /// After a command: the last record before it. What came later is shown.
    pub(crate) since: Option<u64>,
}

impl WaitOptions {
    /// Waits as long as asked for, and recovers the run if its process ends.
    pub(crate) fn new(quiet: bool, wait: Option<f64>) -> Result<Self, Failure> {
        let until = match wait {
            None => None,
            Some(seconds) => {
                let time = Duration::try_from_secs_f64(seconds)
                    .ok()
                    .and_then(|time| Instant::now().checked_add(time));
                Some(time.ok_or_else(|| {
                    let message = format!("--wait {seconds}: this is not a number of seconds");
                    Failure::new(Exit::Usage, "USAGE", message)
                })?)
            }
        };
        Ok(Self {
            quiet,
            until,
            recover: true,
            existing: None,
            since: None,
        })
    }
}

/// Follows a run to its end, whichever process executes it.
pub(crate) fn follow(
    settings: &Settings,
    run: RunId,
    options: WaitOptions,
) -> Result<Exit, Failure> {
    let mut access = access::open(settings, false)?;
    let mut again = Again::default();
    loop {
        match access {
            Access::Held(session) => {
                return with_engine(&session, None, async |host| {
                    local(host, &session, run, options).await
                });
            }
            Access::Server(session, server) => {
                match remote::follow(&session, &server, run, options)? {
                    Followed::Exit(exit) => return Ok(exit),
                    Followed::DeadLetter => return Err(dead_letter(&session, run)),
                    Followed::Gone(_) => {}
                    Followed::NotAcquired(_) => {
                        let request = request(RunCommand::Resume, None);
                        match remote::act(&server, run, &request) {
                            Err(failure) if !server.is_gone(&failure) => return Err(failure),
                            _ => {}
                        }
                    }
                }
            }
        }
        access = again.open(settings)?;
    }
}

/// Recovers a run in this process, and follows it to its end.
pub(crate) async fn local(
    host: &LocalEngine,
    session: &Session,
    run: RunId,
    options: WaitOptions,
) -> Result<Exit, Failure> {
    let status = session.status(run)?;
    if status.is_final() {
        ending::print(session, host.engine.plans(), run, options)?;
        return Ok(status.into());
    }
    let progress = show(host, session, run, options.quiet).await?;
    host.engine.recover(run).await?;
    host.look_around(session, Some(run));
    host.to_the_end(session, run, &progress, options).await
}

/// Begins to show a run's progress from where it stands.
async fn show(
    host: &LocalEngine,
    session: &Session,
    run: RunId,
    quiet: bool,
) -> Result<Arc<Progress>, Failure> {
    let progress = listen(host, session, run, quiet).await?;
    progress.begin();
    Ok(progress)
}

/// Keeps what happens to a run from now on for its progress, which is not shown yet.
pub(crate) async fn listen(
    host: &LocalEngine,
    session: &Session,
    run: RunId,
    quiet: bool,
) -> Result<Arc<Progress>, Failure> {
    let loaded = command::load(&host.engine, run).await?;
    let style = Style::of(session.settings.output, quiet);
    let progress = Progress::of_run(&loaded.run, style);
    host.event_fanout.follow(run, &progress);
    Ok(progress)
}

/// The failure of a command that would wait for a run that no process executes.
pub(crate) fn not_executed(run: RunId, status: RunStatus) -> Failure {
    let message = format!("no process executes run {run}; it is {status}");
    Failure::new(Exit::TimedOut, "RUN_NOT_CARRIED", message)
        .hint(format!("`windlass resume {run}` continues it"))
}

/// Refuses to continue a run that has ended, and says what to do instead.
pub(crate) fn refuse_ended(run: RunId, status: RunStatus) -> Result<(), Failure> {
    if status.is_final() {
        return Err(command::ended(run, status).into());
    }
    Ok(())
}
