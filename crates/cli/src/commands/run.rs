//! `windlass run`: a definition to its end, durably.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_core::RunStatus;
use windlass_engine::{Begin, Clock as _, SystemClock};

use crate::access::{self, Access};
use crate::args::Run;
use crate::carry::{Carrier, carry};
use crate::control::{Answer, Client, Heard, Request, StartAsked};
use crate::exit::{Exit, Failure};
use crate::foreground::{self, Manner};
use crate::launch::{Launch, launch};
use crate::overrides::Overrides;
use crate::progress::{Progress, Style};
use crate::session::{Session, Settings};
use crate::source::{prepare, read_limited};

/// The largest trigger that is read from a file.
const TRIGGER_BYTES: usize = 10 * 1024 * 1024;

/// Runs a definition.
pub(crate) fn run(settings: &Settings, arguments: &Run) -> Result<Exit, Failure> {
    let manner = Manner::new(arguments.quiet, arguments.wait)?;
    let overrides = Overrides::parse(&arguments.set)?;
    let labels = labels(&arguments.labels)?;
    let trigger = overrides.apply_to_trigger(trigger(arguments.trigger.as_deref())?)?;
    let definition = prepare(&arguments.file, &overrides)?;
    let mut request = Launch {
        vars: overrides.vars(&definition.plan)?,
        definition,
        run: SystemClock.new_run_id(),
        trigger,
        request_id: arguments.request_id.as_deref().map(Into::into),
        labels,
        begin: if arguments.detach {
            Begin::Later
        } else {
            Begin::Now
        },
    };
    loop {
        match access::open(settings, true)? {
            Access::Held(session) => {
                return carry(&session, arguments.max_parallel, async |carrier| {
                    if arguments.detach {
                        queue(carrier, &session, request).await
                    } else {
                        local(carrier, &session, request, manner).await
                    }
                });
            }
            Access::Through(session, client) => {
                match submit(&session, &client, request, arguments.detach)? {
                    Submitted::Answered(exit) => return Ok(exit),
                    Submitted::Started(run) => {
                        drop(session);
                        return foreground::follow(settings, run, manner);
                    }
                    Submitted::Gone(again) => request = *again,
                }
            }
        }
    }
}

/// Starts the run here and carries it to its end.
async fn local(
    carrier: &Carrier,
    session: &Session,
    request: Launch,
    manner: Manner,
) -> Result<Exit, Failure> {
    let run = request.run;
    let style = Style::of(session.settings.output, manner.quiet);
    let progress = Progress::of_new(run, &request.definition.plan, style);
    carrier.hub.follow(run, &progress);
    let started = launch(&carrier.engine, request).await?;
    if started.existing {
        say_existing(session, &started.run.to_string());
        drop(progress);
        return foreground::local(carrier, session, started.run, manner).await;
    }
    progress.begin();
    carrier.look_around(session, Some(run));
    carrier
        .to_the_end(session, run, &progress, manner.until)
        .await
}

/// Queues the run; whoever next holds the data directory carries it on.
async fn queue(carrier: &Carrier, session: &Session, request: Launch) -> Result<Exit, Failure> {
    let started = launch(&carrier.engine, request).await?;
    let row = carrier.engine.store().run(started.run)?;
    let status = row.map_or(RunStatus::Pending, |row| row.status);
    print_queued(session, &started.run.to_string(), status, started.existing)
}

enum Submitted {
    Answered(Exit),
    Started(windlass_core::RunId),
    /// The holder went away before it answered: the same is asked again. If it did start
    /// the run, the request id finds it.
    Gone(Box<Launch>),
}

/// Hands the run to the process that holds the data directory.
fn submit(
    session: &Session,
    client: &Client,
    mut request: Launch,
    detach: bool,
) -> Result<Submitted, Failure> {
    // Asking twice must start once, also if the holder goes away before it answers.
    let request_id = request
        .request_id
        .get_or_insert_with(|| request.run.to_string().into())
        .clone();
    let asked = StartAsked {
        definition_bytes: request.definition.text.len(),
        trigger_bytes: request.trigger.len(),
        request_id: Some(request_id),
        labels: request.labels.clone(),
        vars: request.vars.clone(),
    };
    let bodies = [&*request.definition.text, request.trigger.as_bytes()];
    let asking = client.ask(Request::Start(Box::new(asked)), &bodies);
    let heard = access::runtime()?.block_on(asking)?;
    match heard {
        Heard::Answer(Answer::Started { run, existing }) => {
            if existing {
                say_existing(session, &run.to_string());
            }
            if detach {
                let status = RunStatus::Running;
                return print_queued(session, &run.to_string(), status, existing)
                    .map(Submitted::Answered);
            }
            Ok(Submitted::Started(run))
        }
        Heard::Answer(_) => {
            let message = format!("{} gave an unexpected answer", client.holder());
            Err(Failure::new(Exit::Conflict, "DATA_DIR_IN_USE", message))
        }
        Heard::Gone => Ok(Submitted::Gone(Box::new(request))),
    }
}

fn say_existing(session: &Session, run: &str) {
    session.settings.output.say(&format!(
        "the request id has been used before, by run {run}: it is not started again"
    ));
}

fn print_queued(
    session: &Session,
    run: &str,
    status: RunStatus,
    existing: bool,
) -> Result<Exit, Failure> {
    let output = session.settings.output;
    if output.json {
        let answer = json!({ "executionId": run, "status": status, "existing": existing });
        output.json(&answer)?;
    } else {
        output.data(run)?;
        if status == RunStatus::Pending {
            output.say(&format!(
                "queued; the next `windlass run` or `windlass resume` here carries it on, \
                 or now: windlass resume {run}"
            ));
        }
    }
    Ok(Exit::Done)
}

/// The trigger's JSON text.
fn trigger(argument: Option<&str>) -> Result<String, Failure> {
    let Some(argument) = argument else {
        return Ok("{}".to_owned());
    };
    let Some(file) = argument.strip_prefix('@') else {
        return Ok(argument.to_owned());
    };
    let bytes = read_limited(file.as_ref(), TRIGGER_BYTES)?;
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("the trigger in {file} is not UTF-8 text");
        Failure::new(Exit::Invalid, "TRIGGER_NOT_JSON", message)
    })
}

fn labels(arguments: &[String]) -> Result<BTreeMap<Box<str>, Box<str>>, Failure> {
    let label = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => {
            let message = format!("--label {text}: a label is KEY=VALUE");
            Err(Failure::new(Exit::Usage, "USAGE", message))
        }
    };
    arguments.iter().map(label).collect()
}
