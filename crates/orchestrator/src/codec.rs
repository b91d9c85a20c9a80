//! Records as bytes: a transition in a versioned envelope. Old versions are converted
//! here, so that the core knows one.

use std::fmt;

use windlass_core::event::{Event, Transition};
use windlass_core::run::SNAPSHOT_VERSION;
use windlass_core::{Digest, Millis};
use windlass_store::{Envelope, EnvelopeError, EnvelopeKind};

/// The version of records that this program writes, and the newest that it reads. Records of
/// version 1 did not tell of checkpoints; those of version 2 named no idempotency keys.
pub const RECORD_VERSION: u16 = 3;

/// Why a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The envelope is not one this program knows.
    Envelope(EnvelopeError),
    /// The body is not a transition.
    Body(String),
    /// The body holds an event that this program does not know.
    UnknownEvent(String),
}

impl DecodeError {
    /// Whether a newer program wrote the record.
    pub fn is_newer(&self) -> bool {
        match self {
            Self::Envelope(error) => matches!(
                error,
                EnvelopeError::UnknownVersion { version, newest, .. } if version > newest
            ),
            Self::Body(_) => false,
            Self::UnknownEvent(_) => true,
        }
    }
}

/// Why a body is no transition. Which events there are is in the reader's own words alone.
fn body_error(error: &serde_json::Error) -> DecodeError {
    let reason = error.to_string();
    match error.is_data() && reason.starts_with("unknown variant") {
        true => DecodeError::UnknownEvent(reason),
        false => DecodeError::Body(reason),
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Envelope(error) => error.fmt(f),
            Self::Body(reason) | Self::UnknownEvent(reason) => {
                write!(f, "the record does not hold a transition: {reason}")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// Reads a record.
///
/// # Errors
/// The bytes are damaged, or of a newer version, which is named.
pub fn decode(bytes: &[u8]) -> Result<Transition, DecodeError> {
    let (_, body) = Envelope::expect(EnvelopeKind::Record, RECORD_VERSION, bytes)
        .map_err(DecodeError::Envelope)?;
    serde_json::from_slice(body).map_err(|error| body_error(&error))
}

/// The results of a record's attempts whose values stand in it: digest and JSON text of each.
/// `None` if partial decoding is not enough, and the record must be read in full.
pub fn results(bytes: &[u8]) -> Option<Vec<(Digest, &str)>> {
    let (_, body) = Envelope::expect(EnvelopeKind::Record, RECORD_VERSION, bytes).ok()?;
    windlass_core::partial_decode::results(body)
}

/// A state in its envelope.
pub fn checkpoint(state: &[u8]) -> Vec<u8> {
    let mut bytes = Envelope::header(EnvelopeKind::Checkpoint, SNAPSHOT_VERSION).to_vec();
    bytes.extend_from_slice(state);
    bytes
}

/// The state in an envelope; `None` if this program does not know its version, and the log is
/// replayed instead.
pub fn open_checkpoint(bytes: &[u8]) -> Option<&[u8]> {
    match Envelope::expect(EnvelopeKind::Checkpoint, SNAPSHOT_VERSION, bytes) {
        Ok((SNAPSHOT_VERSION, state)) => Some(state),
        _ => None,
    }
}

/// A record being written, one event after the other, so that its size is known and
/// nothing is serialised twice.
#[derive(Debug, Default)]
pub struct RecordBuilder {
    bytes: Vec<u8>,
    at: Millis,
}

impl RecordBuilder {
    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The record's size so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The time that all events of this record carry: that of the first decision.
    pub fn at(&self, now: Millis) -> Millis {
        if self.is_empty() { now } else { self.at }
    }

    /// Adds an event.
    pub fn push(&mut self, event: &Event, now: Millis) {
        if self.is_empty() {
            self.at = now;
            self.bytes
                .extend_from_slice(&Envelope::header(EnvelopeKind::Record, RECORD_VERSION));
            self.bytes
                .extend_from_slice(format!("{{\"at\":{},\"events\":[", now.0).as_bytes());
        } else {
            self.bytes.push(b',');
        }
        serde_json::to_writer(&mut self.bytes, event)
            .expect("events are structs, strings and raw JSON, which always serialise");
    }

    /// The finished record.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(b"]}");
        self.bytes
    }
}
