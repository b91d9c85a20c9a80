//! The order of each layer: barycentre sweeps, keeping the order with the fewest
//! crossings seen.

use super::Layout;

/// Most graphs settle within four; the rest gain little from more.
const SWEEPS: usize = 16;

/// Sweeps that bring nothing before the search ends.
const PATIENCE: usize = 4;

pub(super) fn order(layout: &mut Layout) {
    let (above, below) = layout.neighbours();
    start(layout, &above, &below);
    let mut best = layout.layers.clone();
    let mut fewest = crossings(layout, &below);
    let mut idle = 0;
    for sweep in 0..SWEEPS {
        if fewest == 0 || idle == PATIENCE {
            break;
        }
        if sweep % 2 == 0 {
            for layer in 1..layout.layers.len() {
                sort(layout, layer, layer - 1, &above);
            }
        } else {
            for layer in (0..layout.layers.len().saturating_sub(1)).rev() {
                sort(layout, layer, layer + 1, &below);
            }
        }
        let count = crossings(layout, &below);
        idle += 1;
        if count < fewest {
            fewest = count;
            best.clone_from(&layout.layers);
            idle = 0;
        }
    }
    layout.layers = best;
}

/// The first order: slots as a walk from the entries meets them, so that what belongs
/// together begins together.
fn start(layout: &mut Layout, above: &[Vec<usize>], below: &[Vec<usize>]) {
    let mut met = vec![usize::MAX; layout.slots.len()];
    let mut next = 0;
    let entries = (0..layout.slots.len()).filter(|&slot| above[slot].is_empty());
    let mut stack: Vec<usize> = entries.collect();
    stack.reverse();
    while let Some(slot) = stack.pop() {
        if met[slot] != usize::MAX {
            continue;
        }
        met[slot] = next;
        next += 1;
        stack.extend(below[slot].iter().rev());
    }
    for layer in &mut layout.layers {
        layer.sort_by_key(|&slot| met[slot]);
    }
}

/// Sorts one layer by the mean place of its neighbours in the other. A slot without
/// any keeps its place.
fn sort(layout: &mut Layout, layer: usize, other: usize, neighbours: &[Vec<usize>]) {
    let mut place = vec![0_usize; layout.slots.len()];
    for (index, &slot) in layout.layers[other].iter().enumerate() {
        place[slot] = index;
    }
    let scale = layout.layers[other].len() as f64 / layout.layers[layer].len() as f64;
    let mut keyed: Vec<(f64, usize)> = layout.layers[layer]
        .iter()
        .enumerate()
        .map(|(index, &slot)| {
            let near = &neighbours[slot];
            if near.is_empty() {
                return (index as f64 * scale, slot);
            }
            let sum: usize = near.iter().map(|&slot| place[slot]).sum();
            (sum as f64 / near.len() as f64, slot)
        })
        .collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    layout.layers[layer] = keyed.into_iter().map(|(_, slot)| slot).collect();
}

fn crossings(layout: &Layout, below: &[Vec<usize>]) -> usize {
    let mut place = vec![0; layout.slots.len()];
    for layer in &layout.layers {
        for (index, &slot) in layer.iter().enumerate() {
            place[slot] = index;
        }
    }
    let pairs = layout.layers.windows(2);
    pairs
        .map(|pair| {
            let mut ends: Vec<usize> = Vec::new();
            for &slot in &pair[0] {
                let first = ends.len();
                ends.extend(below[slot].iter().map(|&slot| place[slot]));
                ends[first..].sort_unstable();
            }
            inversions(&ends, pair[1].len())
        })
        .sum()
}

/// Pairs in the wrong order, counted with a Fenwick tree.
fn inversions(ends: &[usize], size: usize) -> usize {
    let mut tree = vec![0_usize; size + 1];
    let mut count = 0;
    for (seen, &end) in ends.iter().enumerate() {
        let mut not_after = 0;
        let mut index = end + 1;
        while index > 0 {
            not_after += tree[index];
            index &= index - 1;
        }
        count += seen - not_after;
        let mut index = end + 1;
        while index <= size {
            tree[index] += 1;
            index += index & index.wrapping_neg();
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inversions_are_counted() {
        assert_eq!(inversions(&[0, 1, 2], 3), 0);
        assert_eq!(inversions(&[2, 1, 0], 3), 3);
        assert_eq!(inversions(&[1, 1, 0], 2), 2);
    }
}
