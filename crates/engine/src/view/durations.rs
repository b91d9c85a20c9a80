//! How long the nodes of many runs took, and how often they failed: read from the ends of
//! attempts in the logs, without folding them.

use std::collections::BTreeMap;

use windlass_core::event::{AttemptResult, Event};
use windlass_core::{Millis, RunId};
use windlass_orchestrator::codec;
use windlass_store::Wait as _;

use crate::Backend;
use crate::load::{LoadError, PAGE_BYTES, unreadable};

/// What is known of each node, by its path without iterations.
#[derive(Clone, Debug, Default)]
pub struct NodeDurations {
    nodes: BTreeMap<String, NodeFigures>,
}

/// How often a node ended, and how long it took.
#[derive(Clone, Debug, Default)]
pub struct NodeFigures {
    /// How often it ended, well or badly; what was skipped or cancelled does not count.
    pub ended: u64,
    /// How often it failed for good.
    pub failed: u64,
    /// How often an attempt failed that was made again.
    pub retried: u64,
    /// From the start of the first attempt to the end of the last, in milliseconds.
    durations: Vec<u64>,
}

impl NodeDurations {
    /// Adds the nodes of a run. Gives the number of bytes that were read; reading ends early
    /// when there are as many as `budget`.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn add(
        &mut self,
        store: &dyn Backend,
        run: RunId,
        budget: usize,
    ) -> Result<usize, LoadError> {
        let mut begun: BTreeMap<Box<str>, Millis> = BTreeMap::new();
        let (mut sequence, mut bytes) = (0, 0);
        while bytes < budget {
            let page = store.read(run, sequence + 1, PAGE_BYTES).wait()?;
            if page.is_empty() {
                break;
            }
            for record in page {
                sequence = record.sequence;
                bytes += record.bytes.len();
                let transition = codec::decode(&record.bytes)
                    .map_err(|error| unreadable(run, sequence, error.to_string()))?;
                for event in &transition.events {
                    self.event(event, &mut begun);
                }
            }
        }
        Ok(bytes)
    }

    fn event(&mut self, event: &Event, begun: &mut BTreeMap<Box<str>, Millis>) {
        let Event::AttemptEnded(ended) = event else {
            return;
        };
        let failed = match &ended.result {
            AttemptResult::Succeeded(_) => false,
            AttemptResult::Failed(_) => true,
            AttemptResult::Retrying { .. } => {
                begun.entry(ended.node.clone()).or_insert(ended.started);
                self.figures(&ended.node).retried += 1;
                return;
            }
            AttemptResult::Skipped {} | AttemptResult::Stopped {} => {
                begun.remove(&ended.node);
                return;
            }
        };
        let started = begun.remove(&ended.node).unwrap_or(ended.started);
        let took = ended.ended.0.saturating_sub(started.0);
        let figures = self.figures(&ended.node);
        figures.ended += 1;
        figures.failed += u64::from(failed);
        figures.durations.push(u64::try_from(took).unwrap_or(0));
    }

    fn figures(&mut self, path: &str) -> &mut NodeFigures {
        self.nodes.entry(without_iterations(path)).or_default()
    }

    /// The figures of every node that ended or was tried again, in the order of their paths.
    pub fn into_nodes(self) -> impl Iterator<Item = (String, NodeFigures)> {
        self.nodes.into_iter().map(|(path, mut figures)| {
            figures.durations.sort_unstable();
            (path, figures)
        })
    }
}

impl NodeFigures {
    /// The duration that so many percent of all do not exceed.
    pub fn percentile(&self, percent: usize) -> Option<u64> {
        percentile(&self.durations, percent)
    }
}

/// The least of ascending values that so many percent of them do not exceed (the nearest rank).
pub fn percentile(values: &[u64], percent: usize) -> Option<u64> {
    let rank = (values.len() * percent).div_ceil(100);
    values.get(rank.saturating_sub(1)).copied()
}

/// A path without the numbers of its iterations: that of the node in the definition.
pub fn without_iterations(path: &str) -> String {
    let parts = path.split('/');
    let names = parts.map(|part| part.split('[').next().unwrap_or(part));
    names.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let check = |values: &[u64], percent, expected| {
            assert_eq!(
                percentile(values, percent),
                expected,
                "{values:?} {percent}"
            );
        };
        check(&[], 50, None);
        check(&[7], 50, Some(7));
        check(&[7], 95, Some(7));
        check(&[1, 2], 50, Some(1));
        check(&[1, 2, 3], 50, Some(2));
        let hundred: Vec<u64> = (1..=100).collect();
        check(&hundred, 50, Some(50));
        check(&hundred, 95, Some(95));
        check(&hundred, 100, Some(100));
    }

    #[test]
    fn instances_count_for_their_node() {
        assert_eq!(without_iterations("a"), "a");
        assert_eq!(without_iterations("each[3]/poll[0]/ask"), "each/poll/ask");
    }
}
