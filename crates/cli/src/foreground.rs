//! Carrying one run to its end in the foreground: in this process if it holds the data
//! directory, else by watching the process that does, and taking over if that ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::{RunId, RunStatus};
use windlass_engine::load_latest;

use crate::access::{self, Access};
use crate::act;
use crate::carry::{Carrier, carry};
use crate::control::{Answer, Client, Heard, Request, Update};
use crate::deed::{Deed, Doing};
use crate::ending;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::progress::{Progress, Style};
use crate::remote;
use crate::session::{Session, Settings};

/// How to be in the foreground.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// No progress.
    pub(crate) quiet: bool,
    /// Wait no longer than until then.
    pub(crate) until: Option<Instant>,
    /// Carry the run on here if nobody else does.
    pub(crate) take_over: bool,
    /// In the answer to a request: whether an earlier one had started the run.
    pub(crate) existing: Option<bool>,
}

impl Manner {
    /// Waits as long as asked for, and takes over.
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
            take_over: true,
            existing: None,
        })
    }
}

/// How watching ended.
enum Watched {
    Exit(Exit),
    /// The holder is gone; this is how the run stands.
    Gone(RunStatus),
    /// The holder is there, and does not carry the run on.
    NotCarried(RunStatus),
}

/// Follows a run to its end, wherever it goes on.
pub(crate) fn follow(settings: &Settings, run: RunId, manner: Manner) -> Result<Exit, Failure> {
    loop {
        match access::open(settings, false)? {
            Access::Held(session) => {
                return carry(&session, None, async |carrier| {
                    local(carrier, &session, run, manner).await
                });
            }
            Access::Server(session, server) => {
                return remote::follow(&session, &server, run, manner);
            }
            Access::Through(session, client) => match watch(&session, &client, run, manner)? {
                Watched::Exit(exit) => return Ok(exit),
                Watched::Gone(_) => {}
                Watched::NotCarried(_) => {
                    let doing = Doing::new(Deed::Resume, None);
                    let asking = client.ask(Request::act(run, &doing), &[]);
                    access::runtime()?.block_on(asking)?;
                }
            },
        }
    }
}

/// Carries a run on in this process, from where it stands.
pub(crate) async fn local(
    carrier: &Carrier,
    session: &Session,
    run: RunId,
    manner: Manner,
) -> Result<Exit, Failure> {
    let status = session.status(run)?;
    if status.is_final() {
        ending::print(session, carrier.engine.plans(), run, manner.existing)?;
        return Ok(status.into());
    }
    let progress = show(carrier, session, run, manner.quiet).await?;
    carrier.engine.recover(run).await?;
    carrier.look_around(session, Some(run));
    carrier.to_the_end(session, run, &progress, manner).await
}

/// Begins to show a run's progress from where it stands.
pub(crate) async fn show(
    carrier: &Carrier,
    session: &Session,
    run: RunId,
    quiet: bool,
) -> Result<Arc<Progress>, Failure> {
    let loaded = act::load(&carrier.engine, run).await?;
    let style = Style::of(session.settings.output, quiet);
    let progress = Progress::of_run(&loaded.run, style);
    carrier.hub.follow(run, &progress);
    progress.begin();
    Ok(progress)
}

/// Watches a run that another process carries on. Without taking over, a run that
/// nobody carries on is said to be so.
pub(crate) fn watch_only(
    session: &Session,
    client: &Client,
    run: RunId,
    manner: Manner,
) -> Result<Exit, Failure> {
    match watch(session, client, run, manner)? {
        Watched::Exit(exit) => Ok(exit),
        Watched::Gone(status) | Watched::NotCarried(status) => Err(nobody(run, status)),
    }
}

/// Nobody carries the run on.
pub(crate) fn nobody(run: RunId, status: RunStatus) -> Failure {
    let message = format!("nobody carries run {run} on; it is {status}");
    Failure::new(Exit::TimedOut, "RUN_NOT_CARRIED", message)
        .hint(format!("`windlass resume {run}` carries it on"))
}

/// Watches until the run ends, the holder goes, or the person does.
fn watch(
    session: &Session,
    client: &Client,
    run: RunId,
    manner: Manner,
) -> Result<Watched, Failure> {
    let runtime = access::runtime()?;
    let watched = runtime.block_on(async {
        let interrupt = Interrupt::listen()?;
        let time = async {
            match manner.until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        let mut progress = None;
        let heard = tokio::select! {
            heard = listen(session, client, run, manner, &mut progress) => heard,
            () = interrupt.asked() => Ok(Ended::Left(Exit::Interrupted)),
            () = time => Ok(Ended::Left(Exit::TimedOut)),
        };
        if let Some(progress) = progress {
            progress.finish(match &heard {
                Ok(Ended::Run(status)) => Some(*status),
                _ => None,
            });
        }
        heard
    })?;
    let output = session.settings.output;
    Ok(match watched {
        Ended::Run(status) => {
            ending::print(session, &session.plans, run, manner.existing)?;
            Watched::Exit(status.into())
        }
        Ended::Left(exit) => {
            let holder = client.holder();
            let message = format!("stopped watching; run {run} goes on in {holder}");
            Watched::Exit(output.left(exit, &message)?)
        }
        Ended::NotCarried(status) => Watched::NotCarried(status),
        Ended::Gone => {
            let row = windlass_store::Queries::run(&*session.store, run)?;
            let status = row.map_or(RunStatus::Pending, |row| row.status);
            if status.is_final() {
                ending::print(session, &session.plans, run, manner.existing)?;
                Watched::Exit(status.into())
            } else {
                if manner.take_over {
                    output.say(&format!("{} has ended; taking over", client.holder()));
                }
                Watched::Gone(status)
            }
        }
    })
}

enum Ended {
    Run(RunStatus),
    Left(Exit),
    Gone,
    NotCarried(RunStatus),
}

async fn listen(
    session: &Session,
    client: &Client,
    run: RunId,
    manner: Manner,
    shown: &mut Option<Arc<Progress>>,
) -> Result<Ended, Failure> {
    let Ok(mut conversation) = client.begin(Request::Watch { run }, &[]).await else {
        return Ok(Ended::Gone);
    };
    loop {
        let Heard::Answer(answer) = client.hear(&mut conversation).await? else {
            return Ok(Ended::Gone);
        };
        match (answer, shown.as_ref()) {
            (Answer::Finished { status }, _) => return Ok(Ended::Run(status)),
            (Answer::NotCarried { status }, _) => return Ok(Ended::NotCarried(status)),
            // The state is read after the updates have begun, so that nothing is missed.
            (Answer::Watching, _) => {
                let loaded = load_latest(&*session.store, &session.plans, run)?;
                let style = Style::of(session.settings.output, manner.quiet);
                let progress = Progress::of_run(&loaded.run, style);
                progress.begin();
                *shown = Some(progress);
            }
            (Answer::Lagged, Some(progress)) => {
                let loaded = load_latest(&*session.store, &session.plans, run)?;
                progress.take_over(&loaded.run);
            }
            (Answer::Update(update), Some(progress)) => show_update(progress, update),
            _ => {}
        }
    }
}

fn show_update(progress: &Progress, update: Update) {
    match update {
        Update::Dispatched { node, path, action } => progress.dispatched(node, &path, &action),
        Update::Nodes { nodes, standings } => progress.changed(&nodes, &standings),
        Update::Failed {
            node,
            code,
            message,
            again,
        } => progress.failed(&node, &code, &message, again),
        Update::Phase { phase } => progress.phase(phase),
    }
}

/// Refuses to carry on what has ended, with what to do instead.
pub(crate) fn refuse_ended(run: RunId, status: RunStatus) -> Result<(), Failure> {
    if status.is_final() {
        return Err(act::ended(run, status).into());
    }
    Ok(())
}
