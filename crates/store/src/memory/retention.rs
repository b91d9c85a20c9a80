//! Forgetting in memory.

use std::future::ready;
use std::time::Instant;

use windlass_core::{Digest, Millis, RunId};

use super::{State, answer, resource_key};
use crate::{Error, HOLD, MemoryStore, Pending, REQUEST_CLAIM, Retention, RunRow, request_key};

impl State {
    /// Whether no other run needs a run any more.
    fn can_forget(&self, row: &RunRow) -> bool {
        let parent = row.parent.and_then(|parent| self.runs.get(&parent));
        let parent = parent.and_then(|parent| parent.row.as_ref());
        (row.status.is_final() || row.dead)
            && parent.is_none_or(|parent| parent.status.is_final() || parent.dead)
    }

    fn forget(&mut self, run: RunId, keep_request_id: bool) -> bool {
        let row = self.runs.get(&run).and_then(|run| run.row.clone());
        let Some(row) = row.filter(|row| self.can_forget(row)) else {
            return false;
        };
        if !keep_request_id {
            let key = request_key(row.tenant.as_deref(), &row.workflow, &row.request_id);
            let key = (Box::from(REQUEST_CLAIM), key);
            let holder = run.to_string();
            if self
                .claims
                .get(&key)
                .is_some_and(|value| value.starts_with(holder.as_bytes()))
            {
                self.claims.remove(&key);
            }
        }
        self.runs.remove(&run);
        self.inbox.remove(&run);
        self.checkpoints.remove(&run);
        self.letters.remove(&run);
        self.parked.remove(&run);
        for resource in self.resources.remove(&run).unwrap_or_default() {
            self.resource_keys.remove(&resource_key(&resource));
        }
        for digest in self.uses.remove(&run).unwrap_or_default() {
            self.remove_unused(&digest);
        }
        true
    }

    fn remove_unused(&mut self, digest: &Digest) {
        let used = self.uses.values().any(|used| used.contains(digest));
        if !used && !self.held.contains_key(digest) {
            self.blobs.remove(digest);
        }
    }

    /// Ends the holds that have lasted long enough.
    pub(super) fn release_held(&mut self, now: Instant) {
        let expired = self
            .held
            .extract_if(.., |_, since| now.duration_since(*since) > HOLD);
        let expired: Vec<Digest> = expired.map(|(digest, _)| digest).collect();
        for digest in expired {
            self.remove_unused(&digest);
        }
    }
}

impl Retention for MemoryStore {
    fn ended(&self, before: Millis, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        answer(|| {
            let state = self.state();
            let rows = state.runs.values().filter_map(|run| run.row.as_ref());
            let ended = rows.filter(|row| {
                let ended = row.ended_at.is_some_and(|at| at < before);
                ended && row.status.is_final() && state.can_forget(row)
            });
            let mut ended: Vec<RunRow> = ended.cloned().collect();
            ended.sort_by_key(|row| (row.ended_at, row.run));
            ended.truncate(limit);
            Ok(ended)
        })
    }

    fn ended_count(&self) -> Pending<'_, Result<u64, Error>> {
        answer(|| {
            let state = self.state();
            let rows = state.runs.values().filter_map(|run| run.row.as_ref());
            Ok(rows.filter(|row| row.status.is_final()).count() as u64)
        })
    }

    fn forget(&self, runs: Vec<RunId>, keep_request_ids: bool) -> Pending<'_, Result<u64, Error>> {
        let mut state = self.state();
        let mut forgotten = 0;
        for run in runs {
            forgotten += u64::from(state.forget(run, keep_request_ids));
        }
        Box::pin(ready(Ok(forgotten)))
    }

    fn bytes(&self) -> Pending<'_, Result<u64, Error>> {
        answer(|| {
            let state = self.state();
            let records = state.runs.values().flat_map(|run| &run.records);
            let records: usize = records.map(|record| record.bytes.len()).sum();
            let is_used = |digest: &Digest| state.uses.values().any(|used| used.contains(digest));
            let counts = |digest: &Digest| !state.held.contains_key(digest) || is_used(digest);
            let blobs = state.blobs.iter().filter(|(digest, _)| counts(digest));
            let blobs: usize = blobs.map(|(_, bytes)| bytes.len()).sum();
            Ok((records + blobs) as u64)
        })
    }

    fn vacuum(&self) -> Pending<'_, Result<(), Error>> {
        self.state().release_held(Instant::now());
        Box::pin(ready(Ok(())))
    }

    fn uses(&self, run: RunId, digest: &Digest) -> Pending<'_, Result<bool, Error>> {
        answer(|| {
            let state = self.state();
            let used = state.uses.get(&run);
            Ok(used.is_some_and(|used| used.contains(digest)))
        })
    }
}
