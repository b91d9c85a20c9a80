//! Queues requests for runs: checks them, makes them durable, and leaves them for admission to
//! begin. It loads neither a plan nor a run and does not ask the driver: concurrent requests
//! are appended together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use windlass_core::concurrency::StartFacts;
use windlass_core::definition::JsonText;
use windlass_core::event::Event;
use windlass_core::value::Payload;
use windlass_core::{Millis, RunId};
use windlass_orchestrator::codec::RecordBuilder;
use windlass_orchestrator::queued_row;
use windlass_store::{Append, AppendError, Appended, Bell, Blob, Error, Head, Partition, WriterId};

use crate::attempt_tracker::AppendWatch;
use crate::engine::{Engine, Inner};
use crate::engine_event::EngineEvent;
use crate::names::check_names;
use crate::ownership::ring;
use crate::payload::{check_in_passing, check_one, off_thread};
use crate::start::{FirstRecord, PreparedStart, StartError, StartRequest, Started};
use crate::start_metadata_cache::{StartMetadata, StartMetadataCache};

/// How many requests are appended together.
const BATCH: usize = 256;

/// How often a first record is sent whose answer was lost.
const MOST_TRIES: usize = 5;

/// How many may wait to be appended.
const WAITING: usize = 4096;

/// A first record, and the caller that waits for it.
struct Filed {
    append: Append,
    reply: oneshot::Sender<Result<Appended, AppendError>>,
}

/// Where requests come in.
pub(crate) struct Enqueuer {
    known: StartMetadataCache,
    filed: mpsc::Sender<Filed>,
    writer: WriterId,
    next: AtomicU64,
}

impl Enqueuer {
    /// Starts the task that appends; it ends with the engine.
    pub(crate) fn start(engine: &Weak<Inner>, writer: WriterId) -> Self {
        let (filed, requests) = mpsc::channel(WAITING);
        tokio::spawn(append_all(engine.clone(), requests));
        Self {
            known: StartMetadataCache::default(),
            filed,
            writer,
            next: AtomicU64::new(1),
        }
    }

    fn append(&self, run: RunId, prepared: PreparedStart, at: Millis) -> Append {
        let row = queued_row(run, &prepared.queued, at);
        let mut record = RecordBuilder::default();
        record.push(&Event::Queued(Box::new(prepared.queued)), at);
        let blob = |payload: &Payload| Blob {
            digest: payload.digest(),
            bytes: Arc::from(payload.text().as_bytes()),
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Append {
            row: Some(row),
            claims: prepared.claims,
            blobs: prepared.blobs.iter().map(blob).collect(),
            ..Append::of_record(run, Head::NONE, (self.writer, number), record.finish())
        }
    }
}

/// Appends the waiting requests, batch by batch: requests that come during a commit share the
/// next one.
async fn append_all(engine: Weak<Inner>, mut requests: mpsc::Receiver<Filed>) {
    let mut filed = Vec::with_capacity(BATCH);
    while requests.recv_many(&mut filed, BATCH).await > 0 {
        let Some(inner) = engine.upgrade() else {
            return;
        };
        let engine = Engine::of(inner);
        let (batch, replies): (Vec<_>, Vec<_>) = filed
            .drain(..)
            .map(|filed| (filed.append, filed.reply))
            .unzip();
        let announcement: Vec<_> = batch.iter().map(announcement).collect();
        let watch = AppendWatch::new(engine.options().observer.as_ref());
        let answers = engine.store().append(batch).await;
        watch.tell(answers.len());
        for ((answer, reply), announcement) in answers.into_iter().zip(replies).zip(announcement) {
            let (run, partition, tenant, priority) = announcement;
            if let Ok(appended) = &answer {
                let of = (partition, tenant, priority);
                engine.announce(run, appended.head.sequence, of);
            }
            let _ = reply.send(answer);
        }
    }
}

fn announcement(append: &Append) -> (RunId, Partition, Option<Box<str>>, u8) {
    let row = append.row.as_ref();
    let tenant = row.and_then(|row| row.tenant.clone());
    let partition = row.map_or(Partition(0), |row| row.partition);
    (
        append.run,
        partition,
        tenant,
        row.map_or(0, |row| row.priority),
    )
}

impl Engine {
    /// Queues a run of a published workflow: its first record is durable on return, and
    /// [`Self::serve`] begins it when its turn comes. Many callers share a commit.
    ///
    /// # Errors
    /// There is no such workflow, it is disabled, the trigger does not fit, the request id
    /// was used otherwise, or the store failed.
    pub async fn enqueue(
        &self,
        workflow: &str,
        version: Option<u32>,
        request: StartRequest,
    ) -> Result<Started, StartError> {
        check_names(&request, false)?;
        self.enqueue_stored(workflow, version, request).await
    }

    /// As [`Self::enqueue`], with names that were checked when they were stored, or stored
    /// before they were: a schedule of an earlier version goes on.
    pub(crate) async fn enqueue_stored(
        &self,
        workflow: &str,
        version: Option<u32>,
        request: StartRequest,
    ) -> Result<Started, StartError> {
        let run = self.new_run_id();
        self.enqueue_as(run, workflow, version, request).await
    }

    /// As [`Self::enqueue_stored`], for a run whose id the caller has.
    pub(crate) async fn enqueue_as(
        &self,
        run: RunId,
        workflow: &str,
        version: Option<u32>,
        request: StartRequest,
    ) -> Result<Started, StartError> {
        if self.stop_token().is_cancelled() {
            return Err(StartError::Stopped);
        }
        let tenant = request.tenant.as_deref();
        let known = self.known(tenant, workflow, version).await?;
        if !known.enabled {
            return Err(StartError::Disabled {
                workflow: workflow.into(),
            });
        }
        if let Some(name) = request.vars.keys().find(|&it| !known.vars.contains_key(it)) {
            return Err(StartError::UnknownVariable(name.clone()));
        }
        let request = check(request, Arc::clone(&known)).await?;
        let vars: BTreeMap<Box<str>, &JsonText> = known
            .vars
            .iter()
            .chain(&request.vars)
            .map(|(name, value)| (name.clone(), value))
            .collect();
        let asked = StartFacts {
            run,
            workflow,
            version: known.version,
            trigger: &request.trigger,
            vars: &vars,
        };
        let concurrency = known.concurrency.as_ref();
        let gate = self
            .gate(concurrency, request.tenant.as_deref(), &asked)
            .await?;
        let own = known.labels.iter().chain(&request.labels);
        let first = FirstRecord {
            workflow,
            version: known.version,
            definition: known.definition,
            request: &request,
            labels: own
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            vars,
            gate,
        };
        let mut prepared = first.prepare(run)?;
        prepared.queued.partition = self.shared().owned.place(run, None).await.0;
        prepared.queued.defaults = self.options().defaults.some();
        self.file(run, prepared, &request).await
    }

    /// Makes the first record of a run durable, and leaves it for admission: this engine's, or
    /// that of the process whose partition it is in.
    pub(crate) async fn file(
        &self,
        run: RunId,
        prepared: PreparedStart,
        request: &StartRequest,
    ) -> Result<Started, StartError> {
        let (tenant, workflow) = (
            prepared.queued.tenant.clone(),
            prepared.queued.workflow.clone(),
        );
        let append = self.enqueuer().append(run, prepared, self.now());
        match self.append_first(append).await? {
            Ok(_) => {
                self.shared().observe(&EngineEvent::Queued {
                    run,
                    tenant: tenant.as_deref(),
                    workflow: &workflow,
                });
                Ok(Started {
                    run,
                    existing: false,
                })
            }
            Err(AppendError::Held { value, .. }) => self.existing(&value, request).await,
            Err(AppendError::Unknown { error, .. } | AppendError::Failed(error)) => {
                Err(StartError::Store(error))
            }
            Err(AppendError::Conflict(_)) => {
                let message = format!("there is a run {run} already");
                Err(StartError::Store(Error::Unavailable(message)))
            }
        }
    }

    /// Appends the first record of a run. If the store does not know whether it wrote, the run's
    /// log tells: the run is this caller's own, so a log that has begun is the record's.
    async fn append_first(
        &self,
        mut append: Append,
    ) -> Result<Result<Appended, AppendError>, StartError> {
        let (run, partition, tenant, priority) = announcement(&append);
        let mut is_repeated = false;
        for _ in 0..MOST_TRIES {
            let (reply, answer) = oneshot::channel();
            let filed = Filed { append, reply };
            let sent = self.enqueuer().filed.send(filed).await;
            sent.map_err(|_| StartError::Stopped)?;
            let answer = answer.await.map_err(|_| StartError::Stopped)?;
            let is_unclear = match &answer {
                Err(AppendError::Unknown { .. }) => true,
                // What was sent before may have become durable since, and stand in its own way.
                Err(AppendError::Conflict(_) | AppendError::Held { .. }) => is_repeated,
                _ => false,
            };
            if !is_unclear {
                return Ok(answer);
            }
            let head = self.store().head(run).await.map_err(StartError::Store)?;
            if head != Head::NONE {
                self.announce(run, head.sequence, (partition, tenant, priority));
                return Ok(Ok(Appended { head }));
            }
            match answer {
                Err(AppendError::Unknown {
                    append: Some(again),
                    ..
                }) => append = *again,
                answer => return Ok(answer),
            }
            is_repeated = true;
        }
        let message = "the store did not say whether it wrote; ask again with the request id";
        Err(StartError::Store(Error::Unavailable(message.to_owned())))
    }

    /// A first record is durable: admission looks at it, here or where its partition is.
    fn announce(
        &self,
        run: RunId,
        sequence: u64,
        (partition, tenant, priority): (Partition, Option<Box<str>>, u8),
    ) {
        self.shared().recorded(run, sequence);
        match self.shared().owned.holds(partition) {
            true => self.shared().arrived(tenant, priority),
            false => ring(Arc::clone(self.store()), Bell::Partition(partition)),
        }
    }

    /// To be called after a workflow was published, enabled or disabled: what
    /// [`Self::enqueue`] knows of it is read again.
    pub fn catalogue_changed(&self, tenant: Option<&str>, workflow: &str) {
        self.enqueuer().known.forget(tenant, workflow);
    }

    /// Another process changed the catalogue: what is known of any workflow is read again.
    pub(crate) fn forget_catalogue(&self) {
        self.enqueuer().known.forget_all();
    }

    async fn known(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        version: Option<u32>,
    ) -> Result<Arc<StartMetadata>, StartError> {
        let known = &self.enqueuer().known;
        let epoch = match known.get(tenant, workflow, version) {
            Ok(known) => return Ok(known),
            Err(epoch) => epoch,
        };
        let (engine, workflow) = (self.clone(), Box::<str>::from(workflow));
        let tenant = tenant.map(Box::<str>::from);
        let reading = tokio::task::spawn_blocking(move || {
            let (known, store) = (&engine.enqueuer().known, &**engine.store());
            known.read(store, tenant.as_deref(), &workflow, version, epoch)
        });
        reading.await.map_err(|_| StartError::Stopped)?
    }
}

/// Checks a request's trigger, and gives the request back. A check that is not quick runs on a
/// thread for such work.
async fn check(
    request: StartRequest,
    known: Arc<StartMetadata>,
) -> Result<StartRequest, StartError> {
    let schema = match &known.schema {
        Some(Err(problem)) => return Err(problem.clone().into()),
        Some(Ok(schema)) => Some(Arc::clone(schema)),
        None => None,
    };
    if let Some(checked) = check_in_passing(&request.trigger, schema.as_deref()) {
        checked?;
        return Ok(request);
    }
    let tenant = request.tenant.clone();
    let check = schema.map(|schema| move |value: &Value| check_one(&schema, value));
    Ok(off_thread(tenant, request, |request| &request.trigger, check).await?)
}
