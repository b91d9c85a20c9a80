//! Where the answer of a call to a store on a server waits. What carries calls out (connections, time
//! limits, tasks) knows only whether there is an answer, so it is compiled once, and not for each
//! kind of answer.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Error, Pending};

/// The answer of one call, once it is there.
#[derive(Debug)]
pub struct Slot<T>(Arc<Mutex<Option<T>>>);

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Send + 'static> Slot<T> {
    /// Keeps the answer of the work, if it has one.
    pub fn fill<E>(
        &self,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Pending<'static, Result<(), E>> {
        let slot = self.clone();
        Box::pin(async move {
            let answer = work.await?;
            *slot.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            Ok(())
        })
    }

    /// The answer, when what carries the call out is done.
    pub fn after<'a>(self, done: Pending<'a, Result<(), Error>>) -> Pending<'a, Result<T, Error>> {
        Box::pin(async move {
            done.await?;
            let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
            answer.ok_or_else(|| Error::Unavailable("the store was closed".into()))
        })
    }
}
