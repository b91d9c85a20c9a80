//! One attempt on a worker: render, call, time out, report. A worker decides nothing.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use windlass_core::run::{Dispatch, Failure, Interrupt, Outcome, Report};
use windlass_core::trace::SpanId;
use windlass_core::value::Payload;
use windlass_store::{Blob, Error, Role, crash};

use crate::Backend;
use crate::action::{ActionError, Called, Context, Registry, RunReader, SharedWithAction};
use crate::at_work::AttemptsAtWork;
use crate::evaluators::{Evaluators, Turn};
use crate::frozen_at::frozen_at;
use crate::limits::limits;
use crate::names::{check_resources, with_valid_code};
use crate::options::Options;
use crate::ownership::Permit;
use crate::plans::Plans;
use crate::render::{Effort, Rendered, Secrets, prepare, render};
use crate::scrub::{scrub, scrub_text};
use crate::secrecy::Secrecy;
use crate::values::ValueReader;
use crate::worker_slots::{WorkerSlot, WorkerSlots};

/// Values over this size are stored before they are reported, so that one does not
/// hold up the commit of everything else.
const STORE_FIRST_BYTES: usize = 256 * 1024;

/// How long after a full disk refused a value it is tried again.
const FULL_AGAIN: Duration = Duration::from_secs(1);

/// What all workers of an engine share.
pub(crate) struct Workers {
    pub(crate) store: Arc<dyn Backend>,
    pub(crate) registry: Registry,
    pub(crate) values: ValueReader,
    pub(crate) options: Options,
    /// The bound on actions under way.
    pub(crate) slots: Arc<WorkerSlots>,
    /// Where parameters are rendered that take long.
    pub(crate) evaluators: Arc<Evaluators>,
    pub(crate) plans: Plans,
    /// The attempts that have begun here and whose end is not durable.
    pub(crate) at_work: AttemptsAtWork,
}

impl Workers {
    /// Runs one attempt to its end. Its time covers rendering and the call. Nothing is reported
    /// of an attempt that is another process's before its action is called.
    pub(crate) async fn run(
        &self,
        dispatch: &Arc<Dispatch>,
        permit: &Permit,
        stop: CancellationToken,
    ) -> Option<Report> {
        let time = Duration::from_millis(dispatch.timeout_ms);
        self.run_within(dispatch, time, permit, stop).await
    }

    /// Whether this process calls the action of an attempt itself.
    pub(crate) fn runs_here(&self, dispatch: &Dispatch) -> bool {
        let options = &self.options;
        let is_able = options.labels.lacking(&dispatch.requires).is_none();
        let works = options.roles.has(Role::Worker) && is_able;
        works && self.registry.contains(&dispatch.action)
    }

    /// The same for an attempt of whose time some has passed.
    pub(crate) async fn run_within(
        &self,
        dispatch: &Arc<Dispatch>,
        mut time: Duration,
        permit: &Permit,
        stop: CancellationToken,
    ) -> Option<Report> {
        let Some(mut slot) = self.slot(dispatch.priority, &stop).await else {
            return Some(self.stopped());
        };
        let started = self.options.clock.now();
        self.at_work.begin(dispatch, started);
        let secrets = prepare(dispatch, &self.values, &*self.options.secrets).await;
        let at_once = render(dispatch, &self.values, &secrets, Effort::AtOnce);
        let rendered = match at_once {
            Some(rendered) => rendered,
            None => {
                // An attempt that waits for an evaluator holds no slot.
                drop(slot);
                let begun = Instant::now();
                let rendered = tokio::select! {
                    biased;
                    rendered = self.render_elsewhere(dispatch, secrets, time) => rendered,
                    () = stop.cancelled() => return Some(self.stopped()),
                };
                time = time.saturating_sub(begun.elapsed());
                match self.slot(dispatch.priority, &stop).await {
                    Some(again) => slot = again,
                    None => return Some(self.stopped()),
                }
                rendered
            }
        };
        let rendered = match rendered {
            Ok(rendered) => rendered,
            Err(failure) => {
                return Some(Report {
                    started,
                    ..self.report(Outcome::Failed(failure))
                });
            }
        };
        crash::point("before-action");
        if !permit.is_granted(&stop).await {
            return (!permit.is_over()).then(|| self.stopped());
        }
        let shared = SharedWithAction::default();
        let mut called = self
            .call(dispatch, &rendered, time, (stop.clone(), shared.clone()))
            .await;
        crash::point("after-action");
        drop(slot);
        if let Err(error) = &mut called {
            self.options.strategies.apply(dispatch, error);
        }
        let called = shared.reported.added_to(called);
        let secrets = [rendered.secrets.as_slice(), &shared.concealed.texts()].concat();
        let mut report = self.conclude(called, &secrets);
        report.started = started;
        report.parameters = rendered.recorded;
        self.store_first(&mut report, &stop).await;
        if let Outcome::Succeeded(output) = &report.outcome {
            output.digest();
            output.prepare();
        }
        if let Some(parameters) = &report.parameters {
            parameters.prepare();
        }
        crash::point("before-outcome");
        Some(report)
    }

    /// Renders the parameters of an attempt for a worker outside the process, without a place
    /// among the actions under way.
    pub(crate) async fn render(&self, dispatch: &Arc<Dispatch>) -> Result<Rendered, Failure> {
        let secrets = prepare(dispatch, &self.values, &*self.options.secrets).await;
        match render(dispatch, &self.values, &secrets, Effort::AtOnce) {
            Some(rendered) => rendered,
            None => {
                let time = Duration::from_millis(dispatch.timeout_ms);
                self.render_elsewhere(dispatch, secrets, time).await
            }
        }
    }

    /// A place among the actions under way; none if the attempt is asked to stop first.
    async fn slot(&self, priority: u8, stop: &CancellationToken) -> Option<WorkerSlot<'_>> {
        tokio::select! {
            biased;
            slot = self.slots.acquire(priority) => Some(slot),
            () = stop.cancelled() => None,
        }
    }

    /// Renders parameters that take long on an evaluator's thread.
    async fn render_elsewhere(
        &self,
        dispatch: &Arc<Dispatch>,
        secrets: Secrets,
        time: Duration,
    ) -> Result<Rendered, Failure> {
        let turn = Turn {
            tenant: dispatch.tenant.clone(),
            run: dispatch.run,
        };
        let (dispatch, values) = (Arc::clone(dispatch), self.values.clone());
        let timeout_ms = dispatch.timeout_ms;
        let work = move |interrupt: &Interrupt| {
            let effort = Effort::Full(interrupt);
            render(&dispatch, &values, &secrets, effort)
        };
        match tokio::time::timeout(time, self.evaluators.run(turn, work)).await {
            Ok(Some(Some(rendered))) => rendered,
            Ok(_) => {
                let message = "rendering the parameters panicked";
                Err(Failure::permanent("PARAMETERS_INVALID", message))
            }
            Err(_) => Err(timeout_failure(timeout_ms)),
        }
    }

    async fn call(
        &self,
        dispatch: &Dispatch,
        rendered: &Rendered,
        time: Duration,
        (stop, shared): (CancellationToken, SharedWithAction),
    ) -> Result<Called, ActionError> {
        let context = Context {
            run: dispatch.run,
            workflow: Arc::clone(&dispatch.workflow),
            node: dispatch.path.clone(),
            attempt: dispatch.attempt,
            idempotency_key: dispatch.idempotency_key(),
            correlation_id: Arc::clone(&dispatch.correlation_id),
            tenant: dispatch.tenant.clone(),
            asked: dispatch.traceparent.clone(),
            span: self.span(dispatch),
            stop,
            store: Arc::clone(&self.store),
            secrecy: Secrecy::of(rendered),
            secrets: Arc::clone(&self.options.secrets),
            concealed: shared.concealed,
            reported: shared.reported,
            state: self.options.state.clone(),
            reader: RunReader::new(&self.plans, &self.values),
        };
        let Some(call) = self
            .registry
            .call(&dispatch.action, context, &rendered.text)
        else {
            return Err(self.unknown_action(dispatch).await);
        };
        // An action that panics fails its own attempt and nothing else.
        let call = AssertUnwindSafe(call).catch_unwind();
        match tokio::time::timeout(time, call).await {
            Ok(Ok(called)) => called,
            Ok(Err(_)) => {
                let message = format!("the action '{}' panicked", dispatch.action);
                Err(ActionError::failed("ACTION_PANICKED", message))
            }
            Err(_) => Err(timed_out(dispatch.timeout_ms)),
        }
    }

    /// The attempt's span, where spans are made.
    pub(crate) fn span(&self, dispatch: &Dispatch) -> Option<SpanId> {
        let Dispatch {
            run,
            path,
            attempt,
            undo,
            ..
        } = dispatch;
        let derived = || SpanId::of_attempt(*run, path, *attempt, *undo);
        self.options.traces.then(derived)
    }

    /// There is no such action. A graph that was frozen into its run does not follow newer
    /// versions, so the message says what else the user can do.
    pub(crate) async fn unknown_action(&self, dispatch: &Dispatch) -> ActionError {
        let action = &dispatch.action;
        if let Some(remedy) = self.registry.remedy(action) {
            let message = format!("the action '{action}' is switched off here; {remedy}");
            return ActionError::failed("UNKNOWN_ACTION", message);
        }
        let (store, plans, run) = (Arc::clone(&self.store), self.plans.clone(), dispatch.run);
        let read = tokio::task::spawn_blocking(move || frozen_at(&*store, &plans, run));
        let frozen_at = read.await.ok().and_then(Result::ok).flatten();
        let frozen_at = frozen_at.map(|(_, at)| at);
        let message = match frozen_at {
            None => {
                format!("there is no action '{action}'; `windlass actions` lists those there are")
            }
            Some(at) => format!(
                "there is no action '{action}' any more: the graph was frozen into the run at {at} \
                 and never changes; bring the action back and reattempt the node, give its result \
                 by hand (`set-result`, `skip`), or `export` the graph, change it, `import` it once \
                 the run is paused or has failed, and reattempt the node"
            ),
        };
        ActionError::failed("UNKNOWN_ACTION", message)
    }

    pub(crate) fn conclude(
        &self,
        called: Result<Called, ActionError>,
        secrets: &[String],
    ) -> Report {
        let clean = |text: String| match secrets {
            [] => text,
            secrets => scrub(&text, secrets),
        };
        let clean_text = |text: Box<str>| match secrets {
            [] => text,
            secrets => scrub_text(&text, secrets).into(),
        };
        let clean_raw =
            |raw: Box<RawValue>| RawValue::from_string(clean(raw.get().to_owned())).ok();
        let called = called.and_then(|called| {
            check_resources(&called.resources)?;
            Ok(called)
        });
        match called {
            Ok(called) => {
                let outcome = match called.output {
                    Some(text) => Outcome::Succeeded(Payload::new(clean(text))),
                    None => Outcome::Skipped,
                };
                let meta = called.meta.and_then(clean_raw);
                let mut resources = called.resources;
                for resource in &mut resources {
                    resource.url = resource.url.take().map(clean_text);
                }
                Report {
                    meta,
                    resources,
                    files: called.files,
                    ..self.report(outcome)
                }
            }
            Err(error) if error.stopped => self.stopped(),
            Err(error) if error.skipped => self.report(Outcome::Skipped),
            Err(error) => {
                let error = with_valid_code(error);
                let details = error.details.and_then(clean_raw);
                self.report(Outcome::Failed(Failure {
                    code: clean_text(error.code),
                    message: clean_text(error.message),
                    retriable: error.retriable,
                    details,
                    retry_after_ms: error.retry_after_ms,
                    retry_delay_ms: error.retry_delay_ms,
                }))
            }
        }
    }

    /// Stores large values before the report, or fails the attempt if that fails.
    pub(crate) async fn store_first(&self, report: &mut Report, stop: &CancellationToken) {
        let output = match &report.outcome {
            Outcome::Succeeded(payload) => Some(payload.clone()),
            _ => None,
        };
        let limit = limits().values.output_bytes;
        for payload in [output, report.parameters.clone()].into_iter().flatten() {
            let size = payload.text().len();
            if size <= STORE_FIRST_BYTES || size > limit {
                continue;
            }
            let bytes = Arc::from(payload.text().as_bytes());
            let blob = Blob {
                digest: payload.digest(),
                bytes,
            };
            if let Err(error) = self.put(blob, stop).await {
                let message = format!("the output could not be stored: {error}");
                let failure = Failure::permanent("STORE_UNAVAILABLE", message);
                report.outcome = Outcome::Failed(Failure {
                    retriable: true,
                    ..failure
                });
            }
        }
    }

    /// Stores a value. A full disk does not discard finished work: storing is retried until
    /// there is space, or the attempt is asked to stop.
    async fn put(&self, blob: Blob, stop: &CancellationToken) -> Result<(), Error> {
        loop {
            match self.store.put_blob(blob.clone()).await {
                Err(Error::Full(_)) if !stop.is_cancelled() => tokio::select! {
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(FULL_AGAIN) => {}
                },
                stored => return stored,
            }
        }
    }

    fn stopped(&self) -> Report {
        self.report(Outcome::Stopped)
    }

    pub(crate) fn report(&self, outcome: Outcome) -> Report {
        let now = self.options.clock.now();
        Report {
            started: now,
            ended: now,
            worker: Box::from(&*self.options.worker_name),
            outcome,
            parameters: None,
            meta: None,
            resources: Vec::new(),
            files: Vec::new(),
            lease: None,
            completed: false,
        }
    }
}

pub(crate) fn timed_out(timeout_ms: u64) -> ActionError {
    let message = format!("the attempt did not end within {timeout_ms} ms");
    ActionError::retriable("TIMEOUT", message)
}

/// The same, as it is recorded.
pub(crate) fn timeout_failure(timeout_ms: u64) -> Failure {
    let error = timed_out(timeout_ms);
    Failure {
        retriable: error.retriable,
        ..Failure::permanent(&error.code, error.message)
    }
}
