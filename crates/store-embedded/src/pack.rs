//! The thread that packs records into segments: it reads and compresses beside the writer,
//! which only puts each segment in the place of its records, one commit a segment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use windlass_core::RunId;
use windlass_store::{Compacted, Error, Head, Record, block_on, crash};

use crate::codec::record_key;
use crate::error::{Fault, damaged_log};
use crate::queue::{self, Queue, Reply, Submitted};
use crate::read::{self, Walk};
use crate::reader::Readers;
use crate::segment::{self, MOST_BYTES, MOST_RECORDS, Segment};
use crate::writer::{Session, Task, WriteJob, stopped};

/// A log to pack.
pub(crate) struct Request {
    run: RunId,
    through: u64,
    reply: Reply<Result<Compacted, Error>>,
}

/// The thread as the store sees it.
pub(crate) struct Packer {
    queue: Arc<Queue<Request>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Packer {
    /// Starts the thread. If it cannot be started, its queue is closed, which every caller
    /// notices.
    pub(crate) fn start(readers: Arc<Readers>, writer: Arc<Queue<Box<dyn WriteJob>>>) -> Self {
        let queue: Arc<Queue<Request>> = Arc::new(Queue::new());
        let stop = Arc::new(AtomicBool::new(false));
        let work = Work {
            readers,
            writer,
            stop: Arc::clone(&stop),
        };
        let requests = Arc::clone(&queue);
        let thread = thread::Builder::new()
            .name("windlass-packer".into())
            .spawn(move || {
                while let Some(waiting) = requests.take() {
                    for request in waiting {
                        let packed = work.pack(request.run, request.through);
                        request.reply.send(packed);
                    }
                }
            });
        if thread.is_err() {
            queue.close();
        }
        Self {
            queue,
            stop,
            thread: thread.ok(),
        }
    }

    /// Packs a log after those that wait.
    pub(crate) fn submit(
        &self,
        run: RunId,
        through: u64,
    ) -> Submitted<Request, Result<Compacted, Error>> {
        let request = |reply| Request {
            run,
            through,
            reply,
        };
        queue::submit(&self.queue, request, Some)
    }
}

impl Drop for Packer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

struct Work {
    readers: Arc<Readers>,
    writer: Arc<Queue<Box<dyn WriteJob>>>,
    stop: Arc<AtomicBool>,
}

impl Work {
    fn pack(&self, run: RunId, through: u64) -> Result<Compacted, Error> {
        let mut answer = Compacted::default();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            let gathered = self
                .readers
                .read(|connection| gather(connection, run, through))
                .map_err(|fault| fault.about(run))?;
            answer.through = gathered.packed;
            let Some(segment) = gathered.segment else {
                return Ok(answer);
            };
            answer.records += segment.last() - gathered.packed;
            answer.bytes += gathered.bytes;
            answer.packed_bytes += segment.size();
            crash::point("before-compaction");
            match self.commit(run, segment) {
                Err(Error::NotFound(_)) => return Ok(Compacted::default()),
                done => done?,
            }
        }
    }

    fn commit(&self, run: RunId, segment: Segment) -> Result<(), Error> {
        let task = |reply| -> Box<dyn WriteJob> {
            Box::new(Task {
                work: move |session: &mut Session<'_>| segment.store(session.connection, run),
                output: None,
                reply,
            })
        };
        match block_on(queue::submit(&self.writer, task, Some)) {
            Some(answer) => answer,
            None => Err(stopped()),
        }
    }
}

/// The next segment of a log, if there is something to pack.
struct Gathered {
    /// The last record that is packed already.
    packed: u64,
    bytes: u64,
    segment: Option<Segment>,
}

/// Reads and verifies the first records that are not packed, and packs them: damage is found
/// before packing could hide it.
fn gather(connection: &Connection, run: RunId, through: u64) -> Result<Gathered, Fault> {
    let mut gathered = Gathered {
        packed: 0,
        bytes: 0,
        segment: None,
    };
    let transaction = connection.unchecked_transaction()?;
    let Some((number, head)) = read::locate(&transaction, run)? else {
        return Ok(gathered);
    };
    let end = segment::end_before(&transaction, number, u64::MAX)?;
    gathered.packed = end.map_or(0, |end| end.sequence);
    let previous = end.map_or(Head::NONE.chain, |end| end.chain);
    let through = through.min(head.sequence);
    if gathered.packed >= through {
        return Ok(gathered);
    }
    let walk = Walk {
        run,
        head,
        previous: Some(previous),
        next: gathered.packed + 1,
    };
    let records = collect(&transaction, number, walk, through)?;
    let bytes = records.iter().map(|record| record.bytes.len() as u64);
    gathered.bytes = bytes.sum();
    gathered.segment = Segment::pack(number, previous, &records);
    if gathered.segment.is_none() {
        let reason = "the record is missing, and the run's head names a later one";
        return Err(damaged_log(run, gathered.packed + 1, reason).into());
    }
    Ok(gathered)
}

/// As many of the next records as a segment holds.
fn collect(
    connection: &Connection,
    number: i64,
    mut walk: Walk,
    through: u64,
) -> Result<Vec<Record>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT id, writer, append_id, chain, bytes FROM record \
         WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
    )?;
    let range = (
        record_key(number, walk.next),
        record_key(number, through),
        MOST_RECORDS as i64,
    );
    let mut rows = statement.query(range)?;
    let mut records: Vec<Record> = Vec::new();
    let mut bytes = 0usize;
    while let Some(row) = rows.next()? {
        let record = walk.decode(row)?;
        bytes = bytes.saturating_add(record.bytes.len());
        if bytes > MOST_BYTES && !records.is_empty() {
            break;
        }
        walk.step(&record)?;
        records.push(record);
    }
    Ok(records)
}
