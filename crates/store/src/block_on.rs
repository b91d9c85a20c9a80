//! The blocking form of the contract, with nothing but the standard library: for tests, tools
//! and commands that have no runtime.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

thread_local! {
    static MAY_BLOCK: Cell<bool> = const { Cell::new(false) };
}

/// Polls the future until it is ready; the thread sleeps in between.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let _blocking = Blocking::begin();
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Whether this thread waits in [`block_on`]: then a backend may do a long read on it, and
/// needs no other thread.
pub fn may_block() -> bool {
    MAY_BLOCK.get()
}

/// Waiting for one answer on the current thread.
pub trait Wait: Future + Sized {
    /// Waits for the answer, see [`block_on`].
    fn wait(self) -> Self::Output {
        block_on(self)
    }
}

impl<F: Future> Wait for F {}

/// While it lives, this thread may block.
struct Blocking {
    before: bool,
}

impl Blocking {
    fn begin() -> Self {
        Self {
            before: MAY_BLOCK.replace(true),
        }
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        MAY_BLOCK.set(self.before);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
