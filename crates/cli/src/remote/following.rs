//! Follows a run that a server executes: each event of its stream makes the client read what
//! is new in the log and fold it into the state in memory, which progress shows. A stream that
//! breaks is requested again from where it was.
//!
//! The process that holds a data directory is also asked for the run's end. When it ends
//! before, the run is to be followed elsewhere.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::{RunId, RunStatus};
use windlass_engine::history::Follow;
use windlass_engine::{Backend, Plans};
use windlass_store::Wait as _;

use super::holder_run::{self, HolderRun};
use super::question::Question;
use super::server::Server;
use super::stream::{Reader, StreamMessage};
use super::telling::show;
use crate::ending;
use crate::exit::{Exit, Failure};
use crate::foreground::WaitOptions;
use crate::interrupt::Interrupt;
use crate::progress::{Progress, Style};
use crate::session::Session;

/// How much of a log is folded at a time.
const PAGE_BYTES: usize = 512 * 1024;

/// The time between two looks at the log: at first, and after so many.
const LOOKS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
const QUICK_LOOKS: u32 = 30;

/// The time between two looks at whether the run has become a dead letter.
const LETTER_LOOKS: Duration = Duration::from_secs(2);

/// A stream says at least this often that it is there.
const SILENCE: Duration = Duration::from_secs(60);

/// The shortest and the longest rest before a stream is asked for again.
const RESTS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// A server that is away for longer than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// How following ended.
pub(crate) enum Followed {
    /// The run has ended, or is not waited for any more.
    Exit(Exit),
    /// The process that held the data directory has ended; this is how the run stands.
    Gone(RunStatus),
    /// The process is there, and does not execute the run.
    NotAcquired(RunStatus),
    /// The run has become a dead letter.
    DeadLetter,
}

enum Ended {
    Run(RunStatus),
    Left(Exit),
    Gone,
    NotAcquired(RunStatus),
    DeadLetter,
}

/// Follows a run to its end, and prints that.
pub(crate) fn follow(
    session: &Session,
    server: &Server,
    run: RunId,
    options: WaitOptions,
) -> Result<Followed, Failure> {
    let ended = server.block_on(watch(session, server, run, options))?;
    let output = session.settings.output;
    let status = match ended? {
        Ended::NotAcquired(status) => return Ok(Followed::NotAcquired(status)),
        Ended::DeadLetter => return Ok(Followed::DeadLetter),
        Ended::Left(exit) => {
            let address = server.address();
            let place = match server.holder() {
                Some(_) => "in",
                None => "at",
            };
            let message = format!("stopped watching; run {run} goes on {place} {address}");
            return output.left(exit, &message).map(Followed::Exit);
        }
        Ended::Gone => {
            let row = session.store.run(run).wait()?;
            let status = row.map_or(RunStatus::Pending, |row| row.status);
            if !status.is_final() {
                if options.recover {
                    output.say(&format!("{} has ended; taking over", server.address()));
                }
                return Ok(Followed::Gone(status));
            }
            status
        }
        Ended::Run(status) => status,
    };
    ending::print(session, &session.plans, run, options)?;
    Ok(Followed::Exit(status.into()))
}

async fn watch(
    session: &Session,
    server: &Server,
    run: RunId,
    options: WaitOptions,
) -> Result<Ended, Failure> {
    let interrupt = Interrupt::listen()?;
    // What has happened is shown, also of a run that has ended meanwhile.
    let is_new = options.existing == Some(false);
    let shows_all = is_new || options.since.is_some();
    if server.holder().is_some() {
        match holder_run::status(server, run).await {
            Ok(HolderRun { status, .. }) if status.is_final() && !shows_all => {
                return Ok(Ended::Run(status));
            }
            Ok(HolderRun { status, .. }) if status.is_final() => {}
            Ok(HolderRun { carried: true, .. }) => {}
            Ok(HolderRun { status, .. }) => return Ok(Ended::NotAcquired(status)),
            Err(failure) if server.is_gone(&failure) => return Ok(Ended::Gone),
            Err(failure) => return Err(failure),
        }
    }
    let mut follower = Follower {
        server: server.clone(),
        store: Arc::clone(&session.store),
        plans: session.plans.clone(),
        run,
        follow: None,
        position: 0,
        progress: None,
        style: Style::of(session.settings.output, options.quiet),
        is_new,
        since: options.since,
        looked: Instant::now(),
        looks: 0,
    };
    let ended = tokio::select! {
        status = follower.listen(session) => status.map(Ended::Run),
        ended = end(server, run) => ended,
        () = becomes_dead_letter(session, run) => Ok(Ended::DeadLetter),
        () = interrupt.asked() => Ok(Ended::Left(Exit::Interrupted)),
        () = sleep_until(options.until) => Ok(Ended::Left(Exit::TimedOut)),
    };
    if let (Ok(Ended::Run(_)), Some(_)) = (&ended, server.holder()) {
        // It may tell of the end before its last events have come. What cannot be read now is read
        // again, and its failure reported, when the end is printed.
        let _ = follower.catch_up().await;
    }
    if let Some(progress) = &follower.progress {
        progress.finish(match &ended {
            Ok(Ended::Run(status)) => Some(*status),
            _ => None,
        });
    }
    ended
}

/// Waits for the run's end or its own with the process that holds the data directory. A server
/// at an address is not asked: it is waited for when it is away.
async fn end(server: &Server, run: RunId) -> Result<Ended, Failure> {
    if server.holder().is_none() {
        return std::future::pending().await;
    }
    match holder_run::ended(server, run).await {
        Ok(status) => Ok(Ended::Run(status)),
        Err(failure) if server.is_gone(&failure) => Ok(Ended::Gone),
        Err(failure) => Err(failure),
    }
}

/// Waits until the run is a dead letter. No event tells of it: a run that cannot be executed cannot
/// record that.
async fn becomes_dead_letter(session: &Session, run: RunId) {
    loop {
        tokio::time::sleep(LETTER_LOOKS).await;
        let store = Arc::clone(&session.store);
        let looking = tokio::task::spawn_blocking(move || store.run(run).wait());
        if let Ok(Ok(Some(row))) = looking.await
            && row.is_dead_letter()
        {
            return;
        }
    }
}

struct Follower {
    server: Server,
    store: Arc<dyn Backend>,
    plans: Plans,
    run: RunId,
    /// None while a thread reads, and after a read failed.
    follow: Option<Follow>,
    /// The last event that was shown, or needs not be.
    position: u64,
    /// There once the run's state is known.
    progress: Option<Arc<Progress>>,
    style: Style,
    /// Whether it began just now: all of its events are shown.
    is_new: bool,
    /// The last record before what is shown, until the log was read up to it.
    since: Option<u64>,
    looked: Instant,
    looks: u32,
}

/// How a stream ended.
enum Broken {
    /// It was there, and is to be asked for again.
    Again,
    /// It could not be had.
    Away(Failure),
}

impl Follower {
    /// Listens until the run has ended.
    async fn listen(&mut self, session: &Session) -> Result<RunStatus, Failure> {
        let mut status = self.catch_up().await?;
        let (mut rest, mut away, mut said) = (RESTS.0, None::<Instant>, false);
        while !status.is_final() {
            let began = Instant::now();
            let broken = match self.stream().await {
                Ok(ended) => return Ok(ended),
                Err(broken) => broken,
            };
            if let Broken::Away(failure) = broken {
                let since = *away.get_or_insert_with(Instant::now);
                let is_process = self.server.holder().is_some();
                if !is_passing(&failure) || (!is_process && since.elapsed() > PATIENCE) {
                    return Err(failure.hint(format!(
                        "the run continues on the server: windlass watch {}",
                        self.run
                    )));
                }
                // The end of a process is noticed elsewhere.
                if !std::mem::replace(&mut said, true) && !is_process {
                    let why = &failure.message;
                    let output = session.settings.output;
                    output.say(&format!("{why}; trying again"));
                }
                tokio::time::sleep(rest).await;
                rest = (rest * 2).min(RESTS.1);
            } else {
                away = None;
                // One that breaks at once is asked for less and less often.
                rest = match began.elapsed() < RESTS.1 {
                    true => (rest * 2).min(RESTS.1),
                    false => RESTS.0,
                };
                tokio::time::sleep(rest).await;
            }
            status = match self.catch_up().await {
                Ok(status) => status,
                Err(failure) if is_passing(&failure) => status,
                Err(failure) => return Err(failure),
            };
        }
        Ok(status)
    }

    /// Follows one stream; gives the status that the run ended with.
    async fn stream(&mut self) -> Result<RunStatus, Broken> {
        let server = self.server.clone();
        let run = self.run.to_string();
        let question = Question {
            accept: "text/event-stream",
            time: None,
            last_event: Some(self.position),
            ..Question::get(server.url(&["executions", &run, "events"]))
        };
        let answer = tokio::time::timeout(SILENCE, server.send(question)).await;
        let mut answer = match answer {
            Err(_) => return Err(Broken::Again),
            Ok(answer) => answer.map_err(Broken::Away)?,
        };
        if !answer.status().is_success() {
            let refused = server.whole(answer).await;
            return Err(refused.map_or_else(Broken::Away, |_| Broken::Again));
        }
        let mut reader = Reader::default();
        let mut due: Option<Instant> = None;
        loop {
            let piece = tokio::select! {
                piece = tokio::time::timeout(SILENCE, answer.chunk()) => Some(piece),
                () = sleep_until(due) => None,
            };
            let told = match piece {
                Some(Ok(Ok(Some(piece)))) => reader.take(&piece),
                Some(_) => return Err(Broken::Again),
                None => Vec::new(),
            };
            // What comes at once is looked at together, and the end at once.
            let is_due = due.is_some_and(|due| due <= Instant::now());
            if is_due || told.iter().any(|told| *told != StreamMessage::Event) {
                due = None;
                let status = self.catch_up().await.map_err(Broken::Away)?;
                if status.is_final() {
                    return Ok(status);
                }
            } else if !told.is_empty() {
                due.get_or_insert(self.looked + self.rest());
            }
            if told.contains(&StreamMessage::Again) {
                return Err(Broken::Again);
            }
        }
    }

    /// The time between two reads: a server limits requests, and a client that follows for long
    /// must leave some for others.
    fn rest(&self) -> Duration {
        match self.looks {
            _ if self.server.holder().is_some() => LOOKS.0,
            0..QUICK_LOOKS => LOOKS.0,
            _ => LOOKS.1,
        }
    }

    /// Reads what is new in the log, and shows it; gives how the run stands then.
    async fn catch_up(&mut self) -> Result<RunStatus, Failure> {
        self.looks = self.looks.saturating_add(1);
        loop {
            let follow = self.follow.take();
            let mut follow = follow.unwrap_or_else(|| Follow::new(self.run));
            let (store, plans) = (Arc::clone(&self.store), self.plans.clone());
            let through = self.since.unwrap_or(u64::MAX);
            let reading = tokio::task::spawn_blocking(move || {
                let page = follow.step_through(&*store, &plans, through, PAGE_BYTES);
                (follow, page)
            });
            let (follow, page) = match reading.await {
                Ok(read) => read,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            };
            self.looked = Instant::now();
            let explain = |error| self.server.explain(Failure::from(error));
            let (mut events, more) = page.map_err(explain)?;
            let seen = self.position;
            events.retain(|event| event.position > seen);
            self.position = follow.position().max(seen);
            let follow = self.follow.insert(follow);
            let Some(run) = follow.run() else {
                return Err(windlass_engine::LoadError::NotFound(self.run).into());
            };
            if self.progress.is_none() && (self.is_new || !more) {
                let progress = match self.is_new {
                    true => Progress::of_new(self.run, run.plan(), self.style),
                    // Earlier events are not shown.
                    false => {
                        events.clear();
                        Progress::of_run(run, self.style)
                    }
                };
                progress.begin();
                self.progress = Some(progress);
            }
            if let Some(progress) = self.progress.as_ref().filter(|_| !events.is_empty()) {
                show(progress, run, &events);
            }
            if !more && self.since.take().is_none() {
                return Ok(run.status());
            }
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Whether asking again may help.
fn is_passing(failure: &Failure) -> bool {
    const PASSING: [&str; 7] = [
        "RATE_LIMITED",
        "UNAVAILABLE",
        "TIMED_OUT",
        "ENGINE_STOPPED",
        "STORE_UNAVAILABLE",
        "STORE_FULL",
        "STORE_TIMEOUT",
    ];
    failure.exit == Exit::Unreachable || PASSING.contains(&&*failure.code)
}
