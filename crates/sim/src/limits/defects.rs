//! Defects of what appends release.

use windlass_core::RunId;
use windlass_store::{Append, GivenSlots, Partitions, WorkKey};

use crate::faults::Defect;
use crate::world::World;

/// What an append should have released: gates, and attempts that hold slots.
pub(super) type Owed = (Vec<Box<str>>, Vec<(u32, u32)>);

impl World {
    /// Puts a defect into what an append releases.
    pub(crate) fn spoil_release(&mut self, append: &mut Append) {
        match self.defect {
            Some(Defect::ReleaseLater) => {
                let owed = (
                    std::mem::take(&mut append.releases),
                    std::mem::take(&mut append.slots),
                );
                if let Some(limits) = &mut self.limits {
                    limits.owed.entry(append.run).or_default().push(owed);
                }
            }
            Some(Defect::ReleaseTwice) => {
                for gate in &append.releases {
                    let places = self.store.places(&Partitions::All);
                    let others = places.into_iter();
                    let mut others =
                        others.filter(|it| it.place.gate == *gate && it.place.run != append.run);
                    self.store.give_places(others.next().into_iter().collect());
                }
            }
            _ => {}
        }
    }

    /// The process lives, and releases what its append did not.
    pub(crate) fn release_owed(&mut self, run: RunId) {
        let limits = self.limits.as_mut();
        let owed = limits.and_then(|limits| limits.owed.remove(&run));
        for (gates, attempts) in owed.into_iter().flatten() {
            let places = self.store.places(&Partitions::All).into_iter();
            let places = places.filter(|it| it.place.run == run && gates.contains(&it.place.gate));
            self.store.give_places(places.collect());
            let given = attempts.into_iter().map(|(instance, attempt)| GivenSlots {
                attempt: WorkKey {
                    run,
                    instance,
                    attempt,
                },
                fence: u64::MAX,
            });
            let given: Vec<GivenSlots> = given.collect();
            self.store.give_slots(&given);
        }
    }
}
