//! What the write-ahead log held when it was last acknowledged, so that a log that is missing,
//! cut or replaced is recognised when the directory is opened.
//!
//! The mark is one small file that the writer overwrites in place after each commit, before
//! the commit is answered. Commits do not sync it: a process that is killed leaves it in the
//! page cache, and after a power failure an older mark is on the disk, or none, which only
//! proves less. It is synced before a checkpoint, which is rare. It may claim only what is
//! durable already, so it is written after the sync of the frames that it counts, and a
//! checkpoint is noted as complete only after the database was synced. It does not know what a
//! log must hold; see `acknowledged`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use windlass_core::Digest;

use crate::error::from_io;
use crate::files::{sync_directory, sync_failed, write_at};
use crate::private;
use crate::wal::{Frame, LogId};

/// The file's name in the data directory.
pub(crate) const NAME: &str = "windlass.tail";

const MAGIC: [u8; 4] = *b"wtl2";
/// How many pages a mark describes.
pub(crate) const PAGES: usize = 4;
/// Bytes of the fields; their checksum follows.
const FIELDS: usize = 48 + 12 * PAGES;
/// Bytes of the fields of a mark from before logs were counted.
const OLD_FIELDS: usize = 16;
const CHECKSUM: usize = 8;

/// A page of the database as one of the last frames has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageSum {
    /// From 1 on; 0 for none.
    pub(crate) page: u32,
    pub(crate) sum: u64,
}

impl From<Frame> for PageSum {
    fn from(frame: Frame) -> Self {
        Self {
            page: frame.page,
            sum: frame.sum,
        }
    }
}

/// What was acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Which log it was.
    pub(crate) log: LogId,
    /// Frames that were acknowledged.
    pub(crate) frames: u64,
    /// The commits in them.
    pub(crate) commits: u64,
    /// Frames up to which the log was copied into the database, and that was synced.
    pub(crate) copied: u64,
    /// Frames up to which some may have been copied: a checkpoint began on them.
    pub(crate) touched: u64,
    /// Pages of the last frames, all after `touched`: if the database has one of them, another
    /// SQLite program has copied the whole log.
    pub(crate) pages: [PageSum; PAGES],
    /// Written by a version that left a mark only when it closed, and did not count logs.
    pub(crate) old: bool,
}

impl Mark {
    /// The mark of a data directory, if there is one that can be read.
    pub(crate) fn read(directory: &Path) -> Option<Self> {
        let bytes = fs::read(directory.join(NAME)).ok()?;
        Self::decode(&bytes).or_else(|| Self::decode_old(&bytes))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (fields, sum) = bytes.split_at_checked(FIELDS)?;
        if fields[..4] != MAGIC || *sum != checksum(fields) {
            return None;
        }
        let mut pages = [PageSum::default(); PAGES];
        for (page, at) in pages.iter_mut().zip((48..).step_by(12)) {
            *page = PageSum {
                page: word(fields, at),
                sum: long(fields, at + 4),
            };
        }
        Some(Self {
            log: LogId {
                salts: (word(fields, 4), word(fields, 8)),
                restarts: word(fields, 12),
            },
            frames: long(fields, 16),
            commits: long(fields, 24),
            copied: long(fields, 32),
            touched: long(fields, 40),
            pages,
            old: false,
        })
    }

    fn decode_old(bytes: &[u8]) -> Option<Self> {
        let (fields, sum) = bytes.split_at_checked(OLD_FIELDS)?;
        (*sum == checksum(fields)).then(|| Self {
            log: LogId {
                salts: (word(fields, 0), word(fields, 4)),
                restarts: 0,
            },
            frames: long(fields, 8),
            old: true,
            ..Self::default()
        })
    }

    fn encode(&self) -> [u8; FIELDS + CHECKSUM] {
        let mut bytes = [0; FIELDS + CHECKSUM];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(&MAGIC);
        put(&self.log.salts.0.to_le_bytes());
        put(&self.log.salts.1.to_le_bytes());
        put(&self.log.restarts.to_le_bytes());
        for number in [self.frames, self.commits, self.copied, self.touched] {
            put(&number.to_le_bytes());
        }
        for page in self.pages {
            put(&page.page.to_le_bytes());
            put(&page.sum.to_le_bytes());
        }
        let sum = checksum(&bytes[..FIELDS]);
        bytes[FIELDS..].copy_from_slice(&sum);
        bytes
    }
}

/// The file, kept open by the writer.
pub(crate) struct MarkFile {
    path: PathBuf,
    file: Option<File>,
}

impl MarkFile {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            path: directory.join(NAME),
            file: None,
        }
    }

    /// Overwrites the mark. If that fails, an older one stays, and the next opening can prove
    /// less.
    pub(crate) fn write(&mut self, mark: &Mark) {
        if self.try_write(mark).is_err() {
            self.file = None;
        }
    }

    /// Makes the mark durable. A mark that could not be written need not be.
    pub(crate) fn sync(&self) -> Result<(), windlass_store::Error> {
        let synced = self.file.as_ref().map_or(Ok(()), File::sync_data);
        synced.map_err(|error| sync_failed(&self.path, &error))
    }

    fn try_write(&mut self, mark: &Mark) -> io::Result<()> {
        if self.file.is_none() {
            let mut options = private::options();
            let options = options.write(true).create(true).truncate(false);
            self.file = Some(options.open(&self.path)?);
        }
        match &self.file {
            Some(file) => write_at(file, &mark.encode(), 0),
            None => Ok(()),
        }
    }
}

/// Removes the mark before a log begins that does not descend from the marked one. This is
/// synced: a mark that came back after a power failure would take the new log for a replaced
/// one.
pub(crate) fn forget(directory: &Path) -> Result<(), windlass_store::Error> {
    let path = directory.join(NAME);
    match File::options().write(true).open(&path) {
        Ok(file) => {
            file.set_len(0).map_err(|error| from_io(&path, &error))?;
            file.sync_all()
                .map_err(|error| sync_failed(&path, &error))?;
            sync_directory(directory)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(from_io(&path, &error)),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default())
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
}

fn checksum(fields: &[u8]) -> [u8; CHECKSUM] {
    let mut sum = [0; CHECKSUM];
    sum.copy_from_slice(&Digest::of(fields).0[..CHECKSUM]);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Mark {
        Mark {
            log: LogId {
                salts: (7, u32::MAX),
                restarts: 9,
            },
            frames: 1 << 40,
            commits: 12,
            copied: 3,
            touched: 4,
            pages: [PageSum { page: 5, sum: 6 }; PAGES],
            old: false,
        }
    }

    #[test]
    fn a_mark_is_read_as_it_was_written_and_a_damaged_one_is_none() {
        let root = tempfile::tempdir().expect("a directory");
        assert_eq!(Mark::read(root.path()), None);
        let mut file = MarkFile::new(root.path());
        for mark in [Mark::default(), some()] {
            file.write(&mark);
            assert_eq!(Mark::read(root.path()), Some(mark));
        }
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
        forget(root.path()).expect("forgotten");
        assert_eq!(Mark::read(root.path()), None);
    }

    #[test]
    fn a_mark_of_an_older_version_is_read_and_replaced() {
        let root = tempfile::tempdir().expect("a directory");
        let mut bytes = [7u32.to_le_bytes(), 8u32.to_le_bytes()].concat();
        bytes.extend(41u64.to_le_bytes());
        bytes.extend(checksum(&bytes));
        fs::write(root.path().join(NAME), &bytes).expect("written");
        let mark = Mark::read(root.path()).expect("a mark");
        assert!(mark.old);
        assert_eq!((mark.log.salts, mark.frames), ((7, 8), 41));
        MarkFile::new(root.path()).write(&some());
        assert_eq!(Mark::read(root.path()), Some(some()));
    }
}
