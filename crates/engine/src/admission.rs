//! Begins pending runs, as [`AdmissionQueue`] decides. One task asks it, so that what it reads and
//! what it decides fit together. It looks only when a bell rings: a run came, a run ended, there is
//! room again.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::RunId;
use windlass_orchestrator::supervisor::{
    AcquireResult, AdmissionFacts, AdmissionQueue, AdmissionStep, GateTable,
};
use windlass_store::{Error, RunRow};

use crate::engine::{Engine, Inner};
use crate::load::{LoadError, Unavailable};
use crate::shared::{Shared, Tenant};

/// How many runs may be about to begin at once: reading them takes place beside the driver.
const MOST_BEGINNING: usize = 128;

/// How soon to look again when the store could not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// Begins pending runs until the engine is gone.
pub(crate) async fn admit(engine: Weak<Inner>, max_active: usize) {
    let mut queue: Option<AdmissionQueue> = None;
    let mut known = false;
    loop {
        let Some(inner) = engine.upgrade() else {
            return;
        };
        let engine = Engine::of(inner);
        let is_shared = engine.shared().owned.is_shared();
        let queue = queue.get_or_insert_with(|| AdmissionQueue::new(is_shared));
        if engine.shared().look_at_all.swap(false, Ordering::AcqRel) || !known {
            known = engine.look_at_waiting(queue).await.is_ok();
        }
        let wrong = !known || engine.fill(queue, max_active).await.is_err();
        let shared = engine.shared().clone();
        let stop = engine.stop_token();
        drop(engine);
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.bell.notified() => {}
            () = tokio::time::sleep(AGAIN), if wrong => {}
        }
    }
}

/// What admission asks of this engine.
struct Facts<'a> {
    shared: &'a Shared,
    max_active: usize,
}

impl AdmissionFacts for Facts<'_> {
    fn arrived(&mut self) -> Vec<(Tenant, u8)> {
        self.shared.arrived_since().into_iter().collect()
    }

    fn has_room(&mut self) -> bool {
        let shared = self.shared;
        if shared.isolation.is_closed() {
            return false;
        }
        let loading = shared.loading.load(Ordering::Acquire);
        let active = shared.active() + loading;
        active < self.max_active && shared.gates.lock().beginning() < MOST_BEGINNING
    }

    fn suspects(&mut self) -> usize {
        self.shared.isolation.count()
    }

    fn is_suspect(&mut self, run: RunId) -> bool {
        self.shared.isolation.suspended(run).is_some()
    }

    fn gates<T>(&mut self, ask: impl FnOnce(&mut GateTable) -> T) -> T {
        ask(&mut self.shared.gates.lock())
    }
}

impl Engine {
    async fn look_at_waiting(&self, queue: &mut AdmissionQueue) -> Result<(), Error> {
        let partitions = self.shared().owned.partitions();
        let tenants = self.store().waiting_tenants(&partitions).await?;
        let gates = self.store().parked_gates(&partitions).await?;
        queue.look_at_all(tenants, gates);
        Ok(())
    }

    /// Begins what can begin.
    async fn fill(&self, queue: &mut AdmissionQueue, max_active: usize) -> Result<(), Error> {
        let shared = self.shared().clone();
        let mut facts = Facts {
            shared: &shared,
            max_active: max_active.max(1),
        };
        loop {
            let step = queue.next_step(&mut facts);
            if step == AdmissionStep::Wait {
                return Ok(());
            }
            if let Err(error) = self.admission_step(queue, step, &mut facts).await {
                queue.failed();
                return Err(error);
            }
        }
    }

    async fn admission_step(
        &self,
        queue: &mut AdmissionQueue,
        step: AdmissionStep,
        facts: &mut Facts<'_>,
    ) -> Result<(), Error> {
        let partitions = || self.shared().owned.partitions();
        match step {
            AdmissionStep::Park(runs) => {
                self.looked();
                self.store().park(runs).await?;
                queue.parked();
            }
            AdmissionStep::ReadParked { gate, limit } => {
                self.looked();
                let rows = self.store().parked(&partitions(), &gate, limit).await?;
                queue.rows_read(rows, facts);
                self.repair_beside();
            }
            AdmissionStep::ReadWaiting { tenant, limit } => {
                self.looked();
                let tenant = tenant.as_deref();
                let rows = self.store().waiting(&partitions(), tenant, limit).await?;
                queue.rows_read(rows, facts);
                self.repair_beside();
            }
            AdmissionStep::Pass(row) => {
                let passage = match self.shared().isolation.stands_before(&row) {
                    true => AcquireResult::Full,
                    false => self.pass(&row).await?,
                };
                if let Some(row) = queue.passed(passage, facts) {
                    self.begin_beside(row);
                }
            }
            AdmissionStep::Wait => {}
        }
        Ok(())
    }
}

/// Counts a run as being read for as long as it lives.
struct Loading(std::sync::Arc<crate::shared::Shared>);

impl Drop for Loading {
    fn drop(&mut self) {
        self.0.loading.fetch_sub(1, Ordering::AcqRel);
        self.0.bell.notify_one();
    }
}

impl Engine {
    fn looked(&self) {
        self.shared().looks.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins a run that has its place, on a task of its own.
    pub(crate) fn begin_beside(&self, row: RunRow) {
        let engine = self.clone();
        self.shared().loading.fetch_add(1, Ordering::AcqRel);
        let loading = Loading(self.shared().clone());
        tokio::spawn(async move {
            engine.begin_admitted(&row).await;
            drop(loading);
        });
    }

    /// Begins a run that has its place, and waits until the driver has it.
    pub(crate) async fn begin_admitted(&self, row: &RunRow) -> bool {
        // Known to the driver by then: it counts as held.
        let acquired = self.begin_or_dead_letter(row).await && self.is_acquired(row.run).await;
        if !acquired {
            self.shared().gates.lock().give_up(row.run);
            // What cannot be compared now is looked at again soon.
            let _ = self.free_if_over(row).await;
        }
        acquired
    }

    async fn begin_or_dead_letter(&self, row: &RunRow) -> bool {
        match self.begin(row.run).await {
            Ok(()) => true,
            Err(error) if self.is_unreadable(&error) => {
                // What the store cannot take now stays in line.
                let dead_lettered = self.dead_letter_unreadable(row, &error).await;
                if dead_lettered.is_err() {
                    self.look_again(row);
                }
                false
            }
            // Its owner begins it.
            Err(LoadError::Unavailable(Unavailable::Elsewhere)) => false,
            Err(_) => {
                self.look_again(row);
                false
            }
        }
    }

    /// A run that could not begin is tried again after a while.
    fn look_again(&self, row: &RunRow) {
        let (shared, stop) = (self.shared().clone(), self.stop_token());
        let (tenant, priority) = (row.tenant.clone(), row.priority);
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(AGAIN) => shared.arrived(tenant, priority),
            }
        });
    }
}
