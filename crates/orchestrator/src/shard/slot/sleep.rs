//! When a slot lets its run go: it has ended, or only waits.

use windlass_core::{Millis, RunStatus};

use super::Slot;
use crate::deadline::Deadline;
use crate::shard::{Context, Effect};

impl Slot {
    /// Wakes a run that slept: no process had an attempt of it, so nothing is recorded.
    pub(super) fn wake(&mut self, context: &mut Context<'_>) {
        self.slept = (true, self.run.wake_at());
        let waiting = self.open_ones();
        self.carry_out(waiting, context);
        let run = self.run.id();
        if let Some(at) = self.run.timeout_at() {
            context.deadlines.set(at, run, Deadline::Timeout);
        }
        if let Some(at) = self.run.grace_deadline() {
            context.deadlines.set(at, run, Deadline::Grace);
        }
    }

    /// Releases a run that has ended, has not begun or sleeps, once everything of it is
    /// durable and nothing waits.
    pub(super) fn release_at_the_end(&mut self, context: &mut Context<'_>) {
        let quiet = self.record.is_empty() && self.in_flight.is_none() && self.inbox.is_empty();
        if !quiet || self.closed || self.is_waiting() {
            return;
        }
        let (run, status) = (self.run.id(), self.run.status());
        if status.is_final() || status == RunStatus::Pending {
            if status.is_final() {
                let parent = self.parent();
                let about = Box::new(self.run.about());
                context.effects.push_back(Effect::Finished {
                    run,
                    status,
                    parent,
                    about,
                    here: self.found_ended != Some(self.head),
                });
            }
            self.closed = true;
            return;
        }
        // When a paused run is resumed, the shard finds its ready nodes again.
        let ready = !self.ready.is_empty() && status != RunStatus::Paused;
        let waits = self.slot_requests().next().is_some();
        let nothing_runs = self.running.len() == 0 && !ready && !waits && self.resuming == 0;
        let far = context.now.plus(context.options.keep_asleep_ms);
        if self.acquired && nothing_runs && self.slept.0 && self.slept.1.is_none_or(|at| at > far) {
            let wake_at = self.slept.1;
            let for_child = self.run.open_children().next().is_some();
            // Children often end soon, and reading a run back for each would cost more.
            if for_child && !self.has_been_idle(context) {
                return;
            }
            context.effects.push_back(Effect::Asleep {
                run,
                wake_at,
                for_child,
            });
            self.closed = true;
        }
    }

    /// Whether nothing has happened for a while; if not, sets a deadline to ask again.
    pub(super) fn has_been_idle(&mut self, context: &mut Context<'_>) -> bool {
        let keep = context.options.keep_asleep_ms;
        match self.idle_since {
            Some(since) => since.plus(keep) <= context.now,
            None => {
                self.idle_since = Some(context.now);
                let at = context.now.plus(keep);
                context.deadlines.set(at, self.run.id(), Deadline::Idle);
                keep == 0
            }
        }
    }

    /// Whether the run waits for nothing in this process, and when it must be woken.
    pub(super) fn sleep(&self) -> (bool, Option<Millis>) {
        let paused = self.run.status() == RunStatus::Paused && self.running.len() == 0;
        let decided = self.inbox.is_empty() && !self.is_waiting() && !self.has_more;
        let asleep = (self.run.is_asleep() || paused) && decided;
        let begun = !matches!(self.run.status(), RunStatus::Pending);
        if asleep && begun && !self.run.status().is_final() {
            (true, self.run.wake_at())
        } else {
            (false, None)
        }
    }
}
