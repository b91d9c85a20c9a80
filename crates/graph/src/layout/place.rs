//! Where each slot stands in its layer: as near as possible to the mean of its
//! neighbours, in order and apart.
//!
//! One layer's best places are an isotonic regression (pool adjacent violators, Ayer
//! and others 1955), exact and linear; sweeps down and up carry them through the graph.

use windlass_core::definition::When;

use super::{Layout, Segment, Sizes};

/// Straight lines travel one layer a sweep; the last ones weigh both sides at once.
const SWEEPS: usize = 48;
const BOTH_SIDES: usize = 24;

/// The inside of a long edge should be straight before anything else.
const LONG_WEIGHT: f64 = 16.0;

/// A node and the only one that follows it, or its success, stand under each other.
const CHAIN_WEIGHT: f64 = 8.0;

/// Success is the spine of the picture; the other ways hang beside it.
const SUCCESS_WEIGHT: f64 = 2.0;
const OTHER_WEIGHT: f64 = 0.25;

/// A slot without neighbours stands beside the next one in its layer unless others push.
const LONE_WEIGHT: f64 = 0.01;

/// Sets every centre; false if a layer is wider than the limit.
pub(super) fn place(layout: &mut Layout, sizes: &Sizes) -> bool {
    let pulls = Pulls::new(layout);
    let mut places = vec![0.0; layout.slots.len()];
    let rows: Vec<Row> = layout
        .layers
        .iter()
        .map(|layer| Row::new(layout, layer, sizes))
        .collect();
    if rows.iter().any(|row| row.highest < row.lowest) {
        return false;
    }
    for row in &rows {
        let desired: Vec<(f64, f64)> = row.slots.iter().map(|_| (0.0, 1.0)).collect();
        row.solve(&desired, &mut places);
    }
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        let both = sweep + BOTH_SIDES >= SWEEPS;
        let settle = |row: &Row, places: &mut Vec<f64>| {
            let desired = row.wishes(&pulls, (both || down, both || !down), places);
            row.solve(&desired, places);
        };
        if down {
            rows.iter().for_each(|row| settle(row, &mut places));
        } else {
            rows.iter().rev().for_each(|row| settle(row, &mut places));
        }
    }
    straighten(layout, &rows, &pulls, &mut places);
    finish(layout, &rows, &places, sizes.limit);
    true
}

/// Sets what should stand under each other exactly so, where the neighbours leave room.
fn straighten(layout: &Layout, rows: &[Row], pulls: &Pulls, places: &mut [f64]) {
    let mut seat = vec![0; places.len()];
    for row in rows {
        for (index, &slot) in row.slots.iter().enumerate() {
            seat[slot] = index;
        }
    }
    // A spine that moves makes room for its neighbours, so some need a second turn.
    let spines = pulls.spines(layout);
    for spine in std::iter::repeat_n(&spines, 3).flatten() {
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        let mut sum = 0.0;
        for &slot in spine {
            let row = &rows[layout.slots[slot].layer];
            let (left, right) = row.room(seat[slot], places);
            low = low.max(left);
            high = high.min(right);
            sum += places[slot];
        }
        // A full layer leaves no room but its own place, give or take the last bits.
        if low <= high + 1e-6 {
            let place = (sum / spine.len() as f64).min(high).max(low);
            spine.iter().for_each(|&slot| places[slot] = place);
        }
    }
}

/// The neighbours that pull each slot, and how strongly.
struct Pulls {
    above: Vec<Vec<(usize, f64)>>,
    below: Vec<Vec<(usize, f64)>>,
    /// The segments that should be straight, from top to bottom.
    straight: Vec<(usize, usize)>,
}

impl Pulls {
    fn new(layout: &Layout) -> Self {
        let count = layout.slots.len();
        let (above, below) = layout.neighbours();
        let (mut into, mut out) = (vec![0; count], vec![0; count]);
        for segment in layout.segments.iter().filter(|segment| main(segment)) {
            into[segment.to] += 1;
            out[segment.from] += 1;
        }
        let mut pulls = Self {
            above: vec![Vec::new(); count],
            below: vec![Vec::new(); count],
            straight: Vec::new(),
        };
        for segment in &layout.segments {
            let only = main(segment) && into[segment.to] == 1 && out[segment.from] == 1
                || above[segment.to].len() == 1 && below[segment.from].len() == 1;
            let weight = weight(layout, segment, only);
            pulls.above[segment.to].push((segment.from, weight));
            pulls.below[segment.from].push((segment.to, weight));
            if weight >= CHAIN_WEIGHT {
                pulls.straight.push((segment.from, segment.to));
            }
        }
        pulls
            .straight
            .sort_by_key(|&(from, _)| layout.slots[from].layer);
        pulls
    }

    /// Slots that should stand under each other, one list for each line, longest first.
    fn spines(&self, layout: &Layout) -> Vec<Vec<usize>> {
        let mut spine_of = vec![usize::MAX; layout.slots.len()];
        let mut spines: Vec<Vec<usize>> = Vec::new();
        for &(from, to) in &self.straight {
            if spine_of[to] != usize::MAX {
                continue;
            }
            let taken = spines
                .get(spine_of[from])
                .is_some_and(|spine| spine.last() != Some(&from));
            if taken {
                continue;
            }
            if spine_of[from] == usize::MAX {
                spine_of[from] = spines.len();
                spines.push(vec![from]);
            }
            spine_of[to] = spine_of[from];
            spines[spine_of[from]].push(to);
        }
        spines.sort_by_key(|spine| std::cmp::Reverse(spine.len()));
        spines
    }

    /// Where the neighbours of a slot pull it, and how strongly; nothing if it has no
    /// neighbours on these sides.
    fn wish(&self, slot: usize, sides: (bool, bool), places: &[f64]) -> Option<(f64, f64)> {
        let above = self.above[slot].iter().filter(|_| sides.0);
        let below = self.below[slot].iter().filter(|_| sides.1);
        let (mut sum, mut total) = (0.0, 0.0);
        for &(other, weight) in above.chain(below) {
            sum += places[other] * weight;
            total += weight;
        }
        (total > 0.0).then(|| (sum / total, total))
    }
}

fn main(segment: &Segment) -> bool {
    segment.when == When::Success
}

fn weight(layout: &Layout, segment: &Segment, only: bool) -> f64 {
    let inside = !layout.slots[segment.from].is_node && !layout.slots[segment.to].is_node;
    if inside {
        LONG_WEIGHT
    } else if only {
        CHAIN_WEIGHT
    } else if main(segment) {
        SUCCESS_WEIGHT
    } else {
        OTHER_WEIGHT
    }
}

/// Whole numbers, from the left edge on.
fn finish(layout: &mut Layout, rows: &[Row], places: &[f64], limit: Option<i64>) {
    // Rounding down keeps whole distances; the small sum hides the last bits of
    // floating point, so that what is straight stays straight.
    for (slot, place) in layout.slots.iter_mut().zip(places) {
        slot.center = (place + 1e-4).floor() as i64;
    }
    for row in rows {
        for (pair, apart) in row.slots.windows(2).zip(row.offsets.windows(2)) {
            let least = layout.slots[pair[0]].center + (apart[1] - apart[0]) as i64;
            layout.slots[pair[1]].center = layout.slots[pair[1]].center.max(least);
        }
    }
    let left = layout.slots.iter().map(|slot| slot.center - slot.width / 2);
    let left = left.min().unwrap_or(0);
    let mut width = 0;
    for slot in &mut layout.slots {
        slot.center -= left;
        width = width.max(slot.center + slot.width / 2 + 1);
    }
    debug_assert!(limit.is_none_or(|limit| width <= limit + 1));
    layout.width = width;
}

/// A layer, with what does not change between sweeps.
struct Row {
    slots: Vec<usize>,
    /// The least distance of each slot from the first.
    offsets: Vec<f64>,
    /// Bounds of the first slot's centre.
    lowest: f64,
    highest: f64,
}

impl Row {
    fn new(layout: &Layout, layer: &[usize], sizes: &Sizes) -> Self {
        let mut offsets = vec![0.0];
        for pair in layer.windows(2) {
            let (a, b) = (&layout.slots[pair[0]], &layout.slots[pair[1]]);
            let gap = if a.is_node && b.is_node {
                sizes.gap
            } else {
                sizes.via_gap
            };
            let last = offsets.last().copied().unwrap_or_default();
            offsets.push(last + (a.width / 2 + b.width / 2 + 1 + gap) as f64);
        }
        let half = |slot: Option<&usize>| slot.map_or(0, |&slot| layout.slots[slot].width / 2);
        let (lowest, highest) = match sizes.limit {
            None => (f64::NEG_INFINITY, f64::INFINITY),
            Some(limit) => {
                // Centred on 0, so that narrow layers begin in the middle.
                let left = -(limit / 2);
                let right = left + limit - 1;
                let last = offsets.last().copied().unwrap_or_default();
                (
                    (left + half(layer.first())) as f64,
                    (right - half(layer.last())) as f64 - last,
                )
            }
        };
        Self {
            slots: layer.to_vec(),
            offsets,
            lowest,
            highest,
        }
    }

    /// What each slot wants, in order.
    fn wishes(&self, pulls: &Pulls, sides: (bool, bool), places: &[f64]) -> Vec<(f64, f64)> {
        let mut wishes = Vec::with_capacity(self.slots.len());
        for (index, &slot) in self.slots.iter().enumerate() {
            let lone = pulls.above[slot].is_empty() && pulls.below[slot].is_empty();
            let beside = if lone && index > 0 {
                let apart = self.offsets[index] - self.offsets[index - 1];
                places[self.slots[index - 1]] + apart
            } else {
                places[slot]
            };
            let wish = pulls.wish(slot, sides, places);
            wishes.push(wish.unwrap_or((beside, LONE_WEIGHT)));
        }
        wishes
    }

    /// Between which places the slot can move while its neighbours stay.
    fn room(&self, index: usize, places: &[f64]) -> (f64, f64) {
        let left = match index.checked_sub(1) {
            Some(left) => places[self.slots[left]] + self.offsets[index] - self.offsets[left],
            None => self.lowest,
        };
        let right = match self.slots.get(index + 1) {
            Some(&right) => places[right] - (self.offsets[index + 1] - self.offsets[index]),
            None => self.highest + self.offsets[index],
        };
        (left, right)
    }

    /// The places nearest to the desired ones, by weight, that keep order and distance.
    fn solve(&self, desired: &[(f64, f64)], places: &mut [f64]) {
        // Each pool: the weighted sum of its wishes, their weight, and its size.
        let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(desired.len());
        for (&(wish, weight), offset) in desired.iter().zip(&self.offsets) {
            let mut pool = ((wish - offset) * weight, weight, 1);
            while let Some(&(sum, total, size)) = pools.last()
                && sum / total >= pool.0 / pool.1
            {
                pools.pop();
                pool = (pool.0 + sum, pool.1 + total, pool.2 + size);
            }
            pools.push(pool);
        }
        let mut index = 0;
        for (sum, total, size) in pools {
            let place = (sum / total).clamp(self.lowest, self.highest);
            for _ in 0..size {
                places[self.slots[index]] = place + self.offsets[index];
                index += 1;
            }
        }
    }
}
