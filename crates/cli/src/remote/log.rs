//! Parts of logs that were read before. Records never change, so what is kept is right for
//! ever; what comes after it is asked for.

use std::collections::VecDeque;

use windlass_core::RunId;
use windlass_store::Record;

/// How many bytes of records are kept.
const KEPT_BYTES: usize = 32 * 1024 * 1024;

/// What a record costs besides its bytes.
const RECORD_BYTES: usize = 80;

struct Part {
    run: RunId,
    records: Vec<Record>,
    bytes: usize,
}

/// The parts that were read last.
#[derive(Default)]
pub(super) struct RecentParts {
    /// Oldest first.
    parts: VecDeque<Part>,
    bytes: usize,
}

impl RecentParts {
    /// Records from one on, until about so many bytes; nothing if that one is not kept.
    pub(super) fn get(&self, run: RunId, from: u64, max_bytes: usize) -> Option<Vec<Record>> {
        let starts = |part: &&Part| {
            let first = part.records.first().map_or(u64::MAX, |it| it.sequence);
            let last = part.records.last().map_or(0, |it| it.sequence);
            part.run == run && (first..=last).contains(&from)
        };
        let part = self.parts.iter().rev().find(starts)?;
        let place = part.records.iter().position(|it| it.sequence == from)?;
        Some(beginning(&part.records[place..], max_bytes))
    }

    /// Keeps a part; the oldest make way.
    pub(super) fn put(&mut self, run: RunId, records: Vec<Record>) {
        if records.is_empty() {
            return;
        }
        let bytes = records.iter().map(|it| it.bytes.len() + RECORD_BYTES).sum();
        self.bytes += bytes;
        let part = Part {
            run,
            records,
            bytes,
        };
        self.parts.push_back(part);
        while self.bytes > KEPT_BYTES
            && self.parts.len() > 1
            && let Some(oldest) = self.parts.pop_front()
        {
            self.bytes -= oldest.bytes;
        }
    }
}

/// The first records, until about so many bytes; at least one.
pub(super) fn beginning(records: &[Record], max_bytes: usize) -> Vec<Record> {
    let mut bytes = 0;
    let fits = |record: &&Record| {
        let is_open = bytes < max_bytes.max(1);
        bytes += record.bytes.len();
        is_open
    };
    records.iter().take_while(fits).cloned().collect()
}

#[cfg(test)]
mod tests {
    use windlass_store::WriterId;

    use super::*;

    fn record(sequence: u64, bytes: usize) -> Record {
        Record {
            sequence,
            writer: WriterId(1),
            append_id: sequence,
            chain: [0; 16],
            bytes: vec![0; bytes],
        }
    }

    fn numbers(records: Option<Vec<Record>>) -> Option<Vec<u64>> {
        Some(records?.iter().map(|it| it.sequence).collect())
    }

    #[test]
    fn what_is_kept_is_given_in_parts() {
        let (run, other) = (RunId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
        let mut kept = RecentParts::default();
        kept.put(run, (3..7).map(|it| record(it, 10)).collect());
        assert_eq!(numbers(kept.get(run, 3, 1)), Some(vec![3]));
        assert_eq!(numbers(kept.get(run, 4, 20)), Some(vec![4, 5]));
        assert_eq!(numbers(kept.get(run, 5, 1000)), Some(vec![5, 6]));
        for (run, from) in [(run, 2), (run, 7), (other, 3)] {
            assert_eq!(numbers(kept.get(run, from, 1000)), None);
        }
    }

    #[test]
    fn the_oldest_make_way() {
        let run = RunId::from_bytes([1; 16]);
        let mut kept = RecentParts::default();
        for part in 1..=4 {
            kept.put(run, vec![record(part, 10 * 1024 * 1024)]);
        }
        assert_eq!(numbers(kept.get(run, 1, 1)), None);
        assert_eq!(numbers(kept.get(run, 2, 1)), Some(vec![2]));
    }
}
