//! What a process does with a partition that it holds: it acquires the runs that are neither
//! ended nor asleep, page by page, then consumes what was offered to runs of the partition.
//! Sleeping runs stay rows: the waker finds them at their time. The same walk, repeated now
//! and then, finds the runs of lost wake-ups.
//!
//! ```text
//! read awake ─▶ acquire … ─┬ a full page ─▶ read awake, after its last
//!                          └ else ────────▶ read offered ─▶ consume … ─┬ a full page ─▶ …
//!                                                                      └ else ────────▶ done
//! ```

use std::collections::VecDeque;

use windlass_core::RunId;
use windlass_core::event::After;
use windlass_store::Partition;

/// How many runs are read at once: few enough that one page is not felt.
pub const RECOVERY_PAGE: usize = 256;

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStep {
    /// Read runs of the partition that have not ended and do not sleep, after this one, at
    /// most [`RECOVERY_PAGE`]; answer with [`PartitionRecovery::page_read`].
    ReadAwake(Option<RunId>),
    /// Acquire this run, and call [`PartitionRecovery::next_step`].
    Acquire(RunId, After),
    /// Read runs of the partition that have something in their inbox, after this one, at most
    /// [`RECOVERY_PAGE`]; answer with [`PartitionRecovery::page_read`].
    ReadOffered(Option<RunId>),
    /// Take what was offered to this run, and call [`PartitionRecovery::next_step`].
    Consume(RunId),
    /// The partition is recovered.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Awake,
    Offered,
    Over,
}

/// The walk over one partition.
#[derive(Debug)]
pub struct PartitionRecovery {
    partition: Partition,
    after: After,
    stage: Stage,
    /// The last run of the page that was read.
    last: Option<RunId>,
    page: VecDeque<RunId>,
    /// Whether the stage has another page.
    has_more: bool,
}

impl PartitionRecovery {
    /// The walk after the partition was taken. `after` is how its last holder ended.
    pub fn new(partition: Partition, after: After) -> Self {
        Self {
            partition,
            after,
            stage: Stage::Awake,
            last: None,
            page: VecDeque::new(),
            has_more: true,
        }
    }

    /// The walk that only consumes what was offered: after a wake-up.
    pub fn of_inbox(partition: Partition) -> Self {
        Self {
            stage: Stage::Offered,
            ..Self::new(partition, After::Stop)
        }
    }

    /// The partition that is walked.
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// What to do now; after a failed read, the same read again.
    pub fn next_step(&mut self) -> RecoveryStep {
        if let Some(run) = self.page.pop_front() {
            return match self.stage {
                Stage::Awake => RecoveryStep::Acquire(run, self.after),
                _ => RecoveryStep::Consume(run),
            };
        }
        if !self.has_more {
            (self.last, self.has_more) = (None, true);
            self.stage = match self.stage {
                Stage::Awake => Stage::Offered,
                _ => Stage::Over,
            };
        }
        match self.stage {
            Stage::Awake => RecoveryStep::ReadAwake(self.last),
            Stage::Offered => RecoveryStep::ReadOffered(self.last),
            Stage::Over => RecoveryStep::Done,
        }
    }

    /// A page was read.
    pub fn page_read(&mut self, runs: &[RunId]) {
        self.has_more = runs.len() >= RECOVERY_PAGE;
        self.last = runs.last().copied().or(self.last);
        self.page.extend(runs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(n: u64) -> RunId {
        let mut bytes = [0; 16];
        bytes[8..].copy_from_slice(&n.to_be_bytes());
        RunId::from_bytes(bytes)
    }

    /// Walks over so many runs; the steps without those of single runs, and how many of them.
    fn walk(awake: u64, offered: u64) -> (Vec<RecoveryStep>, usize, usize) {
        let mut walk = PartitionRecovery::new(Partition(1), After::Stop);
        let (mut reads, mut acquired, mut consumed) = (Vec::new(), 0, 0);
        let page = |count: u64, after: Option<RunId>| {
            let all = (1..=count).map(run);
            let rest = all.filter(|run| after.is_none_or(|after| *run > after));
            rest.take(RECOVERY_PAGE).collect::<Vec<_>>()
        };
        loop {
            let step = walk.next_step();
            match step {
                RecoveryStep::ReadAwake(after) => walk.page_read(&page(awake, after)),
                RecoveryStep::ReadOffered(after) => walk.page_read(&page(offered, after)),
                RecoveryStep::Acquire(_, after) => {
                    assert_eq!(after, After::Stop);
                    acquired += 1;
                    continue;
                }
                RecoveryStep::Consume(_) => {
                    consumed += 1;
                    continue;
                }
                RecoveryStep::Done => return (reads, acquired, consumed),
            }
            reads.push(step);
        }
    }

    #[test]
    fn an_empty_partition_is_read_once() {
        let reads = vec![
            RecoveryStep::ReadAwake(None),
            RecoveryStep::ReadOffered(None),
        ];
        assert_eq!(walk(0, 0), (reads, 0, 0));
    }

    #[test]
    fn runs_are_acquired_by_page_and_then_their_inbox_is_read() {
        let page = RECOVERY_PAGE as u64;
        let (reads, acquired, consumed) = walk(page + 1, page);
        assert_eq!((acquired, consumed), (RECOVERY_PAGE + 1, RECOVERY_PAGE));
        let last = Some(run(page));
        assert_eq!(
            reads,
            [
                RecoveryStep::ReadAwake(None),
                RecoveryStep::ReadAwake(last),
                RecoveryStep::ReadOffered(None),
                // A full page may have been the last.
                RecoveryStep::ReadOffered(last),
            ]
        );
    }

    #[test]
    fn a_walk_after_a_wake_up_reads_the_inbox_alone() {
        let mut walk = PartitionRecovery::of_inbox(Partition(1));
        assert_eq!(walk.next_step(), RecoveryStep::ReadOffered(None));
        walk.page_read(&[run(1)]);
        assert_eq!(walk.next_step(), RecoveryStep::Consume(run(1)));
        assert_eq!(walk.next_step(), RecoveryStep::Done);
    }

    #[test]
    fn a_read_that_failed_is_repeated() {
        let mut walk = PartitionRecovery::new(Partition(1), After::Death);
        assert_eq!(walk.next_step(), RecoveryStep::ReadAwake(None));
        assert_eq!(walk.next_step(), RecoveryStep::ReadAwake(None));
        walk.page_read(&[run(1)]);
        assert_eq!(
            walk.next_step(),
            RecoveryStep::Acquire(run(1), After::Death)
        );
        assert_eq!(walk.next_step(), RecoveryStep::ReadOffered(None));
        assert_eq!(walk.next_step(), RecoveryStep::ReadOffered(None));
    }
}
