//! When sleeping runs are woken: at their time, in pages, and none is forgotten because a read
//! failed or because there was no room. A sleeping run is a row; only the earliest time is
//! known here. Must not know where rows are read, nor what time it is.

use std::collections::VecDeque;

use windlass_core::{Millis, RunId};

/// How many rows are read together.
pub const WAKE_PAGE: usize = 256;

/// How soon to look again while there is no room for more runs.
const NO_ROOM_MS: u64 = 20;

/// How soon to look again after a read that failed.
const FAILED_MS: u64 = 1_000;

/// A place in the list of sleeping runs, by time, then id.
pub type DuePlace = (Millis, RunId);

/// What the runtime does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeStep {
    /// Nothing until this time, or until a run has gone to sleep.
    Sleep(Option<Millis>),
    /// Read the first rows after this place, up to this time, and answer with
    /// [`Waker::page_read`], [`Waker::read_failed`] or, if no run can be woken now,
    /// [`Waker::no_room`].
    ReadDue {
        /// After this place.
        after: Option<DuePlace>,
        /// Up to this time.
        until: Millis,
        /// At most so many.
        limit: usize,
    },
    /// Wake this run; if it cannot be read, it stays asleep.
    Wake(RunId),
}

/// The stage of a walk through the sleeping runs.
#[derive(Clone, Debug)]
enum Walk {
    /// Nothing is due before `next`.
    Rest,
    /// What is due at the moment when the walk began.
    Due(Millis),
    /// All runs that were due are awake, and the next time is looked for. The rows of woken
    /// runs still show the old time until they have gone on, so the search begins behind them.
    Next,
}

/// Wakes the sleeping runs of a process.
#[derive(Clone, Debug)]
pub struct Waker {
    next: Option<Millis>,
    walk: Walk,
    after: Option<DuePlace>,
    page: VecDeque<RunId>,
}

impl Default for Waker {
    /// A waker that knows nothing yet: it looks for the earliest time first.
    fn default() -> Self {
        Self {
            next: None,
            walk: Walk::Next,
            after: None,
            page: VecDeque::new(),
        }
    }
}

impl Waker {
    /// A run has gone to sleep until this time.
    pub fn asleep(&mut self, until: Millis) {
        self.look_at(until);
    }

    fn look_at(&mut self, at: Millis) {
        self.next = Some(self.next.map_or(at, |known| known.min(at)));
    }

    /// What to do next.
    pub fn next_step(&mut self, now: Millis) -> WakeStep {
        if let Some(run) = self.page.pop_front() {
            return WakeStep::Wake(run);
        }
        if matches!(self.walk, Walk::Rest) {
            if self.next.is_none_or(|at| at > now) {
                return WakeStep::Sleep(self.next);
            }
            self.next = None;
            self.after = None;
            self.walk = Walk::Due(now);
        }
        let (until, limit) = match self.walk {
            Walk::Due(at) => (at, WAKE_PAGE),
            Walk::Rest | Walk::Next => (Millis(i64::MAX), 1),
        };
        WakeStep::ReadDue {
            after: self.after,
            until,
            limit,
        }
    }

    /// The rows that were asked for, in order.
    pub fn page_read(&mut self, page: &[(RunId, Millis)]) {
        match (&self.walk, page.last()) {
            (Walk::Due(_), Some(&(run, at))) => {
                self.after = Some((at, run));
                self.page.extend(page.iter().map(|(run, _)| *run));
            }
            (Walk::Due(_), None) => self.walk = Walk::Next,
            (_, last) => {
                self.walk = Walk::Rest;
                if let Some(&(_, at)) = last {
                    self.look_at(at);
                }
            }
        }
    }

    /// The rows could not be read.
    pub fn read_failed(&mut self, now: Millis) {
        self.look_at(now.plus(FAILED_MS));
        self.walk = Walk::Rest;
    }

    /// No more runs can be woken now.
    pub fn no_room(&mut self, now: Millis) {
        self.look_at(now.plus(NO_ROOM_MS));
        self.walk = Walk::Rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(n: u8) -> RunId {
        RunId::from_bytes([n; 16])
    }

    /// Executes steps on a list of sleeping runs until there is nothing to do.
    fn drive(waker: &mut Waker, rows: &[(RunId, Millis)], now: i64) -> (Vec<RunId>, WakeStep) {
        let mut woken = Vec::new();
        loop {
            match waker.next_step(Millis(now)) {
                WakeStep::Wake(run) => woken.push(run),
                WakeStep::ReadDue {
                    after,
                    until,
                    limit,
                } => {
                    let behind = |&&(run, at): &&(RunId, Millis)| {
                        at <= until && after.is_none_or(|place| (at, run) > place)
                    };
                    let page: Vec<_> = rows.iter().filter(behind).take(limit).copied().collect();
                    waker.page_read(&page);
                }
                rest => return (woken, rest),
            }
        }
    }

    #[test]
    fn runs_are_woken_at_their_time_and_the_next_time_is_known() {
        let rows = [
            (run(1), Millis(10)),
            (run(2), Millis(10)),
            (run(3), Millis(30)),
        ];
        let mut waker = Waker::default();
        assert_eq!(
            drive(&mut waker, &rows, 0),
            (vec![], WakeStep::Sleep(Some(Millis(10))))
        );
        let (woken, rest) = drive(&mut waker, &rows, 10);
        assert_eq!(woken, [run(1), run(2)]);
        // The rows of those that were woken still say 10.
        assert_eq!(rest, WakeStep::Sleep(Some(Millis(30))));
        let (woken, rest) = drive(&mut waker, &rows[2..], 40);
        assert_eq!((woken, rest), (vec![run(3)], WakeStep::Sleep(None)));
    }

    #[test]
    fn one_that_goes_to_sleep_meanwhile_is_not_forgotten() {
        let mut waker = Waker::default();
        assert_eq!(drive(&mut waker, &[], 0).1, WakeStep::Sleep(None));
        waker.asleep(Millis(7));
        assert_eq!(waker.next_step(Millis(0)), WakeStep::Sleep(Some(Millis(7))));
        assert!(matches!(
            waker.next_step(Millis(7)),
            WakeStep::ReadDue { .. }
        ));
        waker.asleep(Millis(8));
        waker.page_read(&[]);
        waker.page_read(&[]);
        assert_eq!(waker.next_step(Millis(7)), WakeStep::Sleep(Some(Millis(8))));
    }

    #[test]
    fn a_failed_read_and_a_full_process_are_tried_again() {
        let rows = [(run(1), Millis(10))];
        let mut waker = Waker::default();
        waker.next_step(Millis(0));
        waker.read_failed(Millis(0));
        assert_eq!(
            waker.next_step(Millis(0)),
            WakeStep::Sleep(Some(Millis(1_000)))
        );
        waker.next_step(Millis(1_000));
        waker.no_room(Millis(1_000));
        assert_eq!(
            waker.next_step(Millis(1_000)),
            WakeStep::Sleep(Some(Millis(1_020)))
        );
        assert_eq!(drive(&mut waker, &rows, 1_020).0, [run(1)]);
    }

    #[test]
    fn more_than_a_page_is_woken_in_one_walk() {
        let rows: Vec<_> = (0..=255)
            .flat_map(|n| [(run(n), Millis(1)), (run(n), Millis(2))])
            .collect();
        let mut sorted = rows;
        sorted.sort_by_key(|&(run, at)| (at, run));
        let mut waker = Waker::default();
        assert_eq!(drive(&mut waker, &sorted, 5).0.len(), 2 * WAKE_PAGE);
    }
}
