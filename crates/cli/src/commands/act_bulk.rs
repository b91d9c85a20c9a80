//! Acting on one run or on many, without showing their progress. One line a run, and the
//! worst of their exits.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use windlass_core::{RunId, RunStatus};
use windlass_service::run_list::{self, RunSelection};
use windlass_store::{RunRow, Wait as _};

use crate::access::{self, Access, Again};
use crate::args::Act;
use crate::command::{self, CommandRequest, RunCommand};
use crate::commands::dry_run;
use crate::exit::{Exit, Failure};
use crate::filter;
use crate::local_engine::{Ending, LocalEngine, with_engine};
use crate::output::Output;
use crate::remote::{self, Server};
use crate::session::{Session, Settings};

/// How many runs are executed at once: a bound on memory, not on their number.
pub(super) const AT_ONCE: usize = 64;

/// How many runs are read from the list together.
const PAGE: usize = 500;

/// What became of one run.
struct Done {
    run: RunId,
    result: Result<RunStatus, Failure>,
}

/// Which runs to act on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// The one that is named.
    One(&'a str),
    /// All that fit.
    Filter(&'a [String]),
}

impl<'a> Target<'a> {
    pub(crate) fn of(act: &'a Act) -> Self {
        match &act.run {
            Some(run) => Self::One(run),
            None => Self::Filter(&act.filter),
        }
    }
}

/// Acts on the run that is named, or on all that the filter finds.
pub(crate) fn run(
    settings: &Settings,
    which: Target<'_>,
    request: &CommandRequest,
    dry_run: bool,
    until: Option<Instant>,
) -> Result<Exit, Failure> {
    let mut access = access::open(settings, false)?;
    let mut again = Again::default();
    let session = access.session();
    let rows = match which {
        Target::One(reference) => {
            let run = session.find_run(reference)?;
            session.store.run(run).wait()?.into_iter().collect()
        }
        Target::Filter(filter) => find(session, request.command.statuses(), filter)?,
    };
    let alone = matches!(which, Target::One(_));
    if dry_run {
        return match rows.as_slice() {
            [only] if alone => dry_run::say_one(session, request, only.run),
            rows => dry_run::say(session, request, rows),
        };
    }
    let mut done = Vec::with_capacity(rows.len());
    loop {
        let left = &rows[done.len()..];
        match &access {
            Access::Held(session) => {
                with_engine(session, None, async |host| {
                    done.extend(here(host, request, left, until).await);
                    Ok(Exit::Done)
                })?;
            }
            Access::Server(_, server) => done.extend(through(server, request, left)),
        }
        let Some(unanswered) = rows.get(done.len()) else {
            return report(settings.output, &request.command, &rows, done, alone);
        };
        drop(access);
        access = again.open(settings)?;
        done.extend(done_already(&access, &request.command, unanswered.run)?);
    }
}

/// What the holder did before it went away without an answer, if that can be seen.
fn done_already(
    access: &Access,
    command: &RunCommand,
    run: RunId,
) -> Result<Option<Done>, Failure> {
    let status = access.session().status(run)?;
    let is_done = matches!(
        (command, status),
        (RunCommand::Cancel { .. }, RunStatus::Cancelled) | (RunCommand::Pause, RunStatus::Paused)
    );
    let result = Ok(status);
    Ok(is_done.then_some(Done { run, result }))
}

/// All that fit; with these statuses, unless the filter names others.
pub(super) fn find(
    session: &Session,
    statuses: Vec<RunStatus>,
    filter: &[String],
) -> Result<Vec<RunRow>, Failure> {
    let mut selection = filter::parse(filter, |reference| session.find_run(reference))?;
    if selection.filter.statuses.is_empty() && !selection.orphaned {
        selection.filter.statuses = statuses;
    }
    selection.filter.limit = PAGE;
    let mut rows = Vec::new();
    loop {
        let (page, next) = page(session, &selection)?;
        rows.extend(page);
        match next {
            Some(next) => selection.filter.before = Some(next),
            None => return Ok(rows),
        }
    }
}

/// Some of the runs that are selected, and where the rest begins. A server or the process that
/// holds the data directory knows which runs no process executes.
fn page(
    session: &Session,
    selection: &RunSelection,
) -> Result<(Vec<RunRow>, Option<RunId>), Failure> {
    let server = session.server().cloned();
    let server = server.or_else(|| selection.orphaned.then(|| session.holding_server())?);
    if let Some(server) = server {
        let (items, next) = remote::list_runs(&server, selection)?;
        return Ok((items.into_iter().map(Into::into).collect(), next));
    }
    let page = run_list::page(session, selection)?;
    Ok((page.rows, page.next))
}

/// Lets a server act, on one run after the other; until it ends, if it is the process that
/// holds the data directory.
fn through(server: &Server, request: &CommandRequest, rows: &[RunRow]) -> Vec<Done> {
    let mut done = Vec::with_capacity(rows.len());
    for run in rows.iter().map(|row| row.run) {
        let result = remote::act(server, run, request);
        if matches!(&result, Err(failure) if server.is_gone(failure)) {
            break;
        }
        done.push(Done { run, result });
    }
    done
}

/// Acts in this process, and executes the runs that continue to their end.
async fn here(
    host: &LocalEngine,
    request: &CommandRequest,
    rows: &[RunRow],
    until: Option<Instant>,
) -> Vec<Done> {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for row in rows {
        let (host, run, request) = (host.clone(), row.run, request.clone());
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            break;
        };
        tasks.spawn(async move {
            let result = one(&host, &request, run, until).await;
            drop(slot);
            Done { run, result }
        });
    }
    tasks.join_all().await
}

async fn one(
    host: &LocalEngine,
    request: &CommandRequest,
    run: RunId,
    until: Option<Instant>,
) -> Result<RunStatus, Failure> {
    command::execute(&host.engine, run, request).await?;
    let status = command::status(&host.engine, run).await?;
    let is_waited_for =
        request.command.continues_run() || matches!(request.command, RunCommand::Cancel { .. });
    if !is_waited_for || status == RunStatus::Paused {
        return Ok(status);
    }
    match host.wait(run, until).await? {
        Ending::Ended(status) => Ok(status),
        Ending::Interrupted => Err(stopped(run, Exit::Interrupted, "interrupted")),
        Ending::TimedOut => Err(stopped(run, Exit::TimedOut, "it has not ended in time")),
    }
}

pub(super) fn stopped(run: RunId, exit: Exit, message: &str) -> Failure {
    Failure::new(exit, "RUN_NOT_ENDED", message).hint(format!("windlass resume {run}"))
}

/// One line a run; a single run's refusal is the command's own.
fn report(
    output: Output,
    command: &RunCommand,
    rows: &[RunRow],
    mut done: Vec<Done>,
    alone: bool,
) -> Result<Exit, Failure> {
    if alone && let [Done { result: Err(_), .. }] = done.as_slice() {
        return match done.pop().map(|done| done.result) {
            Some(Err(failure)) => Err(failure),
            _ => Ok(Exit::Done),
        };
    }
    let mut exit = Exit::Done;
    let mut items: Vec<Value> = Vec::new();
    for row in rows {
        let Some(done) = done.iter().find(|done| done.run == row.run) else {
            continue;
        };
        let (run, workflow) = (row.run, &row.workflow);
        match &done.result {
            Ok(status) => {
                if command.continues_run() && status.is_final() {
                    exit = exit.worse((*status).into());
                }
                if output.json {
                    items.push(json!({
                        "executionId": run, "workflowId": workflow, "status": status,
                    }));
                } else {
                    output.line(&format!(
                        "{run} {workflow}: {}",
                        command::says(command, *status)
                    ))?;
                }
            }
            Err(failure) => {
                exit = exit.worse(failure.exit);
                let error = json!({ "code": failure.code, "message": failure.message });
                if output.json {
                    items.push(json!({
                        "executionId": run, "workflowId": workflow, "error": error,
                    }));
                } else {
                    output.line(&format!("{run} {workflow}: {}", failure.message))?;
                }
            }
        }
    }
    if output.json {
        match items.pop() {
            Some(only) if alone => output.json(&only)?,
            last => {
                items.extend(last);
                output.json(&items)?;
            }
        }
    } else if rows.is_empty() {
        output.say("no run fits the filter");
    }
    Ok(exit)
}
