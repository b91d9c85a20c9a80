//! What one statement appends to one run: a record, or several that follow each other in a log
//! that is kept elsewhere. It does not know SQL.

use windlass_store::{Append, Head, checksum};

/// Bytes of the records and values of one entry with several records.
const MOST_BYTES: usize = 1 << 20;

/// One record, or several of which none is stored without the others.
pub(crate) struct Entry {
    /// The records before the last. What they brought with them stands in `last`.
    pub(crate) earlier: Vec<Append>,
    pub(crate) last: Append,
}

impl From<Append> for Entry {
    fn from(last: Append) -> Self {
        Self {
            earlier: Vec::new(),
            last,
        }
    }
}

impl Entry {
    /// The head that the run must have.
    pub(crate) fn head(&self) -> Head {
        self.earlier.first().unwrap_or(&self.last).head
    }

    /// How many records there are.
    pub(crate) fn len(&self) -> usize {
        self.earlier.len() + 1
    }

    pub(crate) fn bytes(&self) -> usize {
        let values = self.last.blobs.iter().map(|blob| blob.bytes.len());
        let records = self.earlier.iter().chain([&self.last]);
        records.map(|it| it.record.len()).sum::<usize>() + values.sum::<usize>()
    }

    /// Whether a record can join the others: it follows them, and brings no claim or link, which
    /// are decided on with their own record.
    fn takes(&self, next: &Append) -> bool {
        next.claims.is_empty()
            && next.resources.is_empty()
            && self.last.resources.is_empty()
            && next.head == checksum::next_head(&self.last)
            && self.bytes() + next.record.len() <= MOST_BYTES
    }

    fn join(&mut self, next: Append) {
        let mut before = std::mem::replace(&mut self.last, next);
        let last = &mut self.last;
        last.row = last.row.take().or_else(|| before.row.take());
        last.claims = std::mem::take(&mut before.claims);
        last.blobs.append(&mut before.blobs);
        last.uses.append(&mut before.uses);
        last.consumed.append(&mut before.consumed);
        last.releases.append(&mut before.releases);
        last.slots.append(&mut before.slots);
        last.uses.sort_unstable();
        last.uses.dedup();
        last.blobs.sort_unstable_by_key(|blob| blob.digest);
        last.blobs.dedup_by_key(|blob| blob.digest);
        self.earlier.push(before);
    }
}

/// As few entries as hold these appends, each with the places of its appends. Those of one run keep
/// their order.
pub(crate) fn joined(appends: Vec<Append>) -> Vec<(Entry, Vec<usize>)> {
    let mut entries: Vec<(Entry, Vec<usize>)> = Vec::new();
    let mut newest = std::collections::HashMap::new();
    for (place, append) in appends.into_iter().enumerate() {
        let run = append.run;
        let of_run = newest.get(&run).and_then(|&at: &usize| entries.get_mut(at));
        match of_run {
            Some((entry, places)) if entry.takes(&append) => {
                entry.join(append);
                places.push(place);
            }
            _ => {
                newest.insert(run, entries.len());
                entries.push((append.into(), vec![place]));
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::{Millis, RunId};
    use windlass_store::{Claim, WriterId};

    fn append(run: u8, head: Head) -> Append {
        Append {
            run: RunId::new(Millis(1), [run; 10]),
            head,
            writer: WriterId(1),
            append_id: head.sequence + 1,
            record: vec![run; 8],
            row: None,
            claims: Vec::new(),
            resources: Vec::new(),
            blobs: Vec::new(),
            uses: Vec::new(),
            consumed: Vec::new(),
            releases: vec![format!("gate-{}", head.sequence).into()],
            slots: Vec::new(),
        }
    }

    /// Records of one run, one after the other.
    fn log(run: u8, count: usize) -> Vec<Append> {
        let mut head = Head::NONE;
        let mut log = Vec::new();
        for _ in 0..count {
            let next = append(run, head);
            head = checksum::next_head(&next);
            log.push(next);
        }
        log
    }

    #[test]
    fn records_that_follow_each_other_share_an_entry() {
        let (one, two) = (log(1, 3), log(2, 1));
        let mixed = vec![
            one[0].clone(),
            two[0].clone(),
            one[1].clone(),
            one[2].clone(),
        ];
        let entries = joined(mixed);
        let places: Vec<&[usize]> = entries.iter().map(|it| &it.1[..]).collect();
        assert_eq!(places, [&[0, 2, 3][..], &[1]]);
        let (entry, _) = &entries[0];
        assert_eq!((entry.len(), entry.head()), (3, Head::NONE));
        assert_eq!(entry.last.record, one[2].record);
        assert_eq!(entry.last.releases.len(), 3, "{:?}", entry.last.releases);
    }

    #[test]
    fn a_gap_or_a_claim_begins_an_entry() {
        let mut records = log(1, 4);
        records[1].claims.push(Claim {
            namespace: "request",
            key: "k".into(),
            value: Vec::new(),
        });
        records.remove(2);
        let entries = joined(records);
        let places: Vec<&[usize]> = entries.iter().map(|it| &it.1[..]).collect();
        assert_eq!(places, [&[0][..], &[1], &[2]]);
    }
}
