//! Recovers and begins runs for as long as the engine lives.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::stream::{self, StreamExt as _};
use windlass_core::RunStatus;
use windlass_orchestrator::supervisor::CrashPolicy;
use windlass_store::{Error, Partition, Partitions, Role, RunRow};

use crate::admission::admit;
use crate::cluster::keep_house;
use crate::crash_isolation::{Closed, IsolationLimits, Suspect};
use crate::driver::Message;
use crate::engine::{Engine, Recovery};
use crate::interrupted::recover_interrupted_runs;
use crate::load::{LoadError, Unavailable};
use crate::ownership::own_always;
use crate::projector::project_always;
use crate::remote::{wake_always, watch_queue, work_always};
use crate::retention::{Retain, retain_always};
use crate::schedule::fire_always;

/// How many runs recovery reads from the list together.
const PAGE: usize = 256;

/// How many runs recovery reads back at once.
const AT_ONCE: usize = 16;

/// How an engine serves.
#[derive(Clone, Debug)]
pub struct Serving {
    /// How many runs may be in memory before no further one is begun. Those that sleep do
    /// not count.
    pub max_active_runs: usize,
    /// After this many crashes with its work in hand, a run is not tried again.
    pub max_poison_retries: u32,
    /// How long a run waits before it is tried again, after the second crash that it may have
    /// caused.
    pub poison_delay_ms: u64,
    /// How long, at first, no other run begins while a suspect is tried alone.
    pub poison_trial_ms: u64,
    /// What is kept of runs that have ended; looked after at the start and every hour.
    pub retention: Retain,
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            max_active_runs: 1024,
            max_poison_retries: 3,
            poison_delay_ms: 300_000,
            poison_trial_ms: 10_000,
            retention: Retain::default(),
        }
    }
}

/// What became of a run that recovery looked at.
enum RecoveryResult {
    Recovered(RunRow),
    DeadLettered(RunRow, String),
    Waits(Suspect),
    Unread(RunRow, String),
}

impl Recovery {
    fn note(&mut self, found: RecoveryResult, later: &mut Vec<Suspect>) {
        match found {
            RecoveryResult::Recovered(row) if row.status == RunStatus::Paused => {
                self.paused.push(row.run);
            }
            RecoveryResult::Recovered(row) => self.recovered.push(row.run),
            RecoveryResult::DeadLettered(row, reason) => self.dead_lettered.push((row.run, reason)),
            RecoveryResult::Unread(row, reason) => self.quarantined.push((row.run, reason)),
            RecoveryResult::Waits(suspect) => {
                self.waiting.push(suspect.row.run);
                later.push(suspect);
            }
        }
    }
}

impl Engine {
    /// Recovers what had begun, and begins pending runs from now on, fairly: tenants take
    /// turns, within a tenant the highest priority goes first, then the oldest, and a run
    /// whose gate is full waits for it. Until [`Self::shutdown`].
    ///
    /// # Errors
    /// The list of runs cannot be read, or this engine serves already.
    pub async fn serve(&self, options: Serving) -> Result<Recovery, Error> {
        if self.shared().serving.swap(true, Ordering::AcqRel) {
            let message = "this engine serves already".to_owned();
            return Err(Error::Unavailable(message));
        }
        self.gates_known()?;
        let closed = Closed::new(self);
        let limits = IsolationLimits {
            policy: CrashPolicy {
                max_crashes: options.max_poison_retries,
            },
            delay_ms: options.poison_delay_ms,
            alone_ms: options.poison_trial_ms,
        };
        self.set_crash_limits(limits);
        let most = options.max_active_runs.max(1);
        self.shared().max_active.store(most, Ordering::Release);
        let roles = self.options().roles;
        let engine = Arc::downgrade(self.inner());
        let mut recovery = Recovery::default();
        if roles.has(Role::Orchestrator) {
            let mut suspects = self.open_session(limits).await?;
            self.suspend(&suspects, limits);
            let partitions = self.shared().owned.partitions();
            recovery = self.recover_begun(&partitions, &mut suspects).await?;
            self.has_recovered();
            drop(closed);
            self.isolate(suspects, limits);
            tokio::spawn(recover_interrupted_runs(engine.clone()));
            tokio::spawn(admit(engine.clone(), options.max_active_runs));
            if self.shared().owned.is_shared() {
                tokio::spawn(watch_queue(engine.clone()));
            }
        }
        if roles.has(Role::Scheduler) {
            tokio::spawn(retain_always(engine.clone(), options.retention));
            tokio::spawn(fire_always(engine.clone(), self.now()));
            tokio::spawn(project_always(engine.clone()));
            if self.shared().owned.is_shared() {
                tokio::spawn(keep_house(engine.clone()));
            }
        }
        if self.serves_pollers() {
            tokio::spawn(wake_always(engine.clone()));
        }
        if self.shared().owned.is_shared() && roles.has(Role::Worker) {
            tokio::spawn(work_always(engine.clone()));
        }
        tokio::spawn(own_always(engine));
        Ok(recovery)
    }

    /// Recovers runs that had begun; the others wait for admission.
    async fn recover_begun(
        &self,
        partitions: &Partitions,
        later: &mut Vec<Suspect>,
    ) -> Result<Recovery, Error> {
        let mut recovery = Recovery::default();
        let mut after = None;
        loop {
            let page = self.store().begun(partitions, after, PAGE).await?;
            let Some(last) = page.last() else {
                break;
            };
            after = Some(last.run);
            let begun = page.into_iter().filter(|row| !row.dead);
            let (waiting, begun): (Vec<_>, Vec<_>) =
                begun.partition(|row| self.suspended(row.run).is_some());
            recovery.waiting.extend(waiting.iter().map(|row| row.run));
            let found = stream::iter(begun).map(|row| self.recover_one(row));
            let mut found = found.buffer_unordered(AT_ONCE);
            while let Some(found) = found.next().await {
                recovery.note(found?, later);
            }
        }
        // Those that the list left out.
        for row in self.repair_damaged_rows().await {
            if row.status != RunStatus::Pending {
                let row = self.recover_one(row).await?;
                recovery.note(row, later);
            }
        }
        Ok(recovery)
    }

    /// Acquires the runs of a partition that this process was given: those that have begun now,
    /// those that wait to begin or sleep when their turn or time comes. Then it decides on what
    /// was offered to them.
    pub(crate) async fn recover_partition(&self, partition: Partition) {
        let walks = &self.shared().recovery_walks;
        if walks.begins(partition) {
            self.walk_again(partition).await;
        }
    }

    async fn walk_partition(&self, partition: Partition) {
        let only = Partitions::Only(BTreeSet::from([partition]));
        self.walk_runs(&only).await;
        self.consume_inbox(partition).await;
    }

    async fn walk_runs(&self, only: &Partitions) {
        let mut suspects = Vec::new();
        // What cannot be read now is looked for again soon.
        let _ = self.recover_begun(only, &mut suspects).await;
        if let Some(limits) = self.crash_limits() {
            self.isolate(suspects, limits);
        }
        self.shared().look_at_all();
        self.tell(Message::LookAtSleepers).await;
        // What cannot be compared now is looked at again soon.
        let _ = self.leave_gate_lines().await;
        let _ = self.audit_places(only).await;
        let _ = self.audit_slots(only).await;
        self.tell(Message::LookAtPools).await;
    }

    /// Searches partitions for work that no wake-up announced: all of them in one walk, after
    /// one question if there is nothing.
    pub(crate) async fn sweep(&self, partitions: BTreeSet<Partition>) {
        let only = Partitions::Only(partitions.clone());
        // What cannot be asked now is asked again soon.
        if !matches!(self.store().has_work(&only).await, Ok(true)) {
            return;
        }
        let walks = &self.shared().recovery_walks;
        let walked: BTreeSet<Partition> = partitions
            .into_iter()
            .filter(|it| walks.begins(*it))
            .collect();
        let only = Partitions::Only(walked.clone());
        self.walk_runs(&only).await;
        let offered = self.store().offered(&only, None, 1).await;
        let has_offers = offered.is_ok_and(|offered| !offered.is_empty());
        for partition in walked {
            if has_offers {
                self.consume_inbox(partition).await;
            }
            if walks.goes_again(partition) {
                // It was taken meanwhile, or something was lost: that is a walk of its own.
                self.walk_again(partition).await;
            }
        }
    }

    async fn walk_again(&self, partition: Partition) {
        let walks = &self.shared().recovery_walks;
        loop {
            self.walk_partition(partition).await;
            if !walks.goes_again(partition) {
                return;
            }
        }
    }

    async fn recover_one(&self, row: RunRow) -> Result<RecoveryResult, Error> {
        if self.shared().owned.is_shared() && self.is_acquired(row.run).await {
            // A search of a partition asks the store for nothing that is at hand.
            return Ok(RecoveryResult::Recovered(row));
        }
        let Err(error) = self.recover(row.run).await else {
            return Ok(RecoveryResult::Recovered(row));
        };
        let reason = error.to_string();
        match error {
            LoadError::Unavailable(Unavailable::Poison { deaths }) => {
                let loaded = self.load_beside(row.run).await.ok();
                let run = loaded.as_ref().map(|loaded| &loaded.run);
                self.dead_letter_crasher(&row, deaths, run).await?;
                Ok(RecoveryResult::DeadLettered(row, reason))
            }
            LoadError::Unavailable(Unavailable::Later { deaths }) => {
                Ok(RecoveryResult::Waits(Suspect {
                    row,
                    crashes: deaths,
                }))
            }
            error if self.is_unreadable(&error) => {
                self.dead_letter_unreadable(&row, &error).await?;
                Ok(RecoveryResult::DeadLettered(row, reason))
            }
            _ => Ok(RecoveryResult::Unread(row, reason)),
        }
    }
}
