//! Attempts that a process before this one may have handed out: they are held back for one
//! lease, so that a worker which outlived that process continues. A worker that comes back with
//! its lease has the attempt again, without the work queue.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::Millis;
use windlass_store::WorkKey;

use super::open::{AssignedWorker, Begun, Deadline, Open, OpenAttempts};

/// What became of a worker that continues an attempt.
pub(super) enum Resumed {
    /// It has it; whether it is asked to stop.
    Yes { stop: bool },
    /// The attempt is in the work queue, which must give the lease.
    Queued,
    /// Another lease has it meanwhile.
    Lost,
    /// It is not open any more.
    Gone,
}

impl OpenAttempts {
    /// The attempt goes into the work queue from now on; `false` if it is there, or must not go.
    pub(super) fn release(&self, key: WorkKey) -> bool {
        let mut table = self.table();
        let released = table.at(key).is_some_and(|open| {
            let goes = !open.queued && !open.stop;
            open.queued |= goes;
            goes
        });
        if released {
            table.unqueued.remove(&(key.run, key.instance));
        }
        released
    }

    /// A worker continues an attempt: under a lease of the queue, or without where the queue
    /// does not have the attempt. Its time goes on from `since`.
    pub(super) fn resume(
        &self,
        key: WorkKey,
        mut assigned: AssignedWorker,
        (since, now): (Option<Millis>, Millis),
        lease: Duration,
    ) -> Resumed {
        let mut table = self.table();
        let Some(open) = table.at(key) else {
            return Resumed::Gone;
        };
        if open
            .assigned
            .as_ref()
            .is_some_and(|it| it.lease != assigned.lease)
        {
            return Resumed::Lost;
        }
        if open.queued && assigned.number.is_none() {
            return Resumed::Queued;
        }
        let at = Instant::now();
        let begun = open.begun.unwrap_or_else(|| {
            let since = since.unwrap_or(now);
            let passed = u64::try_from(now.0.saturating_sub(since.0)).unwrap_or(0);
            let remains = open.dispatch.timeout_ms.saturating_sub(passed);
            Begun {
                at: since,
                deadline: at + Duration::from_millis(remains),
            }
        });
        let before = open.assigned.take();
        let waited = before.is_none();
        if let Some(before) = before {
            assigned.recorded = before.recorded;
            assigned.secrets = before.secrets;
        }
        open.assigned = Some(assigned);
        open.begun = Some(begun);
        open.leased_until = Some(at + lease);
        let stop = open.stop;
        table.set(key, Deadline::Unknown, None);
        let timeout = table.set(key, Deadline::Timeout, Some(begun.deadline));
        if table.set(key, Deadline::Lease, Some(at + lease)) || timeout {
            self.earlier.notify_one();
        }
        if waited {
            table.waits_no_more(key.run);
            self.counted(&table);
        }
        Resumed::Yes { stop }
    }

    /// Attempts of a tenant whose last hand-out is not known yet.
    pub(super) fn unread(&self, tenant: Option<&str>) -> Vec<WorkKey> {
        let table = self.table();
        let held = table.unqueued.iter();
        let open = held.filter_map(|place| table.open.get(place));
        let own = open.filter(|open| !open.is_read && open.dispatch.tenant.as_deref() == tenant);
        own.map(Open::key).collect()
    }

    /// A worker polls and names the tasks that it has. One that is held back and named is held
    /// back longer; the others that were this worker's last can be handed out, and come back.
    pub(super) fn named(
        &self,
        (tenant, worker): (Option<&str>, &str),
        holding: &[WorkKey],
        lease: Duration,
    ) -> Vec<WorkKey> {
        let mut table = self.table();
        if table.unqueued.is_empty() {
            return Vec::new();
        }
        let holding: HashSet<&WorkKey> = holding.iter().collect();
        let places: Vec<_> = table.unqueued.iter().copied().collect();
        let mut lost = Vec::new();
        for place in places {
            let open = table.open.get_mut(&place);
            let own = |open: &&mut Open| open.dispatch.tenant.as_deref() == tenant;
            let Some(open) = open.filter(own) else {
                continue;
            };
            let is_named = holding.contains(&open.key());
            let had = open.assigned.as_ref().map(|assigned| &assigned.worker);
            let had = had.or(open.last_worker.as_ref());
            if is_named && open.assigned.is_none() {
                let until = Instant::now() + lease;
                let until = open.held_until.map_or(until, |most| most.min(until));
                open.leased_until = open.leased_until.max(Some(until));
            } else if !is_named && had.is_some_and(|had| **had == *worker) {
                lost.push(open.key());
            }
        }
        lost
    }
}
