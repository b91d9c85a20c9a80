//! `windlass start`: a run of a published workflow.

use windlass_engine::{Clock as _, StartRequest, Started, SystemClock};
use windlass_service::catalogue::not_started;

use super::run::{Done, labels, print_queued, say_existing, trigger};
use crate::access::{self, Access};
use crate::args::Start;
use crate::exit::{Exit, Failure};
use crate::foreground::{self, WaitOptions};
use crate::local_engine::with_engine;
use crate::remote;
use crate::session::Settings;

/// Starts a run, and waits for its end if that is asked for.
pub(crate) fn run(settings: &Settings, arguments: &Start) -> Result<Exit, Failure> {
    let options = WaitOptions::new(arguments.quiet, arguments.wait.flatten())?;
    let is_waited_for = arguments.wait.is_some();
    // A request that is sent twice starts one run.
    let own: Box<str> = SystemClock.new_run_id().to_string().into();
    let given = arguments.request_id.as_deref().map(Into::into);
    let request = StartRequest {
        trigger: trigger(arguments.trigger.as_deref())?,
        request_id: Some(given.unwrap_or_else(|| own.clone())),
        labels: labels(&arguments.labels)?,
        priority: arguments.priority,
        ..StartRequest::default()
    };
    let is_made_up = request.request_id.as_ref() == Some(&own);
    let (workflow, version) = (&*arguments.workflow, arguments.version);
    let done = access::act(settings, false, |access| match access {
        Access::Held(session) => {
            let exit = with_engine(session, None, async |host| {
                let started = host.engine.enqueue(workflow, version, request.clone());
                let started = match started.await {
                    Ok(started) => started,
                    Err(error) => {
                        return Err(not_started(&*session.store, None, error).await.into());
                    }
                };
                let existing = started.existing && !is_made_up;
                let started = Started {
                    existing,
                    ..started
                };
                if !is_waited_for {
                    return print_queued(session, started, false);
                }
                if existing {
                    say_existing(session, started.run);
                }
                let options = WaitOptions {
                    existing: Some(existing),
                    ..options
                };
                foreground::local(host, session, started.run, options).await
            });
            exit.map(Done::Exit)
        }
        Access::Server(session, server) => {
            let started = remote::execute(server, workflow, version, &request)?;
            let existing = started.existing && !is_made_up;
            let started = Started {
                existing,
                ..started
            };
            if !is_waited_for {
                return print_queued(session, started, true).map(Done::Exit);
            }
            if existing {
                say_existing(session, started.run);
            }
            Ok(Done::Started(started))
        }
    })?;
    match done {
        Done::Exit(exit) => Ok(exit),
        Done::Started(Started { run, existing }) => {
            let existing = Some(existing);
            let options = WaitOptions {
                existing,
                ..options
            };
            foreground::follow(settings, run, options)
        }
    }
}
