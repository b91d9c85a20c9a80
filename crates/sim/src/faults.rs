//! What goes wrong in a world: crashes between any two writes, processes that live on
//! after they lost their runs, slow, failed and unknown appends. Also the seeded defects, which
//! show that the oracle can fail.

use crate::random::Random;
use crate::workload::WorkloadKind;

/// The faults of one world.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The process dies at these moments.
    pub crash_times: Vec<u64>,
    /// The process dies just before or after these writes, counted from 1.
    pub crash_writes: Vec<(u64, Side)>,
    /// A new process takes over at these moments while the old one goes on for so long.
    pub takeovers: Vec<(u64, u64)>,
    /// The clock jumps ahead at these moments, by so much.
    pub jumps: Vec<(u64, u64)>,
    /// Percent of appends that are refused with nothing written.
    pub append_fails: u64,
    /// Percent of appends of which the store cannot say whether they happened.
    pub append_unknown: u64,
    /// Percent of appends that take up to seconds.
    pub append_slow: u64,
    /// Percent of results that are reported twice.
    pub duplicates: u64,
    /// Percent of attempts that end retriably, badly, skipped, slowly, or never.
    pub actions: ActionFaults,
}

/// On which side of a write a crash is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The write is lost.
    Before,
    /// The write is durable, and the process dies before it learns so.
    After,
}

/// How actions behave, in percent.
#[derive(Clone, Debug, Default)]
pub struct ActionFaults {
    /// End with an error that another attempt may mend.
    pub retriable: u64,
    /// End with an error for good.
    pub permanent: u64,
    /// Say that there is nothing to do.
    pub skipped: u64,
    /// Take longer than a worker reports a start after.
    pub slow: u64,
    /// End only when asked to, or at their timeout.
    pub hanging: u64,
    /// Have an output too large for the log.
    pub large: u64,
}

impl Faults {
    /// Draws the faults of a world over `horizon` milliseconds. Many worlds are calm in
    /// most respects, so that what one fault does is not hidden behind another.
    pub fn draw(random: &mut Random, horizon: u64, kind: WorkloadKind) -> Self {
        let mut faults = Self::default();
        if random.chance(35) {
            for _ in 0..random.between(1, 3) {
                faults.crash_times.push(random.below(horizon));
            }
        }
        if random.chance(50) {
            for _ in 0..random.between(1, 4) {
                let side = if random.chance(50) {
                    Side::Before
                } else {
                    Side::After
                };
                faults.crash_writes.push((random.between(1, 25), side));
            }
        }
        if random.chance(30) {
            for _ in 0..random.between(1, 2) {
                let lives = random.between(1, 12_000);
                faults.takeovers.push((random.below(horizon), lives));
            }
        }
        if kind == WorkloadKind::Structured && random.chance(15) {
            let by = random.between(1, 200_000);
            faults.jumps.push((random.below(horizon), by));
        }
        let often = |random: &mut Random, percent| {
            if random.chance(percent) {
                random.between(1, 30)
            } else {
                0
            }
        };
        faults.append_fails = often(random, 15);
        faults.append_unknown = often(random, 20);
        faults.append_slow = often(random, 40);
        faults.duplicates = often(random, 40);
        faults.actions = ActionFaults {
            retriable: often(random, 60),
            permanent: often(random, 50),
            skipped: often(random, 25),
            slow: often(random, 50),
            hanging: often(random, 30),
            large: often(random, 40),
        };
        faults
    }
}

impl Faults {
    /// Without faults that end a process or take a run from its owner.
    pub(crate) fn be_lossless(&mut self) {
        self.crash_times.clear();
        self.crash_writes.clear();
        self.takeovers.clear();
        (self.append_fails, self.append_unknown) = (0, 0);
    }
}

/// A defect of the world that the oracle must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// An append is answered before it is durable, and may then be lost.
    AnswerBeforeDurable,
    /// The store does not compare heads.
    NoFence,
    /// The store answers and forgets.
    LoseAnswered,
    /// A worker gets an attempt before its record is durable.
    DispatchBeforeDurable,
    /// A record says the same outcome twice.
    RepeatOutcome,
    /// The shard's clock is fast.
    ClockAhead,
    /// The run's row is not written.
    SkipRow,
    /// A worker's result is changed on its way.
    InventOutcome,
    /// A claim is not looked at.
    NoClaims,
    /// A dispatch is carried out twice.
    DispatchTwice,
    /// Results are dropped: the run never learns of them.
    DropResults,
    /// A child is started although it exists, and the store does not compare heads.
    ChildAgain,
    /// A parent does not hear that its child has ended.
    ForgetChildEnd,
    /// A record ends a delay twice.
    TimerTwice,
    /// A kept signal is not in the record.
    LoseSignal,
    /// Sleeping runs are not woken.
    LoseWake,
    /// A record has two ends in the wrong order.
    SwapEnds,
    /// A node is undone before its turn.
    UndoEarly,
    /// A child does not get its parent's command to end.
    LoseChildCancel,
    /// Processes look at nothing without a wake-up for it.
    RestOnWakeUps,
    /// A process that hands a partition over goes on appending to its runs.
    HandOverAppends,
    /// A process does not stop by its own clock when its lease was not renewed.
    IgnoreLease,
    /// An append whose answer was lost is taken as not written, and becomes durable.
    LateCommitDenied,
    /// A command that comes again is carried out again.
    RepeatCommand,
    /// A caller is answered with success as soon as its command is offered to another process.
    AnswerOnOffer,
    /// A record neither consumes the offer that it carries out nor names its key.
    KeepOffer,
    /// Places and slots are released after the append that ends what held them, and no owner
    /// compares them: a process that dies in between leaves them held.
    ReleaseLater,
    /// Slots count for each question, so that a wake-up which comes twice takes them twice.
    TakeTwice,
    /// Each process counts the runs of a gate for itself.
    LimitPerProcess,
    /// A gate is counted first, and a place taken after that, without a lock.
    CountUnlocked,
    /// The end of a run frees two places of its gate.
    ReleaseTwice,
}

impl Defect {
    /// All defects.
    pub const ALL: [Self; 31] = [
        Self::AnswerBeforeDurable,
        Self::NoFence,
        Self::LoseAnswered,
        Self::DispatchBeforeDurable,
        Self::RepeatOutcome,
        Self::ClockAhead,
        Self::SkipRow,
        Self::InventOutcome,
        Self::NoClaims,
        Self::DispatchTwice,
        Self::DropResults,
        Self::ChildAgain,
        Self::ForgetChildEnd,
        Self::TimerTwice,
        Self::LoseSignal,
        Self::LoseWake,
        Self::SwapEnds,
        Self::UndoEarly,
        Self::LoseChildCancel,
        Self::RestOnWakeUps,
        Self::HandOverAppends,
        Self::IgnoreLease,
        Self::LateCommitDenied,
        Self::RepeatCommand,
        Self::AnswerOnOffer,
        Self::KeepOffer,
        Self::ReleaseLater,
        Self::TakeTwice,
        Self::LimitPerProcess,
        Self::CountUnlocked,
        Self::ReleaseTwice,
    ];

    /// The worlds in which it can show.
    pub fn kind(self) -> WorkloadKind {
        match self {
            Self::ChildAgain
            | Self::ForgetChildEnd
            | Self::TimerTwice
            | Self::LoseSignal
            | Self::LoseWake
            | Self::SwapEnds
            | Self::UndoEarly
            | Self::LoseChildCancel
            | Self::RepeatCommand => WorkloadKind::Structured,
            Self::RestOnWakeUps
            | Self::HandOverAppends
            | Self::IgnoreLease
            | Self::LateCommitDenied
            | Self::AnswerOnOffer
            | Self::KeepOffer => WorkloadKind::Owners,
            Self::ReleaseLater
            | Self::TakeTwice
            | Self::LimitPerProcess
            | Self::CountUnlocked
            | Self::ReleaseTwice => WorkloadKind::Limits,
            _ => WorkloadKind::Plain,
        }
    }
}
