//! Packed records: many of one run in one compressed row. Head and fence stay as they are, and
//! reading gives the same records byte for byte.

use windlass_core::RunId;
use windlass_store::{Compacted, Record, WriterId};

use crate::codec::{Columns as _, uuid};
use crate::error::{Fault, damaged_log};
use crate::read::record;
use crate::store::Inner;
use crate::writer::sequence;

/// Records in one segment, and their bytes; one record may be larger.
const MOST_RECORDS: i64 = 256;
const MOST_BYTES: usize = 1 << 20;

/// More than a segment of the greatest bounds can unpack to is damage.
const MOST_UNPACKED: usize = 1 << 30;

const LEVEL: i32 = 3;

/// Bytes before each record: append id, writer, checksum, length.
const HEADER: usize = 8 + 8 + 16 + 4;

const BOUNDS: &str = "select coalesce(max(last_seq), 0), \
     coalesce((select seq from head where run = $1), 0) from segment where run = $1";
const RECORDS: &str = "select seq, writer, append_id, chain, body from record \
     where run = $1 and seq > $2 and seq <= $3 order by seq limit $4";
const REMOVE: &str = "delete from record where run = $1 and seq between $2 and $3";
const INSERT: &str = "insert into segment (run, first_seq, last_seq, body) values ($1, $2, $3, $4)";

/// Packs records up to `through`, a segment a transaction.
pub(crate) async fn compact(inner: &Inner, run: RunId, through: u64) -> Result<Compacted, Fault> {
    let mut done = Compacted::default();
    loop {
        let mut session = inner.session().await?;
        let bounds = session.rows(BOUNDS, &[&uuid(run)]).await?;
        let Some(bounds) = bounds.first() else {
            return Ok(done);
        };
        let (packed, head) = (bounds.number(0)?, bounds.number(1)?);
        done.through = packed;
        let through = sequence(through.min(head));
        if sequence(packed) >= through {
            return Ok(done);
        }
        let after = sequence(packed);
        let rows = session
            .rows(RECORDS, &[&uuid(run), &after, &through, &MOST_RECORDS])
            .await?;
        let records: Vec<Record> = rows.iter().map(record).collect::<Result<_, _>>()?;
        let records = first_of(records);
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            let gap = "a record of the log is missing";
            return Err(damaged_log(run, packed + 1, gap).into());
        };
        let (first, last) = (sequence(first.sequence), sequence(last.sequence));
        let body = pack(&records)?;
        let work = session.transaction().await?;
        let removed = work.execute(REMOVE, &[&uuid(run), &first, &last]).await?;
        if removed != records.len() as u64 {
            // Another process packs or forgets the same run: look again.
            drop(work);
            continue;
        }
        work.execute(INSERT, &[&uuid(run), &first, &last, &body])
            .await?;
        work.commit().await?;
        done.records += records.len() as u64;
        done.bytes += records.iter().map(|it| it.bytes.len() as u64).sum::<u64>();
        done.packed_bytes += body.len() as u64;
    }
}

/// As many of the records as a segment holds.
fn first_of(mut records: Vec<Record>) -> Vec<Record> {
    let mut bytes = 0;
    let fitting = records.iter().take_while(|record| {
        let first = bytes == 0;
        bytes += record.bytes.len() + HEADER;
        first || bytes <= MOST_BYTES
    });
    let count = fitting.count();
    records.truncate(count);
    records
}

fn pack(records: &[Record]) -> Result<Vec<u8>, Fault> {
    let size = records.iter().map(|record| HEADER + record.bytes.len());
    let mut plain = Vec::with_capacity(size.sum());
    for record in records {
        plain.extend_from_slice(&record.append_id.to_le_bytes());
        plain.extend_from_slice(&record.writer.0.to_le_bytes());
        plain.extend_from_slice(&record.chain);
        let length = u32::try_from(record.bytes.len());
        let length = length.map_err(|_| unpackable("a record is too large to pack"))?;
        plain.extend_from_slice(&length.to_le_bytes());
        plain.extend_from_slice(&record.bytes);
    }
    zstd::bulk::compress(&plain, LEVEL).map_err(|error| unpackable(&error.to_string()))
}

fn unpackable(why: &str) -> Fault {
    Fault::Store(windlass_store::Error::Unavailable(format!(
        "packing: {why}"
    )))
}

/// The records of a segment whose first one is `first`.
pub(crate) fn unpack(run: RunId, first: u64, body: &[u8]) -> Result<Vec<Record>, Fault> {
    let broken = |sequence| Fault::from(damaged_log(run, sequence, "a segment cannot be unpacked"));
    let plain = zstd::bulk::decompress(body, upper_bound(body)).map_err(|_| broken(first))?;
    let mut rest = &plain[..];
    let mut records = Vec::new();
    while !rest.is_empty() {
        let sequence = first + records.len() as u64;
        let (header, after) = rest
            .split_at_checked(HEADER)
            .ok_or_else(|| broken(sequence))?;
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let mut chain = [0; 16];
        chain.copy_from_slice(&header[16..32]);
        let mut length = [0; 4];
        length.copy_from_slice(&header[32..36]);
        let length = u32::from_le_bytes(length) as usize;
        let (bytes, after) = after
            .split_at_checked(length)
            .ok_or_else(|| broken(sequence))?;
        records.push(Record {
            sequence,
            append_id: number(0),
            writer: WriterId(number(8)),
            chain,
            bytes: bytes.to_vec(),
        });
        rest = after;
    }
    match records.is_empty() {
        true => Err(broken(first)),
        false => Ok(records),
    }
}

/// The size that the segment says it has, within reason.
fn upper_bound(body: &[u8]) -> usize {
    let said = zstd::zstd_safe::get_frame_content_size(body);
    let said = said
        .ok()
        .flatten()
        .and_then(|size| usize::try_from(size).ok());
    said.unwrap_or(MOST_BYTES).min(MOST_UNPACKED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Millis;

    #[test]
    fn what_is_packed_comes_back_and_damage_is_named() {
        let run = RunId::new(Millis(1), [7; 10]);
        let record = |n: u64| Record {
            sequence: n,
            writer: WriterId(u64::MAX - n),
            append_id: n << 60,
            chain: [n as u8; 16],
            bytes: vec![n as u8; (n as usize % 5) * 1000],
        };
        let records: Vec<Record> = (7..30).map(record).collect();
        let body = pack(&records).unwrap();
        assert_eq!(unpack(run, 7, &body).unwrap(), records);
        for cut in 0..body.len() {
            assert!(unpack(run, 7, &body[..cut]).is_err(), "cut at {cut}");
        }
    }
}
