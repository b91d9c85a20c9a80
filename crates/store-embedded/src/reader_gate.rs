//! The gate that readers pass. Readers keep SQLite from beginning the write-ahead log anew, so
//! when the log has grown to its bound, the writer closes the gate, asks the readers inside to
//! leave, and copies the log while none reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// See the module.
#[derive(Default)]
pub(crate) struct ReaderGate {
    state: Mutex<State>,
    changed: Condvar,
    /// How often the readers inside were asked to leave.
    rounds: AtomicU64,
}

#[derive(Default)]
struct State {
    inside: usize,
    closed: bool,
    writer_request: Option<WriterRequest>,
}

/// What the writer is asked to do between two transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WriterRequest {
    /// Copy the log, and cut the database after its last page.
    Copy,
    /// Rewrite the whole database before that: it is from before pages could be moved.
    Rewrite,
}

impl ReaderGate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a reader in, once the gate is open.
    pub(crate) fn enter(&self) -> Inside<'_> {
        let state = self.lock();
        let mut state = self
            .changed
            .wait_while(state, |state| state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        state.inside += 1;
        drop(state);
        Inside {
            gate: self,
            round: self.rounds.load(Ordering::Acquire),
        }
    }

    /// Asks the writer for something.
    pub(crate) fn writer_request(&self, writer_request: WriterRequest) {
        let mut state = self.lock();
        state.writer_request = state.writer_request.max(Some(writer_request));
    }

    /// What the writer was asked for since the last time.
    pub(crate) fn take_request(&self) -> Option<WriterRequest> {
        self.lock().writer_request.take()
    }

    /// Whether a reader that entered in a round has been asked to leave.
    pub(crate) fn is_asked(&self, round: u64) -> bool {
        self.rounds.load(Ordering::Acquire) != round
    }

    /// Asks all readers to leave, waits for them for a limited time, and does the work before
    /// another reader may enter.
    pub(crate) fn alone<T>(&self, patience: Duration, work: impl FnOnce() -> T) -> T {
        let _open = Close::new(self);
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        while state.inside > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        work()
    }
}

/// A reader that is inside.
pub(crate) struct Inside<'a> {
    gate: &'a ReaderGate,
    /// When it entered.
    pub(crate) round: u64,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.inside -= 1;
        let closed = state.closed;
        drop(state);
        if closed {
            self.gate.changed.notify_all();
        }
    }
}

/// The gate is closed, and opened again however the work ends.
struct Close<'a>(&'a ReaderGate);

impl<'a> Close<'a> {
    fn new(gate: &'a ReaderGate) -> Self {
        gate.lock().closed = true;
        gate.rounds.fetch_add(1, Ordering::AcqRel);
        Self(gate)
    }
}

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.lock().closed = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// Longer than any test takes.
    const EVER: Duration = Duration::from_secs(60);

    #[test]
    fn those_inside_leave_before_the_work_and_nobody_enters_during_it() {
        let gate = Arc::new(ReaderGate::default());
        let (entered, enters) = std::sync::mpsc::channel();
        let reader = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                let inside = gate.enter();
                entered.send(()).unwrap();
                while !gate.is_asked(inside.round) {
                    thread::yield_now();
                }
            })
        };
        enters.recv().unwrap();
        let second = gate.alone(EVER, || {
            assert_eq!(gate.lock().inside, 0);
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.enter().round)
        });
        reader.join().unwrap();
        assert_eq!(second.join().unwrap(), 1, "it entered after the work");
        assert_eq!(gate.lock().inside, 0);
    }

    #[test]
    fn who_does_not_leave_is_not_waited_for_for_ever() {
        let gate = ReaderGate::default();
        let inside = gate.enter();
        let done = gate.alone(Duration::from_millis(1), || true);
        assert!(done && gate.is_asked(inside.round));
        assert!(!gate.lock().closed);
    }
}
