//! A small table in a stream: one message per subject, which is a row. A row is changed by
//! compare-and-set on the sequence of its last message, and removed by that sequence, so a change
//! that lost a race changes nothing. Reads ask the stream's leader: a direct get may be answered
//! by a replica that is behind.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::datetime::DateTime;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use async_nats::jetstream::context::Context;
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_store::Error;

use crate::error::{PublishFault, publish_fault, unavailable, unreadable};

/// The header with what the program knows of a message; the payload is the caller's.
const META: &str = "Wl-Meta";

/// How often a scan asks again for what the server has not delivered.
const MOST_TRIES: u32 = 5;

/// How many messages a scan asks for at once.
const SCAN_BATCH: usize = 500;

/// A message as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) subject: String,
    pub(crate) sequence: u64,
    meta: String,
    pub(crate) payload: Bytes,
    /// When the server stored it, by the server's clock, in milliseconds.
    pub(crate) stored_ms: i64,
}

impl Row {
    /// What the program noted with the message.
    pub(crate) fn meta<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.meta).map_err(|error| unreadable(&self.subject, &error))
    }

    pub(crate) fn from_stored(message: StreamMessage) -> Self {
        Self {
            meta: meta_text(Some(&message.headers)),
            subject: message.subject.to_string(),
            sequence: message.sequence,
            stored_ms: millis(message.time),
            payload: message.payload,
        }
    }

    pub(crate) fn from_consumed(message: async_nats::jetstream::Message) -> Option<Self> {
        let info = message.info().ok()?;
        let (sequence, stored_ms) = (info.stream_sequence, millis(info.published));
        let (message, _) = message.split();
        Some(Self {
            meta: meta_text(message.headers.as_ref()),
            subject: message.subject.to_string(),
            sequence,
            stored_ms,
            payload: message.payload,
        })
    }
}

/// A moment in milliseconds; nanoseconds are as exact as the server is.
fn millis(moment: DateTime) -> i64 {
    i64::try_from(moment.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

fn meta_text(headers: Option<&HeaderMap>) -> String {
    let found = headers.and_then(|headers| headers.get(META));
    found.map_or_else(String::new, |value| value.as_str().to_owned())
}

/// A message with what the program notes of it.
pub(crate) fn message<T: Serialize>(meta: &T, payload: Bytes) -> Result<PublishMessage, Error> {
    let meta = serde_json::to_string(meta)
        .map_err(|error| unavailable("a message cannot be written", &error))?;
    Ok(PublishMessage::build().header(META, meta).payload(payload))
}

/// Publishes a message that must follow the subject's message of that sequence (0: the subject
/// has none); gives the new sequence.
pub(crate) async fn publish_after(
    js: &Context,
    subject: String,
    expected: u64,
    message: PublishMessage,
) -> Result<u64, PublishFault> {
    let message = message.expected_last_subject_sequence(expected);
    let sent = js.send_publish(subject, message).await;
    let acknowledged = sent.map_err(|error| publish_fault(&error))?.await;
    let ack = acknowledged.map_err(|error| publish_fault(&error))?;
    Ok(ack.sequence)
}

/// The last message of a subject, by the stream's leader.
pub(crate) async fn last_message(stream: &Stream<()>, subject: &str) -> Result<Option<Row>, Error> {
    match stream.get_last_raw_message_by_subject(subject).await {
        Ok(message) => Ok(Some(Row::from_stored(message))),
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(unavailable("a message cannot be read", &error)),
    }
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) js: Context,
    pub(crate) stream: Stream<()>,
    pub(crate) name: String,
}

impl Table {
    pub(crate) async fn row(&self, subject: &str) -> Result<Option<Row>, Error> {
        last_message(&self.stream, subject).await
    }

    /// Writes a row that must be as it was at `expected`; 0 if there must be none.
    pub(crate) async fn put<T: Serialize>(
        &self,
        subject: String,
        expected: u64,
        meta: &T,
        payload: Bytes,
    ) -> Result<u64, PublishFault> {
        let message = message(meta, payload).map_err(PublishFault::Failed)?;
        publish_after(&self.js, subject, expected, message).await
    }

    /// Removes a row that must be as it was at `sequence`; `false` if it has changed or is gone.
    pub(crate) async fn remove(&self, sequence: u64) -> Result<bool, Error> {
        #[derive(Serialize)]
        struct Delete {
            seq: u64,
            no_erase: bool,
        }
        let subject = format!("STREAM.MSG.DELETE.{}", self.name);
        let delete = Delete {
            seq: sequence,
            no_erase: true,
        };
        let answer: Result<serde_json::Value, _> = self.js.request(subject, &delete).await;
        let answer = answer.map_err(|error| unavailable("a message cannot be removed", &error))?;
        Ok(answer["success"].as_bool().unwrap_or(false))
    }

    /// Every row of these subjects, by sequence; without payloads if only what was noted of them
    /// is asked for.
    pub(crate) async fn scan(
        &self,
        subjects: Vec<String>,
        headers_only: bool,
    ) -> Result<Vec<Row>, Error> {
        let config = pull::Config {
            filter_subjects: subjects,
            headers_only,
            ..reading(DeliverPolicy::All)
        };
        scan(&self.stream, config).await
    }

    /// How many rows there are.
    pub(crate) async fn count(&self) -> Result<u64, Error> {
        let info = self.stream.get_info().await;
        let info = info.map_err(|error| unavailable("a stream does not answer", &error))?;
        Ok(info.state.messages)
    }
}

/// A consumer that reads what is there and needs no acknowledgements.
pub(crate) fn reading(deliver_policy: DeliverPolicy) -> pull::Config {
    pull::Config {
        deliver_policy,
        ack_policy: AckPolicy::None,
        memory_storage: true,
        num_replicas: 1,
        inactive_threshold: Duration::from_secs(10),
        ..pull::Config::default()
    }
}

/// How many messages the server has for a consumer that it has not delivered.
pub(crate) async fn left(consumer: &Consumer<pull::Config>) -> Result<u64, Error> {
    let info = consumer.get_info().await;
    let info = info.map_err(|error| unavailable("a consumer does not answer", &error))?;
    Ok(info.num_pending)
}

/// Reads what there is for a consumer when it is made.
pub(crate) async fn scan(stream: &Stream<()>, config: pull::Config) -> Result<Vec<Row>, Error> {
    let made = stream.create_consumer(config).await;
    let consumer = made.map_err(|error| unavailable("a consumer cannot be made", &error))?;
    let mut left = usize::try_from(consumer.cached_info().num_pending).unwrap_or(usize::MAX);
    let mut rows = Vec::with_capacity(left.min(SCAN_BATCH));
    let mut tries = 0;
    while left > 0 {
        let batch = consumer.fetch().max_messages(left.min(SCAN_BATCH));
        let batch = batch.messages().await;
        let mut batch = batch.map_err(|error| unavailable("messages cannot be read", &error))?;
        let mut got = 0;
        while let Some(message) = batch.next().await {
            let message =
                message.map_err(|error| unavailable("messages cannot be read", &error))?;
            got += 1;
            rows.extend(Row::from_consumed(message));
        }
        if got == 0 {
            // The rest was removed meanwhile, or comes with the next answer.
            match self::left(&consumer).await? {
                0 => break,
                _ if tries < MOST_TRIES => tries += 1,
                _ => {
                    let text = "messages are not delivered".to_owned();
                    return Err(Error::Unavailable(text));
                }
            }
        }
        left = left.saturating_sub(got);
    }
    let name = consumer.cached_info().name.clone();
    // One that stays is removed by the server soon.
    let _ = stream.delete_consumer(&name).await;
    Ok(rows)
}
