//! Carries out what one run does to another (semantics §8); `ChildJob` in the orchestrator
//! decides the steps.
//!
//! Everything about one child goes through one lane, in order: a child that is started
//! and then cancelled must not be cancelled before it exists.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use windlass_core::RunId;
use windlass_core::event::{Actor, Parent};
use windlass_core::run::{ChildEnd, ChildStart, Failure, Held};
use windlass_core::trace::TraceParent;
use windlass_core::value::Stored;
use windlass_orchestrator::ShardInput;
use windlass_orchestrator::supervisor::{
    ChildAnswer, ChildJob, ChildPlace, ChildStep, ChildValues, ChildWork, ParentCommand, child_end,
};
use windlass_store::Wait as _;

use crate::command::CommandError;
use crate::driver::Message;
use crate::engine::{Engine, Inner};
use crate::load::LoadError;
use crate::start::{NewRun, StartError};
use crate::values::ValueReader;

/// How many children are acted on at once.
const LANES: usize = 64;

/// How long to wait before a job whose answer was lost is done again.
const AGAIN: Duration = Duration::from_secs(1);

/// Something to do about a run, off the driver's task.
#[derive(Debug)]
pub(crate) enum CoordinatorJob {
    /// Something about this child.
    Child(RunId, ChildWork),
    /// A child's end came while its parent slept.
    Wake(RunId),
    /// Another process wrote to a run that is ours.
    Reload(RunId),
    /// The store has lost records of a run that it had acknowledged.
    Quarantine(RunId, windlass_store::Error),
}

/// Hands jobs to their lanes. The queues have no bound of their own: each entry stands
/// for a child run, which is a row already.
pub(crate) struct ChildCoordinator {
    lanes: Vec<mpsc::UnboundedSender<CoordinatorJob>>,
    busy: Arc<PendingJobs>,
}

/// How many jobs are not done.
#[derive(Default)]
pub(crate) struct PendingJobs {
    jobs: AtomicUsize,
    done: Notify,
}

impl PendingJobs {
    fn end(&self) {
        if self.jobs.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.notify_waiters();
        }
    }

    /// Ends when there is nothing to do.
    async fn idle(&self) {
        loop {
            let done = self.done.notified();
            tokio::pin!(done);
            // Listening begins before the look, so that nothing is missed between the two.
            done.as_mut().enable();
            if self.jobs.load(Ordering::Acquire) == 0 {
                return;
            }
            done.await;
        }
    }
}

impl ChildCoordinator {
    /// Starts the lanes; they end when the coordinator or the engine is gone.
    pub(crate) fn start(engine: &Weak<Inner>, busy: &Arc<PendingJobs>) -> Self {
        let lanes = (0..LANES).map(|_| {
            let (lane, jobs) = mpsc::unbounded_channel();
            tokio::spawn(work(engine.clone(), jobs, Arc::clone(busy)));
            lane
        });
        Self {
            lanes: lanes.collect(),
            busy: Arc::clone(busy),
        }
    }

    pub(crate) fn submit_job(&self, job: CoordinatorJob) {
        let run = match &job {
            CoordinatorJob::Child(run, _)
            | CoordinatorJob::Wake(run)
            | CoordinatorJob::Reload(run)
            | CoordinatorJob::Quarantine(run, _) => run,
        };
        let lane = usize::from(run.as_bytes()[15]) % self.lanes.len();
        self.busy.jobs.fetch_add(1, Ordering::AcqRel);
        // A lane is gone only when the engine is.
        if self.lanes[lane].send(job).is_err() {
            self.busy.end();
        }
    }
}

async fn work(
    engine: Weak<Inner>,
    mut jobs: mpsc::UnboundedReceiver<CoordinatorJob>,
    busy: Arc<PendingJobs>,
) {
    while let Some(job) = jobs.recv().await {
        let Some(inner) = engine.upgrade() else {
            return;
        };
        let engine = Engine::of(inner);
        match job {
            // Waking it makes it ask for all its children.
            CoordinatorJob::Wake(parent) => {
                let _ = engine.wake(parent).await;
            }
            CoordinatorJob::Reload(run) => engine.reload(run).await,
            CoordinatorJob::Quarantine(run, error) => engine.quarantine(run, error).await,
            CoordinatorJob::Child(child, work) => {
                engine.do_child_job(child, ChildJob::new(work)).await
            }
        }
        busy.end();
    }
}

impl Engine {
    /// Returns when the commands between runs are delivered: a parent that was paused or cancelled
    /// has sent the command to its children, and they to theirs. Children that begin or end count.
    pub async fn child_jobs_idle(&self) {
        loop {
            // What the driver has done is handed over when it answers.
            let (before, _) = (self.busy().jobs.load(Ordering::Acquire), self.held().await);
            if before == 0 && self.busy().jobs.load(Ordering::Acquire) == 0 {
                return;
            }
            tokio::select! {
                () = self.busy().idle() => {}
                () = self.stopped() => return,
            }
        }
    }

    /// Carries out a job about a child, step by step.
    async fn do_child_job(&self, child: RunId, mut job: ChildJob) {
        let mut step = job.begin();
        loop {
            step = match step {
                ChildStep::Done => return,
                ChildStep::ReadRow => match self.store().run(child).await {
                    Ok(row) => job.row_read(row.as_ref()),
                    // The store is broken: the parent asks again when it is next acquired.
                    Err(_) => return,
                },
                ChildStep::IsPaused(parent) => {
                    let row = self.store().run(parent).await.ok().flatten();
                    job.paused(row.as_ref())
                }
                ChildStep::Load => {
                    job.loaded(self.load_beside(child).await.ok().map(|it| it.run).as_ref())
                }
                ChildStep::Start(place, start) => {
                    job.started(self.begin_child(place, child, *start).await)
                }
                ChildStep::Tell(told) => job.answered(self.tell_child(&job, child, told).await),
                ChildStep::FindPlace(parent) => job.placed(self.place_of(parent, child).await),
                ChildStep::Recover => {
                    let _ = self.recover(child).await;
                    return;
                }
                ChildStep::AcquireParent(parent) => {
                    let _ = self.recover_or_wake(parent).await;
                    return;
                }
                ChildStep::Report(place) => return self.report_child(place, child).await,
                ChildStep::Fail(place, failure) => {
                    let (run, node, attempt) = (place.run, place.node, place.attempt);
                    let input = ShardInput::ChildFailed {
                        run,
                        node,
                        attempt,
                        failure,
                    };
                    return self.send(input).await;
                }
                ChildStep::Again => {
                    let pause = tokio::time::sleep(AGAIN);
                    if self.stop_token().run_until_cancelled(pause).await.is_none() {
                        return;
                    }
                    job.begin()
                }
            };
        }
    }

    async fn tell_child(&self, job: &ChildJob, child: RunId, told: ParentCommand) -> ChildAnswer {
        let reason = format!("its parent {} says so", job.parent());
        let actor = Actor {
            reason: Some(reason.into()),
            ..Actor::default()
        };
        match self.submit(child, told.input(actor)).await {
            Ok(()) => ChildAnswer::Accepted,
            Err(CommandError::Stopped | CommandError::Load(LoadError::Store(_))) => {
                ChildAnswer::Lost
            }
            Err(CommandError::Refused { .. }) => ChildAnswer::Refused,
            // A child that is a dead letter, or cannot be read, gets no command.
            Err(_) => ChildAnswer::Accepted,
        }
    }

    async fn begin_child(
        &self,
        place: ChildPlace,
        child: RunId,
        start: ChildStart,
    ) -> Result<(), Failure> {
        let unreadable = |error: windlass_store::Error| Failure {
            retriable: true,
            ..Failure::permanent("STORE_UNAVAILABLE", error.to_string())
        };
        let tenant = start.tenant.as_deref();
        let row = self
            .store()
            .definition(tenant, &start.workflow, start.version)
            .await;
        let row = row.map_err(unreadable)?.ok_or_else(|| {
            let message = match start.version {
                Some(version) => format!("workflow '{}' has no version {version}", start.workflow),
                None => format!("there is no workflow '{}'", start.workflow),
            };
            Failure::permanent("WORKFLOW_NOT_FOUND", message)
        })?;
        let plan = self.plans().plan(row.digest, &row.text);
        let plan =
            plan.map_err(|error| Failure::permanent("DEFINITION_INVALID", error.to_string()))?;
        let trigger = self.values().read(place.run, &start.input).await;
        let trigger = trigger.map_err(unreadable)?;
        let mut new = NewRun::new(plan, row.version, row.digest);
        new.run = Some(child);
        new.request.trigger = trigger.to_string();
        new.request.correlation_id = Some(start.correlation_id);
        new.request.tenant = start.tenant;
        new.request.priority = start.priority;
        new.request.traceparent = self.handed_on(place.run, start.traceparent);
        new.depth = start.depth;
        new.parent = Some(Parent {
            execution_id: place.run,
            node: start.path,
        });
        for (name, held) in start.vars {
            let text = match (held.text(), held.blob()) {
                (Some(text), _) => Arc::clone(text),
                (None, Some(blob)) => self
                    .values()
                    .read(place.run, &blob)
                    .await
                    .map_err(unreadable)?,
                (None, None) => continue,
            };
            if let Ok(value) = serde_json::value::RawValue::from_string(text.to_string()) {
                new.request.vars.insert(name, value);
            }
        }
        match self.start(&new).await {
            Ok(_) | Err(StartError::Stopped) => Ok(()),
            Err(StartError::Store(error)) => Err(unreadable(error)),
            Err(error) => {
                let code = match error.code() {
                    // For a child, the template of its input is wrong.
                    None | Some("NESTING_LIMIT" | "SCHEMA_INVALID") => "TRIGGER_INVALID",
                    Some(code) if code.starts_with("TRIGGER_") => "TRIGGER_INVALID",
                    Some(code) => code,
                };
                Err(Failure::permanent(code, error.to_string()))
            }
        }
    }

    /// The trace context that a child gets: the parent's span, if spans are made at all, or
    /// what the parent was given itself.
    fn handed_on(&self, parent: RunId, asked: Option<Box<str>>) -> Option<Box<str>> {
        if !self.options().traces {
            return asked;
        }
        let place = TraceParent::of_run(parent, asked.as_deref());
        Some(place.to_string().into())
    }

    /// Acquires a run that has a child: wakes one that sleeps, recovers one that no process
    /// executes, and leaves one that has ended alone.
    async fn recover_or_wake(&self, run: RunId) -> Result<(), LoadError> {
        if self.is_acquired_or_asleep(run).await {
            self.wake(run).await
        } else {
            self.recover(run).await
        }
    }

    async fn place_of(&self, parent: RunId, child: RunId) -> Option<ChildPlace> {
        let question = |reply| Message::ChildNode {
            parent,
            child,
            reply,
        };
        let (node, attempt) = self.ask(question).await??;
        Some(ChildPlace {
            run: parent,
            node,
            attempt,
        })
    }

    async fn report_child(&self, place: ChildPlace, child: RunId) {
        let engine = self.clone();
        let end = tokio::task::spawn_blocking(move || engine.child_end(child)).await;
        let Ok(Some(end)) = end else { return };
        let input = ShardInput::ChildEnded {
            run: place.run,
            node: place.node,
            attempt: place.attempt,
            end: Box::new(end),
        };
        self.send(input).await;
    }

    fn child_end(&self, child: RunId) -> Option<ChildEnd> {
        let run = self.load(child).ok()?.run;
        child_end(&run, self.values())
    }
}

impl ChildValues for ValueReader {
    fn held(&self, run: RunId, held: &Held) -> Option<Arc<str>> {
        let text = held.text().cloned();
        text.or_else(|| self.read(run, &held.blob()?).wait().ok())
    }

    fn stored(&self, stored: &Stored) -> Option<Arc<str>> {
        self.resolve(stored).wait().ok()
    }
}
