//! What is to happen at a time: a table with a next deadline, no clock.

use std::collections::{BTreeMap, VecDeque};

use windlass_core::run::Instance;
use windlass_core::{Millis, RunId};

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// A node is due: its next attempt, the end of its delay, wait or backoff.
    Due(Instance, u32),
    /// The grace of a stop is over.
    Grace,
    /// The run's own time is over.
    Timeout,
    /// A run that waits for a child may have been idle long enough to be released.
    Idle,
    /// An attempt may still be with its worker.
    StillRunning(Instance, u32),
}

/// Deadlines of all runs of a shard.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    table: BTreeMap<(Millis, u64), (RunId, Deadline)>,
    /// All of these have the same delay, so they are in order as they come.
    still_running: VecDeque<(Millis, RunId, Deadline)>,
    next_key: u64,
}

impl Deadlines {
    pub(crate) fn set(&mut self, at: Millis, run: RunId, deadline: Deadline) {
        self.next_key += 1;
        self.table.insert((at, self.next_key), (run, deadline));
    }

    /// Notes a start; `at` must not be before that of the last note.
    pub(crate) fn note_start(&mut self, at: Millis, run: RunId, node: Instance, attempt: u32) {
        self.still_running
            .push_back((at, run, Deadline::StillRunning(node, attempt)));
    }

    /// The next deadline; deadlines that `is_stale` accepts are dropped without a wake-up.
    pub(crate) fn next(&mut self, is_stale: impl Fn(RunId, Deadline) -> bool) -> Option<Millis> {
        while let Some(&(_, run, deadline)) = self.still_running.front() {
            if !is_stale(run, deadline) {
                break;
            }
            self.still_running.pop_front();
        }
        let noted = self.still_running.front().map(|&(at, ..)| at);
        let set = self.table.keys().next().map(|&(at, _)| at);
        [noted, set].into_iter().flatten().min()
    }

    /// Takes one deadline that has passed.
    pub(crate) fn pop_due(&mut self, now: Millis) -> Option<(RunId, Deadline)> {
        if let Some(&(at, run, deadline)) = self.still_running.front()
            && at <= now
        {
            self.still_running.pop_front();
            return Some((run, deadline));
        }
        let entry = self
            .table
            .first_entry()
            .filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }
}
