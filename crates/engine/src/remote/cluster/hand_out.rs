//! Tasks for workers over HTTP, at any process: they come from the queue that all processes
//! share, with all that is needed to render them.

use std::time::Duration;

use tokio::time::Instant;
use windlass_core::run::{Outcome, Report};
use windlass_core::{Millis, RunStatus};
use windlass_store::{
    Bell, ItemRun, LeaseTerm, LeasedItem, Partition, Pull, Role, TenantFilter, WorkLease, crash,
};

use super::super::poll::{ANSWER_BYTES, GiveBack, Look, TASK_BYTES, WorkerTask};
use super::super::pollers::Asking;
use super::super::task_id::{LeaseTerms, TaskId};
use super::super::{MISSED_HEARTBEATS, WorkError};
use super::{HandedOut, dispatch};
use crate::engine::{Engine, Inner};
use crate::ownership::ring;
use crate::render::Rendered;
use crate::worker::timeout_failure;

/// How often waiting workers look, in case no bell was heard.
const LOOK: Duration = Duration::from_secs(10);

/// Bells for the queue that ring within this time are answered together.
const TOGETHER: Duration = Duration::from_millis(5);

/// How many kinds of work are looked at for workers that wait.
const KINDS: usize = 1_000;

/// What became of an item that was pulled.
enum Prepared {
    Task(Box<WorkerTask>),
    /// Its attempt ended, or is not in the queue any more.
    Ended,
    /// It waits for a process of a newer version.
    Left,
}

/// Wakes workers that wait here for what came into the queue, for as long as the engine lives.
pub(crate) async fn wake_always(engine: std::sync::Weak<Inner>) {
    let Some(inner) = engine.upgrade() else {
        return;
    };
    let (shared, stop) = {
        let engine = Engine::of(inner);
        (engine.shared().clone(), engine.stop_token())
    };
    let mut rung = shared.remote.shared.rung.subscribe();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            changed = rung.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(LOOK) => {}
        }
        if !shared.remote.pollers.any_waits() {
            continue;
        }
        tokio::time::sleep(TOGETHER).await;
        rung.mark_unchanged();
        let Some(inner) = engine.upgrade() else {
            return;
        };
        let depth = Engine::of(inner).store().queue_depth(KINDS).await;
        // What cannot be read now is looked for with the next bell.
        for kind in depth.unwrap_or_default() {
            let pollers = &shared.remote.pollers;
            pollers.wake_some(&kind.tenant, &kind.action, &kind.requires, kind.waiting);
        }
    }
}

impl Engine {
    /// Leases what there is, and renders it.
    pub(in crate::remote) async fn hand_out_shared(
        &self,
        asking: &Asking,
        slots: usize,
        holding: Option<Vec<TaskId>>,
    ) -> Result<Look, WorkError> {
        let pull = Pull {
            worker: asking.worker.clone(),
            tenant: TenantFilter::Only(asking.tenant.clone()),
            actions: asking.actions.to_vec(),
            labels: asking.labels.to_vec(),
            slots,
            max_bytes: ANSWER_BYTES,
            term: LeaseTerm::Millis(self.options().work_lease_ms),
            holding: holding.map(|tasks| tasks.into_iter().map(|task| task.0).collect()),
        };
        let begun = Instant::now();
        let leased = self.store().pull(pull).await?;
        if leased.is_empty() {
            return Ok(Look::default());
        }
        crash::point("after-work-pull");
        let mut back = GiveBack::new(self, leased);
        let (mut look, mut bytes) = (Look::default(), 0);
        while let Some(leased) = back.first() {
            match self.prepare_task(asking, &leased).await? {
                Prepared::Task(task) => {
                    bytes += task.parameters.len() + TASK_BYTES;
                    if bytes > ANSWER_BYTES && !look.tasks.is_empty() {
                        break;
                    }
                    look.tasks.push(*task);
                }
                Prepared::Ended => look.ended_some = true,
                Prepared::Left => {}
            }
            back.given();
        }
        // The process stood still, or the database was away: other workers have them, or will.
        if begun.elapsed() >= self.work_lease() {
            look.tasks.clear();
        }
        Ok(look)
    }

    /// The partition of an item's run, if its attempts may be begun. Another item is withdrawn:
    /// if its attempt is open, the owner puts it into the queue again when it may begin.
    pub(super) async fn partition_of_item(
        &self,
        leased: &LeasedItem,
    ) -> Result<Option<Partition>, windlass_store::Error> {
        let run = match leased.run {
            Some(run) => Some(run),
            None => {
                let row = self.store().run(leased.item.key.run).await?;
                row.map(|row| ItemRun {
                    partition: row.partition,
                    is_running: row.status == RunStatus::Running && !row.dead,
                })
            }
        };
        let run = run.filter(|run| run.is_running);
        if run.is_none() {
            self.store().withdraw(&[leased.item.key]).await?;
        }
        Ok(run.map(|run| run.partition))
    }

    async fn prepare_task(
        &self,
        asking: &Asking,
        leased: &LeasedItem,
    ) -> Result<Prepared, WorkError> {
        let (tenant, key) = (leased.item.tenant.as_deref(), leased.item.key);
        let Some(dispatch) = dispatch::decode(&leased.item) else {
            // Of a newer version: a process of that version can read it.
            self.store().return_item(tenant, key, leased.lease).await?;
            return Ok(Prepared::Left);
        };
        let Some(partition) = self.partition_of_item(leased).await? else {
            return Ok(Prepared::Ended);
        };
        let (dispatch, now) = (std::sync::Arc::new(dispatch), self.now());
        let since = Millis(now.0 - i64::try_from(leased.begun_ms).unwrap_or(0));
        let terms = LeaseTerms {
            generation: leased.deliveries,
            since: Some(since),
            worker: asking.worker.clone(),
        };
        let task = TaskId(key);
        let lease = self.lease_key().await?.lease(task, leased.lease.0, &terms);
        let given = (partition, task, leased.lease, lease.clone());
        let remains = dispatch.timeout_ms.saturating_sub(leased.begun_ms);
        let rendered = match remains {
            0 => Err((timeout_failure(dispatch.timeout_ms), None)),
            _ => self.render_checked(&dispatch).await,
        };
        let rendered: Rendered = match rendered {
            Ok(rendered) => rendered,
            Err((failure, parameters)) => {
                let report = Report {
                    started: since,
                    parameters,
                    worker: asking.worker.clone(),
                    ..self.workers().report(Outcome::Failed(failure))
                };
                self.deliver_beside(given, report);
                return Ok(Prepared::Ended);
            }
        };
        let handed = HandedOut {
            dispatch: dispatch.clone(),
            recorded: rendered.recorded,
            secrets: rendered.secrets,
        };
        self.shared().remote.shared.remember(key, &lease, handed);
        let term = self.work_lease();
        Ok(Prepared::Task(Box::new(WorkerTask {
            task,
            lease,
            parameters: rendered.text,
            timeout: Duration::from_millis(remains),
            deadline: since.plus(dispatch.timeout_ms),
            heartbeat: term / u32::try_from(MISSED_HEARTBEATS).unwrap_or(1),
            traceparent: self.traceparent_of(&dispatch),
            dispatch,
        })))
    }

    /// Ends an attempt that never reached its worker.
    fn deliver_beside(
        &self,
        (partition, task, number, lease): (Partition, TaskId, WorkLease, Box<str>),
        mut report: Report,
    ) {
        report.lease = Some(lease);
        let engine = self.clone();
        tokio::spawn(async move {
            engine
                .deliver(partition, (task, number), report, None)
                .await
        });
    }

    /// Items that a worker was to get wait again: others are woken for them.
    pub(in crate::remote) fn rings_for_work(&self) {
        if self.shared().owned.is_shared() {
            ring(std::sync::Arc::clone(self.store()), Bell::Work);
        }
    }

    /// Whether this process serves workers over HTTP.
    pub(crate) fn serves_pollers(&self) -> bool {
        self.shared().owned.is_shared() && self.options().roles.has(Role::Api)
    }
}
