//! Reads the streams from where the database stands to their ends and applies what is missing: how
//! a process repairs rows before it trusts them. How far a stream is applied is in `watermark.rs`.

use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use futures_util::future::join_all;
use windlass_store::{Error, Head};

use crate::codec::LogMessage;
pub(crate) use crate::intact::last_sequence;
use crate::projector::{Change, ChangeKind};
use crate::store::Inner;
use crate::table::{Reader, Row, next_message, reading};
pub(crate) use crate::watermark::StoredMark;
use crate::watermark::{self, Anchor};

/// How often a part of a stream is tried that the database refuses, and how soon again.
const MOST_TRIES: u32 = 5;
const AGAIN: Duration = Duration::from_millis(100);

/// Messages that are applied together.
const BATCH: usize = 500;

impl Inner {
    /// Applies everything that is in the streams now.
    pub(crate) async fn catch_up(&self) -> Result<(), Error> {
        self.barrier().await?;
        let _looking = self.watermarks.looking.lock().await;
        let streams = (0..self.logs.len()).map(|stream| self.catch_up_stream(stream));
        // One that cannot be read holds up no other.
        let answers = join_all(streams).await;
        self.keep_watermarks(true).await;
        answers.into_iter().collect()
    }

    /// The same, at most once in a while, for a process that only makes sure.
    pub(crate) async fn catch_up_now_and_then(&self) {
        if self.watermarks.looks_now() && self.barrier().await.is_ok() && self.is_behind().await {
            // The next look tries again.
            let _ = self.catch_up().await;
        }
    }

    /// Whether a stream has more than is applied, or is not as it was.
    async fn is_behind(&self) -> bool {
        let reached = self.watermarks.all_reached();
        let Ok(ends) = self.listed_ends().await else {
            return true;
        };
        // One that is shorter than what was applied is looked at too.
        !ends.into_iter().eq(reached.into_iter().map(Some))
    }

    async fn catch_up_stream(&self, stream: usize) -> Result<(), Error> {
        let last = self.look_at(stream).await?;
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
            let anchor = self.apply_read(rows).await?;
            self.watermarks.note_through(stream, end, anchor);
            if end >= last {
                break;
            }
        }
        reader.end().await;
        self.read_rest(stream, last).await?;
        self.watermarks.note_through(stream, last, None);
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
                let anchor = self.apply_read(std::mem::take(&mut rows)).await?;
                self.watermarks.note_through(stream, after, anchor);
            }
            let Some(row) = next else { return Ok(()) };
            after = row.sequence;
            rows.push(row);
        }
    }

    /// Applies what was read, without what the database has; gives the last record of it.
    async fn apply_read(&self, rows: Vec<Row>) -> Result<Option<Anchor>, Error> {
        // A message of another program is passed over.
        let messages = rows.iter().filter_map(|row| LogMessage::read(row).ok());
        let changes: Vec<Change> = messages.filter_map(Change::of).collect();
        let anchor = changes.iter().rev().find_map(Change::anchor);
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
                answer => return answer.map(|()| anchor),
            }
        }
        Ok(anchor)
    }

    /// Writes all watermarks, also of streams without messages.
    pub(crate) async fn keep_all_watermarks(&self) -> Result<(), Error> {
        watermark::keep(&self.postgres, &self.watermarks.all()).await
    }

    /// Writes the watermarks, at most once in a while. One that is not written costs reading
    /// again.
    pub(crate) async fn keep_watermarks(&self, at_once: bool) {
        // Until a rebuild is over, those that are there say what was lost.
        if self.settings.rebuilding {
            return;
        }
        if let Some(marks) = self.watermarks.due(at_once) {
            let _ = watermark::keep(&self.postgres, &marks).await;
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
