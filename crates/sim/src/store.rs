//! The simulated store: what is durable is kept by the real store in memory, and this is
//! where a world reads it back. The world decides when something becomes durable. Each record
//! is decoded once, when it becomes durable: what it says does not change.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::definition::Pool;
use windlass_core::event::{Event, Transition};
use windlass_core::plan::Plan;
use windlass_core::run::{Run, Snapshot};
use windlass_core::value::{Stored, ValueRef};
use windlass_core::{Digest, Millis, RunId};
use windlass_orchestrator::codec;
use windlass_orchestrator::supervisor::DuePlace;
use windlass_store::{
    Append, AppendError, Appended, Blobs as _, GivenSlots, Head, Inbox as _, InboxItem, Log as _,
    MemoryStore, Offer, OfferAnswer, Partitions, PoolKey, PoolRow, Pools as _, Queries, Record,
    RunRow, SlotRequest, SlotsTaken, Wait as _, WriterId, block_on,
};

/// What is durable.
#[derive(Debug, Default)]
pub struct SimStore {
    pub(crate) memory: MemoryStore,
    /// What each run's records say.
    said: BTreeMap<RunId, Vec<Said>>,
}

/// What a record says, or why it cannot be read.
pub type Said = Result<Arc<Transition>, String>;

impl SimStore {
    /// Makes an append durable, or refuses it.
    pub fn append(&mut self, append: Append) -> Result<Appended, AppendError> {
        let (run, said) = (append.run, codec::decode(&append.record));
        let appended = block_on(self.memory.append(vec![append]))
            .pop()
            .expect("one append has one answer")?;
        let said = said.map(Arc::new).map_err(|error| error.to_string());
        self.said.entry(run).or_default().push(said);
        Ok(appended)
    }

    /// What a record of a run says, counted from 1.
    pub fn said(&self, run: RunId, sequence: u64) -> Option<&Said> {
        let place = usize::try_from(sequence.checked_sub(1)?).ok()?;
        self.said.get(&run)?.get(place)
    }

    /// Asks for slots of pools; a pool that no test made has as many as a pool can have.
    pub fn take_slots(&mut self, requests: Vec<SlotRequest>) -> SlotsTaken {
        for request in &requests {
            let known = self.memory.pool(&request.pool).wait();
            if known.expect("memory always answers").is_none() {
                self.put_pool(request.pool.clone(), Pool::MOST_SLOTS);
            }
        }
        let taken = block_on(self.memory.take_slots(requests));
        taken.expect("memory always answers")
    }

    /// Makes a pool, or changes its size.
    pub fn put_pool(&mut self, pool: PoolKey, slots: u32) {
        let updated_at = Millis(0);
        let row = PoolRow {
            pool,
            slots,
            updated_at,
        };
        block_on(self.memory.put_pool(row)).expect("memory always answers");
    }

    /// Frees slots without a record; gives the pools that they were of.
    pub fn give_slots(&mut self, given: &[GivenSlots]) -> Vec<PoolKey> {
        block_on(self.memory.give_slots(given)).expect("memory always answers")
    }

    /// A run's head.
    pub fn head(&self, run: RunId) -> Head {
        self.memory.head(run).wait().expect("memory always answers")
    }

    /// One of a run's records, counted from 1.
    pub fn record(&self, run: RunId, sequence: u64) -> Option<Record> {
        let read = self.memory.read(run, sequence, 1).wait();
        read.ok()?.into_iter().next()
    }

    /// A run's records.
    pub fn records(&self, run: RunId) -> Vec<Record> {
        let records = self.memory.read(run, 1, usize::MAX).wait();
        records.expect("nothing damages memory")
    }

    /// Who wrote to a run last.
    pub fn last_writer(&self, run: RunId) -> Option<WriterId> {
        let last = self.head(run).sequence;
        let records = self.memory.read(run, last, 1).wait();
        let records = records.expect("nothing damages memory");
        records.first().map(|record| record.writer)
    }

    /// A run's row.
    pub fn row(&self, run: RunId) -> Option<RunRow> {
        self.memory.run(run).wait().expect("memory always answers")
    }

    /// Runs that have not ended.
    pub fn unfinished(&self) -> Vec<RunId> {
        let rows = self.memory.unfinished(None, usize::MAX).wait();
        let rows = rows.expect("memory always answers");
        rows.into_iter().map(|row| row.run).collect()
    }

    /// Runs that have not ended and do not sleep.
    pub fn awake(&self) -> Vec<RunId> {
        let rows = self.memory.awake(None, usize::MAX).wait();
        let rows = rows.expect("memory always answers");
        rows.into_iter().map(|row| row.run).collect()
    }

    /// The first sleeping runs after a place, up to a time, with their times.
    pub fn due(&self, after: Option<DuePlace>, until: Millis) -> Vec<(RunId, Millis)> {
        let all = &Partitions::All;
        let rows = self.memory.due(all, after, until, usize::MAX).wait();
        rows.expect("memory always answers")
    }

    /// The child runs of a run.
    pub fn children(&self, parent: RunId) -> Vec<RunId> {
        let rows = self.memory.children(parent).wait();
        let rows = rows.expect("memory always answers");
        rows.into_iter().map(|row| row.run).collect()
    }

    /// Offers a command to a run; whether it is the first under its key.
    pub fn offer(&self, offer: Offer) -> bool {
        let offered = block_on(self.memory.offer(vec![offer]));
        offered.expect("memory always answers") == [true]
    }

    /// What waits for a run.
    pub fn inbox(&self, run: RunId) -> Vec<InboxItem> {
        let items = self.memory.inbox(run).wait();
        items.expect("memory always answers")
    }

    /// Runs of these partitions for which something waits.
    pub fn offered(&self, partitions: &Partitions, after: Option<RunId>) -> Vec<RunId> {
        let offered = self.memory.offered(partitions, after, usize::MAX).wait();
        offered.expect("memory always answers")
    }

    /// What became of an offer.
    pub fn offer_answer(&self, run: RunId, key: &str) -> Option<OfferAnswer> {
        let answer = self.memory.answer(run, key).wait();
        answer.expect("memory always answers")
    }

    /// Refuses an item.
    pub fn refuse_offer(&self, run: RunId, key: &str) {
        block_on(self.memory.refuse(run, key, b"refused")).expect("memory always answers");
    }

    /// Removes an item.
    pub fn discard_offer(&self, run: RunId, key: &str) {
        block_on(self.memory.discard(run, key)).expect("memory always answers");
    }

    /// Folds a run's log, as recovery does; `graph` finds the graph of a definition.
    ///
    /// # Errors
    /// The log cannot be read or does not replay.
    pub fn replay(
        &self,
        id: RunId,
        graph: impl Fn(&Digest) -> Option<Arc<Plan>>,
    ) -> Result<(Run, Head), String> {
        self.replay_from(id, 0, graph)
    }

    /// Folds a run's log where a checkpoint stands for its first records.
    ///
    /// # Errors
    /// The log cannot be read or does not replay, or the checkpoint cannot be used.
    pub fn replay_from(
        &self,
        id: RunId,
        checkpoint: u64,
        graph: impl Fn(&Digest) -> Option<Arc<Plan>>,
    ) -> Result<(Run, Head), String> {
        let mut state: Option<Run> = None;
        let mut changes = Vec::new();
        for said in self.said.get(&id).into_iter().flatten() {
            let transition = said.as_ref()?;
            let run = match &mut state {
                Some(run) => run,
                None => {
                    let Some(Event::Queued(queued)) = transition.events.first() else {
                        return Err("the log does not begin with a request".to_owned());
                    };
                    let plan = graph(&queued.definition).ok_or("the run's graph is unknown")?;
                    let run = Run::new(id, plan, (**queued).clone(), transition.at);
                    state.insert(run.map_err(|corrupt| corrupt.to_string())?)
                }
            };
            for event in &transition.events {
                if let Event::Healed { definition, .. } | Event::Imported { definition, .. } = event
                    && let Some(plan) = graph(definition)
                {
                    run.stage(*definition, plan);
                }
                changes.clear();
                run.apply(event, transition.at, &mut changes)
                    .map_err(|corrupt| corrupt.to_string())?;
            }
            run.finish_record();
            if run.records() == checkpoint {
                *run = through_checkpoint(run, &graph)?;
            }
        }
        let state = state.ok_or("the run has no log")?;
        Ok((state, self.head(id)))
    }

    /// A stored value, if it is durable.
    pub fn value(&self, run: RunId, value: &ValueRef) -> Option<Arc<str>> {
        if value.is_blob() {
            let bytes = self.memory.blob(&value.digest).wait().ok()??;
            return String::from_utf8(bytes).ok().map(Arc::from);
        }
        let said = self.said(run, u64::from(value.record))?;
        let transition = said.as_ref().ok()?;
        let values = transition.events.iter().flat_map(Event::values);
        let mut texts = values.filter_map(|value| match value {
            Stored::Inline(raw) => Some(raw.get()),
            Stored::Blob { .. } => None,
        });
        let found = texts.find(|text| Digest::of(text.as_bytes()) == value.digest)?;
        Some(Arc::from(found))
    }

    /// The text of a value as a record has it.
    pub fn resolve(&self, stored: &Stored) -> Option<Arc<str>> {
        match stored {
            Stored::Inline(raw) => Some(Arc::from(raw.get())),
            Stored::Blob { digest, .. } => {
                let bytes = self.memory.blob(digest).wait().ok()??;
                String::from_utf8(bytes).ok().map(Arc::from)
            }
        }
    }
}

/// The state that a snapshot of this one gives back.
fn through_checkpoint(
    run: &mut Run,
    graph: impl Fn(&Digest) -> Option<Arc<Plan>>,
) -> Result<Run, String> {
    let bytes = run.snapshot().ok_or("a state has no snapshot")?;
    let snapshot = Snapshot::read(&bytes).ok_or("a snapshot cannot be read")?;
    let graphs = snapshot.graphs().iter();
    let graphs: Option<Vec<_>> = graphs.map(|name| graph(&name.definition)).collect();
    let graphs = graphs.ok_or("a snapshot needs a graph that is unknown")?;
    let (queued, created) = (run.queued().clone(), run.created_at());
    Run::restore(run.id(), graphs, queued, created, snapshot)
        .ok_or_else(|| "a snapshot does not fit its run".to_owned())
}
