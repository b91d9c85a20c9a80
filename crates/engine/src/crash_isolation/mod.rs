//! Finding the run that crashes the process, so that it alone is dead-lettered (semantics §12.4).
//!
//! 1. A process that serves keeps a *session record* (`session.rs`). A clean stop closes it; one
//!    that the next process finds open belongs to a crash.
//! 2. A crash counts against the runs that the session had in hand: those whose last record it
//!    wrote, and the one that it was acquiring. After a crash runs are therefore acquired one at
//!    a time, and the record names each before it is loaded.
//! 3. A run with two crashes is a *suspect* (`suspects.rs`). It waits for a while; then the record
//!    names it as alone, and nothing else is acquired until it has ended or survived for some
//!    time. If the process crashes meanwhile, the suspect caused it, and is dead-lettered.
//!
//! What caused a crash, and what follows for each run, is decided by `CrashPolicy`; what is kept of
//! a dead-lettered run is in `dead_letter.rs`. A process that is killed from outside with one run
//! in hand looks the same as a crash by that run, which is why a dead letter takes several crashes
//! and can be requeued.

mod session;
mod suspects;
mod suspension_note;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_core::event::After;
use windlass_core::{Millis, RunId, RunStatus};
use windlass_orchestrator::supervisor::{CrashPolicy, CrashVerdict, SessionEnd};
use windlass_store::{RunRow, WriterId};

use crate::engine::Engine;
use crate::load::{LoadError, LoadedRun, Unavailable};

use self::session::Session;
pub(crate) use self::suspects::Closed;

/// A run that waits to be acquired alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspended {
    /// How many processes died with it in hand.
    pub deaths: u32,
    /// When it is tried, if no other run is then.
    pub until: Millis,
}

/// A run that is to be acquired alone.
pub(crate) struct Suspect {
    pub(crate) row: RunRow,
    pub(crate) crashes: u32,
}

/// When a run is a suspect, and how it is treated then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsolationLimits {
    pub(crate) policy: CrashPolicy,
    /// How long a suspect waits.
    pub(crate) delay_ms: u64,
    /// How long nothing else is acquired, at first.
    pub(crate) alone_ms: u64,
}

impl IsolationLimits {
    /// How long a suspect stays alone: the longer, the more crashes there were without a
    /// known cause, up to the time that it waits before.
    fn alone(&self, crashes: u32) -> Duration {
        let doubled = crashes.saturating_sub(2).min(16);
        let grown = self.alone_ms.saturating_mul(1 << doubled);
        Duration::from_millis(grown.min(self.delay_ms.max(self.alone_ms)))
    }
}

/// What an engine knows of crashes.
#[derive(Default)]
pub(crate) struct CrashIsolation {
    /// Whether a suspect is alone, or the suspects are not known yet: nothing else begins.
    closed: AtomicBool,
    /// How many runs are still acquired one at a time.
    careful: AtomicUsize,
    session: tokio::sync::Mutex<Session>,
    suspects: Mutex<BTreeMap<RunId, Suspended>>,
    /// Suspects whose time has come and that wait at a full gate, with it and their priority.
    at_gates: Mutex<BTreeMap<RunId, (Box<str>, u8)>>,
    ends: Mutex<HashMap<u64, SessionEnd>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CrashIsolation {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn suspended(&self, run: RunId) -> Option<Suspended> {
        lock(&self.suspects).get(&run).copied()
    }

    /// The suspects that stand in no line: those whose time has come wait at their gate as any
    /// other run.
    pub(crate) fn aside(&self) -> Vec<RunId> {
        let at_gates = lock(&self.at_gates);
        let suspects = lock(&self.suspects);
        let aside = suspects.keys().filter(|run| !at_gates.contains_key(run));
        aside.copied().collect()
    }

    /// A suspect whose time has come waits at a full gate from now on.
    fn waits_at_gate(&self, row: &RunRow) {
        if let Some(gate) = row.gate.clone() {
            lock(&self.at_gates).insert(row.run, (gate, row.priority));
        }
    }

    /// It does not any more; whether it did.
    fn left_gate(&self, run: RunId) -> bool {
        lock(&self.at_gates).remove(&run).is_some()
    }

    /// Whether a suspect stands before a run at its gate. Admission does not see it there: it is
    /// acquired alone, and would find each place taken by the next in line.
    pub(crate) fn stands_before(&self, row: &RunRow) -> bool {
        let Some(gate) = &row.gate else {
            return false;
        };
        let own = (Reverse(row.priority), row.run);
        let at_gates = lock(&self.at_gates);
        let mut at_gate = at_gates.iter().filter(|(_, (at, _))| at == gate);
        at_gate.any(|(&run, &(_, priority))| (Reverse(priority), run) < own)
    }

    /// How many suspects wait.
    pub(crate) fn count(&self) -> usize {
        lock(&self.suspects).len()
    }
}

impl Engine {
    fn isolation(&self) -> &CrashIsolation {
        &self.shared().isolation
    }

    /// Whether a run waits to be acquired alone, because processes crashed with it in hand.
    pub fn suspended(&self, run: RunId) -> Option<Suspended> {
        self.isolation().suspended(run)
    }

    /// How a run is recovered, after what became of the process that had it.
    ///
    /// # Errors
    /// The run is a dead letter, becomes one, or must wait until it is acquired alone.
    pub(crate) async fn crash_policy(
        &self,
        row: Option<&RunRow>,
        loaded: &LoadedRun,
        alone: bool,
    ) -> Result<After, LoadError> {
        let run = &loaded.run;
        if row.is_some_and(|row| row.dead) {
            return Err(LoadError::Unavailable(Unavailable::Dead));
        }
        let begun = matches!(run.status(), RunStatus::Running | RunStatus::Paused);
        // What only workers outside the process had did not take the process down.
        if begun && run.has_attempts_out() && !run.has_attempts_out_of(|it| self.calls(it)) {
            return Ok(After::Stop);
        }
        let writer = match begun && run.has_attempts_out() {
            true => self.writer_at(run.id(), loaded.head.sequence).await?,
            false => None,
        };
        // Nothing of it was in hand: nothing is counted.
        let Some(WriterId(writer)) = writer else {
            return Ok(After::Death);
        };
        if self.delegates(writer).await? {
            return Ok(After::Stop);
        }
        let end = self.session_end(writer).await?;
        let Some(limits) = self.crash_limits() else {
            return Ok(match end {
                SessionEnd::Clean => After::Stop,
                SessionEnd::Crashed { .. } => After::Death,
            });
        };
        let why = match limits.policy.verdict(run.id(), run.deaths(), end) {
            CrashVerdict::Acquire(after) => return Ok(after),
            CrashVerdict::Isolate { .. } if alone => return Ok(After::Death),
            CrashVerdict::Isolate { crashes: deaths } => Unavailable::Later { deaths },
            CrashVerdict::DeadLetter { crashes: deaths } => Unavailable::Poison { deaths },
        };
        Err(LoadError::Unavailable(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspects_stay_alone_for_longer_with_each_crash_up_to_the_delay() {
        let limits = IsolationLimits {
            policy: CrashPolicy { max_crashes: 3 },
            delay_ms: 300_000,
            alone_ms: 10_000,
        };
        let seconds = |crashes| limits.alone(crashes).as_secs();
        assert_eq!([2, 3, 4, 60].map(seconds), [10, 20, 40, 300]);
    }
}
