//! The holder's end: accepts other processes and does what they ask on its engine.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use windlass_core::{RunId, RunStatus};
use windlass_engine::{Clock as _, Engine, Started, SystemClock};
use windlass_store::crash;

use super::audit;
use super::gate::Gate;
use super::place;
use super::protocol::{Answer, Asked, Request, StartAsked, VERSION, read_line, write_line};
use crate::act;
use crate::carry::Carrier;
use crate::catalogue;
use crate::deed::{Deed, Doing};
use crate::exit::{Exit, Failure};
use crate::forking;
use crate::launch::{Launch, launch};
use crate::source::prepare_text;
use windlass_engine::limits;

/// How long a process may take to say what it wants.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// How many processes are served at once; others wait to be accepted.
const CONNECTIONS: usize = 256;

/// How long the answers of commands under way may take when the holder ends.
const LAST_ANSWERS: Duration = Duration::from_secs(30);

/// Accepts other processes until it is closed, or dropped.
pub(crate) struct Server {
    path: PathBuf,
    task: JoinHandle<()>,
    gate: Gate,
}

/// What serving a process needs.
#[derive(Clone)]
struct Holder {
    carrier: Carrier,
    /// Once it is closed, the connection of whoever has not asked yet ends, and the other
    /// process looks for a new holder. What was let in is answered.
    gate: Gate,
}

impl Server {
    /// Listens for other processes. The caller holds the data directory, so that a
    /// socket found there is a dead holder's.
    pub(crate) fn listen(directory: &Path, carrier: &Carrier) -> io::Result<Self> {
        let path = place::prepare(directory)?;
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let gate = Gate::default();
        let holder = Holder {
            carrier: carrier.clone(),
            gate: gate.clone(),
        };
        let task = tokio::spawn(accept(listener, holder));
        Ok(Self { path, task, gate })
    }

    /// Accepts nobody more, and waits until every command under way has its answer. The
    /// engine must not be stopped before.
    pub(crate) async fn close(self) {
        self.gate.close();
        self.task.abort();
        // One that takes longer is asked of the next holder again.
        let _ = tokio::time::timeout(LAST_ANSWERS, self.gate.empty()).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.gate.close();
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
    let reading = tokio::time::timeout(REQUEST_TIME, request(&mut input));
    let asked = tokio::select! {
        asked = reading => asked,
        () = holder.gate.closed() => return Ok(()),
    };
    let (asked, bodies) = match asked {
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
    if let Request::Watch { run } = asked.request {
        return watch(run, input, out, holder).await;
    }
    let Some(under_way) = holder.gate.enter() else {
        return Ok(());
    };
    let answer = match bodies {
        Ok(bodies) => obey(asked.request, bodies, carrier).await,
        Err(failure) => Err(failure),
    };
    if !matches!(answer, Ok(Answer::Pong { .. }))
        && let Some(late) = crash::setting("WINDLASS_ANSWER_LATE_MS")
    {
        tokio::time::sleep(Duration::from_millis(late)).await;
    }
    let answer = answer.unwrap_or_else(|failure| Answer::Refused(failure.into()));
    // Whoever does not read must not keep the holder.
    let written = tokio::time::timeout(REQUEST_TIME, write_line(&mut out, &answer)).await;
    drop(under_way);
    written.unwrap_or(Ok(()))
}

/// What follows the line of a request: the definition, and the trigger.
type Bodies = (Vec<u8>, Vec<u8>);

/// Reads a request with everything that belongs to it; nothing at the end of the stream.
async fn request(
    input: &mut BufReader<OwnedReadHalf>,
) -> io::Result<Option<(Asked, Result<Bodies, Failure>)>> {
    let Some(asked) = read_line::<Asked>(input).await? else {
        return Ok(None);
    };
    let (definition, trigger) = match &asked.request {
        Request::Start(start) => (start.definition_bytes, start.trigger_bytes),
        Request::Publish { definition_bytes } => (*definition_bytes, 0),
        Request::Act {
            deed: Deed::Import,
            body_bytes,
            ..
        } => {
            let (body, _) = bodies(*body_bytes, 0, input).await?.unwrap_or_default();
            return Ok(Some((asked, Ok((Vec::new(), body)))));
        }
        Request::Act { body_bytes, .. } => (0, *body_bytes),
        _ => (0, 0),
    };
    let bodies = bodies(definition, trigger, input).await?;
    Ok(Some((asked, bodies)))
}

/// Does what is asked, and keeps who changed what.
async fn obey(request: Request, bodies: Bodies, carrier: &Carrier) -> Result<Answer, Failure> {
    let entry = audit::entry(&request);
    let answer = change(request, bodies, carrier).await?;
    if let Some(entry) = entry {
        let entry = audit::named(entry, &answer);
        carrier.engine.store().note(vec![entry]).await?;
    }
    Ok(answer)
}

async fn change(request: Request, bodies: Bodies, carrier: &Carrier) -> Result<Answer, Failure> {
    match request {
        Request::Start(start) => begin(*start, bodies, carrier).await,
        Request::Publish { .. } => publish(bodies.0, carrier).await,
        Request::SetEnabled { workflow, enabled } => {
            on_store(carrier, move |engine| {
                catalogue::set_enabled(&**engine.store(), None, &workflow, enabled)?;
                engine.catalogue_changed(None, &workflow);
                Ok(())
            })
            .await?;
            Ok(Answer::Set)
        }
        Request::Rebuild => {
            let rebuilding = on_store(carrier, |engine| {
                Ok(catalogue::rebuild(
                    &**engine.store(),
                    engine.plans(),
                    |_| {},
                )?)
            });
            Ok(Answer::Rebuilt(rebuilding.await?))
        }
        Request::Ping => Ok(Answer::Pong {
            pid: std::process::id(),
        }),
        Request::Act {
            run, deed, reason, ..
        } => {
            let body = String::from_utf8(bodies.1)
                .map_err(|error| Failure::new(Exit::Usage, "CONTROL_UNREADABLE", error))?;
            let goes_on = deed.goes_on();
            let doing = Doing {
                by: None,
                deed,
                body: body.into(),
                reason,
            };
            act::act(&carrier.engine, run, &doing).await?;
            if goes_on {
                carrier.watch_over(run);
            }
            stands(run, carrier)
        }
        Request::Fork(asked) => {
            let forked = on_store(carrier, move |engine| {
                let (store, plans) = (&**engine.store(), engine.plans());
                Ok(forking::prepare(store, plans, engine.values(), &asked)?)
            });
            let request = forked.await?.request;
            let started = carrier.engine.start(&request).await?;
            go_on(started, carrier).await
        }
        Request::Watch { .. } => Err(Failure::new(
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

/// Does something with the store that blocks, beside the engine's tasks.
async fn on_store<T: Send + 'static>(
    carrier: &Carrier,
    work: impl FnOnce(&Engine) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let engine = carrier.engine.clone();
    tokio::task::spawn_blocking(move || work(&engine))
        .await
        .map_err(|error| Failure::new(Exit::Storage, "LOAD_FAILED", error))?
}

/// Reads what follows the line of a request, within the limits of each.
async fn bodies(
    definition: usize,
    trigger: usize,
    input: &mut BufReader<OwnedReadHalf>,
) -> io::Result<Result<Bodies, Failure>> {
    let limits = [limits().definition.bytes, limits().payload_bytes];
    if definition > limits[0] || trigger > limits[1] {
        let message = "the definition or the trigger is larger than allowed";
        return Ok(Err(Failure::new(Exit::Invalid, "INPUT_TOO_LARGE", message)));
    }
    let mut definition = vec![0; definition];
    input.read_exact(&mut definition).await?;
    let mut trigger = vec![0; trigger];
    input.read_exact(&mut trigger).await?;
    Ok(Ok((definition, trigger)))
}

async fn publish(definition: Vec<u8>, carrier: &Carrier) -> Result<Answer, Failure> {
    let published = on_store(carrier, move |engine| {
        let prepared = prepare_text(&definition)?;
        let workflow = prepared.plan.workflow().to_owned();
        Ok((
            workflow,
            catalogue::publish(&**engine.store(), None, prepared)?,
        ))
    });
    let (workflow, published) = published.await?;
    carrier.engine.catalogue_changed(None, &workflow);
    // Runs that follow the newest version do so now.
    carrier.engine.heal_all(None, &workflow).await?;
    Ok(Answer::Published {
        version: published.version,
        created: published.created,
    })
}

async fn begin(
    start: StartAsked,
    (definition, trigger): Bodies,
    carrier: &Carrier,
) -> Result<Answer, Failure> {
    let definition = on_store(carrier, move |_| Ok(prepare_text(&definition)?)).await?;
    let trigger = String::from_utf8(trigger)
        .map_err(|error| Failure::new(Exit::Invalid, "TRIGGER_NOT_JSON", error))?;
    let request = Launch {
        trigger,
        request_id: start.request_id,
        labels: start.labels,
        vars: start.vars,
        frozen: start.frozen,
        ..Launch::new(definition, SystemClock.new_run_id())
    };
    let started = launch(&carrier.engine, request).await?;
    go_on(started, carrier).await
}

/// A run that was asked for goes on here, also if it was asked for before.
async fn go_on(started: Started, carrier: &Carrier) -> Result<Answer, Failure> {
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
    // One that sleeps is woken by this process when its time has come.
    let carried = carrier.engine.has(run).await;
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
                    Err(_) if holder.gate.is_closed() => return Ok(()),
                    Err(error) => Answer::Refused(Failure::from(error).into()),
                };
                return write_line(&mut out, &answer).await;
            }
            // A watcher says nothing more: its end is all there is to read.
            _ = input.read_u8() => return Ok(()),
        }
    }
}
