//! Work that goes on after its answer: acting on many runs, rebuilding. A job can be asked
//! for how far it is. Jobs are in memory; what they did is in the logs of the runs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;
use windlass_service::moment::now;
use windlass_store::TenantFilter;

use crate::correlation::Correlation;
use crate::error::ApiError;
use crate::failures;

/// How many jobs are remembered; the oldest that has ended is forgotten first.
const REMEMBERED: usize = 1000;

/// How many may be under way.
const AT_ONCE: usize = 16;

/// How many failures are named.
const NAMED: usize = 1000;

/// How far a job is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobState {
    /// Its id.
    pub id: String,
    /// What it does.
    pub action: String,
    /// Whether it only says what it would do.
    pub dry_run: bool,
    /// `running` or `done`.
    pub status: &'static str,
    /// How many runs it looked at.
    pub seen: u64,
    /// With how many it did what was asked.
    pub done: u64,
    /// With how many it could not.
    pub failed: u64,
    /// The first of those, each with its reason.
    pub failures: Vec<JobFailure>,
    /// When it began.
    pub created_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
}

/// Why a job could not do its work with one run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobFailure {
    /// The run.
    pub execution_id: String,
    /// The code of the failure.
    pub code: String,
    /// What happened.
    pub message: String,
}

/// A job under way. Dropping it ends it.
pub(crate) struct Job {
    shared: Arc<Shared>,
}

struct Shared {
    tenants: TenantFilter,
    state: Mutex<JobState>,
}

/// The jobs of a server.
#[derive(Default)]
pub(crate) struct Jobs {
    known: Mutex<VecDeque<Arc<Shared>>>,
}

impl Jobs {
    /// Begins a job.
    pub(crate) fn begin(
        &self,
        tenants: TenantFilter,
        action: &str,
        dry_run: bool,
    ) -> Result<Job, ApiError> {
        let mut known = lock(&self.known);
        let is_over = |job: &Arc<Shared>| lock(&job.state).status == "done";
        if known.iter().filter(|job| !is_over(job)).count() >= AT_ONCE {
            return Err(failures::TOO_MANY_JOBS.error(format!(
                "{AT_ONCE} jobs are under way; try again when one has ended"
            )));
        }
        if known.len() >= REMEMBERED
            && let Some(oldest) = known.iter().position(is_over)
        {
            known.remove(oldest);
        }
        let shared = Arc::new(Shared {
            tenants,
            state: Mutex::new(JobState {
                id: Correlation::fresh().as_str().to_owned(),
                action: action.to_owned(),
                dry_run,
                status: "running",
                seen: 0,
                done: 0,
                failed: 0,
                failures: Vec::new(),
                created_at: now().to_string(),
                ended_at: None,
            }),
        });
        known.push_back(Arc::clone(&shared));
        Ok(Job { shared })
    }

    /// A job of these tenants.
    pub(crate) fn find(&self, tenants: &TenantFilter, id: &str) -> Option<JobState> {
        let known = lock(&self.known);
        let job = known.iter().find(|job| lock(&job.state).id == id)?;
        (job.tenants == *tenants || *tenants == TenantFilter::Any).then(|| lock(&job.state).clone())
    }
}

impl Job {
    /// How far it is.
    pub(crate) fn state(&self) -> JobState {
        lock(&self.shared.state).clone()
    }

    /// One run was done.
    pub(crate) fn done(&self) {
        let mut state = lock(&self.shared.state);
        state.seen += 1;
        state.done += 1;
    }

    /// One run was not.
    pub(crate) fn failed(&self, failure: JobFailure) {
        let mut state = lock(&self.shared.state);
        state.seen += 1;
        state.failed += 1;
        if state.failures.len() < NAMED {
            state.failures.push(failure);
        }
    }

    /// So many were done by now.
    pub(crate) fn count(&self, done: u64) {
        let mut state = lock(&self.shared.state);
        state.seen = done + state.failed;
        state.done = done;
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.status = "done";
        state.ended_at = Some(now().to_string());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
