//! Newtypes for every identifier. Parsing happens here, once; the rest of the
//! workspace holds proof of it in the type.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A run's identity: a UUIDv7, so that runs sort by the time of their requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(Uuid);

impl RunId {
    /// Builds the UUIDv7 of a moment in milliseconds and 10 random bytes.
    pub fn new(now: Millis, random: [u8; 10]) -> Self {
        let millis = u64::try_from(now.0).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// The first of all ids of a moment.
    pub fn first_of(moment: Millis) -> Self {
        let mut bytes = [0; 16];
        let millis = u64::try_from(moment.0).unwrap_or(0).min((1 << 48) - 1);
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        Self::from_bytes(bytes)
    }

    /// The id with these 16 bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The 16 bytes of the id.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for RunId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}

/// A moment, in milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// This moment plus a number of milliseconds, at most the end of time.
    #[must_use]
    pub fn plus(self, milliseconds: u64) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(milliseconds).unwrap_or(i64::MAX)),
        )
    }
}

/// SHA-256 of a value's bytes as stored: a value's identity, and a blob's address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The digest of bytes that come one after the other.
    pub fn of_parts() -> DigestOfParts {
        DigestOfParts::default()
    }

    /// Its hexadecimal digits.
    fn digits(&self) -> Digits {
        let mut digits = [0u8; 64];
        hex::encode_to_slice(self.0, &mut digits).expect("32 bytes are 64 digits");
        Digits(digits)
    }

    /// Writes its hexadecimal digits behind a text.
    pub(crate) fn push_to(&self, text: &mut String) {
        text.push_str(self.digits().text());
    }
}

/// A digest while its bytes come.
#[derive(Clone, Default)]
pub struct DigestOfParts(sha2::Sha256);

impl DigestOfParts {
    /// Takes the next bytes in.
    pub fn add(&mut self, bytes: &[u8]) {
        use sha2::Digest as _;
        self.0.update(bytes);
    }

    /// The digest of all bytes, and begins anew.
    pub fn take(&mut self) -> Digest {
        use sha2::Digest as _;
        Digest(self.0.finalize_reset().into())
    }
}

/// The digits of a digest. Digests are written for every node of every run, so they do
/// not go through a formatter.
struct Digits([u8; 64]);

impl Digits {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits are letters")
    }
}

/// Maps by digest, which need no other hash.
pub type DigestMap<V> = HashMap<Digest, V, BuildHasherDefault<DigestHasher>>;

/// Sets of digests, which need no other hash.
pub type DigestSet = HashSet<Digest, BuildHasherDefault<DigestHasher>>;

/// Takes the first bytes of a digest for its hash: they are as good as random.
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 ^= u64::from_le_bytes(*first);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.digits().text())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = hex::FromHexError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0u8; 32];
        hex::decode_to_slice(text, &mut bytes)?;
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.digits().text())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Digest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("64 hexadecimal digits")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Digest, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}
