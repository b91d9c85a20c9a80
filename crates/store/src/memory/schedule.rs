//! Schedules in memory.

use std::future::ready;

use windlass_core::Millis;

use super::answer;
use crate::{Error, Fired, MemoryStore, Pending, Schedule, Schedules, TenantFilter};

/// Id and tenant.
pub(super) type ScheduleKey = (Box<str>, Option<Box<str>>);

pub(super) fn key(tenant: Option<&str>, id: &str) -> ScheduleKey {
    (id.into(), tenant.map(Into::into))
}

impl Schedules for MemoryStore {
    fn put_schedule(&self, schedule: Schedule, most: usize) -> Pending<'_, Result<bool, Error>> {
        let schedules = &mut self.state().schedules;
        let key = key(schedule.tenant.as_deref(), &schedule.id);
        let old = schedules.get(&key);
        if old.is_none() {
            let own = schedules.keys().filter(|(_, tenant)| *tenant == key.1);
            if own.count() >= most {
                return Box::pin(ready(Ok(false)));
            }
        }
        let kept = Schedule {
            last_at: old.and_then(|old| old.last_at),
            last_run: old.and_then(|old| old.last_run),
            last_error: old.and_then(|old| old.last_error.clone()),
            revision: old.map_or(0, |old| old.revision) + 1,
            ..schedule
        };
        schedules.insert(key, kept);
        Box::pin(ready(Ok(true)))
    }

    fn schedule(
        &self,
        tenant: Option<&str>,
        id: &str,
    ) -> Pending<'_, Result<Option<Schedule>, Error>> {
        answer(|| Ok(self.state().schedules.get(&key(tenant, id)).cloned()))
    }

    fn schedules(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Schedule>, Error>> {
        answer(|| {
            let after = after.map(|(id, tenant)| key(tenant, id));
            let state = self.state();
            let rest = state
                .schedules
                .iter()
                .filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
            let meant = rest.filter(|((_, owner), _)| tenant.matches(owner.as_deref()));
            let found = meant.take(limit).map(|(_, schedule)| schedule.clone());
            Ok(found.collect())
        })
    }

    fn remove_schedule(&self, tenant: Option<&str>, id: &str) -> Pending<'_, Result<bool, Error>> {
        let removed = self.state().schedules.remove(&key(tenant, id));
        Box::pin(ready(Ok(removed.is_some())))
    }

    fn due_schedules(
        &self,
        until: Millis,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Schedule>, Error>> {
        answer(|| {
            let state = self.state();
            let due = |schedule: &&Schedule| schedule.next_at.is_some_and(|at| at <= until);
            let mut found: Vec<Schedule> = state.schedules.values().filter(due).cloned().collect();
            // Stable: those of the same time stay in the order of the map.
            found.sort_by_key(|schedule| schedule.next_at);
            found.truncate(limit);
            Ok(found)
        })
    }

    fn next_schedule(&self) -> Pending<'_, Result<Option<Millis>, Error>> {
        answer(|| {
            let state = self.state();
            let times = state.schedules.values().filter_map(|it| it.next_at);
            Ok(times.min())
        })
    }

    fn mark_fired(&self, fired: Fired) -> Pending<'_, Result<bool, Error>> {
        let mut state = self.state();
        let found = state.schedules.get_mut(&(fired.id, fired.tenant));
        let Some(schedule) = found.filter(|it| it.revision == fired.revision) else {
            return Box::pin(ready(Ok(false)));
        };
        schedule.last_at = Some(fired.at);
        schedule.last_run = fired.run.or(schedule.last_run);
        schedule.last_error = fired.error;
        schedule.next_at = fired.next_at;
        Box::pin(ready(Ok(true)))
    }
}
