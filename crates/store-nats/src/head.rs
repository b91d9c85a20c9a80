//! Where a run's log ends, by the stream's leader, and bringing the database up to there.

use std::collections::{BTreeSet, HashMap};

use futures_util::future::join_all;
use windlass_core::RunId;
use windlass_store::{Error, Head, ItemRun, Log as _};

use crate::codec::{Kind, LogMessage};
use crate::error::{damaged, names_no_stream};
use crate::layout::LogStream;
use crate::projector::Change;
use crate::store::{Inner, KnownHead};
use crate::table::{last_message, next_message};

/// Where a run's log ends.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// There is no message.
    Nothing,
    /// The head, and the sequence of the last message.
    At(Head, u64),
    /// The run never begins.
    Void,
    /// The run is being forgotten.
    Forgotten(Box<LogMessage>),
}

/// Says of a stream that does not exist what to do about it.
async fn named<T>(log: &LogStream, answer: Result<T, Error>) -> Result<T, Error> {
    match answer {
        Err(error) if names_no_stream(&error) => Err(log.info().await.err().unwrap_or(error)),
        answer => answer,
    }
}

impl Inner {
    /// Where a run's log ends now.
    pub(crate) async fn end(&self, run: RunId) -> Result<End, Error> {
        self.is_fit()?;
        self.watermarks.trusted(self.stream_number(run))?;
        self.found_end(run).await
    }

    /// The same of a stream that may be another one than was applied.
    pub(crate) async fn found_end(&self, run: RunId) -> Result<End, Error> {
        let log = self.log_stream(run);
        let last = last_message(&log.stream, &self.log_subject(run)).await;
        let Some(row) = named(log, last).await? else {
            // In a stream that was lost and made again, runs that have records have none.
            log.info().await?;
            return Ok(End::Nothing);
        };
        let message = LogMessage::read(&row)?;
        Ok(match message.kind {
            Kind::Record | Kind::Fence => {
                let known = KnownHead {
                    head: message.head,
                    sequence: message.sequence,
                    has_inbox: false,
                    row_at: message.meta.row_at,
                };
                self.note_head(run, known);
                End::At(message.head, message.sequence)
            }
            Kind::Void => End::Void,
            Kind::Forgotten => End::Forgotten(Box::new(message)),
        })
    }

    /// The head; a run that is being forgotten has none once that is done.
    pub(crate) async fn head_now(&self, run: RunId) -> Result<Head, Error> {
        match self.end(run).await? {
            End::Nothing | End::Void => Ok(Head::NONE),
            End::At(head, _) => Ok(head),
            End::Forgotten(message) => {
                self.finish_forgetting(&[&message]).await?;
                Ok(Head::NONE)
            }
        }
    }

    /// Brings the database to where a run's row is that of the end of its log. Other records than
    /// those that change the row come with their own process.
    pub(crate) async fn settle_row(&self, run: RunId) -> Result<(), Error> {
        // Side by side: a head that is a little older than the end only costs the slower way.
        let (head, stored) = tokio::join!(self.head_now(run), self.postgres.head(run));
        if self.has_row(run, head?, stored?) {
            return Ok(());
        }
        self.settle(run).await.map(|_| ())
    }

    /// Whether the database, whose log of a run ends at `stored`, has its row as the record made it
    /// that changed it last, if the log ends at `head` by the stream.
    fn has_row(&self, run: RunId, head: Head, stored: Head) -> bool {
        let known = self.known_head(run).filter(|known| known.head == head);
        let row_at = known.map_or(0, |known| known.row_at);
        row_at > 0 && (stored == head || (row_at..head.sequence).contains(&stored.sequence))
    }

    /// What workers have to know of these runs; those are left out of which that takes longer to
    /// find out.
    pub(crate) async fn item_runs(&self, runs: BTreeSet<RunId>) -> HashMap<RunId, ItemRun> {
        let asked: Vec<RunId> = runs.iter().copied().collect();
        let heads = runs
            .into_iter()
            .map(async |run| (run, self.head_now(run).await));
        let (heads, rows) = tokio::join!(join_all(heads), self.postgres.item_runs(asked));
        let Ok(rows) = rows else {
            return HashMap::new();
        };
        let known = heads.into_iter().filter_map(|(run, head)| {
            let (stored, item_run) = *rows.get(&run)?;
            self.has_row(run, head.ok()?, stored)
                .then_some((run, item_run))
        });
        known.collect()
    }

    /// Brings the database to where a run's log ends now, and gives that head. A log that ends
    /// before what the database has, or goes on differently, is damage: JetStream lost messages.
    pub(crate) async fn settle(&self, run: RunId) -> Result<Head, Error> {
        let mut head = self.head_now(run).await?;
        // What this process has published comes by its projector, with other records.
        if !self.has_applied(run, head) {
            self.barrier().await?;
        }
        loop {
            let stored = self.postgres.head(run).await?;
            if stored.sequence < head.sequence {
                self.fill(run, stored, head).await?;
                return Ok(head);
            }
            if stored == head {
                return Ok(head);
            }
            // The log may have gone on, and may have been applied, between the two looks.
            let again = self.head_now(run).await?;
            let name = &self.log_stream(run).name;
            if again == head {
                return Err(match stored.sequence == head.sequence {
                    true => damaged(name, run, head.sequence, "the log went on differently"),
                    false => damaged(name, run, stored.sequence, "messages of the log are lost"),
                });
            }
            if head != Head::NONE && again.sequence >= stored.sequence {
                let page = self.postgres.read(run, head.sequence, 1).await?;
                return match page.first().is_some_and(|record| record.head() == head) {
                    true => Ok(head),
                    false => Err(damaged(
                        name,
                        run,
                        head.sequence,
                        "the log went on differently",
                    )),
                };
            }
            head = again;
        }
    }

    /// Applies the messages of a run after what the database has.
    ///
    /// Other tasks and processes apply too, and remove messages that the database has. So a
    /// message that is not there is lost only if the database, asked afterwards, lacks it too.
    pub(crate) async fn fill(&self, run: RunId, stored: Head, head: Head) -> Result<(), Error> {
        let mut from = self.watermarks.reached(self.stream_number(run)) + 1;
        let mut stored = stored;
        let mut whole = false;
        while stored.sequence < head.sequence {
            let message = self.next_message(run, from).await?;
            let next = stored.sequence + 1;
            match message {
                Some(message) if message.head.sequence == next && message.is_record() => {
                    (from, stored) = (message.sequence + 1, message.head);
                    if let Some(change) = Change::of(message) {
                        self.apply_one(change).await?;
                    }
                    continue;
                }
                Some(message) if message.head.sequence < next || !message.is_record() => {
                    from = message.sequence + 1;
                    continue;
                }
                _ => {}
            }
            let now = self.postgres.head(run).await?;
            if now.sequence > stored.sequence {
                (from, stored) = (1, now);
            } else if !whole {
                // The database may be behind its own watermark: it was restored from a backup.
                (from, whole) = (1, true);
            } else {
                let name = &self.log_stream(run).name;
                return Err(damaged(name, run, next, "messages of the log are lost"));
            }
        }
        Ok(())
    }

    /// The first message of a run's log at or after a place in its stream.
    async fn next_message(&self, run: RunId, from: u64) -> Result<Option<LogMessage>, Error> {
        let stream = &self.log_stream(run).stream;
        let row = next_message(stream, &self.log_subject(run), from).await?;
        row.map(|row| LogMessage::read(&row)).transpose()
    }
}
