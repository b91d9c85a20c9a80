//! What simulated users want of runs, and when.

use crate::random::Random;
use crate::workload::{ChildAction, MAX_NODES, UserAction};

/// Wishes about a graph of actions.
pub(crate) fn plain(random: &mut Random, from: u64, horizon: u64) -> Vec<(u64, UserAction)> {
    let count = match random.below(4) {
        0 => 0,
        1 => random.between(1, 2),
        _ => random.between(0, 6),
    };
    let mut user_actions = Vec::new();
    for _ in 0..count {
        let span = if random.chance(50) { 600 } else { horizon };
        let at = from + random.below(span);
        let user_action = match random.below(10) {
            0..=1 => UserAction::Cancel,
            2..=3 => UserAction::Pause,
            4..=5 => UserAction::Resume,
            6..=7 => UserAction::ReattemptOne(random.below(MAX_NODES) as u32),
            _ => UserAction::ReattemptAll,
        };
        user_actions.push((at, user_action));
        // People who pause mostly resume, and people who cancel often regret it.
        if user_action == UserAction::Pause && random.chance(70) {
            user_actions.push((at + random.below(3000), UserAction::Resume));
        }
        if user_action == UserAction::Cancel && random.chance(60) {
            user_actions.push((at + random.below(15_000), UserAction::ReattemptAll));
        }
    }
    user_actions
}

/// Wishes about a run that may wait, have children, and be undone.
pub(crate) fn structured(random: &mut Random, from: u64, horizon: u64) -> Vec<(u64, UserAction)> {
    let mut user_actions = if random.chance(60) {
        plain(random, from, horizon)
    } else {
        Vec::new()
    };
    for _ in 0..random.below(8) {
        let span = if random.chance(50) { 2_000 } else { horizon };
        let at = from + random.below(span);
        let number = random.below(MAX_NODES * 2) as u32;
        let user_action = match random.below(23) {
            20..=21 => UserAction::Import(number),
            22 => UserAction::Fork(number),
            0 => UserAction::CancelAndUndo,
            1 => UserAction::SetResult(number),
            2 => UserAction::Skip(number),
            3..=4 => UserAction::Compensate,
            5 => UserAction::RetryCompensation(number),
            6 => UserAction::SkipCompensation(number),
            7..=9 => UserAction::OfChild(number, of_child(random)),
            _ => UserAction::Signal(random.below(7) as u32),
        };
        // Only a paused run takes another graph, so the user mostly pauses it before and
        // resumes it after.
        if matches!(user_action, UserAction::Import(_)) {
            if random.chance(80) {
                user_actions.push((at.saturating_sub(random.below(50)), UserAction::Pause));
            }
            if random.chance(70) {
                user_actions.push((at + random.below(3_000), UserAction::Resume));
            }
        }
        user_actions.push((at, user_action));
    }
    for _ in 0..random.below(6) {
        // What has failed, and what is undone, is mostly there late.
        let at = horizon / 2 + random.below(horizon / 2);
        let number = random.below(MAX_NODES * 2) as u32;
        let user_action = match random.below(8) {
            0..=2 => UserAction::ReattemptOne(number),
            3 => UserAction::ReattemptAll,
            4 => UserAction::Compensate,
            5..=6 => UserAction::RetryCompensation(number),
            _ => UserAction::SkipCompensation(number),
        };
        user_actions.push((at, user_action));
    }
    user_actions
}

fn of_child(random: &mut Random) -> ChildAction {
    match random.below(6) {
        0 => ChildAction::Cancel,
        1 => ChildAction::Pause,
        2 => ChildAction::Resume,
        3 => ChildAction::ReattemptAll,
        _ => ChildAction::Signal(random.below(7) as u32),
    }
}
