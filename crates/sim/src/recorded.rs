//! The logs of a world, with everything that they refer to: what a history is recorded from.
//! It must not know how histories are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::event::Event;
use windlass_core::value::Stored;
use windlass_core::{Digest, RunId};
use windlass_orchestrator::codec;

use crate::world::{Options, World};

/// One run's log as it is stored.
#[derive(Clone, Debug)]
pub struct RunLog {
    /// The run.
    pub run: RunId,
    /// Its records: the stored bytes, in order.
    pub records: Vec<Vec<u8>>,
    /// The definitions that it names.
    pub graphs: BTreeMap<Digest, Arc<str>>,
    /// The values that it names and that are too large for a record.
    pub blobs: BTreeMap<Digest, Arc<str>>,
}

/// Runs the world of a seed, and gives the logs of its runs in the order of their ids.
///
/// # Panics
/// The world broke a rule, or its logs name what it does not have.
pub fn record_seed(seed: u64, options: Options) -> Vec<RunLog> {
    let mut world = World::new(seed, options);
    world.run();
    let broken = world.violation.as_deref().or(world.oracle.violation());
    assert_eq!(broken, None, "the world of seed {seed}");
    let runs: Vec<RunId> = world.oracle.histories().map(|(run, _)| run).collect();
    runs.into_iter().map(|run| log(&world, run)).collect()
}

fn log(world: &World, run: RunId) -> RunLog {
    let records = world.store.records(run).into_iter();
    let mut log = RunLog {
        run,
        records: records.map(|record| record.bytes).collect(),
        graphs: BTreeMap::new(),
        blobs: BTreeMap::new(),
    };
    for record in &log.records {
        let transition = codec::decode(record).expect("a world stores what it can read");
        for event in &transition.events {
            if let Event::Queued(queued) = event {
                let definition = queued.definition;
                log.graphs.insert(definition, text(world, &definition));
                let vars = queued.vars.values();
                keep_blobs(world, vars.chain([&queued.trigger]), &mut log.blobs);
            }
            if let Event::Healed { definition, .. } | Event::Imported { definition, .. } = event {
                log.graphs.insert(*definition, text(world, definition));
            }
            keep_blobs(world, event.values(), &mut log.blobs);
        }
    }
    log
}

fn text(world: &World, definition: &Digest) -> Arc<str> {
    let text = world.catalogue.text(definition);
    text.expect("a log names graphs of its world")
}

fn keep_blobs<'a>(
    world: &World,
    values: impl IntoIterator<Item = &'a Stored>,
    blobs: &mut BTreeMap<Digest, Arc<str>>,
) {
    for value in values {
        if let Stored::Blob { digest, .. } = value {
            let text = world.store.resolve(value);
            blobs.insert(*digest, text.expect("a log names values of its world"));
        }
    }
}
