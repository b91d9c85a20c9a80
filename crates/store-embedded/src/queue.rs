//! The bounded queue into the writer thread, and the answer that comes back.
//!
//! Only the standard library: completing an answer is one lock and one wake, on the
//! writer's thread. The queue does not know what it carries.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Jobs that may wait. A shard has one batch in flight, so this is far more than there
/// are shards, and small enough that a stuck disk shows as waiting callers, not memory.
const CAPACITY: usize = 1024;

/// How long the consumer looks for more before it sleeps; a small part of one sync.
const LOOK_AROUND: Duration = Duration::from_micros(30);

/// Many producers, one consumer that takes everything at once.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    drained: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    /// Futures that found the queue full.
    waiting: Vec<Waker>,
    sleeping: bool,
    /// Threads that sleep because the queue is full.
    blocked: usize,
    closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                items: VecDeque::new(),
                waiting: Vec::new(),
                sleeping: false,
                blocked: 0,
                closed: false,
            }),
            filled: Condvar::new(),
            drained: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item unless the queue is full; then the waker is called when it is not.
    /// An item given to a closed queue is dropped, which its answer notices.
    fn push(&self, item: T, waker: Option<&Waker>) -> Option<T> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        if state.items.len() >= CAPACITY {
            state.waiting.extend(waker.cloned());
            return Some(item);
        }
        state.items.push_back(item);
        if state.sleeping {
            state.sleeping = false;
            drop(state);
            self.filled.notify_one();
        }
        None
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().items.is_empty()
    }

    /// Adds an item, sleeping while the queue is full; for threads, never for futures.
    pub(crate) fn push_blocking(&self, item: T) {
        let mut state = self.lock();
        while state.items.len() >= CAPACITY && !state.closed {
            state.blocked += 1;
            state = self
                .drained
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.blocked -= 1;
        }
        if !state.closed {
            state.items.push_back(item);
            state.sleeping = false;
            drop(state);
            self.filled.notify_one();
        }
    }

    /// Everything that waits, at least one item; `None` once closed and empty.
    pub(crate) fn take(&self) -> Option<VecDeque<T>> {
        let mut state = self.look_around();
        while state.items.is_empty() {
            if state.closed {
                return None;
            }
            state.sleeping = true;
            state = self
                .filled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.sleeping = false;
        let items = std::mem::take(&mut state.items);
        let waiting = std::mem::take(&mut state.waiting);
        let blocked = state.blocked > 0;
        drop(state);
        if blocked {
            self.drained.notify_all();
        }
        for waker in waiting {
            waker.wake();
        }
        Some(items)
    }

    /// Looks for items for a moment before the consumer goes to sleep: the answer to one
    /// append is often the reason for the next, and waking a thread costs more than that.
    fn look_around(&self) -> MutexGuard<'_, State<T>> {
        let deadline = Instant::now() + LOOK_AROUND;
        loop {
            let state = self.lock();
            if !state.items.is_empty() || state.closed || Instant::now() >= deadline {
                return state;
            }
            drop(state);
            for _ in 0..50 {
                std::hint::spin_loop();
            }
        }
    }

    /// Lets the consumer finish what waits and stop; later items are dropped.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.filled.notify_all();
        self.drained.notify_all();
        for waker in waiting {
            waker.wake();
        }
    }
}

struct Slot<T> {
    state: Mutex<SlotState<T>>,
}

struct SlotState<T> {
    value: Option<T>,
    waker: Option<Waker>,
    /// The sender is gone: an answer that is not there will not come.
    closed: bool,
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, SlotState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the consumer leaves its answer.
pub(crate) struct Reply<T>(Arc<Slot<T>>);

impl<T> Reply<T> {
    pub(crate) fn send(self, value: T) {
        self.0.lock().value = Some(value);
        // Dropping the sender wakes the receiver.
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A job on its way: the future of its answer, `None` if the consumer is gone.
///
/// The job is queued at once if there is room, and by polling if there is not; dropping
/// the future does not take back a job that was queued.
pub(crate) struct Submitted<J, T> {
    queue: Arc<Queue<J>>,
    unsent: Option<J>,
    slot: Arc<Slot<T>>,
}

/// Makes a pair of a reply and, once the job is built around it, its future. The job may
/// be done at once by `shortcut`, which gives it back if it is to be queued.
pub(crate) fn submit<J, T>(
    queue: &Arc<Queue<J>>,
    job: impl FnOnce(Reply<T>) -> J,
    shortcut: impl FnOnce(J) -> Option<J>,
) -> Submitted<J, T> {
    let slot = Arc::new(Slot {
        state: Mutex::new(SlotState {
            value: None,
            waker: None,
            closed: false,
        }),
    });
    let job = shortcut(job(Reply(Arc::clone(&slot))));
    let unsent = job.and_then(|job| queue.push(job, None));
    Submitted {
        queue: Arc::clone(queue),
        unsent,
        slot,
    }
}

// Nothing in it is pinned: the job is moved out whole, and the slot is shared.
impl<J, T> Unpin for Submitted<J, T> {}

impl<J, T> Future for Submitted<J, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(job) = self.unsent.take() {
            self.unsent = self.queue.push(job, Some(context.waker()));
            if self.unsent.is_some() {
                return Poll::Pending;
            }
        }
        let mut state = self.slot.lock();
        if state.value.is_some() || state.closed {
            return Poll::Ready(state.value.take());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
