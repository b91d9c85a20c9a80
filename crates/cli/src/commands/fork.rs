//! `windlass fork`: a new run from an old one, in the foreground.

use windlass_engine::fork::Fork as Forked;
use windlass_engine::{Clock as _, Started, SystemClock};

use super::fork_many;
use super::run::Done;
use crate::access::{self, Access};
use crate::args::Fork;
use crate::command;
use crate::exit::{Exit, Failure};
use crate::foreground::{self, WaitOptions};
use crate::forking::{self, ForkAsked};
use crate::local_engine::{LocalEngine, with_engine};
use crate::progress::{Progress, Style};
use crate::remote;
use crate::session::{Session, Settings};

/// Forks a run.
pub(crate) fn run(settings: &Settings, arguments: &Fork) -> Result<Exit, Failure> {
    let options = WaitOptions {
        existing: Some(false),
        ..arguments.foreground.options()?
    };
    let Some(origin) = &arguments.run else {
        return fork_many::run(settings, arguments, options.until);
    };
    let new = SystemClock.new_run_id();
    let (mut named, mut request_id) = (None, arguments.request_id.as_deref().map(Into::into));
    let started = access::act(settings, false, |access| {
        let session = access.session();
        let mut asked = ForkAsked {
            // Named once: a fork that was started meanwhile is `@last` from then on.
            origin: match named {
                Some(origin) => origin,
                None => *named.insert(session.find_run(origin)?),
            },
            run: new,
            from: arguments.from.clone(),
            set: arguments.set.clone(),
            newest: arguments.newest,
            version: arguments.version,
            reuse_compensated: arguments.reuse_compensated,
            request_id: request_id.clone(),
            actor: command::actor(arguments.reason.as_deref()),
        };
        if arguments.dry_run {
            return dry_run(session, &asked).map(Done::Exit);
        }
        match access {
            Access::Held(session) => with_engine(session, None, async |host| {
                local(host, session, &asked, options).await
            })
            .map(Done::Exit),
            Access::Server(_, server) => {
                // Asking twice must start once, also if the server ends before it answers.
                // The next process that is asked, also this one, finds what was started.
                let id = request_id.get_or_insert_with(|| Box::from(new.to_string()));
                asked.request_id = Some(id.clone());
                remote::fork(server, &asked).map(Done::Started)
            }
        }
    })?;
    match started {
        Done::Exit(exit) => Ok(exit),
        Done::Started(Started { run, existing }) => {
            let existing = Some(existing && arguments.request_id.is_some());
            foreground::follow(
                settings,
                run,
                WaitOptions {
                    existing,
                    ..options
                },
            )
        }
    }
}

async fn local(
    host: &LocalEngine,
    session: &Session,
    asked: &ForkAsked,
    options: WaitOptions,
) -> Result<Exit, Failure> {
    let forked = prepare(session, asked)?;
    let style = Style::of(session.settings.output, options.quiet);
    let progress = Progress::of_new(asked.run, &forked.new_run.plan, style);
    host.event_fanout.follow(asked.run, &progress);
    let started = host.engine.start(&forked.new_run).await?;
    if started.run != asked.run {
        // An id that this command made up finds what it has started through another process.
        let is_own = asked.request_id.as_deref() == Some(&*asked.run.to_string());
        if !is_own {
            session.settings.output.say(&format!(
                "the request id has been used before, by run {}: it is not started again",
                started.run
            ));
        }
        drop(progress);
        let existing = Some(!is_own);
        let options = WaitOptions {
            existing,
            ..options
        };
        return foreground::local(host, session, started.run, options).await;
    }
    progress.begin();
    host.look_around(session, Some(asked.run));
    host.to_the_end(session, asked.run, &progress, options)
        .await
}

fn prepare(session: &Session, asked: &ForkAsked) -> Result<Forked, Failure> {
    let values = session.values();
    Ok(forking::prepare(
        &*session.store,
        &session.plans,
        &values,
        asked,
    )?)
}

/// Says what would run again, and what is reused.
fn dry_run(session: &Session, asked: &ForkAsked) -> Result<Exit, Failure> {
    let forked = prepare(session, asked)?;
    let output = session.settings.output;
    let origin = asked.origin;
    if output.json {
        output.json(&forking::to_json(origin, &forked))?;
        return Ok(Exit::Done);
    }
    output.line(&format!("would fork {origin}"))?;
    for line in forking::to_lines(&forked) {
        output.line(&format!("  {line}"))?;
    }
    Ok(Exit::Done)
}
