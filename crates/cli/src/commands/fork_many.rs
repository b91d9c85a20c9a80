//! `windlass fork --filter`: a new run from each old one that fits. One line a fork, and the
//! worst of their exits.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use windlass_core::{RunId, RunStatus};
use windlass_engine::{Clock as _, NewRun, SystemClock};
use windlass_store::RunRow;

use super::act_bulk::{AT_ONCE, find, stopped};
use crate::access::{self, Access, Again};
use crate::args::Fork;
use crate::command;
use crate::exit::{Exit, Failure};
use crate::forking::{self, ForkAsked};
use crate::local_engine::{Ending, LocalEngine, with_engine};
use crate::output::Output;
use crate::remote::{self, Server};
use crate::session::{Session, Settings};

/// What an old run came to.
struct Done {
    /// Where it is among those that fit.
    place: usize,
    result: Result<New, Failure>,
}

/// The new run; its status where this process executed it to its end.
struct New {
    run: RunId,
    status: Option<RunStatus>,
}

/// Forks all that the filter finds.
pub(super) fn run(
    settings: &Settings,
    arguments: &Fork,
    until: Option<Instant>,
) -> Result<Exit, Failure> {
    use RunStatus::{Cancelled, Failed, Succeeded};
    let mut access = access::open(settings, false)?;
    let mut again = Again::default();
    let ended = vec![Failed, Cancelled, Succeeded];
    let rows = find(access.session(), ended, &arguments.filter)?;
    let asked: Vec<ForkAsked> = rows.iter().map(|row| ask(arguments, row.run)).collect();
    if arguments.dry_run {
        return dry_run(access.session(), &rows, &asked);
    }
    let mut done = Vec::with_capacity(rows.len());
    while done.len() < asked.len() {
        let from = done.len();
        let left = &asked[from..];
        match &access {
            Access::Held(session) => {
                with_engine(session, None, async |host| {
                    done.extend(here(host, session, left, from, until).await);
                    Ok(Exit::Done)
                })?;
            }
            Access::Server(_, server) => done.extend(through(server, left, from)),
        }
        if done.len() < asked.len() {
            // The holder went away. What it began is not begun twice: the request id is known.
            drop(access);
            access = again.open(settings)?;
        }
    }
    done.sort_by_key(|done| done.place);
    report(settings.output, &rows, done)
}

impl New {
    fn started(started: windlass_engine::Started) -> Self {
        Self {
            run: started.run,
            status: None,
        }
    }
}

fn ask(arguments: &Fork, origin: RunId) -> ForkAsked {
    let run = SystemClock.new_run_id();
    ForkAsked {
        origin,
        run,
        from: arguments.from.clone(),
        set: arguments.set.clone(),
        newest: arguments.newest,
        version: arguments.version,
        reuse_compensated: arguments.reuse_compensated,
        request_id: Some(run.to_string().into()),
        actor: command::actor(arguments.reason.as_deref()),
    }
}

fn prepare(session: &Session, asked: &ForkAsked) -> Result<windlass_engine::fork::Fork, Failure> {
    let values = session.values();
    Ok(forking::prepare(
        &*session.store,
        &session.plans,
        &values,
        asked,
    )?)
}

/// Forks in this process, and executes the new runs to their ends.
async fn here(
    host: &LocalEngine,
    session: &Session,
    asked: &[ForkAsked],
    from: usize,
    until: Option<Instant>,
) -> Vec<Done> {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    let mut done = Vec::new();
    for (place, asked) in (from..).zip(asked) {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            break;
        };
        let request = match prepare(session, asked) {
            Ok(forked) => forked.new_run,
            Err(failure) => {
                let result = Err(failure);
                done.push(Done { place, result });
                continue;
            }
        };
        let host = host.clone();
        tasks.spawn(async move {
            let result = one(&host, &request, until).await;
            drop(slot);
            Done { place, result }
        });
    }
    done.extend(tasks.join_all().await);
    done
}

async fn one(host: &LocalEngine, new: &NewRun, until: Option<Instant>) -> Result<New, Failure> {
    let run = host.engine.start(new).await?.run;
    match host.wait(run, until).await? {
        Ending::Ended(status) => Ok(New {
            run,
            status: Some(status),
        }),
        Ending::Interrupted => Err(stopped(run, Exit::Interrupted, "interrupted")),
        Ending::TimedOut => Err(stopped(run, Exit::TimedOut, "it has not ended in time")),
    }
}

/// Lets a server fork; until it ends, if it is the process that holds the data directory.
fn through(server: &Server, asked: &[ForkAsked], from: usize) -> Vec<Done> {
    let mut done = Vec::with_capacity(asked.len());
    for (place, asked) in (from..).zip(asked) {
        let result = remote::fork(server, asked).map(New::started);
        if matches!(&result, Err(failure) if server.is_gone(failure)) {
            break;
        }
        done.push(Done { place, result });
    }
    done
}

/// Says what each fork would run again.
fn dry_run(session: &Session, rows: &[RunRow], asked: &[ForkAsked]) -> Result<Exit, Failure> {
    let output = session.settings.output;
    let mut exit = Exit::Done;
    let mut items: Vec<Value> = Vec::new();
    for (row, asked) in rows.iter().zip(asked) {
        let (origin, workflow) = (row.run, &row.workflow);
        match prepare(session, asked) {
            Ok(forked) if output.json => items.push(forking::to_json(origin, &forked)),
            Ok(forked) => {
                let lines = forking::to_lines(&forked);
                let again = lines.first().map_or("", String::as_str);
                output.line(&format!("{origin} {workflow}: would be forked, {again}"))?;
            }
            Err(failure) => {
                exit = exit.worse(failure.exit);
                say_failure(output, row, &failure, &mut items)?;
            }
        }
    }
    close(output, &items, rows)?;
    Ok(exit)
}

fn report(output: Output, rows: &[RunRow], done: Vec<Done>) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    let mut items: Vec<Value> = Vec::new();
    for (row, Done { result, .. }) in rows.iter().zip(done) {
        let (origin, workflow) = (row.run, &row.workflow);
        match result {
            Ok(New { run, status }) => {
                exit = exit.worse(status.map_or(Exit::Done, Exit::from));
                if output.json {
                    items.push(json!({
                        "executionId": run, "workflowId": workflow, "status": status,
                        "origin": { "executionId": origin },
                    }));
                    continue;
                }
                let status = status.map_or_else(String::new, |status| format!(": {status}"));
                output.line(&format!("{origin} {workflow}: forked as {run}{status}"))?;
            }
            Err(failure) => {
                exit = exit.worse(failure.exit);
                say_failure(output, row, &failure, &mut items)?;
            }
        }
    }
    close(output, &items, rows)?;
    Ok(exit)
}

fn say_failure(
    output: Output,
    row: &RunRow,
    failure: &Failure,
    items: &mut Vec<Value>,
) -> Result<(), Failure> {
    let (origin, workflow) = (row.run, &row.workflow);
    if output.json {
        items.push(json!({
            "origin": { "executionId": origin }, "workflowId": workflow,
            "error": { "code": failure.code, "message": failure.message },
        }));
        return Ok(());
    }
    output.line(&format!("{origin} {workflow}: {}", failure.message))
}

fn close(output: Output, items: &[Value], rows: &[RunRow]) -> Result<(), Failure> {
    if output.json {
        return output.json(&items);
    }
    if rows.is_empty() {
        output.say("no run fits the filter");
    }
    Ok(())
}
