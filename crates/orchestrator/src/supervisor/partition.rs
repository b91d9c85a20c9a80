//! Which partition a run is in, and how partitions are spread over the live processes.
//!
//! Both are plain functions of what the backend lists, so that processes that read the same
//! list come to the same answer without asking each other.

use std::collections::BTreeSet;

use windlass_core::RunId;
use windlass_store::{LiveSession, Partition, Role, SessionId};

/// The partition of a run: its parent's, so that a family has one owner; else the last byte of
/// its id modulo their number. It is decided with the run's first record and stays.
pub fn partition_of(run: RunId, parent: Option<Partition>, partitions: u32) -> Partition {
    let own = u32::from(run.as_bytes()[15]) % partitions.max(1);
    parent.unwrap_or(Partition(own))
}

/// What a session should do so that partitions are spread evenly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Free partitions that it should take; other sessions with the same list take others.
    pub take: Vec<Partition>,
    /// Partitions that it holds and should hand over.
    pub give: Vec<Partition>,
}

/// Compares what a session holds with its even share among the orchestrators. Sessions that hold
/// the most may keep one more than the others: nothing moves between sessions that differ by
/// one.
pub fn spread(mine: SessionId, live: &[LiveSession], partitions: u32) -> Spread {
    let owns = |it: &&LiveSession| it.process.roles.has(Role::Orchestrator);
    let mut by_size: Vec<&LiveSession> = live.iter().filter(owns).collect();
    let count = by_size.len().max(1);
    let (each, more) = (partitions as usize / count, partitions as usize % count);
    by_size.sort_by_key(|it| (std::cmp::Reverse(it.partitions.len()), it.session));
    let mut shares: Vec<(&LiveSession, usize)> = by_size
        .into_iter()
        .enumerate()
        .map(|(place, it)| (it, each + usize::from(place < more)))
        .collect();
    shares.sort_by_key(|(it, _)| it.session);
    let held: BTreeSet<Partition> = live.iter().flat_map(|it| &it.partitions).copied().collect();
    let all = (0..partitions).map(Partition);
    let mut free = all.filter(|partition| !held.contains(partition));
    let mut spread = Spread::default();
    for (session, share) in shares {
        let has = session.partitions.len();
        let takes: Vec<Partition> = free.by_ref().take(share.saturating_sub(has)).collect();
        if session.session == mine {
            spread.take = takes;
            spread.give = session.partitions.iter().skip(share).copied().collect();
        }
    }
    spread
}

#[cfg(test)]
mod tests {
    use windlass_store::ProcessInfo;

    use super::*;

    fn live(held: &[&[u32]]) -> Vec<LiveSession> {
        let sessions = held.iter().enumerate().map(|(index, held)| LiveSession {
            session: SessionId(index as u64 + 1),
            process: ProcessInfo::named("p"),
            partitions: held.iter().copied().map(Partition).collect(),
            began_ms: 0,
            expires_ms: 1,
        });
        sessions.collect()
    }

    #[test]
    fn a_process_that_is_no_orchestrator_gets_nothing_and_counts_for_nothing() {
        let all: Vec<u32> = (0..16).collect();
        let mut sessions = live(&[&all, &[], &[]]);
        sessions[1].process.roles = [Role::Api, Role::Worker].into_iter().collect();
        sessions[2].process.roles = [Role::Scheduler].into_iter().collect();
        assert_eq!(settle(sessions.clone(), 16), (vec![16, 0, 0], 0));
        sessions[2].process.roles = [Role::Orchestrator].into_iter().collect();
        assert_eq!(settle(sessions, 16).0, [8, 0, 8]);
    }

    /// Lets every session of a list act on it until nothing moves; returns the number of
    /// rounds too.
    fn settle(mut live: Vec<LiveSession>, partitions: u32) -> (Vec<usize>, u32) {
        for round in 0..20 {
            let steps = live.iter().map(|it| spread(it.session, &live, partitions));
            let steps: Vec<Spread> = steps.collect();
            if steps.iter().all(|step| *step == Spread::default()) {
                return (live.iter().map(|it| it.partitions.len()).collect(), round);
            }
            for (session, step) in live.iter_mut().zip(steps) {
                session.partitions.retain(|it| !step.give.contains(it));
                session.partitions.extend(step.take);
                session.partitions.sort_unstable();
            }
            let held: Vec<Partition> = live.iter().flat_map(|it| it.partitions.clone()).collect();
            let distinct: BTreeSet<Partition> = held.iter().copied().collect();
            assert_eq!(held.len(), distinct.len(), "two take the same");
        }
        panic!("partitions move for ever");
    }

    #[test]
    fn a_child_is_in_its_parents_partition_and_a_root_in_that_of_its_last_byte() {
        let mut bytes = [7; 16];
        bytes[15] = 200;
        let run = RunId::from_bytes(bytes);
        assert_eq!(partition_of(run, None, 64), Partition(200 % 64));
        assert_eq!(partition_of(run, Some(Partition(3)), 64), Partition(3));
        assert_eq!(partition_of(run, None, 1), Partition(0));
    }

    #[test]
    fn partitions_are_spread_evenly_and_then_rest() {
        assert_eq!(settle(live(&[&[]]), 16), (vec![16], 1));
        assert_eq!(settle(live(&[&[], &[], &[]]), 16).0, [6, 5, 5]);
        // A process that joins gets its share in two rounds: one gives, the other takes.
        let all: Vec<u32> = (0..16).collect();
        assert_eq!(settle(live(&[&all, &[]]), 16), (vec![8, 8], 2));
        assert_eq!(settle(live(&[&all[..8], &all[8..], &[]]), 16).0, [6, 5, 5]);
        // More processes than partitions: some hold none.
        assert_eq!(settle(live(&[&[], &[0], &[]]), 2).0, [1, 1, 0]);
    }

    #[test]
    fn nothing_moves_between_sessions_that_differ_by_one() {
        for held in [[&[0, 1][..], &[2]], [&[0], &[1, 2]]] {
            assert_eq!(settle(live(&held), 3).1, 0);
        }
    }

    #[test]
    fn after_a_death_the_others_share_what_is_free() {
        let survivors = live(&[&[0, 1, 2], &[3, 4]]);
        let first = spread(SessionId(1), &survivors, 8);
        let second = spread(SessionId(2), &survivors, 8);
        assert_eq!(first.take, [Partition(5)]);
        assert_eq!(second.take, [Partition(6), Partition(7)]);
        assert!(first.give.is_empty() && second.give.is_empty());
    }
}
