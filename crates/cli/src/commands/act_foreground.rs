//! Commands that make a run continue: in the foreground of this process if it
//! holds the data directory, else by asking a server.

use windlass_core::event::{Compensation, Event};
use windlass_core::value::Payload;
use windlass_core::{Digest, RunId, RunStatus};
use windlass_engine::load_run;
use windlass_store::Wait as _;

use crate::access::{self, Access};
use crate::args::{ActArgs, Foreground};
use crate::command::{self, CommandRequest, RunCommand};
use crate::commands::act_bulk::{self, Target};
use crate::commands::dry_run;
use crate::exit::{Exit, Failure};
use crate::foreground::{self, WaitOptions};
use crate::local_engine::{LocalEngine, with_engine};
use crate::remote;
use crate::session::{Session, Settings};
use crate::source::{read_limited, too_large};

impl Foreground {
    pub(crate) fn options(&self) -> Result<WaitOptions, Failure> {
        WaitOptions::new(self.quiet, self.wait)
    }
}

/// Does it to the run that is named, or to all that the filter finds.
pub(crate) fn run(
    settings: &Settings,
    which: Target<'_>,
    request: &CommandRequest,
    dry_run: bool,
    options: WaitOptions,
) -> Result<Exit, Failure> {
    match which {
        Target::One(reference) => {
            let exit = one(settings, reference, request, dry_run, options)?;
            match request.command.undoes() && !dry_run {
                true => undone(settings, reference, exit),
                false => Ok(exit),
            }
        }
        Target::Filter(_) => act_bulk::run(settings, which, request, dry_run, options.until),
    }
}

fn one(
    settings: &Settings,
    reference: &str,
    request: &CommandRequest,
    is_dry: bool,
    options: WaitOptions,
) -> Result<Exit, Failure> {
    let (mut named, mut asked, mut since) = (None, None, None);
    let done = access::act(settings, false, |access| {
        let session = access.session();
        // Named once: `@last` may be another run by the time that it is asked for again.
        let run = match named {
            Some(run) => run,
            None => *named.insert(session.find_run(reference)?),
        };
        if is_dry {
            return dry_run::say_one(session, request, run).map(Done::Exit);
        }
        // A process that ended without an answer may have done it.
        let is_done = match asked {
            Some(since) => is_recorded(session, run, since, request)?,
            None => false,
        };
        match access {
            Access::Held(session) if !is_done || request.command.is_followed() => {
                let request = Some(request).filter(|_| !is_done);
                let exit = with_engine(session, None, async |host| {
                    local(host, session, run, request, options).await
                });
                return exit.map(Done::Exit);
            }
            Access::Server(session, server) if !is_done => {
                if server.holder().is_some() || request.command.is_followed() {
                    let head = session.store.head(run).wait()?.sequence;
                    since.get_or_insert(head);
                    asked = server.holder().map(|_| head);
                }
                remote::act(server, run, request)?;
            }
            _ => {}
        }
        match request.command.is_followed() {
            true => Ok(Done::Followed(run)),
            false => report(session, request, run).map(Done::Exit),
        }
    })?;
    match done {
        Done::Exit(exit) => Ok(exit),
        Done::Followed(run) => foreground::follow(settings, run, WaitOptions { since, ..options }),
    }
}

/// What came of it.
enum Done {
    Exit(Exit),
    /// A server has done it, and the run is followed.
    Followed(RunId),
}

/// Executes the command in this process, then the run and those that wait for its end.
async fn local(
    host: &LocalEngine,
    session: &Session,
    run: RunId,
    request: Option<&CommandRequest>,
    options: WaitOptions,
) -> Result<Exit, Failure> {
    let resumes = request.is_none_or(|request| request.command == RunCommand::Resume);
    if resumes {
        foreground::refuse_ended(run, session.status(run)?)?;
    }
    // From before the command, so that progress misses nothing of what follows from it.
    let progress = foreground::listen(host, session, run, options.quiet).await?;
    if let Some(request) = request {
        command::execute(&host.engine, run, request).await?;
        if session.status(run)? == RunStatus::Paused {
            return report(session, request, run);
        }
    } else {
        host.engine.recover(run).await?;
    }
    progress.begin();
    host.recover_parents(session, run).await?;
    host.look_around(session, Some(run));
    host.to_the_end(session, run, &progress, options).await
}

/// A compensation is waited for, not the run's success: whether everything was undone.
fn undone(settings: &Settings, reference: &str, exit: Exit) -> Result<Exit, Failure> {
    if matches!(exit, Exit::TimedOut | Exit::Interrupted) {
        return Ok(exit);
    }
    let session = Session::queries(settings.clone())?;
    let run = session.find_run(reference)?;
    let loaded = load_run(&*session.store, &session.plans, run, |_, _| {})?;
    let outcome = loaded.run.finished().and_then(|it| it.compensation);
    let output = settings.output;
    Ok(match outcome {
        Some(Compensation::Complete) => {
            output.say("compensation: complete");
            Exit::Done
        }
        Some(Compensation::Incomplete) => {
            output.say(&format!(
                "compensation: incomplete; `windlass compensate {run} --preview` lists it, \
                 --retry NODE and --skip NODE continue"
            ));
            Exit::RunFailed
        }
        None => exit,
    })
}

/// One line of what was done.
fn report(session: &Session, request: &CommandRequest, run: RunId) -> Result<Exit, Failure> {
    let status = session.status(run)?;
    let row = session.store.run(run).wait()?;
    let workflow = row.map(|row| row.workflow).unwrap_or_default();
    let output = session.settings.output;
    if output.json {
        output.json(&serde_json::json!({
            "executionId": run, "workflowId": workflow, "status": status,
        }))?;
    } else {
        output.line(&format!(
            "{run} {workflow}: {}",
            command::says(&request.command, status)
        ))?;
    }
    Ok(Exit::Done)
}

/// Whether a run's log has it since this record: what is not to be done twice.
fn is_recorded(
    session: &Session,
    run: RunId,
    since: u64,
    request: &CommandRequest,
) -> Result<bool, Failure> {
    let wanted = Payload::typed(&request.body).digest();
    let (mut record, mut found) = (0, false);
    load_run(&*session.store, &session.plans, run, |_, transition| {
        record += 1;
        if record > since {
            let events = &transition.events;
            found |= events
                .iter()
                .any(|event| records(event, &request.command, wanted));
        }
    })?;
    Ok(found)
}

fn records(event: &Event, command: &RunCommand, body: Digest) -> bool {
    match (event, command) {
        (Event::SignalReceived(signal), RunCommand::Signal { name }) => {
            *signal.name == **name && signal.payload.digest() == body
        }
        (Event::SetByHand(set), RunCommand::SetResult { node } | RunCommand::Skip { node }) => {
            *set.node == **node
        }
        (Event::Reattempted { .. }, RunCommand::Reattempt { .. })
        | (Event::Compensating { .. }, RunCommand::Compensate)
        | (Event::CompensationRetried { .. }, RunCommand::RetryCompensation { .. })
        | (Event::CompensationSkipped { .. }, RunCommand::SkipCompensation { .. })
        | (Event::Imported { .. }, RunCommand::Import) => true,
        _ => false,
    }
}

/// The run, or the filter in its place, and the words after it.
pub(crate) fn words<'a>(
    how: &'a ActArgs,
    words: &'a [String],
    count: std::ops::RangeInclusive<usize>,
    usage: &str,
) -> Result<(Target<'a>, &'a [String]), Failure> {
    let (which, rest) = match (how.filter.is_empty(), words) {
        (true, [run, rest @ ..]) => (Target::One(run), rest),
        _ => (Target::Filter(&how.filter), words),
    };
    if count.contains(&rest.len()) {
        return Ok((which, rest));
    }
    let message = match rest.len() < *count.start() {
        true => "an argument is missing",
        false => "there is an argument too many: --filter stands for RUN",
    };
    Err(Failure::new(Exit::Usage, "USAGE", message).hint(usage))
}

/// JSON text as it is given, or in a file after `@`.
pub(crate) fn json_argument(argument: &str) -> Result<String, Failure> {
    let text = match argument.strip_prefix('@') {
        None => argument.to_owned(),
        Some(file) => {
            let limit = windlass_engine::limits().payload_bytes;
            let bytes = read_limited(file.as_ref(), limit, too_large)?;
            String::from_utf8(bytes).map_err(|_| {
                let message = format!("{file} is not UTF-8 text");
                Failure::new(Exit::Invalid, "FILE_UNREADABLE", message)
            })?
        }
    };
    Ok(text.trim().to_owned())
}
