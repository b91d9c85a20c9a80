//! Work that continues after its response: acting on many runs, rebuilding. Clients can query a
//! job's progress. A job survives a restart of the server: it is stored before it is
//! acknowledged and after each run, and continues where it was. Where several processes share
//! the store, those with the scheduler role work on jobs, each under a lease of its own, and what
//! is known of a job is read from the store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::RunId;
use windlass_engine::{Backend, NamedLease};
use windlass_service::Failure;
use windlass_service::moment::now;
use windlass_store::{Error, TenantFilter};

use crate::correlation::Correlation;
use crate::error::ApiError;
use crate::failures;

/// How many jobs are remembered; the oldest that has ended is forgotten first.
const REMEMBERED: usize = 1000;

/// How many may be under way.
const AT_ONCE: usize = 16;

/// How many failures are named.
const NAMED: usize = 1000;

/// The notes of jobs, and of how far each is since its own was written.
const NOTES: &str = "job";
const STEPS: &str = "job-step";

/// The notes that name jobs which have not ended, where processes share the store.
const OPEN: &str = "job-open";

/// How many notes are read together.
const PAGE: usize = 100;

/// How far a job is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobState {
    /// Its id.
    pub id: String,
    /// What it does.
    pub action: String,
    /// Whether it only says what it would do.
    pub dry_run: bool,
    /// `running` or `done`.
    pub status: String,
    /// How many runs it looked at.
    pub seen: u64,
    /// For how many runs it succeeded.
    pub done: u64,
    /// For how many runs it failed.
    pub failed: u64,
    /// The first failures, each with its reason.
    pub failures: Vec<JobFailure>,
    /// When it began.
    pub created_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
}

/// Why a job could not do its work with one run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobFailure {
    /// The run.
    pub execution_id: String,
    /// The code of the failure.
    pub code: String,
    /// What happened.
    pub message: String,
}

/// A job as it is written down, each time it has done a page of runs.
#[derive(Clone, Serialize, Deserialize)]
struct Note {
    /// Whose runs it sees; none means all.
    only: Option<Owner>,
    /// What it does, in its own words.
    plan: Box<serde_json::value::RawValue>,
    state: JobState,
    /// The last run that it is done with.
    at: Option<RunId>,
    /// The runs that it acts on next, in their order: afterwards a filter may not find them any
    /// more.
    #[serde(default)]
    hand: Vec<RunId>,
    /// How often this was written.
    page: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Owner {
    tenant: Option<Box<str>>,
}

/// How far it is since then.
#[derive(Serialize, Deserialize)]
struct Step {
    page: u64,
    at: RunId,
    seen: u64,
    done: u64,
    failed: u64,
    failures: Vec<JobFailure>,
}

/// A job under way. A job that is dropped before it is finished continues in the next process
/// that serves.
pub(crate) struct BulkJob {
    shared: Arc<Shared>,
    store: Arc<dyn Backend>,
    /// Failures since it was last written as a whole.
    fresh: Mutex<Vec<JobFailure>>,
    /// What it is worked on under, where processes share the store.
    lease: Option<Arc<NamedLease>>,
}

struct Shared {
    tenants: TenantFilter,
    note: Mutex<Note>,
}

/// The jobs of a server.
#[derive(Default)]
pub(crate) struct Jobs {
    known: Mutex<VecDeque<Arc<Shared>>>,
}

impl Jobs {
    /// Begins a job; it is durable on return.
    pub(crate) async fn begin(
        &self,
        (store, shares_store): (&Arc<dyn Backend>, bool),
        tenants: TenantFilter,
        (action, dry_run): (&str, bool),
        plan: &impl Serialize,
    ) -> Result<BulkJob, ApiError> {
        let plan = serde_json::value::to_raw_value(plan)
            .map_err(|error| crate::code::INTERNAL.error(error.to_string()))?;
        let note = Note {
            only: match &tenants {
                TenantFilter::Any => None,
                TenantFilter::Only(tenant) => Some(Owner {
                    tenant: tenant.clone(),
                }),
            },
            plan,
            state: JobState {
                id: Correlation::fresh().as_str().to_owned(),
                action: action.to_owned(),
                dry_run,
                status: "running".to_owned(),
                seen: 0,
                done: 0,
                failed: 0,
                failures: Vec::new(),
                created_at: now().to_string(),
                ended_at: None,
            },
            at: None,
            hand: Vec::new(),
            page: 0,
        };
        let job = BulkJob::new(note, tenants, store);
        if shares_store {
            job.leave_open().await?;
            return Ok(job);
        }
        let forgotten = self.remember(&job.shared)?;
        if let Some(id) = forgotten {
            forget(store, &id).await.map_err(Failure::from)?;
        }
        if let Err(error) = job.save().await {
            lock(&self.known).retain(|known| !Arc::ptr_eq(known, &job.shared));
            return Err(Failure::from(error).into());
        }
        Ok(job)
    }

    /// Makes a job known; gives one that is forgotten for it.
    fn remember(&self, job: &Arc<Shared>) -> Result<Option<String>, ApiError> {
        let mut known = lock(&self.known);
        let is_over = |job: &Arc<Shared>| lock(&job.note).state.status == "done";
        if known.iter().filter(|job| !is_over(job)).count() >= AT_ONCE {
            return Err(too_many());
        }
        let oldest = known.iter().position(is_over);
        let forgotten = oldest.filter(|_| known.len() >= REMEMBERED);
        let forgotten = forgotten.and_then(|oldest| known.remove(oldest));
        known.push_back(Arc::clone(job));
        Ok(forgotten.map(|job| lock(&job.note).state.id.clone()))
    }

    /// Loads the jobs of earlier server processes; returns those that have not ended, each with
    /// what it does.
    pub(crate) async fn restore(
        &self,
        store: &Arc<dyn Backend>,
    ) -> Result<Vec<(BulkJob, String)>, Error> {
        let mut unfinished = Vec::new();
        let mut after: Option<Box<str>> = None;
        loop {
            let page = store.notes(NOTES, after.as_deref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            for (id, text) in page {
                let Some(note) = current(store, &id, &text).await else {
                    // A newer version may have written it: it is left for that version.
                    continue;
                };
                let (plan, over) = (note.plan.get().to_owned(), note.is_over());
                let tenants = note.tenants();
                let job = BulkJob::new(note, tenants, store);
                lock(&self.known).push_back(Arc::clone(&job.shared));
                if !over {
                    unfinished.push((job, plan));
                }
            }
        }
        let begun = |job: &Arc<Shared>| lock(&job.note).state.created_at.clone();
        lock(&self.known).make_contiguous().sort_by_key(begun);
        Ok(unfinished)
    }

    /// A job of these tenants.
    pub(crate) fn find(&self, tenants: &TenantFilter, id: &str) -> Option<JobState> {
        let known = lock(&self.known);
        let job = known.iter().find(|job| lock(&job.note).state.id == id)?;
        (job.tenants == *tenants || *tenants == TenantFilter::Any)
            .then(|| lock(&job.note).state.clone())
    }
}

/// A job as the store has it, for processes that share it.
pub(crate) async fn stored(
    store: &Arc<dyn Backend>,
    tenants: &TenantFilter,
    id: &str,
) -> Result<Option<JobState>, Error> {
    let Some(text) = store.note_at(NOTES, id).await? else {
        return Ok(None);
    };
    let note = current(store, id, &text).await;
    let of_caller = |note: &Note| note.tenants() == *tenants || *tenants == TenantFilter::Any;
    Ok(note.filter(of_caller).map(|note| note.state))
}

/// The jobs that have not ended, by id.
pub(crate) async fn open(store: &Arc<dyn Backend>) -> Result<Vec<Box<str>>, Error> {
    let open = store.notes(OPEN, None, PAGE).await?;
    Ok(open.into_iter().map(|(id, _)| id).collect())
}

/// A job to work on under a lease, with what it does; none if it has ended, or a newer version
/// wrote it.
pub(crate) async fn acquire(
    store: &Arc<dyn Backend>,
    id: &str,
    lease: &Arc<NamedLease>,
) -> Result<Option<(BulkJob, String)>, Error> {
    let text = store.note_at(NOTES, id).await?;
    let note = match &text {
        Some(text) => current(store, id, text).await,
        None => None,
    };
    let is_gone = text.is_none() || note.as_ref().is_some_and(Note::is_over);
    if is_gone {
        store.forget_note(OPEN, id).await?;
        return Ok(None);
    }
    Ok(note.map(|note| {
        let (plan, tenants) = (note.plan.get().to_owned(), note.tenants());
        let job = BulkJob {
            lease: Some(Arc::clone(lease)),
            ..BulkJob::new(note, tenants, store)
        };
        (job, plan)
    }))
}

/// Opens jobs for the processes that share the store which were begun where one had it to itself.
pub(crate) async fn open_unfinished(store: &Arc<dyn Backend>) -> Result<(), Error> {
    for (id, is_over, _) in listed(store).await? {
        if !is_over {
            store.keep_note(OPEN, &id, b"{}".to_vec()).await?;
        }
    }
    Ok(())
}

/// Every job: its id, whether it has ended, and when it began.
async fn listed(store: &Arc<dyn Backend>) -> Result<Vec<(Box<str>, bool, String)>, Error> {
    let mut found = Vec::new();
    let mut after: Option<Box<str>> = None;
    loop {
        let page = store.notes(NOTES, after.as_deref(), PAGE).await?;
        let Some((last, _)) = page.last() else {
            return Ok(found);
        };
        after = Some(last.clone());
        found.extend(page.into_iter().filter_map(|(id, text)| {
            let note = serde_json::from_slice::<Note>(&text).ok()?;
            Some((id, note.is_over(), note.state.created_at))
        }));
    }
}

/// Forgets the oldest jobs that have ended, if more are remembered than are to be.
async fn forget_oldest(store: &Arc<dyn Backend>) -> Result<(), Error> {
    let mut known = listed(store).await?;
    let spare = known.len().saturating_sub(REMEMBERED);
    known.retain(|(_, is_over, _)| *is_over);
    known.sort_by(|one, other| one.2.cmp(&other.2));
    for (id, _, _) in known.iter().take(spare) {
        forget(store, id).await?;
    }
    Ok(())
}

/// A note with what was written since.
async fn current(store: &Arc<dyn Backend>, id: &str, text: &[u8]) -> Option<Note> {
    let mut note = serde_json::from_slice::<Note>(text).ok()?;
    let step = store.note_at(STEPS, id).await.ok().flatten();
    let step = step.and_then(|text| serde_json::from_slice::<Step>(&text).ok());
    if let Some(step) = step.filter(|step| step.page == note.page) {
        note.walk(step);
    }
    Some(note)
}

fn too_many() -> ApiError {
    failures::TOO_MANY_JOBS.error(format!(
        "{AT_ONCE} jobs are under way; try again when one has ended"
    ))
}

impl Note {
    fn is_over(&self) -> bool {
        self.state.status == "done"
    }

    /// Whose runs it sees.
    fn tenants(&self) -> TenantFilter {
        match &self.only {
            None => TenantFilter::Any,
            Some(owner) => TenantFilter::Only(owner.tenant.clone()),
        }
    }

    fn walk(&mut self, step: Step) {
        self.at = Some(step.at);
        self.state.seen = step.seen;
        self.state.done = step.done;
        self.state.failed = step.failed;
        let room = NAMED.saturating_sub(self.state.failures.len());
        self.state
            .failures
            .extend(step.failures.into_iter().take(room));
    }
}

impl BulkJob {
    fn new(note: Note, tenants: TenantFilter, store: &Arc<dyn Backend>) -> Self {
        Self {
            shared: Arc::new(Shared {
                tenants,
                note: Mutex::new(note),
            }),
            store: Arc::clone(store),
            fresh: Mutex::default(),
            lease: None,
        }
    }

    /// Makes it durable for a process that works on jobs.
    async fn leave_open(&self) -> Result<(), ApiError> {
        let others = open(&self.store).await.map_err(Failure::from)?;
        if others.len() >= AT_ONCE {
            return Err(too_many());
        }
        self.save().await.map_err(Failure::from)?;
        let opened = self.store.keep_note(OPEN, &self.state().id, b"{}".to_vec());
        Ok(opened.await.map_err(Failure::from)?)
    }

    /// Whether another process works on it, or will.
    pub(crate) fn is_given_up(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| !lease.holds())
    }

    /// Whether processes share the store: what fails then is tried again.
    pub(crate) fn is_shared(&self) -> bool {
        self.lease.is_some()
    }

    /// How far it is.
    pub(crate) fn state(&self) -> JobState {
        lock(&self.shared.note).state.clone()
    }

    /// Whose runs it sees.
    pub(crate) fn tenants(&self) -> TenantFilter {
        self.shared.tenants.clone()
    }

    /// The last run that it is done with.
    pub(crate) fn at(&self) -> Option<RunId> {
        lock(&self.shared.note).at
    }

    /// The runs in hand that it is not done with.
    pub(crate) fn rest(&self) -> Vec<RunId> {
        let note = lock(&self.shared.note);
        let done = note.hand.iter().position(|run| Some(*run) == note.at);
        note.hand[done.map_or(0, |done| done + 1)..].to_vec()
    }

    /// It acts on these next; durable on return.
    pub(crate) async fn take(&self, runs: Vec<RunId>) -> Result<(), Error> {
        lock(&self.shared.note).hand = runs;
        self.save().await
    }

    /// It is done with a run, which failed or did not; durable on return.
    pub(crate) async fn step(&self, run: RunId, failure: Option<JobFailure>) -> Result<(), Error> {
        let step = {
            let mut note = lock(&self.shared.note);
            note.at = Some(run);
            note.count(failure.as_ref());
            let mut fresh = lock(&self.fresh);
            fresh.extend(failure);
            Step {
                page: note.page,
                at: run,
                seen: note.state.seen,
                done: note.state.done,
                failed: note.state.failed,
                failures: fresh.clone(),
            }
        };
        let id = self.state().id;
        self.store.keep_note(STEPS, &id, text(&step)).await
    }

    /// Something failed that is about no run, or about one that it only looked at.
    pub(crate) fn failed(&self, failure: JobFailure) {
        lock(&self.shared.note).count(Some(&failure));
    }

    /// So many were done by now.
    pub(crate) fn count(&self, done: u64) {
        let state = &mut lock(&self.shared.note).state;
        state.seen = done + state.failed;
        state.done = done;
    }

    /// Writes the whole of it down; durable on return.
    async fn save(&self) -> Result<(), Error> {
        let (id, note) = {
            let mut note = lock(&self.shared.note);
            note.page += 1;
            lock(&self.fresh).clear();
            (note.state.id.clone(), text(&*note))
        };
        self.store.keep_note(NOTES, &id, note).await
    }

    /// It has ended.
    pub(crate) async fn finish(self) {
        {
            let state = &mut lock(&self.shared.note).state;
            state.status = "done".to_owned();
            state.ended_at = Some(now().to_string());
        }
        // If that cannot be written, it ends once more after the next start.
        if self.save().await.is_ok() {
            let id = self.state().id;
            let _ = self.store.forget_note(STEPS, &id).await;
            if self.is_shared() {
                let _ = self.store.forget_note(OPEN, &id).await;
                let _ = forget_oldest(&self.store).await;
            }
        }
    }
}

impl Note {
    fn count(&mut self, failure: Option<&JobFailure>) {
        let state = &mut self.state;
        state.seen += 1;
        match failure {
            None => state.done += 1,
            Some(failure) => {
                state.failed += 1;
                if state.failures.len() < NAMED {
                    state.failures.push(failure.clone());
                }
            }
        }
    }
}

async fn forget(store: &Arc<dyn Backend>, id: &str) -> Result<(), Error> {
    store.forget_note(STEPS, id).await?;
    store.forget_note(NOTES, id).await.map(drop)
}

fn text(note: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(note).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
