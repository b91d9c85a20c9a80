//! How far each stream of logs is applied. A watermark says up to where nothing is missing in the
//! database; it is kept there, and may be behind, never ahead.
//!
//! A place in a stream is worth something only while the stream is the one that was applied. So a
//! watermark has an anchor: the last record before it, by its place and its head (`intact.rs`).
//! Reading begins again behind the anchor after every doubt and every start.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass_core::RunId;
use windlass_store::{Error, Head, KeyValue as _};
use windlass_store_postgres::PostgresStore;

use crate::codec::StoredHead;
use crate::layout::LogStream;

/// Where the watermarks stand in the database.
const NOTE: (&str, &str) = ("nats", "watermarks");

/// How often they are written.
pub(crate) const KEEP: Duration = Duration::from_secs(1);

/// How often an owner looks for what others left behind.
const LOOK: Duration = Duration::from_secs(3);

/// Places behind a gap that are remembered; beyond it the stream is read again.
const MOST_AHEAD: usize = 50_000;

/// A watermark as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredMark {
    /// The stream's name.
    pub(crate) stream: String,
    /// When the stream was made.
    pub(crate) created: String,
    /// Everything up to here is applied.
    pub(crate) sequence: u64,
    /// The last record up to there, if one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) anchor: Option<Anchor>,
}

/// A record in a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Anchor {
    /// Its place.
    pub(crate) sequence: u64,
    pub(crate) run: RunId,
    /// The head that it makes: its checksum is over all records of the run.
    pub(crate) head: StoredHead,
}

impl Anchor {
    pub(crate) fn of(sequence: u64, run: RunId, head: &Head) -> Self {
        Self {
            sequence,
            run,
            head: StoredHead::of(head),
        }
    }
}

struct Mark {
    stored: StoredMark,
    reached: u64,
    anchor: Option<Anchor>,
    /// Applied behind a gap, and which of it are records.
    ahead: BTreeMap<u64, Option<Anchor>>,
    /// Why the stream seems to be another one than was applied.
    doubt: Option<String>,
}

impl Mark {
    fn raise(&mut self, anchor: Option<Anchor>) {
        let known = self.anchor.as_ref().map_or(0, |it| it.sequence);
        if let Some(anchor) = anchor.filter(|it| it.sequence > known) {
            self.anchor = Some(anchor);
        }
    }

    /// Takes in what stands right behind what is reached.
    fn go_on(&mut self) {
        while let Some(entry) = self.ahead.first_entry()
            && *entry.key() == self.reached + 1
        {
            let anchor = entry.remove();
            self.reached += 1;
            self.raise(anchor);
        }
    }

    /// Where the stream is read from, if it has to be read again.
    fn safe(&self) -> u64 {
        self.anchor.as_ref().map_or(0, |it| it.sequence)
    }

    fn now(&self) -> StoredMark {
        StoredMark {
            sequence: self.reached,
            anchor: self.anchor.clone(),
            ..self.stored.clone()
        }
    }
}

/// How far each stream is applied.
pub(crate) struct Watermarks {
    marks: Mutex<(Vec<Mark>, Option<Instant>)>,
    /// One look at all streams at a time.
    pub(crate) looking: tokio::sync::Mutex<()>,
    looked: Mutex<Option<Instant>>,
}

impl Watermarks {
    /// Goes on from what the database knows.
    pub(crate) fn new(kept: &[StoredMark], logs: &[LogStream]) -> Self {
        let marks = logs.iter().map(|log| {
            let known = kept.iter().find(|it| it.stream == log.name);
            let known = known.cloned().unwrap_or_default();
            let anchor = known.anchor.clone();
            Mark {
                // What is no record may stand between the two, and costs no reading.
                reached: anchor.as_ref().map_or(known.sequence, |it| it.sequence),
                anchor,
                stored: StoredMark {
                    stream: log.name.clone(),
                    created: log.created.clone(),
                    ..known
                },
                ahead: BTreeMap::new(),
                doubt: None,
            }
        });
        Self {
            marks: Mutex::new((marks.collect(), None)),
            looking: tokio::sync::Mutex::default(),
            looked: Mutex::default(),
        }
    }

    fn marks(&self) -> MutexGuard<'_, (Vec<Mark>, Option<Instant>)> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a process that only makes sure looks now.
    pub(crate) fn looks_now(&self) -> bool {
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

    /// The same for all streams.
    pub(crate) fn all_reached(&self) -> Vec<u64> {
        self.marks().0.iter().map(|mark| mark.reached).collect()
    }

    /// A stream's watermark as this process knows it.
    pub(crate) fn mark(&self, stream: usize) -> StoredMark {
        let marks = self.marks();
        marks.0.get(stream).map(Mark::now).unwrap_or_default()
    }

    /// A message is applied; `anchor` if it is a record.
    pub(crate) fn note(&self, stream: usize, sequence: u64, anchor: Option<Anchor>) {
        let mut marks = self.marks();
        let Some(mark) = marks.0.get_mut(stream) else {
            return;
        };
        if sequence > mark.reached && mark.ahead.len() < MOST_AHEAD {
            mark.ahead.insert(sequence, anchor);
        }
        mark.go_on();
    }

    /// Everything up to a place is applied; `anchor` is the last record of what was read.
    pub(crate) fn note_through(&self, stream: usize, sequence: u64, anchor: Option<Anchor>) {
        let mut marks = self.marks();
        if let Some(mark) = marks.0.get_mut(stream) {
            mark.reached = mark.reached.max(sequence);
            let ahead = mark.ahead.split_off(&(mark.reached + 1));
            let passed = std::mem::replace(&mut mark.ahead, ahead);
            mark.raise(passed.into_values().flatten().next_back());
            mark.raise(anchor);
            mark.go_on();
        }
    }

    /// The stream seems to be another one than was applied.
    pub(crate) fn doubt(&self, stream: usize, why: String) {
        if let Some(mark) = self.marks().0.get_mut(stream) {
            mark.doubt = Some(why);
        }
    }

    /// The stream is the one that was applied. If that was doubted, what came meanwhile may have
    /// places that were counted as applied.
    pub(crate) fn trust(&self, stream: usize) {
        if let Some(mark) = self.marks().0.get_mut(stream)
            && mark.doubt.take().is_some()
        {
            mark.reached = mark.safe();
            mark.ahead.clear();
        }
    }

    /// Fails if the stream seems to be another one than was applied.
    pub(crate) fn trusted(&self, stream: usize) -> Result<(), Error> {
        let marks = self.marks();
        match marks.0.get(stream).and_then(|mark| mark.doubt.clone()) {
            Some(why) => Err(Error::Unavailable(why)),
            None => Ok(()),
        }
    }

    /// What is to be written now, if anything is.
    pub(crate) fn due(&self, at_once: bool) -> Option<Vec<StoredMark>> {
        let mut marks = self.marks();
        let waits = marks.1.is_some_and(|at| at.elapsed() < KEEP);
        let changed = marks.0.iter().any(|it| it.reached > it.stored.sequence);
        if !changed || (waits && !at_once) {
            return None;
        }
        marks.1 = Some(Instant::now());
        for mark in &mut marks.0 {
            mark.stored = mark.now();
        }
        Some(marks.0.iter().map(|it| it.stored.clone()).collect())
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<StoredMark> {
        self.marks().0.iter().map(Mark::now).collect()
    }
}

/// The watermarks in the database.
pub(crate) async fn stored(postgres: &PostgresStore) -> Result<Vec<StoredMark>, Error> {
    let note = postgres.note_at(NOTE.0, NOTE.1).await?;
    Ok(note
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default())
}

/// Writes the watermarks to the database.
pub(crate) async fn keep(postgres: &PostgresStore, marks: &[StoredMark]) -> Result<(), Error> {
    let text = serde_json::to_vec(marks).unwrap_or_default();
    postgres.keep_note(NOTE.0, NOTE.1, text).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Millis;

    fn marks() -> Watermarks {
        let mark = Mark {
            stored: StoredMark::default(),
            reached: 0,
            anchor: None,
            ahead: BTreeMap::new(),
            doubt: None,
        };
        Watermarks {
            marks: Mutex::new((vec![mark], None)),
            looking: tokio::sync::Mutex::default(),
            looked: Mutex::default(),
        }
    }

    fn record(sequence: u64) -> Option<Anchor> {
        let head = Head {
            sequence,
            chain: [1; 16],
            append_id: 1,
        };
        Some(Anchor::of(sequence, RunId::new(Millis(1), [1; 10]), &head))
    }

    #[test]
    fn the_anchor_is_the_last_record_without_a_gap_before_it() {
        let marks = marks();
        marks.note(0, 1, record(1));
        marks.note(0, 3, record(3));
        assert_eq!(marks.mark(0).anchor, record(1), "the second is missing");
        marks.note(0, 2, None);
        marks.note(0, 4, None);
        assert_eq!((marks.reached(0), marks.mark(0).anchor), (4, record(3)));
        marks.note(0, 6, record(6));
        marks.note(0, 8, record(8));
        marks.note_through(0, 7, record(5));
        assert_eq!((marks.reached(0), marks.mark(0).anchor), (8, record(8)));
    }

    #[test]
    fn after_a_doubt_everything_behind_the_anchor_counts_as_missing() {
        let marks = marks();
        marks.note(0, 1, record(1));
        marks.note_through(0, 5, None);
        marks.trust(0);
        assert_eq!(marks.reached(0), 5, "there was no doubt");
        marks.doubt(0, "it is shorter".into());
        assert!(marks.trusted(0).is_err());
        marks.trust(0);
        assert!(marks.trusted(0).is_ok());
        assert_eq!(marks.reached(0), 1);
    }

    #[test]
    fn a_watermark_of_an_earlier_version_is_read() {
        let text = r#"{"stream":"WL_LOG_0","created":"then","sequence":7}"#;
        let mark: StoredMark = serde_json::from_str(text).unwrap();
        assert_eq!((mark.sequence, mark.anchor), (7, None));
    }
}
