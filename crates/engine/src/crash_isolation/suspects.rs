//! Acquiring runs with care after a crash: one at a time, and suspects alone.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::{RunId, RunStatus};
use windlass_orchestrator::AcquireMode;
use windlass_orchestrator::supervisor::AcquireResult;
use windlass_store::{Error, RunRow};

use super::{IsolationLimits, Suspect, Suspended, lock};
use crate::acquire::AcquireOptions;
use crate::engine::Engine;
use crate::shared_gates::left_gate;

/// How many runs are acquired one at a time after those that had begun: what crashed the
/// process at its start is again among the first in line.
const CAREFUL: usize = 256;

/// How long a run that is acquired like this may take to its first record.
const FIRST_RECORD: Duration = Duration::from_secs(1);

/// How soon to look again.
const AGAIN: Duration = Duration::from_millis(2);

/// How soon a suspect is tried again that has to wait, as for a full gate: each try stops all others
/// from being acquired, and writes to the store.
const TRY_AGAIN: Duration = Duration::from_secs(1);

impl Engine {
    /// Everything that had begun is here: only the first in line are acquired carefully now.
    pub(crate) fn has_recovered(&self) {
        let careful = &self.isolation().careful;
        let _ = careful.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            (left > 0).then_some(CAREFUL)
        });
    }

    /// After a crash: names a run in the session record before it is acquired. No other is
    /// while the answer lives.
    pub(crate) async fn name_acquired(&self, run: RunId) -> Option<impl Sized + use<'_>> {
        let isolation = self.isolation();
        let take = |left: usize| left.checked_sub(1);
        let careful = &isolation.careful;
        careful
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .ok()?;
        let mut session = isolation.session.lock().await;
        session.acquiring = Some(run);
        // A store that does not take this will not take the run's record either.
        let _ = self.keep_session(self.writer().0, &session).await;
        Some(session)
    }

    /// Waits for the first record of a run that was acquired; its crashes before are forgiven.
    pub(crate) async fn has_survived(&self, run: RunId) {
        let written = async {
            while self.last_writer(run).await != Some(self.writer().0)
                && self.is_acquired(run).await
            {
                tokio::time::sleep(AGAIN).await;
            }
        };
        let _ = tokio::time::timeout(FIRST_RECORD, written).await;
    }

    /// From now on these wait to be acquired alone.
    pub(crate) fn suspend(&self, suspects: &[Suspect], limits: IsolationLimits) {
        let until = self.now().plus(limits.delay_ms);
        for &Suspect { ref row, crashes } in suspects {
            let suspended = Suspended {
                deaths: crashes,
                until,
            };
            lock(&self.isolation().suspects).insert(row.run, suspended);
        }
    }

    /// Acquires suspects after a while, one after the other, each alone.
    pub(crate) fn isolate(&self, suspects: Vec<Suspect>, limits: IsolationLimits) {
        if suspects.is_empty() {
            return;
        }
        self.suspend(&suspects, limits);
        let (engine, stop) = (self.clone(), self.stop_token());
        let mut waiting = VecDeque::from(suspects);
        let isolating = async move {
            engine.tell_suspended(&waiting).await;
            // The next walk repeats what the store does not take now.
            let _ = engine.leave_gate_lines().await;
            let first = engine.isolation().session.lock().await.first;
            let is_first = |suspect: &Suspect| Some(suspect.row.run) == first;
            if let Some(place) = waiting.iter().position(is_first) {
                waiting.swap(0, place);
            }
            tokio::time::sleep(Duration::from_millis(limits.delay_ms)).await;
            while let Some(suspect) = waiting.pop_front() {
                if !engine.run_alone(&suspect, limits).await {
                    waiting.push_back(suspect);
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        };
        tokio::spawn(async move { stop.run_until_cancelled(isolating).await });
    }

    /// Acquires one suspect while nothing else is; false if it has to wait.
    async fn run_alone(&self, suspect: &Suspect, limits: IsolationLimits) -> bool {
        let closed = Closed::new(self);
        while self.shared().gates.lock().beginning() > 0 {
            tokio::time::sleep(AGAIN).await;
        }
        let run = suspect.row.run;
        if self.set_alone(Some(run)).await.is_err() {
            return false;
        }
        let acquired = self.acquire_suspect(&suspect.row).await;
        if acquired == Some(true) {
            lock(&self.isolation().suspects).remove(&run);
            self.forget_suspended(run).await;
            let _ = tokio::time::timeout(limits.alone(suspect.crashes), self.wait(run)).await;
        }
        let _ = self.set_alone(None).await;
        drop(closed);
        if acquired.is_some()
            && self.isolation().left_gate(run)
            && let Some(gate) = suspect.row.gate.clone()
        {
            // There may be room for those that stood behind it.
            let gate = (suspect.row.tenant.clone(), gate);
            left_gate(Arc::clone(self.store()), Arc::clone(self.shared()), gate);
        }
        let RunRow {
            tenant, priority, ..
        } = &suspect.row;
        self.shared().arrived(tenant.clone(), *priority);
        acquired.is_some()
    }

    /// Names the run that is acquired alone; the one before has survived.
    async fn set_alone(&self, run: Option<RunId>) -> Result<(), Error> {
        let mut session = self.isolation().session.lock().await;
        let before = session.alone.take();
        session.survivors.extend(before);
        session.alone = run;
        session.acquiring = run;
        self.keep_session(self.writer().0, &session).await
    }

    /// Whether a suspect is here now; none if its gate is full.
    async fn acquire_suspect(&self, row: &RunRow) -> Option<bool> {
        if row.status != RunStatus::Pending {
            let acquire_options = AcquireOptions::recover(AcquireMode::RECOVER).alone();
            // What cannot be read now is found at the next start.
            return Some(self.acquire(row.run, acquire_options).await.is_ok());
        }
        match self.pass(row).await {
            Ok(AcquireResult::Free) => Some(self.begin_admitted(row).await),
            Ok(AcquireResult::Full) => {
                self.wait_at_gate(row).await;
                None
            }
            Ok(AcquireResult::Beginning) | Err(_) => None,
        }
    }

    /// A suspect whose time has come stands in the line of its gate again: its owner is told of
    /// room there, and no run behind it passes.
    async fn wait_at_gate(&self, row: &RunRow) {
        self.isolation().waits_at_gate(row);
        if self.shared().owned.is_shared() {
            // What the store does not take now is repeated with the next try.
            let _ = self.store().park(vec![row.run]).await;
        }
    }
}

/// While this lives, nothing is acquired but a suspect.
pub(crate) struct Closed(Engine);

impl Closed {
    pub(crate) fn new(engine: &Engine) -> Self {
        engine.isolation().closed.store(true, Ordering::Release);
        Self(engine.clone())
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.isolation().closed.store(false, Ordering::Release);
        self.0.shared().bell.notify_one();
    }
}
