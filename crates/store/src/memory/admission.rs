//! What waits to begin, in memory: a walk over the rows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;

use windlass_core::{RunId, RunStatus};

use super::{State, answer};
use crate::{
    Admission, Error, GateCount, MemoryStore, Partitions, Pending, Places as _, Queries as _,
    RunRow, TenantGate, Wait as _,
};

impl State {
    fn rows(&self) -> impl Iterator<Item = &RunRow> {
        self.runs.values().filter_map(|run| run.row.as_ref())
    }

    /// Rows of runs that wait to begin, with whether they are parked.
    fn pending<'a>(
        &'a self,
        partitions: &'a Partitions,
    ) -> impl Iterator<Item = (&'a RunRow, bool)> {
        self.rows()
            .filter(|row| row.status == RunStatus::Pending && !row.dead)
            .filter(|row| partitions.contains(row.partition))
            .map(|row| (row, self.parked.contains(&row.run)))
    }
}

/// The first of the rows: highest priority first, then oldest.
fn first<'a>(rows: impl Iterator<Item = &'a RunRow>, limit: usize) -> Vec<RunRow> {
    let mut rows: Vec<RunRow> = rows.cloned().collect();
    rows.sort_by_key(|row| (Reverse(row.priority), row.run));
    rows.truncate(limit);
    rows
}

impl Admission for MemoryStore {
    fn waiting_tenants(
        &self,
        partitions: &Partitions,
    ) -> Pending<'_, Result<Vec<Option<Box<str>>>, Error>> {
        answer(|| {
            let state = self.state();
            let waiting = state.pending(partitions).filter(|(_, parked)| !parked);
            let tenants: BTreeSet<_> = waiting.map(|(row, _)| row.tenant.clone()).collect();
            Ok(tenants.into_iter().collect())
        })
    }

    fn waiting(
        &self,
        partitions: &Partitions,
        tenant: Option<&str>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        answer(|| {
            let state = self.state();
            let waiting = state.pending(partitions).filter(|(_, parked)| !parked);
            let rows = waiting.map(|(row, _)| row);
            Ok(first(
                rows.filter(|row| row.tenant.as_deref() == tenant),
                limit,
            ))
        })
    }

    fn park(&self, runs: Vec<RunId>) -> Pending<'_, Result<(), Error>> {
        let mut state = self.state();
        let pending = state.pending(&Partitions::All);
        let can = pending.filter(|(row, _)| row.gate.is_some() && runs.contains(&row.run));
        let parked: Vec<RunId> = can.map(|(row, _)| row.run).collect();
        state.parked.extend(parked);
        Box::pin(ready(Ok(())))
    }

    fn unpark(&self, runs: Vec<RunId>) -> Pending<'_, Result<(), Error>> {
        self.state().parked.retain(|run| !runs.contains(run));
        Box::pin(ready(Ok(())))
    }

    fn parked(
        &self,
        partitions: &Partitions,
        gate: &str,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        answer(|| {
            let state = self.state();
            let parked = state.pending(partitions).filter(|(_, parked)| *parked);
            let rows = parked.map(|(row, _)| row);
            Ok(first(
                rows.filter(|row| row.gate.as_deref() == Some(gate)),
                limit,
            ))
        })
    }

    fn parked_gates(&self, partitions: &Partitions) -> Pending<'_, Result<Vec<TenantGate>, Error>> {
        answer(|| {
            let state = self.state();
            let parked = state.pending(partitions).filter(|(_, parked)| *parked);
            let gate = |row: &RunRow| Some((row.tenant.clone(), row.gate.clone()?));
            let gates: BTreeSet<_> = parked.filter_map(|(row, _)| gate(row)).collect();
            Ok(gates.into_iter().collect())
        })
    }

    fn begun(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        answer(|| {
            let mut begun = self.awake(after, usize::MAX).wait()?;
            begun.retain(|row| {
                row.status != RunStatus::Pending && partitions.contains(row.partition)
            });
            begun.truncate(limit);
            Ok(begun)
        })
    }

    fn without_place(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        answer(|| {
            let places = self.places(partitions, None, usize::MAX).wait()?;
            let held: BTreeSet<(Box<str>, RunId)> = places
                .into_iter()
                .map(|it| (it.place.gate, it.place.run))
                .collect();
            let is_active = |row: &RunRow| {
                matches!(row.status, RunStatus::Running | RunStatus::Paused) && !row.dead
            };
            let has_none = |row: &RunRow| {
                let place = row.gate.clone().map(|gate| (gate, row.run));
                place.is_some_and(|place| !held.contains(&place))
            };
            let mut rows = self.unfinished(after, usize::MAX).wait()?;
            rows.retain(|row| {
                is_active(row) && partitions.contains(row.partition) && has_none(row)
            });
            rows.truncate(limit);
            Ok(rows)
        })
    }

    fn gates(&self) -> Pending<'_, Result<Vec<GateCount>, Error>> {
        answer(|| {
            let state = self.state();
            let begun = |row: &&RunRow| {
                matches!(row.status, RunStatus::Running | RunStatus::Paused) && !row.dead
            };
            let mut gates = BTreeMap::new();
            for gate in state
                .rows()
                .filter(begun)
                .filter_map(|row| row.gate.clone())
            {
                *gates.entry(gate).or_insert(0) += 1;
            }
            Ok(gates.into_iter().collect())
        })
    }

    fn at_gate(&self, gate: &str, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        answer(|| {
            let state = self.state();
            let goes = |row: &&RunRow| {
                matches!(row.status, RunStatus::Running | RunStatus::Paused) && !row.dead
            };
            let going = state.rows().filter(goes);
            let there = going.filter(|row| row.gate.as_deref() == Some(gate));
            Ok(there.take(limit).cloned().collect())
        })
    }

    fn depth(&self, most: u64) -> Pending<'_, Result<u64, Error>> {
        answer(|| {
            let count = self.state().pending(&Partitions::All).count();
            Ok(most.min(count as u64))
        })
    }
}
