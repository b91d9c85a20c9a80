//! Ringing bells and hearing them, as callers see it. `notify.rs` has the connections.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use windlass_core::RunId;
use windlass_store::{Bell, Error, InboxItem, Listener, Pending, Wakes};

use crate::store::{PostgresStore, blockable};

impl Wakes for PostgresStore {
    fn ring(&self, bells: &[Bell]) -> Pending<'_, Result<(), Error>> {
        let bells = bells.to_vec();
        blockable(self.inner.bells.ring(bells))
    }

    fn listen(&self) -> Pending<'_, Result<Box<dyn Listener>, Error>> {
        let inner = Arc::clone(&self.inner);
        self.task(Box::pin(async move {
            let ear = inner.bells.listen().await?;
            let brought = Vec::new();
            Ok(Box::new(Hearing { ear, brought }) as Box<dyn Listener>)
        }))
    }
}

/// The most items that are kept for a listener.
const MOST_ITEMS: usize = 256;

/// What one listener has not heard yet.
#[derive(Default)]
pub(crate) struct Ear {
    state: Mutex<Unheard>,
    rung: Notify,
}

#[derive(Default)]
struct Unheard {
    bells: BTreeSet<Bell>,
    items: Vec<(RunId, InboxItem)>,
    /// Runs to which something was offered that did not come with its bell: their inboxes are read.
    unread: BTreeSet<RunId>,
    lost: Option<Error>,
}

impl Ear {
    fn state(&self) -> MutexGuard<'_, Unheard> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bells, what some of them bring, and the runs of those offers that come without.
    pub(crate) fn rung(&self, bells: &[Bell], items: &[(RunId, InboxItem)], unread: &[RunId]) {
        let mut state = self.state();
        state.bells.extend(bells);
        state.unread.extend(unread);
        for (run, item) in items {
            match state.items.len() < MOST_ITEMS {
                true => state.items.push((*run, item.clone())),
                false => drop(state.unread.insert(*run)),
            }
        }
        drop(state);
        self.rung.notify_one();
    }

    /// Bells may have been missed.
    pub(crate) fn missed(&self, error: &Error) {
        self.state().lost = Some(error.clone());
        self.rung.notify_one();
    }

    fn take(&self, items: &mut Vec<(RunId, InboxItem)>) -> Option<Result<Vec<Bell>, Error>> {
        let mut state = self.state();
        if let Some(error) = state.lost.take() {
            return Some(Err(error));
        }
        let bells = std::mem::take(&mut state.bells);
        let unread = std::mem::take(&mut state.unread);
        *items = std::mem::take(&mut state.items);
        items.retain(|(run, _)| !unread.contains(run));
        (!bells.is_empty()).then(|| Ok(bells.into_iter().collect()))
    }
}

/// A listener; when it is dropped, its ear is too.
struct Hearing {
    ear: Arc<Ear>,
    /// What came with the bells of the last answer.
    brought: Vec<(RunId, InboxItem)>,
}

impl Listener for Hearing {
    fn hear(&mut self) -> Pending<'_, Result<Vec<Bell>, Error>> {
        blockable(async {
            loop {
                let rung = self.ear.rung.notified();
                if let Some(heard) = self.ear.take(&mut self.brought) {
                    return heard;
                }
                rung.await;
            }
        })
    }

    fn brought(&mut self) -> Vec<(RunId, InboxItem)> {
        std::mem::take(&mut self.brought)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Millis;
    use windlass_store::Partition;

    #[test]
    fn a_run_is_read_if_one_of_its_offers_came_without_its_bell() {
        let (one, two) = (
            RunId::new(Millis(1), [1; 10]),
            RunId::new(Millis(1), [2; 10]),
        );
        let item = |key: &str| InboxItem {
            number: 0,
            key: key.into(),
            bytes: Vec::new(),
        };
        let bell = |run| Bell::Offered(Partition(0), run);
        let (ear, mut brought) = (Ear::default(), Vec::new());
        ear.rung(&[bell(one)], &[(one, item("a"))], &[]);
        ear.rung(&[bell(two)], &[(two, item("b"))], &[]);
        // A command, say, which is not in its bell: both bells are heard as one.
        ear.rung(&[bell(one)], &[], &[one]);
        let heard = ear
            .take(&mut brought)
            .expect("it rang")
            .expect("none was lost");
        assert_eq!(heard, [bell(one), bell(two)]);
        assert_eq!(brought, [(two, item("b"))]);
        let many: Vec<_> = (0..=MOST_ITEMS)
            .map(|n| (one, item(&n.to_string())))
            .collect();
        ear.rung(&[bell(one)], &many, &[]);
        ear.take(&mut brought);
        assert!(brought.is_empty(), "not all of them fit: they are read");
    }
}
