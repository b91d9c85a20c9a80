//! The simulated store: what is durable is kept by the real store in memory, and this is
//! where a world reads it back. When something becomes durable is the world's business.

use std::sync::Arc;

use windlass_core::event::{AttemptResult, Event};
use windlass_core::plan::Plan;
use windlass_core::run::Run;
use windlass_core::value::{Stored, ValueRef};
use windlass_core::{Digest, RunId};
use windlass_orchestrator::codec;
use windlass_store::{
    Append, AppendError, Appended, Head, MemoryStore, Queries, Record, RunRow, Store, block_on,
};

/// What is durable.
#[derive(Debug, Default)]
pub struct SimStore {
    memory: MemoryStore,
}

impl SimStore {
    /// Makes an append durable, or refuses it.
    pub fn append(&self, append: Append) -> Result<Appended, AppendError> {
        block_on(self.memory.append(vec![append]))
            .pop()
            .expect("one append has one answer")
    }

    /// A run's head.
    pub fn head(&self, run: RunId) -> Head {
        self.memory.head(run).expect("memory always answers")
    }

    /// A run's records.
    pub fn records(&self, run: RunId) -> Vec<Record> {
        let records = self.memory.read(run, 1, usize::MAX);
        records.expect("nothing damages memory")
    }

    /// A run's row.
    pub fn row(&self, run: RunId) -> Option<RunRow> {
        self.memory.run(run).expect("memory always answers")
    }

    /// Runs that have not ended.
    pub fn unfinished(&self) -> Vec<RunId> {
        let rows = self.memory.unfinished(None, usize::MAX);
        let rows = rows.expect("memory always answers");
        rows.into_iter().map(|row| row.run).collect()
    }

    /// Folds a run's log, as recovery does.
    ///
    /// # Errors
    /// The log cannot be read or does not replay.
    pub fn replay(&self, id: RunId, plan: Arc<Plan>) -> Result<(Run, Head), String> {
        let records = self.records(id);
        let mut state: Option<Run> = None;
        for record in &records {
            let transition = codec::decode(&record.bytes).map_err(|error| error.to_string())?;
            if state.is_none() {
                let Some(Event::Queued(queued)) = transition.events.first() else {
                    return Err("the log does not begin with a request".to_owned());
                };
                let queued = (**queued).clone();
                let run = Run::new(id, Arc::clone(&plan), queued, transition.at);
                state = Some(run.map_err(|corrupt| corrupt.to_string())?);
            }
            if let Some(run) = &mut state {
                run.apply_record(&transition, &mut Vec::new())
                    .map_err(|corrupt| corrupt.to_string())?;
            }
        }
        let head = records.last().map_or(Head::NONE, Record::head);
        let state = state.ok_or("the run has no log")?;
        Ok((state, head))
    }

    /// A stored value, if it is durable.
    pub fn value(&self, run: RunId, value: &ValueRef) -> Option<Arc<str>> {
        if value.is_blob() {
            let bytes = self.memory.blob(&value.digest).ok()??;
            return String::from_utf8(bytes).ok().map(Arc::from);
        }
        let from = u64::from(value.record);
        let records = self.memory.read(run, from, 1).ok()?;
        let transition = codec::decode(&records.first()?.bytes).ok()?;
        let found = transition.events.iter().find_map(|event| match event {
            Event::AttemptEnded(ended) if ended.digest == value.digest => inline(&ended.result),
            _ => None,
        })?;
        (Digest::of(found.as_bytes()) == value.digest).then_some(found)
    }
}

fn inline(result: &AttemptResult) -> Option<Arc<str>> {
    match result {
        AttemptResult::Succeeded(Stored::Inline(raw))
        | AttemptResult::Failed(Stored::Inline(raw)) => Some(Arc::from(raw.get())),
        _ => None,
    }
}
