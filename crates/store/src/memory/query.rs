//! Lists in memory: a walk over the sorted map of runs.

use std::future::ready;
use std::ops::Bound;

use windlass_core::{Millis, RunId};

use super::{State, answer, resource_key};
use crate::{
    Error, Health, MemoryStore, Partitions, Pending, Queries, Relatives, ResourceRow, RunFilter,
    RunPage, RunRow,
};

impl Queries for MemoryStore {
    fn run(&self, run: RunId) -> Pending<'_, Result<Option<RunRow>, Error>> {
        answer(|| Ok(self.state().runs.get(&run).and_then(|run| run.row.clone())))
    }

    fn runs(&self, filter: &RunFilter) -> Pending<'_, Result<RunPage, Error>> {
        answer(|| {
            let state = self.state();
            let before = filter.before.map_or(Bound::Unbounded, Bound::Excluded);
            let mut rows = state
                .runs
                .range((Bound::Unbounded, before))
                .rev()
                .filter_map(|(_, run)| run.row.as_ref())
                .filter(|row| filter.matches(row))
                .filter(|row| !filter.unforked || !state.is_forked(row.run));
            let page: Vec<RunRow> = rows.by_ref().take(filter.page()).cloned().collect();
            let next = rows.next().and(page.last()).map(|row| row.run);
            Ok(RunPage { rows: page, next })
        })
    }

    fn runs_with_prefix(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        answer(|| {
            let prefix = prefix.replace('-', "").to_ascii_lowercase();
            let state = self.state();
            let found = state
                .runs
                .keys()
                .filter(|run| run.to_string().replace('-', "").starts_with(&prefix));
            Ok(found.take(limit).copied().collect())
        })
    }

    fn unfinished(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        answer(|| {
            let state = self.state();
            let rows = state
                .runs
                .range((
                    after.map_or(Bound::Unbounded, Bound::Excluded),
                    Bound::Unbounded,
                ))
                .filter_map(|(_, run)| run.row.as_ref())
                .filter(|row| !row.status.is_final());
            Ok(rows.take(limit).cloned().collect())
        })
    }

    fn awake(&self, after: Option<RunId>, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        answer(|| {
            let after = after.map_or(Bound::Unbounded, Bound::Excluded);
            let state = self.state();
            let rows = state
                .runs
                .range((after, Bound::Unbounded))
                .filter_map(|(_, run)| run.row.as_ref())
                .filter(|row| !row.status.is_final() && !row.asleep);
            Ok(rows.take(limit).cloned().collect())
        })
    }

    fn due(
        &self,
        partitions: &Partitions,
        after: Option<(Millis, RunId)>,
        until: Millis,
        limit: usize,
    ) -> Pending<'_, Result<Vec<(RunId, Millis)>, Error>> {
        answer(|| {
            let mut due = self.sleepers(partitions);
            due.retain(|entry| entry.0 <= until && after.is_none_or(|after| *entry > after));
            due.truncate(limit);
            Ok(due.into_iter().map(|(at, run)| (run, at)).collect())
        })
    }

    fn children(&self, parent: RunId) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        answer(|| {
            let state = self.state();
            let rows = state.runs.values().filter_map(|run| run.row.as_ref());
            let children = rows.filter(|row| row.parent == Some(parent));
            Ok(children.cloned().collect())
        })
    }

    fn relatives(&self, runs: &[RunId]) -> Pending<'_, Result<Vec<Relatives>, Error>> {
        let state = self.state();
        let rows = || state.runs.values().rev().filter_map(|run| run.row.as_ref());
        let each = runs.iter().map(|run| {
            let children = rows().filter(|row| row.parent == Some(*run));
            let children = children.take(Relatives::MOST_CHILDREN as usize).count();
            let forks = rows().filter(|row| row.origin == Some(*run));
            let forks = forks.take(Relatives::MOST_FORKS);
            Relatives {
                children: u32::try_from(children).unwrap_or(u32::MAX),
                forks: forks.map(|row| row.run).collect(),
            }
        });
        Box::pin(ready(Ok(each.collect())))
    }

    fn resources(&self, run: RunId) -> Pending<'_, Result<Vec<ResourceRow>, Error>> {
        answer(|| {
            let state = self.state();
            Ok(state.resources.get(&run).cloned().unwrap_or_default())
        })
    }

    fn resource(
        &self,
        tenant: Option<&str>,
        system: &str,
        kind: &str,
        id: &str,
    ) -> Pending<'_, Result<Option<ResourceRow>, Error>> {
        answer(|| {
            let state = self.state();
            let found = state.resources.values().flatten().find(|row| {
                row.tenant.as_deref() == tenant
                    && (&*row.system, &*row.kind, &*row.id) == (system, kind, id)
            });
            Ok(found.cloned())
        })
    }

    fn replace_rows(
        &self,
        rows: Vec<(RunRow, Vec<ResourceRow>)>,
    ) -> Pending<'_, Result<(), Error>> {
        let mut state = self.state();
        for (row, resources) in rows {
            for old in state.resources.remove(&row.run).unwrap_or_default() {
                state.resource_keys.remove(&resource_key(&old));
            }
            for resource in resources {
                state.link(resource);
            }
            state.set_row(row);
        }
        Box::pin(ready(Ok(())))
    }

    fn logged_runs(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        answer(|| {
            let state = self.state();
            let logged = state
                .runs
                .range((
                    after.map_or(Bound::Unbounded, Bound::Excluded),
                    Bound::Unbounded,
                ))
                .filter(|(_, run)| !run.records.is_empty())
                .map(|(id, _)| *id);
            Ok(logged.take(limit).collect())
        })
    }

    fn health(&self) -> Pending<'_, Result<Health, Error>> {
        answer(|| {
            let state = self.state();
            Ok(Health {
                facts: vec![
                    ("store".into(), "memory".into()),
                    ("runs".into(), state.runs.len().to_string()),
                ],
            })
        })
    }
}

impl MemoryStore {
    /// Sleeping runs that have a wake-up time and are not dead, earliest first.
    fn sleepers(&self, partitions: &Partitions) -> Vec<(Millis, RunId)> {
        let state = self.state();
        let rows = state.runs.values().filter_map(|run| run.row.as_ref());
        let sleeping = rows.filter(|row| row.sleeps() && !row.dead);
        let sleeping = sleeping.filter(|row| partitions.contains(row.partition));
        let mut times: Vec<_> = sleeping
            .filter_map(|row| Some((row.wake_at?, row.run)))
            .collect();
        times.sort_unstable();
        times
    }
}

impl State {
    /// Whether another run was forked from this one.
    fn is_forked(&self, run: RunId) -> bool {
        let mut rows = self.runs.values().filter_map(|run| run.row.as_ref());
        rows.any(|row| row.origin == Some(run))
    }
}
