//! `windlass run`: a definition to its end, durably.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_core::plan::Plan;
use windlass_core::{RunId, RunStatus};
use windlass_engine::{Begin, Clock as _, StartRequest, Started, SystemClock};
use windlass_service::filter;

use crate::access::{self, Access};
use crate::args::Run;
use crate::commands::validate;
use crate::exit::{Exit, Failure};
use crate::foreground::{self, WaitOptions};
use crate::launch::{Launch, Launched, label_problem, launch, refuse_disabled};
use crate::local_engine::{LocalEngine, with_engine};
use crate::overrides::Overrides;
use crate::progress::{Progress, Style};
use crate::remote::{self, Server};
use crate::session::{Session, Settings};
use crate::source::{Source, prepare, read_limited};
use windlass_engine::limits;
use windlass_store::{Published, Wait as _};

/// Runs a definition.
pub(crate) fn run(settings: &Settings, arguments: &Run) -> Result<Exit, Failure> {
    let options = WaitOptions {
        existing: Some(false),
        ..WaitOptions::new(arguments.quiet, arguments.wait)?
    };
    let overrides = Overrides::parse(&arguments.set)?;
    let labels = labels(&arguments.labels)?;
    let trigger = overrides.apply_to_trigger(trigger(arguments.trigger.as_deref())?)?;
    let Source { definition, frozen } = prepare(&arguments.file, &overrides)?;
    let request = StartRequest {
        vars: overrides.vars(&definition.plan)?,
        trigger,
        request_id: arguments.request_id.as_deref().map(Into::into),
        labels,
        ..StartRequest::default()
    };
    let request = Launch {
        frozen,
        begin: match arguments.detach {
            true => Begin::Later,
            false => Begin::Now,
        },
        request,
        ..Launch::new(definition, SystemClock.new_run_id())
    };
    let mut request = Some(request);
    let done = access::act(settings, true, |access| match access {
        Access::Held(session) => {
            let request = request.take().expect("nothing is tried after this");
            validate::warn_of_unknown(session, &arguments.file, &request.definition.plan)?;
            let exit = with_engine(session, arguments.max_parallel, async |host| {
                if arguments.detach {
                    queue(host, session, request).await
                } else {
                    local(host, session, request, options).await
                }
            });
            exit.map(Done::Exit)
        }
        Access::Server(session, server) => {
            let request = request.as_mut().expect("it is taken only at the end");
            let started = submit(session, server, arguments, request)?;
            if arguments.detach {
                return print_queued(session, started, true).map(Done::Exit);
            }
            if started.existing {
                say_existing(session, started.run);
            }
            Ok(Done::Started(started))
        }
    })?;
    match done {
        Done::Exit(exit) => Ok(exit),
        Done::Started(Started { run, existing }) => {
            let existing = Some(existing);
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

/// What came of asking for a run.
pub(super) enum Done {
    Exit(Exit),
    /// A server has started it.
    Started(Started),
}

/// Lets a server start the run. Asking twice starts it once: the request has an id from then on.
fn submit(
    session: &Session,
    server: &Server,
    arguments: &Run,
    request: &mut Launch,
) -> Result<Started, Failure> {
    // The process that holds the data directory has one setting for all runs that it executes.
    if arguments.max_parallel.is_some() && server.holder().is_none() {
        let message = "--max-parallel is for this process; a server has its own setting";
        return Err(Failure::new(Exit::Usage, "SERVER_UNSUPPORTED", message)
            .hint("write `maxParallel` into the definition"));
    }
    let workflow = request.definition.plan.workflow();
    refuse_disabled(&*session.store, None, workflow).wait()?;
    let newest = match request.frozen {
        true => None,
        false => session
            .store
            .versions(None, workflow)
            .wait()?
            .into_iter()
            .next(),
    };
    let newest = newest.filter(|row| row.digest == request.definition.digest);
    let version = match newest {
        Some(row) => Some(row.version),
        None if request.frozen => None,
        None => {
            windlass_engine::check_trigger(&request.definition.plan, &request.request.trigger)?;
            let published = remote::publish(server, &request.definition, false)?;
            if !arguments.quiet {
                say_published(session, workflow, published);
            }
            Some(published.version)
        }
    };
    let own = &mut request.request.request_id;
    own.get_or_insert_with(|| request.run.to_string().into());
    let started = remote::start(server, version, request)?;
    let existing = started.existing && !has_made_up_id(request);
    Ok(Started {
        existing,
        ..started
    })
}

/// Says that the definition has become a new version of its workflow.
fn say_published(session: &Session, workflow: &str, published: Published) {
    let Published { version, created } = published;
    if created {
        let output = session.settings.output;
        output.say(&format!("published {workflow} version {version}"));
    }
}

/// Says which node will wait, because the workers here lack what it requires.
fn warn_of_labels(session: &Session, plan: &Plan) {
    let labels = &session.settings.worker_labels;
    let lacking = (0..plan.total() as u32)
        .find_map(|node| Some((node, labels.lacking(plan.requires(node))?)));
    if let Some((node, label)) = lacking {
        let all = plan.requires(node).join(",");
        session.settings.output.say(&format!(
            "{} waits for a worker with the label '{label}', which this process has not; \
             with it: WINDLASS_WORKER_LABELS={all} windlass resume @last",
            plan.static_path(node),
        ));
    }
}

/// Starts the run here and executes it to its end.
async fn local(
    host: &LocalEngine,
    session: &Session,
    request: Launch,
    options: WaitOptions,
) -> Result<Exit, Failure> {
    let own = request.run;
    warn_of_labels(session, &request.definition.plan);
    let style = Style::of(session.settings.output, options.quiet);
    let progress = Progress::of_new(own, &request.definition.plan, style);
    host.event_fanout.follow(own, &progress);
    let Started { run, existing } = start(host, session, request, options.quiet).await?;
    if existing {
        say_existing(session, run);
    }
    if run != own {
        drop(progress);
        let existing = Some(existing);
        return foreground::local(
            host,
            session,
            run,
            WaitOptions {
                existing,
                ..options
            },
        )
        .await;
    }
    progress.begin();
    host.look_around(session, Some(run));
    host.to_the_end(session, run, &progress, options).await
}

/// Queues the run; the next process that holds the data directory executes it.
async fn queue(host: &LocalEngine, session: &Session, request: Launch) -> Result<Exit, Failure> {
    print_queued(session, start(host, session, request, false).await?, false)
}

/// Starts the run on the engine of this process.
async fn start(
    host: &LocalEngine,
    session: &Session,
    request: Launch,
    quiet: bool,
) -> Result<Started, Failure> {
    let made_up = has_made_up_id(&request);
    let workflow = request.definition.plan.workflow().to_owned();
    let Launched { started, published } = launch(&host.engine, request).await?;
    if let Some(published) = published.filter(|_| !quiet) {
        say_published(session, &workflow, published);
    }
    let existing = started.existing && !made_up;
    Ok(Started {
        existing,
        ..started
    })
}

/// Whether this process, not the user, gave the request its id: a run found under the id is
/// then this request's own, started by a holder that exited before it answered.
fn has_made_up_id(request: &Launch) -> bool {
    request.request.request_id.as_deref() == Some(&*request.run.to_string())
}

pub(super) fn say_existing(session: &Session, run: RunId) {
    session.settings.output.say(&format!(
        "the request id has been used before, by run {run}: it is not started again"
    ));
}

pub(super) fn print_queued(
    session: &Session,
    started: Started,
    acquired: bool,
) -> Result<Exit, Failure> {
    let Started { run, existing } = started;
    let output = session.settings.output;
    let status = session.status(run)?;
    if existing {
        say_existing(session, run);
    }
    if output.json {
        let answer = json!({ "executionId": run, "status": status, "existing": existing });
        output.json(&answer)?;
    } else {
        output.data(&run.to_string())?;
        if status == RunStatus::Pending && !acquired {
            output.say(&format!(
                "queued; the next `windlass run` or `windlass resume` here executes it, \
                 or now: windlass resume {run}"
            ));
        }
    }
    Ok(Exit::Done)
}

/// The trigger's JSON text.
pub(super) fn trigger(argument: Option<&str>) -> Result<String, Failure> {
    let Some(argument) = argument else {
        return Ok("{}".to_owned());
    };
    let Some(file) = argument.strip_prefix('@') else {
        return Ok(argument.to_owned());
    };
    let bytes = read_limited(file.as_ref(), limits().payload_bytes, |message| {
        Failure::new(Exit::Invalid, "TRIGGER_TOO_LARGE", message)
    })?;
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("the trigger in {file} is not UTF-8 text");
        Failure::new(Exit::Invalid, "TRIGGER_NOT_JSON", message)
    })
}

/// Labels as KEY=VALUE.
pub(super) fn labels(arguments: &[String]) -> Result<BTreeMap<Box<str>, Box<str>>, Failure> {
    let labels = filter::labels(arguments)?;
    let parts = labels.iter().map(|(key, value)| (&**key, &**value));
    if let Some(message) = label_problem(parts) {
        return Err(Failure::new(Exit::Usage, "LABEL_INVALID", message));
    }
    Ok(labels)
}
