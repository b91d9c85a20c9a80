//! Ringing bells and hearing them, as callers see it. `notify.rs` has the connections.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use windlass_store::{Bell, Error, Listener, Pending, Wakes};

use crate::store::{PostgresStore, blockable};

impl Wakes for PostgresStore {
    fn ring(&self, bells: &[Bell]) -> Pending<'_, Result<(), Error>> {
        let bells = bells.to_vec();
        blockable(self.inner.bells.ring(bells))
    }

    fn listen(&self) -> Pending<'_, Result<Box<dyn Listener>, Error>> {
        let inner = Arc::clone(&self.inner);
        self.task(async move {
            let ear = inner.bells.listen().await?;
            Ok(Box::new(Hearing(ear)) as Box<dyn Listener>)
        })
    }
}

/// What one listener has not heard yet.
#[derive(Default)]
pub(crate) struct Ear {
    state: Mutex<Unheard>,
    rung: Notify,
}

#[derive(Default)]
struct Unheard {
    bells: BTreeSet<Bell>,
    lost: Option<Error>,
}

impl Ear {
    fn state(&self) -> MutexGuard<'_, Unheard> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn rung(&self, bells: &[Bell]) {
        self.state().bells.extend(bells);
        self.rung.notify_one();
    }

    /// Bells may have been missed.
    pub(crate) fn missed(&self, error: &Error) {
        self.state().lost = Some(error.clone());
        self.rung.notify_one();
    }

    fn take(&self) -> Option<Result<Vec<Bell>, Error>> {
        let mut state = self.state();
        if let Some(error) = state.lost.take() {
            return Some(Err(error));
        }
        let bells = std::mem::take(&mut state.bells);
        (!bells.is_empty()).then(|| Ok(bells.into_iter().collect()))
    }
}

/// A listener; when it is dropped, its ear is too.
struct Hearing(Arc<Ear>);

impl Listener for Hearing {
    fn hear(&mut self) -> Pending<'_, Result<Vec<Bell>, Error>> {
        blockable(async {
            loop {
                let rung = self.0.rung.notified();
                if let Some(heard) = self.0.take() {
                    return heard;
                }
                rung.await;
            }
        })
    }
}
