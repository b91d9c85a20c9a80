//! How far the database is behind the logs, over all processes: from where the stored watermarks
//! stand to the ends of the streams. It is worked out when it is asked for.

use serde::{Deserialize, Serialize};
use windlass_store::{Error, Pending};

use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::RawMessageErrorKind;

use crate::error::unavailable;
use crate::layout::LogStream;
use crate::store::{Inner, NatsStore};
use crate::table::Row;
use crate::watermark;

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

impl NatsStore {
    /// How many messages the streams of logs have beyond what is known to be in the database. The
    /// watermarks are written once a second, so records of the last second may be counted that
    /// are there.
    pub fn behind(&self) -> Pending<'_, Result<u64, Error>> {
        self.task(move |inner| async move { inner.behind().await })
    }

    /// The same when the store was opened, before it applied what was missing.
    pub fn found_behind(&self) -> u64 {
        self.inner.found_behind
    }
}

/// A stream, and how far the database is behind it.
struct Behind<'a> {
    log: &'a LogStream,
    applied: u64,
    last: u64,
}

impl Inner {
    /// The last sequence of each stream of logs, in their order; `None` for one that is not there.
    /// It is one request for all of them, because an idle process asks too.
    pub(crate) async fn listed_ends(&self) -> Result<Vec<Option<u64>>, Error> {
        let asked = StreamsAsked {
            subject: self.names.logs(),
            offset: 0,
        };
        let listed: Result<Response<StreamsListed>, _> =
            self.js.request("STREAM.LIST", &asked).await;
        let listed = match listed {
            Ok(Response::Ok(listed)) => listed.streams.unwrap_or_default(),
            Ok(Response::Err { error }) => {
                return Err(unavailable("the streams cannot be listed", &error));
            }
            Err(error) => return Err(unavailable("the streams cannot be listed", &error)),
        };
        let last = |log: &LogStream| {
            let found = listed.iter().find(|it| it.config.name == log.name);
            found.map(|it| it.state.last_seq)
        };
        Ok(self.logs.iter().map(last).collect())
    }

    /// What another process has applied is known by its watermark, what this one has by its own.
    async fn behind_by_stream(&self) -> Result<Vec<Behind<'_>>, Error> {
        let ends = self.listed_ends().await?;
        // While the database is away, this process still knows what it applied.
        let stored = watermark::stored(&self.postgres).await.unwrap_or_default();
        let reached = self.watermarks.all_reached();
        let each = self.logs.iter().zip(ends).zip(reached);
        let each = each.filter_map(|((log, last), reached)| {
            let last = last?;
            let stored = stored.iter().find(|it| it.stream == log.name);
            let applied = reached.max(stored.map_or(0, |it| it.sequence)).min(last);
            Some(Behind { log, applied, last })
        });
        Ok(each.collect())
    }

    pub(crate) async fn behind(&self) -> Result<u64, Error> {
        let behind = self.behind_by_stream().await?;
        Ok(behind.iter().map(|it| it.last - it.applied).sum())
    }

    /// The age of the oldest record that is not known to be in the database.
    pub(crate) async fn behind_ms(&self) -> Result<u64, Error> {
        let mut oldest = None;
        for Behind { log, applied, last } in self.behind_by_stream().await? {
            if applied == last {
                continue;
            }
            let asked = log.stream.raw_message_builder();
            let asked = asked.next_by_subject(self.names.logs());
            match asked.sequence(applied + 1).send().await {
                Ok(message) => {
                    let at = Row::from_stored(message).stored_ms;
                    oldest = Some(oldest.map_or(at, |it: i64| it.min(at)));
                }
                // What was there was removed, so the database has it.
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {}
                Err(error) => return Err(unavailable("a message cannot be read", &error)),
            }
        }
        // The clocks may differ: something that waits is never of no age.
        let age =
            |at: i64| u64::try_from(self.wall_ms().saturating_sub(at)).map_or(1, |it| it.max(1));
        Ok(oldest.map_or(0, age))
    }
}
