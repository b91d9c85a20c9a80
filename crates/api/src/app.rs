//! What handlers share: the engine, the caller's view of the store, and the audit log.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRef, FromRequestParts};
use futures_util::future::BoxFuture;
use http::request::Parts;
use tokio::sync::Semaphore;
use windlass_core::RunId;
use windlass_engine::Engine;
use windlass_service::moment::now;
use windlass_service::progress::ProgressCache;
use windlass_service::secrets::SecretKeys;
use windlass_service::{Failure, RunQueries};
use windlass_store::{AuditEntry, RunRow, TenantFilter};

use crate::auth::Principal;
use crate::correlation::Correlation;
use crate::error::ApiError;
use crate::extract::Peer;
use crate::failures;
use crate::health::Probes;
use crate::jobs::Jobs;
use crate::layouts::Layouts;
use crate::route::{Input, Operation};
use crate::written;

/// A shorter prefix of an id names no run.
const MIN_PREFIX: usize = 4;

/// Writes a consistent copy of everything that is stored into a new file.
pub type Backup = Arc<dyn Fn(&Path) -> Result<(), windlass_store::Error> + Send + Sync>;

/// The process behind the routes, which is notified of runs that a request starts or continues. A
/// server executes every run by itself and needs none; a process that exits when its own run has
/// ended must know which other runs to wait for.
pub trait Host: Send + Sync {
    /// A request started this run, or found it started: this process executes it.
    fn started(&self, run: RunId) -> BoxFuture<'_, Result<(), Failure>>;

    /// A request acted on this run so that it continues.
    fn run_continues(&self, run: RunId);
}

/// What the handlers act on. Cloning it is cheap.
#[derive(Clone)]
pub struct App {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    backup: Result<Backup, &'static str>,
    probes: Probes,
    actions: serde_json::Value,
    jobs: Jobs,
    secrets: Arc<SecretKeys>,
    host: Option<Arc<dyn Host>>,
    layouts: Layouts,
    progress: ProgressCache,
    simulating: Arc<Semaphore>,
}

/// What an [`App`] is made of besides its engine.
pub struct AppOptions {
    /// How to back up, or why this server does not, and what does.
    pub backup: Result<Backup, &'static str>,
    /// What is asked for the server's state.
    pub probes: Probes,
    /// The actions that definitions may name, for programs.
    pub actions: serde_json::Value,
    /// The key that seals secrets.
    pub secrets: Arc<SecretKeys>,
    /// The process, if it does not serve all runs by itself.
    pub host: Option<Arc<dyn Host>>,
}

impl App {
    /// An app on an engine.
    pub fn new(engine: Engine, options: AppOptions) -> Self {
        Self {
            inner: Arc::new(Inner {
                engine,
                backup: options.backup,
                probes: options.probes,
                actions: options.actions,
                jobs: Jobs::default(),
                secrets: options.secrets,
                host: options.host,
                layouts: Layouts::default(),
                progress: ProgressCache::default(),
                simulating: Arc::new(Semaphore::new(1)),
            }),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn backup(&self) -> Result<&Backup, &'static str> {
        self.inner.backup.as_ref().map_err(|why| *why)
    }

    pub(crate) fn actions(&self) -> &serde_json::Value {
        &self.inner.actions
    }

    pub(crate) fn jobs(&self) -> &Jobs {
        &self.inner.jobs
    }

    pub(crate) fn layouts(&self) -> &Layouts {
        &self.inner.layouts
    }

    /// Runs that were looked at a moment ago.
    pub(crate) fn progress(&self) -> &ProgressCache {
        &self.inner.progress
    }

    /// One simulation at a time, which takes a processor for itself.
    pub(crate) fn simulating(&self) -> Arc<Semaphore> {
        Arc::clone(&self.inner.simulating)
    }

    pub(crate) fn secrets(&self) -> &SecretKeys {
        &self.inner.secrets
    }

    /// Has a run executed that a request started, or found started.
    pub(crate) async fn started(&self, run: RunId) -> Result<(), Failure> {
        match &self.inner.host {
            Some(host) => host.started(run).await,
            None => Ok(()),
        }
    }

    /// A request acted on a run so that it continues.
    pub(crate) fn run_continues(&self, run: RunId) {
        if let Some(host) = &self.inner.host {
            host.run_continues(run);
        }
    }

    /// Looks at what the caller may see.
    pub(crate) fn queries(&self, caller: &Caller) -> RunQueries {
        self.queries_as(caller.principal.tenants())
    }

    /// Looks at what these tenants have.
    pub(crate) fn queries_as(&self, tenants: TenantFilter) -> RunQueries {
        RunQueries {
            plans: self.inner.engine.plans().clone(),
            tenants,
            holder: Some("this server".to_owned()),
            engine: Some(self.inner.engine.clone()),
            ..RunQueries::new(Arc::clone(self.inner.engine.store()))
        }
    }

    /// Resumes jobs over many runs that were acknowledged before and have not ended; returns how
    /// many. It must be called inside a tokio runtime, once.
    ///
    /// # Errors
    /// The store failed.
    pub async fn resume_jobs(&self) -> Result<usize, windlass_store::Error> {
        crate::handlers::resume(self).await
    }

    /// Looks, off the runtime's threads: the store's reads block.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        caller: &Caller,
        question: impl FnOnce(&RunQueries) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, ApiError> {
        let queries = self.queries(caller);
        match tokio::task::spawn_blocking(move || question(&queries)).await {
            Ok(answer) => Ok(answer?),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// As [`read`](Self::read), for an answer that is written while the client reads it.
    pub(crate) async fn write(
        &self,
        caller: &Caller,
        write: impl FnOnce(&RunQueries, &mut dyn Write) -> Result<(), Failure> + Send + 'static,
    ) -> Result<Body, ApiError> {
        let queries = self.queries(caller);
        written::body(move |out| write(&queries, out)).await
    }

    /// The run that a path names, if the caller may see it; otherwise the run counts as not
    /// found.
    pub(crate) async fn run(&self, caller: &Caller, id: &str) -> Result<RunRow, ApiError> {
        let run: RunId = id
            .parse()
            .map_err(|_| failures::RUN_NOT_FOUND.error(format!("there is no run '{id}'")))?;
        self.read(caller, move |queries| queries.row(run)).await
    }

    /// The run that a path names for reading: by its id, a unique prefix of it, `@last` or
    /// `@last:workflow-id`. A command needs the whole id.
    pub(crate) async fn find(&self, caller: &Caller, reference: &str) -> Result<RunRow, ApiError> {
        if reference.parse::<RunId>().is_ok() {
            return self.run(caller, reference).await;
        }
        let is_short = reference.len() < MIN_PREFIX && !reference.starts_with('@');
        let reference = reference.to_owned();
        if is_short {
            let message = format!("there is no run '{reference}'");
            return Err(failures::RUN_NOT_FOUND.error(message));
        }
        self.read(caller, move |queries| {
            let run = queries.find_run(&reference)?;
            queries.row(run)
        })
        .await
    }

    /// Writes an audit entry after a change is durable. The response reports the change even if
    /// the entry cannot be written: a failure would make the caller repeat the change.
    pub(crate) async fn note_done(
        &self,
        caller: &Caller,
        tenant: Option<Box<str>>,
        what: &str,
        target: impl Into<Box<str>>,
        detail: &serde_json::Value,
    ) {
        if let Err(error) = self.note(caller, tenant, what, target, detail).await {
            tracing::error!(what, ?error, "no entry was made in the audit");
        }
    }

    /// Writes an audit entry: who changed what, from where; durable on return.
    pub(crate) async fn note(
        &self,
        caller: &Caller,
        tenant: Option<Box<str>>,
        what: &str,
        target: impl Into<Box<str>>,
        detail: &serde_json::Value,
    ) -> Result<(), ApiError> {
        let entry = AuditEntry {
            at: now(),
            tenant,
            by: caller.principal.subject.clone(),
            from: caller.from(),
            what: what.into(),
            target: target.into(),
            detail: detail.to_string().into(),
            damage: None,
        };
        let noted = self.inner.engine.store().note(vec![entry]).await;
        noted.map_err(|error| Failure::from(error).into())
    }
}

impl FromRef<App> for Probes {
    fn from_ref(app: &App) -> Self {
        app.inner.probes.clone()
    }
}

/// Who asks, from where: an extractor.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who.
    pub principal: Principal,
    /// From where.
    pub peer: Peer,
    /// What ties the request to others.
    pub correlation: Correlation,
}

impl Caller {
    /// The tenant whose definitions and new runs are meant.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.principal.tenant.as_deref()
    }

    /// Who acts on a run, as its log has it; the local user is not named.
    pub(crate) fn by(&self) -> Option<Box<str>> {
        Some(self.principal.subject.clone())
    }

    fn from(&self) -> Box<str> {
        match self.peer.0 {
            Some(address) => address.ip().to_string().into(),
            None if self.principal.is_at_terminal() => "terminal".into(),
            None => "".into(),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Ok(correlation) = Correlation::from_request_parts(parts, state).await;
        Ok(Self {
            principal: Principal::from_request_parts(parts, state).await?,
            peer: Peer::from_request_parts(parts, state).await?,
            correlation,
        })
    }
}

impl Input for Caller {
    fn describe(_: &mut Operation<'_>) {}
}
