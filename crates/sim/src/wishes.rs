//! What simulated users want of runs, and when.

use crate::random::Random;
use crate::workload::{ChildWish, MAX_NODES, Wish};

/// Wishes about a graph of actions.
pub(crate) fn plain(random: &mut Random, from: u64, horizon: u64) -> Vec<(u64, Wish)> {
    let count = match random.below(4) {
        0 => 0,
        1 => random.between(1, 2),
        _ => random.between(0, 6),
    };
    let mut wishes = Vec::new();
    for _ in 0..count {
        let span = if random.chance(50) { 600 } else { horizon };
        let at = from + random.below(span);
        let wish = match random.below(10) {
            0..=1 => Wish::Cancel,
            2..=3 => Wish::Pause,
            4..=5 => Wish::Resume,
            6..=7 => Wish::ReattemptOne(random.below(MAX_NODES) as u32),
            _ => Wish::ReattemptAll,
        };
        wishes.push((at, wish));
        // People who pause mostly resume, and people who cancel often regret it.
        if wish == Wish::Pause && random.chance(70) {
            wishes.push((at + random.below(3000), Wish::Resume));
        }
        if wish == Wish::Cancel && random.chance(60) {
            wishes.push((at + random.below(15_000), Wish::ReattemptAll));
        }
    }
    wishes
}

/// Wishes about a run that may wait, have children, and be undone.
pub(crate) fn structured(random: &mut Random, from: u64, horizon: u64) -> Vec<(u64, Wish)> {
    let mut wishes = if random.chance(60) {
        plain(random, from, horizon)
    } else {
        Vec::new()
    };
    for _ in 0..random.below(8) {
        let span = if random.chance(50) { 2_000 } else { horizon };
        let at = from + random.below(span);
        let number = random.below(MAX_NODES * 2) as u32;
        let wish = match random.below(23) {
            20..=21 => Wish::Import(number),
            22 => Wish::Fork(number),
            0 => Wish::CancelAndUndo,
            1 => Wish::SetResult(number),
            2 => Wish::Skip(number),
            3..=4 => Wish::Compensate,
            5 => Wish::RetryCompensation(number),
            6 => Wish::SkipCompensation(number),
            7..=9 => Wish::OfChild(number, of_child(random)),
            _ => Wish::Signal(random.below(7) as u32),
        };
        // Only a paused run takes another graph, so the user mostly pauses it before and
        // resumes it after.
        if matches!(wish, Wish::Import(_)) {
            if random.chance(80) {
                wishes.push((at.saturating_sub(random.below(50)), Wish::Pause));
            }
            if random.chance(70) {
                wishes.push((at + random.below(3_000), Wish::Resume));
            }
        }
        wishes.push((at, wish));
    }
    for _ in 0..random.below(6) {
        // What has failed, and what is undone, is mostly there late.
        let at = horizon / 2 + random.below(horizon / 2);
        let number = random.below(MAX_NODES * 2) as u32;
        let wish = match random.below(8) {
            0..=2 => Wish::ReattemptOne(number),
            3 => Wish::ReattemptAll,
            4 => Wish::Compensate,
            5..=6 => Wish::RetryCompensation(number),
            _ => Wish::SkipCompensation(number),
        };
        wishes.push((at, wish));
    }
    wishes
}

fn of_child(random: &mut Random) -> ChildWish {
    match random.below(6) {
        0 => ChildWish::Cancel,
        1 => ChildWish::Pause,
        2 => ChildWish::Resume,
        3 => ChildWish::ReattemptAll,
        _ => ChildWish::Signal(random.below(7) as u32),
    }
}
