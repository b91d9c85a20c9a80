//! The inbox as a process sees it: a copy of its rows. It does no I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use windlass_core::RunId;
use windlass_store::{Bell, InboxBounds, Partition, Partitions};

use crate::mirror::Rows;
use crate::names::hash;
use crate::recent::Recent;
use crate::table::Row;

/// A longer payload is not kept: it is read when it is needed.
const MOST_KEPT: usize = 4 * 1024;

/// How an offer stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OfferState {
    /// It waits.
    #[default]
    Waiting,
    /// A refusal is under way, and not decided: it waits until it is.
    Refusing,
    /// The owner refused it; the payload is the reason.
    Refused,
    /// It was consumed or discarded. The server removes the row after a while.
    Gone,
}

/// What is noted with an offer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OfferMeta {
    pub(crate) key: Box<str>,
    /// Which offer under this key it is.
    pub(crate) offer: Box<str>,
    #[serde(default)]
    pub(crate) state: OfferState,
    /// Its place among what was offered, if the row was changed since.
    #[serde(default)]
    pub(crate) number: u64,
}

impl OfferMeta {
    pub(crate) fn waits(&self) -> bool {
        matches!(self.state, OfferState::Waiting | OfferState::Refusing)
    }

    /// The place of an offer whose row is this.
    pub(crate) fn number_in(&self, row: &Row) -> u64 {
        match self.number {
            0 => row.sequence,
            number => number,
        }
    }
}

/// An offer as this process knows it.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    /// Without its payload, if that is too long to be kept.
    pub(crate) row: Row,
    pub(crate) meta: OfferMeta,
    /// The length of the payload.
    pub(crate) size: usize,
}

impl Offered {
    pub(crate) fn of(row: Row, meta: OfferMeta) -> Self {
        let size = row.payload.len();
        Self { row, meta, size }
    }

    /// What a row says; nothing if it is of a newer program.
    fn read(row: Row) -> Option<Self> {
        let meta = row.meta().ok()?;
        Some(Self::of(row, meta))
    }

    /// The same as it is kept.
    fn kept(mut self) -> Self {
        if self.size > MOST_KEPT {
            self.row.payload.clear();
        }
        self
    }

    /// The subject and the sequence of its row.
    pub(crate) fn place(&self) -> (String, u64) {
        (self.row.subject.clone(), self.row.sequence)
    }

    pub(crate) fn has_payload(&self) -> bool {
        self.row.payload.len() == self.size
    }

    pub(crate) fn number(&self) -> u64 {
        self.meta.number_in(&self.row)
    }
}

/// The copy.
#[derive(Debug, Default)]
pub(crate) struct InboxState {
    /// By the last part of the subject, which stands for the key.
    runs: BTreeMap<RunId, HashMap<Box<str>, Offered>>,
    partitions: BTreeMap<u32, BTreeSet<RunId>>,
    /// Rows that say that an offer is gone, by subject.
    gone: Recent<String, u64>,
    /// Offers that records of this process have consumed and that are not removed yet.
    consumed: HashSet<Box<str>>,
}

/// The partition and the run that an offer's subject names.
fn place_of(subject: &str) -> Option<(u32, RunId)> {
    let mut parts = subject.rsplit('.').skip(1);
    let run = parts.next()?.parse().ok()?;
    Some((parts.next()?.parse().ok()?, run))
}

fn key_part(subject: &str) -> &str {
    subject.rsplit('.').next().unwrap_or_default()
}

impl Rows for InboxState {
    fn clear(&mut self) {
        // What records have consumed is no matter of the stream.
        let consumed = std::mem::take(&mut self.consumed);
        *self = Self {
            consumed,
            ..Self::default()
        };
    }

    fn note(&mut self, row: Row) -> Option<Bell> {
        let (partition, run) = place_of(&row.subject)?;
        let offered = Offered::read(row)?;
        let (subject, sequence) = (&offered.row.subject, offered.row.sequence);
        let known = self
            .runs
            .get(&run)
            .and_then(|own| own.get(key_part(subject)));
        let known = known.map(|it| it.row.sequence).into_iter();
        let known = known.chain(self.gone.get(subject).copied()).max();
        if known.is_some_and(|known| known >= sequence) {
            return None;
        }
        if offered.meta.state == OfferState::Gone {
            self.gone.insert(subject.clone(), sequence);
            self.remove(partition, run, &offered.row.subject);
            return None;
        }
        let waits = offered.meta.waits();
        self.gone.remove(subject);
        self.partitions.entry(partition).or_default().insert(run);
        let own = self.runs.entry(run).or_default();
        own.insert(key_part(&offered.row.subject).into(), offered.kept());
        waits.then_some(Bell::Offered(Partition(partition), run))
    }

    fn there(&self) -> Vec<(String, u64)> {
        let rows = self.runs.values().flat_map(HashMap::values);
        rows.map(Offered::place).collect()
    }

    fn forget(&mut self, subject: &str, sequence: u64) {
        let Some((partition, run)) = place_of(subject) else {
            return;
        };
        let own = self.runs.get(&run);
        let known = own.and_then(|own| own.get(key_part(subject)));
        if known.is_some_and(|known| known.row.sequence <= sequence) {
            self.remove(partition, run, subject);
        }
    }
}

impl InboxState {
    fn remove(&mut self, partition: u32, run: RunId, subject: &str) {
        let Some(own) = self.runs.get_mut(&run) else {
            return;
        };
        own.remove(key_part(subject));
        if !own.is_empty() {
            return;
        }
        self.runs.remove(&run);
        if let Some(runs) = self.partitions.get_mut(&partition) {
            runs.remove(&run);
        }
    }

    /// Takes in a row that this process has written or asked for.
    pub(crate) fn note_own(&mut self, row: Row) {
        let _ = self.note(row);
    }

    /// The offer of a run under a key.
    pub(crate) fn offer(&self, run: RunId, key: &str) -> Option<&Offered> {
        self.runs.get(&run)?.get(&*hash(&[key]))
    }

    /// The sequence of the row that says that an offer of this subject is gone.
    pub(crate) fn gone(&self, subject: &str) -> Option<u64> {
        self.gone.get(subject).copied()
    }

    pub(crate) fn is_consumed(&self, offer: &str) -> bool {
        self.consumed.contains(offer)
    }

    /// A record of this process consumes an offer.
    pub(crate) fn note_consumed(&mut self, offer: Box<str>) {
        self.consumed.insert(offer);
    }

    /// An offer that a record consumed is removed.
    pub(crate) fn note_removed(&mut self, offer: &str) {
        self.consumed.remove(offer);
    }

    fn waits(&self, offered: &Offered) -> bool {
        offered.meta.waits() && !self.is_consumed(&offered.meta.offer)
    }

    /// What waits for a run, oldest first.
    pub(crate) fn waiting(&self, run: RunId) -> Vec<&Offered> {
        let own = self.runs.get(&run).into_iter().flat_map(HashMap::values);
        let mut waiting: Vec<&Offered> = own.filter(|it| self.waits(it)).collect();
        waiting.sort_by_key(|it| it.number());
        waiting
    }

    /// The next that waits for a run, so much of it.
    pub(crate) fn page(&self, run: RunId, after: u64, most: InboxBounds) -> Vec<Offered> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        let waiting = self.waiting(run).into_iter();
        let next = waiting.filter(|it| it.number() > after);
        for offered in next.take(most.items) {
            bytes += offered.size;
            if bytes > most.bytes && !page.is_empty() {
                break;
            }
            page.push(offered.clone());
        }
        page
    }

    /// All rows of a run.
    pub(crate) fn of_run(&self, run: RunId) -> Vec<Offered> {
        let own = self.runs.get(&run).into_iter().flat_map(HashMap::values);
        own.cloned().collect()
    }

    /// Runs for which something waits, by id, after the given one.
    pub(crate) fn offered(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Vec<RunId> {
        let has = |run: &RunId| {
            let own = self.runs.get(run);
            own.is_some_and(|own| own.values().any(|it| self.waits(it)))
        };
        let is_later = |run: &RunId| after.is_none_or(|after| *run > after);
        let runs: BTreeSet<RunId> = match partitions {
            Partitions::All => self.runs.keys().copied().collect(),
            Partitions::Only(only) => {
                let each = only.iter().filter_map(|it| self.partitions.get(&it.0));
                each.flatten().copied().collect()
            }
        };
        let runs = runs.into_iter().filter(|run| is_later(run) && has(run));
        runs.take(limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use windlass_core::Millis;

    use super::*;

    #[test]
    fn a_long_payload_is_not_kept() {
        let mut state = InboxState::default();
        let run = RunId::new(Millis(1), [7; 10]);
        for (sequence, size) in [(1, MOST_KEPT), (2, MOST_KEPT + 1)] {
            let key = size.to_string();
            let meta = OfferMeta {
                key: key.as_str().into(),
                offer: "offer".into(),
                state: OfferState::Waiting,
                number: 0,
            };
            let subject = format!("wl.inbox.0.{run}.{}", hash(&[&key]));
            let row = Row::written(subject, sequence, &meta, Bytes::from(vec![b'x'; size]));
            assert!(state.note(row).is_some());
            let offered = state.offer(run, &key).unwrap();
            assert_eq!(offered.size, size);
            assert_eq!(offered.has_payload(), size <= MOST_KEPT);
            assert_eq!(offered.row.payload.len(), size % (MOST_KEPT + 1));
        }
    }
}
