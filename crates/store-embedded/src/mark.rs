//! How far the write-ahead log was whole when it was last closed in good order.
//!
//! A commit that a crash tore and one that was acknowledged and damaged since look the same
//! where it is the last one: both are frames that do not fit their checksums. The mark tells
//! them apart: under these salts, so many frames were acknowledged. That stays true whatever
//! follows, so the mark needs no sync, and one that is old, missing or damaged only says
//! less. It is written when the store is closed, never in a commit.

use std::fs;
use std::path::Path;

use windlass_core::Digest;

/// The file's name in the data directory.
const NAME: &str = "windlass.tail";

/// Bytes of the fields; their checksum follows.
const FIELDS: usize = 16;
const CHECKSUM: usize = 8;

/// Under which salts how many frames are whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) salts: (u32, u32),
    pub(crate) frames: u64,
}

impl Mark {
    /// The mark of a data directory, if there is one that can be read.
    pub(crate) fn read(directory: &Path) -> Option<Self> {
        let bytes = fs::read(directory.join(NAME)).ok()?;
        let (fields, sum) = bytes.split_at_checked(FIELDS)?;
        if *sum != checksum(fields) {
            return None;
        }
        let word =
            |at: usize| u32::from_le_bytes(fields[at..at + 4].try_into().unwrap_or_default());
        let frames = u64::from_le_bytes(fields[8..].try_into().ok()?);
        Some(Self {
            salts: (word(0), word(4)),
            frames,
        })
    }

    /// Leaves the mark. If that fails there is none, and the next opening knows less.
    pub(crate) fn leave(self, directory: &Path) {
        let mut bytes = Vec::with_capacity(FIELDS + CHECKSUM);
        bytes.extend(self.salts.0.to_le_bytes());
        bytes.extend(self.salts.1.to_le_bytes());
        bytes.extend(self.frames.to_le_bytes());
        bytes.extend(checksum(&bytes));
        let _ = fs::write(directory.join(NAME), bytes);
    }
}

fn checksum(fields: &[u8]) -> [u8; CHECKSUM] {
    let mut sum = [0; CHECKSUM];
    sum.copy_from_slice(&Digest::of(fields).0[..CHECKSUM]);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_left_and_a_damaged_one_is_none() {
        let root = tempfile::tempdir().expect("a directory");
        assert_eq!(Mark::read(root.path()), None);
        let mark = Mark {
            salts: (7, u32::MAX),
            frames: 1 << 40,
        };
        mark.leave(root.path());
        assert_eq!(Mark::read(root.path()), Some(mark));
        let path = root.path().join(NAME);
        let whole = fs::read(&path).expect("the mark");
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &flipped).expect("written");
            assert_eq!(Mark::read(root.path()), None, "bit {bit}");
        }
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).expect("written");
            assert_eq!(Mark::read(root.path()), None, "cut at {cut}");
        }
    }
}
