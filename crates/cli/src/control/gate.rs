//! The count of commands under way: the holder ends only when each has its answer, and
//! begins none after that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Lets commands in until it is closed.
#[derive(Clone, Default)]
pub(super) struct Gate {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// The gate was closed.
    closed: Notify,
    /// The last command under way has ended.
    empty: Notify,
}

#[derive(Default)]
struct State {
    closed: bool,
    under_way: usize,
}

/// A command under way, until it is dropped.
pub(super) struct UnderWay {
    inner: Arc<Inner>,
}

impl Gate {
    /// Lets a command in; `None` once the gate is closed.
    pub(super) fn enter(&self) -> Option<UnderWay> {
        let mut state = self.inner.state();
        if state.closed {
            return None;
        }
        state.under_way += 1;
        Some(UnderWay {
            inner: Arc::clone(&self.inner),
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner.state().closed
    }

    /// Ends when the gate is closed.
    pub(super) async fn closed(&self) {
        let closed = self.inner.closed.notified();
        tokio::pin!(closed);
        // Listening begins before the look, so that nothing is missed between the two.
        closed.as_mut().enable();
        if !self.is_closed() {
            closed.await;
        }
    }

    /// Lets nothing more in.
    pub(super) fn close(&self) {
        self.inner.state().closed = true;
        self.inner.closed.notify_waiters();
    }

    /// Ends when no command is under way.
    pub(super) async fn empty(&self) {
        loop {
            let empty = self.inner.empty.notified();
            tokio::pin!(empty);
            empty.as_mut().enable();
            if self.inner.state().under_way == 0 {
                return;
            }
            empty.await;
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // Two plain values: a panic elsewhere leaves them as good as they were.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        state.under_way -= 1;
        if state.under_way == 0 {
            self.inner.empty.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn it_is_empty_once_each_command_has_ended() {
        let gate = Gate::default();
        let first = gate.enter().expect("it is open");
        let second = gate.enter().expect("it is open");
        gate.close();
        assert!(gate.enter().is_none());
        let mut empty = pin!(gate.empty());
        assert_eq!(poll(empty.as_mut()), Poll::Pending);
        drop(first);
        assert_eq!(poll(empty.as_mut()), Poll::Pending);
        drop(second);
        assert_eq!(poll(empty.as_mut()), Poll::Ready(()));
        assert_eq!(poll(pin!(gate.empty())), Poll::Ready(()));
    }

    #[test]
    fn whoever_waits_for_its_closing_hears_of_it() {
        let gate = Gate::default();
        let mut early = pin!(gate.closed());
        assert_eq!(poll(early.as_mut()), Poll::Pending);
        gate.close();
        assert_eq!(poll(early.as_mut()), Poll::Ready(()));
        assert_eq!(poll(pin!(gate.closed())), Poll::Ready(()));
    }
}
