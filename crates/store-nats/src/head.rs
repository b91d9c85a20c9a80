//! Where a run's log ends, by the stream's leader, and bringing the database up to there.

use async_nats::jetstream::stream::RawMessageErrorKind;
use windlass_core::RunId;
use windlass_store::{Error, Head, Log as _};

use crate::codec::{Kind, LogMessage};
use crate::error::{damaged, unavailable};
use crate::projector::Change;
use crate::store::Inner;
use crate::table::{Row, last_message};

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

impl Inner {
    /// Where a run's log ends now.
    pub(crate) async fn end(&self, run: RunId) -> Result<End, Error> {
        let stream = &self.log_stream(run).stream;
        let Some(row) = last_message(stream, &self.log_subject(run)).await? else {
            return Ok(End::Nothing);
        };
        let message = LogMessage::read(&row)?;
        Ok(match message.kind {
            Kind::Record | Kind::Fence => {
                self.note_head(run, message.head, message.sequence);
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
                self.finish_forgetting(&message).await?;
                Ok(Head::NONE)
            }
        }
    }

    /// Brings the database to the end of a run's log, and gives the head. A log that ends before
    /// what the database has, or goes on differently, is damage: JetStream lost messages.
    pub(crate) async fn settle(&self, run: RunId) -> Result<Head, Error> {
        self.barrier().await?;
        let mut head = self.head_now(run).await?;
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
            if again == head {
                let name = &self.log_stream(run).name;
                return Err(match stored.sequence == head.sequence {
                    true => damaged(name, run, head.sequence, "the log went on differently"),
                    false => damaged(name, run, stored.sequence, "messages of the log are lost"),
                });
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
        let asked = stream.raw_message_builder();
        let asked = asked.next_by_subject(self.log_subject(run)).sequence(from);
        match asked.send().await {
            Ok(message) => LogMessage::read(&Row::from_stored(message)).map(Some),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(unavailable("a message cannot be read", &error)),
        }
    }
}
