//! Dead letters in memory.

use std::future::ready;
use std::ops::Bound;

use windlass_core::RunId;

use super::{State, answer};
use crate::{DeadLetter, DeadLetters, Error, MemoryStore, Pending, TenantFilter};

impl State {
    fn set_dead(&mut self, run: RunId, dead: bool) {
        let Some(stored) = self.runs.get_mut(&run) else {
            return;
        };
        stored.dead = dead;
        if let Some(row) = &mut stored.row {
            row.dead = dead;
        }
        if dead {
            self.parked.remove(&run);
        }
    }
}

impl DeadLetters for MemoryStore {
    fn add_dead_letter(&self, letter: DeadLetter) -> Pending<'_, Result<(), Error>> {
        let mut state = self.state();
        state.set_dead(letter.run, true);
        state.letters.insert(letter.run, letter);
        Box::pin(ready(Ok(())))
    }

    fn dead_letters(
        &self,
        tenant: &TenantFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<DeadLetter>, Error>> {
        answer(|| {
            let state = self.state();
            let before = before.map_or(Bound::Unbounded, Bound::Excluded);
            let older = state.letters.range((Bound::Unbounded, before)).rev();
            let letters = older.map(|(_, letter)| letter);
            let meant = letters.filter(|letter| tenant.matches(letter.tenant.as_deref()));
            Ok(meant.take(limit).cloned().collect())
        })
    }

    fn dead_letter(&self, run: RunId) -> Pending<'_, Result<Option<DeadLetter>, Error>> {
        answer(|| Ok(self.state().letters.get(&run).cloned()))
    }

    fn requeue(&self, run: RunId) -> Pending<'_, Result<bool, Error>> {
        let mut state = self.state();
        let found = state.letters.remove(&run).is_some();
        if found {
            state.set_dead(run, false);
        }
        Box::pin(ready(Ok(found)))
    }

    fn purge(&self, run: RunId) -> Pending<'_, Result<bool, Error>> {
        let found = self.state().letters.remove(&run).is_some();
        Box::pin(ready(Ok(found)))
    }
}
