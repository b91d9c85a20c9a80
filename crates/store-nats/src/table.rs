//! A small table in a stream: one message per subject, which is a row. A row is changed by
//! compare-and-set on the sequence of its last message, and removed by that sequence, so a change
//! that lost a race changes nothing. Reads ask the stream's leader: a direct get may be answered
//! by a replica that is behind.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::datetime::DateTime;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use async_nats::jetstream::context::{Context, PublishError, PublishErrorKind};
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{Config, LastRawMessageErrorKind, RawMessageErrorKind, Stream};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use windlass_store::Error;

use crate::error::{PublishFault, names_no_stream, publish_fault, unavailable, unreadable};

/// The header with what the program knows of a message; the payload is the caller's.
const META: &str = "Wl-Meta";

/// The header that says how many bytes at the beginning of the payload are what the program knows,
/// if that is too long for a header.
const META_BYTES: &str = "Wl-Meta-Bytes";

/// The same of a part that is compressed with zstd: lists of links and values would else take more
/// than the record that they belong to, and a message must fit the server's `max_payload`.
const META_ZSTD_BYTES: &str = "Wl-Meta-Zstd-Bytes";

/// The most that a compressed part may have; more is no part that this program has written.
const MOST_META: u64 = 64 * 1024 * 1024;

/// The most that stands in a header: nats-server refuses headers of more than 64 KiB.
const MOST_HEADER: usize = 32 * 1024;

/// How long the server may be silent while it delivers. The client's stream does not end if the
/// connection was lost in between.
const SILENCE: Duration = Duration::from_secs(5);

/// How often a scan asks again for what the server has not delivered.
const MOST_TRIES: u32 = 5;

/// How long a reader waits before it asks again, if the request was refused.
const AGAIN: Duration = Duration::from_millis(100);

/// How many messages a scan asks for at once.
const SCAN_BATCH: usize = 500;

/// How long the row stays that says that there is none.
pub(crate) const GONE: Duration = Duration::from_secs(120);

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

    /// A row that this process has written.
    pub(crate) fn written<T: Serialize>(
        subject: String,
        sequence: u64,
        meta: &T,
        payload: Bytes,
    ) -> Self {
        Self {
            subject,
            sequence,
            // It was written by the same means before.
            meta: serde_json::to_string(meta).unwrap_or_default(),
            payload,
            stored_ms: 0,
        }
    }

    pub(crate) fn from_stored(message: StreamMessage) -> Self {
        let (meta, payload) = split(Some(&message.headers), message.payload);
        Self {
            meta,
            subject: message.subject.to_string(),
            sequence: message.sequence,
            stored_ms: millis(message.time),
            payload,
        }
    }

    pub(crate) fn from_consumed(message: async_nats::jetstream::Message) -> Option<Self> {
        let info = message.info().ok()?;
        let (sequence, stored_ms) = (info.stream_sequence, millis(info.published));
        let (message, _) = message.split();
        let (meta, payload) = split(message.headers.as_ref(), message.payload);
        Some(Self {
            meta,
            subject: message.subject.to_string(),
            sequence,
            stored_ms,
            payload,
        })
    }
}

/// A moment in milliseconds; nanoseconds are as exact as the server is.
fn millis(moment: DateTime) -> i64 {
    i64::try_from(moment.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// What the program noted of a message, and the caller's payload.
fn split(headers: Option<&HeaderMap>, mut payload: Bytes) -> (String, Bytes) {
    let header = |name: &str| headers.and_then(|headers| headers.get(name));
    let (length, is_compressed) = match (header(META_ZSTD_BYTES), header(META_BYTES)) {
        (Some(length), _) => (length, true),
        (None, Some(length)) => (length, false),
        (None, None) => {
            let meta = header(META).map_or_else(String::new, |value| value.as_str().to_owned());
            return (meta, payload);
        }
    };
    let length = length.as_str().parse().ok();
    let Some(length) = length.filter(|length| *length <= payload.len()) else {
        // It cannot be read, which its reader says.
        return (String::new(), payload);
    };
    let meta = payload.split_to(length);
    let meta = match is_compressed {
        true => decompressed(&meta).unwrap_or_default(),
        false => meta.into(),
    };
    (String::from_utf8(meta).unwrap_or_default(), payload)
}

fn decompressed(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let decoder = zstd::Decoder::new(bytes)?;
    decoder.take(MOST_META).read_to_end(&mut text)?;
    Ok(text)
}

/// A message with what the program notes of it.
pub(crate) fn message<T: Serialize>(meta: &T, payload: Bytes) -> Result<PublishMessage, Error> {
    let meta = serde_json::to_string(meta)
        .map_err(|error| unavailable("a message cannot be written", &error))?;
    if meta.len() <= MOST_HEADER {
        return Ok(PublishMessage::build().header(META, meta).payload(payload));
    }
    let compressed = zstd::bulk::compress(meta.as_bytes(), 1);
    let mut both =
        compressed.map_err(|error| unavailable("a message cannot be written", &error))?;
    let length = both.len().to_string();
    both.extend_from_slice(&payload);
    let message = PublishMessage::build().header(META_ZSTD_BYTES, length);
    Ok(message.payload(both.into()))
}

/// A message that the server removes after a while.
pub(crate) fn expiring(message: PublishMessage) -> PublishMessage {
    message.header("Nats-TTL", format!("{}s", GONE.as_secs()))
}

/// Publishes a message that must follow the subject's message of that sequence (0: the subject
/// has none); gives the new sequence.
pub(crate) async fn publish_after(
    js: &Context,
    subject: String,
    expected: u64,
    message: PublishMessage,
) -> Result<u64, PublishFault> {
    let published = publish(js, subject, expected, message).await;
    published.map_err(|error| publish_fault(&error))
}

async fn publish(
    js: &Context,
    subject: String,
    expected: u64,
    message: PublishMessage,
) -> Result<u64, PublishError> {
    let message = message.expected_last_subject_sequence(expected);
    let ack = js.send_publish(subject, message).await?.await?;
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

/// The first message of these subjects at or after a place, by the stream's leader.
pub(crate) async fn next_message(
    stream: &Stream<()>,
    subject: &str,
    from: u64,
) -> Result<Option<Row>, Error> {
    let asked = stream.raw_message_builder();
    match asked.next_by_subject(subject).sequence(from).send().await {
        Ok(message) => Ok(Some(Row::from_stored(message))),
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(unavailable("a message cannot be read", &error)),
    }
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) js: Context,
    pub(crate) stream: Stream<()>,
    pub(crate) name: String,
    /// What its stream is made of.
    pub(crate) config: Config,
    /// Told when the stream seems to be gone (`keeper.rs`).
    pub(crate) missing: Arc<Notify>,
}

impl Table {
    /// Passes an answer on, and tells if it says that the stream is gone.
    fn noticed<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        if answer.as_ref().is_err_and(names_no_stream) {
            self.missing.notify_one();
        }
        answer
    }

    pub(crate) async fn row(&self, subject: &str) -> Result<Option<Row>, Error> {
        self.noticed(last_message(&self.stream, subject).await)
    }

    /// The newest row of the table.
    pub(crate) async fn newest(&self) -> Result<Option<Row>, Error> {
        // Not `>`: of that the server takes a last message that was removed for none.
        self.row(&self.config.subjects[0]).await
    }

    /// The subjects of all rows.
    pub(crate) async fn subjects(&self) -> Result<HashSet<String>, Error> {
        let failed = |error| unavailable("the rows of a table cannot be listed", &error);
        let all = self.config.subjects[0].as_str();
        let listed = self.stream.info_with_subjects(all).await;
        let listed = self.noticed(listed.map_err(failed))?;
        let subjects: Result<HashMap<String, usize>, _> = listed.try_collect().await;
        Ok(subjects.map_err(failed)?.into_keys().collect())
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
        self.put_message(subject, expected, message).await
    }

    async fn put_message(
        &self,
        subject: String,
        expected: u64,
        message: PublishMessage,
    ) -> Result<u64, PublishFault> {
        self.sent(subject, expected, message).await?.await
    }

    /// Sends a row; rows that are sent one after the other are written in that order.
    pub(crate) async fn sent(
        &self,
        subject: String,
        expected: u64,
        message: PublishMessage,
    ) -> Result<impl Future<Output = Result<u64, PublishFault>> + Send + 'static, PublishFault>
    {
        let message = message.expected_last_subject_sequence(expected);
        let missing = Arc::clone(&self.missing);
        let told = move |error: PublishError| {
            // Servers that choose a leader take no message either: the keeper asks.
            if error.kind() == PublishErrorKind::StreamNotFound {
                missing.notify_one();
            }
            publish_fault(&error)
        };
        let ack = self.js.send_publish(subject, message).await;
        let ack = ack.map_err(&told)?;
        Ok(async move { ack.await.map(|ack| ack.sequence).map_err(told) })
    }

    /// Writes a row that says that there is none any more, in place of the one at `expected`, so
    /// that all who follow the table learn of it. The server removes it after a while.
    pub(crate) async fn put_gone<T: Serialize>(
        &self,
        subject: String,
        expected: u64,
        meta: &T,
    ) -> Result<u64, PublishFault> {
        let message = message(meta, Bytes::new()).map_err(PublishFault::Failed)?;
        self.put_message(subject, expected, expiring(message)).await
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
        let answer: Result<Response<serde_json::Value>, _> =
            self.js.request(subject, &delete).await;
        let answer = answer.map_err(|error| unavailable("a message cannot be removed", &error))?;
        let answer = match answer {
            Response::Ok(answer) => answer,
            Response::Err { error } if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                return self.noticed(Err(unavailable("a message cannot be removed", &error)));
            }
            // The message is gone.
            Response::Err { .. } => return Ok(false),
        };
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
        self.noticed(scan(&self.stream, config).await)
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

/// Reads what a consumer delivers, in order and without a gap. A consumer does not deliver again
/// what was lost with a connection: then reading fails, and the caller begins with a new one.
pub(crate) struct Reader {
    stream: Stream<()>,
    consumer: Consumer<pull::Config>,
    /// How many messages have come.
    received: u64,
}

impl Reader {
    pub(crate) async fn new(stream: &Stream<()>, config: pull::Config) -> Result<Self, Error> {
        let made = stream.create_consumer(config).await;
        let consumer = made.map_err(|error| unavailable("a consumer cannot be made", &error))?;
        Ok(Self {
            stream: stream.clone(),
            consumer,
            received: 0,
        })
    }

    /// How many messages there were when the consumer was made.
    fn there(&self) -> u64 {
        self.consumer.cached_info().num_pending
    }

    /// The next messages, at most so many; none only if the server has delivered all.
    ///
    /// In a cluster a consumer is answered before every server knows of it: a request may find that
    /// nothing listens (503), and is made again. What is lost on the way shows in the numbers.
    pub(crate) async fn next(&mut self, most: usize) -> Result<Vec<Row>, Error> {
        let unread = |error: &dyn std::fmt::Display| unavailable("messages cannot be read", error);
        let mut refused = None;
        for _ in 0..MOST_TRIES {
            let batch = self.consumer.fetch().max_messages(most).messages().await;
            let mut batch = batch.map_err(|error| unread(&error))?;
            let mut rows = Vec::new();
            loop {
                let next = tokio::time::timeout(SILENCE, batch.next()).await;
                let next = next.map_err(|_| unread(&"the server has become silent"))?;
                let Some(message) = next else { break };
                let message = match message {
                    Ok(message) => message,
                    Err(error) => {
                        refused = Some(unread(&error));
                        tokio::time::sleep(AGAIN).await;
                        break;
                    }
                };
                let number = message.info().map(|info| info.consumer_sequence);
                let number = number.map_err(|error| unread(&error))?;
                self.received += 1;
                if number != self.received {
                    return Err(unread(&"some were lost on their way"));
                }
                rows.extend(Row::from_consumed(message));
            }
            if !rows.is_empty() || self.has_all().await? {
                return Ok(rows);
            }
        }
        Err(refused.unwrap_or_else(|| unread(&"they are not delivered to the end")))
    }

    /// Whether everything that there is has come.
    async fn has_all(&self) -> Result<bool, Error> {
        let info = self.consumer.get_info().await;
        let info = info.map_err(|error| unavailable("a consumer does not answer", &error))?;
        let received = info.delivered.consumer_sequence == self.received;
        match info.num_pending {
            0 if received => Ok(true),
            0 => Err(unavailable("messages cannot be read", &"some were lost")),
            _ => Ok(false),
        }
    }

    /// Removes the consumer. One that stays is removed by the server soon.
    pub(crate) async fn end(self) {
        let name = &self.consumer.cached_info().name;
        let _ = self.stream.delete_consumer(name).await;
    }
}

/// Reads what there is for a consumer when it is made.
pub(crate) async fn scan(stream: &Stream<()>, config: pull::Config) -> Result<Vec<Row>, Error> {
    let mut reader = Reader::new(stream, config).await?;
    let mut left = usize::try_from(reader.there()).unwrap_or(usize::MAX);
    let mut rows = Vec::with_capacity(left.min(SCAN_BATCH));
    while left > 0 {
        let batch = reader.next(left.min(SCAN_BATCH)).await?;
        if batch.is_empty() {
            // The rest was removed meanwhile.
            break;
        }
        left = left.saturating_sub(batch.len());
        rows.extend(batch);
    }
    reader.end().await;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_for_a_header_stands_before_the_payload() {
        for length in [1, MOST_HEADER, MOST_HEADER + 1, 200_000] {
            let text = "\u{e9}".repeat(length / 2);
            let sent = message(&text, Bytes::from_static(b"record")).unwrap();
            let sent = sent.outbound_message("subject");
            let headers = sent.headers.as_ref().unwrap();
            let longest = headers
                .iter()
                .flat_map(|it| it.1)
                .map(|it| it.as_str().len());
            assert!(longest.max().unwrap() <= MOST_HEADER);
            let (meta, payload) = split(Some(headers), sent.payload);
            assert_eq!(serde_json::from_str::<String>(&meta).unwrap(), text);
            assert_eq!(&payload[..], b"record");
        }
    }

    #[test]
    fn what_an_earlier_version_wrote_before_the_payload_is_read() {
        let mut headers = HeaderMap::new();
        headers.insert(META_BYTES, "3");
        let (meta, payload) = split(Some(&headers), Bytes::from_static(b"{1}record"));
        assert_eq!((&*meta, &payload[..]), ("{1}", &b"record"[..]));
    }

    #[test]
    fn a_long_list_takes_less_than_it_did() {
        let many = vec!["0000-7fff-8000-000000000023"; 10_000];
        let sent = message(&many, Bytes::new()).unwrap();
        let sent = sent.outbound_message("subject");
        assert!(sent.payload.len() < MOST_HEADER, "{}", sent.payload.len());
    }
}
