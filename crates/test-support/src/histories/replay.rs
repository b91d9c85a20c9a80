//! Folds the records of a history as recovery does: decoded by the codec, through `apply`,
//! with the graphs that the log names. It must not know what the states should be.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::Digest;
use windlass_core::event::{Event, Transition};
use windlass_core::plan::Plan;
use windlass_core::run::{Run, Snapshot};
use windlass_orchestrator::codec;

use super::file::{HistoryRecord, RecordedHistory};

/// The definitions of a history, built.
pub struct Graphs(BTreeMap<Digest, Arc<Plan>>);

impl Graphs {
    pub fn of(history: &RecordedHistory) -> Self {
        let built = history.graphs.iter().map(|(&digest, text)| {
            let definition = serde_json::from_str(text).expect("a definition");
            (digest, Arc::new(Plan::build(definition).expect("a plan")))
        });
        Self(built.collect())
    }

    fn plan(&self, digest: &Digest) -> Arc<Plan> {
        let plan = self.0.get(digest);
        Arc::clone(plan.unwrap_or_else(|| panic!("no graph {digest}")))
    }

    /// Folds one record into a state, which the first one begins.
    pub fn fold(&self, history: &RecordedHistory, run: Option<Run>, record: &Transition) -> Run {
        let mut run = run.unwrap_or_else(|| {
            let Some(Event::Queued(queued)) = record.events.first() else {
                panic!("{}: a log begins with the request", history.name);
            };
            let plan = self.plan(&queued.definition);
            Run::new(history.run, plan, (**queued).clone(), record.at).expect("known rules")
        });
        for event in &record.events {
            if let Event::Healed { definition, .. } | Event::Imported { definition, .. } = event {
                run.stage(*definition, self.plan(definition));
            }
            let applied = run.apply(event, record.at, &mut Vec::new());
            if let Err(corrupt) = applied {
                panic!("{}, record {}: {corrupt}", history.name, corrupt.record);
            }
        }
        run.finish_record();
        run
    }

    /// The state that a checkpoint of this one gives back. The state itself forgets what the
    /// checkpoint does not hold, as the one does that takes a checkpoint and goes on.
    pub fn through_checkpoint(&self, run: &mut Run) -> Run {
        let bytes = codec::checkpoint(&run.snapshot().expect("a state has a snapshot"));
        let state = codec::open_checkpoint(&bytes).expect("a checkpoint of this version");
        let snapshot = Snapshot::read(state).expect("a snapshot");
        let graphs = snapshot.graphs().iter();
        let graphs = graphs.map(|name| self.plan(&name.definition)).collect();
        let (queued, created) = (run.queued().clone(), run.created_at());
        Run::restore(run.id(), graphs, queued, created, snapshot).expect("it fits its run")
    }
}

/// The records of a history as the codec reads them.
pub fn decoded(history: &RecordedHistory) -> Vec<Transition> {
    let decode = |record: &HistoryRecord| match codec::decode(&record.bytes()) {
        Ok(transition) => transition,
        Err(error) => panic!("{}: {error}: {}", history.name, record.body),
    };
    history.records.iter().map(decode).collect()
}
