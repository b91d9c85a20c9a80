//! A worker's heartbeats and reports. Only the lease that was given last counts, and a repeated
//! report gets the first answer.

use serde_json::value::RawValue;
use tokio::sync::watch;
use windlass_core::Millis;
use windlass_core::event::ResourceLink;
use windlass_core::run::{Input as RunInput, Outcome, Report};
use windlass_expr::check_syntax;
use windlass_store::{LeaseAnswer, LeaseTerm, WorkKey, crash};

use super::WorkError;
use super::held::Resumed;
use super::lookup::Found;
use super::open::{Answer, AssignedWorker, RecordedReport, Take, Taken};
use super::report_kind::ReportKind;
use super::task_id::{LeaseTerms, TaskId};
use crate::action::{ActionError, Called};
use crate::blocking::blocking;
use crate::canonical::canonical;
use crate::driver::{CommandReply, Message};
use crate::engine::Engine;
use crate::limits::limits;

/// The error code by which a worker says that it ended an attempt because it was asked to.
const STOPPED: &str = "STOPPED";

/// How an attempt ended, as a worker says.
#[derive(Debug)]
pub enum TaskOutcome {
    /// With an output.
    Succeeded {
        /// The output, as JSON; null if there is none.
        output: Option<Box<RawValue>>,
        /// What is worth knowing about how it ran.
        meta: Option<Box<RawValue>>,
        /// Links to what it made elsewhere.
        resources: Vec<ResourceLink>,
    },
    /// With an error.
    Failed(ActionError),
    /// There was nothing to do.
    Skipped,
}

impl Engine {
    /// Keeps a worker's lease; answers whether the worker is asked to end the attempt.
    ///
    /// # Errors
    /// There is no such task, or another worker has it.
    pub async fn keep_task(
        &self,
        tenant: Option<&str>,
        task: TaskId,
        lease: &str,
    ) -> Result<bool, WorkError> {
        if self.shared().owned.is_shared() {
            return self.keep_shared(tenant, task, lease).await;
        }
        let terms = self.lease_key().await?.terms(task, lease);
        self.read_generation(task.0).await?;
        let open = &self.shared().remote.open;
        let found = open.with(task.0, |open| {
            let own = open.dispatch.tenant.as_deref() == tenant;
            (own, open.assigned.clone(), open.stop, open.generation)
        });
        let Some((own, assigned, stop, generation)) = found else {
            return self.keep_absent(tenant, task, (lease, terms)).await;
        };
        if !own {
            return Err(WorkError::TaskNotFound);
        }
        let terms = terms.ok_or(WorkError::LeaseUnknown)?;
        match assigned {
            Some(assigned) if *assigned.lease == *lease => {
                self.renew(tenant, task.0, (assigned, stop)).await
            }
            None if terms.generation >= generation => {
                let since = terms.since;
                let assigned = unrendered(lease, terms);
                self.resume(tenant, task.0, (assigned, since)).await
            }
            _ => Err(WorkError::LeaseLost),
        }
    }

    async fn renew(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        (assigned, stop): (AssignedWorker, bool),
    ) -> Result<bool, WorkError> {
        let Some(number) = assigned.number else {
            return self.resume(tenant, key, (assigned, None)).await;
        };
        let renewed = self.store().renew_item(tenant, key, number).await?;
        let open = &self.shared().remote.open;
        match renewed {
            LeaseAnswer::Held { stop: asked } => {
                open.renewed(key, self.work_lease());
                Ok(stop || asked)
            }
            // It ran out, and no other worker has come yet.
            LeaseAnswer::Lost => self.resume(tenant, key, (assigned, None)).await,
            LeaseAnswer::Unknown => Ok(stop),
        }
    }

    /// A worker that works on a task goes on with it, though the queue does not know its
    /// lease: it ran out, or the queue was lost with the process that gave it.
    async fn resume(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        (mut assigned, since): (AssignedWorker, Option<Millis>),
    ) -> Result<bool, WorkError> {
        let open = &self.shared().remote.open;
        let worker = assigned.worker.clone();
        assigned.number = None;
        let stop = loop {
            let known = assigned.clone();
            match open.resume(key, known, (since, self.now()), self.work_lease()) {
                Resumed::Yes { stop } => break stop,
                Resumed::Lost => return Err(WorkError::LeaseLost),
                Resumed::Gone => return Err(WorkError::TaskEnded),
                Resumed::Queued => {
                    let term = LeaseTerm::Millis(self.options().work_lease_ms);
                    let number = self.store().resume_item(tenant, key, &worker, term).await?;
                    assigned.number = Some(number.ok_or(WorkError::LeaseLost)?);
                }
            }
        };
        let question = |reply| Message::HandOut {
            worker,
            resumes: true,
            keys: vec![key],
            reply,
        };
        // So that it is noted who has it.
        let _ = self.ask(question).await;
        Ok(stop)
    }

    async fn keep_absent(
        &self,
        tenant: Option<&str>,
        task: TaskId,
        (lease, terms): (&str, Option<LeaseTerms>),
    ) -> Result<bool, WorkError> {
        match self.look_up(tenant, task, lease, None).await? {
            // It is open, and waits until this process acquires its run.
            Found::Open(taken) => match terms {
                Some(terms) if self.is_last(task.0, &terms).await? => Ok(taken.stop),
                Some(_) => Err(WorkError::LeaseLost),
                None => Err(WorkError::LeaseUnknown),
            },
            Found::EndedUnder { same: true } => Ok(true),
            _ if terms.is_none() => Err(WorkError::LeaseUnknown),
            Found::EndedUnder { same: false } => Err(WorkError::LeaseLost),
            Found::Ended => Ok(true),
        }
    }

    /// Ends a task's attempt. On return the report is recorded, durably; the same report gets the
    /// same answer when it comes again under its lease. One that contradicts the first (a failure
    /// after an output) is refused: the attempt ended otherwise.
    ///
    /// # Errors
    /// There is no such task, another worker has it, it ended otherwise, or the store failed.
    pub async fn finish_task(
        &self,
        tenant: Option<&str>,
        task: TaskId,
        lease: &str,
        outcome: TaskOutcome,
    ) -> Result<(), WorkError> {
        if self.shared().owned.is_shared() {
            return self.finish_shared(tenant, task, lease, outcome).await;
        }
        let terms = self.lease_key().await?.terms(task, lease);
        self.read_generation(task.0).await?;
        let said = (lease, ReportKind::of(&outcome));
        let mut outcome = Some(outcome);
        loop {
            let open = &self.shared().remote.open;
            let (taken, tell) = match open.take(task.0, tenant, said, terms.as_ref()) {
                Take::Yours(taken, tell) => (Some(taken), Some(tell)),
                Take::Refused(error) => return Err(error),
                Take::Absent => (None, None),
                Take::Wait(first, mut answer) => {
                    match answer.wait_for(Option::is_some).await {
                        Ok(answer) => {
                            let answer = answer.clone().unwrap_or(Err(WorkError::Stopped));
                            return match first == said.1 {
                                true => answer,
                                false => answer.and(Err(WorkError::TaskEnded)),
                            };
                        }
                        // The earlier report got no answer.
                        Err(_) => {
                            open.not_recorded(task.0);
                            continue;
                        }
                    }
                }
            };
            let Some(outcome) = outcome.take() else {
                return Err(WorkError::Stopped);
            };
            let taken = match taken {
                Some(taken) => *taken,
                None => match self.find_absent(tenant, task, said, terms.as_ref()).await? {
                    Some(taken) => *taken,
                    None => return Ok(()),
                },
            };
            // The report is recorded even if the caller goes away.
            let engine = self.clone();
            let recorded = RecordedReport {
                key: task.0,
                lease: lease.into(),
                kind: said.1,
            };
            let taken = taken.by(lease, terms);
            let recording =
                tokio::spawn(async move { engine.record(recorded, taken, outcome, tell).await });
            return recording.await.unwrap_or(Err(WorkError::Stopped));
        }
    }

    /// What a report is about whose attempt is not open here; nothing if the report is recorded.
    async fn find_absent(
        &self,
        tenant: Option<&str>,
        task: TaskId,
        (lease, kind): (&str, ReportKind),
        terms: Option<&LeaseTerms>,
    ) -> Result<Option<Box<Taken>>, WorkError> {
        match self.look_up(tenant, task, lease, Some(kind)).await? {
            Found::Open(taken) => match terms {
                Some(terms) if self.is_last(task.0, terms).await? => Ok(Some(taken)),
                Some(_) => Err(WorkError::LeaseLost),
                None => Err(WorkError::LeaseUnknown),
            },
            Found::EndedUnder { same: true } => Ok(None),
            _ if terms.is_none() => Err(WorkError::LeaseUnknown),
            Found::EndedUnder { same: false } => Err(WorkError::LeaseLost),
            Found::Ended => Err(WorkError::TaskEnded),
        }
    }

    async fn record(
        &self,
        recorded: RecordedReport,
        taken: Taken,
        outcome: TaskOutcome,
        tell: Option<watch::Sender<Option<Answer>>>,
    ) -> Answer {
        let key = recorded.key;
        let keep = taken.dispatch.keep_output;
        crash::point("work-reported");
        let report = self.report_of(&recorded.lease, taken, outcome).await;
        if let Outcome::Succeeded(output) = &report.outcome
            && keep
        {
            self.values().remember(output.digest(), output.text());
        }
        let answer = self.record_report(recorded, report, tell.is_some()).await;
        crash::point("work-recorded");
        if answer.is_err() {
            self.shared().remote.open.not_recorded(key);
        }
        if let Some(tell) = tell {
            let _ = tell.send(Some(answer.clone()));
        }
        answer
    }

    async fn record_report(&self, recorded: RecordedReport, report: Report, held: bool) -> Answer {
        let WorkKey {
            run,
            instance: node,
            attempt,
        } = recorded.key;
        let input = RunInput::Ended {
            node,
            attempt,
            report: Box::new(report),
        };
        if !held {
            // This process does not execute the run: it acquires it for the report, as for a
            // command.
            return self.submit_report(run, input).await;
        }
        let question = |reply| Message::Report(recorded, input, reply);
        let stopped = || WorkError::Stopped;
        match self.ask(question).await.ok_or_else(stopped)? {
            CommandReply::Decided(Ok(())) => Ok(()),
            CommandReply::Decided(Err(_)) => Err(WorkError::TaskEnded),
            CommandReply::Failed(error) => Err(error.into()),
            CommandReply::NotHere => Err(WorkError::Stopped),
        }
    }

    /// What the log gets of a report: cleaned of secrets, with names that can be names.
    pub(super) async fn report_of(
        &self,
        lease: &str,
        taken: Taken,
        outcome: TaskOutcome,
    ) -> Report {
        let workers = self.workers();
        let Taken {
            dispatch,
            assigned,
            since,
            stop,
        } = taken;
        let mut assigned = assigned.unwrap_or_else(|| unrendered(lease, LeaseTerms::unknown()));
        if assigned.recorded.is_none()
            && let Ok(rendered) = workers.render(&dispatch).await
        {
            // The rendered parameters are not in memory any more: they are rendered again.
            assigned.recorded = rendered.recorded;
            assigned.secrets = rendered.secrets;
        }
        let said_success = ReportKind::of(&outcome) == ReportKind::Completed;
        let called = match outcome {
            TaskOutcome::Failed(error) if stop && &*error.code == STOPPED => {
                Err(ActionError::stopped())
            }
            outcome => called(outcome).await,
        };
        let mut report = workers.conclude(called, &assigned.secrets);
        report.started = since.unwrap_or(report.ended).min(report.ended);
        report.worker = assigned.worker;
        report.parameters = assigned.recorded;
        report.lease = Some(lease.into());
        let unstopped = tokio_util::sync::CancellationToken::new();
        workers.store_first(&mut report, &unstopped).await;
        report.completed = said_success && matches!(report.outcome, Outcome::Failed(_));
        if let Outcome::Succeeded(output) = &report.outcome {
            output.digest();
            output.prepare();
        }
        if let Some(parameters) = &report.parameters {
            parameters.prepare();
        }
        report
    }
}

impl Taken {
    /// What the lease itself says, where memory has nothing.
    fn by(mut self, lease: &str, terms: Option<LeaseTerms>) -> Self {
        if let Some(terms) = terms {
            self.since = self.since.or(terms.since);
            let assigned = self.assigned.take();
            self.assigned = Some(assigned.unwrap_or_else(|| unrendered(lease, terms)));
        }
        self
    }
}

/// A worker that has an attempt, without what was rendered for it.
pub(super) fn unrendered(lease: &str, terms: LeaseTerms) -> AssignedWorker {
    AssignedWorker {
        lease: lease.into(),
        number: None,
        worker: terms.worker,
        recorded: None,
        secrets: Vec::new(),
    }
}

async fn called(outcome: TaskOutcome) -> Result<Called, ActionError> {
    match outcome {
        TaskOutcome::Failed(mut error) => {
            // The failure stands without details that no program could read.
            error.details.take_if(|it| readable(it.get()).is_err());
            Err(error)
        }
        TaskOutcome::Skipped => Ok(Called {
            output: None,
            meta: None,
            resources: Vec::new(),
            files: Vec::new(),
        }),
        TaskOutcome::Succeeded {
            output,
            meta,
            resources,
        } => {
            if let Some(Err(problem)) = meta.as_ref().map(|meta| readable(meta.get())) {
                let message = format!("the meta {problem}");
                return Err(ActionError::failed("OUTPUT_NOT_JSON", message));
            }
            let output = match output {
                Some(output) => one_form(output).await?,
                None => "null".to_owned(),
            };
            Ok(Called {
                output: Some(output),
                meta,
                resources,
                files: Vec::new(),
            })
        }
    }
}

/// Whether expressions and other programs can read a value, as a trigger must be.
fn readable(text: &str) -> Result<(), String> {
    check_syntax(text).map_err(|error| format!("cannot be read: {error}"))?;
    let repeated = canonical(text).err();
    repeated.map_or(Ok(()), |it| {
        Err(format!(
            "has the key '{}' twice, at '{}'",
            it.key, it.pointer
        ))
    })
}

/// Outputs larger than this are not read where other work waits.
const IN_PASSING_BYTES: usize = 64 * 1024;

/// An output as expressions can read it. One past the limits stays as it is: it fails for that.
async fn one_form(output: Box<RawValue>) -> Result<String, ActionError> {
    let size = output.get().len();
    if size > limits().values.output_bytes
        || windlass_core::value::nesting(output.get()) > limits().values.nesting
    {
        return Ok(String::from(Box::<str>::from(output)));
    }
    let read = move || match readable(output.get()) {
        Ok(()) => Ok(String::from(Box::<str>::from(output))),
        Err(problem) => {
            let message = format!("the output {problem}");
            Err(ActionError::failed("OUTPUT_NOT_JSON", message))
        }
    };
    if size <= IN_PASSING_BYTES {
        return read();
    }
    let read = blocking(read).await;
    read.unwrap_or_else(|_| {
        let message = "the output could not be read";
        Err(ActionError::failed("OUTPUT_NOT_JSON", message))
    })
}
