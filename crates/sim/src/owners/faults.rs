//! What goes wrong between processes.

use crate::random::Random;

/// The faults of one world with several processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnerFaults {
    /// How many processes begin; at least one does.
    pub(crate) owners: u64,
    /// When a process dies, and a number that picks it.
    pub(crate) kills: Vec<(u64, u64)>,
    /// When one stops in good order.
    pub(crate) stops: Vec<(u64, u64)>,
    /// When one is stopped, which, and for how long.
    pub(crate) pauses: Vec<(u64, u64, u64)>,
    /// Percent of calls of the leases that fail, half of them after they were carried out.
    pub(crate) lease_fails: u64,
    /// Percent of calls of the leases that take up to seconds.
    pub(crate) lease_slow: u64,
    /// Percent of wake-ups that are lost, late, or come twice.
    pub(crate) rings_lost: u64,
    pub(crate) rings_late: u64,
    pub(crate) rings_doubled: u64,
}

impl OwnerFaults {
    pub(crate) fn draw(random: &mut Random, horizon: u64) -> Self {
        let mut faults = Self {
            owners: random.between(2, 4),
            ..Self::default()
        };
        if random.chance(50) {
            for _ in 0..random.between(1, 2) {
                faults.kills.push((random.below(horizon), random.number()));
            }
        }
        if random.chance(40) {
            for _ in 0..random.between(1, 2) {
                faults.stops.push((random.below(horizon), random.number()));
            }
        }
        if random.chance(50) {
            for _ in 0..random.between(1, 3) {
                let millis = random.between(500, 25_000);
                let (at, pick) = (random.below(horizon), random.number());
                faults.pauses.push((at, pick, millis));
            }
        }
        let mut often = |percent, most| match random.chance(percent) {
            true => random.between(1, most),
            false => 0,
        };
        faults.lease_fails = often(30, 40);
        faults.lease_slow = often(30, 40);
        faults.rings_lost = often(50, 100);
        faults.rings_late = often(30, 60);
        faults.rings_doubled = often(30, 60);
        faults
    }
}
