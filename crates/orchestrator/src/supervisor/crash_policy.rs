//! Whether a run may be acquired, given how the process that had it ended (semantics §12.4).
//!
//! A crash counts against every run that the process had in hand, because any of them may
//! have caused it. A run with two crashes is a suspect: it is acquired alone. Only a run that
//! is known to have caused a crash becomes a dead letter, and that crash then counts for no
//! other run. Where the counts and the session records are kept is the engine's business.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use windlass_core::RunId;
use windlass_core::event::After;

/// How the process that had a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionEnd {
    /// It stopped in good order, and recorded that.
    Clean,
    /// It ended without recording that it stopped.
    #[serde(rename_all = "camelCase")]
    Crashed {
        /// The run that crashed it, where that is known.
        caused_by: Option<RunId>,
    },
}

impl SessionEnd {
    /// Whether the end counts as a crash of this run.
    pub fn counts_against(self, run: RunId) -> bool {
        match self {
            Self::Clean => false,
            Self::Crashed { caused_by } => caused_by.is_none_or(|cause| cause == run),
        }
    }
}

/// The run that crashed a process: the one that was acquired alone, unless another suspect
/// that was acquired alone earlier is still in hand; otherwise the only run in hand.
pub fn cause_of_crash(
    alone: Option<RunId>,
    survivors: &BTreeSet<RunId>,
    in_hand: &BTreeSet<RunId>,
) -> Option<RunId> {
    let is_other = |run: &RunId| alone != Some(*run) && in_hand.contains(run);
    let only = || in_hand.first().filter(|_| in_hand.len() == 1).copied();
    match alone {
        Some(_) if survivors.iter().any(is_other) => None,
        Some(run) => Some(run),
        None => only(),
    }
}

/// What becomes of a run that a process would acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashVerdict {
    /// It is acquired; the recovery records this end of the process before.
    Acquire(After),
    /// It is a suspect: it is acquired after a while, alone.
    Isolate {
        /// How many processes crashed with it in hand.
        crashes: u32,
    },
    /// It becomes a dead letter.
    DeadLetter {
        /// How many processes crashed with it in hand.
        crashes: u32,
    },
}

/// When a run that crashes its process becomes a dead letter.
#[derive(Clone, Copy, Debug)]
pub struct CrashPolicy {
    /// This many crashes make a dead letter of the run that caused the last of them.
    pub max_crashes: u32,
}

impl CrashPolicy {
    /// From this many crashes on a run is acquired alone.
    pub fn isolate_from(self) -> u32 {
        self.max_crashes.clamp(1, 2)
    }

    /// What becomes of a run that had so many crashes before the last process ended in this
    /// way.
    pub fn verdict(self, run: RunId, earlier: u32, end: SessionEnd) -> CrashVerdict {
        if !end.counts_against(run) {
            return CrashVerdict::Acquire(After::Stop);
        }
        let crashes = earlier + 1;
        let caused = end != SessionEnd::Crashed { caused_by: None };
        if caused && crashes >= self.max_crashes.max(1) {
            CrashVerdict::DeadLetter { crashes }
        } else if crashes >= self.isolate_from() {
            CrashVerdict::Isolate { crashes }
        } else {
            CrashVerdict::Acquire(After::Death)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(n: u8) -> RunId {
        RunId::from_bytes([n; 16])
    }

    fn set(numbers: &[u8]) -> BTreeSet<RunId> {
        numbers.iter().map(|n| run(*n)).collect()
    }

    #[test]
    fn the_run_that_was_alone_or_the_only_one_caused_the_crash() {
        let cause = |alone: Option<u8>, survivors: &[u8], in_hand: &[u8]| {
            cause_of_crash(alone.map(run), &set(survivors), &set(in_hand))
        };
        assert_eq!(cause(None, &[], &[1]), Some(run(1)));
        assert_eq!(cause(None, &[], &[1, 2]), None);
        assert_eq!(cause(None, &[], &[]), None);
        assert_eq!(cause(Some(2), &[], &[1, 2]), Some(run(2)));
        // A suspect that was acquired alone before may crash late; one that has ended cannot.
        assert_eq!(cause(Some(2), &[1, 2], &[1, 2]), None);
        assert_eq!(cause(Some(2), &[1, 2], &[2, 3]), Some(run(2)));
    }

    #[test]
    fn only_the_cause_of_the_third_crash_is_set_aside() {
        let policy = CrashPolicy { max_crashes: 3 };
        let crashed = |caused_by| SessionEnd::Crashed { caused_by };
        let verdict = |earlier, end| policy.verdict(run(1), earlier, end);
        let (unknown, mine, other) = (crashed(None), crashed(Some(run(1))), crashed(Some(run(2))));
        assert_eq!(verdict(0, mine), CrashVerdict::Acquire(After::Death));
        assert_eq!(verdict(1, unknown), CrashVerdict::Isolate { crashes: 2 });
        assert_eq!(verdict(1, mine), CrashVerdict::Isolate { crashes: 2 });
        assert_eq!(verdict(2, mine), CrashVerdict::DeadLetter { crashes: 3 });
        // However many crashes it has: without a known cause, no run becomes a dead letter.
        assert_eq!(verdict(9, unknown), CrashVerdict::Isolate { crashes: 10 });
        assert_eq!(verdict(9, other), CrashVerdict::Acquire(After::Stop));
        assert_eq!(
            verdict(9, SessionEnd::Clean),
            CrashVerdict::Acquire(After::Stop)
        );
    }

    #[test]
    fn a_policy_of_one_crash_sets_aside_at_the_first() {
        let policy = CrashPolicy { max_crashes: 1 };
        let mine = SessionEnd::Crashed {
            caused_by: Some(run(1)),
        };
        let unknown = SessionEnd::Crashed { caused_by: None };
        assert_eq!(
            policy.verdict(run(1), 0, mine),
            CrashVerdict::DeadLetter { crashes: 1 }
        );
        assert_eq!(
            policy.verdict(run(1), 0, unknown),
            CrashVerdict::Isolate { crashes: 1 }
        );
    }
}
