//! The versioned envelope that everything stored stands in: kind, version, body.
//!
//! The header is eight bytes, so that wrapping a record costs one copy and unwrapping none:
//!
//! | bytes | content |
//! | --- | --- |
//! | 0..2 | the magic bytes `WL` |
//! | 2 | the kind |
//! | 3 | reserved, 0 |
//! | 4..6 | the version of the body's format, little-endian |
//! | 6..8 | reserved, 0 |
//!
//! It does not know how a body is encoded.
//!
//! Values and definitions have no header: their digests are over their bytes, so the version of the
//! form that they are in stands in a column beside them.

use std::fmt;

use crate::{Damage, Error};

/// The version of the form that values and definitions are stored in: their bytes as they are.
pub const STORED_FORM: u16 = 1;

/// Checks the version that stands beside the bytes of a value or a definition, which `what` names.
pub fn check_stored_form(version: i64, what: impl FnOnce() -> String) -> Result<(), Error> {
    let known = i64::from(STORED_FORM);
    match version {
        version if version == known => Ok(()),
        version if version > known => Err(Error::TooNew(format!(
            "{} has envelope version {version}; this program knows {known}",
            what()
        ))),
        version => Err(Error::Damaged(Box::new(Damage {
            place: what(),
            run: None,
            sequence: None,
            offset: None,
            reason: format!("the envelope version is {version}"),
        }))),
    }
}

const MAGIC: [u8; 2] = *b"WL";
const HEADER: usize = 8;

/// What an envelope holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum EnvelopeKind {
    /// A record of a run's log.
    Record = 1,
    /// A workflow definition.
    Definition = 2,
    /// A run's state standing for a prefix of its log.
    Checkpoint = 3,
    /// Something offered to a run from outside.
    InboxItem = 4,
    /// A request to the engine.
    Command = 5,
}

impl EnvelopeKind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Record,
            2 => Self::Definition,
            3 => Self::Checkpoint,
            4 => Self::InboxItem,
            5 => Self::Command,
            _ => return None,
        })
    }
}

impl fmt::Display for EnvelopeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Record => "record",
            Self::Definition => "definition",
            Self::Checkpoint => "checkpoint",
            Self::InboxItem => "inbox item",
            Self::Command => "command",
        })
    }
}

/// The codec of envelopes.
#[derive(Clone, Copy, Debug)]
pub struct Envelope;

impl Envelope {
    /// Wraps a body.
    pub fn encode(kind: EnvelopeKind, version: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + body.len());
        bytes.extend_from_slice(&Self::header(kind, version));
        bytes.extend_from_slice(body);
        bytes
    }

    /// The header alone, for a writer that puts the body after it without a copy.
    pub fn header(kind: EnvelopeKind, version: u16) -> [u8; HEADER] {
        let [low, high] = version.to_le_bytes();
        [MAGIC[0], MAGIC[1], kind as u8, 0, low, high, 0, 0]
    }

    /// Unwraps: the kind, the version and the body, whatever the version is.
    pub fn decode(bytes: &[u8]) -> Result<(EnvelopeKind, u16, &[u8]), EnvelopeError> {
        let Some((header, body)) = bytes.split_at_checked(HEADER) else {
            return Err(EnvelopeError::Truncated(bytes.len()));
        };
        if header[..2] != MAGIC {
            return Err(EnvelopeError::Foreign);
        }
        if header[3] != 0 || header[6..8] != [0, 0] {
            return Err(EnvelopeError::Reserved);
        }
        let kind =
            EnvelopeKind::from_byte(header[2]).ok_or(EnvelopeError::UnknownKind(header[2]))?;
        Ok((kind, u16::from_le_bytes([header[4], header[5]]), body))
    }

    /// Unwraps a body of the expected kind, of any version from 1 to `newest`.
    pub fn expect(
        kind: EnvelopeKind,
        newest: u16,
        bytes: &[u8],
    ) -> Result<(u16, &[u8]), EnvelopeError> {
        let (found, version, body) = Self::decode(bytes)?;
        if found != kind {
            return Err(EnvelopeError::OtherKind {
                found,
                expected: kind,
            });
        }
        if version == 0 || version > newest {
            return Err(EnvelopeError::UnknownVersion {
                kind,
                version,
                newest,
            });
        }
        Ok((version, body))
    }
}

/// Why bytes are not an envelope that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvelopeError {
    /// Shorter than a header; carries the length.
    Truncated(usize),
    /// Does not begin with the magic bytes.
    Foreign,
    /// A reserved byte is set: written by a newer version, or damaged.
    Reserved,
    /// Holds something this version does not know.
    UnknownKind(u8),
    /// Holds something else than was expected here.
    OtherKind {
        /// What it holds.
        found: EnvelopeKind,
        /// What was expected.
        expected: EnvelopeKind,
    },
    /// Holds a version of the body that this version does not know.
    UnknownVersion {
        /// What it holds.
        kind: EnvelopeKind,
        /// In which version.
        version: u16,
        /// The newest version known here.
        newest: u16,
    },
}

impl fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(length) => {
                write!(
                    f,
                    "an envelope of {length} bytes is shorter than its header"
                )
            }
            Self::Foreign => f.write_str("the bytes are not an envelope"),
            Self::Reserved => f.write_str("the envelope sets reserved bytes"),
            Self::UnknownKind(kind) => write!(f, "the envelope's kind {kind} is unknown"),
            Self::OtherKind { found, expected } => {
                write!(
                    f,
                    "the envelope holds a {found} where a {expected} was expected"
                )
            }
            Self::UnknownVersion {
                kind,
                version,
                newest,
            } => write!(
                f,
                "the envelope holds a {kind} of version {version}; versions up to {newest} are known"
            ),
        }
    }
}

impl std::error::Error for EnvelopeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_in_comes_out() {
        let kinds = [
            EnvelopeKind::Record,
            EnvelopeKind::Definition,
            EnvelopeKind::Checkpoint,
            EnvelopeKind::InboxItem,
            EnvelopeKind::Command,
        ];
        for kind in kinds {
            let bytes = Envelope::encode(kind, 0x1234, b"body");
            assert_eq!(Envelope::decode(&bytes), Ok((kind, 0x1234, &b"body"[..])));
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let good = Envelope::encode(EnvelopeKind::Record, 2, b"");
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Envelope::expect(EnvelopeKind::Record, 2, &bytes).map(|(version, _)| version)
        };
        assert_eq!(with(7, 0), Ok(2));
        assert_eq!(with(0, b'X'), Err(EnvelopeError::Foreign));
        assert_eq!(with(2, 99), Err(EnvelopeError::UnknownKind(99)));
        assert_eq!(with(3, 1), Err(EnvelopeError::Reserved));
        let too_new = with(4, 3).unwrap_err();
        assert_eq!(
            too_new.to_string(),
            "the envelope holds a record of version 3; versions up to 2 are known"
        );
        assert_eq!(
            Envelope::decode(&good[..7]),
            Err(EnvelopeError::Truncated(7))
        );
    }
}
