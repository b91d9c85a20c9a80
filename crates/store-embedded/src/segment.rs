//! Segments: runs of records packed together, with the checksum before the first and the
//! head after the last.
//!
//! Before compression a segment is a format byte, the number of records (4 bytes), all
//! writers, all append ids, all lengths (8 bytes each, everything little-endian), then all
//! bytes. The records' checksums are not in it: they are computed again while unpacking,
//! and the last must be the one in the segment's row. A segment never changes.

use std::collections::VecDeque;

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::RunId;
use windlass_store::{Error, Head, Record, WriterId, checksum};

use crate::codec::{self, Sum, record_key, sequence_of, signed, unsigned};
use crate::error::{Fault, damaged_log};
use crate::read;

/// The most records of a segment.
pub(crate) const MOST_RECORDS: usize = 256;

/// The most bytes of a segment's records, unless it is one record that has more.
pub(crate) const MOST_BYTES: usize = 256 << 10;

/// The format that this version writes.
const FORMAT: u8 = 1;

/// zstd's own default: several times smaller, at hundreds of megabytes a second.
const LEVEL: i32 = 3;

/// No segment is longer: a record has some mebibytes at most, and a segment longer than its
/// bound holds one record. A damaged length must not make the process ask for all memory.
const LONGEST: usize = 1 << 30;

/// A segment as its row holds it.
pub(crate) struct Segment {
    /// The key: the run's number << 32 | the last record's sequence number.
    pub(crate) id: i64,
    pub(crate) first: u64,
    previous: [u8; 16],
    pub(crate) append_id: u64,
    chain: [u8; 16],
    /// Bytes before compression.
    pub(crate) length: usize,
    pub(crate) bytes: Vec<u8>,
}

/// The records of a segment, or what is left of them.
#[derive(Debug)]
pub(crate) struct Unpacked {
    /// The checksum before the first that is left.
    pub(crate) previous: [u8; 16],
    pub(crate) records: VecDeque<Record>,
}

/// Where the packed part of a log ends.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) sequence: u64,
    pub(crate) chain: [u8; 16],
}

impl Segment {
    /// Packs consecutive records of the run with this number; `None` for no records, or
    /// beyond the bounds of a log.
    pub(crate) fn pack(number: i64, previous: [u8; 16], records: &[Record]) -> Option<Self> {
        let (first, last) = (records.first()?, records.last()?);
        let mut raw = vec![FORMAT];
        raw.extend_from_slice(&u32::try_from(records.len()).ok()?.to_le_bytes());
        let mut column = |value: &dyn Fn(&Record) -> u64| {
            for record in records {
                raw.extend_from_slice(&value(record).to_le_bytes());
            }
        };
        column(&|record| record.writer.0);
        column(&|record| record.append_id);
        column(&|record| record.bytes.len() as u64);
        for record in records {
            raw.extend_from_slice(&record.bytes);
        }
        Some(Self {
            id: record_key(number, last.sequence)?,
            first: first.sequence,
            previous,
            append_id: last.append_id,
            chain: last.chain,
            length: raw.len(),
            // It fails only for lack of memory, which ends the process anyway.
            bytes: zstd::bulk::compress(&raw, LEVEL).ok()?,
        })
    }

    /// Bytes after compression.
    pub(crate) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The last record's sequence number.
    pub(crate) fn last(&self) -> u64 {
        sequence_of(self.id)
    }

    fn sum(&self) -> Sum {
        Sum::default()
            .number(self.id)
            .number(signed(self.first))
            .bytes(&self.previous)
            .number(signed(self.append_id))
            .bytes(&self.chain)
            .number(signed(self.length as u64))
            .bytes(&self.bytes)
    }

    /// Puts the segment in the place of its records.
    pub(crate) fn store(&self, connection: &Connection, run: RunId) -> Result<(), Fault> {
        // The run may have been forgotten since, and another run may have its number.
        let found = read::locate(connection, run)?;
        if found.is_none_or(|(number, _)| number != self.id >> 32) {
            return Err(Error::NotFound(format!("run {run}")).into());
        }
        connection
            .prepare_cached(
                "INSERT INTO segment (id, first, previous, append_id, chain, length, sum, bytes) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                self.id,
                signed(self.first),
                self.previous,
                signed(self.append_id),
                self.chain,
                signed(self.length as u64),
                self.sum().value(),
                self.bytes,
            ])?;
        windlass_store::crash::point("in-compaction");
        let records = self.last() - self.first + 1;
        let first = self.id - signed(records - 1);
        let deleted = connection
            .prepare_cached("DELETE FROM record WHERE id BETWEEN ? AND ?")?
            .execute([first, self.id])?;
        if deleted as u64 != records {
            let reason = "records are missing that were there before they were packed";
            return Err(damaged_log(run, self.first, reason).into());
        }
        Ok(())
    }

    /// The segment that holds a record of a run, or the next one after it.
    pub(crate) fn find(
        connection: &Connection,
        run: RunId,
        number: i64,
        sequence: u64,
    ) -> Result<Option<Self>, Fault> {
        let mut statement = connection.prepare_cached(
            "SELECT id, first, previous, append_id, chain, length, bytes, sum FROM segment \
             WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 1",
        )?;
        let range = (record_key(number, sequence), last_key(number));
        let found = statement.query_row(range, |row| {
            let segment = Self {
                id: row.get(0)?,
                first: unsigned(row.get(1)?),
                previous: row.get(2)?,
                append_id: unsigned(row.get(3)?),
                chain: row.get(4)?,
                length: usize::try_from(row.get::<_, i64>(5)?).unwrap_or(0),
                bytes: row.get(6)?,
            };
            Ok(segment.sum().check(row, 7).map(|()| segment))
        });
        match found.optional() {
            Ok(None) => Ok(None),
            Ok(Some(Ok(segment))) => Ok(Some(segment)),
            Ok(Some(Err(error))) | Err(error) => {
                let fault = Fault::from(error);
                Err(fault.at(run, first_after(connection, number, sequence)?))
            }
        }
    }

    /// Unpacks and verifies the records.
    pub(crate) fn unpack(self, run: RunId) -> Result<Unpacked, Error> {
        let damaged = |reason: &str| damaged_log(run, self.first, reason);
        if self.length > LONGEST {
            return Err(damaged("the packed records cannot be that long"));
        }
        let raw = zstd::bulk::decompress(&self.bytes, self.length)
            .map_err(|error| damaged(&format!("the packed records cannot be read: {error}")))?;
        if raw.first() != Some(&FORMAT) {
            return Err(damaged("the packed records are in an unknown format"));
        }
        let records = parse(&raw[1..], self.first, self.previous);
        let records = records.ok_or_else(|| damaged("the packed records end too early"))?;
        let head = Head {
            sequence: self.last(),
            chain: self.chain,
            append_id: self.append_id,
        };
        if records.back().map(Record::head) != Some(head) {
            return Err(damaged("the packed records do not fit their checksum"));
        }
        Ok(Unpacked {
            previous: self.previous,
            records,
        })
    }
}

/// Takes the columns apart, and chains the records again.
fn parse(raw: &[u8], first: u64, mut previous: [u8; 16]) -> Option<VecDeque<Record>> {
    let (count, rest) = raw.split_at_checked(4)?;
    let count = u32::from_le_bytes(count.try_into().ok()?) as usize;
    let (writers, rest) = rest.split_at_checked(count.checked_mul(8)?)?;
    let (append_ids, rest) = rest.split_at_checked(count * 8)?;
    let (lengths, mut rest) = rest.split_at_checked(count * 8)?;
    let number = |column: &[u8], at: usize| {
        let part = column.get(at * 8..at * 8 + 8)?;
        Some(u64::from_le_bytes(part.try_into().ok()?))
    };
    let mut records = VecDeque::with_capacity(count);
    for at in 0..count {
        let length = usize::try_from(number(lengths, at)?).ok()?;
        let (bytes, after) = rest.split_at_checked(length)?;
        rest = after;
        let writer = WriterId(number(writers, at)?);
        let append_id = number(append_ids, at)?;
        let sequence = first.checked_add(at as u64)?;
        previous = checksum::chain(&previous, sequence, writer, append_id, bytes);
        records.push_back(Record {
            sequence,
            writer,
            append_id,
            chain: previous,
            bytes: bytes.to_vec(),
        });
    }
    rest.is_empty().then_some(records)
}

/// The greatest key that a record of this run can have.
fn last_key(number: i64) -> Option<i64> {
    record_key(number, u32::MAX.into())
}

/// Where the packed part of a log ends, before a sequence number.
pub(crate) fn end_before(
    connection: &Connection,
    number: i64,
    sequence: u64,
) -> Result<Option<End>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT id, chain FROM segment WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1",
    )?;
    let before = sequence.saturating_sub(1).min(u32::MAX.into());
    let range = (record_key(number, 0), record_key(number, before));
    let end = statement.query_row(range, |row| {
        Ok(End {
            sequence: sequence_of(row.get(0)?),
            chain: row.get(1)?,
        })
    });
    Ok(end.optional()?)
}

/// The head after a segment's last record, if one ends there.
pub(crate) fn head_at_end(
    connection: &Connection,
    number: i64,
    sequence: u64,
) -> Result<Option<Head>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT ?2, append_id, chain FROM segment WHERE id = ?1")?;
    let key = record_key(number, sequence);
    let head = statement.query_row((key, signed(sequence)), |row| codec::head(row, 0));
    Ok(head.optional()?)
}

/// Where the segment begins that a record is in, without trusting it.
fn first_after(connection: &Connection, number: i64, sequence: u64) -> Result<u64, Fault> {
    let end = end_before(connection, number, sequence)?;
    Ok(end.map_or(1, |end| end.sequence + 1))
}

/// How many records are packed in all.
pub(crate) fn count(connection: &Connection) -> rusqlite::Result<i64> {
    let sql = "SELECT coalesce(sum((id & 4294967295) - first + 1), 0) FROM segment";
    connection.query_row(sql, [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(count: u64) -> Vec<Record> {
        let mut previous = Head::NONE.chain;
        let mut records = Vec::new();
        for sequence in 1..=count {
            let bytes = vec![b'a' + (sequence % 7) as u8; sequence as usize % 50];
            let (writer, append_id) = (WriterId(3), 1000 + sequence);
            previous = checksum::chain(&previous, sequence, writer, append_id, &bytes);
            records.push(Record {
                sequence,
                writer,
                append_id,
                chain: previous,
                bytes,
            });
        }
        records
    }

    #[test]
    fn what_went_in_comes_out_smaller() {
        let records = records(200);
        let segment = Segment::pack(5, Head::NONE.chain, &records).unwrap();
        assert_eq!((segment.first, segment.last()), (1, 200));
        assert!(segment.bytes.len() < segment.length / 3);
        let run = windlass_store::conformance::run_id(1);
        let unpacked = segment.unpack(run).unwrap();
        assert_eq!(unpacked.records, records);
        assert!(Segment::pack(5, Head::NONE.chain, &[]).is_none());
    }

    #[test]
    fn what_does_not_fit_is_damage() {
        let run = windlass_store::conformance::run_id(1);
        let good = || Segment::pack(5, Head::NONE.chain, &records(9)).unwrap();
        let changes: [fn(&mut Segment); 6] = [
            |segment| segment.previous[0] ^= 1,
            |segment| segment.chain[0] ^= 1,
            |segment| segment.append_id += 1,
            |segment| segment.id += 1,
            |segment| segment.length -= 1,
            |segment| segment.bytes.truncate(20),
        ];
        for change in changes {
            let mut segment = good();
            change(&mut segment);
            let Err(Error::Damaged(damage)) = segment.unpack(run) else {
                panic!("a changed segment must be found");
            };
            assert_eq!((damage.run, damage.sequence), (Some(run), Some(1)));
        }
        let raw = zstd::bulk::decompress(&good().bytes, 1 << 20).unwrap();
        for cut in 1..raw.len() {
            assert!(parse(&raw[1..cut], 1, [0; 16]).is_none());
        }
    }
}
