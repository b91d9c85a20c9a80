//! Bells within one process: each listener has the set of bells that rang since it last heard.

use std::collections::BTreeSet;
use std::future::{poll_fn, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

use super::LocalCoordinator;
use crate::{Bell, Error, Listener, Pending, Wakes};

#[derive(Default)]
pub(super) struct Bells {
    ears: Mutex<Vec<Weak<Mutex<Ear>>>>,
}

#[derive(Default)]
struct Ear {
    rung: BTreeSet<Bell>,
    waker: Option<Waker>,
}

struct LocalListener {
    ear: Arc<Mutex<Ear>>,
}

impl Bells {
    fn ring(&self, bells: &[Bell]) {
        let mut ears = lock(&self.ears);
        ears.retain(|ear| {
            let Some(ear) = ear.upgrade() else {
                return false;
            };
            let mut ear = lock(&ear);
            ear.rung.extend(bells);
            if let Some(waker) = ear.waker.take() {
                waker.wake();
            }
            true
        });
    }

    fn listen(&self) -> LocalListener {
        let ear = Arc::new(Mutex::new(Ear::default()));
        lock(&self.ears).push(Arc::downgrade(&ear));
        LocalListener { ear }
    }
}

impl Wakes for LocalCoordinator {
    fn ring(&self, bells: &[Bell]) -> Pending<'_, Result<(), Error>> {
        self.bells.ring(bells);
        Box::pin(ready(Ok(())))
    }

    fn listen(&self) -> Pending<'_, Result<Box<dyn Listener>, Error>> {
        let listener: Box<dyn Listener> = Box::new(self.bells.listen());
        Box::pin(ready(Ok(listener)))
    }
}

impl Listener for LocalListener {
    fn hear(&mut self) -> Pending<'_, Result<Vec<Bell>, Error>> {
        Box::pin(poll_fn(|context| {
            let mut ear = lock(&self.ear);
            if ear.rung.is_empty() {
                ear.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            let rung = std::mem::take(&mut ear.rung);
            Poll::Ready(Ok(rung.into_iter().collect()))
        }))
    }
}

/// No code panics while it holds one of these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
