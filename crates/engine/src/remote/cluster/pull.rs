//! A process with the worker role: it pulls attempts of the actions in its registry, calls them,
//! and offers the outcomes to the owners of the runs. Its leases are those of its session.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_core::run::{Failure, Outcome, Report};
use windlass_orchestrator::Labels;
use windlass_store::{
    ItemOutcome, ItemState, LeaseTerm, LeasedItem, Offer, Partition, Pull, SessionId, SettleAnswer,
    TenantFilter, WorkKey, WorkLease, crash,
};

use super::super::poll::ANSWER_BYTES;
use super::hand_over::lease_text;
use super::outcome::{self, WireOutcome};
use super::{dispatch, lock};
use crate::engine::{Engine, Inner};
use crate::ownership::Permit;
use crate::worker::{Workers, timeout_failure};

/// How often the queue is looked at, in case no bell was heard.
const LOOK: Duration = Duration::from_secs(10);

/// How often it is asked whether attempts under way are to stop.
const LOOK_AT_RUNNING: Duration = Duration::from_secs(1);

/// The same after a bell, which may have rung for one of them.
const LOOK_IF_RUNG: Duration = Duration::from_millis(100);

/// How soon a call of the store that failed is repeated.
const AGAIN: Duration = Duration::from_secs(1);

/// The most items of one pull.
const MOST: usize = 256;

/// With so many workers dead, an attempt is not tried again.
const MOST_DEATHS: u32 = 3;

/// An attempt of the queue that this process works on.
pub(super) struct Running {
    pub(super) tenant: Option<Box<str>>,
    pub(super) lease: WorkLease,
    pub(super) session: SessionId,
    pub(super) stop: CancellationToken,
    pub(super) abort: AbortHandle,
}

/// Whose outcome is offered, and under which lease.
pub(super) struct Assignment {
    pub(super) key: WorkKey,
    pub(super) tenant: Option<Box<str>>,
    pub(super) partition: Partition,
    pub(super) session: SessionId,
    pub(super) lease: WorkLease,
}

/// Works on what the queue has, for as long as the engine lives.
pub(crate) async fn work_always(engine: Weak<Inner>) {
    let Some(inner) = engine.upgrade() else {
        return;
    };
    let (shared, stop) = {
        let engine = Engine::of(inner);
        (engine.shared().clone(), engine.stop_token())
    };
    let work = &shared.remote.shared;
    let mut rung = work.rung.subscribe();
    let mut looks = Looks::default();
    loop {
        let Some(inner) = engine.upgrade() else {
            return;
        };
        let engine_now = Engine::of(inner);
        let next = engine_now.pull_work(&mut looks).await;
        drop(engine_now);
        tokio::select! {
            () = stop.cancelled() => return,
            changed = rung.changed() => match changed {
                Ok(()) => looks.is_rung = true,
                Err(_) => return,
            },
            () = work.ended.notified(), if next.if_ended => {}
            () = tokio::time::sleep(next.within) => {}
        }
    }
}

/// When to pull again, if no bell rings before.
struct NextPull {
    within: Duration,
    /// Also when an attempt has ended here: items may wait for its slot.
    if_ended: bool,
}

/// When attempts under way were last looked at. A bell may ask that one of them stops, but most
/// bells tell of new work: they are not answered by a look each.
#[derive(Default)]
struct Looks {
    last: Option<Instant>,
    is_rung: bool,
}

impl Looks {
    /// How long it is until the next look.
    fn wait(&self) -> Duration {
        let pause = match self.is_rung {
            true => LOOK_IF_RUNG,
            false => LOOK_AT_RUNNING,
        };
        self.last
            .map_or(Duration::ZERO, |last| pause.saturating_sub(last.elapsed()))
    }

    fn is_due(&self) -> bool {
        self.wait().is_zero()
    }

    fn looked(&mut self) {
        self.last = Some(Instant::now());
        self.is_rung = false;
    }
}

impl Engine {
    /// Takes what there is and there are slots for.
    async fn pull_work(&self, looks: &mut Looks) -> NextPull {
        let Some(session) = self.shared().owned.session() else {
            return NextPull {
                within: AGAIN,
                if_ended: true,
            };
        };
        if looks.is_due() {
            self.look_at_running(session).await;
            looks.looked();
        }
        let mut next = self.pull_for(session).await;
        if !lock(&self.shared().remote.shared.running).is_empty() {
            next.within = next.within.min(looks.wait());
        }
        next
    }

    async fn pull_for(&self, session: SessionId) -> NextPull {
        let work = &self.shared().remote.shared;
        let free = self.free_slots();
        let after = |within| NextPull {
            within,
            if_ended: true,
        };
        if free == 0 || work.draining.load(Ordering::Acquire) {
            return after(LOOK_AT_RUNNING);
        }
        let pull = Pull {
            worker: Box::from(&*self.options().worker_name),
            tenant: TenantFilter::Any,
            actions: self.workers().registry.names().map(Into::into).collect(),
            labels: match &self.options().labels {
                Labels::All => Vec::new(),
                Labels::Only(labels) => labels.to_vec(),
            },
            slots: free,
            max_bytes: ANSWER_BYTES,
            term: LeaseTerm::Session(session),
            // An answer that was lost may have carried items: those that are not named come again.
            holding: work
                .unsure
                .load(Ordering::Acquire)
                .then(|| lock(&work.running).keys().copied().collect()),
        };
        let Ok(leased) = self.store().pull(pull).await else {
            work.unsure.store(true, Ordering::Release);
            return after(AGAIN);
        };
        work.unsure.store(false, Ordering::Release);
        crash::point("after-work-pull");
        let came = leased.len();
        let bytes: usize = leased.iter().map(|it| it.item.payload.len()).sum();
        for item in leased {
            self.begin_pulled(item, session);
        }
        NextPull {
            within: match lock(&work.running).is_empty() {
                // There may be more, for the slots that are left.
                _ if came == MOST => Duration::ZERO,
                false => LOOK_AT_RUNNING,
                true => LOOK,
            },
            // Where fewer and little came, nothing waits.
            if_ended: came == free || bytes > ANSWER_BYTES / 2,
        }
    }

    fn free_slots(&self) -> usize {
        let slots = self.options().workers.max(1);
        let pulled = lock(&self.shared().remote.shared.running).len();
        let busy = self.running_actions().max(pulled);
        slots.saturating_sub(busy).min(MOST)
    }

    fn begin_pulled(&self, leased: LeasedItem, session: SessionId) {
        let (key, lease) = (leased.item.key, leased.lease);
        let tenant = leased.item.tenant.clone();
        let stop = CancellationToken::new();
        let (engine, token) = (self.clone(), stop.clone());
        // Held until the attempt is noted, so that its end comes after that.
        let mut noted = lock(&self.shared().remote.shared.running);
        let task = tokio::spawn(async move {
            engine.work_on(leased, session, token).await;
            engine.shared().remote.shared.has_ended(key, lease);
        });
        let abort = task.abort_handle();
        let of = Running {
            tenant,
            lease,
            session,
            stop,
            abort,
        };
        noted.insert(key, of);
        let pulled = &self.shared().remote.shared.pulled;
        pulled.send_replace(noted.len());
    }

    /// Ends what is to stop, and what another worker has by now.
    async fn look_at_running(&self, session: SessionId) {
        let running = &self.shared().remote.shared.running;
        let keys: Vec<WorkKey> = lock(running).keys().copied().collect();
        if keys.is_empty() {
            return;
        }
        let Ok(known) = self.store().known(&keys).await else {
            return;
        };
        let known: HashMap<WorkKey, ItemState> = known.into_iter().collect();
        let mut running = lock(running);
        let mut lost = Vec::new();
        for (key, own) in running.iter() {
            match known.get(key) {
                Some(ItemState::Leased {
                    lease, stop: true, ..
                }) if *lease == own.lease => {
                    own.stop.cancel();
                }
                Some(ItemState::Leased { lease, .. }) if *lease == own.lease => {}
                // Another worker has it, or will.
                Some(_) => lost.push(*key),
                // It was asked to stop and is given up, or its session is over.
                None if own.stop.is_cancelled() || own.session != session => lost.push(*key),
                // The queue lost it: any outcome counts.
                None => {}
            }
        }
        for key in lost {
            if let Some(own) = running.remove(&key) {
                own.stop.cancel();
                own.abort.abort();
            }
        }
        let pulled = &self.shared().remote.shared.pulled;
        pulled.send_replace(running.len());
    }

    /// One attempt, from the item to the offer.
    async fn work_on(&self, leased: LeasedItem, session: SessionId, stop: CancellationToken) {
        let (tenant, key) = (leased.item.tenant.as_deref(), leased.item.key);
        let Some(dispatch) = dispatch::decode(&leased.item) else {
            // Of a newer version. Kept for a moment, so that it does not go round and round.
            tokio::time::sleep(AGAIN).await;
            let _ = self.store().return_item(tenant, key, leased.lease).await;
            return;
        };
        let permit = Permit::of(self.shared(), session);
        let partition = loop {
            if permit.is_over() {
                return self.give_up(&leased).await;
            }
            match self.partition_of_item(&leased).await {
                Ok(Some(partition)) => break partition,
                Ok(None) => return,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        };
        let deaths = leased.deliveries.saturating_sub(1);
        let remains = dispatch.timeout_ms.saturating_sub(leased.begun_ms);
        let lease = Some(lease_text(session, leased.lease));
        let wire = if deaths >= MOST_DEATHS {
            let report = Report {
                lease,
                ..self.workers().report(Outcome::Stopped)
            };
            outcome::wire_deadly(&report, leased.lease, deaths)
        } else {
            let dispatch = Arc::new(dispatch);
            let time = Duration::from_millis(remains);
            let workers = self.workers();
            let report = match remains {
                0 => Some(workers.report(Outcome::Failed(timeout_failure(dispatch.timeout_ms)))),
                _ => workers.run_within(&dispatch, time, &permit, stop).await,
            };
            let Some(mut report) = report else {
                return self.give_up(&leased).await;
            };
            // A process that stops gives the item back: it did not end, it goes to another worker.
            if matches!(report.outcome, Outcome::Stopped) && !self.works_on(key, leased.lease) {
                return;
            }
            report.lease = lease;
            outcome::wire(&within_limits(report), leased.lease, false)
        };
        let assignment = Assignment {
            key,
            tenant: leased.item.tenant,
            partition,
            session,
            lease: leased.lease,
        };
        offer_wire(self.workers(), &assignment, wire).await;
    }

    /// Whether the item is this process's to end: it was not given back, or lost to another worker.
    fn works_on(&self, key: WorkKey, lease: WorkLease) -> bool {
        let running = lock(&self.shared().remote.shared.running);
        running.get(&key).is_some_and(|own| own.lease == lease)
    }

    /// Leaves an item to others whose lease ran out before its action was called. If no other
    /// worker has it yet, its lease is no delivery: no action has seen it.
    async fn give_up(&self, leased: &LeasedItem) {
        let (tenant, key) = (leased.item.tenant.as_deref(), leased.item.key);
        let _ = self.store().return_item(tenant, key, leased.lease).await;
    }
}

/// Offers the outcome of an attempt to the owner of its run.
pub(super) async fn offer_outcome(workers: &Workers, of: &Assignment, mut report: Report) {
    report.lease = Some(lease_text(of.session, of.lease));
    let wire = outcome::wire(&within_limits(report), of.lease, false);
    offer_wire(workers, of, wire).await;
}

async fn offer_wire(workers: &Workers, of: &Assignment, mut wire: WireOutcome) {
    let (store, key) = (&workers.store, of.key);
    let mut offer = Offer {
        run: key.run,
        partition: of.partition,
        key: outcome::item_key(key, of.lease).into(),
        bytes: wire.bytes_if(true),
    };
    // Until it is durable: the outcome is all that this process has of the attempt.
    loop {
        let outcome = ItemOutcome {
            offer: offer.clone(),
            key,
            worker: wire.worker.clone(),
            lease: of.lease,
        };
        match store.settle(outcome).await {
            Ok(SettleAnswer::Offered | SettleAnswer::Lost) => return,
            Ok(SettleAnswer::Apart) => break,
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
    offer.bytes = wire.bytes_if(false);
    while store.offer(vec![offer.clone()]).await.is_err() {
        tokio::time::sleep(AGAIN).await;
    }
    crash::point("after-work-offered");
    // The owner takes it meanwhile: an item that is still there has the lease of the outcome.
    // Until it is answered: an item that stayed would be handed out again some day.
    let tenant = of.tenant.as_deref();
    while store.complete(tenant, key, of.lease).await.is_err() {
        tokio::time::sleep(AGAIN).await;
    }
}

/// An output that no run may have is not sent: the owner would only refuse it.
fn within_limits(mut report: Report) -> Report {
    let limit = crate::limits::limits().values.output_bytes;
    if let Outcome::Succeeded(output) = &report.outcome
        && output.text().len() > limit
    {
        let size = output.text().len();
        let message = format!("the output has {size} bytes; a node's output may have {limit}");
        report.outcome = Outcome::Failed(Failure::permanent("OUTPUT_LIMIT", message));
    }
    report
}
