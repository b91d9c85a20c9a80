//! Where each slot stands in its layer: as near as possible to the mean of its
//! neighbours, in order and apart.
//!
//! One layer's best places are an isotonic regression (pool adjacent violators, Ayer
//! and others 1955), exact and linear; sweeps down and up carry them through the graph.

use super::{Layout, Sizes};

const SWEEPS: usize = 24;

/// A long edge should be straight more than a node should be in the middle.
const LONG_WEIGHT: f64 = 8.0;
const END_WEIGHT: f64 = 2.0;

/// A slot without neighbours stays where it is unless others push.
const LONE_WEIGHT: f64 = 0.01;

/// Sets every centre; false if a layer is wider than the limit.
pub(super) fn place(layout: &mut Layout, sizes: &Sizes) -> bool {
    let (above, below) = layout.neighbours();
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
    let both: Vec<Vec<usize>> = above
        .iter()
        .zip(&below)
        .map(|(above, below)| above.iter().chain(below).copied().collect())
        .collect();
    for sweep in 0..SWEEPS {
        let near = match sweep {
            sweep if sweep + 6 >= SWEEPS => &both,
            sweep if sweep % 2 == 0 => &above,
            _ => &below,
        };
        let settle = |row: &Row, places: &mut Vec<f64>| {
            let desired: Vec<(f64, f64)> = row
                .slots
                .iter()
                .map(|&slot| wish(layout, slot, &near[slot], places))
                .collect();
            row.solve(&desired, places);
        };
        if sweep % 2 == 0 {
            rows.iter().for_each(|row| settle(row, &mut places));
        } else {
            rows.iter().rev().for_each(|row| settle(row, &mut places));
        }
    }
    finish(layout, &rows, &places, sizes.limit);
    true
}

/// Where a slot wants to be, and how much.
fn wish(layout: &Layout, slot: usize, near: &[usize], places: &[f64]) -> (f64, f64) {
    if near.is_empty() {
        return (places[slot], LONE_WEIGHT);
    }
    let is_node = layout.slots[slot].is_node;
    let mut sum = 0.0;
    let mut total = 0.0;
    for &other in near {
        let weight = match (is_node, layout.slots[other].is_node) {
            (true, true) => 1.0,
            (false, false) => LONG_WEIGHT,
            _ => END_WEIGHT,
        };
        sum += places[other] * weight;
        total += weight;
    }
    (sum / total, total)
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
