//! The holder's end: accepts other processes and does what they ask on its engine.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use windlass_core::definition::Limits;
use windlass_core::{RunId, RunStatus};
use windlass_engine::{Begin, Clock as _, SystemClock};
use windlass_orchestrator::Command;

use super::place;
use super::protocol::{Answer, Asked, Request, StartAsked, VERSION, read_line, write_line};
use crate::act;
use crate::carry::Carrier;
use crate::exit::{Exit, Failure};
use crate::launch::{Launch, launch};
use crate::source::prepare_text;

/// The largest trigger, as the engine has it.
const TRIGGER_BYTES: usize = 10 * 1024 * 1024;

/// How long a process may take to say what it wants.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// How many processes are served at once; others wait to be accepted.
const CONNECTIONS: usize = 256;

/// Accepts other processes until it is dropped.
pub(crate) struct Server {
    path: PathBuf,
    task: JoinHandle<()>,
    closing: Arc<AtomicBool>,
}

/// What serving a process needs.
#[derive(Clone)]
struct Holder {
    carrier: Carrier,
    /// The engine is about to stop: what it refuses now is not the answer. The
    /// connection ends instead, and the other process looks for a new holder.
    closing: Arc<AtomicBool>,
}

impl Server {
    /// Listens for other processes. The caller holds the data directory, so that a
    /// socket found there is a dead holder's.
    pub(crate) fn listen(directory: &Path, carrier: &Carrier) -> io::Result<Self> {
        let path = place::prepare(directory)?;
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let closing = Arc::new(AtomicBool::new(false));
        let holder = Holder {
            carrier: carrier.clone(),
            closing: Arc::clone(&closing),
        };
        let task = tokio::spawn(accept(listener, holder));
        Ok(Self {
            path,
            task,
            closing,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        self.task.abort();
        // The next holder replaces it otherwise.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn accept(listener: UnixListener, holder: Holder) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let holder = holder.clone();
                tokio::spawn(async move {
                    // A process that goes away meanwhile needs no answer.
                    let _ = serve(stream, &holder).await;
                    drop(slot);
                });
            }
            // Out of descriptors, most likely: others may free some.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn serve(stream: UnixStream, holder: &Holder) -> io::Result<()> {
    let carrier = &holder.carrier;
    let (input, mut out) = stream.into_split();
    let mut input = BufReader::new(input);
    let asked = tokio::time::timeout(REQUEST_TIME, read_line::<Asked>(&mut input)).await;
    let asked = match asked {
        Ok(Ok(Some(asked))) => asked,
        Ok(Ok(None)) | Err(_) => return Ok(()),
        Ok(Err(error)) => {
            let failure = Failure::new(Exit::Usage, "CONTROL_UNREADABLE", error);
            return write_line(&mut out, &Answer::Refused(failure.into())).await;
        }
    };
    if asked.v != VERSION {
        let message = format!(
            "the process that holds the data directory speaks version {VERSION}, not {}",
            asked.v
        );
        let failure = Failure::new(Exit::Conflict, "CONTROL_VERSION", message);
        return write_line(&mut out, &Answer::Refused(failure.into())).await;
    }
    let answer = match asked.request {
        Request::Watch { run } => return watch(run, input, out, holder).await,
        Request::Start(start) => match bodies(&start, &mut input).await? {
            Ok((definition, trigger)) => begin(*start, definition, trigger, carrier).await,
            Err(failure) => Err(failure),
        },
        request => obey(request, carrier).await,
    };
    if answer.is_err() && holder.closing.load(Ordering::SeqCst) {
        return Ok(());
    }
    let answer = answer.unwrap_or_else(|failure| Answer::Refused(failure.into()));
    write_line(&mut out, &answer).await
}

async fn obey(request: Request, carrier: &Carrier) -> Result<Answer, Failure> {
    let hand = |reason: Option<String>| act::hand(reason.as_deref());
    match request {
        Request::Ping => Ok(Answer::Pong {
            pid: std::process::id(),
        }),
        Request::Cancel { run, reason } => {
            let command = Command::Cancel(hand(reason));
            carrier.engine.command(run, command).await?;
            stands(run, carrier)
        }
        Request::Pause { run, reason } => {
            let command = Command::Pause(hand(reason));
            carrier.engine.command(run, command).await?;
            stands(run, carrier)
        }
        Request::Resume { run, reason } => {
            act::carry_on(carrier, run, hand(reason)).await?;
            carrier.watch_over(run);
            stands(run, carrier)
        }
        Request::Reattempt { run, nodes, reason } => {
            act::reattempt(carrier, run, &nodes, hand(reason)).await?;
            carrier.watch_over(run);
            stands(run, carrier)
        }
        Request::Start(_) | Request::Watch { .. } => Err(Failure::new(
            Exit::Usage,
            "CONTROL_UNREADABLE",
            "the request came without what belongs to it",
        )),
    }
}

fn stands(run: RunId, carrier: &Carrier) -> Result<Answer, Failure> {
    let row = carrier.engine.store().run(run)?;
    let status = row.map_or(RunStatus::Running, |row| row.status);
    Ok(Answer::Done { status })
}

/// Reads what follows the line of a start, within the limits of each.
async fn bodies(
    start: &StartAsked,
    input: &mut BufReader<OwnedReadHalf>,
) -> io::Result<Result<(Vec<u8>, Vec<u8>), Failure>> {
    let limits = [Limits::default().bytes, TRIGGER_BYTES];
    if start.definition_bytes > limits[0] || start.trigger_bytes > limits[1] {
        let message = "the definition or the trigger is larger than allowed";
        return Ok(Err(Failure::new(Exit::Invalid, "INPUT_TOO_LARGE", message)));
    }
    let mut definition = vec![0; start.definition_bytes];
    input.read_exact(&mut definition).await?;
    let mut trigger = vec![0; start.trigger_bytes];
    input.read_exact(&mut trigger).await?;
    Ok(Ok((definition, trigger)))
}

async fn begin(
    start: StartAsked,
    definition: Vec<u8>,
    trigger: Vec<u8>,
    carrier: &Carrier,
) -> Result<Answer, Failure> {
    let definition = tokio::task::spawn_blocking(move || prepare_text(&definition))
        .await
        .map_err(|error| Failure::new(Exit::Storage, "LOAD_FAILED", error))??;
    let trigger = String::from_utf8(trigger)
        .map_err(|error| Failure::new(Exit::Invalid, "TRIGGER_NOT_JSON", error))?;
    let request = Launch {
        definition,
        run: SystemClock.new_run_id(),
        trigger,
        request_id: start.request_id,
        labels: start.labels,
        vars: start.vars,
        begin: Begin::Now,
    };
    let started = launch(&carrier.engine, request).await?;
    if started.existing {
        let row = carrier.engine.store().run(started.run)?;
        if row.is_some_and(|row| !row.status.is_final()) {
            carrier.engine.recover(started.run).await?;
        }
    }
    carrier.watch_over(started.run);
    let (run, existing) = (started.run, started.existing);
    Ok(Answer::Started { run, existing })
}

/// Tells what happens to a run until it ends, or the watcher goes away.
async fn watch(
    run: RunId,
    mut input: BufReader<OwnedReadHalf>,
    mut out: OwnedWriteHalf,
    holder: &Holder,
) -> io::Result<()> {
    let carrier = &holder.carrier;
    let mut watching = carrier.hub.watch(run);
    let carried = carrier.engine.carries(run).await;
    let status = match carrier.engine.store().run(run) {
        Ok(Some(row)) => row.status,
        Ok(None) => RunStatus::Pending,
        Err(error) => {
            let failure = Failure::from(error);
            return write_line(&mut out, &Answer::Refused(failure.into())).await;
        }
    };
    if status.is_final() {
        return write_line(&mut out, &Answer::Finished { status }).await;
    }
    if !carried {
        return write_line(&mut out, &Answer::NotCarried { status }).await;
    }
    write_line(&mut out, &Answer::Watching).await?;
    let end = carrier.engine.wait(run);
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            Some(update) = watching.queue.recv() => {
                write_line(&mut out, &Answer::Update(update)).await?;
                if watching.queue.is_empty() && watching.take_lagged() {
                    write_line(&mut out, &Answer::Lagged).await?;
                }
            }
            ended = &mut end => {
                let answer = match ended {
                    Ok(status) => Answer::Finished { status },
                    Err(_) if holder.closing.load(Ordering::SeqCst) => return Ok(()),
                    Err(error) => Answer::Refused(Failure::from(error).into()),
                };
                return write_line(&mut out, &answer).await;
            }
            // A watcher says nothing more: its end is all there is to read.
            _ = input.read_u8() => return Ok(()),
        }
    }
}
