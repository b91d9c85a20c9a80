//! Acting on one run or on many: cancel, pause, resume, reattempt. One line a run, and
//! the worst of their exits.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use windlass_core::{RunId, RunStatus};
use windlass_orchestrator::Command;
use windlass_store::{Queries as _, RunRow};

use crate::access::{self, Access};
use crate::act;
use crate::args::Act;
use crate::carry::{Carrier, Ending, carry};
use crate::commands::dry_run;
use crate::control::{Answer, Client, Heard, Request};
use crate::exit::{Exit, Failure};
use crate::filter;
use crate::output::Output;
use crate::session::{Session, Settings};

/// How many runs are carried on at once: a bound on memory, not on their number.
const AT_ONCE: usize = 64;

/// How many runs are read from the list together.
const PAGE: usize = 500;

/// What to do to runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cancel,
    Pause,
    Resume,
    Reattempt,
}

impl Kind {
    /// The runs it makes sense for, unless a filter says otherwise.
    fn statuses(self) -> Vec<RunStatus> {
        match self {
            Self::Cancel | Self::Resume => {
                vec![RunStatus::Pending, RunStatus::Running, RunStatus::Paused]
            }
            Self::Pause => vec![RunStatus::Running],
            Self::Reattempt => vec![RunStatus::Failed, RunStatus::Cancelled],
        }
    }

    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Reattempt => "reattempt",
        }
    }

    fn request(self, run: RunId, reason: Option<String>) -> Request {
        match self {
            Self::Cancel => Request::Cancel { run, reason },
            Self::Pause => Request::Pause { run, reason },
            Self::Resume => Request::Resume { run, reason },
            Self::Reattempt => Request::Reattempt {
                run,
                nodes: Vec::new(),
                reason,
            },
        }
    }
}

/// What became of one run.
struct Done {
    run: RunId,
    result: Result<RunStatus, Failure>,
}

/// Acts on the run that is named, or on all that the filter finds.
pub(crate) fn run(
    settings: &Settings,
    kind: Kind,
    arguments: &Act,
    until: Option<Instant>,
) -> Result<Exit, Failure> {
    let mut access = access::open(settings, false)?;
    let session = match &access {
        Access::Held(session) | Access::Through(session, _) => session,
    };
    let one = arguments.run.as_deref();
    let rows = match one {
        Some(reference) => {
            let run = session.find_run(reference)?;
            session.store.run(run)?.into_iter().collect()
        }
        None => find(session, kind, &arguments.filter)?,
    };
    if arguments.dry_run {
        return dry_run::say(session, kind, &rows);
    }
    let reason = arguments.reason.as_deref();
    let mut done = Vec::with_capacity(rows.len());
    loop {
        let left = &rows[done.len()..];
        match &access {
            Access::Held(session) => {
                carry(session, None, async |carrier| {
                    done.extend(here(carrier, kind, left, reason, until).await);
                    Ok(Exit::Done)
                })?;
            }
            Access::Through(_, client) => done.extend(through(client, kind, left, reason)?),
        }
        let Some(unanswered) = rows.get(done.len()) else {
            return report(settings.output, kind, &rows, done, one.is_some());
        };
        drop(access);
        access = access::open(settings, false)?;
        done.extend(done_already(&access, kind, unanswered.run)?);
    }
}

/// What the holder did before it went away without an answer, if that can be seen.
fn done_already(access: &Access, kind: Kind, run: RunId) -> Result<Option<Done>, Failure> {
    let (Access::Held(session) | Access::Through(session, _)) = access;
    let status = session.status(run)?;
    let is_done = matches!(
        (kind, status),
        (Kind::Cancel, RunStatus::Cancelled) | (Kind::Pause, RunStatus::Paused)
    );
    let result = Ok(status);
    Ok(is_done.then_some(Done { run, result }))
}

fn find(session: &Session, kind: Kind, filter: &[String]) -> Result<Vec<RunRow>, Failure> {
    let mut wanted = filter::parse(filter)?;
    if wanted.statuses.is_empty() {
        wanted.statuses = kind.statuses();
    }
    wanted.limit = PAGE;
    let mut rows = Vec::new();
    loop {
        let page = session.store.runs(&wanted)?;
        rows.extend(page.rows);
        match page.next {
            Some(next) => wanted.before = Some(next),
            None => return Ok(rows),
        }
    }
}

/// Acts through the process that holds the data directory, one run after the other, until
/// it goes away.
fn through(
    client: &Client,
    kind: Kind,
    rows: &[RunRow],
    reason: Option<&str>,
) -> Result<Vec<Done>, Failure> {
    let runtime = access::runtime()?;
    let mut done = Vec::with_capacity(rows.len());
    for run in rows.iter().map(|row| row.run) {
        let request = kind.request(run, reason.map(str::to_owned));
        let result = match runtime.block_on(client.ask(request, &[])) {
            Ok(Heard::Answer(Answer::Done { status })) => Ok(status),
            Ok(Heard::Answer(_)) => Err(client.unexpected()),
            Ok(Heard::Gone) => break,
            Err(failure) => Err(failure),
        };
        done.push(Done { run, result });
    }
    Ok(done)
}

/// Acts in this process; what goes on is carried to its end.
async fn here(
    carrier: &Carrier,
    kind: Kind,
    rows: &[RunRow],
    reason: Option<&str>,
    until: Option<Instant>,
) -> Vec<Done> {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for row in rows {
        let (carrier, run) = (carrier.clone(), row.run);
        let reason = reason.map(str::to_owned);
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            break;
        };
        tasks.spawn(async move {
            let result = one(&carrier, kind, run, reason.as_deref(), until).await;
            drop(slot);
            Done { run, result }
        });
    }
    tasks.join_all().await
}

async fn one(
    carrier: &Carrier,
    kind: Kind,
    run: RunId,
    reason: Option<&str>,
    until: Option<Instant>,
) -> Result<RunStatus, Failure> {
    let hand = act::hand(reason);
    match kind {
        Kind::Cancel => {
            carrier
                .engine
                .command(
                    run,
                    Command::Cancel {
                        hand,
                        compensate: false,
                    },
                )
                .await?
        }
        Kind::Pause => {
            carrier.engine.command(run, Command::Pause(hand)).await?;
            return Ok(RunStatus::Paused);
        }
        Kind::Resume => act::carry_on(carrier, run, hand).await?,
        Kind::Reattempt => act::reattempt(carrier, run, &[], hand).await?,
    }
    match carrier.wait(run, until).await? {
        Ending::Ended(status) => Ok(status),
        Ending::Interrupted => Err(stopped(run, Exit::Interrupted, "interrupted")),
        Ending::TimedOut => Err(stopped(run, Exit::TimedOut, "it has not ended in time")),
    }
}

fn stopped(run: RunId, exit: Exit, message: &str) -> Failure {
    Failure::new(exit, "RUN_NOT_ENDED", message).hint(format!("windlass resume {run}"))
}

/// One line a run; a single run's refusal is the command's own.
fn report(
    output: Output,
    kind: Kind,
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
                if matches!(kind, Kind::Resume | Kind::Reattempt) {
                    exit = exit.worse((*status).into());
                }
                if output.json {
                    items.push(json!({
                        "executionId": run, "workflowId": workflow, "status": status,
                    }));
                } else {
                    output.data(&format!("{run} {workflow}: {}", says(kind, *status)))?;
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
                    output.data(&format!("{run} {workflow}: {}", failure.message))?;
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

fn says(kind: Kind, status: RunStatus) -> String {
    match (kind, status) {
        (Kind::Cancel, RunStatus::Cancelled) => "cancelled".to_owned(),
        (Kind::Cancel, _) => "being cancelled: running work has 10 s to stop".to_owned(),
        (Kind::Pause, _) => "paused: nothing more starts until `windlass resume`".to_owned(),
        (_, status) => status.to_string(),
    }
}
