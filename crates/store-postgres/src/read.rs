//! Reading a log: packed records first, then the others, every checksum verified. A log that is
//! packed meanwhile is read again.

use tokio_postgres::Row;
use windlass_core::RunId;
use windlass_store::{Head, Record, WriterId, checksum};

use crate::codec::{Columns as _, limit, uuid};
use crate::error::{Fault, damaged_log};
use crate::segment;
use crate::store::Session;
use crate::writer::sequence;

/// Records in one answer of the database.
const STEP: i64 = 1000;

/// How often a log that changes its form while it is read is read again.
const MOST_TRIES: usize = 5;

/// Records after `$2` until `$3` bytes were read; the sum before each leaves at least one.
const RECORDS: &str = "select seq, writer, append_id, chain, body from (\
     select *, sum(octet_length(body)) over (order by seq) - octet_length(body) as before \
     from (select * from record where run = $1 and seq >= $2 order by seq limit $4) r) s \
     where before <= $3 order by seq";

/// The segments that hold records from `$2` on.
const SEGMENTS: &str = "select first_seq, body from segment \
     where run = $1 and last_seq >= $2 order by last_seq limit 1";

/// Records from `from` on, until about `max_bytes` were read.
pub(crate) async fn page(
    session: &Session,
    run: RunId,
    from: u64,
    max_bytes: usize,
) -> Result<Vec<Record>, Fault> {
    let from = from.max(1);
    // The record before is read too: the chain goes on from it.
    let begin = from.saturating_sub(1).max(1);
    let mut tries = 0;
    loop {
        tries += 1;
        let mut page = Page {
            run,
            from,
            next: begin,
            previous: None,
            bytes: 0,
            max_bytes,
            records: Vec::new(),
        };
        match page.read(session).await? {
            true => return Ok(page.records),
            // Records were packed between two looks.
            false if tries < MOST_TRIES => {}
            false => {
                let gap = "a record of the log is missing";
                return Err(damaged_log(run, page.next, gap).into());
            }
        }
    }
}

struct Page {
    run: RunId,
    from: u64,
    /// The record that must come next.
    next: u64,
    previous: Option<[u8; 16]>,
    bytes: usize,
    max_bytes: usize,
    records: Vec<Record>,
}

impl Page {
    /// Whether it could be read without a gap.
    async fn read(&mut self, session: &Session) -> Result<bool, Fault> {
        while !self.is_full() {
            let parameters = (uuid(self.run), sequence(self.next));
            let row = session
                .first(SEGMENTS, &[&parameters.0, &parameters.1])
                .await?;
            let Some(row) = row else { break };
            let (first, body): (u64, &[u8]) = (row.number(0)?, row.try_get(1)?);
            for record in segment::unpack(self.run, first, body)? {
                if record.sequence < self.next {
                    continue;
                }
                if self.is_full() {
                    return Ok(true);
                }
                if !self.take(record)? {
                    return Ok(false);
                }
            }
        }
        while !self.is_full() {
            let room = self.max_bytes.saturating_sub(self.bytes);
            let rows = self.rows(session, room).await?;
            let last = rows.is_empty();
            for row in rows {
                if self.is_full() {
                    return Ok(true);
                }
                if !self.take(record(&row)?)? {
                    return Ok(false);
                }
            }
            if last {
                break;
            }
        }
        Ok(true)
    }

    async fn rows(&self, session: &Session, room: usize) -> Result<Vec<Row>, Fault> {
        let (run, next) = (uuid(self.run), sequence(self.next));
        session
            .rows(RECORDS, &[&run, &next, &limit(room), &STEP])
            .await
    }

    fn is_full(&self) -> bool {
        !self.records.is_empty() && self.bytes >= self.max_bytes
    }

    /// Takes the next record after checking it; `false` if it is not the next one.
    fn take(&mut self, record: Record) -> Result<bool, Fault> {
        if record.sequence != self.next {
            // Beyond the end of the log there is nothing to miss.
            return Ok(false);
        }
        let previous = match self.previous {
            Some(chain) => Some(chain),
            None if record.sequence == 1 => Some(Head::NONE.chain),
            None => None,
        };
        if previous.is_some_and(|chain| !checksum::fits(&record, &chain)) {
            let reason = "the checksum does not fit the record and those before it";
            return Err(damaged_log(self.run, record.sequence, reason).into());
        }
        self.previous = Some(record.chain);
        self.next = record.sequence + 1;
        if record.sequence >= self.from {
            self.bytes += record.bytes.len();
            self.records.push(record);
        }
        Ok(true)
    }
}

/// A record from the columns `seq, writer, append_id, chain, body`.
pub(crate) fn record(row: &Row) -> Result<Record, Fault> {
    Ok(Record {
        sequence: row.number(0)?,
        writer: WriterId(row.number(1)?),
        append_id: row.number(2)?,
        chain: row.chain(3)?,
        bytes: row.try_get(4)?,
    })
}
