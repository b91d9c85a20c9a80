//! Reads the streams from where the database stands to their ends and applies what is missing: how
//! a process repairs rows before it trusts them. A watermark per stream says up to where nothing is
//! missing; it is kept in the database, and may be behind, never ahead.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::DeliverPolicy;
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use windlass_store::{Error, Head, KeyValue as _};
use windlass_store_postgres::PostgresStore;

use crate::OpenError;
use crate::codec::LogMessage;
use crate::error::unavailable;
use crate::layout::LogStream;
use crate::projector::{Change, ChangeKind};
use crate::store::Inner;
use crate::table::{Row, left, reading};

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
    /// Reads what the database knows. A stream that was lost or cut is refused.
    pub(crate) async fn read(
        postgres: &PostgresStore,
        logs: &[LogStream],
        rebuilding: bool,
    ) -> Result<Self, OpenError> {
        let kept = stored(postgres).await.map_err(OpenError::Away)?;
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
    let lost = |what: String| {
        Err(OpenError::refused(format!(
            "{what}; the database has the records up to its watermark: stop all servers and run \
             `windlass rebuild --from postgres`"
        )))
    };
    if known.created != log.created && known.sequence > 0 {
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
    let info = log.stream.get_info().await;
    let info = info.map_err(|error| {
        unavailable(&format!("the stream {} does not answer", log.name), &error)
    })?;
    Ok(info.state.last_sequence)
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
        if self.watermarks.looks_now() {
            // The next look tries again.
            let _ = self.catch_up().await;
        }
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
        let made = log.stream.create_consumer(reading(policy)).await;
        let consumer = made.map_err(|error| unavailable("a consumer cannot be made", &error))?;
        let mut tries = 0;
        loop {
            let batch = consumer.fetch().max_messages(BATCH).messages().await;
            let mut batch =
                batch.map_err(|error| unavailable("messages cannot be read", &error))?;
            let mut rows = Vec::new();
            while let Some(message) = batch.next().await {
                let message =
                    message.map_err(|error| unavailable("messages cannot be read", &error))?;
                rows.extend(Row::from_consumed(message));
            }
            let Some(end) = rows.last().map(|row| row.sequence) else {
                // An empty answer is the end only if the server says that nothing is left.
                if left(&consumer).await? == 0 {
                    break;
                }
                tries += 1;
                if tries >= MOST_TRIES {
                    let reason = format!("the stream {} is not delivered to its end", log.name);
                    return Err(Error::Unavailable(reason));
                }
                continue;
            };
            tries = 0;
            self.apply_read(rows).await?;
            self.watermarks.note_through(stream, end);
            if end >= last {
                break;
            }
        }
        let name = consumer.cached_info().name.clone();
        // One that stays is removed by the server soon.
        let _ = log.stream.delete_consumer(&name).await;
        self.watermarks.note_through(stream, last);
        Ok(())
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
