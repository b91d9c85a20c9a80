//! Places at gates in memory: lost with the process, as the runs that it had are recovered and
//! audited by the next one.

use std::collections::BTreeMap;
use std::future::ready;

use windlass_core::RunId;

use super::LocalCoordinator;
use crate::{Error, GatePlace, HeldPlace, Partition, Partitions, Pending, Places, TakePlace};

/// The runs that have a place, by gate.
#[derive(Default)]
pub(super) struct PlaceTable {
    /// With the partition of each, and how often its place was taken.
    gates: BTreeMap<Box<str>, BTreeMap<RunId, (Partition, u64)>>,
}

impl PlaceTable {
    fn take(&mut self, TakePlace { place, limit }: TakePlace) -> Option<u64> {
        let runs = self.gates.entry(place.gate).or_default();
        let most = limit.map_or(usize::MAX, |limit| limit as usize);
        if !runs.contains_key(&place.run) && runs.len() >= most {
            return None;
        }
        let (partition, takes) = runs.entry(place.run).or_insert((place.partition, 0));
        *partition = place.partition;
        *takes += 1;
        Some(*takes)
    }

    fn give(&mut self, gate: &str, run: RunId) {
        if let Some(runs) = self.gates.get_mut(gate) {
            runs.remove(&run);
            if runs.is_empty() {
                self.gates.remove(gate);
            }
        }
    }

    /// How often a run's place was taken.
    fn takes(&self, place: &GatePlace) -> Option<u64> {
        let runs = self.gates.get(&place.gate)?;
        runs.get(&place.run).map(|(_, takes)| *takes)
    }

    fn all(&self) -> impl Iterator<Item = HeldPlace> {
        self.gates.iter().flat_map(|(gate, runs)| {
            runs.iter().map(|(&run, &(partition, takes))| {
                let gate = gate.clone();
                let place = GatePlace {
                    gate,
                    run,
                    partition,
                };
                HeldPlace { place, takes }
            })
        })
    }
}

impl LocalCoordinator {
    /// Frees the places of a run whose append is durable.
    pub fn release_places(&self, run: RunId, gates: &[Box<str>]) {
        if !gates.is_empty() {
            let places = &mut self.tables().places;
            gates.iter().for_each(|gate| places.give(gate, run));
        }
    }
}

impl Places for LocalCoordinator {
    fn take_places(&self, places: Vec<TakePlace>) -> Pending<'_, Result<Vec<Option<u64>>, Error>> {
        let table = &mut self.tables().places;
        let taken = places.into_iter().map(|place| table.take(place));
        Box::pin(ready(Ok(taken.collect())))
    }

    fn give_places(&self, places: Vec<HeldPlace>) -> Pending<'_, Result<(), Error>> {
        let table = &mut self.tables().places;
        for HeldPlace { place, takes } in places {
            if table.takes(&place) == Some(takes) {
                table.give(&place.gate, place.run);
            }
        }
        Box::pin(ready(Ok(())))
    }

    fn places(
        &self,
        partitions: &Partitions,
        after: Option<&GatePlace>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<HeldPlace>, Error>> {
        let tables = self.tables();
        let behind = |place: &GatePlace| {
            after.is_none_or(|after| (&place.gate, place.run) > (&after.gate, after.run))
        };
        let meant = tables
            .places
            .all()
            .filter(|it| partitions.contains(it.place.partition) && behind(&it.place));
        Box::pin(ready(Ok(meant.take(limit).collect())))
    }
}
