//! Reads the streams from where the database stands to their ends and applies what is missing: how
//! a process repairs rows before it trusts them. A watermark per stream says up to where nothing is
//! missing; it is kept in the database, and may be behind, never ahead.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::response::Response;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use windlass_store::{Error, Head, KeyValue as _};
use windlass_store_postgres::PostgresStore;

use crate::OpenError;
use crate::codec::LogMessage;
use crate::error::REBUILD;
use crate::layout::LogStream;
use crate::projector::{Change, ChangeKind};
use crate::store::Inner;
use crate::table::{Reader, Row, next_message, reading};

/// Where the watermarks stand in the database.
const NOTE: (&str, &str) = ("nats", "watermarks");

/// How often they are written.
const KEEP: Duration = Duration::from_secs(1);

/// How often an owner looks for what others left behind.
const LOOK: Duration = Duration::from_secs(3);

/// Places behind a gap that are remembered; beyond it the stream is read again.
const MOST_AHEAD: usize = 50_000;

/// How often a part of a stream is tried that the database refuses, and how soon again.
const MOST_TRIES: u32 = 5;
const AGAIN: Duration = Duration::from_millis(100);

/// Messages that are applied together.
const BATCH: usize = 500;

/// A watermark as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredMark {
    /// The stream's name.
    pub(crate) stream: String,
    /// When the stream was made.
    pub(crate) created: String,
    /// Everything up to here is applied.
    pub(crate) sequence: u64,
}

#[derive(Serialize)]
struct StreamsAsked {
    subject: String,
    offset: usize,
}

/// Streams as the server lists them.
#[derive(Deserialize)]
struct StreamsListed {
    streams: Option<Vec<StreamListed>>,
}

#[derive(Deserialize)]
struct StreamListed {
    config: ListedConfig,
    state: ListedState,
}

#[derive(Deserialize)]
struct ListedConfig {
    name: String,
}

#[derive(Deserialize)]
struct ListedState {
    last_seq: u64,
}

struct Mark {
    stored: StoredMark,
    reached: u64,
    /// Applied behind a gap.
    ahead: BTreeSet<u64>,
}

/// How far each stream is applied.
pub(crate) struct Watermarks {
    marks: Mutex<(Vec<Mark>, Option<Instant>)>,
    /// One look at all streams at a time.
    looking: tokio::sync::Mutex<()>,
    looked: Mutex<Option<Instant>>,
}

impl Watermarks {
    /// Goes on from what the database knows. A stream that was lost or cut is refused.
    pub(crate) async fn read(
        kept: &[StoredMark],
        logs: &[LogStream],
        rebuilding: bool,
    ) -> Result<Self, OpenError> {
        let mut marks = Vec::new();
        for log in logs {
            let known = kept.iter().find(|it| it.stream == log.name);
            if let Some(known) = known.filter(|_| !rebuilding) {
                check(log, known).await?;
            }
            let sequence = known.filter(|_| !rebuilding).map_or(0, |it| it.sequence);
            marks.push(Mark {
                stored: StoredMark {
                    stream: log.name.clone(),
                    created: log.created.clone(),
                    sequence,
                },
                reached: sequence,
                ahead: BTreeSet::new(),
            });
        }
        Ok(Self {
            marks: Mutex::new((marks, None)),
            looking: tokio::sync::Mutex::default(),
            looked: Mutex::default(),
        })
    }

    fn marks(&self) -> MutexGuard<'_, (Vec<Mark>, Option<Instant>)> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a process that only makes sure looks now.
    fn looks_now(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = looked.is_none_or(|at| at.elapsed() >= LOOK);
        if is_due {
            *looked = Some(Instant::now());
        }
        is_due
    }

    /// Up to where nothing is missing.
    pub(crate) fn reached(&self, stream: usize) -> u64 {
        self.marks().0.get(stream).map_or(0, |mark| mark.reached)
    }

    /// A message is applied.
    pub(crate) fn note(&self, stream: usize, sequence: u64) {
        let mut marks = self.marks();
        let Some(mark) = marks.0.get_mut(stream) else {
            return;
        };
        if sequence > mark.reached && mark.ahead.len() < MOST_AHEAD {
            mark.ahead.insert(sequence);
        }
        while mark.ahead.first().is_some_and(|it| *it == mark.reached + 1) {
            mark.ahead.pop_first();
            mark.reached += 1;
        }
    }

    /// Everything up to a place is applied.
    fn note_through(&self, stream: usize, sequence: u64) {
        let mut marks = self.marks();
        if let Some(mark) = marks.0.get_mut(stream) {
            mark.reached = mark.reached.max(sequence);
            mark.ahead = mark.ahead.split_off(&(mark.reached + 1));
        }
        drop(marks);
        self.note(stream, sequence);
    }

    /// What is to be written now, if anything is.
    fn due(&self, at_once: bool) -> Option<Vec<StoredMark>> {
        let mut marks = self.marks();
        let waits = marks.1.is_some_and(|at| at.elapsed() < KEEP);
        let changed = marks.0.iter().any(|it| it.reached > it.stored.sequence);
        if !changed || (waits && !at_once) {
            return None;
        }
        marks.1 = Some(Instant::now());
        for mark in &mut marks.0 {
            mark.stored.sequence = mark.reached;
        }
        Some(marks.0.iter().map(|it| it.stored.clone()).collect())
    }
}

/// The watermarks in the database.
pub(crate) async fn stored(postgres: &PostgresStore) -> Result<Vec<StoredMark>, Error> {
    let note = postgres.note_at(NOTE.0, NOTE.1).await?;
    Ok(note
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default())
}

/// Refuses a stream that is not the one, or not as long as the one, that was applied.
async fn check(log: &LogStream, known: &StoredMark) -> Result<(), OpenError> {
    let lost = |what: String| Err(OpenError::refused(format!("{what}; {REBUILD}")));
    if known.created != log.created {
        return lost(format!(
            "the stream {} was lost and made again ({}, not {})",
            log.name, log.created, known.created
        ));
    }
    let last = last_sequence(log).await.map_err(OpenError::Away)?;
    if last < known.sequence {
        return lost(format!(
            "the stream {} ends at message {last}, although {} were applied: its end was lost",
            log.name, known.sequence
        ));
    }
    Ok(())
}

pub(crate) async fn last_sequence(log: &LogStream) -> Result<u64, Error> {
    Ok(log.info().await?.state.last_sequence)
}

impl Inner {
    /// Applies everything that is in the streams now.
    pub(crate) async fn catch_up(&self) -> Result<(), Error> {
        self.barrier().await?;
        let _looking = self.watermarks.looking.lock().await;
        let streams = (0..self.logs.len()).map(|stream| self.catch_up_stream(stream));
        try_join_all(streams).await?;
        self.keep_watermarks(true).await;
        Ok(())
    }

    /// The same, at most once in a while, for a process that only makes sure.
    pub(crate) async fn catch_up_now_and_then(&self) {
        if self.watermarks.looks_now() && self.barrier().await.is_ok() && self.is_behind().await {
            // The next look tries again.
            let _ = self.catch_up().await;
        }
    }

    /// Whether a stream has more than is applied, or is not as it was: one request for all of
    /// them, because an idle process asks too.
    async fn is_behind(&self) -> bool {
        let asked = StreamsAsked {
            subject: self.names.logs(),
            offset: 0,
        };
        let listed: Result<Response<StreamsListed>, _> =
            self.js.request("STREAM.LIST", &asked).await;
        let Ok(Response::Ok(listed)) = listed else {
            return true;
        };
        let listed = listed.streams.unwrap_or_default();
        let is_applied = |(number, log): (usize, &LogStream)| {
            let found = listed.iter().find(|it| it.config.name == log.name);
            found.is_some_and(|it| it.state.last_seq <= self.watermarks.reached(number))
        };
        !self.logs.iter().enumerate().all(is_applied)
    }

    async fn catch_up_stream(&self, stream: usize) -> Result<(), Error> {
        let log = &self.logs[stream];
        let last = last_sequence(log).await?;
        let from = self.watermarks.reached(stream) + 1;
        if last < from {
            return Ok(());
        }
        let policy = DeliverPolicy::ByStartSequence {
            start_sequence: from,
        };
        self.read_through(stream, reading(policy), last).await
    }

    /// Applies what a consumer delivers of a stream whose last message is or was `last`.
    async fn read_through(
        &self,
        stream: usize,
        config: pull::Config,
        last: u64,
    ) -> Result<(), Error> {
        let log = &self.logs[stream];
        let mut reader = Reader::new(&log.stream, config).await?;
        loop {
            let rows = reader.next(BATCH).await?;
            let Some(end) = rows.last().map(|row| row.sequence) else {
                break;
            };
            self.apply_read(rows).await?;
            self.watermarks.note_through(stream, end);
            if end >= last {
                break;
            }
        }
        reader.end().await;
        self.read_rest(stream, last).await?;
        self.watermarks.note_through(stream, last);
        Ok(())
    }

    /// Applies what the stream's leader has up to `last` and a consumer did not deliver: it may be
    /// on a server that is behind, and says that nothing is left.
    async fn read_rest(&self, stream: usize, last: u64) -> Result<(), Error> {
        let mut rows = Vec::new();
        let mut after = self.watermarks.reached(stream);
        loop {
            let next = match after < last {
                true => next_message(&self.logs[stream].stream, ">", after + 1).await?,
                false => None,
            };
            let next = next.filter(|row| row.sequence <= last);
            if rows.len() == BATCH || (next.is_none() && !rows.is_empty()) {
                self.apply_read(std::mem::take(&mut rows)).await?;
                self.watermarks.note_through(stream, after);
            }
            let Some(row) = next else { return Ok(()) };
            after = row.sequence;
            rows.push(row);
        }
    }

    /// Applies what was read, without what the database has.
    async fn apply_read(&self, rows: Vec<Row>) -> Result<(), Error> {
        // A message of another program is passed over.
        let messages = rows.iter().filter_map(|row| LogMessage::read(row).ok());
        let changes: Vec<Change> = messages.filter_map(Change::of).collect();
        let heads = self
            .postgres
            .heads(changes.iter().map(|it| it.run).collect());
        let heads = heads.await?;
        let missing = changes.into_iter().filter(|change| match &change.kind {
            ChangeKind::Record(_, head, _) => {
                let known = heads.get(&change.run).unwrap_or(&Head::NONE);
                known.sequence < head.sequence || (known.sequence == head.sequence && known != head)
            }
            ChangeKind::Forgotten(_) => true,
            ChangeKind::Nothing => false,
        });
        let missing: Vec<Change> = missing.collect();
        for tries in 1.. {
            match self.apply(&missing, tries >= MOST_TRIES).await {
                Err(_) if tries < MOST_TRIES => tokio::time::sleep(AGAIN).await,
                answer => return answer,
            }
        }
        Ok(())
    }

    /// Writes all watermarks, also of streams without messages.
    pub(crate) async fn keep_all_watermarks(&self) -> Result<(), Error> {
        let marks: Vec<StoredMark> = {
            let marks = self.watermarks.marks();
            let each = marks.0.iter().map(|mark| StoredMark {
                sequence: mark.reached,
                ..mark.stored.clone()
            });
            each.collect()
        };
        let text = serde_json::to_vec(&marks).unwrap_or_default();
        self.postgres.keep_note(NOTE.0, NOTE.1, text).await
    }

    /// Writes the watermarks, at most once in a while. One that is not written costs reading
    /// again.
    pub(crate) async fn keep_watermarks(&self, at_once: bool) {
        let Some(marks) = self.watermarks.due(at_once) else {
            return;
        };
        if let Ok(text) = serde_json::to_vec(&marks) {
            let _ = self.postgres.keep_note(NOTE.0, NOTE.1, text).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::Wait as _;
    use windlass_store::conformance::{record, row, run_id};
    use windlass_store::{Append, Log as _};
    use windlass_test_support::{nats, postgres};

    use super::*;
    use crate::{NatsStore, Settings};

    /// A consumer on a server that is behind delivers nothing and says that this is all.
    #[test]
    fn the_watermark_does_not_pass_what_a_consumer_does_not_deliver() {
        let database = postgres::server().fresh();
        let database = windlass_store_postgres::Settings::parse(&database).unwrap();
        let settings = Settings::parse(nats::server().url(), database.pool(2)).unwrap();
        let settings = settings.prefix(&nats::fresh_prefix()).unwrap();
        let store = NatsStore::open(&settings.partitions(1)).unwrap();
        for n in 1..=3 {
            let started = Append {
                row: Some(row(run_id(n))),
                ..record(run_id(n), Head::NONE, 1, b"started")
            };
            store.publish_without_rows(started).wait().unwrap();
        }
        let reading = store.task(|inner| async move {
            let behind = pull::Config {
                filter_subject: inner.log_subject(run_id(9)),
                ..reading(DeliverPolicy::All)
            };
            inner.read_through(0, behind, 3).await?;
            Ok(inner.watermarks.reached(0))
        });
        assert_eq!(reading.wait().unwrap(), 3);
        for n in 1..=3 {
            let stored = store.postgres().head(run_id(n)).wait().unwrap();
            assert_eq!(stored.sequence, 1, "run {n} has no row");
        }
    }
}
