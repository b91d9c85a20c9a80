//! Heartbeats and reports of workers over HTTP, at any process: the queue has the leases, the
//! owner of the run takes the report, and the log answers.

use std::time::Duration;

use tokio::time::Instant;
use windlass_core::run::{Input as RunInput, Report};
use windlass_orchestrator::supervisor::{CommandOffer, KeyInLog, OfferEnd, OfferStep};
use windlass_store::{Bell, Error, ItemState, LeaseAnswer, LeaseTerm, Offer, Partition, WorkLease};

use super::super::WorkError;
use super::super::finish::{TaskOutcome, unrendered};
use super::super::lookup::Found;
use super::super::open::Taken;
use super::super::report_kind::ReportKind;
use super::super::task_id::{LeaseTerms, TaskId};
use super::outcome;
use crate::command::CommandError;
use crate::engine::Engine;

/// A lease that some process of the cluster gave.
struct Given<'a> {
    task: TaskId,
    text: &'a str,
    number: WorkLease,
    terms: LeaseTerms,
}

impl Engine {
    /// As [`Engine::keep_task`], where several processes share the store.
    pub(in crate::remote) async fn keep_shared(
        &self,
        tenant: Option<&str>,
        task: TaskId,
        lease: &str,
    ) -> Result<bool, WorkError> {
        let given = self.given(task, lease).await?;
        let Some(given) = given else {
            self.partition_of(tenant, task).await?;
            return Err(WorkError::LeaseUnknown);
        };
        let (key, store) = (task.0, self.store());
        match store.renew_item(tenant, key, given.number).await? {
            LeaseAnswer::Held { stop } => Ok(stop),
            LeaseAnswer::Lost => self.keep_lapsed(tenant, &given).await,
            LeaseAnswer::Unknown => {
                self.partition_of(tenant, task).await?;
                match self.look_up_log(task, lease, None).await? {
                    // The queue lost it: its owner puts it there again.
                    Found::Open(taken) => Ok(taken.stop),
                    Found::EndedUnder { same: false } => Err(WorkError::LeaseLost),
                    Found::EndedUnder { same: true } | Found::Ended => Ok(true),
                }
            }
        }
    }

    /// The lease is not the queue's current one: it ran out, and no other worker has come, or
    /// this worker has come back before.
    async fn keep_lapsed(
        &self,
        tenant: Option<&str>,
        given: &Given<'_>,
    ) -> Result<bool, WorkError> {
        let (key, store) = (given.task.0, self.store());
        let worker = &given.terms.worker;
        let term = LeaseTerm::Millis(self.options().work_lease_ms);
        if store
            .resume_item(tenant, key, worker, term)
            .await?
            .is_some()
        {
            return Ok(false);
        }
        let known = store.known(&[key]).await?.into_iter().next();
        match known {
            Some((
                _,
                ItemState::Leased {
                    worker: has, lease, ..
                },
            )) if has == *worker => match store.renew_item(tenant, key, lease).await? {
                LeaseAnswer::Held { stop } => Ok(stop),
                LeaseAnswer::Lost | LeaseAnswer::Unknown => Err(WorkError::LeaseLost),
            },
            _ => Err(WorkError::LeaseLost),
        }
    }

    /// As [`Engine::finish_task`], where several processes share the store.
    pub(in crate::remote) async fn finish_shared(
        &self,
        tenant: Option<&str>,
        task: TaskId,
        lease: &str,
        outcome: TaskOutcome,
    ) -> Result<(), WorkError> {
        let partition = self.partition_of(tenant, task).await?;
        let Some(given) = self.given(task, lease).await? else {
            return Err(WorkError::LeaseUnknown);
        };
        let kind = ReportKind::of(&outcome);
        let Some(taken) = self.take_shared(&given, kind).await? else {
            return Ok(());
        };
        let engine = self.clone();
        let (lease, number) = (Box::<str>::from(lease), given.number);
        // The report is recorded even if the caller goes away.
        let recording = tokio::spawn(async move {
            let report = engine.report_of(&lease, taken, outcome).await;
            engine
                .deliver(partition, (task, number), report, Some(kind))
                .await
        });
        recording.await.unwrap_or(Err(WorkError::Stopped))
    }

    /// What a report is about; nothing if it is recorded.
    async fn take_shared(
        &self,
        given: &Given<'_>,
        kind: ReportKind,
    ) -> Result<Option<Taken>, WorkError> {
        let key = given.task.0;
        let handed = self.shared().remote.shared.handed(key, given.text);
        let known = self.store().known(&[key]).await?.into_iter().next();
        let stop = match known {
            Some((_, state)) if state.fences(&given.terms.worker, given.number) => {
                return Err(WorkError::LeaseLost);
            }
            Some((_, ItemState::Leased { stop, .. })) => stop,
            Some((_, ItemState::Waiting { .. })) => false,
            // The attempt has ended, or the queue lost it: the log tells.
            None => match self.look_up_log(given.task, given.text, Some(kind)).await? {
                Found::Open(taken) => taken.stop,
                Found::EndedUnder { same: true } => return Ok(None),
                Found::EndedUnder { same: false } => return Err(WorkError::LeaseLost),
                Found::Ended => return Err(WorkError::TaskEnded),
            },
        };
        let mut assigned = unrendered(given.text, given.terms.clone());
        let dispatch = match handed {
            Some(handed) => {
                assigned.recorded = handed.recorded;
                assigned.secrets = handed.secrets;
                handed.dispatch
            }
            // Another process handed it out.
            None => match self.look_up_log(given.task, given.text, Some(kind)).await? {
                Found::Open(taken) => taken.dispatch,
                Found::EndedUnder { same: true } => return Ok(None),
                Found::EndedUnder { same: false } => return Err(WorkError::LeaseLost),
                Found::Ended => return Err(WorkError::TaskEnded),
            },
        };
        Ok(Some(Taken {
            dispatch,
            assigned: Some(assigned),
            since: given.terms.since,
            stop,
        }))
    }

    /// Gives a report to the owner of its run, and answers once the log has it. `kind` is what the
    /// worker said, if a worker did.
    pub(super) async fn deliver(
        &self,
        partition: Partition,
        (task, number): (TaskId, WorkLease),
        report: Report,
        kind: Option<ReportKind>,
    ) -> Result<(), WorkError> {
        let key = task.0;
        let lease = report.lease.clone().unwrap_or_default();
        if self.shared().owned.holds(partition) {
            let input = RunInput::Ended {
                node: key.instance,
                attempt: key.attempt,
                report: Box::new(report.clone()),
            };
            match self.submit(key.run, input).await {
                Ok(()) => return Ok(()),
                Err(CommandError::Refused { .. }) => {
                    return self.answer_in_log(task, &lease, kind).await;
                }
                // It is another process's by now.
                Err(CommandError::Load(_) | CommandError::Stopped) if !self.is_stopping() => {}
                Err(_) => return Err(WorkError::Stopped),
            }
        }
        let offer = Offer {
            run: key.run,
            partition,
            key: outcome::item_key(key, number).into(),
            bytes: outcome::encode(&report, number, true),
        };
        self.offer_outcome(&offer, (task, number), (&lease, kind))
            .await
    }

    /// What the log says of a report that its run refused.
    async fn answer_in_log(
        &self,
        task: TaskId,
        lease: &str,
        kind: Option<ReportKind>,
    ) -> Result<(), WorkError> {
        match self.look_up_log(task, lease, kind).await? {
            Found::EndedUnder { same: true } => Ok(()),
            Found::EndedUnder { same: false } => Err(WorkError::LeaseLost),
            Found::Ended => Err(WorkError::TaskEnded),
            Found::Open(_) => Err(WorkError::Stopped),
        }
    }

    /// Offers an outcome, and follows it as a command is followed.
    async fn offer_outcome(
        &self,
        offer: &Offer,
        (task, number): (TaskId, WorkLease),
        (lease, kind): (&str, Option<ReportKind>),
    ) -> Result<(), WorkError> {
        let began = Instant::now();
        let now = || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut machine = CommandOffer::new(now(), self.shared().owned.command_ms());
        let (store, run) = (self.store(), offer.run);
        let mut heard = None;
        // The store rings for the first offer.
        let mut is_first = false;
        // Whether the log has it already was asked before.
        let mut step = OfferStep::Offer;
        loop {
            step = match step {
                OfferStep::Offer => {
                    let first = store.offer(vec![offer.clone()]).await?;
                    // No other worker is to do it again; one that cannot be told may.
                    let tenant = self.tenant_of(run).await?;
                    let _ = store.complete(tenant.as_deref(), task.0, number).await;
                    is_first = first == [true];
                    machine.offered(is_first)
                }
                OfferStep::Ring => {
                    if !is_first {
                        let bell = Bell::Offered(offer.partition, run);
                        let _ = store.ring(&[bell]).await;
                    }
                    machine.rung()
                }
                OfferStep::ReadAnswer => {
                    // Before the answer is read, so that no bell is missed.
                    heard = self.shared().owned.changed_elsewhere();
                    let answer = store.answer(run, &offer.key).await?;
                    machine.answer_read(answer, now())
                }
                OfferStep::Wait(until) => {
                    let wait = Duration::from_millis(until.saturating_sub(now()));
                    match heard.take() {
                        Some(heard) => drop(tokio::time::timeout(wait, heard).await),
                        None => tokio::time::sleep(wait).await,
                    }
                    machine.waited()
                }
                OfferStep::Discard => {
                    let _ = store.discard(run, &offer.key).await;
                    machine.discarded()
                }
                OfferStep::ReadLog => match self.look_up_log(task, lease, kind).await? {
                    Found::EndedUnder { same: true } => machine.log_read(KeyInLog::Known),
                    Found::Open(_) => machine.log_read(KeyInLog::Unknown),
                    Found::EndedUnder { same: false } => return Err(WorkError::LeaseLost),
                    Found::Ended => return Err(WorkError::TaskEnded),
                },
                OfferStep::End(OfferEnd::Taken { .. }) => return Ok(()),
                OfferStep::End(OfferEnd::Refused(reason)) => return Err(outcome::refused(&reason)),
                OfferStep::End(OfferEnd::Unavailable) => {
                    let message = "no process has taken the report yet; send it again";
                    return Err(Error::Unavailable(message.to_owned()).into());
                }
            };
        }
    }

    async fn tenant_of(&self, run: windlass_core::RunId) -> Result<Option<Box<str>>, WorkError> {
        Ok(self.store().run(run).await?.and_then(|row| row.tenant))
    }

    /// The partition of a task's run, if it is the tenant's.
    async fn partition_of(
        &self,
        tenant: Option<&str>,
        task: TaskId,
    ) -> Result<Partition, WorkError> {
        let row = self.store().run(task.0.run).await?;
        let own = row.filter(|row| row.tenant.as_deref() == tenant);
        own.map(|row| row.partition).ok_or(WorkError::TaskNotFound)
    }

    /// What a lease says, if a process of this cluster gave it for the task.
    async fn given<'a>(
        &self,
        task: TaskId,
        lease: &'a str,
    ) -> Result<Option<Given<'a>>, WorkError> {
        let found = self.lease_key().await?.given(task, lease);
        Ok(found.map(|(number, terms)| Given {
            task,
            text: lease,
            number: WorkLease(number),
            terms,
        }))
    }
}
