//! What the runs of worlds have in their logs, to choose from: the kinds of their events.

use std::collections::BTreeSet;

use windlass_orchestrator::codec;
use windlass_sim::recorded::record_seed;
use windlass_sim::{Options, WorkloadKind};

/// Prints a line for each run of the first seeds: where it is, its size, its events.
pub(crate) fn print(kind: WorkloadKind, seeds: u64) {
    for seed in 0..seeds {
        let options = Options {
            kind,
            ..Options::default()
        };
        for (number, log) in record_seed(seed, options).iter().enumerate() {
            let graphs = log.graphs.values().chain(log.blobs.values());
            let texts: usize = graphs.map(|text| text.len()).sum();
            let bytes = texts + log.records.iter().map(Vec::len).sum::<usize>();
            let decoded = log.records.iter().map(|record| codec::decode(record));
            let events = decoded.flat_map(|record| record.expect("a stored record").events);
            let kinds: BTreeSet<String> = events.map(|event| kind_of(&event)).collect();
            let kinds: Vec<String> = kinds.into_iter().collect();
            println!("{seed} run {} {bytes} {}", number + 1, kinds.join(" "));
        }
    }
}

/// The key under which an event is stored.
fn kind_of(event: &windlass_core::event::Event) -> String {
    let stored = serde_json::to_value(event).expect("events serialise");
    let keys = stored
        .as_object()
        .into_iter()
        .flat_map(|event| event.keys());
    keys.cloned().collect()
}
