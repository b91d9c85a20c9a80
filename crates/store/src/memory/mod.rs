//! The store in memory: for tests and the simulator, and the plainest reading of the contract.
//!
//! Everything is in sorted maps behind one mutex, so that the same calls give the same
//! answers for ever. Nothing survives the process, and every future is ready at once.

mod admission;
mod audit;
mod catalogue;
mod coordination;
mod dead;
mod faults;
mod hook;
mod inbox;
mod key_value;
mod query;
mod retention;
mod schedule;
mod secrets;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use windlass_core::{Digest, RunId, RunStatus};

use crate::{
    Append, AppendError, Appended, AuditEntry, Blob, Blobs, Checkpoint, Compacted, Damage,
    DeadLetter, Error, Head, Hook, Log, Pending, Record, ResourceRow, RunRow, Schedule, checksum,
    not_waiting,
};

pub use faults::AppendFault;

/// A store in memory. Cloning gives another handle to the same store.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    coordinator: Arc<crate::LocalCoordinator>,
    state: Arc<Mutex<State>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// No method leaves the state half changed, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct State {
    runs: BTreeMap<RunId, Run>,
    claims: BTreeMap<(Box<str>, Box<str>), Vec<u8>>,
    inbox: BTreeMap<RunId, inbox::RunInbox>,
    checkpoints: BTreeMap<RunId, Checkpoint>,
    blobs: BTreeMap<Digest, Arc<[u8]>>,
    /// The values that each run's log refers to.
    uses: BTreeMap<RunId, BTreeSet<Digest>>,
    /// Values that stay although no log may refer to them, since when.
    held: BTreeMap<Digest, Instant>,
    resources: BTreeMap<RunId, Vec<ResourceRow>>,
    resource_keys: BTreeSet<ResourceKey>,
    workflows: BTreeMap<catalogue::WorkflowKey, catalogue::Workflow>,
    letters: BTreeMap<RunId, DeadLetter>,
    /// Runs that wait at a full gate.
    parked: BTreeSet<RunId>,
    /// Entry n stands at n - 1.
    audit: Vec<AuditEntry>,
    secrets: BTreeMap<secrets::SecretKey, secrets::Sealed>,
    schedules: BTreeMap<schedule::ScheduleKey, Schedule>,
    hooks: BTreeMap<schedule::ScheduleKey, Hook>,
    notes: BTreeMap<key_value::NoteKey, Vec<u8>>,
    /// The faults of the next appends, and appends that are written late.
    faults: VecDeque<AppendFault>,
    late: Vec<Append>,
}

#[derive(Debug, Default)]
struct Run {
    records: Vec<Record>,
    /// How many of them count as packed. In memory they stay as they are.
    packed: u64,
    row: Option<RunRow>,
    /// The same as in its row, once it has one.
    dead: bool,
}

impl Run {
    fn head(&self) -> Head {
        self.records.last().map_or(Head::NONE, Record::head)
    }

    fn record(&self, sequence: u64) -> Option<&Record> {
        let at = usize::try_from(sequence.checked_sub(1)?).ok()?;
        self.records.get(at)
    }

    fn compact(&mut self, through: u64) -> Compacted {
        let before = self.packed;
        self.packed = through.min(self.head().sequence).max(before);
        let new = (before + 1..=self.packed).filter_map(|sequence| self.record(sequence));
        let bytes = new.map(|record| record.bytes.len() as u64).sum();
        Compacted {
            through: self.packed,
            records: self.packed - before,
            bytes,
            packed_bytes: bytes,
        }
    }
}

/// Tenant, system, kind and id: what makes a resource link unique.
type ResourceKey = (Option<Box<str>>, Box<str>, Box<str>, Box<str>);

fn resource_key(row: &ResourceRow) -> ResourceKey {
    (
        row.tenant.clone(),
        row.system.clone(),
        row.kind.clone(),
        row.id.clone(),
    )
}

impl State {
    fn append(&mut self, append: Append) -> Result<Appended, AppendError> {
        self.check(&append)?;
        let head = checksum::next_head(&append);
        for claim in append.claims {
            let key = (Box::from(claim.namespace), claim.key);
            self.claims.entry(key).or_insert(claim.value);
        }
        if !append.blobs.is_empty() || !append.uses.is_empty() {
            let used = self.uses.entry(append.run).or_default();
            used.extend(append.blobs.iter().map(|blob| blob.digest));
            used.extend(append.uses);
        }
        for blob in append.blobs {
            self.blobs.entry(blob.digest).or_insert(blob.bytes);
        }
        for resource in append.resources {
            self.link(resource);
        }
        if let Some(inbox) = self.inbox.get_mut(&append.run) {
            for key in &append.consumed {
                inbox.take(key);
            }
        }
        if let Some(row) = append.row {
            self.set_row(row);
        }
        let run = self.runs.entry(append.run).or_default();
        run.records.push(Record {
            sequence: head.sequence,
            writer: append.writer,
            append_id: append.append_id,
            chain: head.chain,
            bytes: append.record,
        });
        Ok(Appended { head })
    }

    /// Everything that can refuse an append, before anything changes.
    fn check(&self, append: &Append) -> Result<(), AppendError> {
        let head = self.runs.get(&append.run).map_or(Head::NONE, Run::head);
        if head != append.head {
            return Err(AppendError::Conflict(head));
        }
        for claim in &append.claims {
            let key = (Box::from(claim.namespace), claim.key.clone());
            if let Some(value) = self.claims.get(&key) {
                return Err(AppendError::Held {
                    namespace: claim.namespace,
                    value: value.clone(),
                });
            }
        }
        for digest in &append.uses {
            let comes_with_it = append.blobs.iter().any(|blob| blob.digest == *digest);
            if !comes_with_it && !self.blobs.contains_key(digest) {
                let gone = Error::NotFound(format!("value {digest}"));
                return Err(AppendError::Failed(gone));
            }
        }
        let inbox = self.inbox.get(&append.run);
        let waits = |key: &str| inbox.is_some_and(|inbox| inbox.waits(key));
        match append.consumed.iter().find(|key| !waits(key)) {
            Some(key) => Err(AppendError::Failed(not_waiting(key))),
            None => Ok(()),
        }
    }

    /// Sets a run's row. A dead run stays dead, and only a run that waits to begin can be parked.
    fn set_row(&mut self, mut row: RunRow) {
        if row.status != RunStatus::Pending {
            self.parked.remove(&row.run);
        }
        let run = self.runs.entry(row.run).or_default();
        row.dead = run.dead;
        run.row = Some(row);
    }

    /// Keeps a resource link unless there is one already.
    fn link(&mut self, row: ResourceRow) {
        if self.resource_keys.insert(resource_key(&row)) {
            self.resources.entry(row.run).or_default().push(row);
        }
    }
}

impl Log for MemoryStore {
    fn append(&self, batch: Vec<Append>) -> Pending<'_, Vec<Result<Appended, AppendError>>> {
        let mut state = self.state();
        let answers = batch.into_iter().map(|mut append| {
            let (run, releases) = (append.run, std::mem::take(&mut append.releases));
            let slots = std::mem::take(&mut append.slots);
            let answer = state.append_or_fail(append);
            if answer.is_ok() {
                self.coordinator.release_places(run, &releases);
                self.coordinator.release_slots(run, &slots);
            }
            answer
        });
        Box::pin(ready(answers.collect()))
    }

    fn head(&self, run: RunId) -> Pending<'_, Result<Head, Error>> {
        answer(|| {
            let mut state = self.state();
            let head = state.runs.get(&run).map_or(Head::NONE, Run::head);
            state.write_late(run);
            Ok(head)
        })
    }

    fn read(
        &self,
        run: RunId,
        from: u64,
        max_bytes: usize,
    ) -> Pending<'_, Result<Vec<Record>, Error>> {
        answer(|| {
            let state = self.state();
            let Some(stored) = state.runs.get(&run) else {
                return Ok(Vec::new());
            };
            let from = usize::try_from(from.max(1) - 1).unwrap_or(usize::MAX);
            let mut previous = match from.checked_sub(1).and_then(|at| stored.records.get(at)) {
                Some(record) => record.chain,
                None => Head::NONE.chain,
            };
            let mut records = Vec::new();
            let mut bytes = 0;
            for record in stored.records.iter().skip(from) {
                if !checksum::fits(record, &previous) {
                    return Err(damaged(run, record.sequence));
                }
                previous = record.chain;
                bytes += record.bytes.len();
                records.push(record.clone());
                if bytes >= max_bytes {
                    break;
                }
            }
            Ok(records)
        })
    }

    fn claimed(&self, namespace: &str, key: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        answer(|| {
            let key = (Box::from(namespace), Box::from(key));
            Ok(self.state().claims.get(&key).cloned())
        })
    }

    fn put_checkpoint(&self, run: RunId, checkpoint: Checkpoint) -> Pending<'_, Result<(), Error>> {
        self.state().checkpoints.insert(run, checkpoint);
        Box::pin(ready(Ok(())))
    }

    fn checkpoint(&self, run: RunId) -> Pending<'_, Result<Option<Checkpoint>, Error>> {
        answer(|| {
            let state = self.state();
            let Some(checkpoint) = state.checkpoints.get(&run) else {
                return Ok(None);
            };
            let sequence = checkpoint.head.sequence;
            let record = state.runs.get(&run).and_then(|run| run.record(sequence));
            let on_chain = record.is_some_and(|record| record.head() == checkpoint.head);
            Ok(on_chain.then(|| checkpoint.clone()))
        })
    }

    fn compact(&self, run: RunId, through: u64) -> Pending<'_, Result<Compacted, Error>> {
        let mut state = self.state();
        let compacted = state.runs.get_mut(&run).map(|run| run.compact(through));
        Box::pin(ready(Ok(compacted.unwrap_or_default())))
    }
}

impl Blobs for MemoryStore {
    fn put_blob(&self, blob: Blob) -> Pending<'_, Result<(), Error>> {
        self.state().blobs.entry(blob.digest).or_insert(blob.bytes);
        Box::pin(ready(Ok(())))
    }

    fn hold_blob(&self, blob: Blob) -> Pending<'_, Result<(), Error>> {
        let mut state = self.state();
        state.release_held(Instant::now());
        state.held.insert(blob.digest, Instant::now());
        state.blobs.entry(blob.digest).or_insert(blob.bytes);
        Box::pin(ready(Ok(())))
    }

    fn blob(&self, digest: &Digest) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        answer(|| {
            let Some(bytes) = self.state().blobs.get(digest).cloned() else {
                return Ok(None);
            };
            if Digest::of(&bytes) != *digest {
                return Err(Error::Damaged(Box::new(Damage {
                    place: format!("value {digest}"),
                    run: None,
                    sequence: None,
                    offset: None,
                    reason: "the bytes do not match the digest".into(),
                })));
            }
            Ok(Some(bytes.to_vec()))
        })
    }
}

/// What a method answers: everything is in memory, so it is ready at once.
fn answer<'a, T: Send + 'a>(
    read: impl FnOnce() -> Result<T, Error>,
) -> Pending<'a, Result<T, Error>> {
    Box::pin(ready(read()))
}

fn damaged(run: RunId, sequence: u64) -> Error {
    Error::Damaged(Box::new(Damage {
        place: "memory".into(),
        run: Some(run),
        sequence: Some(sequence),
        offset: None,
        reason: "the checksum does not fit the record and those before it".into(),
    }))
}

#[cfg(all(test, feature = "conformance"))]
mod tests {
    use super::*;

    fn check(rules: fn(&dyn Fn() -> MemoryStore)) {
        rules(&MemoryStore::new);
    }

    crate::conformance_tests!(MemoryStore, check);
}
