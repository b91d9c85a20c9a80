//! Reading a log: what is packed first, then single records, all of it verified.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, Row};
use windlass_core::RunId;
use windlass_store::{Error, Head, Record, WriterId, checksum};

use crate::codec::{self, record_key, unsigned};
use crate::error::{Fault, damaged_log};
use crate::segment::{self, Segment, Unpacked};

/// The run's number and head, if it is known.
pub(crate) fn locate(connection: &Connection, run: RunId) -> Result<Option<(i64, Head)>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT sequence, append_id, chain, number FROM run WHERE run = ?")?;
    let found = statement.query_row([run.as_bytes()], |row| {
        Ok((row.get(3)?, codec::head(row, 0)?))
    });
    Ok(found.optional()?)
}

/// Reads and verifies records; see `Store::read`. With `leftovers`, the records of a segment
/// that a page does not take are kept there for the next page.
pub(crate) fn read(
    connection: &Connection,
    run: RunId,
    from: u64,
    max_bytes: usize,
    leftovers: Option<&Leftovers>,
) -> Result<Vec<Record>, Fault> {
    // One snapshot for the head and the records.
    let transaction = connection.unchecked_transaction()?;
    let Some((number, head)) = locate(&transaction, run)? else {
        return Ok(Vec::new());
    };
    let from = from.max(1);
    if from > head.sequence {
        return Ok(Vec::new());
    }
    if record_key(number, head.sequence).is_none() {
        return Err(damaged_log(run, from, "the head is beyond the bounds of a log").into());
    }
    let mut reading = Reading {
        connection: &transaction,
        number,
        walk: Walk {
            run,
            head,
            previous: head_at(&transaction, number, from - 1)?.map(|head| head.chain),
            next: from,
        },
        records: Vec::new(),
        bytes: 0,
        max_bytes,
    };
    reading.packed(leftovers)?;
    if !reading.is_full() {
        reading.single()?;
    }
    Ok(reading.records)
}

/// The head after a record that stands alone or ends a segment; `None` if it is inside
/// one, or missing.
fn head_at(connection: &Connection, number: i64, sequence: u64) -> Result<Option<Head>, Fault> {
    if sequence == 0 {
        return Ok(Some(Head::NONE));
    }
    let alone = connection
        .prepare_cached("SELECT ?2, append_id, chain FROM record WHERE id = ?1")?
        .query_row(
            (record_key(number, sequence), codec::signed(sequence)),
            |row| codec::head(row, 0),
        )
        .optional()?;
    match alone {
        None => segment::head_at_end(connection, number, sequence),
        head => Ok(head),
    }
}

/// Whether a head lies on a run's chain: there is a record that it is the head of.
pub(crate) fn is_on_chain(connection: &Connection, run: RunId, head: Head) -> Result<bool, Fault> {
    let Some((number, last)) = locate(connection, run)? else {
        return Ok(false);
    };
    if head.sequence == 0 || head.sequence > last.sequence {
        return Ok(false);
    }
    if let Some(found) = head_at(connection, number, head.sequence)? {
        return Ok(found == head);
    }
    let Some(segment) = Segment::find(connection, run, number, head.sequence)? else {
        return Ok(false);
    };
    let records = segment.unpack(run)?.records;
    Ok(records.iter().any(|record| record.head() == head))
}

/// A page that is being read.
struct Reading<'a> {
    connection: &'a Connection,
    number: i64,
    walk: Walk,
    records: Vec<Record>,
    bytes: usize,
    max_bytes: usize,
}

impl Reading<'_> {
    fn is_full(&self) -> bool {
        !self.records.is_empty() && self.bytes >= self.max_bytes
    }

    fn push(&mut self, record: Record) {
        self.bytes = self.bytes.saturating_add(record.bytes.len());
        self.records.push(record);
    }

    /// Takes packed records until the page is full or none are left.
    fn packed(&mut self, leftovers: Option<&Leftovers>) -> Result<(), Fault> {
        let run = self.walk.run;
        while !self.is_full() && self.walk.next <= self.walk.head.sequence {
            let left = leftovers.and_then(|left| left.take(run, self.walk.next));
            let mut unpacked = match left {
                Some(unpacked) => {
                    self.walk.previous.get_or_insert(unpacked.previous);
                    unpacked
                }
                None => match Segment::find(self.connection, run, self.number, self.walk.next)? {
                    Some(segment) => segment.unpack(run)?,
                    None => return Ok(()),
                },
            };
            self.walk.enter(&mut unpacked)?;
            while !self.is_full()
                && let Some(record) = unpacked.records.pop_front()
            {
                self.walk.accept(&record)?;
                unpacked.previous = record.chain;
                self.push(record);
            }
            if let Some(leftovers) = leftovers
                && !unpacked.records.is_empty()
            {
                leftovers.keep(run, unpacked);
            }
        }
        Ok(())
    }

    /// Takes single records until the page is full or the log ends.
    fn single(&mut self) -> Result<(), Fault> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, writer, append_id, chain, bytes FROM record \
             WHERE id BETWEEN ? AND ? ORDER BY id",
        )?;
        let first = record_key(self.number, self.walk.next);
        let last = record_key(self.number, self.walk.head.sequence);
        let mut rows = statement.query([first, last])?;
        while let Some(row) = rows.next()? {
            let record = self.walk.decode(row)?;
            self.walk.step(&record)?;
            self.push(record);
            if self.is_full() {
                return Ok(());
            }
        }
        Ok(self.walk.end()?)
    }
}

/// The columns `id, writer, append_id, chain, bytes`.
fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        sequence: codec::sequence_of(row.get(0)?),
        writer: WriterId(unsigned(row.get(1)?)),
        append_id: unsigned(row.get(2)?),
        chain: row.get(3)?,
        bytes: row.get(4)?,
    })
}

/// The verification of one record after the other.
pub(crate) struct Walk {
    pub(crate) run: RunId,
    pub(crate) head: Head,
    /// The checksum before the next record, once it is known.
    pub(crate) previous: Option<[u8; 16]>,
    pub(crate) next: u64,
}

impl Walk {
    /// A single record from its row; what cannot be read is named by its place.
    pub(crate) fn decode(&self, row: &Row<'_>) -> Result<Record, Fault> {
        record(row).map_err(|error| Fault::from(error).at(self.run, self.next))
    }

    /// Checks a record's place and checksum, and the head's if it is the last.
    pub(crate) fn step(&mut self, record: &Record) -> Result<(), Error> {
        let Some(previous) = &self.previous else {
            return Err(self.missing(self.next - 1));
        };
        if record.sequence != self.next {
            return Err(self.missing(self.next));
        }
        if !checksum::fits(record, previous) {
            let reason = "the checksum does not fit the record and those before it";
            return Err(damaged_log(self.run, self.next, reason));
        }
        self.accept(record)
    }

    /// Goes to the next record in a segment whose checksums were verified, and checks its
    /// place among those before it.
    fn enter(&mut self, segment: &mut Unpacked) -> Result<(), Error> {
        let first = segment.records.front().map_or(0, |record| record.sequence);
        if first > self.next {
            return Err(self.missing(self.next));
        }
        if first == self.next && self.previous.is_none() {
            return Err(self.missing(self.next - 1));
        }
        while let Some(record) = segment.records.front()
            && record.sequence < self.next
        {
            segment.previous = record.chain;
            segment.records.pop_front();
        }
        if self.previous.is_some_and(|chain| chain != segment.previous) {
            let reason = "the packed records do not follow those before them";
            return Err(damaged_log(self.run, first, reason));
        }
        self.previous = Some(segment.previous);
        Ok(())
    }

    /// Goes past a record whose checksum fits.
    fn accept(&mut self, record: &Record) -> Result<(), Error> {
        if record.sequence == self.head.sequence && record.head() != self.head {
            let reason = "the last record is not the one that the run's head names";
            return Err(damaged_log(self.run, self.next, reason));
        }
        self.previous = Some(record.chain);
        self.next += 1;
        Ok(())
    }

    /// Checks that the log reaches the head.
    fn end(&self) -> Result<(), Error> {
        if self.next <= self.head.sequence {
            let reason = "the record is missing, and the run's head names a later one";
            return Err(damaged_log(self.run, self.next, reason));
        }
        Ok(())
    }

    fn missing(&self, sequence: u64) -> Error {
        damaged_log(self.run, sequence, "the record is missing")
    }
}

/// The records that pages did not take of the segments that they ended in, so that reading on
/// does not unpack the same segment again. Segments never change, so these are never stale.
#[derive(Default)]
pub(crate) struct Leftovers(Mutex<VecDeque<(RunId, Unpacked)>>);

/// Logs that may be read page by page at the same time without unpacking twice. Each has
/// at most a segment of records here.
const LEFTOVERS: usize = 4;

impl Leftovers {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(RunId, Unpacked)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kept records that begin with this record of a run.
    fn take(&self, run: RunId, next: u64) -> Option<Unpacked> {
        let mut kept = self.lock();
        let at = kept.iter().position(|(of, unpacked)| {
            let first = unpacked.records.front().map(|record| record.sequence);
            *of == run && first == Some(next)
        })?;
        kept.remove(at).map(|(_, unpacked)| unpacked)
    }

    /// Drops what is kept of a run that is forgotten.
    pub(crate) fn forget(&self, run: RunId) {
        self.lock().retain(|(of, _)| *of != run);
    }

    fn keep(&self, run: RunId, unpacked: Unpacked) {
        let mut kept = self.lock();
        if kept.len() >= LEFTOVERS {
            kept.pop_front();
        }
        kept.push_back((run, unpacked));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(first: u64) -> Unpacked {
        let record = Record {
            sequence: first,
            writer: WriterId(1),
            append_id: 1,
            chain: [1; 16],
            bytes: Vec::new(),
        };
        Unpacked {
            previous: [0; 16],
            records: [record].into(),
        }
    }

    #[test]
    fn only_what_comes_next_is_taken_and_little_is_kept() {
        let leftovers = Leftovers::default();
        let run = windlass_store::conformance::run_id;
        for number in 1..=6 {
            leftovers.keep(run(number), unpacked(10));
        }
        assert!(leftovers.take(run(3), 11).is_none());
        assert!(leftovers.take(run(3), 10).is_some());
        assert!(leftovers.take(run(3), 10).is_none());
        assert!(leftovers.take(run(1), 10).is_none(), "the oldest made room");
        assert_eq!(leftovers.lock().len(), 3);
        leftovers.forget(run(5));
        assert!(leftovers.take(run(5), 10).is_none());
    }
}
