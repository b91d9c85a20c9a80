//! The bound on actions under way in this process. Where more are ready than may run, those of
//! higher priority go first, and of equal ones the first that came.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The places of this process's workers.
pub(crate) struct WorkerSlots {
    state: Mutex<State>,
}

/// Priority, the highest first, then arrival.
type Place = (u8, u64);

struct State {
    free: usize,
    arrived: u64,
    waiting: BTreeMap<Place, oneshot::Sender<()>>,
}

/// A place, for as long as this lives.
pub(crate) struct WorkerSlot<'a>(&'a WorkerSlots);

impl WorkerSlots {
    pub(crate) fn new(places: usize) -> Self {
        Self {
            state: Mutex::new(State {
                free: places,
                arrived: 0,
                waiting: BTreeMap::new(),
            }),
        }
    }

    /// No method leaves the state half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn free(&self) -> usize {
        self.state().free
    }

    /// Waits for a place. Dropping the future gives up waiting.
    pub(crate) async fn acquire(&self, priority: u8) -> WorkerSlot<'_> {
        let mut waiting = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return WorkerSlot(self);
            }
            state.arrived += 1;
            let place = (u8::MAX - priority, state.arrived);
            let (sender, receiver) = oneshot::channel();
            state.waiting.insert(place, sender);
            Waiting {
                slots: self,
                place,
                receiver,
            }
        };
        // The sender leaves the map only with a place to give.
        let _ = (&mut waiting.receiver).await;
        waiting.receiver.close();
        WorkerSlot(self)
    }

    fn give(&self) {
        let mut state = self.state();
        while let Some((_, waiter)) = state.waiting.pop_first() {
            if waiter.send(()).is_ok() {
                return;
            }
        }
        state.free += 1;
    }
}

impl Drop for WorkerSlot<'_> {
    fn drop(&mut self) {
        self.0.give();
    }
}

/// A caller that waits; if it gives up, its place goes to the next one.
struct Waiting<'a> {
    slots: &'a WorkerSlots,
    place: Place,
    receiver: oneshot::Receiver<()>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.slots.state().waiting.remove(&self.place);
        // A place that was given and not received.
        if self.receiver.try_recv().is_ok() {
            self.slots.give();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn places_go_by_priority_then_arrival() {
        let slots = Arc::new(WorkerSlots::new(1));
        let first = slots.acquire(5).await;
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        for (name, priority) in [("a", 5), ("b", 9), ("c", 5), ("d", 0), ("e", 9)] {
            let (slots, told) = (Arc::clone(&slots), told.clone());
            tokio::spawn(async move {
                let _slot = slots.acquire(priority).await;
                told.send(name).expect("the test listens");
            });
            tokio::task::yield_now().await;
        }
        assert_eq!(slots.free(), 0);
        drop(first);
        for expected in ["b", "e", "a", "c", "d"] {
            assert_eq!(heard.recv().await, Some(expected));
        }
    }

    #[tokio::test]
    async fn one_that_gives_up_leaves_its_place_to_the_next() {
        let slots = WorkerSlots::new(1);
        let first = slots.acquire(5).await;
        let mut given_up = Box::pin(slots.acquire(9));
        assert!(given_up.as_mut().now_or_never().is_none());
        let mut next = Box::pin(slots.acquire(5));
        assert!(next.as_mut().now_or_never().is_none());
        // The place is given to the first in line, which has gone before it looks.
        drop(first);
        drop(given_up);
        assert!(next.as_mut().now_or_never().is_some());
        assert_eq!(slots.free(), 1);
    }
}
