//! Whether a stream of logs is the one that was applied. One that was lost, cut or put back from an
//! older copy has other messages at the same places; whoever goes on from a watermark would pass
//! over them. Such a stream is refused when a store is opened, and takes and gives no records of a
//! store that is open, until it is rebuilt.
//!
//! Three looks find it: at its length and at the anchor of the watermark, at the start and before
//! what others published is read; and at the place that the server gives to a record, which costs
//! nothing: one that was applied before cannot be given again.

use async_nats::jetstream::stream::RawMessageErrorKind;
use windlass_core::RunId;
use windlass_store::Error;

use crate::OpenError;
use crate::codec::{LogMessage, StoredHead};
use crate::error::{REBUILD, unavailable};
use crate::layout::LogStream;
use crate::names::Names;
use crate::store::Inner;
use crate::table::{Row, last_message};
use crate::watermark::{Anchor, StoredMark};

/// What a stream is, compared with what was applied of it.
#[derive(Debug)]
pub(crate) enum Condition {
    /// As it was applied; its last message is this.
    Intact(u64),
    /// Another one; says why, and what to do.
    Lost(String),
}

pub(crate) async fn last_sequence(log: &LogStream) -> Result<u64, Error> {
    Ok(log.info().await?.state.last_sequence)
}

fn shorter(name: &str, last: u64, applied: u64) -> String {
    format!(
        "the stream {name} ends at message {last}, although {applied} were applied: its end was \
         lost; {REBUILD}"
    )
}

fn other(name: &str, place: u64) -> String {
    format!(
        "the stream {name} has another message {place} than the one that was applied: an older \
         copy of it was put back; {REBUILD}"
    )
}

/// Compares a stream with what was applied of it.
pub(crate) async fn condition(
    log: &LogStream,
    names: &Names,
    mark: &StoredMark,
) -> Result<Condition, Error> {
    let last = last_sequence(log).await?;
    if last < mark.sequence {
        return Ok(Condition::Lost(shorter(&log.name, last, mark.sequence)));
    }
    let is_known = match &mark.anchor {
        Some(anchor) => has_anchor(log, names, anchor).await?,
        None => true,
    };
    Ok(match is_known {
        true => Condition::Intact(last),
        false => {
            let place = mark.anchor.as_ref().map_or(0, |it| it.sequence);
            Condition::Lost(other(&log.name, place))
        }
    })
}

/// Whether a stream has the record of the anchor, or had it.
async fn has_anchor(log: &LogStream, names: &Names, anchor: &Anchor) -> Result<bool, Error> {
    match log.stream.get_raw_message(anchor.sequence).await {
        Ok(message) => {
            let message = LogMessage::read(&Row::from_stored(message));
            return Ok(message
                .is_ok_and(|it| it.run == anchor.run && StoredHead::of(&it.head) == anchor.head));
        }
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {}
        Err(error) => return Err(unavailable("a message cannot be read", &error)),
    }
    // It was removed, because its run went on behind it or was forgotten.
    let last = last_message(&log.stream, &names.log_anywhere(anchor.run)).await?;
    Ok(last.is_none_or(|last| last.sequence > anchor.sequence))
}

/// Refuses streams that are not those that were applied; says how many messages they have beyond
/// that.
pub(crate) async fn check(
    logs: &[LogStream],
    names: &Names,
    known: &[StoredMark],
) -> Result<u64, OpenError> {
    let mut behind = 0;
    for log in logs {
        let Some(known) = known.iter().find(|it| it.stream == log.name) else {
            continue;
        };
        if known.created != log.created {
            return Err(OpenError::refused(format!(
                "the stream {} was lost and made again ({}, not {}); {REBUILD}",
                log.name, log.created, known.created
            )));
        }
        let condition = condition(log, names, known).await;
        match condition.map_err(OpenError::Away)? {
            Condition::Intact(last) => behind += last - known.sequence,
            Condition::Lost(why) => return Err(OpenError::refused(why)),
        }
    }
    Ok(behind)
}

impl Inner {
    /// Compares a stream with what this process knows of it, remembers what that says, and gives
    /// its last sequence.
    pub(crate) async fn look_at(&self, stream: usize) -> Result<u64, Error> {
        let log = &self.logs[stream];
        let mark = self.watermarks.mark(stream);
        match condition(log, &self.names, &mark).await? {
            Condition::Intact(last) => {
                self.watermarks.trust(stream);
                Ok(last)
            }
            Condition::Lost(why) => {
                self.watermarks.doubt(stream, why);
                self.watermarks.trusted(stream).map(|()| 0)
            }
        }
    }

    /// A record got this place, and everything up to `reached` was applied before it was
    /// published.
    pub(crate) fn look_at_place(&self, run: RunId, place: u64, reached: u64) {
        if place <= reached {
            let name = &self.log_stream(run).name;
            self.watermarks
                .doubt(self.stream_number(run), other(name, place));
        }
    }
}
