//! Places at gates in memory: lost with the process, as the runs that it had are recovered and
//! audited by the next one.

use std::collections::BTreeMap;
use std::future::ready;

use windlass_core::RunId;

use super::LocalCoordinator;
use crate::{Error, GatePlace, Partition, Partitions, Pending, Places, TakePlace};

/// The runs that have a place, by gate.
#[derive(Default)]
pub(super) struct PlaceTable {
    gates: BTreeMap<Box<str>, BTreeMap<RunId, Partition>>,
}

impl PlaceTable {
    fn take(&mut self, TakePlace { place, limit }: TakePlace) -> bool {
        let runs = self.gates.entry(place.gate).or_default();
        let most = limit.map_or(usize::MAX, |limit| limit as usize);
        if !runs.contains_key(&place.run) && runs.len() >= most {
            return false;
        }
        runs.insert(place.run, place.partition);
        true
    }

    fn give(&mut self, gate: &str, run: RunId) {
        if let Some(runs) = self.gates.get_mut(gate) {
            runs.remove(&run);
            if runs.is_empty() {
                self.gates.remove(gate);
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = GatePlace> {
        self.gates.iter().flat_map(|(gate, runs)| {
            runs.iter().map(|(&run, &partition)| GatePlace {
                gate: gate.clone(),
                run,
                partition,
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
    fn take_places(&self, places: Vec<TakePlace>) -> Pending<'_, Result<Vec<bool>, Error>> {
        let table = &mut self.tables().places;
        let taken = places.into_iter().map(|place| table.take(place));
        Box::pin(ready(Ok(taken.collect())))
    }

    fn give_places(&self, places: Vec<GatePlace>) -> Pending<'_, Result<(), Error>> {
        let table = &mut self.tables().places;
        for place in places {
            table.give(&place.gate, place.run);
        }
        Box::pin(ready(Ok(())))
    }

    fn places(
        &self,
        partitions: &Partitions,
        after: Option<&GatePlace>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<GatePlace>, Error>> {
        let tables = self.tables();
        let behind = |place: &GatePlace| {
            after.is_none_or(|after| (&place.gate, place.run) > (&after.gate, after.run))
        };
        let meant = tables
            .places
            .all()
            .filter(|place| partitions.contains(place.partition) && behind(place));
        Box::pin(ready(Ok(meant.take(limit).collect())))
    }
}
